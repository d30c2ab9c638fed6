/* SPDX-License-Identifier: Apache-2.0 */
/* Appending nodes so that a rewrite reads like its formula. */
#include "builder.h"

#include "view.h"

#include <math.h>

/* PREFIX.OP_NUMBER. Nearly all names are made here, and a format takes ten times as long. */
static const char *numbered_name(struct remat_arena *arena, const char *prefix, const char *op,
                                 uint32_t number)
{
    char *name = remat_uninitialized(arena, strlen(prefix) + strlen(op) + sizeof "._4294967295", 1);
    char *end = stpcpy(stpcpy(stpcpy(stpcpy(name, prefix), *prefix ? "." : ""), op), "_");
    uint32_t unit = 1;
    while (number / unit > 9)
        unit *= 10;
    for (; unit; unit /= 10)
        *end++ = (char)('0' + number / unit % 10);
    *end = 0;
    return name;
}

static const char *result_name(struct remat_builder *b, const char *first, uint16_t op, uint32_t k)
{
    if (k > 0)
        return REMAT_FORMAT(b->arena, "%s.%u", first, k);
    if (b->name) {
        const char *name = b->name;
        b->name = NULL;
        return name;
    }
    return numbered_name(b->arena, b->prefix ? b->prefix : "", remat_op_info(op)->name,
                         b->counter++);
}

#define RESULTS_MAX 8
#define INPUTS_MAX  16

/* Drops operands that are absent from a node's inputs, and notes them if others follow. */
static void drop_absent(struct remat_node_info *node, remat_value given[INPUTS_MAX])
{
    uint32_t count = 0, absent = 0;
    assert(node->input_count <= INPUTS_MAX);
    for (uint32_t k = 0; k < node->input_count; k++)
        if (remat_is_none(node->inputs[k].i)) {
            absent |= 1u << k;
        } else {
            node->absent = absent;
            given[count++] = node->inputs[k];
        }
    node->inputs = given;
    node->input_count = count;
}

/* *large: it would be right if its results were smaller. */
static remat_status build(struct remat_builder *b, uint16_t op, const remat_value *inputs,
                          uint32_t input_count, const struct remat_attribute *attributes,
                          uint32_t attribute_count, remat_value *outputs, bool *large)
{
    assert(remat_op_info(op)->outputs <= RESULTS_MAX);
    remat_value results[RESULTS_MAX], given[INPUTS_MAX];
    struct remat_value_info infos[RESULTS_MAX];
    struct remat_node_info node = {
        .op = op,
        .origin = b->keep_origin ? b->origin : op,
        .phase = b->phase,
        .origin_group = b->keep_origin ? b->origin_group : b->graph->node_count,
        .scope = b->scope,
        .input_count = input_count,
        .output_count = remat_op_info(op)->outputs,
        .attribute_count = attribute_count,
        .inputs = inputs,
        .outputs = results,
        .attributes = attributes,
        .instance = b->instance,
    };
    drop_absent(&node, given);
    remat_status st = remat_op_infer(b->arena->ctx, b->graph, &node, infos);
    if (st != REMAT_OK) {
        const char *name = b->name ? b->name : b->prefix ? b->prefix : "";
        *large = false;
        for (uint32_t k = 0; k < node.output_count; k++)
            *large |= infos[k].dtype && !remat_shape_fits(&infos[k].shape, infos[k].dtype);
        return remat_error(b->arena->ctx, st, "building %s for \"%s\": %.900s",
                           remat_op_info(op)->name, name, b->arena->ctx->message);
    }
    for (uint32_t k = 0; k < node.output_count; k++) {
        infos[k].name = result_name(b, infos[0].name, op, k);
        infos[k].role = REMAT_ROLE_ACTIVATION;
        infos[k].node = REMAT_NO_NODE;
        results[k] = remat_graph_add_value(b->arena, b->graph, &infos[k]);
    }
    remat_graph_add_node(b->arena, b->graph, &node);
    memcpy(outputs, results, node.output_count * sizeof *outputs);
    return REMAT_OK;
}

remat_status remat_build_checked(struct remat_builder *b, uint16_t op, const remat_value *inputs,
                                 uint32_t input_count, const struct remat_attribute *attributes,
                                 uint32_t attribute_count, remat_value *outputs)
{
    bool large;
    return build(b, op, inputs, input_count, attributes, attribute_count, outputs, &large);
}

/* A copy with dense rows: a concat of one value. */
static remat_value build_copy(struct remat_builder *b, remat_value x)
{
    const struct remat_attribute axis = remat_attribute_int("axis", 0);
    return remat_build(b, REMAT_OP_concat, &x, 1, &axis, 1, NULL);
}

