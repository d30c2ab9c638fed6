/* SPDX-License-Identifier: Apache-2.0 */
/* Emitted kernels on a GPU: kernels.h, and of emulator.h its memory, by NVRTC and the driver, so
 * that the tests of tests/emulator run on hardware as they are. The memory of a test has a twin on
 * the GPU, which is written before each command and read after it. */
#include "kernels.h"
#include "nvrtc.h"
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>

#define STATIC_SHARED_MAX (48u << 10) /* what a block may have without being asked for */

struct emulator { /* memory and its twin */
    const char *memory;
    uint64_t bytes, address;
};

static struct process { /* keeps it until it ends */
    struct gpu gpu;
    struct remat_nvrtc *nvrtc;
    void *stream;
    char arch[16];
} process;

#define MUST(function, ...) GPU_MUST(&process.gpu, function, __VA_ARGS__)

static void open_process(const char *libraries)
{
    struct gpu *gpu = &process.gpu;
    int major = 0, minor = 0;
    if (gpu->ctx)
        return;
    gpu_open(gpu, libraries);
    if (remat_nvrtc_open(gpu->ctx, strcmp(libraries, "-") != 0 ? libraries : NULL,
                         gpu->driver.version, &process.nvrtc)) {
        printf("SKIP: %s\n", remat_context_message(gpu->ctx));
        exit(77);
    }
    MUST(cuDeviceGetAttribute, &major, CUDA_DEVICE_COMPUTE_CAPABILITY_MAJOR, 0);
    MUST(cuDeviceGetAttribute, &minor, CUDA_DEVICE_COMPUTE_CAPABILITY_MINOR, 0);
    snprintf(process.arch, sizeof process.arch, "sm_%d%d", major, minor);
    MUST(cuStreamCreate, &process.stream, CUDA_STREAM_NON_BLOCKING);
}

void *kernels_compile(const char *compiler, const char *text)
{
    struct remat_arena arena;
    struct remat_cubin cubin;
    void *module;
    open_process(compiler);
    remat_arena_init(&arena, process.gpu.ctx);
    gpu_must(&process.gpu,
             remat_nvrtc_compile(process.nvrtc, &arena, "kernels", text, process.arch, &cubin));
    char *image = malloc(cubin.bytes + 1); /* aligned */
    memcpy(image, cubin.data, cubin.bytes);
    image[cubin.bytes] = 0;
    MUST(cuModuleLoadData, &module, image);
    free(image);
    remat_arena_release(&arena);
    return module;
}

emulator_kernel *kernels_find(void *library, const char *symbol)
{
    emulator_kernel *kernel;
    void *function;
    MUST(cuModuleGetFunction, &function, library, symbol);
    memcpy(&kernel, &function, sizeof kernel);
    return kernel;
}

void kernels_close(void *library)
{
    MUST(cuModuleUnload, library);
}

struct emulator *emulator_create(const void *memory, uint64_t bytes)
{
    struct emulator *emulator = malloc(sizeof *emulator);
    *emulator = (struct emulator){.memory = memory, .bytes = bytes};
    MUST(cuMemAlloc_v2, &emulator->address, bytes);
    return emulator;
}

void emulator_destroy(struct emulator **emulator)
{
    MUST(cuMemFree_v2, (*emulator)->address);
    free(*emulator);
    *emulator = NULL;
}

static void run(const struct kernels_place *place, const struct remat_cuda_launch *launch)
{
    const struct remat_cuda_code *code = place->code;
    const struct remat_cuda_kernel *kernel = &code->kernels[launch->kernel];
    const struct emulator *twin = place->emulator;
    struct arguments arguments =
        kernels_arguments(&code->words[launch->word_begin], launch->word_end - launch->word_begin,
                          place->seed, twin->address + (uint64_t)(place->memory - twin->memory),
                          twin->address + (uint64_t)(place->workspace - twin->memory));
    void *function, *parameters[] = {&arguments};
    memcpy(&function, &place->kernels[launch->kernel], sizeof function);
    if (kernel->shared_bytes > STATIC_SHARED_MAX)
        MUST(cuFuncSetAttribute, function, CUDA_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES,
             (int)kernel->shared_bytes);
    MUST(cuLaunchKernel, function, launch->blocks, 1, 1, kernel->threads, 1, 1,
         kernel->shared_bytes, process.stream, parameters, NULL);
}

const char *kernels_run(const struct kernels_place *place, uint32_t command)
{
    const struct emulator *twin = place->emulator;
    const struct remat_cuda_code *code = place->code;
    MUST(cuMemcpyHtoDAsync_v2, twin->address, twin->memory, twin->bytes, process.stream);
    for (uint32_t l = code->launch_begin[command]; l < code->launch_begin[command + 1]; l++)
        run(place, &code->launches[l]);
    MUST(cuMemcpyDtoHAsync_v2, (char *)(uintptr_t)twin->memory, twin->address, twin->bytes,
         process.stream);
    MUST(cuStreamSynchronize, process.stream);
    return NULL;
}
