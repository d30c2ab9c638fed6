/* Modules of libcuda's double: a cubin is text, which the C compiler makes a library of. */
#include "driver.h"

#include "cuda_code.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SHARED_BYTES     (48 * 1024) /* that a block may have without being asked for */
#define SHARED_BYTES_MAX (227 * 1024)

static uint64_t hash(const char *text)
{
    uint64_t h = 14695981039346656037u;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

static void *compile(const char *text)
{
    const char *compiler = getenv("REMAT_DOUBLE_COMPILER"), *cache = getenv("REMAT_DOUBLE_CACHE");
    char library[512], mine[600], command[4096];
    snprintf(library, sizeof library, "%s/%016llx.so", cache ? cache : "/tmp",
             (unsigned long long)hash(text));
    void *handle = cache ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (handle)
        return handle;
    snprintf(mine, sizeof mine, "%s.%d", library, (int)getpid());
    snprintf(command, sizeof command,
             "%s -x c -std=c11 -O1 -w -fPIC -shared -ffp-contract=off -fno-math-errno -include "
             "%s/primitives.h -o %s -",
             compiler ? compiler : "cc", EMULATOR_FOLDER, mine);
    FILE *pipe = popen(command, "w");
    if (!pipe || fputs(text, pipe) < 0 || pclose(pipe) != 0 || rename(mine, library) != 0)
        return NULL;
    handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!cache)
        unlink(library);
    return handle;
}

int cuModuleLoadData(void **module, const void *image)
{
    int arch = 0, version = 0, length = 0,
        capability = driver_setting("REMAT_DOUBLE_CAPABILITY", 90);
    NEEDS_CONTEXT
    if (sscanf(image, DOUBLE_CUBIN "%n", &version, &arch, &length) != 2 || length == 0 ||
        version > driver_setting("REMAT_DOUBLE_DRIVER", 13000) / 1000)
        return INVALID_IMAGE;
    if (arch / 10 != capability / 10 || arch > capability)
        return NO_BINARY_FOR_GPU;
    void *library = compile((const char *)image + length);
    if (!library)
        return driver_fault(INVALID_VALUE, "a kernel does not compile: ", dlerror());
    struct object *object = driver_add(MODULE);
    bool tensors = strstr((const char *)image + length, "\nTENSORS_KERNEL(") != NULL;
    size_t words = tensors ? REMAT_CUDA_TENSORS_MAX : REMAT_CUDA_WORDS_MAX;
    object->library = library;
    object->bytes = 4096;
    object->argument_bytes = words * sizeof(unsigned long long);
    *module = object;
    return SUCCESS;
}

int cuModuleUnload(void *handle)
{
    NEEDS_CONTEXT
    return driver_drop(handle, MODULE); /* its functions stay mapped: a late launch would be seen */
}

int cuModuleGetFunction(void **function, void *handle, const char *name)
{
    NEEDS_CONTEXT
    struct object *module = driver_find(handle, MODULE);
    void *address = module ? dlsym(module->library, name) : NULL;
    if (!address)
        return NOT_FOUND;
    struct object *object = driver_add(KERNEL);
    memcpy(&object->kernel, &address, sizeof address);
    object->shared_bytes = SHARED_BYTES;
    object->argument_bytes = module->argument_bytes;
    *function = object;
    return SUCCESS;
}

int cuFuncSetAttribute(void *function, int attribute, int value)
{
    NEEDS_CONTEXT
    struct object *kernel = driver_find(function, KERNEL);
    if (!kernel || attribute != CUDA_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
        value > SHARED_BYTES_MAX)
        return INVALID_VALUE;
    if ((unsigned)value > kernel->shared_bytes)
        kernel->shared_bytes = (unsigned)value;
    return SUCCESS;
}

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads,
                   unsigned threads_y, unsigned threads_z, unsigned shared_bytes, void *stream,
                   void **arguments, void **extra)
{
    struct object *kernel = driver_find(function, KERNEL);
    if (!kernel || x == 0 || y != 1 || z != 1 || threads == 0 || threads > 1024 || threads_y != 1 ||
        threads_z != 1 || extra || shared_bytes > kernel->shared_bytes)
        return driver_fault(INVALID_VALUE, __func__, ": arguments");
    struct operation o = {.type = LAUNCH,
                          .launch = {.kernel = kernel->kernel,
                                     .blocks = x,
                                     .threads = threads,
                                     .shared_bytes = shared_bytes}};
    memcpy(&o.launch.arguments, arguments[0], kernel->argument_bytes);
    return driver_enqueue(stream, &o);
}
