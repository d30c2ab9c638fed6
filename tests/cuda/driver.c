/* libcuda.so.1: memory is a part of one pool, so that device addresses are host addresses; streams
 * are queues of operations; a graph is a queue kept. Here are its objects, device and context. */
#include "driver.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct driver driver = {.clock_ns = 1};

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

struct object *driver_add(enum kind kind)
{
    struct object *object = calloc(1, sizeof *object);
    object->kind = kind;
    object->next = driver.objects;
    driver.objects = object;
    return object;
}

struct object *driver_find(const void *handle, enum kind kind)
{
    struct object *o = driver.objects;
    while (o && !(o == handle && o->kind == kind))
        o = o->next;
    if (!o)
        driver_fault(0, "no such ", kind_names[kind]);
    return o;
}

int driver_drop(void *handle, enum kind kind)
{
    struct object *object = driver_find(handle, kind);
    if (!object)
        return INVALID_VALUE;
    struct object **at = &driver.objects;
    while (*at != object)
        at = &(*at)->next;
    *at = object->next;
    free(object->queue.items);
    free(object);
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
    return set && strncmp(set, function, length) == 0 && set[length] == ':' ? atoi(set + length + 1)
                                                                            : SUCCESS;
}

int driver_enqueue(void *handle, const struct operation *operation)
{
    NEEDS_CONTEXT
    struct object *stream = driver_find(handle, STREAM);
    if (!stream)
        return INVALID_VALUE;
    driver_push(stream->capture ? stream->capture : &stream->queue, operation);
    return SUCCESS;
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
    driver.pool_bytes = (size_t)driver_setting("REMAT_DOUBLE_MEMORY", 128 << 20);
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

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    (void)device;
    if (driver_failure(__func__))
        return driver_failure(__func__);
    driver.retained++;
    *context = driver.pool;
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    if (--driver.retained > 0)
        return SUCCESS;
    for (struct object *o = driver.objects; o; o = o->next)
        if (o->kind != KERNEL)
            driver_fault(0, "leaked: ", kind_names[o->kind]);
    for (struct object *o = driver.objects; o; o = o->next)
        if (o->kind != KERNEL)
            _exit(99);
    if (driver.depth != 0)
        _exit(driver_fault(99, "the context is still current", ""));
    return SUCCESS;
}

int cuCtxPushCurrent_v2(void *context)
{
    driver.depth += context != NULL;
    return context && driver.retained ? SUCCESS : INVALID_CONTEXT;
}

int cuCtxPopCurrent_v2(void **context)
{
    *context = driver.pool;
    return driver.depth-- > 0 ? SUCCESS : INVALID_CONTEXT;
}
