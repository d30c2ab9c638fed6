/* SPDX-License-Identifier: Apache-2.0 */
/* The planner as a library: a graph, a budget in bytes -> the order in which to run its nodes,
 * which of them to run again, and a proven bound.
 *
 *     remat_context *ctx = remat_context_create(NULL, NULL);
 *     remat_graph_builder *graph;
 *     remat_order *order;
 *     remat_graph_builder_create(ctx, "step", &graph);
 *     ...remat_graph_builder_add_input(graph, &value, &id); remat_graph_builder_add_node(graph,
 * &node, &id); remat_graph_builder_add_output(graph, id); remat_graph_builder_finish(graph);
 *     remat_compile_options *options;
 *     remat_compile_options_create(ctx, &options);
 *     remat_compile_options_set(options, "target", "h100-sxm");
 *     remat_compile_options_set(options, "budget", "60000000000");
 *     if (remat_order_create(ctx, graph, options, &order) == REMAT_OK)
 *         ...remat_order_get_info(order, &info); remat_order_runs(order, &count);
 *
 * Every handle is destroyed by its destroy function, which takes the address of the handle, accepts
 * NULL in it and leaves NULL. A context outlives what was made with it and belongs to one thread at
 * a time, as do a builder that is not finished and options; a finished graph and an order are
 * immutable and may be shared. Strings and arrays that are given are copied; those that are
 * returned live as long as the object they came from. Structs start with `struct_size`, which the
 * caller sets to their sizeof.
 *
 * Plans are functions of graph and options: the same input gives the same order in every process.
 */
#ifndef REMAT_PUBLIC_COMPILE_H
#define REMAT_PUBLIC_COMPILE_H

#include <remat/status.h>

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0-0123456789abcdef": the version, and a hash of the headers compile.h, solve.h and status.h.
 * A client in another language compares all of it with what it was written for. */
REMAT_API const char *remat_compiler_version(void);

/* --- graphs --- */

/* A graph that is added to, then finished, then planned. */
typedef struct remat_graph_builder remat_graph_builder;

REMAT_API remat_status remat_graph_builder_create(remat_context *ctx, const char *name,
                                                  remat_graph_builder **out);
REMAT_API void remat_graph_builder_destroy(remat_graph_builder **graph);

#define REMAT_VALUE_RANK_MAX 6
typedef struct remat_value_spec {
    size_t struct_size;
    const char *name;  /* unique in the graph */
    const char *dtype; /* "f32", "bf16", "f16", "i32"; of foreign nodes also "b8" to "b128":
                          elements of so many bits */
    uint32_t rank;
    int64_t shape[REMAT_VALUE_RANK_MAX]; /* above 0 */
    const char *pin;                     /* "save", "recompute"; NULL: the planner decides */
} remat_value_spec;

typedef struct remat_attribute_spec {
    size_t struct_size;
    const char *key;
    double number;           /* unless `integers`; a whole one where the op wants an integer */
    const int64_t *integers; /* a list; NULL: `number` counts */
    uint32_t integer_count;
} remat_attribute_spec;

#define REMAT_ABSENT 4294967295u

/* Nodes are added in an order in which they can run. */
typedef struct remat_node_spec {
    size_t struct_size;
    const char *op;    /* a row of ops.def, "foreign_pointwise" */
    const char *phase; /* "forward", "loss", "backward", "optimizer" */
    const char *scope; /* the module, "layers.3/attn"; NULL: none */
    uint32_t input_count, output_count, attribute_count;
    const uint32_t *inputs; /* values; REMAT_ABSENT: an optional operand that is not there */
    const remat_value_spec *outputs;
    const remat_attribute_spec *attributes;
} remat_node_spec;

/* A value that is there before the step, and all through it: a parameter, a batch. */
REMAT_API remat_status remat_graph_builder_add_input(remat_graph_builder *graph,
                                                     const remat_value_spec *value,
                                                     uint32_t *out_value);
/* Its outputs are the values from *out_value on; the nodes are numbered in order, from 0.
 * REMAT_ERROR_INVALID, naming node and what is wrong: what a single node shows; the rest is found
 * by remat_graph_builder_finish. */
REMAT_API remat_status remat_graph_builder_add_node(remat_graph_builder *graph,
                                                    const remat_node_spec *node,
                                                    uint32_t *out_value);
/* A value that the step has to leave: the loss first, then gradients. */
REMAT_API remat_status remat_graph_builder_add_output(remat_graph_builder *graph, uint32_t value);
/* Verifies the whole graph, which takes nothing more. */
REMAT_API remat_status remat_graph_builder_finish(remat_graph_builder *graph);

/* --- options --- */

typedef struct remat_compile_options remat_compile_options;

REMAT_API remat_status remat_compile_options_create(remat_context *ctx,
                                                    remat_compile_options **out);
