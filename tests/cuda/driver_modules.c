/* SPDX-License-Identifier: Apache-2.0 */
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
    NEEDS_NO_CAPTURE
    if (sscanf(image, DOUBLE_CUBIN "%n", &version, &arch, &length) != 2 || length == 0 ||
        version > driver_setting("REMAT_DOUBLE_DRIVER", 13000) / 1000)
        return INVALID_IMAGE;
    if (arch / 10 != capability / 10 || arch > capability)
        return NO_BINARY_FOR_GPU;
    bool dry = driver_only_says("%s", "");
    void *library = dry ? NULL : compile((const char *)image + length);
    if (!library && !dry)
        return driver_fault(INVALID_VALUE, "a kernel does not compile: ", dlerror());
    struct object *object = driver_add(MODULE);
    bool tensors = strstr((const char *)image + length, "\nTENSORS_KERNEL(") != NULL;
    size_t words = tensors ? REMAT_CUDA_TENSORS_MAX : REMAT_CUDA_WORDS_MAX;
    object->library = library;
    object->text = strdup((const char *)image + length);
    object->bytes = 4096;
    object->argument_bytes = words * sizeof(unsigned long long);
    *module = object;
    return SUCCESS;
}

int cuModuleUnload(void *handle)
{
    NEEDS_NO_CAPTURE
    struct object *module = driver_find(handle, MODULE, __func__);
    if (driver_is_queued(module))
        driver_end(DOUBLE_MISUSE, __func__, "a module with a launch that nobody waited for");
    for (struct object *o = driver.objects; o; o = o->next)
        o->destroyed |= o->kind == KERNEL && o->module == module;
    free(module->text);
    return driver_drop(handle, MODULE, __func__);
}

/* KERNEL(name, threads): what __launch_bounds__ says. */
static unsigned threads_of(const char *text, const char *name)
{
    char head[512];
    snprintf(head, sizeof head, "KERNEL(%s, ", name);
    const char *at = strstr(text, head);
    return at ? (unsigned)atoi(at + strlen(head)) : 0;
}

int cuModuleGetFunction(void **function, void *handle, const char *name)
{
    NEEDS_NO_CAPTURE
    struct object *module = driver_find(handle, MODULE, __func__);
    void *address = module->library ? dlsym(module->library, name) : NULL;
    if (!address && module->library)
        return NOT_FOUND;
    struct object *object = driver_add(KERNEL);
    memcpy(&object->kernel, &address, sizeof address);
    object->module = module;
    object->threads = threads_of(module->text, name);
    object->shared_bytes = SHARED_BYTES;
    object->argument_bytes = module->argument_bytes;
    *function = object;
    return SUCCESS;
}

int cuFuncSetAttribute(void *function, int attribute, int value)
{
    NEEDS_CONTEXT
    struct object *kernel = driver_find(function, KERNEL, __func__);
    if (attribute != CUDA_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
        value > SHARED_BYTES_MAX)
        return INVALID_VALUE;
    if ((unsigned)value > kernel->shared_bytes)
        kernel->shared_bytes = (unsigned)value;
    return SUCCESS;
}

/* A kernel is loaded by its first launch, so that must not be captured. */
static int check_capture(struct object *kernel, void *stream)
{
    bool captures = driver_stream(stream, "cuLaunchKernel")->capture != NULL;
    if (captures && !kernel->has_run)
        return driver_refuse("cuLaunchKernel, for the first time");
    kernel->has_run |= !captures;
    return SUCCESS;
}

static bool says_launch(const struct operation *o, const struct object *kernel)
{
    char words[17 * REMAT_CUDA_TENSORS_MAX + 1];
    int at = 0;
    if (!driver_only_says("%s", ""))
        return false;
    for (size_t w = 0; w < kernel->argument_bytes / 8; w++)
        at += sprintf(words + at, " %llx", o->launch.arguments.word[w]);
    return driver_only_says("launch %u %u %u%s\n", o->launch.blocks, o->launch.threads,
                            o->launch.shared_bytes, words);
}

int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads,
                   unsigned threads_y, unsigned threads_z, unsigned shared_bytes, void *stream,
                   void **arguments, void **extra)
{
    NEEDS_CONTEXT
    struct object *kernel = driver_find(function, KERNEL, __func__);
    if (x == 0 || x > INT32_MAX || y != 1 || z != 1 || threads == 0 || threads > kernel->threads ||
        threads_y != 1 || threads_z != 1 || !arguments || !arguments[0] || extra ||
        shared_bytes > kernel->shared_bytes)
        return driver_fault(INVALID_VALUE, __func__, ": arguments");
    struct operation o = {
        .type = LAUNCH,
        .launch = {
            .kernel = kernel, .blocks = x, .threads = threads, .shared_bytes = shared_bytes}};
    int refused = check_capture(kernel, stream);
    if (refused)
        return refused;
    memcpy(&o.launch.arguments, arguments[0], kernel->argument_bytes);
    return says_launch(&o, kernel) ? SUCCESS : driver_enqueue(stream, &o, __func__);
}
