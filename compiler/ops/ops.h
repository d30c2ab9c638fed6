/* SPDX-License-Identifier: Apache-2.0 */
/* The op table: everything the compiler knows about an op, one row of ops.def each. Facts live only
 * here. A row names the functions of its family file (pointwise.c, matmul.c, norm.c, ...); a
 * missing one does not link. Adding an op: docs/adding_an_op.md. */
#ifndef REMAT_OPS_H
#define REMAT_OPS_H

#include "graph.h"
#include "suggest.h"

#include <assert.h>

enum remat_op {
#define OP(name, facts, inputs_min, inputs_max, outputs, signature, executor, attributes, shape,   \
           flops, derive, expand, layout, batch)                                                   \
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
    REMAT_FACT_IN_PLACE = 1 << 6,      /* each leading output i is the new version of input i */
    REMAT_FACT_COMPUTE_HEAVY = 1 << 7, /* saved by the default per-op policy */
    REMAT_FACT_RANDOM = 1 << 8,
    REMAT_FACT_STATEFUL = 1 << 9, /* never recomputed */
    REMAT_FACT_COLLECTIVE = 1 << 10,
    REMAT_FACT_FOREIGN = 1 << 11, /* known by class, types and cost alone: planned, never lowered */
};

enum remat_layout_rule {
#define REMAT_LAYOUT_RULE(name) REMAT_RULE_##name,
#include "layout_rules.def"
#undef REMAT_LAYOUT_RULE
};

enum remat_batch_rule {
#define REMAT_BATCH_RULE(name) REMAT_BATCH_RULE_##name,
#include "batch_rules.def"
#undef REMAT_BATCH_RULE
};

struct remat_builder;

struct remat_op_info {
    const char *name;
    uint32_t facts;
    uint8_t inputs_min, inputs_max, outputs; /* outputs 0: one or more */
    const char *signature;                   /* dtypes and shapes, as ops.def explains them */
    uint16_t executor;      /* enum remat_opcode or enum remat_kernel_kind, by the facts */
    const char *attributes; /* accepted keys, separated by blanks; "key?": optional */
    /* Checks what the signature cannot express, and fills in dtypes and shapes of outputs that the
     * signature leaves open. The message does not name the node; the caller prepends it. NULL: the
     * signature is complete. */
    remat_status (*shape)(remat_context *ctx, const struct remat_graph *graph,
                          const struct remat_node_info *node, struct remat_value_info *outputs);
    /* Floating-point operations of the whole node. */
    uint64_t (*flops)(const struct remat_graph *graph, const struct remat_node_info *node);
    /* Builds the gradients of the inputs from that of the first output; other outputs only serve
     * the derivative and have no gradient. in_gradients is filled with REMAT_NO_VALUE on entry,
     * which means zero. NULL: not differentiable. */
    void (*derive)(struct remat_builder *builder, const struct remat_node_info *node,
                   remat_value gradient, remat_value *in_gradients);
    /* Builds primitive nodes that compute the node's outputs from `inputs`, which are ids of the
     * new graph; ids in `node` are of the old one. NULL: the op is primitive. */
    void (*expand)(struct remat_builder *builder, const struct remat_node_info *node,
                   const remat_value *inputs, remat_value *outputs);
    enum remat_layout_rule layout;
    enum remat_batch_rule batch;
};

extern const struct remat_op_info remat_op_table[REMAT_OP_COUNT]; /* op_table.c */

static inline const struct remat_op_info *remat_op_info(uint16_t op)
{
    assert(op < REMAT_OP_COUNT);
    return &remat_op_table[op];
}

/* Any of these facts. */
static inline bool remat_op_has(uint16_t op, uint32_t facts)
{
    return (remat_op_info(op)->facts & facts) != 0;
}

bool remat_op_find(const char *name, size_t length, uint16_t *out);
struct remat_suggestion remat_op_suggest(const char *name);             /* for a misspelt name */
double remat_attribute_number(const struct remat_attribute *attribute); /* no list */
/* The value of an attribute, or its default; the key is one of the op table's. */
double remat_node_number(const struct remat_node_info *node, const char *key);
/* The first foreign node, or none; the graph need not be verified. */
remat_node remat_find_foreign(const struct remat_graph *graph);
bool remat_op_recomputable(uint16_t op); /* neither in place nor stateful */

