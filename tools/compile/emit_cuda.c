#include "emit_cuda.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

static remat_status write_cubin(remat_context *ctx, struct remat_arena *arena, const char *folder,
                                const char *symbol, const struct remat_cubin *cubin)
{
    const char *path = remat_arena_format(arena, "%s/%s.%s.cubin", folder, symbol, cubin->arch);
    return path ? remat_file_write(ctx, path, cubin->data, cubin->bytes) : REMAT_ERROR_MEMORY;
}

static void append_quoted(struct remat_text *out, const char *text)
{
    remat_text_append(out, "\"");
    for (; *text; text++)
        remat_text_append(out, "%.1s%s", text, *text == '"' ? "\"" : "");
    remat_text_append(out, "\"");
}

static remat_status write_cubins(remat_context *ctx, struct remat_arena *arena, const char *folder,
                                 const struct remat_cuda_code *code)
{
    remat_status st = REMAT_OK;
    struct remat_text table = {.arena = arena};
    const char *path = remat_arena_format(arena, "%s/resources.csv", folder);
    remat_text_append(&table, "kernel,arch,registers,spill_bytes,shared_bytes,warnings\n");
    for (uint32_t c = 0; c < code->cubin_count; c++) {
        const struct remat_cubin *cubin = &code->cubins[c];
        const struct remat_cuda_kernel *kernel = &code->kernels[cubin->kernel];
        REMAT_TRY(write_cubin(ctx, arena, folder, kernel->symbol, cubin));
        remat_text_append(&table, "%s,%s,%u,%u,%u,", kernel->symbol, cubin->arch, cubin->registers,
                          cubin->spill_bytes, cubin->shared_bytes + kernel->shared_bytes);
        append_quoted(&table, cubin->warnings ? cubin->warnings : "");
        remat_text_append(&table, "\n");
    }
    if (!path || table.failed)
        return REMAT_ERROR_MEMORY;
    REMAT_TRY(remat_file_write(ctx, path, table.items, table.count));
fail:
    return st;
}

remat_status emit_cuda_check(remat_context *ctx, const char *folder)
{
    const char *found = NULL;
    errno = 0;
    DIR *opened = opendir(folder);
    if (!opened && errno != ENOENT)
        return remat_error(ctx, REMAT_ERROR_IO, "--emit-cuda %s: %s", folder, strerror(errno));
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

remat_status emit_cuda(remat_context *ctx, struct remat_arena *arena,
                       const struct remat_program *program, const char *folder)
{
    remat_status st = REMAT_OK;
    const struct remat_cuda_code *code = &program->cuda;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        REMAT_FAIL(ctx, REMAT_ERROR_IO, "%s: %s", folder, strerror(errno));
    for (uint32_t k = 0; k < code->kernel_count; k++) {
        const char *text;
        const char *path = remat_arena_format(arena, "%s/%s.cu", folder, code->kernels[k].symbol);
        if (!path)
            return REMAT_ERROR_MEMORY;
        REMAT_TRY(remat_cuda_source(arena, code, k, &text));
        REMAT_TRY(remat_file_write(ctx, path, text, strlen(text)));
    }
    if (code->cubin_count)
        REMAT_TRY(write_cubins(ctx, arena, folder, code));
fail:
    return st;
}
