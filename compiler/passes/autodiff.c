/* SPDX-License-Identifier: Apache-2.0 */
/* Reverse-mode differentiation of the loss by every trainable parameter; nothing where there is
 * none.
 *
 * Nodes are visited from the last to the first; each whose result has a gradient hands
 * contributions to its operands. Contributions to one value are added as they arrive, the newest on
 * the right: last user first, and within one user in the order of its operands. So a sum is
 * complete when its value's producer is visited, and a parameter's after the first of its users. */
#include "builder.h"
#include "passes.h"

#include <assert.h>

enum { NODES_DERIVED = 8 }; /* for each node room for so many, so that mostly nothing moves */

struct autodiff {
    struct remat_arena *arena;
    struct remat_graph *graph;     /* a copy that grows */
    bool *needed;                  /* of each old value: depends on a trainable parameter */
    remat_value *gradients;        /* of each old value */
    struct REMAT_LIST(bool) named; /* of each value so far: it is some value's gradient already */
    struct remat_builder b;
};

static bool is_trainable(const struct remat_value_info *value)
{
    return value->role == REMAT_ROLE_PARAMETER && value->trainable && remat_is_none(value->node.i);
}

static void find_needed(struct autodiff *a)
{
    const struct remat_graph *graph = a->graph;
    REMAT_NEW(a->arena, a->needed, graph->value_count);
    REMAT_NEW(a->arena, a->gradients, graph->value_count);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        a->needed[v] = is_trainable(&graph->values[v]);
        a->gradients[v] = REMAT_NO_VALUE;
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[n];
        bool needed = false;
        for (uint32_t k = 0; k < node->input_count; k++)
            needed = needed || a->needed[node->inputs[k].i];
        for (uint32_t k = 0; k < node->output_count; k++)
            a->needed[node->outputs[k].i] =
                needed && remat_dtype_is_float(graph->values[node->outputs[k].i].dtype);
    }
}

/* --- names --- */

/* Names a complete gradient after its value, unless it is another value's too. */
static void name_gradient(struct autodiff *a, remat_value value)
{
    remat_value gradient = a->gradients[value.i];
    if (remat_is_none(gradient.i) || a->named.items[gradient.i])
        return;
    const char *name = REMAT_FORMAT(a->arena, "%s.grad", a->graph->values[value.i].name);
    a->graph->values[gradient.i].name = name;
    a->named.items[gradient.i] = true;
}

/* `named` covers all values added so far. */
static void extend_builtin(struct autodiff *a)
{
    while (a->named.count < a->graph->value_count)
        REMAT_PUSH(a->arena, &a->named, false);
}

/* --- nodes --- */

static void contribute(struct autodiff *a, remat_value value, remat_value contribution)
{
    assert(remat_type_equal(&a->graph->values[value.i], &a->graph->values[contribution.i]));
    remat_value *sum = &a->gradients[value.i];
    *sum = remat_is_none(sum->i) ? contribution
                                 : remat_build2(&a->b, REMAT_OP_add, *sum, contribution);
}

/* Only the first output has a gradient: the others are there for the backward pass. */
static remat_status check_derivable(struct autodiff *a, const struct remat_node_info *node)
{
    const struct remat_op_info *op = remat_op_info(node->op);
    const char *name = a->graph->values[node->outputs[0].i].name;
    if (!op->derive)
        return remat_error(a->arena->ctx, REMAT_ERROR_INVALID, "node \"%s\": %s has no derivative",
                           name, op->name);
    for (uint32_t k = 1; k < node->output_count; k++)
        if (!remat_is_none(a->gradients[node->outputs[k].i].i))
            return remat_error(a->arena->ctx, REMAT_ERROR_INVALID,
                               "node \"%.200s\" (%s): no derivative by output %u (\"%.600s\")",
                               name, op->name, k, a->graph->values[node->outputs[k].i].name);
    return REMAT_OK;
}

/* Whether some result has a gradient that some operand needs; names those that are complete now. */
static bool is_reached(struct autodiff *a, const struct remat_node_info *node)
{
    bool reached = false;
    extend_builtin(a);
    for (uint32_t k = 0; k < node->output_count; k++) {
        remat_value output = node->outputs[k];
        if (!a->needed[output.i] || remat_is_none(a->gradients[output.i].i))
            continue;
        reached = true;
        name_gradient(a, output);
    }
    return reached;
}

