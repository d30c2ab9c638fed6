/* SPDX-License-Identifier: Apache-2.0 */
/* The plan in memory: what lowering fills, the runtime executes, and remat-dump prints. One
 * definition; only program_read and program_write know the file format (schemas/program.fbs).
 *
 * Everything is plain data in one arena: indices instead of pointers between tables, ranges are
 * [begin, end). A verified program can be trusted: every index is in range, every operand lies in
 * its buffer, every buffer in the arena. Immutable after that; threads may share it. */
#ifndef REMAT_PROGRAM_H
#define REMAT_PROGRAM_H

#include "cuda_code.h"
#include "kernel.h"

/* Limits of a plan. Within them sums of a few sizes, and offsets in bytes, fit 63 bits. */
#define REMAT_BYTES_MAX          (UINT64_C(1) << 50) /* of the arena; of a workspace beside it */
#define REMAT_ELEMENTS_MAX       (UINT64_C(1) << 50) /* of a view, an index space; a stride */
#define REMAT_OPERANDS_MAX       1024                /* of a command */
#define REMAT_SEGMENTS_MAX       64
#define REMAT_ENTRIES_MAX        64
#define REMAT_ENTRY_COMMANDS_MAX UINT32_MAX /* that an entry point executes */

enum remat_role {
    REMAT_ROLE_ACTIVATION = 0,
    REMAT_ROLE_PARAMETER = 1,
    REMAT_ROLE_GRADIENT = 2, /* the complete gradient of a parameter */
    REMAT_ROLE_OPTIMIZER_STATE = 3,
    REMAT_ROLE_INPUT = 4, /* written by the host before an entry point runs */
    REMAT_ROLE_CONSTANT = 5,
    REMAT_ROLE_OUTPUT = 6,     /* read by the host after an entry point: the loss */
    REMAT_ROLE_STEP_STATE = 7, /* counters, coordinates and sums of one step: not in checkpoints */
    REMAT_ROLE_COUNT
};
const char *remat_role_name(uint32_t role);

enum remat_phase {
    REMAT_PHASE_FORWARD = 0,
    REMAT_PHASE_LOSS = 1,
    REMAT_PHASE_BACKWARD = 2,
    REMAT_PHASE_OPTIMIZER = 3,
    REMAT_PHASE_INIT = 4,
    REMAT_PHASE_COUNT
};
const char *remat_phase_name(uint32_t phase);

/* Most bytes of data of all constants together. */
#define REMAT_CONSTANTS_BYTES_MAX (UINT64_C(64) << 20)

enum remat_initializer { REMAT_INIT_NONE = 0, REMAT_INIT_CONSTANT = 1, REMAT_INIT_NORMAL = 2 };

/* A range of the arena, used for one lifespan of one value, or of several that share it in place.
 * Lifespans count commands of the buffer's segment: born before command `begin`, gone before
 * command `end`, both indices into remat_program.commands. A persistent buffer spans them all. */
struct remat_buffer {
    uint64_t offset_bytes, bytes; /* in the arena; offset a multiple of REMAT_ALIGNMENT */
    uint32_t begin, end;
    bool persistent; /* lives from init on: parameters, optimizer state, inputs */
};
static inline bool remat_buffer_is_live(const struct remat_buffer *buffer, uint32_t command)
{
    return buffer->persistent || (buffer->begin <= command && command < buffer->end);
}

/* A tensor at one version: written once (in place updates make a new value in the same buffer). */
struct remat_program_value {
    const char *name;  /* as in the graph; a recomputed instance has the name of its original */
    const char *scope; /* "layers.3/attn", "" at top level */
    int32_t layer;     /* -1 outside layers */
    uint32_t instance; /* 0: the original; of a clone: how it is recomputed */
    uint8_t dtype, role, phase, rank;
    int64_t shape[REMAT_RANK_MAX];
    uint64_t bytes;
    uint32_t buffer;
    /* Part of a tensor that the N ranks along an axis of the mesh divide: rank r has the elements
     * i, in row-major order, with i / part_run mod N = r. Ranks along block_axis divide these
     * again, in equal blocks; REMAT_NONE: they do not. whole_rank 0: this is no part. */
    uint8_t whole_rank;
    int64_t whole[REMAT_RANK_MAX];
    uint32_t part_axis, block_axis;
    uint64_t part_run;
    bool part_tokens; /* of an activation: the parts are of tokens */
};

