/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_devices.h"

#include "rank_processes.h"

#include <inttypes.h>
#include <string.h>

static remat_status open_nccl(struct ranks *all)
{
    remat_status st = REMAT_OK;
    const char *place = NULL;
    if (all->processes && !all->mpi)
        RUN_TRY(launch_meet(all->ctx, &all->launch, &place));
    const remat_nccl_params params = {
        .struct_size = sizeof params,
        .ranks = all->count,
        .first = all->launch.rank,
        .here = all->here,
        .ordinal = ranks_ordinal(all, 0),
        .libraries = all->wish.libraries,
        .meet = all->mpi ? &all->meet : NULL,
        .timeout_ns = all->wish.timeout_ns,
    };
    RUN_TRY(remat_nccl_create(all->ctx, &params, &all->nccl));
    for (uint32_t r = 0; r < all->here; r++)
        remat_nccl_engine(all->nccl, r, &all->ranks[r].engine);
    if (!all->mpi)
        all->meet = all->ranks[0].engine;
    if (all->processes)
        snprintf(all->place, sizeof all->place, "processes that %s started, which met %s%.200s",
                 all->launch.by, place ? "at " : "by MPI", place ? place : "");
fail:
    return st;
}

/* A GPU for each rank on this machine; among processes of MPI, on all. Other launchers may show
 * each process its own, and ranks that they started have no other way than NCCL. */
static remat_status have_gpus(struct ranks *all, bool *out)
{
    remat_status st = REMAT_OK;
    uint32_t needed = !all->processes ? all->count : all->mpi ? all->launch.local_size : 1;
    uint64_t have = all->gpus >= needed;
    if (all->mpi)
        RUN_TRY(rank_processes_collect(all, "devices", have));
    for (uint32_t r = 0; r < all->count && all->mpi; r++)
        have &= all->numbers[r];
    *out = have;
fail:
    return st;
}

/* Where nobody says which: GPUs where there are enough of them, but a plan with a budget for a CPU
 * runs there, and no plan for a GPU does. */
remat_status rank_devices_choose(struct ranks *all, const remat_plan_info *plan)
{
    remat_status st = REMAT_OK;
    bool for_gpu = *plan->target_arch, bound = plan->budget_bytes && !for_gpu, have = false;
    const char *engine = all->wish.engine;
    bool is_nccl = engine && strcmp(engine, "nccl") == 0;
    all->device = all->wish.device ? all->wish.device : is_nccl ? "cuda" : "cpu";
    all->gpus = strcmp(all->device, "cuda") == 0 || (!all->wish.device && !engine && !bound)
                    ? remat_gpu_count(all->ctx, all->wish.libraries)
                    : 0;
    if (!all->wish.device && !engine && !bound)
        RUN_TRY(have_gpus(all, &have));
    if (have)
        all->device = "cuda";
    if (for_gpu && !all->wish.device && strcmp(all->device, "cuda") != 0)
        RUN_FAIL(all->ctx, engine ? REMAT_ERROR_USAGE : REMAT_ERROR_IO,
                 "the plan is for %s, and %s: run it with --device cpu", plan->target,
                 engine ? "--engine does not say where it runs"
                        : "there is no GPU for each of its ranks");
    if (is_nccl && strcmp(all->device, "cuda") != 0)
        RUN_FAIL(all->ctx, REMAT_ERROR_USAGE, "--engine nccl contradicts --device cpu");
    if (engine && !is_nccl &&
        (all->processes ? !all->mpi || strcmp(engine, "mpi") != 0 : strcmp(engine, "local") != 0))
        RUN_FAIL(all->ctx, REMAT_ERROR_USAGE, "--engine %s: the ranks are %s", engine, all->place);
fail:
    return st;
}

remat_status rank_devices_connect(struct ranks *all, const remat_plan_info *plan)
{
    const char *engine = all->wish.engine;
    bool on_gpus = strcmp(all->device, "cuda") == 0;
    bool is_free = !all->wish.device && !engine && !all->processes && !*plan->target_arch;
    if (engine ? strcmp(engine, "nccl") != 0 : !on_gpus) {
        if (all->processes && !all->mpi)
            return cli_error(all->ctx, REMAT_ERROR_USAGE,
                             "%s: only NCCL connects them, and they have no GPUs: start them with "
                             "mpirun",
                             all->place);
        return REMAT_OK;
    }
    remat_status st = open_nccl(all);
    if (st != REMAT_ERROR_IO || !is_free)
        return st;
    cli_log(all->ctx, REMAT_SEVERITY_INFO, "the GPUs are not used: %s",
            remat_context_message(all->ctx));
    all->device = "cpu";
    return REMAT_OK;
}
