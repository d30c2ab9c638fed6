/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that make values from parameters alone: fills, with a constant and with normal random
 * numbers, the table of rotary positions (cpu_rope.c), AdamW's coefficients of a step. */
#include "cpu_builtin.h"

#include "cpu_fill.h"
#include "cpu_rope.h"

#include <math.h>

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
    cpu_fill_constant(device->pool, device->functions, out.data, out.type, cpu_view_count(&out),
                      (float)cpu_parameter(device, command, 0));
    return REMAT_OK;
}

/* `count` elements from number `begin` of out on are the tensor's from number `first` on, as far as
 * these are before `end`, and 0 from there. */
static void fill_normal(struct cpu_device *device, const struct remat_command *command,
                        int64_t begin, int64_t count, uint64_t first, uint64_t end)
{
    struct cpu_view out = cpu_view_of(device, command, 0);
    int64_t drawn = 0;
    if (end > first)
        drawn = end - first < (uint64_t)count ? (int64_t)(end - first) : count;
    struct cpu_normal normal = {
        .first = first,
        .seed = device->base.params.seed,
        .site = (uint64_t)cpu_parameter(device, command, 2) |
                (uint64_t)cpu_parameter(device, command, 3) << 32,
        .mean = (float)cpu_parameter(device, command, 0),
        .stddev = (float)cpu_parameter(device, command, 1),
    };
    cpu_fill_normal(device->pool, device->functions, cpu_element_at(out.data, out.type, begin),
                    out.type, drawn, &normal);
    cpu_fill_constant(device->pool, device->functions,
                      cpu_element_at(out.data, out.type, begin + drawn), out.type, count - drawn,
                      0);
}

static remat_status run_fill_normal(struct cpu_device *device, const struct remat_command *command,
                                    const struct cpu_tile *tile)
{
    (void)tile;
    struct cpu_view out = cpu_view_of(device, command, 0);
    fill_normal(device, command, 0, cpu_view_count(&out), 0, UINT64_MAX);
    return REMAT_OK;
}

/* An operand, i32 [1]; 0: it is not there. */
static int32_t number_of(struct cpu_device *device, const struct remat_command *command,
                         const char *name)
{
    uint32_t k = cpu_operand(device, command, name);
    return k == REMAT_NONE ? 0 : *(const int32_t *)cpu_view_of(device, command, k).data;
}

static remat_status run_fill_part(struct cpu_device *device, const struct remat_command *command,
                                  const struct cpu_tile *tile)
{
    (void)tile;
    struct cpu_view out = cpu_view_of(device, command, 0);
    int32_t rank = number_of(device, command, "rank"), block = number_of(device, command, "block");
    if (rank < 0 || block < 0)
        return remat_error(device->base.ctx, REMAT_ERROR_INVALID,
                           "command \"%s\": rank %d, block %d", command->name, rank, block);
    uint64_t end = (uint64_t)cpu_parameter(device, command, 4);
    uint64_t run = (uint64_t)cpu_parameter(device, command, 5);
    uint64_t ranks = (uint64_t)cpu_parameter(device, command, 6);
    uint64_t count = (uint64_t)cpu_view_count(&out), begin = (uint64_t)block * count, length;
    for (uint64_t i = 0; i < count; i += length) {
        uint64_t at = begin + i, skipped = at % run;
        length = run - skipped < count - i ? run - skipped : count - i;
        uint64_t first = (at / run * ranks + (uint64_t)rank) * run + skipped;
        fill_normal(device, command, (int64_t)i, (int64_t)length, first, end);
    }
    return REMAT_OK;
}

const struct cpu_builtin_kernel cpu_builtin_fill = {NULL, run_fill, 0};

const struct cpu_builtin_kernel cpu_builtin_fill_normal = {NULL, run_fill_normal, 0};

const struct cpu_builtin_kernel cpu_builtin_fill_normal_part = {NULL, run_fill_part, 0};

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

const struct cpu_builtin_kernel cpu_builtin_rope_table = {NULL, run_rope_table, 0};

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
    out[3] = 1;
    return REMAT_OK;
}

const struct cpu_builtin_kernel cpu_builtin_adamw_coefficients = {NULL, run_adamw, 0};