remat_value remat_build(struct remat_builder *b, uint16_t op, const remat_value *inputs,
                        uint32_t input_count, const struct remat_attribute *attributes,
                        uint32_t attribute_count, remat_value *outputs)
{
    remat_value results[RESULTS_MAX], copy;
    bool large;
    if (remat_op_has(op, REMAT_FACT_VIEW) && !remat_can_view(b->graph, inputs[0])) {
        copy = build_copy(b, inputs[0]);
        inputs = &copy;
    }
    if (build(b, op, inputs, input_count, attributes, attribute_count, outputs ? outputs : results,
              &large) != REMAT_OK)
        remat_unwind_as(b->arena->ctx, large ? REMAT_ERROR_INVALID : REMAT_ERROR_INTERNAL);
    return outputs ? outputs[0] : results[0];
}

remat_value remat_build1(struct remat_builder *b, uint16_t op, remat_value x)
{
    return remat_build(b, op, &x, 1, NULL, 0, NULL);
}

remat_value remat_build2(struct remat_builder *b, uint16_t op, remat_value x, remat_value y)
{
    const remat_value inputs[] = {x, y};
    return remat_build(b, op, inputs, 2, NULL, 0, NULL);
}

remat_value remat_build3(struct remat_builder *b, uint16_t op, remat_value x, remat_value y,
                         remat_value z)
{
    const remat_value inputs[] = {x, y, z};
    return remat_build(b, op, inputs, 3, NULL, 0, NULL);
}

void remat_push(struct remat_builder *b, remat_value operand)
{
    assert(b->operand_count < REMAT_BUILDER_DEPTH);
    b->operands[b->operand_count++] = operand;
}

remat_value remat_apply(struct remat_builder *b, uint16_t op, uint32_t count)
{
    assert(b->operand_count >= count);
    b->operand_count -= count;
    return remat_build(b, op, &b->operands[b->operand_count], count, NULL, 0, NULL);
}

remat_value remat_build_constant(struct remat_builder *b, double value)
{
    const struct remat_attribute attribute = remat_attribute_float("value", value);
    return remat_build(b, REMAT_OP_constant, NULL, 0, &attribute, 1, NULL);
}

/* NAN where x is no constant. */
static double constant_value(const struct remat_graph *graph, remat_value x)
{
    const struct remat_node_info *node = remat_producer_info(graph, x);
    return node && node->op == REMAT_OP_constant ? remat_node_number(node, "value") : NAN;
}

bool remat_is_widening(const struct remat_graph *graph, remat_value x)
{
    const struct remat_node_info *node = remat_producer_info(graph, x);
    return node && node->op == REMAT_OP_cast && !remat_dtype_is_rounded(graph->values[x.i].dtype);
}

remat_value remat_build_cast(struct remat_builder *b, remat_value x, remat_dtype dtype)
{
    const struct remat_value_info *values = b->graph->values;
    if (values[x.i].dtype == dtype)
        return x;
    if (remat_is_widening(b->graph, x)) {
        remat_value widened = remat_producer_info(b->graph, x)->inputs[0];
        if (values[widened.i].dtype == dtype)
            return widened;
    }
    const struct remat_attribute attribute = remat_attribute_int("dtype", dtype);
    return remat_build(b, REMAT_OP_cast, &x, 1, &attribute, 1, NULL);
}

remat_value remat_build_like(struct remat_builder *b, remat_value x, remat_value like)
{
    return remat_build_cast(b, x, b->graph->values[like.i].dtype);
}

remat_value remat_build_product(struct remat_builder *b, remat_value x, remat_value y)
{
    double x_number = constant_value(b->graph, x), y_number = constant_value(b->graph, y);
    if (!isnan(x_number * y_number))
        return remat_build_constant(b, x_number * y_number);
    return x_number == 1 ? y : y_number == 1 ? x : remat_build2(b, REMAT_OP_mul, x, y);
}

remat_value remat_build_scaled(struct remat_builder *b, remat_value x, remat_value factor)
{
    if (constant_value(b->graph, factor) == 1)
        return x;
    remat_value wide = remat_build_cast(b, x, REMAT_F32);
    return remat_build_like(b, remat_build2(b, REMAT_OP_mul, factor, wide), x);
}

remat_value remat_build_repeat(struct remat_builder *b, remat_value x, remat_value like)
{
    if (remat_shape_equal(&b->graph->values[x.i].shape, &b->graph->values[like.i].shape))
        return x;
    remat_value column = remat_build1(b, REMAT_OP_column, like);
    return remat_build3(b, REMAT_OP_select, column, x, x);
}

remat_value remat_build_reshape(struct remat_builder *b, remat_value x, const int64_t *dims,
                                uint32_t rank)
{
    assert(rank <= REMAT_RANK_MAX);
    struct remat_shape to = {rank, {0}};
    for (uint32_t d = 0; d < rank; d++)
        to.dims[d] = dims[d];
    if (remat_shape_equal(&b->graph->values[x.i].shape, &to))
        return x;
    const struct remat_attribute shape = remat_attribute_ints("shape", to.dims, rank);
    if (!remat_can_reshape(b->graph, x, &to))
        x = build_copy(b, x);
    return remat_build(b, REMAT_OP_reshape, &x, 1, &shape, 1, NULL);
}

