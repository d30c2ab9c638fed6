/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime of remat: load a plan, make a session, run its entry points.
 *
 *     remat_context *ctx = remat_context_create(NULL, NULL);
 *     remat_plan *plan;
 *     remat_session *session;
 *     remat_session_params params;
 *     remat_session_params_init(&params);
 *     if (remat_plan_load_file(ctx, "model.plan", &plan) == REMAT_OK &&
 *         remat_session_create(ctx, plan, &params, &session) == REMAT_OK &&
 *         remat_session_run(session, "init") == REMAT_OK) {
 *         ...remat_session_write(session, "tokens", ...); remat_session_run(session, "train");
 *         remat_session_read(session, "loss", &loss, sizeof loss);
 *     }
 *
 * Every handle is destroyed by its destroy function, which takes the address of the handle, accepts
 * NULL in it and leaves NULL. A context outlives what was made with it, a plan its sessions.
 * Strings and arrays that are returned live as long as the object they came from. Structs that
 * the host passes or receives start with `struct_size`; their init functions set it. */
#ifndef REMAT_REMAT_H
#define REMAT_REMAT_H

#include <remat/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counts incompatible changes of this header; the library's own, to compare with the macro. */
#define REMAT_API_VERSION 4
REMAT_API uint32_t remat_api_version(void);

/* --- plans --- */

/* A plan file that remat-compile wrote, verified. Immutable after loading, so threads may share it.
 */
typedef struct remat_plan remat_plan;

REMAT_API remat_status remat_plan_load_file(remat_context *ctx, const char *path, remat_plan **out);
/* `data` may be freed after the call; `name` starts messages. */
REMAT_API remat_status remat_plan_load_memory(remat_context *ctx, const char *name,
                                              const void *data, size_t bytes, remat_plan **out);
REMAT_API void remat_plan_destroy(remat_plan **plan);

typedef struct remat_plan_info {
    size_t struct_size;
    const char *graph_name, *target, *policy;
    uint64_t budget_bytes;  /* 0: none was given */
    uint64_t reserve_bytes; /* budget for all but the arena: code, stacks, scratch */
    uint64_t arena_bytes;   /* of the device, for every tensor */
    uint64_t peak_bytes;    /* most bytes live at once, at most arena_bytes */
    uint64_t static_bytes;  /* parameters, optimizer state, inputs */
    uint64_t predicted_step_ns, predicted_base_step_ns; /* base: nothing recomputed */
    uint64_t numerics_hash; /* plans with equal hashes give equal bits on one device */
    uint32_t command_count, recomputed_count; /* values that are recomputed */
    uint32_t rank_count;     /* that run the plan together; bytes and times are one rank's */
    const char *mesh;        /* how they are arranged, "dp=4"; "": one rank */
    const char *target_arch; /* of the target if that is a GPU, "sm_90"; "": it is a CPU */
    const char *config;      /* Hugging Face's config.json of the model; "": the graph had none */
    uint64_t step_tokens;    /* of a step, of all ranks; 0: not known */
    uint64_t model_flops;    /* that a rank's part of a step has to do: of matrix products and
                                attention, without recomputation; 0: not known */
    uint64_t model_ns;     /* of these at the target's peak: the utilization (MFU) is model_ns over
                              the time of a step */
    const char *plan_only; /* what of the model is left out; "": nothing, so there are sessions */
    const char *chosen_by; /* the option by which remat-compile chose the number of parts of a
                              step's batch, ranks along dp times microbatches, as "--ranks 8"; "":
                              it was given */
} remat_plan_info;
REMAT_API void remat_plan_get_info(const remat_plan *plan, remat_plan_info *out);
/* Value of an option of remat-compile, by its long name without "--", as "threads"; NULL: it was
 * not given. Valid as long as the plan. */
REMAT_API const char *remat_plan_setting(const remat_plan *plan, const char *option);

typedef enum remat_element {
    REMAT_ELEMENT_F32 = 1,
    REMAT_ELEMENT_F16 = 2,
    REMAT_ELEMENT_BF16 = 3,
    REMAT_ELEMENT_I32 = 4,
} remat_element;

