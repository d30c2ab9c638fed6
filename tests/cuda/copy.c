/* How fast the driver copies a GPU's memory: the fastest of ten copies of 1 GiB, or of a quarter of
 * what is free, by the GPU's clock. Prints {"copied_bytes": ..., "copy_bytes_per_s": ...}, reads
 * and writes counted.
 *
 *     cuda_copy LIBRARIES    a folder, or "-" where the system's loader finds them */
#include "cuda_api.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define COPIES     10
#define BYTES_MOST (UINT64_C(1) << 30)

typedef int copy_function(uint64_t to, uint64_t from, size_t bytes, void *stream);

static struct cuda_driver driver;
static remat_context *ctx;

static void must(remat_status status)
{
    if (status) {
        printf("FAILED %s\n", remat_context_message(ctx));
        exit(1);
    }
}

#define MUST(function, ...) must(cuda_check(ctx, &driver, driver.function(__VA_ARGS__), #function))

/* The fastest copy, in milliseconds. */
static float measure(copy_function *copy, uint64_t bytes)
{
    void *stream, *begin, *end;
    uint64_t from, to;
    float ms, least = 0;
    MUST(cuStreamCreate, &stream, CUDA_STREAM_NON_BLOCKING);
    MUST(cuEventCreate, &begin, CUDA_EVENT_DEFAULT);
    MUST(cuEventCreate, &end, CUDA_EVENT_DEFAULT);
    MUST(cuMemAlloc_v2, &from, bytes);
    MUST(cuMemAlloc_v2, &to, bytes);
    MUST(cuMemsetD8Async, from, 1, bytes, stream);
    for (int k = 0; k < COPIES; k++) {
        MUST(cuEventRecord, begin, stream);
        must(cuda_check(ctx, &driver, copy(to, from, bytes, stream), "cuMemcpyDtoDAsync"));
        MUST(cuEventRecord, end, stream);
        MUST(cuEventSynchronize, end);
        MUST(cuEventElapsedTime, &ms, begin, end);
        least = k == 0 || ms < least ? ms : least;
    }
    MUST(cuMemFree_v2, from);
    MUST(cuMemFree_v2, to);
    MUST(cuEventDestroy_v2, begin);
    MUST(cuEventDestroy_v2, end);
    MUST(cuStreamDestroy_v2, stream);
    return least;
}

int main(int argc, char **argv)
{
    void *context;
    size_t available, total;
    copy_function *copy;
    if (argc != 2)
        return 2;
    ctx = remat_context_create(NULL, NULL);
    must(cuda_driver_open(ctx, strcmp(argv[1], "-") != 0 ? argv[1] : NULL, &driver));
    void *symbol = dlsym(driver.library, "cuMemcpyDtoDAsync_v2");
    if (!symbol) {
        printf("FAILED the driver has no cuMemcpyDtoDAsync_v2\n");
        return 1;
    }
    memcpy(&copy, &symbol, sizeof copy);
    MUST(cuDevicePrimaryCtxRetain, &context, 0);
    MUST(cuCtxPushCurrent_v2, context);
    MUST(cuMemGetInfo_v2, &available, &total);
    uint64_t bytes = available / 4 < BYTES_MOST ? available / 4 : BYTES_MOST;
    float ms = measure(copy, bytes);
    MUST(cuCtxPopCurrent_v2, &context);
    MUST(cuDevicePrimaryCtxRelease_v2, 0);
    printf("{\"copied_bytes\": %" PRIu64 ", \"copy_bytes_per_s\": %.6g}\n", bytes,
           2 * (double)bytes / ((double)ms * 1e-3));
    cuda_driver_close(&driver);
    remat_context_destroy(&ctx);
    return 0;
}
