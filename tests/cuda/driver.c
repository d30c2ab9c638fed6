/* SPDX-License-Identifier: Apache-2.0 */
/* libcuda.so.1: memory is a part of one pool, so that device addresses are host addresses; streams
 * are queues of operations; a graph is a queue kept. Here are its objects, device and context. */
#include "driver.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define STACK_BYTES 1024 /* of a thread in a new context */

struct driver driver = {.clock_ns = 1};
_Thread_local struct current driver_current;

/* --- threads --- */

static pthread_mutex_t mutex;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_mutex(void)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

int driver_lock(void)
{
    pthread_once(&once, make_mutex);
    return pthread_mutex_lock(&mutex);
}

void driver_unlock(const int *locked)
{
    (void)locked;
    pthread_mutex_unlock(&mutex);
}

struct gpu *driver_gpu(void)
{
    struct current *current = &driver_current;
    return current->depth > 0 ? current->gpus[current->depth - 1] : &driver.gpus[0];
}

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
    object->gpu = driver_gpu();
    object->thread = pthread_self();
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
    if (o->gpu != driver_gpu())
        driver_end(DOUBLE_MISUSE, call, "a %s of another GPU", kind_names[kind]);
    return o;
}

struct object *driver_stream(void *handle, const char *call)
{
    struct gpu *gpu = driver_gpu();
    return handle == NULL || handle == CUDA_STREAM_LEGACY ? &gpu->legacy
           : handle == CUDA_STREAM_PER_THREAD             ? &gpu->per_thread
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

static bool make_gpus(void)
{
    const char *memory = getenv("REMAT_DOUBLE_MEMORY");
    driver.gpu_count = driver_setting("REMAT_DOUBLE_GPUS", 1);
    driver.pool_bytes = memory ? (size_t)atoll(memory) : 128 << 20;
    size_t bytes = 2 * driver.pool_bytes, all = bytes * (size_t)driver.gpu_count;
    char *pool =
        mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    driver.emulator = pool == MAP_FAILED ? NULL : emulator_create(pool, all);
    for (int g = 0; g < driver.gpu_count; g++)
        driver.gpus[g] = (struct gpu){
            .pool = pool + (size_t)g * bytes,
            .legacy = {.kind = STREAM, .gpu = &driver.gpus[g]},
            .per_thread = {.kind = STREAM, .gpu = &driver.gpus[g], .blocking = true},
        };
    return driver.emulator != NULL;
}

int cuInit(unsigned flags)
{
    Dl_info self;
    LOCKED(void) flags;
    if (driver_failure(__func__))
        return driver_failure(__func__);
    if (driver_setting("REMAT_DOUBLE_CAPABILITY", 90) == 0)
        return CUDA_NO_DEVICE;
    if (driver.emulator)
        return SUCCESS;
    /* Kernels and the other doubles find what they call in the global scope. */
    if (!dladdr((void *)(uintptr_t)cuInit, &self) ||
        !dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL))
        return driver_fault(INVALID_VALUE, "dlopen: ", dlerror());
    mallopt(M_PERTURB, 0); /* the emulator's memory is large and mostly never touched */
    return make_gpus() ? SUCCESS : CUDA_OUT_OF_MEMORY;
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
    *count = driver.gpu_count;
    return SUCCESS;
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return ordinal >= 0 && ordinal < driver.gpu_count ? SUCCESS : INVALID_VALUE;
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
    LOCKED
    *flags = 0;
    *active = driver.gpus[device].retained > 0;
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    LOCKED
    struct gpu *gpu = &driver.gpus[device];
    if (driver_failure(__func__))
        return driver_failure(__func__);
    if (gpu->retained++ == 0)
        gpu->stack_bytes = STACK_BYTES;
    *context = gpu;
    return SUCCESS;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    LOCKED
    struct gpu *gpu = &driver.gpus[device];
    if (gpu->retained == 0)
        driver_end(DOUBLE_MISUSE, __func__, "nobody holds the context");
    if (--gpu->retained > 0)
        return SUCCESS;
    bool leaked = false;
    for (struct object *o = driver.objects; o; o = o->next)
        if (!o->destroyed && o->kind != KERNEL && o->gpu == gpu) {
            driver_fault(0, "leaked: ", kind_names[o->kind]);
            leaked = true;
        }
    if (leaked || gpu->current)
        driver_end(DOUBLE_LEAK, __func__, leaked ? "objects are alive" : "it is still current");
    return SUCCESS;
}

int cuCtxPushCurrent_v2(void *context)
{
    LOCKED
    struct gpu *gpu = context;
    if (gpu < driver.gpus || gpu >= driver.gpus + driver.gpu_count || gpu->retained == 0)
        driver_end(DOUBLE_MISUSE, __func__, "a context that nobody holds");
    struct current *current = &driver_current;
    if (current->depth == current->capacity) {
        current->capacity = 2 * current->capacity + 16;
        current->gpus = realloc(current->gpus, (size_t)current->capacity * sizeof(void *));
    }
    current->gpus[current->depth++] = gpu;
    gpu->current++;
    return SUCCESS;
}

int cuCtxSetLimit(int limit, size_t bytes)
{
    NEEDS_CONTEXT
    if (limit != CUDA_LIMIT_STACK_SIZE)
        return INVALID_VALUE;
    if (driver_gpu()->retained > 1)
        driver_end(DOUBLE_MISUSE, __func__, "the limit of a context that others hold");
    driver_gpu()->stack_bytes = bytes;
    return SUCCESS;
}

int cuCtxPopCurrent_v2(void **context)
{
    LOCKED
    if (driver_current.depth == 0)
        driver_end(DOUBLE_MISUSE, __func__, "no context is current");
    *context = driver_gpu();
    driver_gpu()->current--;
    driver_current.depth--;
    return SUCCESS;
}
