/* SPDX-License-Identifier: Apache-2.0 */
/* Fills, with a constant and with normal random numbers. */
#include "cpu_builtin.h"

#include "cpu_fill.h"

/* Its last operand. */
static struct cpu_view filled(struct cpu_device *device, const struct remat_command *command)
{
    return cpu_view_of(device, command, command->operand_end - command->operand_begin - 1);
}

static remat_status expect_result(struct cpu_device *device, const struct remat_command *command,
                                  bool integers)
{
    struct cpu_view out = filled(device, command);
    bool type = cpu_view_is_float(&out) || (integers && cpu_view_is(&out, REMAT_I32));
    return cpu_expect(device, command, type && cpu_view_dense(&out),
                      "the result has another dtype or is not contiguous");
}

static remat_status prepare_fill(struct cpu_device *device, const struct remat_command *command,
                                 struct cpu_tile **tile)
{
    (void)tile;
    return expect_result(device, command, true);
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

/* The first element of out is number `first` of the tensor, and the last of each `run` of them is
 * `skipped` elements before the next. */
static remat_status fill_normal(struct cpu_device *device, const struct remat_command *command,
                                uint64_t first, int64_t run, uint64_t skipped)
{
    struct cpu_view out = filled(device, command);
    uint64_t bytes = cpu_view_is(&out, REMAT_F32) ? sizeof(float) : sizeof(uint16_t);
    struct cpu_normal normal = {
        .first = first,
        .seed = device->base.params.seed,
        .site = (uint64_t)cpu_parameter(device, command, 2) |
                (uint64_t)cpu_parameter(device, command, 3) << 32,
        .mean = (float)cpu_parameter(device, command, 0),
        .stddev = (float)cpu_parameter(device, command, 1),
    };
    for (int64_t i = 0; i < cpu_view_count(&out); i += run) {
        cpu_fill_normal(device->pool, device->functions, (char *)out.data + (uint64_t)i * bytes,
                        out.type, run, &normal);
        normal.first += (uint64_t)run + skipped;
    }
    return REMAT_OK;
}

static remat_status prepare_fill_normal(struct cpu_device *device,
                                        const struct remat_command *command, struct cpu_tile **tile)
{
    (void)tile;
    return expect_result(device, command, false);
}

static remat_status run_fill_normal(struct cpu_device *device, const struct remat_command *command,
                                    const struct cpu_tile *tile)
{
    (void)tile;
    struct cpu_view out = filled(device, command);
    return fill_normal(device, command, 0, cpu_view_count(&out), 0);
}

static remat_status prepare_fill_part(struct cpu_device *device,
                                      const struct remat_command *command, struct cpu_tile **tile)
{
    struct cpu_view rank = cpu_view_of(device, command, 0);
    bool good = cpu_view_is(&rank, REMAT_I32) && cpu_view_count(&rank) == 1;
    remat_status st = cpu_expect(device, command, good, "the rank is not i32 [1]");
    return st ? st : prepare_fill_normal(device, command, tile);
}

static remat_status read_rank(struct cpu_device *device, const struct remat_command *command,
                              uint64_t *out)
{
    int32_t rank = *(const int32_t *)cpu_view_of(device, command, 0).data;
    *out = (uint64_t)rank;
    return rank >= 0 ? REMAT_OK
                     : remat_error(device->base.ctx, REMAT_ERROR_INVALID, "command \"%s\": rank %d",
                                   command->name, rank);
}

static remat_status run_fill_split(struct cpu_device *device, const struct remat_command *command,
                                   const struct cpu_tile *tile)
{
    (void)tile;
    uint64_t rank, run = (uint64_t)cpu_parameter(device, command, 4);
    uint64_t ranks = (uint64_t)cpu_parameter(device, command, 5);
    remat_status st = read_rank(device, command, &rank);
    return st ? st : fill_normal(device, command, rank * run, (int64_t)run, (ranks - 1) * run);
}

static remat_status run_fill_part(struct cpu_device *device, const struct remat_command *command,
                                  const struct cpu_tile *tile)
{
    (void)tile;
    struct cpu_view out = filled(device, command);
    uint64_t rank;
    int64_t count = cpu_view_count(&out);
    remat_status st = read_rank(device, command, &rank);
    return st ? st : fill_normal(device, command, rank * (uint64_t)count, count, 0);
}

const struct cpu_builtin_kernel cpu_builtin_fill = {prepare_fill, run_fill, 0};

const struct cpu_builtin_kernel cpu_builtin_fill_normal = {prepare_fill_normal, run_fill_normal, 0};

const struct cpu_builtin_kernel cpu_builtin_fill_normal_part = {prepare_fill_part, run_fill_part,
                                                                0};

const struct cpu_builtin_kernel cpu_builtin_fill_normal_split = {prepare_fill_part, run_fill_split,
                                                                 0};
