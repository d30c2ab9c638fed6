/* SPDX-License-Identifier: Apache-2.0 */
/* Reverse-mode differentiation of the loss by every trainable parameter; nothing where there is
 * none.
 *
 * Nodes are visited from the last to the first; each whose result has a gradient hands
 * contributions to its operands. Contributions to one value are added as they arrive, the newest on
 * the right: last user first, and within one user in the order of its operands. So a sum is
 * complete when its value's producer is visited, and a parameter's after the first of its users. */
#include "passes.h"

struct autodiff {
    remat_context *ctx;
    struct remat_arena *arena;
    struct remat_graph *graph; /* a copy that grows */
    bool *needed;              /* of each old value: depends on a trainable parameter */
    remat_value *gradients;    /* of each old value */
    bool *named;               /* of each value that was added: some value's gradient already */
    size_t named_count;
    struct remat_builder b;
};

static bool is_trainable(const struct remat_value_info *value)
{
    return value->role == REMAT_ROLE_PARAMETER && value->trainable && value->node == REMAT_NONE;
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
                needed && graph->values[node->outputs[k].i].dtype != REMAT_I32;
    }
}

/* --- names --- */

/* Names a complete gradient after its value, unless it is another value's too. */
static void name_gradient(struct autodiff *a, remat_value value)
{
    remat_value gradient = a->gradients[value.i];
    if (remat_is_none(gradient.i) || a->named[gradient.i])
        return;
    const char *name = REMAT_FORMAT(a->arena, "%s.grad", a->graph->values[value.i].name);
    a->graph->values[gradient.i].name = name;
    a->named[gradient.i] = true;
}

/* `named` covers all values added so far. */
static void extend_named(struct autodiff *a)
{
    size_t count = a->graph->value_count;
    if (count <= a->named_count)
        return;
    bool *named;
    REMAT_NEW(a->arena, named, 2 * count);
    if (a->named_count)
        memcpy(named, a->named, a->named_count);
    a->named = named;
    a->named_count = 2 * count;
}

/* --- nodes --- */

static remat_status contribute(struct autodiff *a, remat_value value, remat_value contribution)
{
    const struct remat_value_info *info = &a->graph->values[value.i];
    const struct remat_value_info *gradient = &a->graph->values[contribution.i];
    if (!remat_shape_equal(&info->shape, &gradient->shape) || info->dtype != gradient->dtype)
        return remat_error(a->ctx, REMAT_ERROR_INTERNAL,
                           "gradient of \"%s\" has another shape or type", info->name);
    remat_value *sum = &a->gradients[value.i];
    *sum = remat_is_none(sum->i) ? contribution
                                 : remat_build2(&a->b, REMAT_OP_add, *sum, contribution);
    return a->b.status;
}

static void enter_node(struct autodiff *a, const struct remat_node_info *node)
{
    const char *name = a->graph->values[node->outputs[0].i].name;
    a->b.scope = node->scope;
    a->b.counter = 0;
    a->b.prefix = REMAT_FORMAT(a->arena, "%s.grad", name);
    a->b.keep_origin = true;
    a->b.origin = node->origin;
    a->b.origin_group = a->graph->node_count;
}

static remat_status derive(struct autodiff *a, uint32_t n, const remat_value *out_gradients,
                           remat_value *in_gradients)
{
    const struct remat_op_info *op = remat_op_info(a->graph->nodes[n].op);
    const char *name = a->graph->values[a->graph->nodes[n].outputs[0].i].name;
    if (!op->derive)
        return remat_error(a->ctx, REMAT_ERROR_INVALID, "node \"%s\": %s has no derivative", name,
                           op->name);
    remat_status st = op->derive(&a->b, (remat_node){n}, out_gradients, in_gradients);
    if (st != REMAT_ERROR_INVALID)
        return st;
    char reason[sizeof a->ctx->message];
    memcpy(reason, a->ctx->message, sizeof reason);
    return remat_error(a->ctx, st, "node \"%.200s\" (%s): %.700s", name, op->name, reason);
}

/* Whether some result has a gradient that some operand needs; names those that are complete now. */
static void collect(struct autodiff *a, const struct remat_node_info *node,
                    remat_value *out_gradients, bool *reached)
{
    *reached = false;
    extend_named(a);
    for (uint32_t k = 0; k < node->output_count; k++) {
        remat_value output = node->outputs[k];
        out_gradients[k] = a->gradients[output.i];
        if (!a->needed[output.i] || remat_is_none(out_gradients[k].i))
            continue;
        *reached = true;
        name_gradient(a, output);
    }
}