/* --- optional operands (those of a row that end in "?") --- */

bool remat_op_optional(uint16_t op, uint32_t number); /* whether operand `number` of the row is */
/* The name of one, to be printed with "%.*s". */
const char *remat_op_operand_name(uint16_t op, uint32_t number, int *length);
/* The number of the one with that name; REMAT_NONE: the row has none. */
uint32_t remat_op_find_operand(uint16_t op, const char *name, size_t length);
/* Which of the node's inputs is the operand of that name, which its row has; REMAT_NONE: it is
 * absent. */
uint32_t remat_node_operand(const struct remat_node_info *node, const char *name);

/* infer.c: checks arity and attribute keys, then calls shape(). The message does not name the node.
 */
remat_status remat_op_infer(remat_context *ctx, const struct remat_graph *graph,
                            const struct remat_node_info *node, struct remat_value_info *outputs);

/* The value whose bytes `value` uses: follows VIEW nodes to their first input. */
remat_value remat_storage_root(const struct remat_graph *graph, remat_value value);

/* The graph input that `value` is a version of, through IN_PLACE nodes; else `value` itself. */
remat_value remat_state_of(const struct remat_graph *graph, remat_value value);

/* Number of a built-in node's inputs that precede its results among the kernel's operands: all but
 * optional ones, which follow them. */
uint32_t remat_op_inputs_before_results(const struct remat_node_info *node);
/* And which of the kernel's operands are absent. */
static inline uint32_t remat_op_kernel_absent(const struct remat_node_info *node)
{
    return node->absent << node->output_count;
}

/* attention.c: the model flops of a matmul or of attention, whose gradient counts without the
 * scores that it recomputes; 0 for other ops. */
uint64_t remat_op_product_flops(const struct remat_graph *graph,
                                const struct remat_node_info *node);

/* Number of a node's inputs whose elements it reads. A column index only takes the shape of its
 * input. */
static inline uint32_t remat_op_reads(const struct remat_node_info *node)
{
    return node->op == REMAT_OP_column ? 0 : node->input_count;
}

/* --- functions over the op table, a file each --- */

/* graph_verify.c: checks a whole graph: ids in range and defined before use, arity, attributes,
 * inferred shapes and dtypes equal to the recorded ones, unique names, order of updates. Messages
 * begin with `node "NAME" (op):`. */
remat_status remat_graph_verify(remat_context *ctx, const struct remat_graph *graph);

/* bind.c: a copy of the graph in `arena`, verified, with every symbol replaced by its value;
 * strings and id lists are shared. Graph inputs whose axis 0 is the symbol "batch" become batched.
 * With a batch of 1 the result has the `pair`, if the graph is valid with a batch of 2.
 * REMAT_ERROR_USAGE: a used symbol has no value. Other messages are those of remat_graph_verify. */
remat_status remat_graph_bind(remat_context *ctx, struct remat_arena *arena,
                              const struct remat_graph *graph, struct remat_graph **out);
/* Checks a graph with symbols; if all of them have values, as bound to these. */
remat_status remat_graph_verify_symbolic(remat_context *ctx, const struct remat_graph *graph);

/* hash.c: covers structure, dtypes, shapes, attributes, roles, initialisers and scopes, but not the
 * names of values. */
uint64_t remat_graph_hash(const struct remat_graph *graph);
uint64_t remat_attribute_hash(uint64_t seed, const struct remat_attribute *attribute);
/* Compares key and bits. */
bool remat_attribute_equal(const struct remat_attribute *a, const struct remat_attribute *b);

/* indices.c: the range of the indices in input k; bound 0: its elements are no indices. */
struct remat_indices remat_op_indices(const struct remat_graph *graph,
                                      const struct remat_node_info *node, uint32_t k);

/* optimizer.c: the input that is a flag, which the node sets (ops.def); REMAT_NONE: none is. */
uint32_t remat_op_flag(const struct remat_node_info *node);

#endif
