/* SPDX-License-Identifier: Apache-2.0 */
/* The rest is made as any problem, from parts. Storages of aliases are inputs in a problem already,
 * so parts need no aliases. */
#include "idle.h"

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

/* Further ways, with the numbers that nodes have in the rest. */
static void copy_ways(struct remat_arena *arena, const struct remat_problem *p,
                      const uint32_t *number, struct remat_problem_parts *parts)
{
    struct remat_way *ways;
    uint32_t *fused;
    parts->way_count = p->way_count - p->node_count;
    REMAT_NEW(arena, ways, parts->way_count);
    REMAT_NEW(arena, fused, p->fused_begin[p->way_count]);
    for (uint32_t w = p->node_count; w < p->way_count; w++) {
        uint32_t begin = p->fused_begin[w], end = p->fused_begin[w + 1];
        for (uint32_t i = begin; i < end; i++)
            fused[i] = number[p->fused[i]];
        ways[w - p->node_count] = (struct remat_way){
            number[p->node_of[w]], p->time[w], workspace_of(p, w), fused + begin, end - begin};
    }
    parts->ways = ways;
}

static remat_status make_rest(struct remat_arena *arena, const struct remat_problem *p,
                              struct remat_idle *out)
{
    remat_status st = REMAT_OK;
    uint32_t n = p->node_count - out->count, *number, *begin, *inputs, at = 0;
    double *time;
    uint64_t *bytes, *workspace, *lasting;
    bool *once;
    REMAT_NEW(arena, number, p->node_count);
    REMAT_NEW(arena, begin, (size_t)n + 1);
    REMAT_NEW(arena, inputs, p->edge_count);
    REMAT_NEW(arena, time, n);
    REMAT_NEW(arena, bytes, n);
    REMAT_NEW(arena, workspace, n);
    REMAT_NEW(arena, lasting, n);
    REMAT_NEW(arena, once, n);
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
    for (uint32_t w = p->node_count; w < p->way_count; w++)
        out->way_of[at++] = w;
    struct remat_problem_parts parts = {.node_count = n,
                                        .time = time,
                                        .bytes = bytes,
                                        .input_begin = begin,
                                        .inputs = inputs,
                                        .static_bytes = p->static_bytes,
                                        .workspace = workspace,
                                        .lasting = lasting,
                                        .once = once};
    copy_ways(arena, p, number, &parts);
    REMAT_TRY(remat_problem_create(arena->ctx, arena, &parts, &out->rest));
fail:
    return st;
}

remat_status remat_idle_find(struct remat_arena *arena, const struct remat_problem *p,
                             struct remat_idle *out)
{
    remat_status st = REMAT_OK;
    *out = (struct remat_idle){0};
    REMAT_NEW(arena, out->idle, p->node_count);
    for (uint32_t v = 0; v < p->node_count; v++) {
        out->idle[v] = is_idle(p, v);
        out->count += out->idle[v];
    }
    if (out->count == p->node_count)
        out->count = 0;
    if (out->count > 0)
        REMAT_TRY(make_rest(arena, p, out));
fail:
    return st;
}

/* Idle nodes below `end` that have not run. */
static void run_idle(const struct remat_idle *idle, uint32_t end, uint32_t *next,
                     struct remat_sequence *out)
{
    for (; *next < end; (*next)++)
        if (idle->idle[*next])
            out->items[out->count++] = *next;
}

void remat_idle_restore(struct remat_arena *arena, const struct remat_problem *p,
                        const struct remat_idle *idle, const struct remat_sequence *sequence,
                        struct remat_sequence *out)
{
    uint32_t next = 0;
    *out = (struct remat_sequence){.capacity = sequence->count + idle->count};
    REMAT_NEW(arena, out->items, out->capacity);
    for (size_t i = 0; i < sequence->count; i++) {
        uint32_t way = idle->way_of[sequence->items[i]];
        run_idle(idle, p->node_of[way], &next, out);
        out->items[out->count++] = way;
    }
    run_idle(idle, p->node_count, &next, out);
}
