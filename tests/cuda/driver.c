/* SPDX-License-Identifier: Apache-2.0 */
/* libcuda.so.1: memory is a part of one pool, so that device addresses are host addresses; streams
 * are queues of operations; a graph is a queue kept. Here are its objects, device and context. */
#include "driver.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define STACK_BYTES 1024 /* of a thread in a new context */

struct driver driver = {
    .legacy = {.kind = STREAM}, .per_thread = {.kind = STREAM, .blocking = true}, .clock_ns = 1};

/* --- objects and operations --- */

static const char *const kind_names[] = {
    "stream", "event", "module", "function", "graph", "executable graph", "allocation"};

int driver_setting(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

int driver_fault(int result, const char *what, const char *detail)
{
    fprintf(stderr, "libcuda double: %s%s\n", what, detail);
    return result;
}

bool driver_only_says(const char *format, ...)
{
    const char *path = getenv("REMAT_DOUBLE_DRY");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        va_list list;
        va_start(list, format);
        vfprintf(file, format, list);
        va_end(list);
        fclose(file);
    }
    return path != NULL;
}

void driver_end(int code, const char *call, const char *format, ...)
{
    va_list list;
    fprintf(stderr, "libcuda double: %s: ", call);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\n");
    fflush(NULL);
    _exit(code);
}

void double_end(const char *call, const char *what)
{
    driver_end(DOUBLE_MISUSE, call, "%s", what);
}

struct object *driver_add(enum kind kind)
{
    struct object *object = calloc(1, sizeof *object);
    object->kind = kind;
    object->next = driver.objects;
    driver.objects = object;
    return object;
}

struct object *driver_find(const void *handle, enum kind kind, const char *call)
{
    struct object *o = driver.objects;
    while (o && o != handle)
        o = o->next;
    if (!o)
        driver_end(DOUBLE_MISUSE, call, "an unknown %s", kind_names[kind]);
    if (o->kind != kind)
        driver_end(DOUBLE_MISUSE, call, "a handle of a %s for a %s", kind_names[o->kind],
                   kind_names[kind]);
    if (o->destroyed)
        driver_end(DOUBLE_MISUSE, call, "a destroyed %s", kind_names[kind]);
    return o;
}

struct object *driver_stream(void *handle, const char *call)
{
    return handle == NULL || handle == CUDA_STREAM_LEGACY ? &driver.legacy
           : handle == CUDA_STREAM_PER_THREAD             ? &driver.per_thread
                                                          : driver_find(handle, STREAM, call);
}

int driver_drop(void *handle, enum kind kind, const char *call)
{
    struct object *object = driver_find(handle, kind, call);
    free(object->queue.items);
    object->queue = (struct queue){0};
    object->destroyed = true;
    return SUCCESS;
}

void driver_push(struct queue *queue, const struct operation *operation)
{
    if (queue->count == queue->capacity) {
        queue->capacity = 2 * queue->capacity + 16;
        queue->items = realloc(queue->items, queue->capacity * sizeof *queue->items);
    }
    queue->items[queue->count++] = *operation;
}

int driver_failure(const char *function)
{
    const char *set = getenv("REMAT_DOUBLE_FAIL");
    size_t length = strlen(function);
    if (!set || strncmp(set, function, length) != 0 || set[length] != ':')
        return SUCCESS;
    driver_refuse(function);
    return atoi(set + length + 1);
}

/* --- the device --- */

