/* SPDX-License-Identifier: Apache-2.0 */
/* Appends AdamW or SGD: the states and one node for every parameter with a gradient, in the order
 * in which the gradients are computed, and what all of them share. Updates are f32: a bf16
 * parameter is the rounded copy of a master, which is a state, or without masters rounded itself.
 * Every update flags a gradient that is not finite, in the output "not_finite".
 *
 * Of a gradient in parts on the ranks a rank updates its part: states are parts too, and the
 * parameter, or as much of it as a rank along "tp" has, is gathered. The rank that has an element
 * that is not finite makes the parameter so on all of them, and they flag that. A parameter that is
 * in the same parts as its gradient is left so. */
#include "builder.h"
#include "mesh.h"
#include "rebuild.h"

struct gradient {
    remat_value value, parameter;
    remat_scope_id scope;
};

struct appender {
    struct remat_arena *arena;
    struct remat_graph *graph; /* a copy that grows */
    struct REMAT_LIST(struct gradient) gradients;
    remat_value coefficients; /* of AdamW; the learning rate of SGD */
    remat_value factor;       /* of all gradients, REMAT_NO_VALUE without a limit to their norm */
    remat_value flag;         /* 1 after a step with a gradient that is not finite, else 0 */
    remat_value rank;         /* its coordinate along "dp"; REMAT_NO_VALUE: nothing is in parts */
    struct remat_builder b;
};

static const struct remat_shape *whole_shape(const struct remat_value_info *info)
{
    return info->part ? &info->part->whole : &info->shape;
}

/* Gradients in the order in which they are computed. */
static remat_status find_gradients(struct appender *a, const struct remat_graph *graph)
{
    const remat_value *parameters = remat_gradients_find(a->arena, graph);
    for (uint32_t n = 0; n < graph->node_count; n++)
        for (uint32_t k = 0; k < graph->nodes[n].output_count; k++) {
            struct gradient g = {graph->nodes[n].outputs[k], .scope = graph->nodes[n].scope};
            const struct remat_value_info *info = &graph->values[g.value.i];
            if (info->role != REMAT_ROLE_GRADIENT)
                continue;
            g.parameter = parameters[g.value.i];
            if (remat_is_none(g.parameter.i))
                return remat_error(a->arena->ctx, REMAT_ERROR_INVALID,
                                   "gradient \"%s\": no parameter has this name without \".grad\"",
                                   info->name);
            const struct remat_value_info *parameter = &graph->values[g.parameter.i];
            if (!remat_dtype_is_float(info->dtype) || !remat_dtype_is_float(parameter->dtype) ||
                !remat_shape_equal(whole_shape(info), whole_shape(parameter)))
                return remat_error(a->arena->ctx, REMAT_ERROR_INVALID,
                                   "gradient \"%s\" and its parameter are not floats of one shape",
                                   info->name);
            REMAT_PUSH(a->arena, &a->gradients, g);
        }
    return REMAT_OK;
}

