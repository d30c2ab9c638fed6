/* SPDX-License-Identifier: Apache-2.0 */
/* Appends AdamW or SGD: the states and one node for every parameter with a gradient, in the order
 * in which the gradients are computed, and what all of them share. Updates are f32: a bf16
 * parameter is the rounded copy of a master, which is a state. Every update flags a gradient that
 * is not finite, in the output "not_finite". */
#include "passes.h"

struct appender {
    remat_context *ctx;
    struct remat_arena *arena;
    struct remat_graph *graph; /* a copy that grows */
    remat_value coefficients;  /* of AdamW; the learning rate of SGD */
    remat_value factor;        /* of all gradients, REMAT_NO_VALUE without a limit to their norm */
    remat_value flag;          /* 1 after a step with a gradient that is not finite, else 0 */
    struct remat_builder b;
};

static remat_value add_input(struct appender *a, const char *name, remat_dtype dtype,
                             struct remat_shape shape, uint8_t role)
{
    const struct remat_value_info info = {
        .name = name,
        .shape = shape,
        .dtype = dtype,
        .role = role,
        .initializer = role == REMAT_ROLE_OPTIMIZER_STATE ? REMAT_INIT_CONSTANT : REMAT_INIT_NONE,
        .node = REMAT_NONE,
    };
    return remat_graph_add_value(a->arena, a->graph, &info);
}

static remat_status add_coefficients(struct appender *a)
{
    remat_status st = REMAT_OK;
    const struct remat_optimizer *optimizer = &a->graph->optimizer;
    const struct remat_shape one = {1, {1}};
    const struct remat_attribute attributes[] = {
        remat_attribute_float("beta1", optimizer->beta1),
        remat_attribute_float("beta2", optimizer->beta2),
        remat_attribute_float("weight_decay", optimizer->weight_decay),
    };
    remat_value inputs[2];
    inputs[0] = add_input(a, "lr", REMAT_F32, one, REMAT_ROLE_INPUT);
    a->coefficients = inputs[0];
    if (optimizer->kind == REMAT_OPTIMIZER_SGD)
        return REMAT_OK;
    inputs[1] = add_input(a, "step", REMAT_I32, one, REMAT_ROLE_INPUT);
    a->b.name = "adamw.coefficients";
    a->coefficients =
        remat_build(&a->b, REMAT_OP_adamw_coefficients, inputs, 2, attributes, 3, NULL);
    st = a->b.status;
    return st;
}

/* The new version of a state has its role and a name of its own. */
static void add_update(struct appender *a, remat_value state, remat_value value)
{
    const struct remat_value_info *from = &a->graph->values[state.i];
    struct remat_value_info *to = &a->graph->values[value.i];
    to->name = REMAT_FORMAT(a->arena, "%s.next", from->name);
    to->role = from->role;
    a->graph->updates[a->graph->update_count++] = (struct remat_update){state, value};
}

/* Every step begins with 0, whatever was there. */
static remat_status add_flag(struct appender *a)
{
    const struct remat_shape one = {1, {1}};
    const struct remat_attribute count = remat_attribute_int("count", 1);
    remat_value state = add_input(a, REMAT_NOT_FINITE, REMAT_I32, one, REMAT_ROLE_OUTPUT);
    a->b.scope = 0;
    a->flag = remat_build(&a->b, REMAT_OP_advance, &state, 1, &count, 1, NULL);
    return a->b.status;
}

static remat_value add_state(struct appender *a, remat_value parameter, const char *suffix)
{
    const struct remat_value_info *of = &a->graph->values[parameter.i];
    const char *name = REMAT_FORMAT(a->arena, "%s.%s", of->name, suffix);
    return add_input(a, name, REMAT_F32, of->shape, REMAT_ROLE_OPTIMIZER_STATE);
}

/* What is updated in f32: the parameter itself, or its master copy, which starts with the values
 * that the parameter would have if it were not rounded. */
static remat_value add_master(struct appender *a, remat_value parameter)
{
    if (a->graph->values[parameter.i].dtype == REMAT_F32)
        return parameter;
    remat_value out = add_state(a, parameter, REMAT_MASTER_SUFFIX);
    const struct remat_value_info *from = &a->graph->values[parameter.i];
    struct remat_value_info *to = &a->graph->values[out.i];
    to->initializer = from->initializer;
    to->init_mean = from->init_mean;
    to->init_std = from->init_std;
    return out;
}

