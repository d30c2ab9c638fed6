/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers, which sessions leave to their engines. */
#include "cpu_builtin.h"

static remat_status prepare_transfer(struct cpu_device *device, const struct remat_command *command,
                                     struct cpu_tile **tile)
{
    (void)tile;
    struct cpu_view in = cpu_view_of(device, command, 0), out = cpu_view_of(device, command, 1);
    return cpu_expect(device, command, cpu_view_last_contiguous(&in) && cpu_view_dense(&out),
                      "in or out is not contiguous");
}

static remat_status run_transfer(struct cpu_device *device, const struct remat_command *command,
                                 const struct cpu_tile *tile)
{
    (void)tile;
    return remat_error(device->base.ctx, REMAT_ERROR_INTERNAL,
                       "command \"%s\": a transfer without an engine", command->name);
}

const struct cpu_builtin_kernel cpu_builtin_exchange = {prepare_transfer, run_transfer, 0};

const struct cpu_builtin_kernel cpu_builtin_gather = {prepare_transfer, run_transfer, 0};