static void add_coefficients(struct appender *a)
{
    const struct remat_optimizer *optimizer = &a->graph->optimizer;
    const struct remat_shape one = {1, {1}};
    const struct remat_attribute attributes[] = {
        remat_attribute_float("beta1", optimizer->beta1),
        remat_attribute_float("beta2", optimizer->beta2),
        remat_attribute_float("weight_decay", optimizer->weight_decay),
    };
    remat_value inputs[2];
    inputs[0] = remat_add_input(&a->b, "lr", REMAT_F32, one, REMAT_ROLE_INPUT);
    a->coefficients = inputs[0];
    if (optimizer->kind == REMAT_OPTIMIZER_SGD)
        return;
    inputs[1] = remat_add_input(&a->b, "step", REMAT_I32, one, REMAT_ROLE_INPUT);
    a->b.name = "adamw.coefficients";
    a->coefficients =
        remat_build(&a->b, REMAT_OP_adamw_coefficients, inputs, 2, attributes, 3, NULL);
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
static void add_flag(struct appender *a)
{
    const struct remat_shape one = {1, {1}};
    const struct remat_attribute count = remat_attribute_int("count", 1);
    remat_value state = remat_add_input(&a->b, REMAT_NOT_FINITE, REMAT_I32, one, REMAT_ROLE_OUTPUT);
    a->b.scope = REMAT_TOP;
    a->flag = remat_build(&a->b, REMAT_OP_advance, &state, 1, &count, 1, NULL);
}

/* This rank's part of the parameter, as its gradient is divided. */
static remat_value add_state(struct appender *a, const struct gradient *g, const char *suffix,
                             remat_dtype dtype)
{
    const struct remat_value_info of = a->graph->values[g->value.i];
    const struct remat_value_info parameter = a->graph->values[g->parameter.i];
    const char *name = REMAT_FORMAT(a->arena, "%s.%s", parameter.name, suffix);
    remat_value out = remat_add_input(&a->b, name, dtype, of.shape, REMAT_ROLE_OPTIMIZER_STATE);
    a->graph->values[out.i].part = of.part;
    a->graph->values[out.i].unpadded_rows = parameter.unpadded_rows;
    return out;
}

/* --- parts --- */

/* A bit for each axis along which ranks divide a value. */
static uint32_t axes_of(const struct appender *a, remat_value v)
{
    const struct remat_rank_part *part = a->graph->values[v.i].part;
    if (!part)
        return 0;
    return 1u << part->axis | (part->block_axis == REMAT_NONE ? 0 : 1u << part->block_axis);
}

static uint32_t data_axis(const struct appender *a)
{
    return 1u << remat_mesh_axis(&a->graph->mesh, "dp");
}

/* Ranks along "dp" have the same of the parameter, and update parts of that. */
static bool is_gathered(const struct appender *a, const struct gradient *g)
{
    return axes_of(a, g->value) != axes_of(a, g->parameter);
}

static int64_t rank_count(const struct appender *a)
{
    return remat_mesh_size(&a->graph->mesh, "dp");
}

/* A copy of this rank's part. */
static remat_value take_part(struct appender *a, remat_value parameter)
{
    const struct remat_value_info *of = &a->graph->values[parameter.i];
    const struct remat_attribute count = remat_attribute_int("count", rank_count(a));
    const char *name = REMAT_FORMAT(a->arena, "%s.part", of->name);
    int64_t elements = remat_shape_elements(&of->shape);
    remat_value inputs[] = {remat_build_reshape(&a->b, parameter, &elements, 1), a->rank};
    a->b.name = name;
    return remat_build(&a->b, REMAT_OP_batch_slice, inputs, 2, &count, 1, NULL);
}

/* --- updates --- */

static bool has_master(const struct appender *a, const struct gradient *g)
{
    return remat_dtype_is_rounded(a->graph->values[g->parameter.i].dtype) &&
           !a->graph->optimizer.no_master;
}

/* The value to update: the parameter itself, or its master copy, which starts with the values that
 * the parameter would have if it were not rounded. */
static remat_value add_master(struct appender *a, const struct gradient *g)
{
    remat_value parameter = g->parameter;
    if (!has_master(a, g))
        return is_gathered(a, g) ? take_part(a, parameter) : parameter;
    remat_value out = add_state(a, g, REMAT_MASTER_SUFFIX, REMAT_F32);
    const struct remat_value_info *from = &a->graph->values[parameter.i];
    struct remat_value_info *to = &a->graph->values[out.i];
    to->initializer = from->initializer;
    to->init_mean = from->init_mean;
    to->init_std = from->init_std;
    return out;
}

/* The parameter's new version is its master's, rounded, and gathered where that alone is a part. */
static void add_master_update(struct appender *a, const struct gradient *g, remat_value master,
                              remat_value next)
{
    const struct remat_value_info parameter = a->graph->values[g->parameter.i];
    if (master.i == g->parameter.i || has_master(a, g))
        add_update(a, master, next);
    if (master.i == g->parameter.i)
        return;
    remat_value inputs[] = {g->parameter, remat_build_cast(&a->b, next, parameter.dtype), a->flag,
                            REMAT_NO_VALUE};
    uint32_t count = 2;
    if (is_gathered(a, g)) {
        a->b.name = REMAT_FORMAT(a->arena, "%s.gathered", parameter.name);
        inputs[1] = remat_build_gather(&a->b, "dp", inputs[1], &parameter.shape);
        inputs[3] = remat_build_cast(&a->b, inputs[1], REMAT_F32);
        count = 4;
    }
    add_update(a, g->parameter, remat_build(&a->b, REMAT_OP_assign, inputs, count, NULL, 0, NULL));
}

/* The gradient in f32, scaled down if the norm of all is too large. */
static remat_value usable(struct appender *a, remat_value gradient)
{
    gradient = remat_build_cast(&a->b, gradient, REMAT_F32);
    if (remat_is_none(a->factor.i))
        return gradient;
    bool scalar = a->graph->values[gradient.i].shape.rank == 0;
    remat_value factor = scalar ? remat_build_reshape(&a->b, a->factor, NULL, 0) : a->factor;
    return remat_build2(&a->b, REMAT_OP_mul, gradient, factor);
}

static void add_adamw(struct appender *a, const struct gradient *g)
{
    const struct remat_optimizer *optimizer = &a->graph->optimizer;
    const struct remat_attribute attributes[] = {
        remat_attribute_float("beta1", optimizer->beta1),
        remat_attribute_float("beta2", optimizer->beta2),
        remat_attribute_float("epsilon", optimizer->epsilon),
        remat_attribute_int("no_decay", 1),
    };
    remat_dtype dtype = optimizer->bf16_moments ? REMAT_BF16 : REMAT_F32;
    bool plain = a->graph->values[g->parameter.i].no_decay;
    remat_value inputs[] = {REMAT_NO_VALUE,      REMAT_NO_VALUE,  REMAT_NO_VALUE,
                            usable(a, g->value), a->coefficients, a->flag};
    remat_value outputs[3];
    inputs[0] = add_master(a, g);
    inputs[1] = add_state(a, g, "m", dtype);
    inputs[2] = add_state(a, g, "v", dtype);
    remat_build(&a->b, REMAT_OP_adamw, inputs, 6, attributes, plain ? 4 : 3, outputs);
    add_master_update(a, g, inputs[0], outputs[0]);
    add_update(a, inputs[1], outputs[1]);
    add_update(a, inputs[2], outputs[2]);
}

static void add_sgd(struct appender *a, const struct gradient *g)
{
    bool plain = a->graph->values[g->parameter.i].no_decay;
    const struct remat_attribute decay =
        remat_attribute_float("weight_decay", plain ? 0 : a->graph->optimizer.weight_decay);
    remat_value inputs[] = {REMAT_NO_VALUE, usable(a, g->value), a->coefficients, a->flag};
    inputs[0] = add_master(a, g);
    remat_value next = remat_build(&a->b, REMAT_OP_sgd, inputs, 4, &decay, 1, NULL);
    add_master_update(a, g, inputs[0], next);
}

/* --- the norm of all gradients --- */

/* Rows of a part: of equal length, the largest up to 4096. */
static struct remat_shape rows_of(int64_t elements)
{
    int64_t columns = elements < 4096 ? elements : 4096;
    while (elements % columns)
        columns--;
    return (struct remat_shape){2, {elements / columns, columns}};
}

/* The sum of a gradient's squares, [1]: by rows, then over the rows. */
static remat_value sum_of_squares(struct appender *a, const struct gradient *g)
{
    struct remat_builder *b = &a->b;
    remat_value gradient = g->value;
    struct remat_shape shape = a->graph->values[gradient.i].shape;
    if (axes_of(a, gradient) & data_axis(a)) {
        shape = rows_of(shape.dims[0]);
        gradient = remat_build_reshape(b, gradient, shape.dims, 2);
    }
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

static remat_value add_or_begin(struct appender *a, remat_value sum, remat_value x)
{
    return remat_is_none(sum.i) ? x : remat_build2(&a->b, REMAT_OP_add, sum, x);
}

/* The squares of the gradients that ranks divide along these axes, added in the order in which the
 * gradients are computed; REMAT_NO_VALUE: there are none. */
static remat_value add_squares(struct appender *a, uint32_t axes)
{
    remat_value sum = REMAT_NO_VALUE;
    for (size_t k = 0; k < a->gradients.count; k++)
        if (axes_of(a, a->gradients.items[k].value) == axes)
            sum = add_or_begin(a, sum, sum_of_squares(a, &a->gradients.items[k]));
    return sum;
}

/* The squares of all gradients. Axis by axis, those that its ranks divide are added up over them,
 * and are then divided along the axes after it alone. */
static remat_value add_all_squares(struct appender *a)
{
    enum { SETS = 1 << REMAT_MESH_AXES_MAX };
    const struct remat_mesh *mesh = &a->graph->mesh;
    remat_value sums[SETS]; /* by axes along which ranks divide what is squared */
    for (uint32_t axes = 0; axes < SETS; axes++)
        sums[axes] = add_squares(a, axes);
    for (uint32_t k = 0; k < mesh->axis_count; k++)
        for (uint32_t axes = 1u << k; axes < SETS; axes += 2u << k) {
            const struct remat_shape all = {1, {mesh->axes[k].size}};
            remat_value *rest = &sums[axes - (1u << k)];
            if (remat_is_none(sums[axes].i))
                continue;
            remat_value rows = remat_build_gather(&a->b, mesh->axes[k].name, sums[axes], &all);
            *rest = add_or_begin(a, *rest, remat_build1(&a->b, REMAT_OP_row_sum, rows));
        }
    return sums[0];
}

/* min(1, limit / (norm + 1e-6)), as PyTorch has it, [1]. */
static void add_factor(struct appender *a)
{
    struct remat_builder *b = &a->b;
    b->prefix = "clip";
    remat_value sum = add_all_squares(a);
    remat_value limit = remat_build_constant(b, a->graph->optimizer.clip_norm);
    remat_value one = remat_build_constant(b, 1), tiny = remat_build_constant(b, 1e-6);
    remat_value norm = remat_build1(b, REMAT_OP_sqrt, sum);
    norm = remat_build2(b, REMAT_OP_add, norm, tiny);
    a->factor = remat_build2(b, REMAT_OP_minimum, remat_build2(b, REMAT_OP_div, limit, norm), one);
    b->prefix = NULL;
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
    struct appender a = {.arena = arena, .factor = REMAT_NO_VALUE, .rank = REMAT_NO_VALUE};
    if (graph->optimizer.kind == REMAT_OPTIMIZER_NONE || updates_parameters(graph))
        return remat_pass_nothing(graph, out);
    if (settings->zero)
        a.rank = remat_graph_coordinate(graph, "dp");
    a.graph = remat_graph_copy(arena, graph, 2);
    *out = a.graph;
    REMAT_CHECK(find_gradients(&a, graph));
    REMAT_NEW(arena, a.graph->updates, graph->update_count + 4 * a.gradients.count + 1);
    if (graph->update_count)
        memcpy(a.graph->updates, graph->updates, graph->update_count * sizeof *graph->updates);
    a.b = (struct remat_builder){.arena = arena, .graph = a.graph, .phase = REMAT_PHASE_OPTIMIZER};
    if (graph->optimizer.clip_norm > 0 && a.gradients.count > 0)
        add_factor(&a);
    add_coefficients(&a);
    if (a.gradients.count == 0)
        return REMAT_OK;
    add_flag(&a);
    for (size_t k = 0; k < a.gradients.count; k++) {
        const struct gradient *g = &a.gradients.items[k];
        a.b.scope = g->scope;
        if (graph->optimizer.kind == REMAT_OPTIMIZER_SGD)
            add_sgd(&a, g);
        else
            add_adamw(&a, g);
    }
    add_update(&a, remat_state_of(a.graph, a.flag), a.flag);
    return REMAT_OK;
}