static remat_status visit(struct autodiff *a, remat_node n)
{
    const struct remat_node_info node = a->graph->nodes[n.i];
    if (!is_reached(a, &node))
        return REMAT_OK;
    REMAT_CHECK(check_derivable(a, &node));
    remat_value *in_gradients = remat_array(a->arena, node.input_count, sizeof *in_gradients);
    for (uint32_t k = 0; k < node.input_count; k++)
        in_gradients[k] = REMAT_NO_VALUE;
    const char *name = a->graph->values[node.outputs[0].i].name;
    a->b.scope = node.scope;
    a->b.counter = 0;
    a->b.prefix = REMAT_FORMAT(a->arena, "%s.grad", name);
    a->b.keep_origin = true;
    a->b.origin = node.origin;
    a->b.origin_group = a->graph->node_count;
    remat_op_info(node.op)->derive(&a->b, &node, a->gradients[node.outputs[0].i], in_gradients);
    a->b.keep_origin = false;
    for (uint32_t k = 0; k < node.input_count; k++)
        if (a->needed[node.inputs[k].i] && !remat_is_none(in_gradients[k].i))
            contribute(a, node.inputs[k], in_gradients[k]);
    return REMAT_OK;
}

/* --- the loss and the parameters --- */

static remat_status seed(struct autodiff *a)
{
    if (a->graph->output_count == 0)
        return remat_error(a->arena->ctx, REMAT_ERROR_INVALID, "the graph has no output to derive");
    remat_value loss = a->graph->outputs[0];
    const struct remat_value_info info = a->graph->values[loss.i];
    if (info.dtype != REMAT_F32 || remat_shape_elements(&info.shape) != 1)
        return remat_error(a->arena->ctx, REMAT_ERROR_INVALID,
                           "the loss \"%s\" is not one f32 element", info.name);
    a->b.prefix = REMAT_FORMAT(a->arena, "%s.seed", info.name);
    if (!remat_is_none(info.node.i))
        a->b.scope = a->graph->nodes[info.node.i].scope;
    remat_value one = remat_build_constant(&a->b, 1);
    a->gradients[loss.i] = remat_build_reshape(&a->b, one, info.shape.dims, info.shape.rank);
    return REMAT_OK;
}

/* A parameter's gradient is a value of its own, with bytes of its own: where the derivative is a
 * view or some other value's gradient, it is copied (times one is exact). */
static remat_status finish_parameter(struct autodiff *a, remat_value parameter)
{
    remat_value gradient = a->gradients[parameter.i];
    const char *name = a->graph->values[parameter.i].name;
    if (remat_is_none(gradient.i))
        return remat_error(a->arena->ctx, REMAT_ERROR_INVALID,
                           "parameter \"%s\": the loss does not depend on it", name);
    extend_builtin(a);
    const struct remat_node_info *node = remat_producer_info(a->graph, gradient);
    if (a->named.items[gradient.i] || remat_op_has(node->op, REMAT_FACT_VIEW) ||
        node->op == REMAT_OP_constant) {
        a->b.scope = node->scope;
        a->b.prefix = REMAT_FORMAT(a->arena, "%s.grad", name);
        a->b.counter = 0;
        remat_dtype dtype = a->graph->values[gradient.i].dtype;
        gradient = remat_build_cast(&a->b, gradient, REMAT_F32);
        gradient = remat_build2(&a->b, REMAT_OP_mul, gradient, remat_build_constant(&a->b, 1));
        gradient = remat_build_cast(&a->b, gradient, dtype);
        a->gradients[parameter.i] = gradient;
        extend_builtin(a);
    }
    name_gradient(a, parameter);
    a->graph->values[gradient.i].role = REMAT_ROLE_GRADIENT;
    return REMAT_OK;
}

/* Whether there is something to derive by, and no gradient yet. */
static bool is_wanted(const struct remat_graph *graph)
{
    bool trainable = false;
    for (uint32_t v = 0; v < graph->value_count; v++) {
        if (graph->values[v].role == REMAT_ROLE_GRADIENT)
            return false;
        trainable |= is_trainable(&graph->values[v]);
    }
    return trainable;
}

REMAT_PASS(autodiff)
{
    struct autodiff a = {.arena = arena};
    if (!is_wanted(graph))
        return remat_pass_nothing(graph, out);
    a.graph = remat_graph_copy(arena, graph, NODES_DERIVED);
    *out = a.graph;
    a.b = (struct remat_builder){.arena = arena, .graph = a.graph, .phase = REMAT_PHASE_BACKWARD};
    find_needed(&a);
    REMAT_CHECK(seed(&a));
    for (remat_node n = {graph->node_count}; n.i-- > 0;)
        REMAT_CHECK(visit(&a, n));
    for (remat_value v = {0}; v.i < graph->value_count; v.i++)
        if (is_trainable(&graph->values[v.i]))
            REMAT_CHECK(finish_parameter(&a, v));
    return REMAT_OK;
}
