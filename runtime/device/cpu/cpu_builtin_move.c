/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that copy elements and compute nothing: copy, pad, concat; transfers, which sessions
 * leave to their engines. */
#include "cpu_builtin.h"
#include "cpu_tile.h"

/* out = in, both as views of the same shape. */
static remat_status prepare_move(struct cpu_device *device, const struct remat_command *command,
                                 const struct remat_operand operands[2], struct cpu_tile **tile)
{
    static const struct remat_instruction instructions[] = {
        {.opcode = REMAT_INSTRUCTION_load,
         .args = {REMAT_NO_REGISTER, REMAT_NO_REGISTER, REMAT_NO_REGISTER}},
        {.opcode = REMAT_INSTRUCTION_store,
         .operand = 1,
         .args = {0, REMAT_NO_REGISTER, REMAT_NO_REGISTER}},
    };
    static const struct remat_kernel_body kernel = {2, instructions, 2};
    struct cpu_tile_source source = {
        .name = command->name,
        .kernel = &kernel,
        .operands = operands,
        .operand_count = 2,
        .rank = operands[0].rank,
        .space = operands[0].shape,
        .words = true,
    };
    return cpu_device_prepare_tile(device, &source, tile);
}

static remat_status prepare_copy(struct cpu_device *device, const struct remat_command *command,
                                 struct cpu_tile **tile)
{
    return prepare_move(device, command, cpu_view_of(device, command, 0).operand, tile);
}

static remat_status run_copy(struct cpu_device *device, const struct remat_command *command,
                             const struct cpu_tile *tile)
{
    (void)command;
    cpu_tile_run(tile, device->pool, device->base.memory, device->scratch, device->scratch_bytes);
    return REMAT_OK;
}

static remat_status prepare_pad(struct cpu_device *device, const struct remat_command *command,
                                struct cpu_tile **tile)
{
    struct cpu_view in = cpu_view_of(device, command, 0), out = cpu_view_of(device, command, 1);
    int axis = (int)cpu_parameter(device, command, 0);
    struct remat_operand operands[2] = {*in.operand, *out.operand};
    memcpy(operands[1].shape, in.shape, sizeof operands[1].shape);
    operands[1].offset_elements +=
        (uint64_t)cpu_parameter(device, command, 1) * (uint64_t)out.strides[axis];
    return prepare_move(device, command, operands, tile);
}

struct margin { /* in each of the slabs that the axes before the padded one enumerate; bytes */
    char *out;
    int64_t slab, begin, end;
};

static void clear_margin(void *arg, int64_t item, int worker)
{
    (void)worker;
    const struct margin *margin = arg;
    char *slab = margin->out + item * margin->slab;
    memset(slab, 0, (size_t)margin->begin);
    memset(slab + margin->end, 0, (size_t)(margin->slab - margin->end));
}

static remat_status run_pad(struct cpu_device *device, const struct remat_command *command,
                            const struct cpu_tile *tile)
{
    struct cpu_view in = cpu_view_of(device, command, 0), out = cpu_view_of(device, command, 1);
    int axis = (int)cpu_parameter(device, command, 0);
    int64_t begin = (int64_t)cpu_parameter(device, command, 1),
            inner = cpu_view_element_bytes(&out), slabs = 1;
    for (int k = 0; k < axis; k++)
        slabs *= out.shape[k];
    for (int k = axis + 1; k < out.rank; k++)
        inner *= out.shape[k];
    struct margin margin = {out.data, out.shape[axis] * inner, begin * inner,
                            (begin + in.shape[axis]) * inner};
    cpu_pool_run(device->pool, slabs, clear_margin, &margin);
    return run_copy(device, command, tile);
}

/* --- concat --- */

static uint32_t concat_inputs(const struct remat_command *command)
{
    return command->operand_end - command->operand_begin - 1;
}

struct piece { /* one input and where it begins in the result */
    struct cpu_view in;
    const int64_t *out_strides;
    char *out;
};

static void copy_elements(char *to, const char *from, int64_t stride, int64_t count, int64_t bytes)
{
    if (stride == 1)
        memcpy(to, from, (size_t)(count * bytes));
    else if (bytes == 2)
        for (int64_t j = 0; j < count; j++)
            memcpy(to + 2 * j, from + 2 * stride * j, 2);
    else
        for (int64_t j = 0; j < count; j++)
            memcpy(to + 4 * j, from + 4 * stride * j, 4);
}

/* `item` enumerates all axes but the last. */
static void copy_row(void *arg, int64_t item, int worker)
{
    (void)worker;
    const struct piece *piece = arg;
    const struct cpu_view *in = &piece->in;
    int64_t from = 0, to = 0, bytes = cpu_view_element_bytes(in);
    int last = in->rank - 1;
    for (int k = last; k-- > 0; item /= in->shape[k]) {
        from += item % in->shape[k] * in->strides[k];
        to += item % in->shape[k] * piece->out_strides[k];
    }
    copy_elements(piece->out + to * bytes, (const char *)in->data + from * bytes, in->strides[last],
                  in->shape[last], bytes);
}

static remat_status run_concat(struct cpu_device *device, const struct remat_command *command,
                               const struct cpu_tile *tile)
{
    (void)tile;
    struct cpu_view out = cpu_view_of(device, command, concat_inputs(command));
    int axis = (int)cpu_parameter(device, command, 0);
    char *begin = out.data;
    for (uint32_t i = 0; i < concat_inputs(command); i++) {
        struct piece piece = {cpu_view_of(device, command, i), out.strides, begin};
        cpu_pool_run(device->pool, cpu_view_count(&piece.in) / piece.in.shape[piece.in.rank - 1],
                     copy_row, &piece);
        begin += piece.in.shape[axis] * out.strides[axis] * cpu_view_element_bytes(&out);
    }
    return REMAT_OK;
}

const struct cpu_builtin_kernel cpu_builtin_copy = {prepare_copy, run_copy, 0};

const struct cpu_builtin_kernel cpu_builtin_pad = {prepare_pad, run_pad, 0};

const struct cpu_builtin_kernel cpu_builtin_concat = {NULL, run_concat, 0};

static remat_status run_transfer(struct cpu_device *device, const struct remat_command *command,
                                 const struct cpu_tile *tile)
{
    (void)tile;
    return remat_error(device->base.ctx, REMAT_ERROR_INTERNAL,
                       "command \"%s\": a transfer without an engine", command->name);
}

const struct cpu_builtin_kernel cpu_builtin_exchange = {NULL, run_transfer, 0};

const struct cpu_builtin_kernel cpu_builtin_gather = {NULL, run_transfer, 0};
