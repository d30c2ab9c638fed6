/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPU there is, and how fast the driver copies its memory. */
#include "nvrtc.h"
#include "worker.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define COPY_BYTES_MOST (UINT64_C(1) << 30)
#define COPIES          10

void gpu_must(const struct gpu *gpu, remat_status status)
{
    if (status == REMAT_OK)
        return;
    printf("FAILED %s\n", remat_context_message(gpu->ctx));
    exit(1);
}

void gpu_open(struct gpu *gpu, const char *libraries)
{
    void *context;
    gpu->ctx = remat_context_create(NULL, NULL);
    if (cuda_driver_open(gpu->ctx, strcmp(libraries, "-") != 0 ? libraries : NULL, &gpu->driver)) {
        printf("SKIP: %s\n", remat_context_message(gpu->ctx));
        exit(77);
    }
    gpu_must(gpu, cuda_check(gpu->ctx, &gpu->driver, cuda_context_retain(&gpu->driver, 0, &context),
                             "cuDevicePrimaryCtxRetain"));
    GPU_MUST(gpu, cuCtxPushCurrent_v2, context);
}

void gpu_close(struct gpu *gpu)
{
    void *context;
    GPU_MUST(gpu, cuCtxPopCurrent_v2, &context);
    GPU_MUST(gpu, cuDevicePrimaryCtxRelease_v2, 0);
    cuda_driver_close(&gpu->driver);
    remat_context_destroy(&gpu->ctx);
}

float gpu_time(const struct gpu *gpu, int turns, void *stream,
               void (*run)(const void *data, void *stream), const void *data)
{
    void *begin, *end;
    float ms;
    GPU_MUST(gpu, cuEventCreate, &begin, CUDA_EVENT_DEFAULT);
    GPU_MUST(gpu, cuEventCreate, &end, CUDA_EVENT_DEFAULT);
    run(data, stream);
    GPU_MUST(gpu, cuEventRecord, begin, stream);
    for (int t = 0; t < turns; t++)
        run(data, stream);
    GPU_MUST(gpu, cuEventRecord, end, stream);
    GPU_MUST(gpu, cuEventSynchronize, end);
    GPU_MUST(gpu, cuEventElapsedTime, &ms, begin, end);
    GPU_MUST(gpu, cuEventDestroy_v2, begin);
    GPU_MUST(gpu, cuEventDestroy_v2, end);
    return ms;
}

/* --- copies --- */

struct copy {
    const struct gpu *gpu;
    int (*function)(uint64_t to, uint64_t from, size_t bytes, void *stream);
    uint64_t to, from, bytes;
};

static void run_copy(const void *data, void *stream)
{
    const struct copy *c = data;
    gpu_must(c->gpu,
             cuda_check(c->gpu->ctx, &c->gpu->driver, c->function(c->to, c->from, c->bytes, stream),
                        "cuMemcpyDtoDAsync"));
}

/* gpu_copy LIBRARIES: the fastest of ten copies of 1 GiB, or of a quarter of what is free, as JSON;
 * bytes read and written are counted. */
int copy_main(int argc, char **argv)
{
    struct gpu gpu;
    struct copy copy = {.gpu = &gpu};
    size_t available, total;
    void *stream;
    float least = 0;
    gpu_open(&gpu, argc > 1 ? argv[1] : "-");
    void *symbol = dlsym(gpu.driver.library, "cuMemcpyDtoDAsync_v2");
    if (!symbol) {
        printf("FAILED the driver has no cuMemcpyDtoDAsync_v2\n");
        return 1;
    }
    memcpy(&copy.function, &symbol, sizeof symbol);
    GPU_MUST(&gpu, cuMemGetInfo_v2, &available, &total);
    copy.bytes = available / 4 < COPY_BYTES_MOST ? available / 4 : COPY_BYTES_MOST;
    GPU_MUST(&gpu, cuStreamCreate, &stream, CUDA_STREAM_NON_BLOCKING);
    GPU_MUST(&gpu, cuMemAlloc_v2, &copy.from, copy.bytes);
    GPU_MUST(&gpu, cuMemAlloc_v2, &copy.to, copy.bytes);
    GPU_MUST(&gpu, cuMemsetD8Async, copy.from, 1, copy.bytes, stream);
    for (int k = 0; k < COPIES; k++) {
        float ms = gpu_time(&gpu, 1, stream, run_copy, &copy);
        least = k == 0 || ms < least ? ms : least;
    }
    GPU_MUST(&gpu, cuMemFree_v2, copy.from);
    GPU_MUST(&gpu, cuMemFree_v2, copy.to);
    GPU_MUST(&gpu, cuStreamDestroy_v2, stream);
    gpu_close(&gpu);
    printf("{\"copied_bytes\": %" PRIu64 ", \"copy_bytes_per_s\": %.6g}\n", copy.bytes,
           2 * (double)copy.bytes / ((double)least * 1e-3));
    return 0;
}

/* --- what there is --- */

/* gpu_probe LIBRARIES: the GPU and what remat-run would take here, as JSON; 0 for a library that
 * does not open. */
int probe_main(int argc, char **argv)
{
    struct gpu gpu;
    char name[256];
    size_t available, total;
    int major = 0, minor = 0, nvrtc_major = 0, nvrtc_minor = 0;
    struct cublaslt cublaslt = {0};
    struct remat_nvrtc *nvrtc = NULL;
    gpu_open(&gpu, argc > 1 ? argv[1] : "-");
    const char *folder = argc > 1 && strcmp(argv[1], "-") != 0 ? argv[1] : NULL;
    GPU_MUST(&gpu, cuDeviceGetName, name, (int)sizeof name, 0);
    GPU_MUST(&gpu, cuDeviceGetAttribute, &major, CUDA_DEVICE_COMPUTE_CAPABILITY_MAJOR, 0);
    GPU_MUST(&gpu, cuDeviceGetAttribute, &minor, CUDA_DEVICE_COMPUTE_CAPABILITY_MINOR, 0);
    GPU_MUST(&gpu, cuMemGetInfo_v2, &available, &total);
    if (remat_nvrtc_open(gpu.ctx, folder, gpu.driver.version, &nvrtc) == REMAT_OK)
        remat_nvrtc_version(nvrtc, &nvrtc_major, &nvrtc_minor);
    remat_nvrtc_close(&nvrtc);
    if (cublaslt_open(gpu.ctx, folder, gpu.driver.version, &cublaslt) == REMAT_OK)
        cublaslt_close(&cublaslt);
    printf("{\"gpu\": \"%s\", \"arch\": \"sm_%d%d\", \"total_bytes\": %zu, \"driver\": \"%d.%d\", "
           "\"nvrtc\": \"%d.%d\", \"cublaslt\": \"%" PRIu64 "\"}\n",
           name, major, minor, total, gpu.driver.version / 1000, gpu.driver.version % 1000 / 10,
           nvrtc_major, nvrtc_minor, cublaslt.version);
    gpu_close(&gpu);
    return 0;
}
