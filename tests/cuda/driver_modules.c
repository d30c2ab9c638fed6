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

static uint64_t hash(uint64_t h, const char *text)
{
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

/* Where a library lies that has the kernels of one text, or of several. */
static void path_of(char path[512], uint64_t number)
{
    const char *cache = getenv("REMAT_DOUBLE_CACHE");
    snprintf(path, 512, "%s/%016llx.so", cache ? cache : "/tmp", (unsigned long long)number);
}

static void *find_cached(const char *text)
{
    char path[512];
    path_of(path, hash(0, text));
    return getenv("REMAT_DOUBLE_CACHE") ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

static void *open_compiled(const char *path, const char *mine, struct object *const *modules,
                           size_t count)
{
    char name[512], link[600];
    const char *file = strrchr(path, '/') + 1;
    if (rename(mine, path) != 0)
        return NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!getenv("REMAT_DOUBLE_CACHE"))
        unlink(path);
    for (size_t m = 0; m < count && getenv("REMAT_DOUBLE_CACHE"); m++) {
        path_of(name, hash(0, modules[m]->text));
        snprintf(link, sizeof link, "%s.%d", name, (int)getpid());
        if (symlink(file, link) != 0 || rename(link, name) != 0)
            unlink(link);
    }
    return library;
}

/* Into one library: most of a compilation is the compiler's start. */
static void compile(struct object *const *modules, size_t count)
{
    const char *compiler = getenv("REMAT_DOUBLE_COMPILER");
    char path[512], mine[600], command[4096];
    uint64_t number = count;
    for (size_t m = 0; m < count; m++)
        number = hash(number, modules[m]->text);
    path_of(path, number);
    snprintf(mine, sizeof mine, "%s.%d", path, (int)getpid());
    snprintf(command, sizeof command, "%s -O1 " EMULATOR_FLAGS " -o %s - " EMULATOR_FLAGS_AFTER,
             compiler ? compiler : "cc", mine);
    FILE *pipe = popen(command, "w");
    bool made = pipe != NULL;
    for (size_t m = 0; m < count && made; m++)
        made = fputs(modules[m]->text, pipe) >= 0;
    made = pipe && pclose(pipe) == 0 && made;
    void *library = made ? open_compiled(path, mine, modules, count) : NULL;
    for (size_t m = 0; m < count; m++)
        modules[m]->library = library;
}

static struct object *with_text(struct object *const *modules, size_t count, const char *text)
{
    for (size_t m = 0; m < count; m++)
        if (strcmp(modules[m]->text, text) == 0)
            return modules[m];
    return NULL;
}

static bool is_pending(const struct object *o)
{
    return o->kind == MODULE && !o->destroyed && !o->library;
}

/* All modules that have no library yet, when one of them is needed. */
static void compile_all(void)
{
    size_t count = 0;
    for (struct object *o = driver.objects; o; o = o->next)
        count += is_pending(o);
    struct object **modules = calloc(count, sizeof(struct object *));
    count = 0;
    for (struct object *o = driver.objects; o; o = o->next)
        if (is_pending(o) && !with_text(modules, count, o->text))
            modules[count++] = o;
    compile(modules, count);
    for (struct object *o = driver.objects; o; o = o->next)
        if (is_pending(o))
            o->library = with_text(modules, count, o->text)->library;
    free(modules);
}

static bool resolve(struct object *kernel)
{
    struct object *module = kernel->module;
    if (!module->library)
        compile_all();
    void *address = module->library ? dlsym(module->library, kernel->text) : NULL;
    memcpy(&kernel->kernel, &address, sizeof address);
    return address != NULL;
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
    struct object *object = driver_add(MODULE);
    bool tensors = strstr((const char *)image + length, "\nTENSORS_KERNEL(") != NULL;
    size_t words = tensors ? REMAT_CUDA_TENSORS_MAX : REMAT_CUDA_WORDS_MAX;
    object->text = strdup((const char *)image + length);
    object->library = driver_only_says("%s", "") ? NULL : find_cached(object->text);
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
    unsigned threads = threads_of(module->text, name);
    if (!threads)
        return NOT_FOUND;
    struct object *object = driver_add(KERNEL);
    object->text = strdup(name);
    object->module = module;
    object->threads = threads;
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
    if (says_launch(&o, kernel))
        return SUCCESS;
    if (!kernel->kernel && !resolve(kernel))
        return driver_fault(INVALID_VALUE, "kernels do not compile: ", kernel->text);
    return driver_enqueue(stream, &o, __func__);
}
