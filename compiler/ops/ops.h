/* SPDX-License-Identifier: Apache-2.0 */
/* The op table: everything the compiler knows about an op, one row of ops.def each. Facts live only
 * here. A row names the functions of its family file (pointwise.c, matmul.c, norm.c, ...); a
 * missing one does not link. Adding an op: docs/adding_an_op.md. */
#ifndef REMAT_OPS_H
#define REMAT_OPS_H

#include "graph.h"
#include "suggest.h"

enum remat_op {
#define OP(name, facts, inputs_min, inputs_max, outputs, signature, executor, attributes, shape,   \
           flops, derive, expand, layout)                                                          \
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

enum remat_layout_rule {
#define REMAT_LAYOUT_RULE(name) REMAT_RULE_##name,
#include "layout_rules.def"
#undef REMAT_LAYOUT_RULE
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
    enum remat_layout_rule layout;
};

const struct remat_op_info *remat_op_info(uint16_t op); /* op < REMAT_OP_COUNT */
bool remat_op_find(const char *name, size_t length, uint16_t *out);
struct remat_suggestion remat_op_suggest(const char *name); /* of one that is no op */
bool remat_op_has(uint16_t op, uint32_t facts);             /* any of these facts */
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

/* How many inputs of a built-in node are operands before its results; attention's random state
 * comes behind these. */
uint32_t remat_op_inputs_before_results(const struct remat_node_info *node);

/* What a matrix product or attention has to do, of its flops: the products of attention, of its
 * gradient without the scores, which are computed again; 0 of all other ops. */
uint64_t remat_op_product_flops(const struct remat_graph *graph,
                                const struct remat_node_info *node);

/* How many of a node's inputs it reads: of a column index only the shape is named by one. */
static inline uint32_t remat_op_reads(const struct remat_node_info *node)
{
    return node->op == REMAT_OP_column ? 0 : node->input_count;
}

#endif
