/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda_api.h"

#include <dlfcn.h>

#define STACK_BYTES 256 /* of a thread */

bool cuda_library_find(void *library, const char *symbol, void *result)
{
    void *address = dlsym(library, symbol);
    memcpy(result, &address, sizeof address);
    return address != NULL;
}

/* NODELETE: they have threads of their own that outlive any handle. */
void *cuda_library_open(const char *folder, const char *soname)
{
    char path[4096];
    int length =
        snprintf(path, sizeof path, "%s%s%s", folder ? folder : "", folder ? "/" : "", soname);
    return length < (int)sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) : NULL;
}

static void close_library(void **library)
{
    if (*library)
        dlclose(*library);
    *library = NULL;
}

struct cuda_fault cuda_fault_of(const struct cuda_driver *driver, int result)
{
    struct cuda_fault fault;
    const char *name = NULL, *text = NULL;
    driver->cuGetErrorName(result, &name);
    driver->cuGetErrorString(result, &text);
    snprintf(fault.text, sizeof fault.text, "%s (%s)", name ? name : "an unknown error",
             text ? text : "");
    return fault;
}

remat_status cuda_check(remat_context *ctx, const struct cuda_driver *driver, int result,
                        const char *what)
{
    if (!result)
        return REMAT_OK;
    bool memory = result == CUDA_OUT_OF_MEMORY;
    return remat_error(ctx, memory ? REMAT_ERROR_MEMORY : REMAT_ERROR_OTHER, "%s: %s%s", what,
                       cuda_fault_of(driver, result).text,
                       memory ? ": end what else runs on the GPU, or run with --device cpu" : "");
}

/* --- the driver --- */

