/* Appends AdamW: two states and one node for every parameter with a gradient, in the order in which
 * the gradients are computed, and the coefficients that all of them share. */
#include "passes.h"

struct appender {
    remat_context *ctx;
    struct remat_arena *arena;
    struct remat_graph *graph; /* a copy that grows */
    remat_value coefficients;
    struct remat_builder b;
};

static remat_status add_input(struct appender *a, const char *name, remat_dtype dtype,
                              struct remat_shape shape, uint8_t role, remat_value *out)
{
    const struct remat_value_info info = {
        .name = name,
        .shape = shape,
        .dtype = dtype,
        .role = role,
        .initializer = role == REMAT_ROLE_OPTIMIZER_STATE ? REMAT_INIT_CONSTANT : REMAT_INIT_NONE,
        .node = REMAT_NONE,
    };
    if (!name)
        return REMAT_ERROR_MEMORY;
    return remat_graph_add_value(a->arena, a->graph, &info, out);
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
    REMAT_TRY(add_input(a, "lr", REMAT_F32, one, REMAT_ROLE_INPUT, &inputs[0]));
    REMAT_TRY(add_input(a, "step", REMAT_I32, one, REMAT_ROLE_INPUT, &inputs[1]));
    a->b.name = "adamw.coefficients";
    a->coefficients =
        remat_build(&a->b, REMAT_OP_adamw_coefficients, inputs, 2, attributes, 3, NULL);
    st = a->b.status;
fail:
    return st;
}

/* The new version of a state has its role and a name of its own. */
static remat_status add_update(struct appender *a, remat_value state, remat_value value)
{
    const struct remat_value_info *from = &a->graph->values[state.i];
    struct remat_value_info *to = &a->graph->values[value.i];
    to->name = remat_arena_format(a->arena, "%s.next", from->name);
    to->role = from->role;
    a->graph->updates[a->graph->update_count++] = (struct remat_update){state, value};
    return to->name ? REMAT_OK : REMAT_ERROR_MEMORY;
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
    const char *name = a->graph->values[parameter.i].name;
    struct remat_shape shape = a->graph->values[parameter.i].shape;
    remat_value inputs[] = {parameter, REMAT_NO_VALUE, REMAT_NO_VALUE, gradient, a->coefficients};
    remat_value outputs[3];
    REMAT_TRY(add_input(a, remat_arena_format(a->arena, "%s.m", name), REMAT_F32, shape,
                        REMAT_ROLE_OPTIMIZER_STATE, &inputs[1]));
    REMAT_TRY(add_input(a, remat_arena_format(a->arena, "%s.v", name), REMAT_F32, shape,
                        REMAT_ROLE_OPTIMIZER_STATE, &inputs[2]));
    a->b.scope = a->graph->nodes[a->graph->values[gradient.i].node].scope;
    remat_build(&a->b, REMAT_OP_adamw, inputs, 5, attributes, 3, outputs);
    REMAT_TRY(a->b.status);
    for (uint32_t k = 0; k < 3; k++)
        REMAT_TRY(add_update(a, inputs[k], outputs[k]));
fail:
    return st;
}

/* The parameter that a gradient belongs to, by name. */
static remat_value find_parameter(const struct remat_graph *graph, const char *gradient)
{
    size_t length = strlen(gradient), suffix = strlen(".grad");
    if (length <= suffix || strcmp(gradient + length - suffix, ".grad") != 0)
        return REMAT_NO_VALUE;
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct remat_value_info *value = &graph->values[v];
        if (value->role == REMAT_ROLE_PARAMETER && value->node == REMAT_NONE &&
            strlen(value->name) == length - suffix &&
            memcmp(value->name, gradient, length - suffix) == 0)
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
            remat_value parameter = find_parameter(graph, info->name);
            if (remat_is_none(parameter.i))
                REMAT_FAIL(a->ctx, REMAT_ERROR_INVALID,
                           "gradient \"%s\": no parameter has this name without \".grad\"",
                           info->name);
            REMAT_TRY(add_adamw(a, parameter, gradient));
        }
fail:
    return st;
}

REMAT_PASS(optimizer)
{
    remat_status st = REMAT_OK;
    struct appender a = {.ctx = ctx, .arena = arena};
    uint32_t gradients = 0;
    REMAT_TRY(remat_graph_copy(ctx, arena, graph, &a.graph));
    *out = a.graph;
    if (!graph->optimizer.adamw || graph->update_count > 0)
        return REMAT_OK;
    for (uint32_t v = 0; v < graph->value_count; v++)
        gradients += graph->values[v].role == REMAT_ROLE_GRADIENT;
    REMAT_NEW(arena, a.graph->updates, 3 * (size_t)gradients);
    remat_builder_init(&a.b, ctx, arena, a.graph);
    a.b.phase = REMAT_PHASE_OPTIMIZER;
    REMAT_TRY(add_coefficients(&a));
    REMAT_TRY(add_all(&a, graph));
fail:
    return st;
}
