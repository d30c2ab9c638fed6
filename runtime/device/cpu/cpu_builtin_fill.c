/* SPDX-License-Identifier: Apache-2.0 */
/* Fills, with a constant and with normal random numbers. */
#include "cpu_builtin.h"

#include "cpu_fill.h"

static remat_status expect_result(struct cpu_device *device, const struct remat_command *command,
                                  bool integers)
{
    struct cpu_view out = cpu_view_of(device, command, 0);
    bool type = cpu_view_is_float(&out) || (integers && cpu_view_is(&out, REMAT_I32));
    return cpu_expect(device, command, type, "the result has another dtype");
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
    cpu_fill_constant(device->pool, cpu_element_at(out.data, out.type, begin + drawn), out.type,
                      count - drawn, 0);
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
    struct cpu_view out = cpu_view_of(device, command, 0);
    fill_normal(device, command, 0, cpu_view_count(&out), 0, UINT64_MAX);
    return REMAT_OK;
}

static bool has_rank(const struct remat_command *command)
{
    return command->operand_end - command->operand_begin > 1;
}

static remat_status prepare_fill_part(struct cpu_device *device,
                                      const struct remat_command *command, struct cpu_tile **tile)
{
    remat_status st = prepare_fill_normal(device, command, tile);
    if (st || !has_rank(command))
        return st;
    struct cpu_view rank = cpu_view_of(device, command, 1);
    bool good = cpu_view_is(&rank, REMAT_I32) && cpu_view_count(&rank) == 1;
    return cpu_expect(device, command, good, "the rank is not i32 [1]");
}

static remat_status run_fill_part(struct cpu_device *device, const struct remat_command *command,
                                  const struct cpu_tile *tile)
{
    (void)tile;
    struct cpu_view out = cpu_view_of(device, command, 0);
    int32_t rank = has_rank(command) ? *(const int32_t *)cpu_view_of(device, command, 1).data : 0;
    if (rank < 0)
        return remat_error(device->base.ctx, REMAT_ERROR_INVALID, "command \"%s\": rank %d",
                           command->name, rank);
    uint64_t end = (uint64_t)cpu_parameter(device, command, 4);
    uint64_t run = (uint64_t)cpu_parameter(device, command, 5);
    uint64_t ranks = (uint64_t)cpu_parameter(device, command, 6);
    uint64_t first = (uint64_t)rank * run;
    for (int64_t i = 0; i < cpu_view_count(&out); i += (int64_t)run, first += ranks * run)
        fill_normal(device, command, i, (int64_t)run, first, end);
    return REMAT_OK;
}

const struct cpu_builtin_kernel cpu_builtin_fill = {prepare_fill, run_fill, 0};

const struct cpu_builtin_kernel cpu_builtin_fill_normal = {prepare_fill_normal, run_fill_normal, 0};

const struct cpu_builtin_kernel cpu_builtin_fill_normal_part = {prepare_fill_part, run_fill_part,
                                                                0};