typedef enum remat_tensor_role {
    REMAT_TENSOR_ACTIVATION = 0,
    REMAT_TENSOR_PARAMETER = 1,
    REMAT_TENSOR_GRADIENT = 2, /* the complete gradient of a parameter */
    REMAT_TENSOR_OPTIMIZER_STATE = 3,
    REMAT_TENSOR_INPUT = 4, /* written by the host before an entry point runs */
    REMAT_TENSOR_CONSTANT = 5,
    REMAT_TENSOR_OUTPUT = 6, /* read by the host after an entry point ran */
    /* Counters, coordinates and sums of one step, by which the batch is divided. A step does not
     * read what another one left in them: no checkpoint needs them. */
    REMAT_TENSOR_STEP_STATE = 7,
} remat_tensor_role;

#define REMAT_TENSOR_RANK_MAX 6
/* How ranks divide something into `count` equal parts; 1: they do not. Part q has the elements i,
 * in row-major order, with i / run mod count = q; rank r has part r / rank_stride mod count. */
typedef struct remat_division {
    uint32_t count, rank_stride;
    uint64_t run;
} remat_division;

/* The first one divides a tensor, the second one each part of that. */
typedef struct remat_parts {
    uint32_t count; /* of all parts; 1: ranks do not divide the tensor */
    remat_division divisions[2];
} remat_parts;

/* The number of a part's element i in what is divided. */
static inline uint64_t remat_division_element(remat_division division, uint32_t rank, uint64_t i)
{
    uint64_t part = rank / division.rank_stride % division.count;
    return (i / division.run * division.count + part) * division.run + i % division.run;
}

/* The number in the whole of element i of a rank's part. */
static inline uint64_t remat_parts_element(remat_parts parts, uint32_t rank, uint64_t i)
{
    i = remat_division_element(parts.divisions[1], rank, i);
    return remat_division_element(parts.divisions[0], rank, i);
}

/* A tensor that the host may name: parameters, optimizer state, inputs and outputs. */
typedef struct remat_tensor_info {
    size_t struct_size;
    const char *name;
    remat_element element;
    remat_tensor_role role;
    uint32_t rank;
    int64_t shape[REMAT_TENSOR_RANK_MAX]; /* row-major and dense */
    uint64_t bytes;
    /* Range of the elements of an i32 input of indices, as ids and targets are: [0, index_bound),
     * and index_ignored, a target that the loss leaves out, which is below the bound where none is
     * left out. Bound 0: any element. */
    uint32_t index_bound;
    int32_t index_ignored;
    /* How ranks divide the tensor. A rank has one part of it, to which `shape` and `bytes` belong,
     * and which is read and written. */
    remat_parts parts;
    uint32_t whole_rank;
    int64_t whole_shape[REMAT_TENSOR_RANK_MAX]; /* of all parts together */
    /* Rows of the first axis of whole_shape that the model has. The rows after them are padding: 0,
     * without meaning. A host writes zeros there or nothing. All rows: there is no padding. */
    int64_t unpadded_rows;
} remat_tensor_info;
REMAT_API uint32_t remat_plan_tensor_count(const remat_plan *plan);
/* False when `index` is out of range; set out->struct_size first. */
REMAT_API int remat_plan_get_tensor(const remat_plan *plan, uint32_t index, remat_tensor_info *out);
/* The index of a tensor, or UINT32_MAX when there is none of that name. */
REMAT_API uint32_t remat_plan_find_tensor(const remat_plan *plan, const char *name);

REMAT_API uint32_t remat_plan_entry_count(const remat_plan *plan);
REMAT_API const char *remat_plan_entry_name(const remat_plan *plan, uint32_t index); /* or NULL */

/* Use of a tensor by the commands of an entry point, both by index: 0, one of these or both. A host
 * writes the inputs and constants that an entry point reads and "init" does not write. Constants
 * whose elements the plan has are written by "init". */
#define REMAT_ENTRY_READS  1
#define REMAT_ENTRY_WRITES 2
REMAT_API uint32_t remat_plan_entry_access(const remat_plan *plan, uint32_t entry, uint32_t tensor);

/* Dtypes and shapes of a command's operands, as profiles name them ("f32[256,768] f32[256,768]"),
 * as much as fits, with a zero byte at the end. Returns the bytes that all takes, with that byte; 0
 * when `command` is out of range. */
REMAT_API size_t remat_plan_command_operands(const remat_plan *plan, uint32_t command, char *out,
                                             size_t bytes);

/* --- sessions --- */

/* A plan with memory to run in. Thread-compatible: one thread at a time may use it. */
typedef struct remat_session remat_session;