enum remat_access {
    REMAT_ACCESS_READ = 1,
    REMAT_ACCESS_WRITE = 2,
    REMAT_ACCESS_UPDATE = 3,
    REMAT_ACCESS_FLAG = 5, /* READ and a bit of its own */
};

/* How a command sees a value. UPDATE: reads the previous version in the same buffer and writes
 * `value`; `previous` is then the version that it reads. FLAG: the element may become 1 and stays a
 * part of `value`, so that commands that flag it may run in any order. */
struct remat_operand {
    uint32_t value;
    uint32_t previous; /* REMAT_NONE unless UPDATE */
    uint8_t access, dtype, rank;
    int64_t shape[REMAT_RANK_MAX];
    int64_t strides[REMAT_RANK_MAX]; /* in elements, >= 0 */
    uint64_t offset_elements;        /* from the start of the buffer */
};

struct remat_kernel {
    uint32_t kind;                 /* enum remat_kernel_kind */
    struct remat_kernel_body body; /* of REMAT_KERNEL_fused */
    const char *key;               /* printable name, equal for equal kernels */
};

/* Where a command's estimated_ns comes from: price.h. */
enum remat_cost_source {
    REMAT_COST_MODELLED = 0,
    REMAT_COST_INTERPOLATED = 1,
    REMAT_COST_MEASURED = 2,
    REMAT_COST_SOURCES
};
const char *remat_cost_source_name(uint32_t source);

struct remat_command {
    uint32_t kernel;
    uint32_t operand_begin, operand_end; /* of remat_program.operands */
    uint32_t absent;                     /* of a built-in kernel's operands: remat_kernel_operand */
    uint32_t parameter_begin, parameter_end; /* of remat_program.parameters */
    uint8_t phase, rank;
    int64_t space[REMAT_RANK_MAX]; /* index space of a fused kernel */
    const char *name;              /* of the first value it computes */
    const char *scope;
    int32_t layer;
    uint32_t instance;           /* as of what it computes */
    uint64_t flops, moved_bytes; /* of distinct operands */
    uint64_t estimated_ns;
    uint8_t cost_source; /* enum remat_cost_source */
    uint64_t live_bytes; /* arena bytes live while it runs, static ones included */
    /* Command before which this transfer is complete, the end of the segment at the latest; until
     * then it overlaps with the commands in between. Blocking: the end of its group. 0 where the
     * command is no transfer. */
    uint32_t complete_before;
    /* Whether this transfer is in the group of the command before it, which is one of the same kind
     * along the same axis, complete before the same command. A group is started at once. */
    bool continues_group;
    uint32_t slowdown_permille; /* by which computation takes longer while this transfer goes on, up
                                   to REMAT_SLOWDOWN_MAX */
    /* One more than the transfer along another axis, earlier in the segment, that this one, the
     * first of its group, waits for; 0: none. Each axis has a link, whose transfers run one group
     * after the other. A group starts after all computation before it. */
    uint32_t waits_for;
};
#define REMAT_SLOWDOWN_MAX 9000

struct remat_segment {
    const char *name; /* init, step, forward; microbatch, update */
    uint32_t command_begin, command_end;
};

/* A line of a script: the segment runs so many times, one after the other. If it reads the
 * number_tensor, the session writes the number of each run there before it: first, first + 1, ...,
 * below REMAT_CALL_TIMES_MAX. */
struct remat_call {
    uint32_t segment;
    uint32_t times; /* 1 ... REMAT_CALL_TIMES_MAX */
    uint32_t first; /* 0 without a number_tensor */
};
#define REMAT_CALL_TIMES_MAX 65536

/* A script, which a host calls by name. */
struct remat_entry {
    const char *name;              /* init, train, eval */
    uint32_t call_begin, call_end; /* of remat_program.calls; at least one */
};

/* A tensor that the host can read or write by name: its first version in the train segment. */
struct remat_tensor {
    const char *name;
    uint32_t value;
    uint8_t initializer;
    double init_mean, init_std; /* constant: the value is init_mean */
    /* i32 elements that are indices: in [0, index_bound), or index_ignored, which is below the
     * bound where none is ignored. Bound 0: they are no indices. What a host writes is held to it.
     */
    uint32_t index_bound;
    int32_t index_ignored;
    int64_t
        unpadded_rows; /* of axis 0 of the whole, before padding, which is 0; 0: there is none */
    /* Constants, f32 or i32: the elements, at any address, which the session writes before init.
     * NULL: none. */
    const void *data;
    uint64_t data_bytes;
};
#define REMAT_INDEX_BOUND_MAX (UINT32_C(1) << 31) /* as many as i32 can tell apart */

