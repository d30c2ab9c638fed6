/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda_code_load.h"

#include "cubin_cache.h"

struct loader {
    remat_context *ctx;
    const struct cuda_driver *driver;
    const struct remat_cuda_code *code;
    int capability;
    char arch[16]; /* "sm_90" */
    const char *folder, *cache;
    struct remat_nvrtc *nvrtc; /* opened by the first kernel that needs it */
    struct remat_arena scratch;
};

static remat_status open_nvrtc(struct loader *loader)
{
    remat_status st =
        remat_nvrtc_open(loader->ctx, loader->folder, loader->driver->version, &loader->nvrtc);
    if (!st)
        st = remat_nvrtc_check(loader->nvrtc, loader->arch);
    if (!st || st == REMAT_ERROR_MEMORY)
        return st;
    const char *why = remat_arena_format(&loader->scratch, "%s", loader->ctx->message);
    return remat_error(loader->ctx, REMAT_ERROR_IO,
                       "the plan has no code for this GPU, which is %s: compile it with --arch %s, "
                       "run with --device cpu, or have it made here: %s",
                       loader->arch, loader->arch, why ? why : "");
}

static void leave_cache(struct loader *loader, const char *why)
{
    remat_log(loader->ctx, REMAT_SEVERITY_WARNING, "%s; cubins are not kept", why);
    loader->cache = NULL;
}

static remat_status compile(struct loader *loader, uint32_t k, struct remat_cubin *out)
{
    remat_status st = REMAT_OK;
    struct remat_cubin_source source;
    const char *text;
    if (!loader->nvrtc) {
        REMAT_TRY(open_nvrtc(loader));
        if (loader->cache && remat_cubin_cache_open(loader->ctx, loader->cache) != REMAT_OK)
            leave_cache(loader, loader->ctx->message);
    }
    REMAT_TRY(remat_cuda_source(&loader->scratch, loader->code, k, &text));
    REMAT_TRY(remat_cubin_make(loader->nvrtc, &loader->scratch, loader->cache,
                               loader->code->kernels[k].key, text, loader->arch, out, &source));
    if (source.unwritten)
        leave_cache(loader, source.unwritten);
fail:
    return st;
}

static const struct remat_cubin *find(const struct loader *loader, uint32_t k)
{
    const struct remat_cubin *cubin = NULL;
    char arch[16];
    for (int c = loader->capability; !cubin && c / 10 == loader->capability / 10; c--) {
        snprintf(arch, sizeof arch, "sm_%d", c);
        cubin = remat_cubin_find(loader->code, k, arch);
    }
    return cubin;
}

static remat_status refuse(struct loader *loader, uint32_t k, int result)
{
    struct cuda_fault fault = cuda_fault_of(loader->driver, result);
    const char *key = loader->code->kernels[k].key;
    int version = loader->driver->version;
    if (result == CUDA_OUT_OF_MEMORY)
        return cuda_check(loader->ctx, loader->driver, result, key);
    return remat_error(loader->ctx, REMAT_ERROR_INVALID,
                       "the driver, of CUDA %d.%d, refuses kernel %s for %s: %s: compile the plan "
                       "anew with an NVRTC that is not newer, or with --arch none, or run with "
                       "--device cpu",
                       version / 1000, version % 1000 / 10, key, loader->arch, fault.text);
}

static remat_status load(struct loader *loader, uint32_t k, void **module, void **function)
{
    remat_status st = REMAT_OK;
    const struct remat_cuda_kernel *kernel = &loader->code->kernels[k];
    const struct remat_cubin *found = find(loader, k);
    struct remat_cubin cubin;
    char *image;
    if (found)
        cubin = *found;
    else
        REMAT_TRY(compile(loader, k, &cubin));
    REMAT_TRY_NEW(&loader->scratch, image, cubin.bytes + 1); /* aligned */
    memcpy(image, cubin.data, cubin.bytes);
    int result = loader->driver->cuModuleLoadData(module, image);
    if (!result)
        result = loader->driver->cuModuleGetFunction(function, *module, kernel->symbol);
    if (result)
        REMAT_TRY(refuse(loader, k, result));
    if (kernel->shared_bytes > REMAT_CUDA_STATIC_MAX)
        CUDA_TRY(loader->ctx, loader->driver, cuFuncSetAttribute, *function,
                 CUDA_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)kernel->shared_bytes);
fail:
    remat_arena_reset(&loader->scratch);
    return st;
}

remat_status cuda_functions_load(remat_context *ctx, struct remat_arena *arena,
                                 const struct cuda_driver *driver,
                                 const struct remat_cuda_code *code, int capability,
                                 const char *folder, const char *cache, struct cuda_functions *out)
{
    remat_status st = REMAT_OK;
    struct loader loader = {.ctx = ctx,
                            .driver = driver,
                            .code = code,
                            .capability = capability,
                            .folder = folder,
                            .cache = cache};
    snprintf(loader.arch, sizeof loader.arch, "sm_%d", capability);
    remat_arena_init(&loader.scratch, ctx);
    *out = (struct cuda_functions){0};
    REMAT_TRY_NEW(arena, out->modules, code->kernel_count);
    REMAT_TRY_NEW(arena, out->functions, code->kernel_count);
    out->count = code->kernel_count;
    for (uint32_t k = 0; k < code->kernel_count; k++)
        REMAT_TRY(load(&loader, k, &out->modules[k], &out->functions[k]));
fail:
    if (loader.nvrtc)
        remat_nvrtc_close(&loader.nvrtc);
    remat_arena_release(&loader.scratch);
    return st;
}

void cuda_functions_unload(const struct cuda_driver *driver, struct cuda_functions *functions)
{
    for (uint32_t k = 0; k < functions->count; k++)
        if (functions->modules[k])
            driver->cuModuleUnload(functions->modules[k]);
    functions->count = 0;
}