static remat_status find_driver(remat_context *ctx, struct cuda_driver *driver)
{
#define FUNCTION(symbol, ...)                                                                      \
    if (!cuda_library_find(driver->library, #symbol, &driver->symbol))                             \
        return remat_error(ctx, REMAT_ERROR_IO,                                                    \
                           "the NVIDIA driver has no " #symbol ": install driver 525 or newer");
#include "driver.def"
#undef FUNCTION
    return REMAT_OK;
}

static remat_status check_version(remat_context *ctx, struct cuda_driver *driver)
{
    remat_status st = REMAT_OK;
    if (!cuda_library_find(driver->library, "cuDriverGetVersion", &driver->cuDriverGetVersion) ||
        driver->cuDriverGetVersion(&driver->version))
        REMAT_FAIL(ctx, REMAT_ERROR_IO, "libcuda.so.1 is not NVIDIA's driver");
    if (driver->version < CUDA_DRIVER_VERSION_MIN)
        REMAT_FAIL(
            ctx, REMAT_ERROR_IO,
            "the NVIDIA driver supports CUDA %d.%d, remat needs %d.%d: install driver 525 or "
            "newer, or run with --device cpu",
            driver->version / 1000, driver->version % 1000 / 10, CUDA_DRIVER_VERSION_MIN / 1000,
            CUDA_DRIVER_VERSION_MIN % 1000 / 10);
fail:
    return st;
}

remat_status cuda_driver_open(remat_context *ctx, const char *folder, struct cuda_driver *out)
{
    remat_status st = REMAT_OK;
    *out =
        (struct cuda_driver){.library = folder ? cuda_library_open(folder, "libcuda.so.1") : NULL};
    if (!out->library)
        out->library = cuda_library_open(NULL, "libcuda.so.1");
    if (!out->library)
        REMAT_FAIL(
            ctx, REMAT_ERROR_IO,
            "no NVIDIA driver (libcuda.so.1) is installed: install one, or run with --device cpu");
    REMAT_TRY(check_version(ctx, out));
    REMAT_TRY(find_driver(ctx, out));
    int result = out->cuInit(0), count = 0;
    if (!result)
        result = out->cuDeviceGetCount(&count);
    if (result == CUDA_NO_DEVICE || (!result && count == 0))
        REMAT_FAIL(ctx, REMAT_ERROR_IO,
                   "the NVIDIA driver finds no GPU: run with --device cpu, or make one visible to "
                   "this process");
    if (result)
        REMAT_FAIL(ctx, REMAT_ERROR_IO,
                   "the NVIDIA driver does not start: %s: mend that (nvidia-smi), or run with "
                   "--device cpu",
                   cuda_fault_of(out, result).text);
    return REMAT_OK;
fail:
    cuda_driver_close(out);
    return st;
}

void cuda_driver_close(struct cuda_driver *driver)
{
    close_library(&driver->library);
}

int cuda_context_retain(const struct cuda_driver *driver, int ordinal, void **context)
{
    unsigned flags = 0;
    int active = 0, result = driver->cuDevicePrimaryCtxGetState(ordinal, &flags, &active);
    if (!result)
        result = driver->cuDevicePrimaryCtxRetain(context, ordinal);
    if (!result && !active && !driver->cuCtxPushCurrent_v2(*context)) {
        driver->cuCtxSetLimit(CUDA_LIMIT_STACK_SIZE, STACK_BYTES); /* refused: it takes more */
        driver->cuCtxPopCurrent_v2(context);
    }
    return result;
}

/* --- cuBLASLt --- */

static remat_status find_cublaslt(remat_context *ctx, struct cublaslt *library)
{
    bool found =
        cuda_library_find(library->library, "cublasLtGetVersion", &library->cublasLtGetVersion);
    const char *missing = found ? NULL : "cublasLtGetVersion";
#define FUNCTION(symbol, ...)                                                                      \
    if (!cuda_library_find(library->library, #symbol, &library->symbol))                           \
        missing = #symbol;
#include "cublaslt.def"
#undef FUNCTION
    if (missing)
        return remat_error(ctx, REMAT_ERROR_IO, "cuBLASLt has no function %s", missing);
    library->version = library->cublasLtGetVersion();
    return REMAT_OK;
}

remat_status cublaslt_open(remat_context *ctx, const char *folder, int driver_version,
                           struct cublaslt *out)
{
    static const struct {
        const char *soname;
        int version;
    } candidates[] = {{"libcublasLt.so.13", 13000}, {"libcublasLt.so.12", 12000}};
    remat_status st = REMAT_OK;
    bool newest = driver_version >= candidates[0].version;
    *out = (struct cublaslt){0};
    for (size_t c = 0; c < sizeof candidates / sizeof *candidates && !out->library; c++)
        if (candidates[c].version <= driver_version)
            out->library = cuda_library_open(folder, candidates[c].soname);
    if (!out->library)
        REMAT_FAIL(
            ctx, REMAT_ERROR_IO,
            "cannot open cuBLASLt, %slibcublasLt.so.12%s%s: install a CUDA toolkit or the wheel "
            "nvidia-cublas%s, name the folder of the library with --cuda-libraries, or run with "
            "--device cpu",
            newest ? "libcublasLt.so.13 or " : "", folder ? ", in " : "", folder ? folder : "",
            newest ? "" : "-cu12");
    REMAT_TRY(find_cublaslt(ctx, out));
    return REMAT_OK;
fail:
    cublaslt_close(out);
    return st;
}

void cublaslt_close(struct cublaslt *library)
{
    close_library(&library->library);
}

/* --- NVTX --- */

static void *open_nvtx(const char *folder)
{
    void *library = cuda_library_open(folder, "libnvtx3interop.so.1");
    return library ? library : cuda_library_open(folder, "libnvToolsExt.so.1");
}

void cuda_nvtx_open(const char *folder, struct cuda_nvtx *out)
{
    *out = (struct cuda_nvtx){.library = folder ? open_nvtx(folder) : NULL};
    if (!out->library)
        out->library = open_nvtx(NULL);
    if (out->library && (!cuda_library_find(out->library, "nvtxRangePushA", &out->nvtxRangePushA) ||
                         !cuda_library_find(out->library, "nvtxRangePop", &out->nvtxRangePop)))
        cuda_nvtx_close(out);
}

void cuda_nvtx_close(struct cuda_nvtx *nvtx)
{
    close_library(&nvtx->library);
    *nvtx = (struct cuda_nvtx){0};
}
