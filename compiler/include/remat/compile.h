/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler as a library: a graph and a budget in bytes -> a plan, which remat/remat.h runs, or
 * of nodes that remat does not know, the order in which to run them, which of them to run again,
 * and a proven bound.
 *
 *     remat_graph_builder_read(ctx, "model.fbs", &graph);
 *     remat_compile_options_create(ctx, &options);
 *     remat_compile_options_set(options, "target", "h100-sxm");
 *     remat_compile_options_set(options, "budget", "60GB");
 *     if (remat_compiled_create(ctx, graph, options, &compiled) == REMAT_OK)
 *         remat_compiled_write(ctx, compiled, "model.plan");
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
 *     remat_compile_options_set(options, "budget", "60GB");
 *     if (remat_order_create(ctx, graph, options, &order) == REMAT_OK)
 *         ...remat_order_get_info(order, &info); remat_order_runs(order, &count);
 *
 * Every handle is destroyed by its destroy function, which takes the address of the handle, accepts
 * NULL in it and leaves NULL. A context outlives what was made with it and belongs to one thread at
 * a time, as do a builder that is not finished, options and what is compiled; a finished graph, an
 * order and a curve are immutable and may be shared. Strings and arrays that are given are copied;
 * those that are returned live as long as the object they came from. Structs start with
 * `struct_size`, which the caller sets to their sizeof.
 *
 * REMAT_ERROR_USAGE, with a message: a call out of order, or with another object than it is of. In
 * builds with asserts a destroyed object, too, is known as such until its context is destroyed.
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

/* A graph that is added to, then finished, then planned. Its values are known by numbers that say
 * which graph they are of, as far as the last 255 of a context go; the results of a node have
 * consecutive ones. A value of another graph is REMAT_ERROR_INVALID. At most 16,777,216 values. */
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
    int64_t shape[REMAT_VALUE_RANK_MAX]; /* above 0, or a symbol */
    const char *pin;                     /* "save", "recompute"; NULL: the planner decides */
    /* The rest may be 0. */
    const char *role; /* "parameter", "state", "output", ... (docs/ir.md); NULL: "input" of an
                         input, else "activation" */
    const char *initializer; /* of parameters and states: "constant", init_mean; "normal" */
    double init_mean, init_std;
    bool trainable;            /* a parameter whose gradient is computed, and that is updated */
    bool no_decay;             /* weight decay leaves it out */
    int64_t unpadded_rows;     /* of axis 0 of a parameter; the rest is padding; 0: none is */
    const char *layout_axis;   /* of the mesh, "tp"; NULL: the compiler finds the layout */
    uint32_t layout_dimension; /* that is split, */
    int64_t layout_blocks;     /* each of so many blocks of it; 0: whole on every rank */
} remat_value_spec;

typedef struct remat_attribute_spec {
    size_t struct_size;
    const char *key;
    double number;           /* unless `integers`; a whole one where the op wants an integer */
    const int64_t *integers; /* a list, or one that stands for `number`, as a symbol has to; NULL:
                                `number` counts */
    uint32_t integer_count;
} remat_attribute_spec;

#define REMAT_ABSENT 4294967295u

/* Nodes are added in an order in which they can run. */
typedef struct remat_node_spec {
    size_t struct_size;
    const char *op;    /* docs/ir.md: "linear", "foreign_pointwise" */
    const char *phase; /* "forward", "loss", "backward", "optimizer" */
    const char *scope; /* the module, "layers.3/attn"; NULL: none */
    uint32_t input_count, output_count, attribute_count;
    const uint32_t *inputs; /* values; REMAT_ABSENT: an optional operand that is not there */
    const remat_value_spec *outputs;
    const remat_attribute_spec *attributes;
} remat_node_spec;

/* A length that is known when the graph is compiled (option "bind"): *out_length stands for it in
 * shapes and integers of attributes. "batch" is what ranks and microbatches divide. `value`: unless
 * another is given; 0: none. */
REMAT_API remat_status remat_graph_builder_add_symbol(remat_graph_builder *graph, const char *name,
                                                      int64_t value, int64_t *out_length);
/* A value that is there before the step, and all through it: a parameter, a batch. */
REMAT_API remat_status remat_graph_builder_add_input(remat_graph_builder *graph,
                                                     const remat_value_spec *value,
                                                     uint32_t *out_value);
/* A constant, f32 or i32, with its elements, row-major, which are copied. One with the type and the
 * elements of an earlier one is that one, with its name. All constants of a graph have at most 64
 * MiB together. */