/* The parameter's new version is its master's, rounded. */
static remat_status add_master_update(struct appender *a, remat_value parameter, remat_value master,
                                      remat_value next)
{
    add_update(a, master, next);
    if (master.i == parameter.i)
        return REMAT_OK;
    remat_value rounded = remat_build_cast(&a->b, next, a->graph->values[parameter.i].dtype);
    remat_value assigned = remat_build2(&a->b, REMAT_OP_assign, parameter, rounded);
    if (a->b.status == REMAT_OK)
        add_update(a, parameter, assigned);
    return a->b.status;
}

/* The gradient in f32, scaled down if the norm of all is too large. */
static remat_value usable(struct appender *a, remat_value gradient)
{
    gradient = remat_build_cast(&a->b, gradient, REMAT_F32);
    if (remat_is_none(a->factor.i) || a->b.status != REMAT_OK)
        return gradient;
    bool scalar = a->graph->values[gradient.i].shape.rank == 0;
    remat_value factor = scalar ? remat_build_reshape(&a->b, a->factor, NULL, 0) : a->factor;
    return remat_build2(&a->b, REMAT_OP_mul, gradient, factor);
}

static remat_status add_adamw(struct appender *a, remat_value parameter, remat_value gradient)
{
    remat_status st = REMAT_OK;
    const struct remat_optimizer *optimizer = &a->graph->optimizer;
    const struct remat_attribute attributes[] = {
        remat_attribute_float("beta1", optimizer->beta1),
        remat_attribute_float("beta2", optimizer->beta2),
        remat_attribute_float("epsilon", optimizer->epsilon),
    };
    remat_value inputs[] = {REMAT_NO_VALUE,      REMAT_NO_VALUE,  REMAT_NO_VALUE,
                            usable(a, gradient), a->coefficients, a->flag};
    remat_value outputs[3];
    inputs[0] = add_master(a, parameter);
    inputs[1] = add_state(a, parameter, "m");
    inputs[2] = add_state(a, parameter, "v");
    remat_build(&a->b, REMAT_OP_adamw, inputs, 6, attributes, 3, outputs);
    REMAT_TRY(a->b.status);
    REMAT_TRY(add_master_update(a, parameter, inputs[0], outputs[0]));
    add_update(a, inputs[1], outputs[1]);
    add_update(a, inputs[2], outputs[2]);
fail:
    return st;
}

static remat_status add_sgd(struct appender *a, remat_value parameter, remat_value gradient)
{
    remat_status st = REMAT_OK;
    const struct remat_attribute decay =
        remat_attribute_float("weight_decay", a->graph->optimizer.weight_decay);
    remat_value inputs[] = {REMAT_NO_VALUE, usable(a, gradient), a->coefficients, a->flag};
    inputs[0] = add_master(a, parameter);
    remat_value next = remat_build(&a->b, REMAT_OP_sgd, inputs, 4, &decay, 1, NULL);
    REMAT_TRY(a->b.status);
    REMAT_TRY(add_master_update(a, parameter, inputs[0], next));
fail:
    return st;
}

/* --- the norm of all gradients --- */

/* The sum of a gradient's squares, [1]: by rows, then over the rows. */
static remat_value sum_of_squares(struct appender *a, remat_value gradient)
{
    struct remat_builder *b = &a->b;
    struct remat_shape shape = a->graph->values[gradient.i].shape;
    if (shape.rank == 0)
        gradient = remat_build_reshape(b, gradient, (int64_t[]){1}, 1);
    gradient = remat_build_cast(b, gradient, REMAT_F32);
    remat_value sum =
        remat_build1(b, REMAT_OP_row_sum, remat_build2(b, REMAT_OP_mul, gradient, gradient));
    if (shape.rank > 1) {
        int64_t rows = remat_shape_elements(&shape) / shape.dims[shape.rank - 1];
        sum = remat_build_reshape(b, sum, (int64_t[]){1, rows}, 2);
        sum = remat_build1(b, REMAT_OP_row_sum, sum);
    }
    return remat_build_reshape(b, sum, (int64_t[]){1}, 1);
}

/* min(1, limit / (norm + 1e-6)), as PyTorch has it, [1]. The squares are added in the order in
 * which the gradients are computed. */
