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

bool cpu_view_same_shape(const struct cpu_view *x, const struct cpu_view *y)
{
    return x->rank == y->rank &&
           memcmp(x->shape, y->shape, (size_t)x->rank * sizeof *x->shape) == 0;
}

bool cpu_view_is(const struct cpu_view *view, remat_dtype dtype)
{
    return view->type == dtype;
}

bool cpu_view_is_float(const struct cpu_view *view)
{
    return remat_dtype_is_computed(view->type);
}

bool cpu_view_same_float(const struct cpu_view *x, const struct cpu_view *y)
{
    return cpu_view_is_float(x) && x->type == y->type && cpu_view_is_float(y);
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

static bool lies_well(const struct cpu_view *view, char layout)
{
    return remat_layout_has(layout, (uint32_t)view->rank, view->shape, view->strides);
}

remat_status cpu_expect_form(struct cpu_device *device, const struct remat_command *command)
{
    uint32_t least, most, parameters, kind = device->base.program->kernels[command->kernel].kind;
    uint32_t operands = command->operand_end - command->operand_begin;
    const struct remat_kernel_row *row = remat_kernel_row(kind);
    remat_kernel_kind_arity(kind, &least, &most, &parameters);
    remat_status st =
        cpu_expect(device, command,
                   operands >= least && operands <= most &&
                       command->parameter_end - command->parameter_begin == parameters,
                   "wrong number of operands or parameters");
    for (uint32_t k = 0; k < operands && !st; k++) {
        struct cpu_view view = cpu_view_of(device, command, k);
        st = cpu_expect(device, command,
                        lies_well(&view, row->layouts[remat_kernel_row_letter(row, k, operands)]),
                        "strides of an operand");
    }
    return st;
}

int64_t cpu_view_element_bytes(const struct cpu_view *view)
{
    return remat_dtype_bytes(view->type);
}

bool cpu_view_movable(const struct cpu_view *in, const struct cpu_view *out)
{
    return in->type == out->type && in->rank == out->rank;
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