REMAT_API remat_status remat_graph_builder_add_constant(remat_graph_builder *graph,
                                                        const remat_value_spec *value,
                                                        const void *data, size_t bytes,
                                                        uint32_t *out_value);
/* Its outputs are the values from *out_value on; the nodes are numbered in order, from 0.
 * REMAT_ERROR_INVALID, naming node and what is wrong: what a single node shows; the rest is found
 * by remat_graph_builder_finish. */
REMAT_API remat_status remat_graph_builder_add_node(remat_graph_builder *graph,
                                                    const remat_node_spec *node,
                                                    uint32_t *out_value);
/* A value that the step has to leave: the loss first, then gradients. */
REMAT_API remat_status remat_graph_builder_add_output(remat_graph_builder *graph, uint32_t value);
/* `value` is the state's new version at the end of the step. */
REMAT_API remat_status remat_graph_builder_add_update(remat_graph_builder *graph, uint32_t state,
                                                      uint32_t value);

typedef struct remat_optimizer_spec {
    size_t struct_size;
    const char *kind; /* "adamw", "sgd" */
    double beta1, beta2, epsilon, weight_decay;
    double clip_norm;  /* most that the norm of all gradients may be; 0: no limit */
    bool no_master;    /* bf16 parameters are updated themselves, without an f32 copy */
    bool bf16_moments; /* AdamW's moments are bf16, not f32 */
} remat_optimizer_spec;
/* The compiler appends it to a graph that ends with the loss; without one nothing is trained. */
REMAT_API remat_status remat_graph_builder_set_optimizer(remat_graph_builder *graph,
                                                         const remat_optimizer_spec *optimizer);
/* Hugging Face's config.json of the model, in a line; what of the model the graph leaves out, so
 * that its plans do not run. NULL: none. */
REMAT_API remat_status remat_graph_builder_describe(remat_graph_builder *graph, const char *config,
                                                    const char *plan_only);

/* Verifies the whole graph, which takes nothing more. */
REMAT_API remat_status remat_graph_builder_finish(remat_graph_builder *graph);

/* A finished graph from a file: remat-graph's, or text (docs/ir.md). `name` starts messages about
 * it, as the path does. */
REMAT_API remat_status remat_graph_builder_read(remat_context *ctx, const char *path,
                                                remat_graph_builder **out);
REMAT_API remat_status remat_graph_builder_parse(remat_context *ctx, const char *name,
                                                 const void *data, size_t bytes,
                                                 remat_graph_builder **out);
/* A finished graph as a file: a temporary one, then renamed. Equal graphs give equal bytes. */
REMAT_API remat_status remat_graph_builder_write(remat_context *ctx,
                                                 const remat_graph_builder *graph,
                                                 const char *path);

/* --- options --- */

typedef struct remat_compile_options remat_compile_options;

REMAT_API remat_status remat_compile_options_create(remat_context *ctx,
                                                    remat_compile_options **out);
REMAT_API void remat_compile_options_destroy(remat_compile_options **options);
/* A later value replaces an earlier one; of the options that repeat each adds a glob or a name.
 * Names and values are those of remat-compile (docs/cli.md) without "--"; flags are "true" or
 * "false". REMAT_ERROR_USAGE: no such name, which lists all, or no such value; what contradicts the
 * graph or another option is found when they are used.
 *     budget, reserve         "60GB", "90%" of the target
 *     target, profile         names or .json files; target "cpu" unless set
 *     threads                 of the target
 *     bind                    "batch=8,seq=1024"; "batch=auto" of a plan
 *     mesh, zero, sequence-parallel, microbatches, exchange-size, loss-chunk
 *     ranks, global-batch     with "microbatches" "auto" they leave the rest to be chosen
 *     solver                  "per-op", "manual"
 *     time-limit              "10s", from this call on, after which it is as if cancelled
 *     save, recompute         pins, by scope or name; they repeat
 *     recompute-granularity, ac-mode, gradient-checkpointing, ...    policies, in place of a search
 *     arch, nvrtc             "sm_90": architectures that remat_compiled_make_cubins compiles for;
 *                             the folder of libnvrtc
 *     cache                   as of remat-compile; it is the caller's to pass on
 *     explain                 a glob of values, repeated: what each costs saved and recomputed
 *                             (remat_compiled_explain, remat_order_values)
 *     advise                  a flag: reports say what else would fit, or be faster or smaller
 *     marks                   a flag: a curve has settings of other systems beside it
 *     cuda                    a flag: a command that has no CUDA text is an error
 *     print-after, print-plan, verbose    have remat_compile_options_show called: with the graph
 *                             after a pass, repeated; with searches; with times */