/* A tensor that a command has just written. */
typedef struct remat_trace_value {
    const char *name;
    remat_tensor_role role;
    remat_element element;
    uint32_t instance; /* 0: the original, k: recomputed for the k-th time */
    /* Row-major and dense, valid during the callback. NULL where it would have to be copied (on a
     * GPU, and where rows of the value do not lie next to each other) and was not asked for:
     * remat_session_params.trace_copies, remat_session_set_trace_data. */
    const void *data;
    uint64_t bytes;
    remat_parts parts; /* a gradient may be a part */
} remat_trace_value;

typedef struct remat_trace_event {
    size_t struct_size;
    uint32_t command;               /* index in the plan */
    const char *name;               /* of the first value that the command computes */
    const char *scope;              /* "layers.3/attn" */
    int32_t layer;                  /* -1 outside layers */
    const char *phase;              /* "forward", "loss", "backward", "optimizer", "init" */
    uint32_t instance;              /* 0: the original, k: recomputed for the k-th time */
    const char *kernel;             /* equal for equal kernels */
    uint64_t start_ns, duration_ns; /* start: since the entry point began */
    uint64_t live_bytes;            /* of the arena while the command ran */
    uint64_t flops, moved_bytes, predicted_ns;
    uint32_t value_count;
    const remat_trace_value *values; /* what it wrote */
    uint32_t stream; /* REMAT_STREAM_TRANSFERS + k: it was made by the session's k-th stream of
                      * transfers, beside those of REMAT_STREAM_COMPUTATION */
} remat_trace_event;
#define REMAT_STREAM_COMPUTATION 0
#define REMAT_STREAM_TRANSFERS   1

/* Called after every command by the thread that runs the session, after a transfer as soon as a
 * command needs that it is complete; what it points to is valid during the call only. The callback
 * must not use the session. Returning 0 goes on, anything else stops the entry point with
 * REMAT_ERROR_OTHER. */
typedef int remat_trace_function(void *user, const remat_trace_event *event);

/* `stream` where the host gives none. No stream has that address, and NULL is a stream. */
#define REMAT_STREAM_OWN ((void *)UINTPTR_MAX)

typedef struct remat_session_params {
    size_t struct_size;
    /* "cpu" or "cuda"; NULL: "cuda" where there is a GPU for it, else "cpu". A plan with a budget
     * for a CPU runs there; and one that a GPU cannot run for want of a library or of code for it,
     * unless `memory` or a stream is given: the logger is told why. */
    const char *device;
    uint32_t threads; /* on a CPU, at most 1024; 0: all cores, or as many as the plan's reserve
                         allows */
    uint64_t seed;    /* of initial values and dropout */
    /* The host's memory of remat_session_memory_bytes, aligned to 256, used until destroy; NULL:
     * the session allocates them, once. */
    void *memory;
    uint64_t memory_bytes;
    remat_trace_function *trace; /* NULL: none, and no clock is read */
    void *trace_user;
    /* 1 << remat_tensor_role for each role whose data events have even where it must be copied:
     * create then allocates host memory for what one command writes of it at most. 0: none. */
    uint32_t trace_copies;
    /* The rest is for "cuda". `memory` is device memory there. */
    uint32_t ordinal; /* which GPU, as the driver counts them */
    /* Where libnvrtc and libcublasLt lie, and libcuda if it is there; NULL: where the system's
     * loader looks. */
    const char *cuda_libraries;
    /* A file that keeps which algorithm cuBLASLt chose for each matrix product, for the next
     * session on the same kind of GPU; made when it is not there. NULL: chosen by each session. */
    const char *gemm_table;
    /* REMAT_STREAM_OWN: a stream of the session's own, and `remat_session_run` returns when the
     * entry point is done. Anything else is a CUstream of the GPU's primary context, outliving the
     * session: entry points are enqueued on it, `remat_session_run` returns before they are done,
     * and destroying the session waits for them. NULL, as CU_STREAM_LEGACY, is the legacy default
     * stream (PyTorch's, unless it is told otherwise): entry points then run on the session's own,
     * after all that was enqueued there before, and what is enqueued there later runs after them.
     * CU_STREAM_PER_THREAD is that of the calling thread. No function of the session may be called
     * while the host captures the stream, or, with the legacy stream, while it captures any
     * blocking one: the session captures graphs itself (REMAT_ERROR_USAGE). */
    void *stream;
    /* The engine of this rank, for a plan of several ranks, which needs one of as many; copied, and
     * its `user` outlives the session. "init", run by every rank with one seed, makes parameters
     * equal. NULL: none. */
    const remat_engine *engine;
    uint64_t transfer_timeout_ns; /* for each transfer; 0: 10 minutes */
    int ungrouped; /* 1: transfers are made one by one, to measure each; the same for all ranks */
    /* A folder that keeps the kernels that NVRTC compiles of a plan without cubins for this GPU,
     * made when it is not there; a forged file in it is code. NULL: they are compiled by each
     * session. */
    const char *cubin_cache;
    /* 1: entry points of a plan of several ranks become CUDA graphs, too, transfers included, if
     * the engine moves memory of GPUs; the same for all ranks. A transfer that hangs is then not
     * named, as all that is in a graph is launched at once. 0: those of plans of one rank alone. */
    int cuda_graph_ranks;
} remat_session_params;
REMAT_API void remat_session_params_init(remat_session_params *params);

