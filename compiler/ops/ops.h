/* SPDX-License-Identifier: Apache-2.0 */
/* The op table: everything the compiler knows about an op, one row of ops.def each. Facts live only
 * here. A row names the functions of its family file (pointwise.c, matmul.c, norm.c, ...); a
 * missing one does not link. Adding an op: docs/adding_an_op.md. */
#ifndef REMAT_OPS_H
#define REMAT_OPS_H

#include "graph.h"

enum remat_op {
#define OP(name, facts, inputs_min, inputs_max, outputs, signature, executor, attributes, shape,   \
           flops, derive, expand)                                                                  \
    REMAT_OP_##name,
#include "ops.def"
#undef OP
    REMAT_OP_COUNT
};

enum remat_op_fact {
    REMAT_FACT_COMPOSITE = 1 << 0,  /* expanded into primitive ops before fusion */
    REMAT_FACT_POINTWISE = 1 << 1,  /* out[i] from in[i], operands broadcast; executor: an opcode */
    REMAT_FACT_ROW_REDUCE = 1 << 2, /* [.., n] -> [.., 1]; executor: an opcode */
    REMAT_FACT_COLUMN_REDUCE = 1 << 3, /* [.., n] -> [n]; executor: an opcode */
    REMAT_FACT_VIEW = 1 << 4,          /* owns no bytes */
    REMAT_FACT_BUILTIN = 1 << 5,       /* executor: a built-in kernel */
    REMAT_FACT_IN_PLACE =
        1 << 6, /* output i is the new version of input i for the leading outputs */
    REMAT_FACT_COMPUTE_HEAVY = 1 << 7, /* saved by the default per-op policy */
    REMAT_FACT_RANDOM = 1 << 8,
    REMAT_FACT_STATEFUL = 1 << 9, /* never recomputed */
    REMAT_FACT_COLLECTIVE = 1 << 10,
};

struct remat_builder;

struct remat_op_info {
    const char *name;
    uint32_t facts;
    uint8_t inputs_min, inputs_max, outputs;
    const char *signature;  /* dtypes and shapes, as ops.def explains them */
    uint16_t executor;      /* enum remat_opcode or enum remat_kernel_kind, by the facts */
    const char *attributes; /* the keys it accepts, separated by blanks; "key?": can be left out */
    /* Checks what the signature does not say, and fills dtype and shape of the outputs where that
     * has none. The message names what is wrong; the caller puts the node before it. NULL: the
     * signature says everything. */
    remat_status (*shape)(remat_context *ctx, const struct remat_graph *graph,
                          const struct remat_node_info *node, struct remat_value_info *outputs);
    /* Floating-point operations of the whole node. */
    uint64_t (*flops)(const struct remat_graph *graph, const struct remat_node_info *node);
    /* Builds the gradients of the inputs from that of the first output; further outputs are there
     * for the derivative and have none. in_gradients arrives filled with REMAT_NO_VALUE and keeps
     * it where the derivative is zero. NULL: not differentiable. */
    void (*derive)(struct remat_builder *builder, const struct remat_node_info *node,
                   remat_value gradient, remat_value *in_gradients);
    /* Builds primitive nodes that compute the node's outputs from `inputs` (ids in the new
     * graph; those of `node` are of the old one). NULL for primitive ops. */
    void (*expand)(struct remat_builder *builder, const struct remat_node_info *node,
                   const remat_value *inputs, remat_value *outputs);
};

const struct remat_op_info *remat_op_info(uint16_t op); /* op < REMAT_OP_COUNT */
bool remat_op_find(const char *name, size_t length, uint16_t *out);
bool remat_op_has(uint16_t op, uint32_t facts); /* any of these facts */
/* An attribute, or what it stands for where it is left out, of the op table's keys. */
double remat_node_number(const struct remat_node_info *node, const char *key);
bool remat_op_recomputable(uint16_t op); /* derived: neither in place nor stateful */

/* Checks arity, attribute keys, and calls shape(). The message does not name the node. */
remat_status remat_op_infer(remat_context *ctx, const struct remat_graph *graph,
                            const struct remat_node_info *node, struct remat_value_info *outputs);

/* The value whose bytes `value` uses: follows VIEW nodes to their first input. */
remat_value remat_storage_root(const struct remat_graph *graph, remat_value value);

