/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen.h"

#include "emitter.h"
#include "unwind.h"

#include <assert.h>

#define EMIT_TEXT(name)   cuda_emit_##name
#define EMIT_GEMM(name)   NULL
#define EMIT_ENGINE(name) NULL

/* NULL: there is no CUDA text, as something else executes the kernel. */
static cuda_emit *const emitters[REMAT_KERNEL_KIND_COUNT] = {
    [REMAT_KERNEL_fused] = cuda_emit_fused,
#define BUILTIN_KERNEL(name, dispatch, ...) [REMAT_KERNEL_##name] = EMIT_##dispatch(name),
#include "builtin_kernels.def"
#undef BUILTIN_KERNEL
};

#ifndef NDEBUG
/* A built-in kernel's text is for the layouts of its row. */
static bool fits_row(const struct remat_program *program, const struct remat_command *command)
{
    const struct remat_kernel_row *row = remat_kernel_row(program->kernels[command->kernel].kind);
    uint32_t count = command->operand_end - command->operand_begin;
    for (uint32_t k = 0; *row->layouts && k < count; k++) {
        const struct remat_operand *o = &program->operands[command->operand_begin + k];
        if (!remat_layout_has(row->layouts[remat_kernel_row_letter(row, command->absent, k, count)],
                              o->rank, o->shape, o->strides))
            return false;
    }
    return true;
}
#endif

remat_status remat_cuda_emit(remat_context *ctx, struct remat_arena *arena,
                             const struct remat_program *program,
                             const struct remat_cuda_settings *settings,
                             struct remat_cuda_code *out)
{
    remat_status st = REMAT_OK;
    struct cuda_emitter e = {
        .ctx = ctx, .arena = arena, .program = program, .settings = settings, .code = out};
    *out = (struct remat_cuda_code){0};
    e.scratch = remat_scratch_open(ctx);
    cuda_add_prelude(&e, NULL);
    REMAT_NEW(arena, out->launch_begin, program->command_count + 1);
    for (uint32_t c = 0; c < program->command_count; c++) {
        out->launch_begin[c] = (uint32_t)e.launches.count;
        cuda_emit *emit = emitters[program->kernels[program->commands[c].kernel].kind];
        assert(fits_row(program, &program->commands[c]));
        if (emit)
            REMAT_TRY(emit(&e, &program->commands[c]));
        remat_arena_reset(e.scratch);
    }
    out->launch_begin[program->command_count] = (uint32_t)e.launches.count;
    for (size_t l = 0; l < e.launches.count; l++)
        e.launches.items[l].word_end =
            l + 1 < e.launches.count ? e.launches.items[l + 1].word_begin : (uint32_t)e.words.count;
    out->kernels = e.kernels.items, out->kernel_count = (uint32_t)e.kernels.count;
    out->launches = e.launches.items, out->launch_count = (uint32_t)e.launches.count;
    out->words = e.words.items, out->word_count = (uint32_t)e.words.count;
fail:
    remat_scratch_close(e.scratch);
    return st;
}

remat_status remat_cuda_emit_plan(remat_context *ctx, struct remat_arena *arena, bool is_needed,
                                  struct remat_program *program, const char **out_note)
{
    struct remat_cuda_settings settings = REMAT_CUDA_DEFAULTS;
    settings.workspace_bytes = program->workspace_bytes;
    *out_note = NULL;
    remat_status st = remat_cuda_emit(ctx, arena, program, &settings, &program->cuda);
    if (st != REMAT_ERROR_INVALID)
        return st;
    program->cuda = (struct remat_cuda_code){0};
    *out_note = REMAT_FORMAT(arena, REMAT_CUDA_NOTE "%s", remat_context_message(ctx));
    if (!is_needed)
        return REMAT_OK;
    return remat_error(ctx, REMAT_ERROR_INVALID,
                       "%s: without --arch and --emit-cuda there is a plan, which no GPU can run",
                       *out_note);
}