/* A decision may hold any; whether a value is recomputed in its readers' kernels alone is known
 * after lowering. Numbers are those of plan files; their order says nothing. */
enum remat_action {
#define KEEP(id, number, ...) REMAT_ACTION_##id = (number), /* saved */
#include "keeps.def"
    REMAT_ACTION_RECOMPUTE = 1, /* recomputed and written */
    REMAT_ACTION_INLINE = 2,    /* recomputed inside the kernels that read it: never written */
    /* Recomputed twice: on the way to a later layer's input, and for the backward pass, then as
     * RECOMPUTE or as INLINE. */
    REMAT_ACTION_TWICE = 3,
    REMAT_ACTION_TWICE_INLINE = 4,
    REMAT_ACTION_COUNT = REMAT_ACTION_TWICE_INLINE
#define KEEP(...) +1 /* NOLINT(bugprone-macro-parentheses) */
#include "keeps.def"
};
/* How often it has a value recomputed. */
static inline uint32_t remat_action_times(uint32_t action)
{
    static const uint8_t times[REMAT_ACTION_COUNT] = {[REMAT_ACTION_RECOMPUTE] = 1,
                                                      [REMAT_ACTION_INLINE] = 1,
                                                      [REMAT_ACTION_TWICE] = 2,
                                                      [REMAT_ACTION_TWICE_INLINE] = 2};
    return times[action];
}
const char *remat_action_name(uint32_t action); /* "recompute inline"; NULL when out of range */
uint32_t remat_action_twice(uint32_t action);   /* RECOMPUTE and INLINE: the same twice */
extern const struct remat_keep_words {          /* a row of keeps.def; all NULL: no way to keep */
    const char *name, *words, *key, *suffix, *done;
} remat_keep_words[REMAT_ACTION_COUNT];

/* The decision about a forward value that the backward pass needs. */
struct remat_decision_record {
    const char *name;
    const char *scope;
    int32_t layer;
    uint8_t action;
    const char *reason; /* "policy", "pin --save h.*", "fits", ... */
    uint64_t bytes;
    uint64_t recompute_ns; /* time of the commands that recompute it; 0 when saved or inline */
    uint32_t saved_begin, saved_end; /* commands that it lives through when saved, in this order */
    bool recomputable;               /* it may be saved or recomputed */
    int64_t recompute_extra_ns;      /* time of a step with it recomputed minus with it saved,
                                        all else as decided; 0 when not recomputable */
    const char *op;    /* that the graph has for it, "linear"; NULL or "": not known */
    uint32_t op_index; /* among those of its layer, in graph order; outputs of one have the same */
    uint8_t dtype, rank; /* dtype 0: neither it nor the shape is known */
    int64_t shape[REMAT_RANK_MAX];
    bool leaves_layer; /* the forward pass reads it outside its layer */
};

/* A way to keep a value by kernels, whatever was decided. */
struct remat_keep_record {
    uint32_t decision; /* about the value; they ascend */
    uint8_t action;
    uint64_t bytes; /* of what is kept, on this rank */
    uint64_t ns;    /* of a step: of both kernels */
};

/* An axis of the mesh of ranks that run the plan together. The session writes this rank's
 * coordinate into the tensor, i32 [1], before "init" and after it. */
struct remat_mesh_axis {
    const char *name;
    uint32_t size;   /* 2 ... REMAT_RANKS_MAX */
    uint32_t tensor; /* index of the one with the coordinate */
};
#define REMAT_MESH_AXES_MAX 2
#define REMAT_RANKS_MAX     256 /* along an axis */

/* The setting of a system such as Megatron-LM next to the plan: the plan's own policy, or the
 * fastest that fits. */
struct remat_manual {
    const char *system; /* "megatron" */
    const char *policy;
    const char *flags; /* to type there; "" for none */
    uint64_t step_ns;  /* a step under it */
};

struct remat_setting { /* the command line as it was understood */
    const char *name, *value;
};

