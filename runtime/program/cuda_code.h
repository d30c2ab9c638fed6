/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA code of a plan: the text of its kernels, how its commands launch them, and what NVRTC
 * made of the text where there was one. Plain data that compiler/codegen fills and a CUDA device
 * executes; a verified plan's can be trusted as far as program.h says.
 *
 * A command launches [launch_begin[c], launch_begin[c + 1]) in order, each after the one before; an
 * empty range is a command without CUDA text: matmul, which cuBLASLt does. */
#ifndef REMAT_CUDA_CODE_H
#define REMAT_CUDA_CODE_H

#include "base.h"

#define REMAT_CUDA_WORDS_MAX   64     /* struct arguments of primitives.cu */
#define REMAT_CUDA_TENSORS_MAX 512    /* words of struct tensors */
#define REMAT_CUDA_SHARED_MAX  232448 /* bytes of shared memory that a block can have on any GPU */
#define REMAT_CUDA_STATIC_MAX  49152  /* of these without being asked for */
#define REMAT_CUDA_THREADS_MAX 1024

/* So begins the note of a plan without CUDA code that says why: a command and the cause follow. */
#define REMAT_CUDA_NOTE "no CUDA text: "

/* One __global__ function and all that it needs. Equal texts are one kernel. */
struct remat_cuda_kernel {
    const char *key;    /* "add.layer_norm.team.v4#0123456789abcdef", the hash being of the text */
    const char *symbol; /* of the function: a C identifier */
    uint32_t prelude;   /* of remat_cuda_code.preludes: what goes before the text */
    const char *text;   /* the function; lines end in "\n" */
    uint32_t threads;   /* of a block: a multiple of 32 */
    uint32_t shared_bytes; /* dynamic shared memory of a block */
    uint32_t tensor_words; /* 0, or several of its launches may be one (cuda_groups.h): a launch has
                              the number of its tensors, words that these share, and so many words
                              of each, of which the first is its first block */
};

enum remat_cuda_word_kind {
    REMAT_CUDA_VALUE,     /* the value itself */
    REMAT_CUDA_ARENA,     /* the address `value` bytes into the arena */
    REMAT_CUDA_WORKSPACE, /* the address `value` bytes into the workspace */
    REMAT_CUDA_SEED,      /* the session's seed (remat_device_params); value 0 */
    REMAT_CUDA_WORD_KINDS
};
struct remat_cuda_word { /* of a kernel's one parameter, struct arguments, by value; unused are 0 */
    uint8_t kind;        /* enum remat_cuda_word_kind */
    uint64_t value;
};

struct remat_cuda_launch {
    uint32_t kernel;
    uint32_t blocks;               /* 1 ... INT32_MAX, along x */
    uint32_t word_begin, word_end; /* of remat_cuda_code.words, at most REMAT_CUDA_WORDS_MAX */
};

/* One kernel compiled for one architecture, by NVRTC and ptxas. */
struct remat_cubin {
    uint32_t kernel;
    const char *arch; /* "sm_90" */
    const void *data; /* of any alignment */
    uint64_t bytes;
    uint32_t registers;    /* of a thread */
    uint32_t spill_bytes;  /* of a thread in local memory: stored and loaded because registers ran
                              out, or its stack frame where that is larger */
    uint32_t shared_bytes; /* static shared memory of a block */
    const char *warnings;  /* of ptxas and NVRTC, joined by "; "; "" without */
};

struct remat_cuda_code {
    uint32_t prelude_count, kernel_count, launch_count, word_count, cubin_count;
    const char **preludes; /* text that kernels share */
    struct remat_cuda_kernel *kernels;
    struct remat_cuda_launch *launches;
    struct remat_cuda_word *words;
    uint32_t *launch_begin;     /* [commands + 1]; NULL without launches */
    uint64_t workspace_bytes;   /* that a command needs at most while it runs; REMAT_ALIGNMENT */
    struct remat_cubin *cubins; /* by rising kernel, then arch as text; none twice */
    uint32_t nvrtc_version;     /* that made them: 1000 major + 10 minor; 0: not known */
};

/* The complete text of a kernel, as NVRTC takes it, in `arena`. */
remat_status remat_cuda_source(struct remat_arena *arena, const struct remat_cuda_code *code,
                               uint32_t kernel, const char **out);

/* NULL when there is none. O(log cubins). */
const struct remat_cubin *remat_cubin_find(const struct remat_cuda_code *code, uint32_t kernel,
                                           const char *arch);

#endif
