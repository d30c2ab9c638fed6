/* SPDX-License-Identifier: Apache-2.0 */
/* Dijkstra over pairs of sets, with a bucket for each distance. Free a value: costs nothing. Run a
 * node in some mode: what the mode reads is live, its value is not, and everything fits. */
#include "oracle.h"

#include "check.h"

#include <stdio.h>
#include <stdlib.h>

enum { DISTANCES = 1 << 15 };

struct mode {
    remat_problem_node node;
    uint32_t reads, time, workspace; /* reads: a set */
};

struct bucket {
    uint32_t *states, count, capacity;
};

struct oracle {
    const struct remat_problem_parts *parts;
    uint64_t budget;
    bool want_peak; /* distance is the largest live sum, else the time */
    struct mode modes[ORACLE_MODES_MAX];
    uint32_t mode_count;
    uint16_t *distance; /* by live set << node_count | done set */
    struct bucket *buckets;
};

static void *check(void *memory)
{
    MUST(memory);
    return memory;
}

static void push(struct oracle *o, uint32_t live, uint32_t done, uint64_t distance)
{
    uint32_t state = live << o->parts->node_count | done;
    MUST(distance < DISTANCES - 1, "%lu", (unsigned long)distance);
    if (distance >= o->distance[state])
        return;
    o->distance[state] = (uint16_t)distance;
    struct bucket *b = &o->buckets[distance];
    if (b->count == b->capacity) {
        b->capacity = b->capacity ? 2 * b->capacity : 64;
        b->states = check(realloc(b->states, b->capacity * sizeof *b->states));
    }
    b->states[b->count++] = state;
}

/* Static bytes, workspace and what lasts included. */
static uint64_t bytes_during(const struct oracle *o, uint32_t live, uint32_t done, uint32_t space)
{
    const struct remat_problem_parts *p = o->parts;
    uint64_t bytes = p->static_bytes + space;
    for (uint32_t v = 0; v < p->node_count; v++) {
        bytes += live >> v & 1 ? p->bytes[v] : 0;
        bytes += p->lasting && (done >> v & 1) ? p->lasting[v] : 0;
    }
    return bytes;
}

static void expand(struct oracle *o, uint32_t live, uint32_t done, uint64_t distance)
{
    for (uint32_t v = 0; v < o->parts->node_count; v++)
        if (live >> v & 1)
            push(o, live & ~(1u << v), done, distance);
    for (uint32_t i = 0; i < o->mode_count; i++) {
        const struct mode *w = &o->modes[i];
        uint32_t bit = 1u << w->node.i;
        if ((live & bit) || (live & w->reads) != w->reads)
            continue;
        if ((done & bit) && o->parts->once && o->parts->once[w->node.i])
            continue;
        uint64_t bytes = bytes_during(o, live | bit, done | bit, w->workspace), next;
        if (bytes > o->budget)
            continue;
        next = o->want_peak ? (bytes > distance ? bytes : distance) : distance + w->time;
        push(o, live | bit, done | bit, next);
    }
}

/* A value lies in the storage that its chain of aliases ends at. */
static remat_problem_node storage(const struct remat_problem_parts *p, remat_problem_node v)
{
    while (p->alias && p->alias[v.i].i != UINT32_MAX)
        v = p->alias[v.i];
    return v;
}

/* What running v reads, where values in `fused` are made on the way. */
static uint32_t reads(const struct remat_problem_parts *p, remat_problem_node v, uint32_t fused)
{
    uint32_t set = 0;
    for (uint32_t e = p->input_begin[v.i]; e < p->input_begin[v.i + 1]; e++) {
        remat_problem_node u = p->inputs[e];
        set |= fused >> u.i & 1 ? reads(p, u, fused) : 1u << u.i;
        set |= 1u << storage(p, u).i;
    }
    return set & ~fused;
}

static void list_modes(struct oracle *o)
{
    const struct remat_problem_parts *p = o->parts;
    for (remat_problem_node v = {0}; v.i < p->node_count; v.i++)
        o->modes[o->mode_count++] = (struct mode){v, reads(p, v, 0), (uint32_t)p->time[v.i],
                                                  p->workspace ? (uint32_t)p->workspace[v.i] : 0};
    for (uint32_t i = 0; i < p->mode_count; i++) {
        const struct remat_mode *w = &p->modes[i];
        uint32_t fused = 0;
        for (uint32_t k = 0; k < w->fused_count; k++)
            fused |= 1u << w->fused[k].i;
        o->modes[o->mode_count++] = (struct mode){w->node, reads(p, w->node, fused),
                                                  (uint32_t)w->time, (uint32_t)w->workspace};
    }
}

/* Both arrays serve all searches: each leaves the distances as it found them, all UINT16_MAX. */
static uint16_t *all_distances(void)
{
    static uint16_t *distances;
    size_t bytes = ((size_t)1 << 2 * ORACLE_NODES_MAX) * sizeof *distances;
    if (!distances)
        memset(distances = check(malloc(bytes)), 0xff, bytes);
    return distances;
}

static uint32_t search(struct oracle *o)
{
    static struct bucket buckets[DISTANCES];
    uint32_t n = o->parts->node_count, all = (1u << n) - 1, result = ORACLE_INFEASIBLE;
    list_modes(o);
    o->distance = all_distances();
    o->buckets = buckets;
    push(o, 0, 0, 0);
    for (uint32_t d = 0; d < DISTANCES && result == ORACLE_INFEASIBLE; d++)
        for (uint32_t i = 0; i < buckets[d].count && result == ORACLE_INFEASIBLE; i++) {
            uint32_t state = buckets[d].states[i];
            if (o->distance[state] < d)
                continue;
            if ((state & all) == all)
                result = d;
            else
                expand(o, state >> n, state & all, d);
        }
    for (uint32_t d = 0; d < DISTANCES; d++) {
        for (uint32_t i = 0; i < buckets[d].count; i++)
            o->distance[buckets[d].states[i]] = UINT16_MAX;
        buckets[d].count = 0;
    }
    return result;
}

uint32_t oracle_time(const struct remat_problem_parts *parts, uint64_t budget)
{
    struct oracle o = {.parts = parts, .budget = budget};
    return search(&o);
}

uint32_t oracle_peak(const struct remat_problem_parts *parts)
{
    struct oracle o = {.parts = parts, .budget = UINT64_MAX, .want_peak = true};
    return search(&o);
}