static remat_status add_factor(struct appender *a, const struct remat_graph *graph)
{
    struct remat_builder *b = &a->b;
    remat_value sum = REMAT_NO_VALUE;
    b->prefix = "clip";
    for (uint32_t n = 0; n < graph->node_count; n++)
        for (uint32_t k = 0; k < graph->nodes[n].output_count; k++) {
            remat_value gradient = graph->nodes[n].outputs[k];
            if (graph->values[gradient.i].role != REMAT_ROLE_GRADIENT)
                continue;
            remat_value squares = sum_of_squares(a, gradient);
            sum = remat_is_none(sum.i) ? squares : remat_build2(b, REMAT_OP_add, sum, squares);
        }
    if (b->status != REMAT_OK || remat_is_none(sum.i))
        return b->status;
    remat_value limit = remat_build_constant(b, graph->optimizer.clip_norm);
    remat_value one = remat_build_constant(b, 1), tiny = remat_build_constant(b, 1e-6);
    remat_value norm = remat_build1(b, REMAT_OP_sqrt, sum);
    norm = remat_build2(b, REMAT_OP_add, norm, tiny);
    a->factor = remat_build2(b, REMAT_OP_minimum, remat_build2(b, REMAT_OP_div, limit, norm), one);
    b->prefix = NULL;
    return b->status;
}

/* The parameter that a gradient belongs to, by name. */
static remat_value find_parameter(const struct remat_graph *graph, remat_value gradient)
{
    const char *name = graph->values[remat_state_of(graph, gradient).i].name;
    size_t length = strlen(name), suffix = strlen(".grad");
    if (length <= suffix || strcmp(name + length - suffix, ".grad") != 0)
        return REMAT_NO_VALUE;
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct remat_value_info *value = &graph->values[v];
        if (value->role == REMAT_ROLE_PARAMETER && value->node == REMAT_NONE &&
            strlen(value->name) == length - suffix &&
            memcmp(value->name, name, length - suffix) == 0)
            return (remat_value){v};
    }
    return REMAT_NO_VALUE;
}

static remat_status add_all(struct appender *a, const struct remat_graph *graph)
{
    remat_status st = REMAT_OK;
    for (uint32_t n = 0; n < graph->node_count; n++)
        for (uint32_t k = 0; k < graph->nodes[n].output_count; k++) {
            remat_value gradient = graph->nodes[n].outputs[k];
            const struct remat_value_info *info = &graph->values[gradient.i];
            if (info->role != REMAT_ROLE_GRADIENT)
                continue;
            remat_value parameter = find_parameter(graph, gradient);
            if (remat_is_none(parameter.i))
                REMAT_FAIL(a->ctx, REMAT_ERROR_INVALID,
                           "gradient \"%s\": no parameter has this name without \".grad\"",
                           info->name);
            a->b.scope = graph->nodes[n].scope;
            REMAT_TRY(graph->optimizer.kind == REMAT_OPTIMIZER_SGD
                          ? add_sgd(a, parameter, gradient)
                          : add_adamw(a, parameter, gradient));
        }
fail:
    return st;
}

static bool updates_parameters(const struct remat_graph *graph)
{
    for (uint32_t u = 0; u < graph->update_count; u++)
        if (graph->values[graph->updates[u].state.i].role == REMAT_ROLE_PARAMETER)
            return true;
    return false;
}

REMAT_PASS(optimizer)
{
    remat_status st = REMAT_OK;
    struct appender a = {.ctx = ctx, .arena = arena, .factor = REMAT_NO_VALUE};
    uint32_t gradients = 0;
    a.graph = remat_graph_copy(ctx, arena, graph);
    *out = a.graph;
    if (graph->optimizer.kind == REMAT_OPTIMIZER_NONE || updates_parameters(graph))
        return REMAT_OK;
    for (uint32_t v = 0; v < graph->value_count; v++)
        gradients += graph->values[v].role == REMAT_ROLE_GRADIENT;
    REMAT_NEW(arena, a.graph->updates, graph->update_count + 4 * (size_t)gradients + 1);
    if (graph->update_count)
        memcpy(a.graph->updates, graph->updates, graph->update_count * sizeof *graph->updates);
    remat_builder_init(&a.b, ctx, arena, a.graph);
    a.b.phase = REMAT_PHASE_OPTIMIZER;
    if (graph->optimizer.clip_norm > 0)
        REMAT_TRY(add_factor(&a, graph));
    REMAT_TRY(add_coefficients(&a));
    if (gradients == 0)
        return REMAT_OK;
    REMAT_TRY(add_flag(&a));
    REMAT_TRY(add_all(&a, graph));
    add_update(&a, remat_state_of(a.graph, a.flag), a.flag);
fail:
    return st;
}