REMAT_API remat_status remat_compile_options_set(remat_compile_options *options, const char *name,
                                                 const char *value);

/* Where a compilation is; 0, NULL: not known, or none. */
typedef struct remat_compile_progress {
    size_t struct_size;
    uint64_t best_ns;  /* of the steps found so far */
    uint64_t bound_ns; /* of all steps */
    /* Decisions of a curve: priced of how many, and the smallest peak. */
    uint32_t seen_count, to_see_count;
    uint64_t least_bytes;
    /* Where sizes or divisions are compared: */
    const char *attempt;       /* that is looked at, "batch 8", "--mesh dp=2 ..." */
    uint32_t attempt_count;    /* of those that were, */
    uint32_t planned_count;    /* and of these planned, */
    uint32_t to_attempt_count; /* of how many */
    const char *best_attempt;  /* the fastest one planned */
    uint64_t best_attempt_ns;  /* its step */
    bool divisions;            /* divisions are compared, not sizes */
    bool settled;  /* the attempt is the one that was chosen: its plan is made in full */
    bool abandons; /* nothing is found: "true" ends the call with REMAT_ERROR_CUT_SHORT at once.
                      Else it ends the search, which still tries what is likely smallest */
} remat_compile_progress;

/* Asked now and then. True ends a search with the best so far, which says `cut_short`, or if there
 * is none with REMAT_ERROR_CUT_SHORT. */
typedef bool (*remat_is_cancelled)(void *user, const remat_compile_progress *now);
REMAT_API void remat_compile_options_watch(remat_compile_options *options,
                                           remat_is_cancelled is_cancelled, void *user);

/* Called with lines of text; `time`: it is about time. */
typedef void (*remat_show_text)(void *user, bool time, const char *text);
REMAT_API void remat_compile_options_show(remat_compile_options *options, remat_show_text show,
                                          void *user);

/* Makes the file of the graph with adapters of a rank, as remat-graph --lora does, for advice:
 * *out_data is valid until the next call; NULL: it cannot be made, and *out_why says why. */
typedef remat_status (*remat_make_adapters)(void *user, remat_context *ctx, int64_t rank,
                                            const void **out_data, size_t *out_bytes,
                                            const char **out_why);
REMAT_API void remat_compile_options_adapt(remat_compile_options *options, remat_make_adapters make,
                                           void *user);

/* --- plans --- */

/* A plan, with what was chosen for it. */
typedef struct remat_compiled remat_compiled;

/* REMAT_ERROR_INFEASIBLE: nothing fits; the message names the smallest budget that does. *out is
 * then there all the same, and its report says what needs least. REMAT_ERROR_INVALID: of a graph
 * that cannot be lowered, too. */
REMAT_API remat_status remat_compiled_create(remat_context *ctx, const remat_graph_builder *graph,
                                             const remat_compile_options *options,
                                             remat_compiled **out);
REMAT_API void remat_compiled_destroy(remat_compiled **compiled);

typedef struct remat_compiled_info {
    size_t struct_size;
    bool planned;        /* there is a plan; else 0 and NULL from here on */
    const char *policy;  /* "per-op", or the manual policy that it is */
    const char *foreign; /* a node that remat does not know, so that nothing is written; NULL */
    uint64_t budget_bytes, reserve_bytes, arena_bytes, peak_bytes, static_bytes;
    uint64_t step_ns, base_step_ns, bound_step_ns, floor_bytes; /* as of an order */
    uint32_t microbatches, ranks;
    const char *bindings; /* of the graph's symbols, that were given or chosen */
} remat_compiled_info;
REMAT_API void remat_compiled_get_info(const remat_compiled *compiled, remat_compiled_info *out);

/* The plan as bytes, which live as long as it does; REMAT_ERROR_USAGE: there is none, or it has
 * foreign nodes. */
REMAT_API remat_status remat_compiled_data(remat_context *ctx, remat_compiled *compiled,
                                           const void **out_data, size_t *out_bytes);
/* The same as a file: a temporary one, then renamed. */
REMAT_API remat_status remat_compiled_write(remat_context *ctx, remat_compiled *compiled,
                                            const char *path);

/* --- curves --- */

typedef struct remat_trade remat_trade; /* step time against memory */