REMAT_API void remat_compile_options_destroy(remat_compile_options **options);
/* A later value replaces an earlier one; of save and recompute each adds a glob. REMAT_ERROR_USAGE:
 * no such name, which lists all, or no such value; what contradicts the graph or another option is
 * found with the order. Names and values are those of remat-compile without "--", but numbers have
 * no units and flags are "true" or "false":
 *     budget, reserve         bytes, "60000000000"
 *     target                  a name or a .json file; "cpu" unless set
 *     threads                 of the target
 *     solver                  "per-op", "manual"
 *     time-limit              seconds from the call on, after which it is as if cancelled
 *     explain                 a flag: the order has values (remat_order_values)
 *     save, recompute         pins, by scope or name
 *     recompute-granularity, ac-mode, gradient-checkpointing, ...    policies, in place of a search
 */
REMAT_API remat_status remat_compile_options_set(remat_compile_options *options, const char *name,
                                                 const char *value);
/* Asked now and then while an order or a curve is made, and told of the step what is known: the
 * best time so far and a bound of all times; 0: not yet. True ends it with the best so far, which
 * says `cut_short`, or if there is none with REMAT_ERROR_CUT_SHORT. */
typedef bool (*remat_is_cancelled)(void *user, uint64_t best_ns, uint64_t bound_ns);
REMAT_API void remat_compile_options_watch(remat_compile_options *options,
                                           remat_is_cancelled is_cancelled, void *user);

/* --- orders --- */

/* The step of a graph that fits a budget: an order of its nodes, some of which run again. */
typedef struct remat_order remat_order;

/* The fastest that is found; without a budget the fastest of all. REMAT_ERROR_INFEASIBLE: nothing
 * fits; the message names the smallest budget that does. */
REMAT_API remat_status remat_order_create(remat_context *ctx, const remat_graph_builder *graph,
                                          const remat_compile_options *options, remat_order **out);
REMAT_API void remat_order_destroy(remat_order **order);

typedef struct remat_order_info {
    size_t struct_size;
    const char *policy;    /* "per-op", or the manual policy that it is */
    uint64_t arena_bytes;  /* for every value of the step, packed */
    uint64_t peak_bytes;   /* most bytes live at once */
    uint64_t static_bytes; /* of these, all through the step: inputs */
    uint64_t reserve_bytes;
    uint64_t step_ns, base_step_ns; /* base: nothing runs again */
    uint64_t bound_step_ns;         /* no order within the budget takes less; 0: not known */
    uint64_t floor_bytes;           /* no budget below has an order; 0: not known */
    bool cut_short; /* the search was cancelled: another run may find a better one */
} remat_order_info;
REMAT_API void remat_order_get_info(const remat_order *order, remat_order_info *out);

typedef struct remat_order_run {
    uint32_t node;   /* of the graph */
    uint32_t round;  /* 0: its first run; 1, 2: it runs again */
    uint32_t kernel; /* which the node is a part of; numbered in the order in which they run */
    bool stored;     /* its results are written to memory; else only its kernel reads them */
} remat_order_run;
/* Every node that the outputs need, at least once; no views, which take no time and have no bytes.
 * A fused kernel that runs again for the first time has a place of its own in the order, but the
 * price of a part of a kernel of the backward pass that loads the same values over the same index
 * space, if there is one: whoever compiles the order is expected to fuse the two. */
REMAT_API const remat_order_run *remat_order_runs(const remat_order *order, uint32_t *out_count);

/* A value of the forward pass about which something was decided. */
typedef struct remat_order_value {
    const char *name, *scope; /* of the graph */
    const char
        *action; /* "save", "recompute", "recompute inline": inside the kernels that read it */
    const char *reason;
    uint64_t bytes;
    bool recomputable;          /* else it can only be saved */
    int64_t recompute_extra_ns; /* what recomputing it, rather than saving it, adds to the step with
                                   all else as it is */
} remat_order_value;
/* By place in the order; none without the option explain. */
REMAT_API const remat_order_value *remat_order_values(const remat_order *order,
                                                      uint32_t *out_count);

/* --- curves --- */

typedef struct remat_trade remat_trade; /* step time against memory */

/* The orders that remat_order_create chooses from at any budget. */
REMAT_API remat_status remat_trade_create(remat_context *ctx, const remat_graph_builder *graph,
                                          const remat_compile_options *options, remat_trade **out);
REMAT_API void remat_trade_destroy(remat_trade **trade);

typedef struct remat_trade_point {
    uint64_t peak_bytes, step_ns;
    uint64_t bound_step_ns; /* of any order with this peak; 0: not known */
} remat_trade_point;
/* From the largest to the smallest and, strictly, from the fastest to the slowest. */
REMAT_API const remat_trade_point *remat_trade_points(const remat_trade *trade,
                                                      uint32_t *out_count);

#ifdef __cplusplus
}
#endif

#endif
