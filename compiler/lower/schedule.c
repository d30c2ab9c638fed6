/* SPDX-License-Identifier: Apache-2.0 */
/* Edges, grouped by either end, then a depth-first walk in graph order; optimizer kernels are held
 * back from the walk and emitted when the last kernel they wait for is. */
#include "schedule.h"

struct scheduler {
    struct remat_arena *arena;
    const struct remat_graph *graph;
    const struct remat_kernel_list *kernels;
    remat_kernel_id *from, *to;                            /* by edge: `from` runs before `to` */
    uint32_t *before_begin, *before, *after_begin, *after; /* edges to and from each kernel */
    uint32_t *waiting; /* optimizer kernels: edges not yet satisfied */
    uint8_t *state;    /* 0 new, 1 on the walk's stack, 2 emitted */
    remat_kernel_id *order;
    uint32_t edge_count, count;
};

static enum remat_turn turn_of(const struct scheduler *s, remat_kernel_id k)
{
    return remat_turn_of(remat_kernel_at(s->kernels, k));
}

static void add_edge(struct scheduler *s, remat_kernel_id from, remat_kernel_id to)
{
    if (remat_is_none(from.i) || remat_is_none(to.i) || from.i == to.i)
        return;
    s->from[s->edge_count] = from;
    s->to[s->edge_count++] = to;
}

/* writer[v], replacer[v]: the kernel that makes version v, and that which replaces it in place. Two
 * passes over the operands: the first finds those. */
static void collect_edges(struct scheduler *s)
{
    size_t values = s->graph->value_count, operands = 0;
    remat_kernel_id *writer, *replacer;
    REMAT_NEW_UNINITIALIZED(s->arena, writer, values);
    REMAT_NEW_UNINITIALIZED(s->arena, replacer, values);
    memset(writer, 0xff, values * sizeof *writer);
    memset(replacer, 0xff, values * sizeof *replacer);
    for (remat_kernel_id k = {0}; k.i < s->kernels->count; k.i++)
        for (uint32_t o = 0; o < s->kernels->kernels[k.i].operand_count; o++, operands++) {
            const struct remat_kernel_operand *operand = &s->kernels->kernels[k.i].operands[o];
            if (operand->access & REMAT_ACCESS_WRITE)
                writer[operand->value.i] = k;
            if (operand->access == REMAT_ACCESS_UPDATE)
                replacer[operand->previous.i] = k;
        }
    REMAT_NEW_UNINITIALIZED(s->arena, s->from, 2 * operands);
    REMAT_NEW_UNINITIALIZED(s->arena, s->to, 2 * operands);
    for (remat_kernel_id k = {0}; k.i < s->kernels->count; k.i++)
        for (uint32_t o = 0; o < s->kernels->kernels[k.i].operand_count; o++) {
            remat_value read = remat_operand_read(&s->kernels->kernels[k.i].operands[o]);
            if (remat_is_none(read.i))
                continue;
            add_edge(s, writer[read.i], k);
            add_edge(s, k, replacer[read.i]);
        }
    uint32_t edges = s->edge_count, kernels = s->kernels->count;
    s->before_begin = remat_group_by_key(s->arena, &s->to->i, edges, kernels, &s->before);
    s->after_begin = remat_group_by_key(s->arena, &s->from->i, edges, kernels, &s->after);
}

static void append(struct scheduler *s, remat_kernel_id k)
{
    if (s->state[k.i] != 2)
        s->order[s->count++] = k;
    s->state[k.i] = 2;
}

static void emit(struct scheduler *s, remat_kernel_id k)
{
    for (uint32_t e = s->before_begin[k.i]; e < s->before_begin[k.i + 1]; e++)
        if (turn_of(s, s->from[s->before[e]]) == REMAT_TURN_BEFORE_READER)
            append(s, s->from[s->before[e]]);
    append(s, k);
    if (turn_of(s, k) == REMAT_TURN_BEFORE_READER)
        return;
    for (uint32_t e = s->after_begin[k.i]; e < s->after_begin[k.i + 1]; e++) {
        remat_kernel_id next = s->to[s->after[e]];
        if (turn_of(s, next) != REMAT_TURN_IN_ORDER && --s->waiting[next.i] == 0)
            emit(s, next);
    }
}

/* Depth is bounded by the longest chain that graph order does not already satisfy. */
static void visit(struct scheduler *s, remat_kernel_id k)
{
    if (s->state[k.i] == 2)
        return;
    assert(s->state[k.i] != 1); /* else it waits for itself */
    s->state[k.i] = 1;
    for (uint32_t e = s->before_begin[k.i]; e < s->before_begin[k.i + 1]; e++)
        visit(s, s->from[s->before[e]]);
    if (s->state[k.i] != 2)
        emit(s, k);
}

/* Optimizer kernels that wait for nothing. Exchanges of accumulators are the last of them, so that
 * all else is there and each is followed by its update. */
static void emit_first(struct scheduler *s, bool exchanges)
{
    for (remat_kernel_id k = {0}; k.i < s->kernels->count; k.i++)
        if (turn_of(s, k) == REMAT_TURN_EARLY && s->waiting[k.i] == 0 && s->state[k.i] == 0 &&
            (s->kernels->kernels[k.i].kind == REMAT_KERNEL_exchange) == exchanges)
            emit(s, k);
}

remat_kernel_id *remat_schedule(struct remat_arena *arena, const struct remat_graph *graph,
                                const struct remat_kernel_list *kernels)
{
    assert(kernels->count <= graph->node_count);
    struct scheduler s = {.arena = arena, .graph = graph, .kernels = kernels};
    REMAT_NEW_UNINITIALIZED(arena, s.order, kernels->count);
    collect_edges(&s);
    REMAT_NEW(arena, s.waiting, kernels->count);
    REMAT_NEW(arena, s.state, kernels->count);
    for (uint32_t e = 0; e < s.edge_count; e++)
        s.waiting[s.to[e].i] += turn_of(&s, s.from[e]) != REMAT_TURN_BEFORE_READER;
    emit_first(&s, false);
    emit_first(&s, true);
    for (remat_kernel_id k = {0}; k.i < kernels->count; k.i++)
        visit(&s, k);
    return s.order;
}