/* The orders that are chosen from at any budget. `compiled`: a plan of the same graph and options,
 * on the curve and with its division; NULL: none. */
REMAT_API remat_status remat_trade_create(remat_context *ctx, const remat_graph_builder *graph,
                                          const remat_compile_options *options,
                                          const remat_compiled *compiled, remat_trade **out);
REMAT_API void remat_trade_destroy(remat_trade **trade);

typedef struct remat_trade_point {
    uint64_t peak_bytes, step_ns;
    uint64_t bound_step_ns; /* of any order with this peak; 0: not known */
    const char *policy;     /* as of an order */
} remat_trade_point;
/* From the largest to the smallest and, strictly, from the fastest to the slowest. */
REMAT_API const remat_trade_point *remat_trade_points(const remat_trade *trade,
                                                      uint32_t *out_count);

typedef struct remat_trade_info {
    size_t struct_size;
    uint64_t reserve_bytes;                               /* of a budget, beside the peak */
    uint64_t floor_bytes;                                 /* no peak is below; 0: not known */
    uint64_t base_step_ns;                                /* everything saved */
    uint32_t decision_count, seen_count, evaluated_count; /* in all; of these seen; priced */
    bool bounded, cut_short;
    const char *graph, *sizes; /* "gpt2"; "batch 8, sequence 1024, 2 microbatches" */
    const char *device;
    uint64_t capacity_bytes; /* of it; 0: not known */
} remat_trade_info;
REMAT_API void remat_trade_get_info(const remat_trade *trade, remat_trade_info *out);

/* A setting of other systems. */
typedef struct remat_trade_mark {
    const char *name;
    uint32_t kind;       /* below 7: equal for those that the same systems have */
    const char *systems; /* that have it, for a legend */
    uint64_t budget_bytes, step_ns;
} remat_trade_mark;
/* Those known best first; none where values are pinned. */
REMAT_API const remat_trade_mark *remat_trade_marks(const remat_trade *trade, uint32_t *out_count);

/* --- reports --- */

typedef struct remat_report_spec {
    size_t struct_size;
    bool json; /* remat-report/1, remat-refusal/1 (docs/formats.md); else text for people */
    const char *plan_path;    /* that is named; NULL: none */
    const remat_trade *trade; /* that is reported on beside the plan, and its path; NULL: none */
    const char *trade_path;
} remat_report_spec;

/* `prose`: the line may be broken at spaces. */
typedef void (*remat_write_line)(void *user, const char *line, bool prose);

/* As remat-compile prints it; after REMAT_ERROR_INFEASIBLE, why nothing fits. `compiled` NULL: of
 * the curve alone. */
REMAT_API remat_status remat_compiled_report(remat_context *ctx, const remat_compiled *compiled,
                                             const remat_report_spec *spec, remat_write_line write,
                                             void *user);
/* The costs of the values of the option explain; after REMAT_ERROR_INFEASIBLE, in the smallest
 * plan. REMAT_ERROR_USAGE: a glob matches none. */
REMAT_API remat_status remat_compiled_explain(remat_context *ctx, const remat_compiled *compiled,
                                              bool json, remat_write_line write, void *user);

/* --- CUDA --- */

typedef struct remat_cubins_spec {
    size_t struct_size;
    const char *cache; /* a folder, which is made; NULL: nothing is kept */
    bool needs_cache;  /* a folder that cannot be had is an error, no warning */
    uint32_t threads;  /* 0 as 1 */
    /* Asked before each cubin, by one thread at a time; true: no more are begun. NULL: never. */
    bool (*is_over)(void *user, uint32_t begun, uint32_t of);
    void *user;
    /* Set by the call: */
    uint32_t compiled_count, cached_count;
} remat_cubins_spec;

/* Compiles the plan's kernels for the architectures of the option arch; without that option or
 * kernels it adds a note on what becomes of them, or nothing. Before remat_compiled_data. */
REMAT_API remat_status remat_compiled_make_cubins(remat_context *ctx, remat_compiled *compiled,
                                                  remat_cubins_spec *cubins);

typedef struct remat_code_file {
    const char *name; /* "KERNEL.cu", "KERNEL.ARCH.cubin", "resources.csv" */
    const void *data;
    size_t bytes;
} remat_code_file;
/* The text and cubins of each kernel. They live as long as what is compiled. */
REMAT_API remat_status remat_compiled_code(remat_context *ctx, remat_compiled *compiled,
                                           const remat_code_file **out, uint32_t *out_count);

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

#ifdef __cplusplus
}
#endif

#endif