int64_t remat_shape_rows(const struct remat_shape *shape)
{
    int64_t rows = 1;
    for (uint32_t d = 0; d + 1 < shape->rank; d++)
        rows *= shape->dims[d];
    return rows;
}

remat_value remat_build_rows(struct remat_builder *b, remat_value x)
{
    assert(b->graph->values[x.i].shape.rank > 0);
    const struct remat_shape *shape = &b->graph->values[x.i].shape;
    const int64_t dims[] = {remat_shape_rows(shape), shape->dims[shape->rank - 1]};
    return remat_build_reshape(b, x, dims, 2);
}

remat_value remat_build_matmul(struct remat_builder *b, remat_value x, remat_value y,
                               bool transpose_x, bool transpose_y)
{
    const remat_value inputs[] = {x, y};
    const struct remat_attribute attributes[] = {remat_attribute_int("transpose_a", transpose_x),
                                                 remat_attribute_int("transpose_b", transpose_y)};
    return remat_build(b, REMAT_OP_matmul, inputs, 2, attributes, 2, NULL);
}

remat_value remat_build_slice(struct remat_builder *b, remat_value x, uint32_t axis, int64_t begin,
                              int64_t end)
{
    assert(axis < b->graph->values[x.i].shape.rank);
    assert(0 <= begin && begin < end && end <= b->graph->values[x.i].shape.dims[axis]);
    const struct remat_attribute attributes[] = {remat_attribute_int("axis", axis),
                                                 remat_attribute_int("begin", begin),
                                                 remat_attribute_int("end", end)};
    return remat_build(b, REMAT_OP_slice, &x, 1, attributes, 3, NULL);
}

/* --- sums over repeated axes --- */

/* The axes of a gradient joined into alternating runs of kept and summed ones; axes of length 1
 * join any run. */
struct runs {
    uint32_t count;
    int64_t lengths[REMAT_RANK_MAX];
    bool summed[REMAT_RANK_MAX];
    uint32_t run_of[REMAT_RANK_MAX]; /* by axis */
};

static struct runs find_runs(const struct remat_shape *from, const struct remat_shape *to)
{
    struct runs runs = {0};
    uint32_t lead = from->rank - to->rank;
    for (uint32_t d = 0; d < from->rank; d++) {
        bool summed = d < lead || to->dims[d - lead] == 1;
        if (from->dims[d] != 1 && (runs.count == 0 || runs.summed[runs.count - 1] != summed)) {
            runs.lengths[runs.count] = 1;
            runs.summed[runs.count++] = summed;
        }
        if (from->dims[d] != 1)
            runs.lengths[runs.count - 1] *= from->dims[d];
        runs.run_of[d] = runs.count - 1;
    }
    return runs;
}

/* Sums run r away: leading ones by columns, trailing ones by rows, inner ones by rows of a view
 * that has them last. */
static remat_value sum_run(struct remat_builder *b, remat_value x, const struct runs *runs,
                           uint32_t r)
{
    int64_t before = 1, after = 1;
    for (uint32_t k = 0; k < runs->count; k++)
        if (k != r)
            *(k < r ? &before : &after) *= runs->lengths[k];
    if (r == 0 && runs->count > 1) {
        x = remat_build_reshape(b, x, (int64_t[]){runs->lengths[r], after}, 2);
        return remat_build1(b, REMAT_OP_column_sum, remat_build_cast(b, x, REMAT_F32));
    }
    if (r + 1 == runs->count) {
        x = remat_build_reshape(b, x, (int64_t[]){before, runs->lengths[r]}, 2);
        return remat_build1(b, REMAT_OP_row_sum, remat_build_cast(b, x, REMAT_F32));
    }
    static const int64_t last[] = {0, 2, 1};
    const struct remat_attribute permutation = remat_attribute_ints("permutation", last, 3);
    x = remat_build_reshape(b, x, (int64_t[]){before, runs->lengths[r], after}, 3);
    x = remat_build(b, REMAT_OP_transpose, &x, 1, &permutation, 1, NULL);
    return remat_build1(b, REMAT_OP_row_sum, remat_build_cast(b, x, REMAT_F32));
}

remat_value remat_build_sum_to(struct remat_builder *b, remat_value gradient,
                               const struct remat_shape *to)
{
    assert(to->rank <= b->graph->values[gradient.i].shape.rank);
    struct remat_shape from = b->graph->values[gradient.i].shape; /* summed axes have length 1 */
    remat_value whole = gradient;
    for (;;) {
        struct runs runs = find_runs(&from, to);
        uint32_t r = 0;
        if (runs.count && !runs.summed[0])
            r = runs.summed[runs.count - 1] ? runs.count - 1 : 1;
        if (r >= runs.count || !runs.summed[r])
            break;
        gradient = sum_run(b, gradient, &runs, r);
        for (uint32_t d = 0; d < from.rank; d++)
            from.dims[d] = runs.run_of[d] == r ? 1 : from.dims[d];
    }
    gradient = remat_build_like(b, gradient, whole);
    return remat_build_reshape(b, gradient, to->dims, to->rank);
}
