#include "model_builder.h"

#include <math.h>

/* --- names --- */

static const char *join(struct remat_model *m, const char *separator, const char *name)
{
    const char *layer = m->layer;
    const char *joined =
        remat_arena_format(m->b.arena, "%s%s%s", layer, *layer && *name ? separator : "", name);
    if (!joined && m->b.status == REMAT_OK)
        m->b.status = REMAT_ERROR_MEMORY;
    return joined ? joined : "";
}

void remat_model_scope(struct remat_model *m, const char *scope)
{
    if (m->b.status != REMAT_OK)
        return;
    m->b.scope = remat_graph_scope(m->b.arena, m->b.graph, join(m, "/", scope));
    if (remat_is_none(m->b.scope))
        m->b.status = REMAT_ERROR_MEMORY;
}

void remat_model_layer(struct remat_model *m, const char *stack, int64_t index)
{
    m->layer = "";
    if (stack) {
        const char *layer = remat_arena_format(m->b.arena, "%s.%lld", stack, (long long)index);
        if (layer)
            m->layer = layer;
        else if (m->b.status == REMAT_OK)
            m->b.status = REMAT_ERROR_MEMORY;
    }
    remat_model_scope(m, "");
}

/* --- graph inputs --- */

static remat_value add_source(struct remat_model *m, struct remat_value_info *info)
{
    remat_value value = REMAT_NO_VALUE;
    info->node = REMAT_NONE;
    if (m->b.status == REMAT_OK)
        m->b.status = remat_graph_add_value(m->b.arena, m->b.graph, info, &value);
    return value;
}

remat_value remat_model_input(struct remat_model *m, const char *name)
{
    struct remat_value_info info = {.name = join(m, ".", name),
                                    .dtype = REMAT_I32,
                                    .role = REMAT_ROLE_INPUT,
                                    .shape = {2, {m->settings->batch, m->settings->seq}}};
    return add_source(m, &info);
}

remat_value remat_model_parameter(struct remat_model *m, const char *name, int64_t rows,
                                  int64_t columns, double mean, double std)
{
    struct remat_value_info info = {
        .name = join(m, ".", name),
        .dtype = REMAT_F32,
        .role = REMAT_ROLE_PARAMETER,
        .shape = {columns ? 2 : 1, {rows, columns}},
        .trainable = true,
        .initializer = std > 0 ? REMAT_INIT_NORMAL : REMAT_INIT_CONSTANT,
        .init_mean = mean,
        .init_std = std,
    };
    return add_source(m, &info);
}

/* --- nodes --- */

static remat_value build(struct remat_model *m, const char *name, uint16_t op,
                         const remat_value *inputs, uint32_t input_count,
                         const struct remat_attribute *attributes, uint32_t attribute_count)
{
    m->b.name = join(m, ".", name);
    return remat_build(&m->b, op, inputs, input_count, attributes, attribute_count, NULL);
}

/* The length of the last axis of x; 1 after a failure. */
static int64_t width_of(const struct remat_model *m, remat_value x)
{
    if (m->b.status != REMAT_OK)
        return 1;
    const struct remat_shape *shape = &m->b.graph->values[x.i].shape;
    return shape->dims[shape->rank - 1];
}

remat_value remat_model_add(struct remat_model *m, const char *name, remat_value x, remat_value y)
{
    return build(m, name, REMAT_OP_add, (remat_value[]){x, y}, 2, NULL, 0);
}

remat_value remat_model_gelu(struct remat_model *m, const char *name, remat_value x)
{
    struct remat_attribute tanh_form = remat_attribute_int("approximate", 1);
    return build(m, name, REMAT_OP_gelu, &x, 1, &tanh_form, 1);
}

remat_value remat_model_embedding(struct remat_model *m, const char *name, remat_value table,
                                  remat_value ids)
{
    return build(m, name, REMAT_OP_embedding, (remat_value[]){table, ids}, 2, NULL, 0);
}

