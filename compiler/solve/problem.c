/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of a problem and the arrays derived from it. */
#include "problem.h"

#include <math.h>
#include <stdlib.h>

#define NO_ALIAS UINT32_MAX

struct builder {
    remat_context *ctx;
    struct remat_arena *arena;
    const struct remat_problem_parts *parts;
    struct remat_problem *out;
    uint32_t *storage;   /* by node: whose storage its value lies in */
    bool *is_storage;    /* of another node's value */
    bool *mark, *fusing; /* by node, all false between uses */
    struct REMAT_LIST(uint32_t) inputs, fused;
    uint64_t bytes; /* of everything so far */
    double time;
};

/* `node 12 ("conv1"): ` and what is wrong with it. */
static remat_status refuse(const struct builder *b, uint32_t node, const char *what)
{
    const char *const *names = b->parts->names;
    if (names)
        return remat_error(b->ctx, REMAT_ERROR_INVALID, "node %u (\"%s\"): %s", node, names[node],
                           what);
    return remat_error(b->ctx, REMAT_ERROR_INVALID, "node %u: %s", node, what);
}

#define REFUSE(b, node, ...) refuse((b), (node), REMAT_FORMAT((b)->arena, __VA_ARGS__))

uint64_t remat_problem_working_set_of_way(const struct remat_problem *p, uint32_t way)
{
    uint64_t bytes = p->bytes[p->node_of[way]] + p->workspace[way];
    for (uint32_t e = p->input_begin[way]; e < p->input_begin[way + 1]; e++)
        bytes += p->bytes[p->inputs[e]];
    return bytes;
}

uint64_t remat_problem_working_set(const struct remat_problem *p, uint32_t node)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = p->way_begin[node]; i < p->way_begin[node + 1]; i++) {
        uint64_t bytes = remat_problem_working_set_of_way(p, p->ways[i]);
        least = bytes < least ? bytes : least;
    }
    return least;
}

bool remat_problem_reads(const struct remat_problem *p, uint32_t way, uint32_t node)
{
    return remat_contains(p->inputs + p->input_begin[way], remat_problem_input_count(p, way), node);
}

/* Inputs and aliases; whose storage each value lies in. */
static remat_status check_nodes(struct builder *b)
{
    const struct remat_problem_parts *parts = b->parts;
    for (uint32_t v = 0; v < parts->node_count; v++) {
        uint32_t u = parts->alias ? parts->alias[v] : NO_ALIAS;
        for (uint32_t e = parts->input_begin[v]; e < parts->input_begin[v + 1]; e++)
            if (parts->inputs[e] >= v)
                return REFUSE(b, v, "input %u is not an earlier node (inputs are numbers below %u)",
                              parts->inputs[e], v);
        b->storage[v] = v;
        if (u == NO_ALIAS)
            continue;
        if (u >= v)
            return REFUSE(b, v, "alias %u is not an earlier node", u);
        if (parts->bytes[v])
            return REFUSE(b, v, "an alias has no bytes of its own, but these are %llu",
                          (unsigned long long)parts->bytes[v]);
        b->storage[v] = b->storage[u];
        b->is_storage[b->storage[u]] = true;
    }
    return REMAT_OK;
}

