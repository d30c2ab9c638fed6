/* SPDX-License-Identifier: Apache-2.0 */
/* Costs say where in the period of a stack the layers begin: at the smallest bottlenecks and, of
 * these, those from which recomputing the stack costs least. So a layer with its norm after the
 * sum begins before the norm: the norm needs the sum, and a layer that has it need not recompute
 * the product before it. */
#include "closure.h"

#include "border.h"
#include "stacks.h"

#include <assert.h>

struct layer_finder {
    struct remat_arena *arena;
    const struct remat_graph *graph;
    struct remat_model *model;
    struct remat_stacks stacks;
    remat_layer *of_node; /* none outside */
};

/* --- where layers begin --- */

/* Number of a span's layer in its stack, where the first whole layer begins with `shift`. */
static uint32_t layer_at(const struct remat_stack *stack, uint32_t shift, remat_span_id span)
{
    return shift == 0 ? span.i / stack->period : (span.i + stack->period - shift) / stack->period;
}

/* In the stack only the values that end layers are saved; elsewhere all are. */
static bool is_saved(const struct layer_finder *l, remat_stack_id k, uint32_t shift, remat_item i)
{
    const struct remat_stack *stack = &l->stacks.stacks[k.i];
    remat_value v = l->model->item_value[i.i];
    remat_node node = remat_producer(l->graph, v);
    if (l->stacks.stack_of[node.i].i != k.i || !remat_is_candidate(l->model->settled, v))
        return true;
    remat_span_id span = l->stacks.span_of[node.i], next = {span.i + 1};
    return stack->bottlenecks[span.i].i == v.i &&
           layer_at(stack, shift, span) != layer_at(stack, shift, next);
}

static int64_t measure(const struct layer_finder *l, struct remat_arena *scratch, remat_stack_id k,
                       uint32_t shift)
{
    const struct remat_border *border = &l->model->border;
    uint8_t *times;
    REMAT_NEW(scratch, times, border->item_count);
    for (remat_item i = {0}; i.i < border->item_count; i.i++)
        times[i.i] = !is_saved(l, k, shift, i);
    struct remat_border_choice choice = remat_border_follow(scratch, border, times);
    remat_border_measure(scratch, border, &choice);
    remat_arena_reset(scratch);
    return choice.cost_ps;
}

static uint32_t find_shift(const struct layer_finder *l, remat_stack_id k)
{
    uint32_t out;
    const struct remat_stack *stack = &l->stacks.stacks[k.i];
    uint64_t least_bytes = UINT64_MAX;
    int64_t least_ps = INT64_MAX;
    struct remat_arena *scratch = remat_scratch_open(l->arena->ctx);
    for (uint32_t shift = 0; shift < stack->period; shift++) {
        remat_value end = stack->bottlenecks[(shift + stack->period - 1) % stack->period];
        uint64_t bytes = remat_storage_bytes(&l->graph->values[end.i]);
        if (bytes > least_bytes)
            continue;
        int64_t ps = measure(l, scratch, k, shift);
        if (bytes < least_bytes || ps < least_ps) {
            out = shift;
            least_ps = ps;
        }
        least_bytes = bytes;
    }
    remat_scratch_close(scratch);
    return out;
}

/* --- which nodes they have --- */

static void number_stacks(struct layer_finder *l)
{
    for (remat_stack_id k = {0}; k.i < l->stacks.count; k.i++) {
        const struct remat_stack *stack = &l->stacks.stacks[k.i];
        uint32_t shift = find_shift(l, k), before = l->model->layer_count;
        for (uint32_t n = 0; n < l->graph->node_count; n++)
            if (l->stacks.stack_of[n].i == k.i)
                l->of_node[n].i = before + layer_at(stack, shift, l->stacks.span_of[n]);
        l->model->layer_count += layer_at(stack, shift, (remat_span_id){stack->length - 1}) + 1;
    }
}

/* In the order of their last nodes, which are bottlenecks. The nodes before the first whole layer,
 * and those after the last, are a layer only if they have a product. */
