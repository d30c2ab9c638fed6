/* SPDX-License-Identifier: Apache-2.0 */
/* The table of rotary positions (cpu_rope.c). */
#include "cpu_builtin.h"

#include "cpu_rope.h"

static remat_status prepare_rope_table(struct cpu_device *device,
                                       const struct remat_command *command, struct cpu_tile **tile)
{
    (void)tile;
    struct cpu_view out = cpu_view_of(device, command, 0);
    return cpu_expect(device, command, cpu_view_is(&out, REMAT_F32) && out.rank == 4,
                      "the result is not f32 of rank 4");
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

const struct cpu_builtin_kernel cpu_builtin_rope_table = {prepare_rope_table, run_rope_table, 0};
