/* SPDX-License-Identifier: Apache-2.0 */
/* What reads no tensor: fills, the rope table, AdamW's coefficients. */
#include "cpu_builtin.h"

#include "cpu_fill.h"
#include "cpu_rope.h"

#include <math.h>

/* Its last operand. */
static struct cpu_view filled(struct cpu_device *device, const struct remat_command *command)
{
    return cpu_view_of(device, command, command->operand_end - command->operand_begin - 1);
}

static remat_status prepare_fill(struct cpu_device *device, const struct remat_command *command,
                                 struct cpu_tile **tile)
{
    (void)tile;
    struct cpu_view out = filled(device, command);
    bool constant = device->base.program->kernels[command->kernel].kind == REMAT_KERNEL_fill;
    bool type = cpu_view_is_float(&out) || (constant && cpu_view_is(&out, REMAT_I32));
    return cpu_expect(device, command, type && cpu_view_dense(&out),
                      "the result has another dtype or is not contiguous");
}

static remat_status run_fill(struct cpu_device *device, const struct remat_command *command,
                             const struct cpu_tile *tile)
{
    (void)tile;
    struct cpu_view out = cpu_view_of(device, command, 0);
    int32_t *integers = out.data;
    if (cpu_view_is(&out, REMAT_I32)) {
        for (int64_t i = 0; i < cpu_view_count(&out); i++)
            integers[i] = (int32_t)cpu_parameter(device, command, 0);
        return REMAT_OK;
    }
    cpu_fill_constant(device->pool, out.data, out.type, cpu_view_count(&out),
                      (float)cpu_parameter(device, command, 0));
    return REMAT_OK;
}

static remat_status fill_normal(struct cpu_device *device, const struct remat_command *command,
                                uint64_t first)
{
    struct cpu_view out = filled(device, command);
    struct cpu_normal normal = {
        .first = first,
        .seed = device->base.params.seed,
        .site = (uint64_t)cpu_parameter(device, command, 2) |
                (uint64_t)cpu_parameter(device, command, 3) << 32,
        .mean = (float)cpu_parameter(device, command, 0),
        .stddev = (float)cpu_parameter(device, command, 1),
    };
    cpu_fill_normal(device->pool, device->functions, out.data, out.type, cpu_view_count(&out),
                    &normal);
    return REMAT_OK;
}

static remat_status run_fill_normal(struct cpu_device *device, const struct remat_command *command,
                                    const struct cpu_tile *tile)
{
    (void)tile;
    return fill_normal(device, command, 0);
}

static remat_status prepare_fill_part(struct cpu_device *device,
                                      const struct remat_command *command, struct cpu_tile **tile)
{
    struct cpu_view rank = cpu_view_of(device, command, 0);
    bool good = cpu_view_is(&rank, REMAT_I32) && cpu_view_count(&rank) == 1;
    remat_status st = cpu_expect(device, command, good, "the rank is not i32 [1]");
    return st ? st : prepare_fill(device, command, tile);
}

static remat_status run_fill_part(struct cpu_device *device, const struct remat_command *command,
                                  const struct cpu_tile *tile)
{
    (void)tile;
    int32_t rank = *(const int32_t *)cpu_view_of(device, command, 0).data;
    struct cpu_view out = filled(device, command);
    if (rank < 0)
        return remat_error(device->base.ctx, REMAT_ERROR_INVALID, "command \"%s\": rank %d",
                           command->name, rank);
    return fill_normal(device, command, (uint64_t)rank * (uint64_t)cpu_view_count(&out));
}

/* --- rope_table (cpu_rope.c) --- */

static remat_status prepare_rope_table(struct cpu_device *device,
                                       const struct remat_command *command, struct cpu_tile **tile)
{
    (void)tile;
    struct cpu_view out = cpu_view_of(device, command, 0);
    return cpu_expect(device, command,
                      cpu_view_is(&out, REMAT_F32) && out.rank == 4 && cpu_view_dense(&out),
                      "the result is not f32 of rank 4 and contiguous");
}

static remat_status run_rope_table(struct cpu_device *device, const struct remat_command *command,
                                   const struct cpu_tile *tile)
{
    (void)tile;
    struct cpu_view out = cpu_view_of(device, command, 0);
    struct cpu_rope rope = {cpu_parameter(device, command, 0), cpu_parameter(device, command, 1),
                            cpu_parameter(device, command, 2), cpu_parameter(device, command, 3),
                            cpu_parameter(device, command, 4)};
    cpu_rope_table(device->pool, out.data, out.shape[0], out.shape[3], &rope);
    return REMAT_OK;
}

/* --- optimizer coefficients --- */

static remat_status prepare_adamw(struct cpu_device *device, const struct remat_command *command,
                                  struct cpu_tile **tile)
{
    (void)tile;
    struct cpu_view lr = cpu_view_of(device, command, 0), step = cpu_view_of(device, command, 1),
                    out = cpu_view_of(device, command, 2);
    bool good = cpu_view_is(&lr, REMAT_F32) && cpu_view_is(&step, REMAT_I32) &&
                cpu_view_is(&out, REMAT_F32) && cpu_view_count(&lr) == 1 &&
                cpu_view_count(&step) == 1 && cpu_view_count(&out) == 3 && cpu_view_dense(&out);
    return cpu_expect(device, command, good,
                      "operands are not lr f32 [1], step i32 [1], out f32 [3]");
}

/* base^exponent in a fixed order of double multiplications, so that no libm decides the bits. */
static double power(double base, int32_t exponent)
{
    double result = 1.0;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1)
            result *= base;
    return result;
}

static remat_status run_adamw(struct cpu_device *device, const struct remat_command *command,
                              const struct cpu_tile *tile)
{
    (void)tile;
    double lr = (double)*(const float *)cpu_view_of(device, command, 0).data;
    int32_t step = *(const int32_t *)cpu_view_of(device, command, 1).data;
    float *out = cpu_view_of(device, command, 2).data;
    if (step < 1)
        return remat_error(device->base.ctx, REMAT_ERROR_INVALID,
                           "command \"%s\": step is %d, it counts from 1", command->name, step);
    out[0] = (float)(1.0 - lr * cpu_parameter(device, command, 2));
    out[1] = (float)(lr / (1.0 - power(cpu_parameter(device, command, 0), step)));
    out[2] = (float)sqrt(1.0 - power(cpu_parameter(device, command, 1), step));
    return REMAT_OK;
}

const struct cpu_builtin_kernel cpu_builtin_fill = {prepare_fill, run_fill, 0};

const struct cpu_builtin_kernel cpu_builtin_fill_normal = {prepare_fill, run_fill_normal, 0};

const struct cpu_builtin_kernel cpu_builtin_fill_normal_part = {prepare_fill_part, run_fill_part,
                                                                0};

const struct cpu_builtin_kernel cpu_builtin_rope_table = {prepare_rope_table, run_rope_table, 0};

const struct cpu_builtin_kernel cpu_builtin_adamw_coefficients = {prepare_adamw, run_adamw, 0};
