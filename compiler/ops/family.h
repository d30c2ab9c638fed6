/* SPDX-License-Identifier: Apache-2.0 */
/* Private to this folder: declarations of all functions that ops.def names, and the checks that op
 * families share. */
#ifndef REMAT_FAMILY_H
#define REMAT_FAMILY_H

#include "builder.h"
#include "view.h"

#define REMAT_FLOAT_MAX 1e30 /* limit of initial values and of attributes but constants */

#define MAYBE_UNUSED __attribute__((unused))
#define OP_SHAPE(name)                                                                             \
    remat_status remat_shape_##name(MAYBE_UNUSED remat_context *ctx,                               \
                                    MAYBE_UNUSED const struct remat_graph *graph,                  \
                                    MAYBE_UNUSED const struct remat_node_info *node,               \
                                    MAYBE_UNUSED struct remat_value_info *outputs)
#define OP_FLOPS(name)                                                                             \
    uint64_t remat_flops_##name(MAYBE_UNUSED const struct remat_graph *graph,                      \
                                MAYBE_UNUSED const struct remat_node_info *node)
#define OP_DERIVE(name)                                                                            \
    void remat_derive_##name(                                                                      \
        MAYBE_UNUSED struct remat_builder *b, MAYBE_UNUSED const struct remat_node_info *node,     \
        MAYBE_UNUSED remat_value gradient, MAYBE_UNUSED remat_value *in_gradients)
#define OP_EXPAND(name)                                                                            \
    void remat_expand_##name(struct remat_builder *b,                                              \
                             MAYBE_UNUSED const struct remat_node_info *node,                      \
                             const remat_value *inputs, remat_value *outputs)

/* `none` in a row declares a function without a definition; op_table.c reads it as NULL. */
#define OP(name, facts, inputs_min, inputs_max, outputs, signature, executor, attributes, shape,   \
           flops, derive, expand, layout, batch)                                                   \
    OP_SHAPE(shape);                                                                               \
    OP_FLOPS(flops);                                                                               \
    OP_DERIVE(derive);                                                                             \
    OP_EXPAND(expand);
#include "ops.def"
#undef OP

/* Formulas over a builder `b`. Operands are built from left to right. C leaves the order of a
 * call's arguments open, and the order of nodes must not depend on the compiler. */
#define OP1(op, x)    remat_build1(b, REMAT_OP_##op, x)
#define OP2(op, x, y) (remat_push(b, x), remat_push(b, y), remat_apply(b, REMAT_OP_##op, 2))
#define OP3(op, x, y, z)                                                                           \
    (remat_push(b, x), remat_push(b, y), remat_push(b, z), remat_apply(b, REMAT_OP_##op, 3))
#define NUMBER(value) remat_build_constant(b, value)
/* Casts at the edges of composite ops, whose interiors are f32: x to f32, and a result to the dtype
 * of `like`. No node if the dtype is already right. */
#define F32(x)        remat_build_cast(b, x, REMAT_F32)
#define LIKE(x, like) remat_build_like(b, x, like)

/* The optional operand of that name among a node's inputs, or those that stand for them;
 * REMAT_NO_VALUE: it is absent. */
#define OPTIONAL(inputs, name) remat_optional(node, inputs, name)
static inline remat_value remat_optional(const struct remat_node_info *node,
                                         const remat_value *inputs, const char *name)
{
    uint32_t k = remat_node_operand(node, name);
    return remat_is_none(k) ? REMAT_NO_VALUE : inputs[k];
}

#define INVALID(ctx, ...) remat_error((ctx), REMAT_ERROR_INVALID, __VA_ARGS__)

/* An output for a shape function to return. */
static inline struct remat_value_info remat_typed(remat_dtype dtype, struct remat_shape shape)
{
    return (struct remat_value_info){.dtype = dtype, .shape = shape};
}
static inline const struct remat_value_info *
remat_input(const struct remat_graph *graph, const struct remat_node_info *node, uint32_t k)
{
    return &graph->values[node->inputs[k].i];
}
static inline const struct remat_shape *
remat_input_shape(const struct remat_graph *graph, const struct remat_node_info *node, uint32_t k)
{
    return &remat_input(graph, node, k)->shape;
}

/* --- family.c: operands --- */

/* "[2, 3]", valid until the end of the full expression. */
#define SHAPE_TEXT(shape) remat_shape_text(shape).text
struct remat_shape_text {
    char text[22 * REMAT_RANK_MAX];
};
struct remat_shape_text remat_shape_text(const struct remat_shape *shape);

#define REMAT_ANY_RANK UINT32_MAX
remat_status remat_check_input(remat_context *ctx, const struct remat_graph *graph,
                               const struct remat_node_info *node, uint32_t k, remat_dtype dtype,
                               uint32_t rank_min, uint32_t rank_max);

remat_status remat_check_computed(remat_context *ctx, const struct remat_graph *graph,
                                  const struct remat_node_info *node, uint32_t k);

remat_status remat_check_shape(remat_context *ctx, const struct remat_graph *graph,
                               const struct remat_node_info *node, uint32_t k,
                               const struct remat_shape *expected);

/* --- family.c: attributes --- */

/* Checks that the attribute "axis" is in [0, rank). */
remat_status remat_check_axis(remat_context *ctx, const struct remat_node_info *node,
                              uint32_t rank);

/* Checks that the attribute "window", unless 0, covers all `keys` keys. */
remat_status remat_check_window(remat_context *ctx, const struct remat_node_info *node,
                                int64_t keys);

/* Checks that every column index is exact in f32, in which indices are compared. */
remat_status remat_check_columns(remat_context *ctx, int64_t columns);

/* Reads the attribute "shape". */
remat_status remat_shape_of_attribute(remat_context *ctx, const struct remat_node_info *node,
                                      struct remat_shape *out);

#endif
