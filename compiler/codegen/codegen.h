/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA text for fused and built-in kernels, and the launches of a plan's commands.
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

#include "cuda_settings.h"
#include "nvrtc.h"
#include "program.h"

/* Emits the code of all commands but matmul, which launches nothing here; no cubins. `program` is
 * verified; everything in `out` lies in the arena. Pure: same program, same code.
 * REMAT_ERROR_INVALID names the command that CUDA text cannot express: more than
 * REMAT_CUDA_WORDS_MAX arguments, 2^32 rows or columns, more workspace than there is, more than 24
 * sums of columns, heads of attention beyond 128 elements. */
remat_status remat_cuda_emit(remat_context *ctx, struct remat_arena *arena,
                             const struct remat_program *program,
                             const struct remat_cuda_settings *settings,
                             struct remat_cuda_code *out);

/* Fills program->cuda, with default settings and the program's workspace, for any target: a plan
 * can be executed elsewhere. A command that CUDA text cannot express is an error if the text
 * `is_needed`; otherwise *out_note says that no GPU can run the plan, and why. NULL: there is text.
 */
remat_status remat_cuda_emit_plan(remat_context *ctx, struct remat_arena *arena, bool is_needed,
                                  struct remat_program *program, const char **out_note);

/* --- cubins.c: every kernel for every architecture, by several threads and a cache --- */

struct remat_cubin_settings {
    const char *const *architectures; /* "sm_90", ..., NULL at the end; duplicates count once */
    const char *cache;                /* an existing folder; NULL: nothing is cached */
    uint32_t threads;                 /* that compile; 0 as 1 */
    /* Called before each cubin, by one thread at a time; true: no more are begun. NULL: never. */
    bool (*is_over)(void *user, uint32_t begun, uint32_t of);
    void *is_over_user;
};

struct remat_cubin_counts {
    uint32_t compiled, cached;
    bool cut_short;        /* by is_over: there are no cubins */
    const char *unwritten; /* why the cache could not be written; NULL: it was */
};

/* Fills code->cubins, in `arena`, and code->nvrtc_version. The result depends neither on `threads`
 * nor on the cache; if several kernels fail to compile, the error is that of the first one. All
 * threads call the context's allocator. Errors of remat_nvrtc_check and remat_nvrtc_compile. */
remat_status remat_cubins_make(remat_context *ctx, struct remat_arena *arena,
                               const struct remat_nvrtc *nvrtc,
                               const struct remat_cubin_settings *settings,
                               struct remat_cuda_code *code, struct remat_cubin_counts *out);

/* --- code_check.c: whether the CUDA code in a plan is what its commands mean. Verification does
 * not look into text and cubins; that they equal the output of codegen and NVRTC shows what they
 * do. ---
 */

/* Emits the code again and compares all but cubins: preludes, kernels, launches with their words,
 * workspace. `program` is verified and has code. REMAT_ERROR_INVALID names the first difference. */
remat_status remat_cuda_check_text(remat_context *ctx, struct remat_arena *arena,
                                   const struct remat_program *program);

/* Compiles the text again, by `threads`, and compares cubins and the output of ptxas. `program` has
 * cubins, and its text passed remat_cuda_check_text. REMAT_ERROR_INVALID names the first
 * difference; *incomparable is NULL, or why nothing was compared: another version of NVRTC made
 * them, or this one does not know the architecture. */
remat_status remat_cuda_check_cubins(remat_context *ctx, struct remat_arena *arena,
                                     const struct remat_nvrtc *nvrtc, uint32_t threads,
                                     const struct remat_program *program,
                                     const char **incomparable);

#endif