struct remat_program {
    const char *producer, *graph_name, *target, *policy;
    const char *limited_by;  /* what weighs most in bound_step_ns: "computation", or the axis whose
                                link it is; NULL or "": there is one stream, or no bound */
    const char *target_arch; /* of a GPU, "sm_90"; NULL or "": the target is a CPU */
    const char *config; /* Hugging Face's config.json of the model, in a line; NULL or "": none */
    const char *plan_only; /* what of the model it leaves out, so that it must not run; NULL or "":
                              nothing */
    const char *foreign;   /* a node whose kernel nothing executes, so that the program is looked at
                              and   never written; NULL: none */
    const char *chosen_by; /* the option, "--ranks 8", that had it chosen how many parts a step's
                              batch has; NULL or "": that was given */
    uint64_t graph_hash, numerics_hash;
    uint64_t budget_bytes;    /* 0: unlimited */
    uint64_t reserve_bytes;   /* what the process needs beside the arena */
    uint64_t arena_bytes;     /* multiple of REMAT_ALIGNMENT */
    uint64_t peak_bytes;      /* live peak */
    uint64_t static_bytes;    /* persistent buffers, then the workspace: [0, static_bytes) */
    uint64_t workspace_bytes; /* the end of that: what kernels may use while they run */
    uint64_t touched_bytes;   /* end of the highest buffer: what a painted arena shows */
    uint32_t peak_command;
    uint64_t step_ns, base_step_ns; /* predicted; base: everything saved */
    uint64_t bound_step_ns;         /* proven: no decision that fits is faster; 0: nobody asked */
    uint64_t floor_bytes;           /* proven: no decision has a smaller arena; 0: nobody asked */
    uint64_t tokens;                /* of a step, of all ranks; 0: not known */
    uint64_t model_flops; /* that a rank's part of a step has to do: of matrix products and
                             attention, without recomputation; 0: not known */
    uint64_t model_ns; /* of these at the target's peak: the utilization is model_ns over the time
                          of a step */
    bool exact_extras; /* recompute_extra_ns are differences of predicted steps; else estimated */
    uint32_t layer_count;
    uint32_t depth; /* groups of transfers that start ahead of what reads them, at most */

    uint32_t buffer_count, value_count, operand_count, kernel_count, command_count, segment_count,
        entry_count, call_count, tensor_count, decision_count, parameter_count, setting_count,
        recomputed_layer_count, mesh_count, manual_count, keep_count;
    struct remat_buffer *buffers;
    struct remat_program_value *values;
    struct remat_operand *operands;
    struct remat_kernel *kernels;
    struct remat_command *commands;
    struct remat_segment *segments;
    struct remat_entry *entries;
    struct remat_call *calls;
    struct remat_tensor *tensors;
    struct remat_decision_record *decisions;
    double *parameters;
    struct remat_setting *settings;
    uint32_t *recomputed_layers;  /* something in them is */
    struct remat_mesh_axis *mesh; /* none: the plan of one rank */
    uint32_t number_tensor; /* index of the one with the number of the microbatch; REMAT_NONE */
    struct remat_manual *manuals; /* at most one of a system */
    struct remat_keep_record *keeps;
    const char **notes; /* what the report says to the user besides numbers */
    uint32_t note_count;
    struct remat_cuda_code cuda; /* empty in a plan without CUDA code */
};

/* "f32[256,768]": dtype and extents of an operand, in profiles. A repeated axis is marked *, a view
 * whose last axis is neither contiguous nor repeated '. Returns the length; what does not fit
 * `bytes` is cut off. */
#define REMAT_OPERAND_TEXT_BYTES 160 /* fits any */
size_t remat_operand_print(const struct remat_operand *operand, char *out, size_t bytes);

/* NULL: there is none of that name. */
const struct remat_entry *remat_program_find_entry(const struct remat_program *program,
                                                   const char *name);
/* The entry point that a step is a run of: "train", else "eval", else NULL. */
const struct remat_entry *remat_program_step(const struct remat_program *program);
/* The call of a step that runs most often, and of those the first: that of each microbatch,
 * where there are several. NULL: there is no step. */
const struct remat_call *remat_program_step_call(const struct remat_program *program);

/* Whether a command of the segment reads the number of its run, of a verified program. */
bool remat_program_reads_number(const struct remat_program *program,
                                const struct remat_segment *segment);

/* shares[source]: of the predicted time of a step. */
void remat_program_cost_shares(const struct remat_program *program,
                               double shares[REMAT_COST_SOURCES]);

/* Number of values that are recomputed, of those with action INLINE, and of those that are
 * recomputed twice. */
