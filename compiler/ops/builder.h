/* SPDX-License-Identifier: Apache-2.0 */
/* Building nodes: one op with inferred outputs, or a formula of several. */
#ifndef REMAT_BUILDER_H
#define REMAT_BUILDER_H

#include "ops.h"

/* Appends nodes to a graph so that a rewrite reads like its formula:
 *
 *     v = remat_build2(b, REMAT_OP_mul, x, remat_build1(b, REMAT_OP_rsqrt, variance));
 *
 * The caller guarantees that operands and attributes fit together; a result too large for any
 * memory unwinds. New nodes take scope, phase, origin, group and instance from the builder. The
 * first output is named `name` if that is set, which is then cleared, else prefix "." op "_"
 * counter; the others get the suffixes ".1", ".2". */
#define REMAT_BUILDER_DEPTH 32
struct remat_builder {
    struct remat_arena *arena;
    struct remat_graph *graph;
    remat_scope_id scope;
    uint8_t phase;
    bool keep_origin; /* origin and origin_group are these, not the new node's own */
    uint16_t origin;
    uint32_t origin_group;
    uint32_t instance;
    const char *name, *prefix;
    uint32_t counter;
    remat_value operands[REMAT_BUILDER_DEPTH]; /* the stack of remat_push */
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

/* Builds an op from the last `count` operands pushed, and pops them. */
remat_value remat_apply(struct remat_builder *b, uint16_t op, uint32_t count);

remat_value remat_build_matmul(struct remat_builder *b, remat_value x, remat_value y,
                               bool transpose_x, bool transpose_y);

remat_value remat_build_slice(struct remat_builder *b, remat_value x, uint32_t axis, int64_t begin,
                              int64_t end);

/* [.., n] -> [product of .., n] */
remat_value remat_build_rows(struct remat_builder *b, remat_value x);
int64_t remat_shape_rows(const struct remat_shape *shape); /* that product */

/* Returns the first output; `outputs` may be NULL if there is no other. Inputs are the operands of
 * the op's row, REMAT_NO_VALUE for an optional one that is absent. Attributes are copied. If the
 * operand of a view ends a chain of the maximal length, it is copied first. */
remat_value remat_build(struct remat_builder *b, uint16_t op, const remat_value *inputs,
                        uint32_t input_count, const struct remat_attribute *attributes,
                        uint32_t attribute_count, remat_value *outputs);

/* The same for nodes that a user's setting may make invalid: `building OP for "NAME": ...`. */
remat_status remat_build_checked(struct remat_builder *b, uint16_t op, const remat_value *inputs,
                                 uint32_t input_count, const struct remat_attribute *attributes,
                                 uint32_t attribute_count, remat_value *outputs);

remat_value remat_build1(struct remat_builder *b, uint16_t op, remat_value x);

remat_value remat_build2(struct remat_builder *b, uint16_t op, remat_value x, remat_value y);

remat_value remat_build3(struct remat_builder *b, uint16_t op, remat_value x, remat_value y,
                         remat_value z);

remat_value remat_build_constant(struct remat_builder *b, double value); /* f32, rank 0 */

/* x itself if the shape is equal. Copies x first if its strides do not allow a view. */
remat_value remat_build_reshape(struct remat_builder *b, remat_value x, const int64_t *dims,
                                uint32_t rank);

/* x in another dtype that ops compute with; x itself if it has it, and the operand of a widening
 * cast that this one would undo. */
remat_value remat_build_cast(struct remat_builder *b, remat_value x, remat_dtype dtype);
remat_value remat_build_like(struct remat_builder *b, remat_value x, remat_value like);
/* True if x is a cast from a rounded dtype to f32: exact, and done by every load anyway. */
bool remat_is_widening(const struct remat_graph *graph, remat_value x);

/* x * y; folded if a factor is the constant 1 or both are constants. */
remat_value remat_build_product(struct remat_builder *b, remat_value x, remat_value y);

/* x times a factor, f32 [], in the dtype of x; x itself if the factor is the constant 1. */
remat_value remat_build_scaled(struct remat_builder *b, remat_value x, remat_value factor);

/* x broadcast to the shape of `like`. */
remat_value remat_build_repeat(struct remat_builder *b, remat_value x, remat_value like);

/* Sums a gradient over the axes along which its operand, of shape `to`, was broadcast. */
remat_value remat_build_sum_to(struct remat_builder *b, remat_value gradient,
                               const struct remat_shape *to);

#endif