/* The graph input that `value` is a version of, through IN_PLACE nodes; else `value` itself. */
remat_value remat_state_of(const struct remat_graph *graph, remat_value value);

/* That x is the f32 of a bf16 value: exact, and what a load does anyway. */
bool remat_is_widening(const struct remat_graph *graph, remat_value x);

/* Bound 0: the elements of input k are no indices. */
struct remat_indices remat_op_indices(const struct remat_graph *graph,
                                      const struct remat_node_info *node, uint32_t k);

/* How many of a node's inputs it reads: of a column index only the shape is named by one. */
static inline uint32_t remat_op_reads(const struct remat_node_info *node)
{
    return node->op == REMAT_OP_column ? 0 : node->input_count;
}

/* The input that is a flag, which the node sets (ops.def); REMAT_NONE: it has none. */
uint32_t remat_op_flag(const struct remat_node_info *node);

/* How a value lies in its storage root. */
struct remat_view {
    remat_value root; /* none where there is no such view */
    uint32_t rank;
    int64_t shape[REMAT_RANK_MAX];
    int64_t strides[REMAT_RANK_MAX]; /* elements of the root's dtype */
    uint64_t offset_elements;
};
/* Follows the views. None only where a reshape meets strides that it cannot view (a copy is a
 * concat of one input), or beyond REMAT_VIEW_CHAIN_MAX views: verified graphs contain neither. */
#define REMAT_VIEW_CHAIN_MAX 64
struct remat_view remat_view_of(const struct remat_graph *graph, remat_value value);

/* Semantic check of a whole graph: ids in range and defined before use, arity, attributes, inferred
 * shapes and dtypes equal those recorded, unique names, updates in order. Message:
 * `node "NAME" (op): ...`. */
remat_status remat_graph_verify(remat_context *ctx, const struct remat_graph *graph);

/* A copy of the graph in `arena`, verified, with the symbols' values for the symbols; strings and
 * id lists are shared. Graph inputs whose axis 0 is the symbol "batch" become batched.
 * REMAT_ERROR_USAGE: a symbol that is used has no value. Messages as those of remat_graph_verify.
 */
remat_status remat_graph_bind(remat_context *ctx, struct remat_arena *arena,
                              const struct remat_graph *graph, struct remat_graph **out);
/* What can be known of a graph with symbols: that it is right as bound to their values, if all have
 * one. */
remat_status remat_graph_verify_symbolic(remat_context *ctx, const struct remat_graph *graph);

/* Structure, dtypes, shapes, attributes, roles, initialisers and scopes; not value names. */
uint64_t remat_graph_hash(const struct remat_graph *graph);
uint64_t remat_attribute_hash(uint64_t seed, const struct remat_attribute *attribute);
/* To the bit, with the key. */
bool remat_attribute_equal(const struct remat_attribute *a, const struct remat_attribute *b);

/* --- builder: appends nodes to a graph so that a rewrite reads like the formula ---
 *
 *     v = remat_build2(b, REMAT_OP_mul, x, remat_build1(b, REMAT_OP_rsqrt, variance));
 *
 * Operands and attributes fit each other: the verifier has seen to it, or whoever builds. What is
 * too large for any memory all the same unwinds. New nodes take scope, phase, origin, group and
 * instance from the builder. Names: `name` when set (used once, for the first output; further
 * outputs get it with the suffix ".1", ".2"), else prefix "." op "_" counter. */
#define REMAT_BUILDER_DEPTH 32
struct remat_builder {
    struct remat_arena *arena;
    struct remat_graph *graph;
    uint32_t scope;
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
/* x in another dtype, f32 or bf16; x itself where it has it, and what was cast where x undoes it.
 */
remat_value remat_build_cast(struct remat_builder *b, remat_value x, remat_dtype dtype);
/* x * y without the node where a factor is the constant 1 or both are constants. */
remat_value remat_build_product(struct remat_builder *b, remat_value x, remat_value y);
/* x times a factor, f32 [], in the dtype of x; x itself where the factor is the constant 1. */
remat_value remat_build_scaled(struct remat_builder *b, remat_value x, remat_value factor);
/* x repeated to the shape of `like`. */
remat_value remat_build_repeat(struct remat_builder *b, remat_value x, remat_value like);
/* Sums a gradient over the axes along which an operand of shape `to` was broadcast. */
remat_value remat_build_sum_to(struct remat_builder *b, remat_value gradient,
                               const struct remat_shape *to);
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

#endif
