/* Kernel programs and named kernels as CUDA text, and how the commands of a plan launch it.
 *
 * The text is a subset of CUDA C over the primitives of primitives.cu and includes nothing, so that
 * NVRTC compiles it for a GPU and a plain C compiler for the emulator of tests/emulator. It
 * computes what runtime/kernel/kernel.h defines: reductions in the same order, the same elementary
 * functions, so its bits do not depend on how a command is launched. It must be compiled with
 * REMAT_CUDA_OPTIONS, which forbid contraction and flush subnormals as the CPU device does.
 *
 * A kernel has the geometry of its command in its text; counts of rows, addresses and the sites of
 * random numbers come as arguments, so one text serves all layers. */
#ifndef REMAT_CODEGEN_H
#define REMAT_CODEGEN_H

#include "program.h"

#define REMAT_CUDA_WORDS_MAX 64 /* struct arguments of primitives.cu */

/* One __global__ function and all that it needs. Equal texts are one kernel. */
struct remat_cuda_kernel {
    const char *key;       /* "add.layer_norm.team.v4#0123456789abcdef": the hash is of the text */
    const char *symbol;    /* of the function */
    const char *text;      /* complete: primitives, functions, kernel */
    uint32_t threads;      /* of a block */
    uint32_t shared_bytes; /* of a block's dynamic shared memory, which a launch has to ask for */
};

enum remat_cuda_word_kind {
    REMAT_CUDA_VALUE,     /* the value itself */
    REMAT_CUDA_ARENA,     /* the address `value` bytes into the arena */
    REMAT_CUDA_WORKSPACE, /* the address `value` bytes into the workspace */
    REMAT_CUDA_SEED,      /* the session's seed (remat_device_params); value 0 */
};
struct remat_cuda_word { /* of a kernel's struct arguments */
    uint8_t kind;        /* enum remat_cuda_word_kind */
    uint64_t value;
};

struct remat_cuda_launch {
    uint32_t kernel;
    uint32_t blocks;
    uint32_t word_begin, word_end; /* of remat_cuda_code.words */
};

struct remat_cuda_code {
    uint32_t kernel_count, launch_count, word_count;
    struct remat_cuda_kernel *kernels;
    struct remat_cuda_launch *launches;
    struct remat_cuda_word *words;
    uint32_t *launch_begin; /* command c launches [launch_begin[c], launch_begin[c + 1]) in order */
    uint64_t workspace_bytes; /* that a command needs at most while it runs; REMAT_ALIGNMENT */
};

/* What decides how elements are dealt out to threads; no bit depends on it. */
struct remat_cuda_settings {
    uint64_t threads_wanted; /* fewer elements to a thread until a command has so many threads */
    uint32_t registers_kept; /* floats of a thread that may outlive a pass over a row */
};
#define REMAT_CUDA_DEFAULTS ((struct remat_cuda_settings){65536, 64})

/* The code of all commands but matmul, attention and attention_backward, which launch nothing
 * here. `program` is verified; everything in `out` lies in the arena. Pure: same program, same
 * code. REMAT_ERROR_INVALID names the command that CUDA text cannot express: more
 * than REMAT_CUDA_WORDS_MAX arguments, 2^32 rows or columns. */
remat_status remat_cuda_emit(remat_context *ctx, struct remat_arena *arena,
                             const struct remat_program *program,
                             const struct remat_cuda_settings *settings,
                             struct remat_cuda_code *out);

/* Options for NVRTC that the numerics rules need, beside --gpu-architecture. NULL ends the list. */
extern const char *const remat_cuda_options[];

#endif
