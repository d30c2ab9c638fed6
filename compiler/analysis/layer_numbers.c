/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis.h"

#include <stdlib.h>

static void number_stacks(struct remat_arena *arena, const struct remat_graph *graph,
                          struct remat_layer_numbers *out)
{
    const char **stacks;
    REMAT_NEW(arena, stacks, graph->scope_count);
    REMAT_NEW(arena, out->stack, graph->scope_count);
    for (uint32_t s = 0; s < graph->scope_count; s++) {
        const char *stack = graph->scopes[s].stack;
        uint32_t i = 0;
        while (stack && i < out->stack_count && strcmp(stacks[i], stack) != 0)
            i++;
        if (stack && i == out->stack_count)
            stacks[out->stack_count++] = stack;
        out->stack[s].i = stack ? i : REMAT_NONE;
    }
}

struct numbered {
    remat_layer_stack_id stack;
    int32_t layer;
    uint32_t scope;
};

static int compare(const void *a, const void *b)
{
    const struct numbered *x = a, *y = b;
    if (x->stack.i != y->stack.i)
        return x->stack.i < y->stack.i ? -1 : 1;
    return (x->layer > y->layer) - (x->layer < y->layer);
}

void remat_layers_number(struct remat_arena *arena, const struct remat_graph *graph,
                         struct remat_layer_numbers *out)
{
    struct numbered *order;
    uint32_t count = 0;
    *out = (struct remat_layer_numbers){0};
    number_stacks(arena, graph, out);
    REMAT_NEW(arena, order, graph->scope_count);
    REMAT_NEW(arena, out->number, graph->scope_count);
    memset(out->number, 0xff, graph->scope_count * sizeof *out->number);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        uint32_t s = graph->nodes[n].scope.i;
        if (graph->scopes[s].layer < 0 || out->number[s] == 0)
            continue;
        out->number[s] = 0;
        order[count++] = (struct numbered){out->stack[s], graph->scopes[s].layer, s};
    }
    qsort(order, count, sizeof *order, compare);
    for (uint32_t k = 0; k < count; k++) {
        out->count += k == 0 || compare(&order[k - 1], &order[k]) != 0;
        out->number[order[k].scope] = out->count - 1;
    }
}
