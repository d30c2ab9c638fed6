/* SPDX-License-Identifier: Apache-2.0 */
/* The rest is made as any problem, from parts. Storages of aliases are inputs in a problem already,
 * so parts need no aliases. */
#include "idle.h"

#include <assert.h>

static uint64_t workspace_of(const struct remat_problem *p, uint32_t way)
{
    return p->workspace[way] - p->static_bytes;
}

static bool is_idle(const struct remat_problem *p, uint32_t v)
{
    bool apart = p->input_begin[v] == p->input_begin[v + 1] &&
                 p->user_begin[v] == p->user_begin[v + 1] && !p->fusible[v] &&
                 p->way_begin[v + 1] - p->way_begin[v] == 1;
    return apart && p->time[v] == 0 && p->bytes[v] == 0 && p->lasting[v] == 0 &&
           workspace_of(p, v) == 0;
}

static void make_rest(struct remat_arena *arena, const struct remat_problem *p,
                      struct remat_idle *out)
{
    uint32_t n = p->node_count - out->count, at = 0;
    uint32_t *number, *begin, *inputs, *fused; /* number: of a node in the rest */
    double *time;
    uint64_t *bytes, *workspace, *lasting;
    bool *once;
    struct remat_way *ways;
    REMAT_NEW(arena, number, p->node_count);
    REMAT_NEW(arena, begin, (size_t)n + 1);
    REMAT_NEW(arena, inputs, p->edge_count);
    REMAT_NEW(arena, fused, p->fused_begin[p->way_count]);
    REMAT_NEW(arena, time, n);
    REMAT_NEW(arena, bytes, n);
    REMAT_NEW(arena, workspace, n);
    REMAT_NEW(arena, lasting, n);
    REMAT_NEW(arena, once, n);
    REMAT_NEW(arena, ways, p->way_count - p->node_count);
    REMAT_NEW(arena, out->way_of, p->way_count - out->count);
    for (uint32_t v = 0; v < p->node_count; v++) {
        if (out->idle[v])
            continue;
        number[v] = at;
        out->way_of[at] = v;
        time[at] = p->time[v];
        bytes[at] = p->bytes[v];
        workspace[at] = workspace_of(p, v);
        lasting[at] = p->lasting[v];
        once[at] = p->once[v];
        begin[at + 1] = begin[at];
        for (uint32_t e = p->input_begin[v]; e < p->input_begin[v + 1]; e++)
            inputs[begin[at + 1]++] = number[p->inputs[e]];
        at++;
    }
    for (uint32_t i = 0; i < p->fused_begin[p->way_count]; i++)
        fused[i] = number[p->fused[i]];
    for (uint32_t w = p->node_count; w < p->way_count; w++) {
        out->way_of[at++] = w;
        ways[w - p->node_count] = (struct remat_way){number[p->node_of[w]], p->time[w],
                                                     workspace_of(p, w), fused + p->fused_begin[w],
                                                     p->fused_begin[w + 1] - p->fused_begin[w]};
    }
    struct remat_problem_parts parts = {.node_count = n,
                                        .time = time,
                                        .bytes = bytes,
                                        .input_begin = begin,
                                        .inputs = inputs,
                                        .static_bytes = p->static_bytes,
                                        .workspace = workspace,
                                        .lasting = lasting,
                                        .once = once,
                                        .ways = ways,
                                        .way_count = p->way_count - p->node_count};
    remat_status st = remat_problem_create(arena->ctx, arena, &parts, &out->rest);
    assert(st == REMAT_OK); /* as of the whole */
    (void)st;
}

bool remat_idle_find(struct remat_arena *arena, const struct remat_problem *p,
                     struct remat_idle *out)
{
    *out = (struct remat_idle){0};
    REMAT_NEW(arena, out->idle, p->node_count);
    for (uint32_t v = 0; v < p->node_count; v++) {
        out->idle[v] = is_idle(p, v);
        out->count += out->idle[v];
    }
    if (out->count == 0 || out->count == p->node_count)
        return false;
    make_rest(arena, p, out);
    return true;
}

struct remat_sequence remat_idle_restore(struct remat_arena *arena, const struct remat_problem *p,
                                         const struct remat_idle *idle,
                                         const struct remat_sequence *sequence)
{
    uint32_t next = 0; /* idle nodes below have run */
    struct remat_sequence out = {0};
    for (size_t i = 0; i <= sequence->count; i++) {
        bool end = i == sequence->count;
        uint32_t way = end ? p->way_count : idle->way_of[sequence->items[i]];
        for (; next < (end ? p->node_count : p->node_of[way]); next++)
            if (idle->idle[next])
                REMAT_PUSH(arena, &out, next);
        if (!end)
            REMAT_PUSH(arena, &out, way);
    }
    return out;
}
