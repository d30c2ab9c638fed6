/* SPDX-License-Identifier: Apache-2.0 */
/* Built-in kernels: the table, and what their preparations share. */
#include "cpu_builtin.h"

#include <assert.h>

#define STREAM_BYTES (32u << 20) /* outputs that no cache would hold for their reader */

remat_status cpu_device_prepare_tile(struct cpu_device *device,
                                     const struct cpu_tile_source *source, struct cpu_tile **out)
{
    struct cpu_tile_options options = {
        .isa = device->functions->isa,
        .threads = device->base.params.threads,
        .stream_bytes = STREAM_BYTES,
    };
    return cpu_tile_prepare(device->base.ctx, device->base.program, source, &options,
                            &device->base.arena, out);
}

double cpu_parameter(const struct cpu_device *device, const struct remat_command *command,
                     uint32_t index)
{
    assert(command->parameter_begin + index < command->parameter_end);
    return device->base.program->parameters[command->parameter_begin + index];
}

uint32_t cpu_operand(const struct cpu_device *device, const struct remat_command *command,
                     const char *name)
{
    return remat_kernel_operand(device->base.program->kernels[command->kernel].kind,
                                command->absent, command->operand_end - command->operand_begin,
                                name);
}

struct cpu_view cpu_view_of(const struct cpu_device *device, const struct remat_command *command,
                            uint32_t operand)
{
    assert(command->operand_begin + operand < command->operand_end);
    const struct remat_program *program = device->base.program;
    const struct remat_operand *o = &program->operands[command->operand_begin + operand];
    const struct remat_buffer *buffer = &program->buffers[program->values[o->value].buffer];
    char *data = device->base.memory; /* NULL while preparing */
    if (data)
        data +=
            buffer->offset_bytes + o->offset_elements * remat_dtype_bytes((remat_dtype)o->dtype);
    return (struct cpu_view){data, (remat_dtype)o->dtype, o, o->shape, o->strides, o->rank};
}

int64_t cpu_view_count(const struct cpu_view *view)
{
    int64_t count = 1;
    for (int k = 0; k < view->rank; k++)
        count *= view->shape[k];
    return count;
}

bool cpu_view_is(const struct cpu_view *view, remat_dtype dtype)
{
    return view->type == dtype;
}

remat_status cpu_expect(struct cpu_device *device, const struct remat_command *command,
                        bool condition, const char *what)
{
    if (condition)
        return REMAT_OK;
    const struct remat_kernel *kernel = &device->base.program->kernels[command->kernel];
    return remat_error(device->base.ctx, REMAT_ERROR_INVALID, "command \"%s\": %s: %s",
                       command->name, remat_kernel_kind_name(kernel->kind), what);
}

remat_status cpu_expect_dtypes(struct cpu_device *device, const struct remat_command *command)
{
    remat_status st = REMAT_OK;
    uint32_t operands = command->operand_end - command->operand_begin;
    for (uint32_t k = 0; k < operands && !st; k++) {
        remat_dtype dtype = cpu_view_of(device, command, k).type;
        st = cpu_expect(device, command, dtype == REMAT_I32 || remat_dtype_is_computed(dtype),
                        "a dtype that the CPU does not compute with");
    }
    return st;
}

int64_t cpu_view_element_bytes(const struct cpu_view *view)
{
    return remat_dtype_bytes(view->type);
}

static const struct cpu_builtin_kernel *const builtin_kernels[REMAT_KERNEL_KIND_COUNT] = {
#define BUILTIN_KERNEL(name, ...) [REMAT_KERNEL_##name] = &cpu_builtin_##name,
#include "builtin_kernels.def"
#undef BUILTIN_KERNEL
};

const struct cpu_builtin_kernel *cpu_builtin_kernel(uint32_t kind)
{
    assert(kind < REMAT_KERNEL_KIND_COUNT);
    return builtin_kernels[kind];
}
