/* SPDX-License-Identifier: Apache-2.0 */
/* Equal pieces of a batch and their numbers. */
#include "cpu_builtin.h"

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

static remat_status run_advance(struct cpu_device *device, const struct remat_command *command,
                                const struct cpu_tile *tile)
{
    (void)tile;
    int32_t *index = cpu_view_of(device, command, 0).data;
    int32_t last = (int32_t)cpu_parameter(device, command, 0) - 1;
    *index = *index >= 0 && *index < last ? *index + 1 : 0;
    return REMAT_OK;
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

const struct cpu_builtin_kernel cpu_builtin_own_ids = {NULL, run_own_ids, 0};

const struct cpu_builtin_kernel cpu_builtin_batch_slice = {NULL, run_batch_slice, 0};

const struct cpu_builtin_kernel cpu_builtin_advance = {NULL, run_advance, 0};

const struct cpu_builtin_kernel cpu_builtin_part_number = {NULL, run_part_number, 0};
