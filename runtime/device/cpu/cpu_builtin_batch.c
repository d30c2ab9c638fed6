/* SPDX-License-Identifier: Apache-2.0 */
/* Equal pieces of a batch and their numbers. */
#include "cpu_builtin.h"

static remat_status prepare_batch_slice(struct cpu_device *device,
                                        const struct remat_command *command, struct cpu_tile **tile)
{
    (void)tile;
    struct cpu_view in = cpu_view_of(device, command, 0), index = cpu_view_of(device, command, 1),
                    out = cpu_view_of(device, command, 2);
    bool good = cpu_view_movable(&in, &out) && cpu_view_is(&index, REMAT_I32) &&
                cpu_view_count(&index) == 1 && cpu_view_count(&in) % cpu_view_count(&out) == 0;
    return cpu_expect(device, command, good, "operands are not in, index i32 [1] and a part of in");
}

static remat_status run_batch_slice(struct cpu_device *device, const struct remat_command *command,
                                    const struct cpu_tile *tile)
{
    (void)tile;
    struct cpu_view in = cpu_view_of(device, command, 0), out = cpu_view_of(device, command, 2);
    int64_t index = *(const int32_t *)cpu_view_of(device, command, 1).data;
    int64_t bytes = cpu_view_count(&out) * cpu_view_element_bytes(&out),
            parts = cpu_view_count(&in) / cpu_view_count(&out);
    if (index < 0 || index >= parts)
        return remat_error(device->base.ctx, REMAT_ERROR_INVALID,
                           "command \"%s\": part %lld of %lld parts", command->name,
                           (long long)index, (long long)parts);
    memcpy(out.data, (const char *)in.data + index * bytes, (size_t)bytes);
    return REMAT_OK;
}

static remat_status prepare_advance(struct cpu_device *device, const struct remat_command *command,
                                    struct cpu_tile **tile)
{
    (void)tile;
    struct cpu_view index = cpu_view_of(device, command, 0);
    return cpu_expect(device, command,
                      cpu_view_is(&index, REMAT_I32) && cpu_view_count(&index) == 1,
                      "the operand is not i32 [1]");
}

static remat_status run_advance(struct cpu_device *device, const struct remat_command *command,
                                const struct cpu_tile *tile)
{
    (void)tile;
    int32_t *index = cpu_view_of(device, command, 0).data;
    int32_t last = (int32_t)cpu_parameter(device, command, 0) - 1;
    *index = *index >= 0 && *index < last ? *index + 1 : 0;
    return REMAT_OK;
}

static remat_status prepare_part_number(struct cpu_device *device,
                                        const struct remat_command *command, struct cpu_tile **tile)
{
    (void)tile;
    bool good = true;
    for (uint32_t k = 0; k < 3; k++) {
        struct cpu_view view = cpu_view_of(device, command, k);
        good = good && cpu_view_is(&view, REMAT_I32) && cpu_view_count(&view) == 1;
    }
    return cpu_expect(device, command, good, "the operands are not i32 [1]");
}

static remat_status run_part_number(struct cpu_device *device, const struct remat_command *command,
                                    const struct cpu_tile *tile)
{
    (void)tile;
    const int32_t *rank = cpu_view_of(device, command, 0).data;
    const int32_t *microbatch = cpu_view_of(device, command, 1).data;
    int64_t number = *rank * (int64_t)cpu_parameter(device, command, 0) + *microbatch;
    *(int32_t *)cpu_view_of(device, command, 2).data = (int32_t)number;
    return REMAT_OK;
}

static remat_status prepare_own_ids(struct cpu_device *device, const struct remat_command *command,
                                    struct cpu_tile **tile)
{
    (void)tile;
    struct cpu_view ids = cpu_view_of(device, command, 0), rank = cpu_view_of(device, command, 1);
    struct cpu_view out = cpu_view_of(device, command, 2);
    bool good = cpu_view_is(&ids, REMAT_I32) && cpu_view_is(&rank, REMAT_I32) &&
                cpu_view_is(&out, REMAT_I32) && cpu_view_count(&rank) == 1 &&
                cpu_view_count(&ids) == cpu_view_count(&out);
    return cpu_expect(device, command, good, "the operands are no ids, a rank and as many ids");
}

static remat_status run_own_ids(struct cpu_device *device, const struct remat_command *command,
                                const struct cpu_tile *tile)
{
    (void)tile;
    struct cpu_view out = cpu_view_of(device, command, 2);
    const int32_t *ids = cpu_view_of(device, command, 0).data;
    int64_t count = (int64_t)cpu_parameter(device, command, 0);
    int64_t first = count * *(const int32_t *)cpu_view_of(device, command, 1).data;
    int32_t *own = out.data;
    for (int64_t i = 0; i < cpu_view_count(&out); i++)
        own[i] = ids[i] >= first && ids[i] - first < count ? (int32_t)(ids[i] - first) : 0;
    return REMAT_OK;
}

const struct cpu_builtin_kernel cpu_builtin_own_ids = {prepare_own_ids, run_own_ids, 0};

const struct cpu_builtin_kernel cpu_builtin_batch_slice = {prepare_batch_slice, run_batch_slice, 0};

const struct cpu_builtin_kernel cpu_builtin_advance = {prepare_advance, run_advance, 0};

const struct cpu_builtin_kernel cpu_builtin_part_number = {prepare_part_number, run_part_number, 0};
