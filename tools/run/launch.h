/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher that started this process beside others, by what it leaves in the environment. */
#ifndef REMAT_TOOLS_RUN_LAUNCH_H
#define REMAT_TOOLS_RUN_LAUNCH_H

#include "run.h"

#include <stdbool.h>
#include <stdint.h>

struct launch {
    const char *by;             /* "mpirun", "torchrun", "srun"; NULL: none of them */
    uint32_t size, rank;        /* of all its processes; 1, 0 without */
    uint32_t local_size, local; /* of those on this machine */
};

struct launch launch_find(void);
/* Where NCCL of all processes is to meet, as it takes it from NCCL_COMM_ID: that, else the port
 * after the launcher's own (MASTER_ADDR, MASTER_PORT). REMAT_ERROR_USAGE: neither is set. */
remat_status launch_rendezvous(remat_context *ctx, const struct launch *launch, const char **out);

#endif