static void order(struct layer_finder *l)
{
    const struct remat_graph *g = l->graph;
    uint32_t all = l->model->layer_count, count = 0;
    remat_node *last;
    remat_layer *number;
    bool *product;
    REMAT_NEW(l->arena, last, all);
    REMAT_NEW(l->arena, number, all);
    REMAT_NEW(l->arena, product, all);
    for (uint32_t n = 0; n < g->node_count; n++)
        if (!remat_is_none(l->of_node[n].i)) {
            last[l->of_node[n].i].i = n;
            product[l->of_node[n].i] |= remat_op_has(g->nodes[n].op, REMAT_FACT_COMPUTE_HEAVY);
        }
    for (uint32_t n = 0; n < g->node_count; n++)
        if (!remat_is_none(l->of_node[n].i) && last[l->of_node[n].i].i == n)
            number[l->of_node[n].i].i = product[l->of_node[n].i] ? count++ : REMAT_NONE;
    for (uint32_t n = 0; n < g->node_count; n++)
        if (!remat_is_none(l->of_node[n].i))
            l->of_node[n] = number[l->of_node[n].i];
    l->model->layer_count = count;
}

/* --- values that layers pass on --- */

/* By root: a layer computes it, or something that it is made of. */
static bool *find_made(const struct layer_finder *l)
{
    bool *out;
    const remat_value *root = l->model->settled->facts.root;
    REMAT_NEW(l->arena, out, l->graph->value_count);
    for (uint32_t n = 0; n < l->graph->node_count; n++) {
        const struct remat_node_info *node = &l->graph->nodes[n];
        bool made = !remat_is_none(l->of_node[n].i);
        for (uint32_t i = 0; i < node->input_count; i++)
            made |= out[root[node->inputs[i].i].i];
        for (uint32_t o = 0; o < node->output_count; o++)
            out[root[node->outputs[o].i].i] |= made;
    }
    return out;
}

/* By root: enum remat_reach. */
static uint8_t *find_reach(const struct layer_finder *l)
{
    uint8_t *out;
    const struct remat_graph *g = l->graph;
    const bool *made = find_made(l);
    REMAT_NEW(l->arena, out, g->value_count);
    for (uint32_t n = 0; n < g->node_count; n++)
        for (uint32_t i = 0;
             remat_in_forward_pass(g->nodes[n].phase) && i < g->nodes[n].input_count; i++) {
            remat_value root = l->model->settled->facts.root[g->nodes[n].inputs[i].i];
            remat_node node = remat_producer(g, root);
            if (!made[root.i] || remat_is_none(node.i))
                continue;
            remat_layer writer = l->of_node[node.i], reader = l->of_node[n];
            bool beyond = remat_is_none(writer.i) || remat_is_none(reader.i);
            uint8_t reach = beyond ? REMAT_REACH_OUTSIDE : REMAT_REACH_LAYERS;
            if (writer.i != reader.i && reach > out[root.i])
                out[root.i] = reach;
        }
    return out;
}

/* --- layers --- */

void remat_model_layers(struct remat_arena *arena, struct remat_model *model)
{
    assert(model->item_of && (model->item_value || !model->item_count));
    const struct remat_graph *g = model->settled->graph;
    struct layer_finder l = {.arena = arena, .graph = g, .model = model};
    bool *written;
    REMAT_NEW(arena, written, g->value_count);
    for (uint32_t v = 0; v < g->value_count; v++)
        written[v] = !remat_is_none(model->item_of[v].i);
    REMAT_NEW(arena, l.of_node, g->node_count);
    memset(l.of_node, 0xff, g->node_count * sizeof *l.of_node);
    remat_stacks_find(arena, g, written, &l.stacks);
    number_stacks(&l);
    order(&l);
    const uint8_t *reach = find_reach(&l);
    model->layer_of_node = l.of_node;
    REMAT_NEW(arena, model->item_layer, model->item_count);
    REMAT_NEW(arena, model->item_reach, model->item_count);
    for (uint32_t i = 0; i < model->item_count; i++) {
        remat_value v = model->item_value[i];
        model->item_layer[i] = l.of_node[remat_producer(g, v).i];
        model->item_reach[i] = reach[v.i];
    }
}
