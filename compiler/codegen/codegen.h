/* SPDX-License-Identifier: Apache-2.0 */
/* Fused kernels and built-in kernels as CUDA text, and how the commands of a plan launch it.
 *
 * The text is a subset of CUDA C over the primitives of primitives.cu and includes nothing, so that
 * NVRTC compiles it for a GPU and a plain C compiler for the emulator of tests/emulator. It
 * computes what runtime/kernel/kernel.h defines: reductions in the same order, the same elementary
 * functions, so its bits do not depend on how a command is launched. It must be compiled as
 * nvrtc.h does, without contraction and flushing subnormals as the CPU device does.
 *
 * A kernel has the geometry of its command in its text; counts of rows, addresses and the sites of
 * random numbers come as arguments, so one text serves all layers. */
#ifndef REMAT_CODEGEN_H
#define REMAT_CODEGEN_H

#include "program.h"

/* How elements are dealt out to threads; no bit depends on it but on column_sums. */
struct remat_cuda_settings {
    uint64_t threads_wanted;  /* fewer elements to a thread until a command has so many threads */
    uint32_t registers_kept;  /* floats of a thread that may outlive a pass over a row */
    uint64_t workspace_bytes; /* that a command may use; 0: as much as it needs */
    uint64_t column_sums;     /* of remat_column_block_rows: REMAT_COLUMN_SUMS but in tests */
};
#define REMAT_CUDA_DEFAULTS ((struct remat_cuda_settings){65536, 64, 0, REMAT_COLUMN_SUMS})

/* The code of all commands but matmul, which launches nothing here. No cubins. `program` is
 * verified; everything in `out` lies in the arena. Pure: same program, same code.
 * REMAT_ERROR_INVALID names the command that CUDA text cannot express: more than
 * REMAT_CUDA_WORDS_MAX arguments, 2^32 rows or columns, more workspace than there is, more than 24
 * sums of columns, heads of attention beyond 128 elements. */
remat_status remat_cuda_emit(remat_context *ctx, struct remat_arena *arena,
                             const struct remat_program *program,
                             const struct remat_cuda_settings *settings,
                             struct remat_cuda_code *out);

/* program->cuda, with defaults and the program's workspace, whatever the target: a plan can be
 * executed elsewhere. A command that CUDA text cannot express is an error if the text `is_needed`;
 * else *out_note says that no GPU can run the plan, and why, and is NULL where there is text. */
remat_status remat_cuda_emit_plan(remat_context *ctx, struct remat_arena *arena, bool is_needed,
                                  struct remat_program *program, const char **out_note);

#endif
