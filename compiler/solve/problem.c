/* Validation of a problem and the arrays derived from it. */
#include "problem.h"

#include <math.h>

static const char *node_text(struct remat_arena *arena, const char *const *names, uint32_t node)
{
    const char *text = names ? remat_arena_format(arena, "node %u (\"%s\")", node, names[node])
                             : remat_arena_format(arena, "node %u", node);
    return text ? text : "a node";
}

const char *remat_problem_node_text(struct remat_arena *arena, const struct remat_problem *problem,
                                    uint32_t node)
{
    return node_text(arena, problem->names, node);
}

uint64_t remat_problem_working_set(const struct remat_problem *p, uint32_t node)
{
    uint64_t bytes = p->bytes[node];
    for (uint32_t e = p->input_begin[node]; e < p->input_begin[node + 1]; e++)
        bytes += p->bytes[p->inputs[e]];
    return bytes;
}

static remat_status copy_inputs(remat_context *ctx, struct remat_arena *arena,
                                struct remat_problem *p, const uint32_t *begin,
                                const uint32_t *inputs)
{
    remat_status st = REMAT_OK;
    uint32_t *copy;
    REMAT_NEW(arena, copy, p->edge_count);
    for (uint32_t v = 0; v < p->node_count; v++) {
        for (uint32_t e = begin[v]; e < begin[v + 1]; e++) {
            uint32_t u = inputs[e], at = e;
            if (u >= v)
                REMAT_FAIL(ctx, REMAT_ERROR_INVALID,
                           "%s: input %u is not an earlier node (inputs are numbers below %u)",
                           node_text(arena, p->names, v), u, v);
            for (; at > begin[v] && copy[at - 1] > u; at--)
                copy[at] = copy[at - 1];
            if (at > begin[v] && copy[at - 1] == u)
                REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%s: input %u is listed twice",
                           node_text(arena, p->names, v), u);
            copy[at] = u;
        }
    }
    p->inputs = copy;
fail:
    return st;
}

static remat_status find_users(struct remat_arena *arena, struct remat_problem *p)
{
    remat_status st = REMAT_OK;
    uint32_t *begin, *users, *next;
    REMAT_NEW(arena, begin, (size_t)p->node_count + 1);
    REMAT_NEW(arena, next, p->node_count);
    REMAT_NEW(arena, users, p->edge_count);
    for (uint32_t e = 0; e < p->edge_count; e++)
        begin[p->inputs[e] + 1]++;
    for (uint32_t v = 0; v < p->node_count; v++)
        begin[v + 1] += begin[v];
    for (uint32_t v = 0; v < p->node_count; v++)
        for (uint32_t e = p->input_begin[v]; e < p->input_begin[v + 1]; e++)
            users[begin[p->inputs[e]] + next[p->inputs[e]]++] = v;
    p->user_begin = begin;
    p->users = users;
fail:
    return st;
}

static remat_status copy_costs(remat_context *ctx, struct remat_arena *arena,
                               struct remat_problem *p, const double *time, const uint64_t *bytes)
{
    remat_status st = REMAT_OK;
    double *times;
    uint64_t *sizes;
    REMAT_NEW(arena, times, p->node_count);
    REMAT_NEW(arena, sizes, p->node_count);
    for (uint32_t v = 0; v < p->node_count; v++) {
        if (!isfinite(time[v]) || time[v] < 0)
            REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%s: time %g is not a finite number from 0 on",
                       node_text(arena, p->names, v), time[v]);
        times[v] = time[v];
        sizes[v] = bytes[v];
        p->total_time += time[v];
        if (!remat_add_u64(p->total_bytes, bytes[v], &p->total_bytes) ||
            p->total_bytes > REMAT_PROBLEM_BYTES_MAX)
            REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%s: bytes add up to more than 2^60",
                       node_text(arena, p->names, v));
        if (!isfinite(p->total_time) || p->total_time > 1e300)
            REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%s: times add up to more than 1e300",
                       node_text(arena, p->names, v));
    }
    p->time = times;
    p->bytes = sizes;
fail:
    return st;
}

/* Whole times below 2^50 are kept exactly; others become about 2^44 steps of the total. */
static remat_status make_ticks(struct remat_arena *arena, struct remat_problem *p)
{
    remat_status st = REMAT_OK;
    uint64_t *ticks;
    bool whole = p->total_time < 0x1p50;
    REMAT_NEW(arena, ticks, p->node_count);
    for (uint32_t v = 0; v < p->node_count; v++)
        whole = whole && p->time[v] == floor(p->time[v]);
    int exponent = 0;
    frexp(p->total_time, &exponent);
    p->tick = whole ? 1 : ldexp(1, exponent - 44 < -1000 ? -1000 : exponent - 44);
    for (uint32_t v = 0; v < p->node_count; v++) {
        ticks[v] = (uint64_t)(p->time[v] / p->tick);
        p->total_ticks += ticks[v];
    }
    p->ticks = ticks;
fail:
    return st;
}

remat_status remat_problem_create(remat_context *ctx, struct remat_arena *arena,
                                  uint32_t node_count, const char *const *names, const double *time,
                                  const uint64_t *bytes, const uint32_t *input_begin,
                                  const uint32_t *inputs, struct remat_problem *out)
{
    remat_status st = REMAT_OK;
    uint32_t *begin;
    *out = (struct remat_problem){.node_count = node_count, .names = names};
    if (node_count == 0)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "the problem has no nodes");
    if (node_count > REMAT_PROBLEM_NODES_MAX || input_begin[node_count] > REMAT_PROBLEM_EDGES_MAX)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%u nodes with %u inputs are more than %u and %u",
                   node_count, input_begin[node_count], REMAT_PROBLEM_NODES_MAX,
                   REMAT_PROBLEM_EDGES_MAX);
    out->edge_count = input_begin[node_count];
    REMAT_NEW(arena, begin, (size_t)node_count + 1);
    memcpy(begin, input_begin, ((size_t)node_count + 1) * sizeof *begin);
    out->input_begin = begin;
    REMAT_TRY(copy_inputs(ctx, arena, out, input_begin, inputs));
    REMAT_TRY(copy_costs(ctx, arena, out, time, bytes));
    REMAT_TRY(find_users(arena, out));
    REMAT_TRY(make_ticks(arena, out));
fail:
    return st;
}
