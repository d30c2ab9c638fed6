/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda_files.h"

#include "cuda_code.h"

struct code_files REMAT_LIST(remat_code_file);

static void append_quoted(struct remat_text *out, const char *text)
{
    remat_text_append(out, "\"");
    for (; *text; text++)
        remat_text_append(out, "%.1s%s", text, *text == '"' ? "\"" : "");
    remat_text_append(out, "\"");
}

static remat_status add_cubins(struct remat_arena *arena, const struct remat_cuda_code *code,
                               struct code_files *files)
{
    remat_status st = REMAT_OK;
    struct remat_text table = {.arena = arena};
    remat_text_append(&table, "kernel,arch,registers,spill_bytes,shared_bytes,warnings\n");
    for (uint32_t c = 0; c < code->cubin_count; c++) {
        const struct remat_cubin *cubin = &code->cubins[c];
        const struct remat_cuda_kernel *kernel = &code->kernels[cubin->kernel];
        const char *name = remat_arena_format(arena, "%s.%s.cubin", kernel->symbol, cubin->arch);
        if (!name)
            return REMAT_ERROR_MEMORY;
        REMAT_TRY_PUSH(arena, files, ((remat_code_file){name, cubin->data, cubin->bytes}));
        remat_text_append(&table, "%s,%s,%u,%u,%u,", kernel->symbol, cubin->arch, cubin->registers,
                          cubin->spill_bytes, cubin->shared_bytes + kernel->shared_bytes);
        append_quoted(&table, cubin->warnings ? cubin->warnings : "");
        remat_text_append(&table, "\n");
    }
    if (table.failed)
        return REMAT_ERROR_MEMORY;
    REMAT_TRY_PUSH(arena, files, ((remat_code_file){"resources.csv", table.items, table.count}));
fail:
    return st;
}

remat_status remat_cuda_files(struct remat_arena *arena, const struct remat_program *program,
                              const remat_code_file **out, uint32_t *out_count)
{
    remat_status st = REMAT_OK;
    const struct remat_cuda_code *code = &program->cuda;
    struct code_files files = {0};
    for (uint32_t k = 0; k < code->kernel_count; k++) {
        const char *text, *name = remat_arena_format(arena, "%s.cu", code->kernels[k].symbol);
        if (!name)
            return REMAT_ERROR_MEMORY;
        REMAT_TRY(remat_cuda_source(arena, code, k, &text));
        REMAT_TRY_PUSH(arena, &files, ((remat_code_file){name, text, strlen(text)}));
    }
    if (code->cubin_count)
        REMAT_TRY(add_cubins(arena, code, &files));
    *out = files.items;
    *out_count = (uint32_t)files.count;
fail:
    return st;
}
