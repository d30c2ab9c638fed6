#include "emit_cuda.h"

#include "nvrtc.h"

#include <errno.h>
#include <sys/stat.h>

static remat_status write_cubin(remat_context *ctx, struct remat_arena *arena, const char *folder,
                                const struct remat_cuda_kernel *kernel, const char *arch,
                                const struct remat_cubin *cubin)
{
    const char *path = remat_arena_format(arena, "%s/%s.%s.cubin", folder, kernel->symbol, arch);
    return path ? remat_file_write(ctx, path, cubin->data, cubin->bytes) : REMAT_ERROR_MEMORY;
}

/* All kernels for one architecture; appends to the table. */
static remat_status compile_kernels(remat_context *ctx, struct remat_nvrtc *nvrtc,
                                    const struct remat_cuda_code *code, const char *folder,
                                    const char *arch, struct remat_text *table)
{
    remat_status st = REMAT_OK;
    struct remat_arena scratch;
    remat_arena_init(&scratch, ctx);
    for (uint32_t k = 0; k < code->kernel_count; k++) {
        struct remat_cubin cubin;
        REMAT_TRY(remat_nvrtc_compile(nvrtc, &scratch, code, k, arch, &cubin));
        REMAT_TRY(write_cubin(ctx, &scratch, folder, &code->kernels[k], arch, &cubin));
        remat_text_append(table, "%s,%s,%u,%u,%u\n", code->kernels[k].symbol, arch, cubin.registers,
                          cubin.spill_bytes, cubin.shared_bytes + code->kernels[k].shared_bytes);
        remat_arena_reset(&scratch);
    }
fail:
    remat_arena_release(&scratch);
    return st;
}

static remat_status compile_all(remat_context *ctx, struct remat_arena *arena,
                                const struct remat_cuda_code *code,
                                const struct emit_cuda_settings *settings)
{
    remat_status st = REMAT_OK;
    struct remat_nvrtc *nvrtc = NULL;
    struct remat_text table = {.arena = arena};
    const char *path = remat_arena_format(arena, "%s/resources.csv", settings->folder);
    remat_text_append(&table, "kernel,arch,registers,spill_bytes,shared_bytes\n");
    REMAT_TRY(remat_nvrtc_open(ctx, settings->nvrtc, &nvrtc));
    for (const char *list = settings->architectures; *list;) {
        size_t length = strcspn(list, ",");
        const char *arch = remat_arena_string(arena, list, length);
        if (!arch)
            REMAT_FAIL(ctx, REMAT_ERROR_MEMORY, "out of memory");
        REMAT_TRY(compile_kernels(ctx, nvrtc, code, settings->folder, arch, &table));
        list += length + (list[length] == ',');
    }
    if (!path || table.failed)
        REMAT_FAIL(ctx, REMAT_ERROR_MEMORY, "out of memory");
    REMAT_TRY(remat_file_write(ctx, path, table.items, table.count));
fail:
    remat_nvrtc_close(&nvrtc);
    return st;
}

remat_status emit_cuda(remat_context *ctx, struct remat_arena *arena,
                       const struct remat_program *program,
                       const struct emit_cuda_settings *settings)
{
    remat_status st = REMAT_OK;
    const struct remat_cuda_code *code = &program->cuda;
    if (mkdir(settings->folder, 0777) != 0 && errno != EEXIST)
        REMAT_FAIL(ctx, REMAT_ERROR_IO, "%s: %s", settings->folder, strerror(errno));
    for (uint32_t k = 0; k < code->kernel_count; k++) {
        const char *text;
        const char *path =
            remat_arena_format(arena, "%s/%s.cu", settings->folder, code->kernels[k].symbol);
        if (!path)
            return REMAT_ERROR_MEMORY;
        REMAT_TRY(remat_cuda_source(arena, code, k, &text));
        REMAT_TRY(remat_file_write(ctx, path, text, strlen(text)));
    }
    if (settings->architectures)
        REMAT_TRY(compile_all(ctx, arena, code, settings));
fail:
    return st;
}