uint32_t remat_program_recomputed(const struct remat_program *program);
uint32_t remat_program_twice(const struct remat_program *program);
uint32_t remat_program_count(const struct remat_program *program, uint32_t action);
/* extents[layer]: how much of a layer is recomputed. WHOLE: all of its values, but for those that
 * leave it and those that cannot be. Layers with the same number in several stacks count as one. */
enum remat_layer_extent { REMAT_LAYER_SAVED, REMAT_LAYER_IN_PART, REMAT_LAYER_WHOLE };
void remat_program_layer_extents(const struct remat_program *program, uint8_t *extents);

/* Bytes that a transfer moves (builtin_kernels.def says how), of a verified program. */
struct remat_transfer_shape {
    uint32_t kind;  /* REMAT_KERNEL_exchange or REMAT_KERNEL_gather */
    uint32_t group; /* axis of the mesh */
    uint32_t ranks; /* along it */
    uint64_t part_bytes, whole_bytes;
    uint64_t stride_bytes; /* of an exchange, in `from`: from part to part */
    const struct remat_operand *from, *to;
};
/* False: the command is none. */
bool remat_command_transfer(const struct remat_program *program, uint32_t command,
                            struct remat_transfer_shape *out);
/* The link of a transfer: the number of its axis. */
uint32_t remat_command_link(const struct remat_program *program, uint32_t command);
/* A transfer's group: its commands are [begin, end). */
uint32_t remat_group_begin(const struct remat_program *program, uint32_t command);
uint32_t remat_group_end(const struct remat_program *program, uint32_t command);
/* The bytes of a part: part_bytes, less at the end. */
uint64_t remat_transfer_part(const struct remat_transfer_shape *transfer, uint32_t rank);
/* Bytes that a rank of that position sends to others. */
uint64_t remat_transfer_sent(const struct remat_transfer_shape *transfer, uint32_t rank);

/* Ranks of the mesh; 1 without one. */
uint32_t remat_program_ranks(const struct remat_program *program);
/* Transfers of a step. */
struct remat_communication {
    uint64_t sent_bytes;     /* by rank 0 */
    uint64_t ns, exposed_ns; /* predicted; exposed: what the step takes longer for them */
};
struct remat_communication remat_program_communication(const struct remat_program *program);
/* "dp=4", "" without a mesh. */
#define REMAT_MESH_TEXT_BYTES 64
void remat_program_mesh_print(const struct remat_program *program, char out[REMAT_MESH_TEXT_BYTES]);

/* exposed_ns[command], for the commands of the segment: of a transfer's predicted time that in
 * which computation waits, or that it loses as it is slower, in one run of the segment; else 0.
 * Over the segments of a step they add up to the exposed_ns of remat_program_communication. */
remat_status remat_program_exposed(const struct remat_program *program,
                                   const struct remat_segment *segment, struct remat_arena *scratch,
                                   uint64_t *exposed_ns);

/* --- files --- */

/* All that must hold of a program whatever wrote it: indices, sizes, overflow, operands inside
 * their buffers, buffers inside the arena, kernels well-formed, no operand over one that is written
 * (kernel.h says when it may). O(size). Message: "commands[17] \"...\": ...". */
remat_status remat_program_verify(remat_context *ctx, const struct remat_program *program);

/* Replays every segment of a program that remat_program_verify accepts naively: no command reads a
 * buffer that does not hold the value it names (freed, overwritten or a newer version), buffers
 * live together do not overlap, live bytes and their peak are as claimed. Otherwise
 * REMAT_ERROR_INVALID, with a message as remat_program_verify's. Shares no code with the compiler.
 * O(size log buffers) for each segment. */
remat_status remat_program_simulate(remat_context *ctx, const struct remat_program *program);

/* File bytes -> program in `arena` (which it needs to outlive), structurally verified by the
 * FlatBuffers library, then by remat_program_verify and remat_program_simulate. `name` starts every
 * message. */
remat_status remat_program_read(remat_context *ctx, const char *name, const void *data,
                                size_t bytes, struct remat_arena *arena,
                                struct remat_program **out);

/* Program -> file bytes in `arena`. Same program, same bytes. In a library of its own,
 * remat_program_write: it needs a C++ library. */
remat_status remat_program_write(remat_context *ctx, const struct remat_program *program,
                                 struct remat_arena *arena, const void **out_data,
                                 size_t *out_bytes);

#endif
