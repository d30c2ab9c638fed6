/* SPDX-License-Identifier: Apache-2.0 */
#include "launch.h"

#include <stdlib.h>

static const struct {
    const char *by, *size, *rank, *local_size, *local;
} launchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"torchrun", "WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK"},
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_LOCALID"},
};

static uint32_t number(const char *variable, uint32_t otherwise)
{
    const char *text = getenv(variable);
    return text ? (uint32_t)strtoul(text, NULL, 10) : otherwise;
}

struct launch launch_find(void)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (getenv(launchers[i].size) && getenv(launchers[i].rank))
            return (struct launch){
                .by = launchers[i].by,
                .size = number(launchers[i].size, 1),
                .rank = number(launchers[i].rank, 0),
                .local_size = number(launchers[i].local_size, 1),
                .local = number(launchers[i].local, 0),
            };
    return (struct launch){.size = 1, .local_size = 1};
}

remat_status launch_rendezvous(remat_context *ctx, const struct launch *launch, const char **out)
{
    char place[300];
    const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
    *out = getenv("NCCL_COMM_ID");
    if (*out)
        return REMAT_OK;
    if (!host || !port)
        return cli_error(ctx, REMAT_ERROR_USAGE,
                         "%s does not say where NCCL's ranks meet: set NCCL_COMM_ID to HOST:PORT "
                         "of rank 0's machine, or MASTER_ADDR and MASTER_PORT",
                         launch->by);
    snprintf(place, sizeof place, "%.250s:%lu", host, strtoul(port, NULL, 10) + 1);
    if (setenv("NCCL_COMM_ID", place, 1))
        return cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    *out = getenv("NCCL_COMM_ID");
    return REMAT_OK;
}
