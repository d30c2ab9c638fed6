/* SPDX-License-Identifier: Apache-2.0 */
#include "emit_cuda.h"

#include "file.h"

#include <dirent.h>
#include <errno.h>

static void append_quoted(struct remat_text *out, const char *text)
{
    remat_text_append(out, "\"");
    for (; *text; text++)
        remat_text_append(out, "%.1s%s", text, *text == '"' ? "\"" : "");
    remat_text_append(out, "\"");
}

static remat_status write_cubins(struct remat_arena *arena, struct remat_outputs *outputs,
                                 const char *folder, const struct remat_cuda_code *code)
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
        REMAT_TRY(remat_outputs_write_into(outputs, folder, name, cubin->data, cubin->bytes));
        remat_text_append(&table, "%s,%s,%u,%u,%u,", kernel->symbol, cubin->arch, cubin->registers,
                          cubin->spill_bytes, cubin->shared_bytes + kernel->shared_bytes);
        append_quoted(&table, cubin->warnings ? cubin->warnings : "");
        remat_text_append(&table, "\n");
    }
    if (table.failed)
        return REMAT_ERROR_MEMORY;
    REMAT_TRY(remat_outputs_write_into(outputs, folder, "resources.csv", table.items, table.count));
fail:
    return st;
}

remat_status emit_cuda_check(remat_context *ctx, const char *folder)
{
    const char *found = NULL;
    errno = 0;
    DIR *opened = opendir(folder);
    if (!opened && errno != ENOENT)
        return remat_file_error(ctx, folder, "", errno);
    for (struct dirent *entry; opened && !found && (entry = readdir(opened));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            found = entry->d_name;
    remat_status st =
        found ? remat_error(ctx, REMAT_ERROR_USAGE,
                            "--emit-cuda %s: the folder is not empty, it has \"%s\": empty it, or "
                            "name another",
                            folder, found)
              : REMAT_OK;
    if (opened)
        closedir(opened);
    return st;
}

remat_status emit_cuda(struct remat_arena *arena, struct remat_outputs *outputs,
                       const struct remat_program *program, const char *folder)
{
    remat_status st = REMAT_OK;
    const struct remat_cuda_code *code = &program->cuda;
    REMAT_TRY(remat_outputs_write_into(outputs, folder, NULL, NULL, 0));
    for (uint32_t k = 0; k < code->kernel_count; k++) {
        const char *text, *name = remat_arena_format(arena, "%s.cu", code->kernels[k].symbol);
        if (!name)
            return REMAT_ERROR_MEMORY;
        REMAT_TRY(remat_cuda_source(arena, code, k, &text));
        REMAT_TRY(remat_outputs_write_into(outputs, folder, name, text, strlen(text)));
    }
    if (code->cubin_count)
        REMAT_TRY(write_cubins(arena, outputs, folder, code));
fail:
    return st;
}
