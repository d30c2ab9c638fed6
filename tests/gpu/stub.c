/* SPDX-License-Identifier: Apache-2.0 */
/* libcuda.so.1 of an H100 with 600 MB in use, which accepts everything and does nothing: what is
 * copied to the host is zeros, and whatever is timed takes 50 us. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define EXPORT                __attribute__((visibility("default")))
#define FUNCTION(symbol, ...) EXPORT int symbol(__VA_ARGS__);
#include "driver.def"
#undef FUNCTION
EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream);

#define TOTAL_BYTES     UINT64_C(84942979072)
#define IN_USE_BYTES    UINT64_C(600000000)
#define ALLOCATIONS_MAX 256
#define HANDLE          ((void *)0x100)
#define MULTIPROCESSORS 16 /* attributes */
#define CAPABILITY      75

static uint64_t sizes[ALLOCATIONS_MAX], allocated_bytes; /* the n-th begins at n + 1 TiB */

/* --- what is asked --- */

int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

int cuGetErrorName(int error, const char **name)
{
    (void)error;
    *name = "stub";
    return 0;
}

int cuGetErrorString(int error, const char **text)
{
    (void)error;
    *text = "stub";
    return 0;
}

int cuDeviceGetCount(int *count)
{
    *count = 1;
    return 0;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return 0;
}

int cuDeviceGetName(char *name, int bytes, int device)
{
    (void)device;
    snprintf(name, (size_t)bytes, "NVIDIA H100 80GB HBM3");
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == MULTIPROCESSORS ? 132 : attribute == CAPABILITY ? 9 : 0;
    return 0;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    (void)device;
    *flags = 0;
    *active = 0;
    return 0;
}

int cuStreamIsCapturing(void *stream, int *status)
{
    (void)stream;
    *status = 0;
    return 0;
}

int cuEventElapsedTime(float *ms, void *begin, void *end)
{
    (void)begin, (void)end;
    *ms = 0.05f;
    return 0;
}

/* --- memory --- */

int cuMemGetInfo_v2(size_t *available, size_t *total)
{
    *total = TOTAL_BYTES;
    *available = TOTAL_BYTES - IN_USE_BYTES - allocated_bytes;
    return 0;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
    uint64_t n = 0;
    while (n < ALLOCATIONS_MAX && sizes[n])
        n++;
    if (n == ALLOCATIONS_MAX || bytes > TOTAL_BYTES - IN_USE_BYTES - allocated_bytes)
        return 2;
    sizes[n] = bytes;
    allocated_bytes += bytes;
    *address = (n + 1) << 40;
    return 0;
}

int cuMemFree_v2(uint64_t address)
{
    allocated_bytes -= sizes[(address >> 40) - 1];
    sizes[(address >> 40) - 1] = 0;
    return 0;
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream)
{
    (void)from, (void)stream;
    memset(to, 0, bytes);
    return 0;
}

/* --- handles --- */

#define MAKES(symbol, ...)                                                                         \
    int symbol(void **handle, __VA_ARGS__)                                                         \
    {                                                                                              \
        *handle = HANDLE;                                                                          \
        return 0;                                                                                  \
    }
#pragma GCC diagnostic ignored "-Wunused-parameter"
MAKES(cuDevicePrimaryCtxRetain, int device)
MAKES(cuStreamCreate, unsigned flags)
MAKES(cuGraphInstantiateWithFlags, void *graph, unsigned long long flags)
MAKES(cuEventCreate, unsigned flags)
MAKES(cuModuleLoadData, const void *image)
MAKES(cuModuleGetFunction, void *module, const char *name)

int cuCtxPopCurrent_v2(void **context)
{
    *context = HANDLE;
    return 0;
}

int cuStreamEndCapture(void *stream, void **graph)
{
    *graph = HANDLE;
    return 0;
}

/* --- what is done --- */

#define ACCEPTS(symbol, ...)                                                                       \
    int symbol(__VA_ARGS__)                                                                        \
    {                                                                                              \
        return 0;                                                                                  \
    }
ACCEPTS(cuInit, unsigned flags)
ACCEPTS(cuDevicePrimaryCtxRelease_v2, int device)
ACCEPTS(cuCtxPushCurrent_v2, void *context)
ACCEPTS(cuCtxSetLimit, int limit, size_t value)
ACCEPTS(cuMemsetD8Async, uint64_t to, unsigned char value, size_t bytes, void *stream)
ACCEPTS(cuMemsetD32Async, uint64_t to, unsigned value, size_t count, void *stream)
ACCEPTS(cuMemcpyHtoDAsync_v2, uint64_t to, const void *from, size_t bytes, void *stream)
ACCEPTS(cuMemcpyDtoDAsync_v2, uint64_t to, uint64_t from, size_t bytes, void *stream)
ACCEPTS(cuStreamDestroy_v2, void *stream)
ACCEPTS(cuStreamSynchronize, void *stream)
ACCEPTS(cuStreamQuery, void *stream)
ACCEPTS(cuStreamWaitEvent, void *stream, void *event, unsigned flags)
ACCEPTS(cuStreamBeginCapture_v2, void *stream, int mode)
ACCEPTS(cuGraphLaunch, void *graph, void *stream)
ACCEPTS(cuGraphDestroy, void *graph)
ACCEPTS(cuGraphExecDestroy, void *graph)
ACCEPTS(cuEventDestroy_v2, void *event)
ACCEPTS(cuEventRecord, void *event, void *stream)
ACCEPTS(cuEventSynchronize, void *event)
ACCEPTS(cuEventQuery, void *event)
ACCEPTS(cuModuleUnload, void *module)
ACCEPTS(cuFuncSetAttribute, void *function, int attribute, int value)
ACCEPTS(cuLaunchKernel, void *function, unsigned x, unsigned y, unsigned z, unsigned threads_x,
        unsigned threads_y, unsigned threads_z, unsigned shared_bytes, void *stream,
        void **parameters, void **extra)
