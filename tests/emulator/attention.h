/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and its gradient as a program of two commands, emitted, run in the emulator and
 * compared with float64. */
#ifndef EMULATOR_ATTENTION_H
#define EMULATOR_ATTENTION_H

#include "kernels.h"

enum attention_layout {
    ATTENTION_DENSE,
    ATTENTION_PACKED, /* q, k, v and their gradients are parts of one tensor: queries == keys */
    ATTENTION_LOOSE,  /* rows with gaps, aligned to 4 bytes only */
};

enum attention_segments { SEGMENTS_NONE, SEGMENTS_QUERIES, SEGMENTS_KEYS, SEGMENTS_BOTH };

struct attention_sizes {
    uint32_t batch, heads, kv_heads, queries, keys, head_size;
    bool causal;
    double p;
    remat_dtype dtype;
    enum attention_layout layout;
    enum attention_segments segments;
};

struct attention_case {
    struct attention_sizes sizes;
    struct remat_program program;
    struct remat_kernel kernels[2];
    struct remat_command commands[2];
    struct remat_operand operands[8 + 12];
    struct remat_program_value values[18];
    struct remat_buffer buffers[18];
    double parameters[8];
    struct remat_cuda_code code;
    char *initial; /* the arena before the commands */
};

/* Stops the process with exit code 1 when it cannot be emitted. `initial` is the caller's to free.
 */
void attention_make(remat_context *ctx, struct remat_arena *arena,
                    const struct attention_sizes *sizes, const struct remat_cuda_settings *settings,
                    struct attention_case *out);
/* The kernels that `text` does not have yet. */
void attention_append_text(const struct attention_case *c, struct remat_text *text);
void attention_print(const struct attention_case *c);
/* Runs both commands in the emulator under `orders` orders of threads and blocks, which have to
 * give the same bits, and compares with float64, but for results that have the bits of `hash`. NULL
 * or what is wrong; `hash` becomes that of the results. */
const char *attention_run(const struct attention_case *c, void *library, uint64_t orders,
                          uint64_t *hash);
/* What is in `memory` after both commands, compared with float64 within the bounds of rounding, and
 * whether nothing but results has been written. NULL or what is wrong. */
const char *attention_compare(const struct attention_case *c, const char *memory);

#endif
