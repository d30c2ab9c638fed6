/* SPDX-License-Identifier: Apache-2.0 */
/* Building nodes: an op with its inferred outputs, and formulas of several. */
#ifndef REMAT_BUILDER_H
#define REMAT_BUILDER_H

#include "ops.h"

/* --- builder: appends nodes to a graph so that a rewrite reads like the formula ---
 *
 *     v = remat_build2(b, REMAT_OP_mul, x, remat_build1(b, REMAT_OP_rsqrt, variance));
 *
 * Operands and attributes fit each other: the verifier has seen to it, or whoever builds. A
 * value that is too large for any memory all the same unwinds. New nodes take scope, phase, origin,
 * group and instance from the builder. Names: `name` when set (used once, for the first output;
 * further outputs get it with the suffix ".1", ".2"), else prefix "." op "_" counter. */
#define REMAT_BUILDER_DEPTH 32
struct remat_builder {
    struct remat_arena *arena;
    struct remat_graph *graph;
    remat_scope_id scope;
    uint8_t phase;
    bool keep_origin; /* take origin and origin_group from here instead of from the new node */
    uint16_t origin;
    uint32_t origin_group;
    uint32_t instance;
    const char *name, *prefix;
    uint32_t counter;
    remat_value operands[REMAT_BUILDER_DEPTH]; /* of formulas being written out */
    uint32_t operand_count;
};
static inline struct remat_attribute remat_attribute_int(const char *key, int64_t i)
{
    return (struct remat_attribute){.key = key, .kind = REMAT_ATTRIBUTE_INT, .i = i};
}
static inline struct remat_attribute remat_attribute_float(const char *key, double f)
{
    return (struct remat_attribute){.key = key, .kind = REMAT_ATTRIBUTE_FLOAT, .f = f};
}
static inline struct remat_attribute remat_attribute_ints(const char *key, const int64_t *ints,
                                                          uint32_t count)
{
    return (struct remat_attribute){
        .key = key, .kind = REMAT_ATTRIBUTE_INTS, .count = count, .ints = ints};
}

void remat_push(struct remat_builder *b, remat_value operand);

/* Builds an op from the newest `count` operands and takes them off. */
remat_value remat_apply(struct remat_builder *b, uint16_t op, uint32_t count);

remat_value remat_build_matmul(struct remat_builder *b, remat_value x, remat_value y,
                               bool transpose_x, bool transpose_y);

remat_value remat_build_slice(struct remat_builder *b, remat_value x, uint32_t axis, int64_t begin,
                              int64_t end);

/* [.., n] -> [product of .., n] */
remat_value remat_build_rows(struct remat_builder *b, remat_value x);

/* outputs may be NULL for one output; returns the first output. Attributes are copied. Copies the
 * operand of a view first where it is at the end of too long a chain of views. */
remat_value remat_build(struct remat_builder *b, uint16_t op, const remat_value *inputs,
                        uint32_t input_count, const struct remat_attribute *attributes,
                        uint32_t attribute_count, remat_value *outputs);

/* The same for what a setting of the user's may make wrong: `building OP for "NAME": ...`. */
remat_status remat_build_checked(struct remat_builder *b, uint16_t op, const remat_value *inputs,
                                 uint32_t input_count, const struct remat_attribute *attributes,
                                 uint32_t attribute_count, remat_value *outputs);

remat_value remat_build1(struct remat_builder *b, uint16_t op, remat_value x);

remat_value remat_build2(struct remat_builder *b, uint16_t op, remat_value x, remat_value y);

remat_value remat_build3(struct remat_builder *b, uint16_t op, remat_value x, remat_value y,
                         remat_value z);

remat_value remat_build_constant(struct remat_builder *b, double value); /* f32, rank 0 */

remat_value remat_build_reshape(struct remat_builder *b, remat_value x, const int64_t *dims,
                                uint32_t rank); /* x itself when the shape is equal; copies x first
                                                   where its strides allow no view */

/* x * y without the node where a factor is the constant 1 or both are constants. */
remat_value remat_build_product(struct remat_builder *b, remat_value x, remat_value y);

/* x times a factor, f32 [], in the dtype of x; x itself where the factor is the constant 1. */
remat_value remat_build_scaled(struct remat_builder *b, remat_value x, remat_value factor);

/* x repeated to the shape of `like`. */
remat_value remat_build_repeat(struct remat_builder *b, remat_value x, remat_value like);

/* Sums a gradient over the axes along which an operand of shape `to` was broadcast. */
remat_value remat_build_sum_to(struct remat_builder *b, remat_value gradient,
                               const struct remat_shape *to);

#endif