static int compare(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static void sort(uint32_t *items, size_t begin, size_t end)
{
    if (end > begin)
        qsort(items + begin, end - begin, sizeof *items, compare);
}

/* Appends, once each, what a node reads and the storages of that; marks it. */
static void push_reads(struct builder *b, uint32_t v)
{
    const struct remat_problem_parts *parts = b->parts;
    for (uint32_t e = parts->input_begin[v]; e < parts->input_begin[v + 1]; e++) {
        uint32_t u = parts->inputs[e], both[] = {u, b->storage[u]};
        for (int i = 0; i < 2; i++)
            if (!b->mark[both[i]]) {
                b->mark[both[i]] = true;
                REMAT_PUSH(b->arena, &b->inputs, both[i]);
            }
    }
}

static remat_status push_fused(struct builder *b, const struct remat_way *way)
{
    size_t first = b->fused.count;
    for (uint32_t i = 0; i < way->fused_count; i++) {
        uint32_t u = way->fused[i];
        const char *wrong = NULL;
        if (u >= way->node)
            wrong = "is not an earlier node";
        else if (b->fusing[u])
            wrong = "is listed twice";
        else if (b->is_storage[u])
            wrong = "has aliases";
        else if (b->parts->once && b->parts->once[u])
            wrong = "may not be recomputed";
        if (wrong)
            return REFUSE(b, way->node, "fused %u %s", u, wrong);
        b->fusing[u] = true;
        REMAT_PUSH(b->arena, &b->fused, u);
    }
    sort(b->fused.items, first, b->fused.count);
    return REMAT_OK;
}

/* The inputs of the node and of what is fused, without what is fused. A fused node has a larger
 * number than its inputs, so one pass downwards finds them all. */
static remat_status push_way(struct builder *b, const struct remat_way *way)
{
    size_t first = b->inputs.count, kept = first;
    REMAT_CHECK(push_fused(b, way));
    push_reads(b, way->node);
    for (uint32_t i = way->fused_count; i-- > 0;) {
        uint32_t u = b->fused.items[b->fused.count - way->fused_count + i];
        if (!b->mark[u])
            return REFUSE(b, way->node, "fused %u is read by nothing in the way", u);
        push_reads(b, u);
    }
    for (size_t i = first; i < b->inputs.count; i++) {
        uint32_t u = b->inputs.items[i];
        b->mark[u] = false;
        if (!b->fusing[u])
            b->inputs.items[kept++] = u;
    }
    for (uint32_t i = 0; i < way->fused_count; i++)
        b->fusing[way->fused[i]] = false;
    b->inputs.count = kept;
    sort(b->inputs.items, first, kept);
    if (kept > REMAT_PROBLEM_EDGES_MAX || b->fused.count > REMAT_PROBLEM_EDGES_MAX)
        return REFUSE(b, way->node, "more than %u inputs up to here", REMAT_PROBLEM_EDGES_MAX);
    return REMAT_OK;
}

/* The ways of each node; what each reads and fuses. */
static remat_status make_ways(struct builder *b)
{
    struct remat_problem *p = b->out;
    const struct remat_way *given = b->parts->ways;
    uint32_t *node_of, *begin, *fused_begin, *ways;
    bool *fusible;
    REMAT_NEW(b->arena, node_of, p->way_count);
    REMAT_NEW(b->arena, begin, (size_t)p->way_count + 1);
    REMAT_NEW(b->arena, fused_begin, (size_t)p->way_count + 1);
    REMAT_NEW(b->arena, fusible, p->node_count);
    for (uint32_t w = 0; w < p->way_count; w++) {
        struct remat_way way = {.node = w};
        if (w >= p->node_count)
            way = given[w - p->node_count];
        if (way.node >= p->node_count)
            return remat_error(b->ctx, REMAT_ERROR_INVALID,
                               "way %u is of node %u, which there is not", w - p->node_count,
                               way.node);
        REMAT_CHECK(push_way(b, &way));
        node_of[w] = way.node;
        begin[w + 1] = (uint32_t)b->inputs.count;
        fused_begin[w + 1] = (uint32_t)b->fused.count;
    }
    for (size_t i = 0; i < b->fused.count; i++)
        fusible[b->fused.items[i]] = true;
    p->node_of = node_of;
    p->way_begin = remat_group(b->arena, node_of, p->way_count, p->node_count, &ways);
    p->ways = ways;
    p->edge_count = begin[p->node_count];
    p->input_begin = begin;
    p->inputs = b->inputs.items;
    p->fused_begin = fused_begin;
    p->fused = b->fused.items;
    p->fusible = fusible;
    return REMAT_OK;
}

static void find_users(struct remat_arena *arena, struct remat_problem *p)
{
    uint32_t *reader, *users; /* by edge */
    REMAT_NEW(arena, reader, p->edge_count);
    for (uint32_t v = 0; v < p->node_count; v++)
        for (uint32_t e = p->input_begin[v]; e < p->input_begin[v + 1]; e++)
            reader[e] = v;
    p->user_begin = remat_group(arena, p->inputs, p->edge_count, p->node_count, &users);
    for (uint32_t i = 0; i < p->edge_count; i++)
        users[i] = reader[users[i]];
    p->users = users;
}

static remat_status add_bytes(struct builder *b, uint32_t node, uint64_t bytes)
{
    return remat_add_u64(b->bytes, bytes, &b->bytes) && b->bytes <= REMAT_PROBLEM_BYTES_MAX
               ? REMAT_OK
               : refuse(b, node, "bytes add up to more than 2^60");
}

static remat_status add_time(struct builder *b, uint32_t node, double time)
{
    if (!isfinite(time) || time < 0)
        return REFUSE(b, node, "time %g is not a finite number from 0 on", time);
    b->time += time;
    return b->time <= 1e300 ? REMAT_OK : refuse(b, node, "times add up to more than 1e300");
}

static remat_status copy_costs(struct builder *b)
{
    const struct remat_problem_parts *parts = b->parts;
    struct remat_problem *p = b->out;
    double *times;
    uint64_t *sizes, *workspace, *lasting;
    bool *once;
    REMAT_NEW(b->arena, times, p->way_count);
    REMAT_NEW(b->arena, workspace, p->way_count);
    REMAT_NEW(b->arena, sizes, p->node_count);
    REMAT_NEW(b->arena, lasting, p->node_count);
    REMAT_NEW(b->arena, once, p->node_count);
    REMAT_CHECK(add_bytes(b, 0, parts->static_bytes));
    for (uint32_t w = 0; w < p->way_count; w++) {
        const struct remat_way *way = w < p->node_count ? NULL : &parts->ways[w - p->node_count];
        uint32_t v = p->node_of[w];
        uint64_t space = way ? way->workspace : parts->workspace ? parts->workspace[v] : 0;
        times[w] = way ? way->time : parts->time[v];
        workspace[w] = space + parts->static_bytes;
        REMAT_CHECK(add_time(b, v, times[w]));
        REMAT_CHECK(add_bytes(b, v, space));
        if (way)
            continue;
        p->total_time += times[w];
        sizes[v] = parts->bytes[v];
        lasting[v] = parts->lasting ? parts->lasting[v] : 0;
        once[v] = parts->once && parts->once[v];
        p->has_lasting |= lasting[v] > 0;
        p->has_once |= once[v];
        REMAT_CHECK(add_bytes(b, v, sizes[v]));
        REMAT_CHECK(add_bytes(b, v, lasting[v]));
    }
    p->time = times;
    p->bytes = sizes;
    p->workspace = workspace;
    p->lasting = lasting;
    p->once = once;
    p->static_bytes = parts->static_bytes;
    return REMAT_OK;
}

/* Whole times below 2^50 are kept exactly; others become about 2^44 steps of the total. */
static void make_ticks(struct remat_arena *arena, struct remat_problem *p)
{
    uint64_t *ticks, *least;
    double most = p->total_time;
    bool whole;
    REMAT_NEW(arena, ticks, p->way_count);
    REMAT_NEW(arena, least, p->node_count);
    for (uint32_t w = p->node_count; w < p->way_count; w++)
        most = p->time[w] > most ? p->time[w] : most;
    whole = most < 0x1p50;
    for (uint32_t w = 0; w < p->way_count; w++)
        whole = whole && p->time[w] == floor(p->time[w]);
    int exponent = 0;
    frexp(most, &exponent);
    p->tick = whole ? 1 : ldexp(1, exponent - 44 < -1000 ? -1000 : exponent - 44);
    for (uint32_t w = 0; w < p->way_count; w++)
        ticks[w] = (uint64_t)(p->time[w] / p->tick);
    for (uint32_t v = 0; v < p->node_count; v++) {
        double least_time = p->time[v];
        p->total_ticks += ticks[v];
        least[v] = ticks[v];
        for (uint32_t i = p->way_begin[v]; i < p->way_begin[v + 1]; i++) {
            uint32_t w = p->ways[i];
            least[v] = ticks[w] < least[v] ? ticks[w] : least[v];
            least_time = p->time[w] < least_time ? p->time[w] : least_time;
        }
        p->least_time += least_time;
    }
    p->ticks = ticks;
    p->least_ticks = least;
}

remat_status remat_problem_create(remat_context *ctx, struct remat_arena *arena,
                                  const struct remat_problem_parts *parts,
                                  struct remat_problem *out)
{
    struct builder b = {.ctx = ctx, .arena = arena, .parts = parts, .out = out};
    uint32_t n = parts->node_count;
    *out = (struct remat_problem){.node_count = n};
    if (n == 0)
        return remat_error(ctx, REMAT_ERROR_INVALID, "the problem has no nodes");
    if (n > REMAT_PROBLEM_NODES_MAX || parts->way_count > REMAT_PROBLEM_NODES_MAX ||
        parts->input_begin[n] > REMAT_PROBLEM_EDGES_MAX)
        return remat_error(ctx, REMAT_ERROR_INVALID,
                           "%u nodes with %u ways and %u inputs are more than %u, %u and %u", n,
                           parts->way_count, parts->input_begin[n], REMAT_PROBLEM_NODES_MAX,
                           REMAT_PROBLEM_NODES_MAX, REMAT_PROBLEM_EDGES_MAX);
    out->way_count = n + parts->way_count;
    REMAT_NEW(arena, b.storage, n);
    REMAT_NEW(arena, b.is_storage, n);
    REMAT_NEW(arena, b.mark, n);
    REMAT_NEW(arena, b.fusing, n);
    REMAT_CHECK(check_nodes(&b));
    REMAT_NEW(arena, b.inputs.items, 0); /* offsets of lists that stay empty are taken, too */
    REMAT_NEW(arena, b.fused.items, 0);
    REMAT_CHECK(make_ways(&b));
    REMAT_CHECK(copy_costs(&b));
    find_users(arena, out);
    make_ticks(arena, out);
    return REMAT_OK;
}
