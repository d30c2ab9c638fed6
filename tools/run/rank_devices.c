/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks_state.h"

#include "interrupt.h"

#include <inttypes.h>
#include <string.h>

#define LAST_WAIT_NS UINT64_C(500000000)

/* --- engines --- */

static bool find_kind(const char *name, remat_engine_kind *out)
{
    *out = (remat_engine_kind){.struct_size = sizeof *out};
    for (uint32_t k = 0; name && remat_engine_kind_at(k, out); k++)
        if (strcmp(out->name, name) == 0)
            return true;
    return false;
}

static bool connects(const remat_engine_kind *kind, const struct ranks *all)
{
    const char *by = kind->between_processes;
    return all->processes ? by && (!*by || strcmp(by, all->launch.by) == 0) : kind->between_threads;
}

/* The first that connects them. */
static bool find_default(const struct ranks *all, bool on_device, remat_engine_kind *out)
{
    *out = (remat_engine_kind){.struct_size = sizeof *out};
    for (uint32_t k = 0; remat_engine_kind_at(k, out); k++)
        if (connects(out, all) && !out->on_device == !on_device)
            return true;
    return false;
}

remat_status rank_devices_check(remat_context *ctx, const struct ranks_wish *wish)
{
    char names[200] = "";
    size_t length = 0;
    remat_engine_kind kind;
    if (!wish->engine || find_kind(wish->engine, &kind))
        return REMAT_OK;
    for (uint32_t k = 0; remat_engine_kind_at(k, &kind) && length < sizeof names; k++)
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", k ? "|" : "",
                                   kind.name);
    return cli_error(ctx, REMAT_ERROR_USAGE, "--engine '%s' is unknown (accepted: %s)",
                     wish->engine, names);
}

/* By SIGTERM mpirun tells a process that another one is gone, and a second later kills it. */
static int go_on(void *user, uint64_t waited_ns)
{
    (void)user;
    return !cli_terminated() || waited_ns < LAST_WAIT_NS;
}

static remat_status open_engines(struct ranks *all, const remat_engine_kind *kind,
                                 remat_engines **out)
{
    remat_status st = REMAT_OK;
    const remat_engines_params params = {
        .struct_size = sizeof params,
        .kind = kind->name,
        .ranks = all->count,
        .first = all->launch.rank,
        .here = all->here,
        .timeout_ns = all->wish.timeout_ns,
        .go_on = go_on,
        .ordinal = ranks_ordinal(all, 0),
        .libraries = all->wish.libraries,
        .meet = all->processes && all->first ? &all->host_engine : NULL,
    };
    RUN_TRY(remat_engines_open(all->ctx, &params, out));
    for (uint32_t r = 0; r < all->here; r++)
        remat_engines_get(*out, r, &all->ranks[r].engine);
fail:
    return st;
}

remat_status rank_devices_open(struct ranks *all)
{
    remat_engine_kind kind;
    return find_default(all, false, &kind) ? open_engines(all, &kind, &all->first) : REMAT_OK;
}

static remat_status choose_engine(struct ranks *all, const remat_engine_kind *kind)
{
    remat_status st = REMAT_OK;
    const char *place = NULL;
    if (all->processes && !all->first)
        RUN_TRY(launch_rendezvous(all->ctx, &all->launch, &place));
    RUN_TRY(open_engines(all, kind, &all->chosen));
    if (all->processes && !all->first)
        all->host_engine = all->ranks[0].engine;
    if (all->processes)
        snprintf(all->place, sizeof all->place, "processes that %s started, which met %s%.200s",
                 all->launch.by, place ? "at " : "by MPI", place ? place : "");
fail:
    return st;
}

/* --- devices --- */

/* A GPU for each rank on this machine; among processes of MPI, on all. Other launchers may show
 * each process its own, and ranks that they started have no other way than GPUs. */
static remat_status have_gpus(struct ranks *all, bool *out)
{
    remat_status st = REMAT_OK;
    uint32_t needed = !all->processes ? all->count : all->first ? all->launch.local_size : 1;
    uint64_t have = all->gpus >= needed;
    if (all->processes && all->first)
        RUN_TRY(ranks_collect(all, "devices", have));
    for (uint32_t r = 0; r < all->count && all->processes && all->first; r++)
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
    remat_engine_kind kind;
    bool of_gpus = find_kind(engine, &kind) && kind.on_device;
    all->device = all->wish.device ? all->wish.device : of_gpus ? "cuda" : "cpu";
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
    if (of_gpus && strcmp(all->device, "cuda") != 0)
        RUN_FAIL(all->ctx, REMAT_ERROR_USAGE, "--engine %s contradicts --device cpu", engine);
    if (engine && !connects(&kind, all))
        RUN_FAIL(all->ctx, REMAT_ERROR_USAGE, "--engine %s: the ranks are %s", engine, all->place);
fail:
    return st;
}

remat_status rank_devices_connect(struct ranks *all, const remat_plan_info *plan)
{
    const char *engine = all->wish.engine;
    bool on_gpus = strcmp(all->device, "cuda") == 0;
    bool is_free = !all->wish.device && !engine && !all->processes && !*plan->target_arch;
    remat_engine_kind kind;
    if (!(engine ? find_kind(engine, &kind) : find_default(all, on_gpus, &kind)))
        return cli_error(
            all->ctx, REMAT_ERROR_USAGE,
            "%s: no engine connects them, as they have no GPUs: start them with mpirun",
            all->place);
    if (all->first && strcmp(kind.name, all->ranks[0].engine.name) == 0)
        return REMAT_OK;
    remat_status st = choose_engine(all, &kind);
    if (st != REMAT_ERROR_IO || !is_free)
        return st;
    cli_log(all->ctx, REMAT_SEVERITY_INFO, "the GPUs are not used: %s",
            remat_context_message(all->ctx));
    all->device = "cpu";
    return REMAT_OK;
}