static remat_status visit(struct autodiff *a, uint32_t n)
{
    remat_status st = REMAT_OK;
    struct remat_node_info node = a->graph->nodes[n];
    remat_value *out_gradients, *in_gradients;
    bool reached;
    REMAT_NEW(a->arena, out_gradients, node.output_count);
    REMAT_NEW(a->arena, in_gradients, node.input_count);
    collect(a, &node, out_gradients, &reached);
    if (!reached)
        return REMAT_OK;
    for (uint32_t k = 0; k < node.input_count; k++)
        in_gradients[k] = REMAT_NO_VALUE;
    enter_node(a, &node);
    REMAT_TRY(derive(a, n, out_gradients, in_gradients));
    a->b.keep_origin = false;
    for (uint32_t k = 0; k < node.input_count; k++)
        if (a->needed[node.inputs[k].i] && !remat_is_none(in_gradients[k].i))
            REMAT_TRY(contribute(a, node.inputs[k], in_gradients[k]));
fail:
    return st;
}

/* --- the loss and the parameters --- */

static remat_status seed(struct autodiff *a)
{
    if (a->graph->output_count == 0)
        return remat_error(a->ctx, REMAT_ERROR_INVALID, "the graph has no output to derive");
    remat_value loss = a->graph->outputs[0];
    const struct remat_value_info info = a->graph->values[loss.i];
    if (info.dtype != REMAT_F32 || remat_shape_elements(&info.shape) != 1)
        return remat_error(a->ctx, REMAT_ERROR_INVALID, "the loss \"%s\" is not one f32 element",
                           info.name);
    a->b.prefix = REMAT_FORMAT(a->arena, "%s.seed", info.name);
    if (info.node != REMAT_NONE)
        a->b.scope = a->graph->nodes[info.node].scope;
    remat_value one = remat_build_constant(&a->b, 1);
    a->gradients[loss.i] = remat_build_reshape(&a->b, one, info.shape.dims, info.shape.rank);
    return a->b.status;
}

/* A parameter's gradient is a value of its own, with bytes of its own: where the derivative is a
 * view or some other value's gradient, it is copied (times one is exact). */
static remat_status finish_parameter(struct autodiff *a, remat_value parameter)
{
    remat_status st = REMAT_OK;
    remat_value gradient = a->gradients[parameter.i];
    const char *name = a->graph->values[parameter.i].name;
    if (remat_is_none(gradient.i))
        return remat_error(a->ctx, REMAT_ERROR_INVALID,
                           "parameter \"%s\": the loss does not depend on it", name);
    extend_named(a);
    const struct remat_node_info *node = &a->graph->nodes[a->graph->values[gradient.i].node];
    if (a->named[gradient.i] || remat_op_has(node->op, REMAT_FACT_VIEW) ||
        node->op == REMAT_OP_constant) {
        a->b.scope = node->scope;
        a->b.prefix = REMAT_FORMAT(a->arena, "%s.grad", name);
        a->b.counter = 0;
        remat_dtype dtype = a->graph->values[gradient.i].dtype;
        gradient = remat_build_cast(&a->b, gradient, REMAT_F32);
        gradient = remat_build2(&a->b, REMAT_OP_mul, gradient, remat_build_constant(&a->b, 1));
        gradient = remat_build_cast(&a->b, gradient, dtype);
        REMAT_TRY(a->b.status);
        a->gradients[parameter.i] = gradient;
        extend_named(a);
    }
    name_gradient(a, parameter);
    a->graph->values[gradient.i].role = REMAT_ROLE_GRADIENT;
fail:
    return st;
}

static bool is_joint(const struct remat_graph *graph)
{
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (graph->values[v].role == REMAT_ROLE_GRADIENT)
            return true;
    return false;
}

static bool is_training(const struct remat_graph *graph)
{
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (is_trainable(&graph->values[v]))
            return true;
    return false;
}

REMAT_PASS(autodiff)
{
    remat_status st = REMAT_OK;
    struct autodiff a = {.ctx = ctx, .arena = arena};
    a.graph = remat_graph_copy(ctx, arena, graph);
    *out = a.graph;
    if (is_joint(graph))
        return REMAT_OK;
    remat_builder_init(&a.b, ctx, arena, a.graph);
    a.b.phase = REMAT_PHASE_BACKWARD;
    find_needed(&a);
    if (!is_training(graph))
        return REMAT_OK;
    REMAT_TRY(seed(&a));
    for (uint32_t n = graph->node_count; n-- > 0;)
        REMAT_TRY(visit(&a, n));
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (is_trainable(&graph->values[v]))
            REMAT_TRY(finish_parameter(&a, (remat_value){v}));
fail:
    return st;
}