/* How many GPUs there are for sessions, as `ordinal` counts them; `cuda_libraries` as above. 0:
 * none, and the context's message says why. */
REMAT_API uint32_t remat_gpu_count(remat_context *ctx, const char *cuda_libraries);

/* Bytes that a session of the plan takes: arena and the threads' scratch. The same `params` as for
 * create; its memory is ignored. */
REMAT_API remat_status remat_session_memory_bytes(remat_context *ctx, const remat_plan *plan,
                                                  const remat_session_params *params,
                                                  uint64_t *out);

/* Checks that the threads fit the plan's reserve, takes memory, clears it (so that no step waits
 * for fresh pages) and starts threads. After that the session allocates nothing. */
REMAT_API remat_status remat_session_create(remat_context *ctx, const remat_plan *plan,
                                            const remat_session_params *params,
                                            remat_session **out);
REMAT_API void remat_session_destroy(remat_session **session);
REMAT_API uint32_t remat_session_threads(const remat_session *session);
REMAT_API const char *remat_session_device(const remat_session *session); /* "cpu" or "cuda" */
/* The device's own name, as the driver of a GPU has it ("NVIDIA H200") or "cpu", and its
 * architecture: "sm_90", "" for a CPU. */
REMAT_API const char *remat_session_device_name(const remat_session *session);
REMAT_API const char *remat_session_device_arch(const remat_session *session);
/* Bytes that the driver says are in use on the GPU, by all processes; 0 on "cpu". */
REMAT_API uint64_t remat_session_device_bytes(const remat_session *session);
REMAT_API void remat_session_set_trace(remat_session *session, remat_trace_function *trace,
                                       void *user);
/* Whether the data of params.trace_copies is copied (1, from creation on). On a GPU the host then
 * waits for every command; without copies, commands run back to back and all callbacks come at the
 * end. A callback that gets the data of a part that was asked for may use the engine, until it
 * returns: no transfer goes on then. */
REMAT_API void remat_session_set_trace_data(remat_session *session, int wanted);

/* Whole tensors by name, row-major; `bytes` must be the tensor's, `data` is memory of the host.
 * Inputs, the learning rate and the step number (counted from 1) included, are written before the
 * entry point that reads them, outputs read after it. Into a tensor with an index_bound nothing is
 * written when an element is not accepted: REMAT_ERROR_INVALID, and the message names it.
 * REMAT_ERROR_USAGE: the plan has the tensor's elements. */
REMAT_API remat_status remat_session_write(remat_session *session, const char *tensor,
                                           const void *data, uint64_t bytes);
REMAT_API remat_status remat_session_read(remat_session *session, const char *tensor, void *data,
                                          uint64_t bytes);

/* The bytes [begin, begin + bytes) of a tensor: for large tensors and small buffers. Of one with an
 * index_bound whole elements are written. */
REMAT_API remat_status remat_session_write_part(remat_session *session, const char *tensor,
                                                uint64_t begin, const void *data, uint64_t bytes);
REMAT_API remat_status remat_session_read_part(remat_session *session, const char *tensor,
                                               uint64_t begin, void *data, uint64_t bytes);

/* Runs an entry point and returns when it is done, unless the session has its host's `stream`. Of a
 * plan of several ranks all run the same entry points in the same order; where one fails, its
 * engine tells the others. The caller's floating-point state is changed during the call (subnormals
 * are flushed to zero) and restored. After a failure tensors have unspecified contents.
 * REMAT_ERROR_INFEASIBLE after one of the first two runs: with what the GPU's libraries have loaded
 * by then, the plan's budget is exceeded. */
REMAT_API remat_status remat_session_run(remat_session *session, const char *entry);

#ifdef __cplusplus
}
#endif
#endif
