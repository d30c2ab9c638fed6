/* SPDX-License-Identifier: Apache-2.0 */
/* Creation, memory and execution of the CPU device. */
#include "cpu_builtin.h"
#include "cpu_tile.h"
#include "device_base.h"
#include "host.h"

#include <assert.h>
#include <inttypes.h>
#include <sched.h>

#define BASE_BYTES (48u << 20) /* what the process needs beside arena and threads: code, files */

/* --- preparation --- */

static remat_status prepare_command(struct cpu_device *device, uint32_t index)
{
    remat_status st = REMAT_OK;
    const struct remat_program *program = device->base.program;
    const struct remat_command *command = &program->commands[index];
    const struct remat_kernel *kernel = &program->kernels[command->kernel];
    struct cpu_tile **tile = &device->tiles[index];
    uint64_t bytes = 0;
    if (kernel->kind == REMAT_KERNEL_fused) {
        struct cpu_tile_source source = {
            .name = command->name,
            .kernel = &kernel->body,
            .operands = &program->operands[command->operand_begin],
            .operand_count = command->operand_end - command->operand_begin,
            .rank = command->rank,
            .space = command->space,
        };
        REMAT_TRY(cpu_device_prepare_tile(device, &source, tile));
    } else {
        const struct cpu_builtin_kernel *builtin = cpu_builtin_kernel(kernel->kind);
        REMAT_TRY(cpu_expect_dtypes(device, command));
        if (builtin->prepare)
            REMAT_TRY(builtin->prepare(device, command, tile));
        bytes = builtin->scratch_bytes;
    }
    if (*tile && cpu_tile_scratch_bytes(*tile) > bytes)
        bytes = cpu_tile_scratch_bytes(*tile);
    if (bytes > device->scratch_bytes)
        device->scratch_bytes = remat_aligned_bytes(bytes);
fail:
    return st;
}

static remat_status prepare(struct cpu_device *device)
{
    remat_status st = REMAT_OK;
    REMAT_TRY_NEW(&device->base.arena, device->tiles, device->base.program->command_count);
    REMAT_TRY_NEW(&device->base.arena, device->scratch_of, device->base.params.threads);
    for (uint32_t c = 0; c < device->base.program->command_count; c++)
        REMAT_TRY(prepare_command(device, c));
fail:
    return st;
}

/* --- life --- */

static uint32_t default_threads(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    int count = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    return count < 1 ? 1 : count > CPU_THREADS_MAX ? CPU_THREADS_MAX : (uint32_t)count;
}

static remat_status present(remat_context *ctx, const struct remat_device_params *params)
{
    (void)ctx, (void)params;
    return REMAT_OK;
}

static void destroy(struct remat_device **device)
{
    struct cpu_device *cpu = (struct cpu_device *)*device;
    if (!cpu)
        return;
    cpu_pool_destroy(&cpu->pool);
    remat_reallocate(cpu->base.ctx, cpu->owned, 0);
    remat_device_free(device);
}

static remat_status create(remat_context *ctx, const struct remat_program *program,
                           const struct remat_device_params *params, struct remat_device **out)
{
    remat_status st = REMAT_OK;
    *out = NULL;
    if (params->threads < 1 || params->threads > CPU_THREADS_MAX)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "%" PRIu32 " threads (accepted: 1 to %d)",
                   params->threads, CPU_THREADS_MAX);
    REMAT_TRY(
        remat_device_make(ctx, &remat_cpu_device, program, params, sizeof(struct cpu_device), out));
    struct cpu_device *cpu = (struct cpu_device *)*out;
    (*out)->name = "cpu";
    (*out)->arch = "";
    cpu->functions = cpu_functions_best();
    REMAT_TRY(prepare(cpu));
    REMAT_TRY(remat_device_add_scratch(*out, params->threads, cpu->scratch_bytes));
    return REMAT_OK;
fail:
    destroy(out);
    return st;
}