int cuInit(unsigned flags)
{
    Dl_info self;
    (void)flags;
    if (driver_failure(__func__))
        return driver_failure(__func__);
    if (driver_setting("REMAT_DOUBLE_CAPABILITY", 90) == 0)
        return CUDA_NO_DEVICE;
    if (driver.pool)
        return SUCCESS;
    /* Kernels and the other doubles find what they call in the global scope. */
    if (!dladdr((void *)(uintptr_t)cuInit, &self) ||
        !dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL))
        return driver_fault(INVALID_VALUE, "dlopen: ", dlerror());
    mallopt(M_PERTURB, 0); /* the emulator's memory is large and mostly never touched */
    const char *memory = getenv("REMAT_DOUBLE_MEMORY");
    driver.pool_bytes = memory ? (size_t)atoll(memory) : 128 << 20;
    driver.pool = mmap(NULL, 2 * driver.pool_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    driver.emulator =
        driver.pool == MAP_FAILED ? NULL : emulator_create(driver.pool, 2 * driver.pool_bytes);
    return driver.emulator ? SUCCESS : CUDA_OUT_OF_MEMORY;
}

int cuDriverGetVersion(int *version)
{
    *version = driver_setting("REMAT_DOUBLE_DRIVER", 13000);
    return SUCCESS;
}

int cuGetErrorName(int result, const char **name)
{
    *name = result == CUDA_OUT_OF_MEMORY  ? "CUDA_ERROR_OUT_OF_MEMORY"
            : result == INVALID_IMAGE     ? "CUDA_ERROR_INVALID_IMAGE"
            : result == NO_BINARY_FOR_GPU ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
            : result == ILLEGAL_ADDRESS   ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                          : "an error of the double";
    return SUCCESS;
}

int cuGetErrorString(int result, const char **text)
{
    static char number[16];
    snprintf(number, sizeof number, "%d", result);
    *text = number;
    return SUCCESS;
}

int cuDeviceGetCount(int *count)
{
    *count = 1;
    return SUCCESS;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = 0;
    return ordinal == 0 ? SUCCESS : INVALID_VALUE;
}

int cuDeviceGetName(char *name, int bytes, int device)
{
    const char *set = getenv("REMAT_DOUBLE_NAME");
    (void)device;
    snprintf(name, (size_t)bytes, "%s", set ? set : "NVIDIA H200");
    return SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    int capability = driver_setting("REMAT_DOUBLE_CAPABILITY", 90);
    (void)device;
    *value = attribute == CUDA_DEVICE_COMPUTE_CAPABILITY_MAJOR   ? capability / 10
             : attribute == CUDA_DEVICE_COMPUTE_CAPABILITY_MINOR ? capability % 10
                                                                 : 1;
    return SUCCESS;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    (void)device;
    *flags = 0;
    *active = driver.retained > 0;
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    (void)device;
    if (driver_failure(__func__))
        return driver_failure(__func__);
    if (driver.retained++ == 0)
        driver.stack_bytes = STACK_BYTES;
    *context = driver.pool;
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    if (driver.retained == 0)
        driver_end(DOUBLE_MISUSE, __func__, "nobody holds the context");
    if (--driver.retained > 0)
        return SUCCESS;
    bool leaked = false;
    for (struct object *o = driver.objects; o; o = o->next)
        if (!o->destroyed && o->kind != KERNEL) {
            driver_fault(0, "leaked: ", kind_names[o->kind]);
            leaked = true;
        }
    if (leaked || driver.depth != 0)
        driver_end(DOUBLE_LEAK, __func__, leaked ? "objects are alive" : "it is still current");
    return SUCCESS;
}

int cuCtxPushCurrent_v2(void *context)
{
    if (context != driver.pool || driver.retained == 0)
        driver_end(DOUBLE_MISUSE, __func__, "a context that nobody holds");
    driver.depth++;
    return SUCCESS;
}

int cuCtxSetLimit(int limit, size_t bytes)
{
    NEEDS_CONTEXT
    if (limit != CUDA_LIMIT_STACK_SIZE)
        return INVALID_VALUE;
    if (driver.retained > 1)
        driver_end(DOUBLE_MISUSE, __func__, "the limit of a context that others hold");
    driver.stack_bytes = bytes;
    return SUCCESS;
}

int cuCtxPopCurrent_v2(void **context)
{
    if (driver.depth-- == 0)
        driver_end(DOUBLE_MISUSE, __func__, "no context is current");
    *context = driver.pool;
    return SUCCESS;
}
