/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers, which sessions leave to their engines. */
#include "cpu_builtin.h"

static remat_status prepare_transfer(struct cpu_device *device, const struct remat_command *command,
                                     struct cpu_tile **tile)
{
    (void)device, (void)command, (void)tile;
    return REMAT_OK;
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