remat_value remat_model_slice(struct remat_model *m, const char *name, remat_value x, int64_t axis,
                              int64_t begin, int64_t end)
{
    struct remat_attribute attributes[] = {remat_attribute_int("axis", axis),
                                           remat_attribute_int("begin", begin),
                                           remat_attribute_int("end", end)};
    return build(m, name, REMAT_OP_slice, &x, 1, attributes, 3);
}

remat_value remat_model_reshape(struct remat_model *m, const char *name, remat_value x,
                                const int64_t *dims, uint32_t rank)
{
    struct remat_attribute shape = {
        .key = "shape", .kind = REMAT_ATTRIBUTE_INTS, .count = rank, .ints = dims};
    return build(m, name, REMAT_OP_reshape, &x, 1, &shape, 1);
}

remat_value remat_model_attention(struct remat_model *m, const char *name, remat_value q,
                                  remat_value k, remat_value v)
{
    struct remat_attribute attributes[] = {
        remat_attribute_float("scale", 1 / sqrt((double)width_of(m, q))),
        remat_attribute_int("causal", 1)};
    return build(m, name, REMAT_OP_attention, (remat_value[]){q, k, v}, 3, attributes, 2);
}

/* The parameter "MODULE.KIND". */
static remat_value module_parameter(struct remat_model *m, const char *module, const char *kind,
                                    int64_t rows, int64_t columns, double mean, double std)
{
    const char *name = remat_arena_format(m->b.arena, "%s.%s", module, kind);
    if (!name) {
        m->b.status = m->b.status ? m->b.status : REMAT_ERROR_MEMORY;
        return REMAT_NO_VALUE;
    }
    return remat_model_parameter(m, name, rows, columns, mean, std);
}

remat_value remat_model_linear(struct remat_model *m, const char *name, const char *parameters,
                               remat_value x, int64_t columns, double std)
{
    remat_value weight = module_parameter(m, parameters, "weight", width_of(m, x), columns, 0, std);
    remat_value bias = module_parameter(m, parameters, "bias", columns, 0, 0, 0);
    return build(m, name, REMAT_OP_linear, (remat_value[]){x, weight, bias}, 3, NULL, 0);
}

remat_value remat_model_layer_norm(struct remat_model *m, const char *name, remat_value x)
{
    struct remat_attribute epsilon = remat_attribute_float("epsilon", 1e-5);
    remat_value weight = module_parameter(m, name, "weight", width_of(m, x), 0, 1, 0);
    remat_value bias = module_parameter(m, name, "bias", width_of(m, x), 0, 0, 0);
    return build(m, name, REMAT_OP_layer_norm, (remat_value[]){x, weight, bias}, 3, &epsilon, 1);
}

remat_value remat_model_tied_head(struct remat_model *m, const char *name, remat_value x,
                                  remat_value table)
{
    struct remat_attribute transposed = remat_attribute_int("transpose_weight", 1);
    return build(m, name, REMAT_OP_linear, (remat_value[]){x, table}, 2, &transposed, 1);
}

void remat_model_loss(struct remat_model *m, remat_value logits, remat_value targets)
{
    struct remat_graph *graph = m->b.graph;
    remat_model_layer(m, NULL, 0);
    remat_model_scope(m, "loss");
    m->b.phase = REMAT_PHASE_LOSS;
    remat_value loss =
        build(m, "loss", REMAT_OP_cross_entropy, (remat_value[]){logits, targets}, 2, NULL, 0);
    if (m->b.status != REMAT_OK)
        return;
    graph->values[loss.i].role = REMAT_ROLE_OUTPUT;
    graph->outputs = remat_arena_array(m->b.arena, 1, sizeof *graph->outputs);
    if (!graph->outputs) {
        m->b.status = REMAT_ERROR_MEMORY;
        return;
    }
    graph->outputs[0] = loss;
    graph->output_count = 1;
}