static uint64_t base_bytes(const struct remat_device *device)
{
    (void)device;
    return BASE_BYTES;
}

static uint64_t thread_bytes(const struct remat_device *device)
{
    return ((const struct cpu_device *)device)->scratch_bytes + CPU_THREAD_STACK_BYTES;
}

static remat_status bind_memory(struct remat_device *device, void *memory)
{
    remat_status st = REMAT_OK;
    struct cpu_device *cpu = (struct cpu_device *)device;
    uint64_t bytes = device->memory_bytes;
    if (!memory) {
        cpu->owned = remat_reallocate(cpu->base.ctx, NULL, bytes + REMAT_ALIGNMENT);
        if (!cpu->owned)
            return REMAT_ERROR_MEMORY;
        memory = (void *)remat_aligned_bytes((uintptr_t)cpu->owned);
    }
    memset(memory, 0, bytes); /* every page is there before the first step is timed */
    device->memory = memory;
    cpu->scratch = device->memory + device->program->arena_bytes;
    for (uint32_t t = 0; t < device->params.threads; t++)
        cpu->scratch_of[t] = (float *)(cpu->scratch + t * cpu->scratch_bytes);
    REMAT_TRY(cpu_pool_create(cpu->base.ctx, (int)cpu->base.params.threads, &cpu->pool));
fail:
    return st;
}

/* --- running --- */

static remat_status begin(struct remat_device *device)
{
    ((struct cpu_device *)device)->float_state = cpu_flush_subnormals();
    return REMAT_OK;
}

static remat_status end(struct remat_device *device)
{
    cpu_restore_float_state(((struct cpu_device *)device)->float_state);
    return REMAT_OK;
}

static remat_status mark(struct remat_device *device, uint32_t slot)
{
    assert(slot < REMAT_DEVICE_MARKS);
    ((struct cpu_device *)device)->marks_ns[slot] = remat_now_ns();
    return REMAT_OK;
}

static remat_status elapsed(struct remat_device *device, uint32_t from, uint32_t to, uint64_t *ns)
{
    assert(from < REMAT_DEVICE_MARKS && to < REMAT_DEVICE_MARKS);
    const struct cpu_device *cpu = (const struct cpu_device *)device;
    *ns = cpu->marks_ns[to] - cpu->marks_ns[from];
    return REMAT_OK;
}

static remat_status execute(struct remat_device *device, uint32_t index)
{
    assert(index < device->program->command_count);
    struct cpu_device *cpu = (struct cpu_device *)device;
    const struct remat_command *command = &cpu->base.program->commands[index];
    uint32_t kind = cpu->base.program->kernels[command->kernel].kind;
    if (kind != REMAT_KERNEL_fused)
        return cpu_builtin_kernel(kind)->run(cpu, command, cpu->tiles[index]);
    cpu_tile_run(cpu->tiles[index], cpu->pool, device->memory, cpu->scratch, cpu->scratch_bytes);
    return REMAT_OK;
}

static remat_status write_memory(struct remat_device *device, uint64_t offset, const void *data,
                                 uint64_t bytes)
{
    assert(offset + bytes <= device->program->arena_bytes);
    memcpy(device->memory + offset, data, bytes);
    return REMAT_OK;
}

static remat_status read_memory(struct remat_device *device, uint64_t offset, void *data,
                                uint64_t bytes)
{
    assert(offset + bytes <= device->program->arena_bytes);
    memcpy(data, device->memory + offset, bytes);
    return REMAT_OK;
}

const struct remat_device_vtable remat_cpu_device = {
    .name = "cpu",
    .present = present,
    .default_threads = default_threads,
    .create = create,
    .destroy = destroy,
    .base_bytes = base_bytes,
    .thread_bytes = thread_bytes,
    .bind = bind_memory,
    .begin = begin,
    .execute = execute,
    .end = end,
    .mark = mark,
    .elapsed = elapsed,
    .write = write_memory,
    .read = read_memory,
};
