/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks from their beginning to their end. */
#include "ranks_state.h"

#include "exit_watch.h"
#include "interrupt.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static remat_status open_processes(struct ranks *all)
{
    remat_status st = REMAT_OK;
    if (all->launch.size != all->count)
        RUN_FAIL(all->ctx, REMAT_ERROR_USAGE,
                 "the plan is for %" PRIu32 " ranks, %s started %" PRIu32 " processes", all->count,
                 all->launch.by, all->launch.size);
    all->processes = true;
    all->here = 1;
    cli_catch_interrupts();
    snprintf(all->place, sizeof all->place, "processes that %s started", all->launch.by);
    st = rank_devices_open(all);
    if (st)
        RUN_FAIL(all->ctx, st, "rank %" PRIu32 ": %s", all->launch.rank,
                 remat_context_message(all->ctx));
    all->host_engine = all->ranks[0].engine;
fail:
    return st;
}

remat_status ranks_open(remat_context *ctx, const remat_plan *plan, const struct ranks_wish *wish,
                        struct ranks **out)
{
    remat_status st = REMAT_OK;
    remat_plan_info info = {.struct_size = sizeof info};
    struct launch launch = launch_find();
    remat_plan_get_info(plan, &info);
    *out = NULL;
    RUN_TRY(rank_devices_check(ctx, wish));
    if (info.rank_count == 1 && launch.size == 1)
        return REMAT_OK;
    struct ranks *all = calloc(1, sizeof *all + info.rank_count * sizeof *all->ranks);
    if (!all)
        return cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    *out = all;
    all->ctx = ctx;
    all->count = info.rank_count;
    all->wish = *wish;
    all->launch = launch;
    pthread_mutex_init(&all->mutex, NULL);
    pthread_cond_init(&all->changed, NULL);
    all->numbers = calloc(all->count, sizeof *all->numbers);
    if (!all->numbers)
        return cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    return launch.by ? open_processes(all) : rank_threads_open(all);
fail:
    return st;
}

bool ranks_have_met(const struct ranks *ranks)
{
    return ranks && ranks->host_engine.gather;
}

remat_status ranks_connect(struct ranks *ranks, const remat_plan *plan)
{
    remat_status st = REMAT_OK;
    remat_plan_info info = {.struct_size = sizeof info};
    if (!ranks)
        return REMAT_OK;
    remat_plan_get_info(plan, &info);
    RUN_TRY(rank_devices_choose(ranks, &info));
    RUN_TRY(rank_devices_connect(ranks, &info));
    if (strcmp(ranks->device, "cuda") != 0)
        ranks->gpus = 0;
fail:
    return st;
}

void ranks_leave(struct ranks *ranks, remat_status status)
{
    if (!ranks || ranks->finished)
        return;
    rank_fail(&ranks->ranks[0].engine, status, remat_context_message(ranks->ctx));
    rank_fail(&ranks->host_engine, status, remat_context_message(ranks->ctx));
}

void ranks_watch_exit(const struct ranks *ranks, remat_status status)
{
    if (ranks && (ranks->processes || ranks->chosen))
        exit_watch(ranks_first(ranks), ranks->wish.timeout_ns,
                   status ? (int)status : REMAT_ERROR_RANK_LOST);
}

void ranks_close(struct ranks **ranks)
{
    struct ranks *all = *ranks;
    if (!all)
        return;
    rank_threads_end(all);
    for (uint32_t r = 0; r < all->here; r++)
        records_release(&all->ranks[r].records);
    for (uint32_t r = 1; r < all->here; r++) {
        remat_session_destroy(&all->ranks[r].session);
        remat_context_destroy(&all->ranks[r].ctx);
    }
    for (uint32_t r = 1; r < all->here && !all->finished; r++)
        rank_fail(&all->ranks[r].engine, REMAT_ERROR_RANK_LOST, "its process ends");
    remat_engines_close(&all->chosen);
    remat_engines_close(&all->first);
    free(all->numbers);
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->mutex);
    free(all);
    *ranks = NULL;
}

remat_status ranks_start(struct ranks *ranks, const struct model *model,
                         const struct train_settings *settings)
{
    ranks->model = model;
    ranks->settings = settings;
    remat_status st = rank_threads_start(ranks);
    return st ? ranks_finish(ranks, st) : REMAT_OK; /* those that run read what the caller frees */
}

remat_status ranks_finish(struct ranks *ranks, remat_status status)
{
    struct rank *first = &ranks->ranks[0];
    if (status)
        rank_fail(&first->engine, status, remat_context_message(ranks->ctx));
    if (ranks->processes)
        return status;
    rank_threads_end(ranks);
    return rank_threads_failure(ranks, status);
}

static uint64_t most(const uint64_t *numbers, uint32_t count)
{
    uint64_t out = 0;
    for (uint32_t r = 0; r < count; r++)
        out = numbers[r] > out ? numbers[r] : out;
    return out;
}

remat_status ranks_measure(struct ranks *ranks, struct measured *measured)
{
    remat_status st = REMAT_OK;
    uint64_t *const numbers[] = {&measured->resident_bytes, &measured->address_bytes,
                                 &measured->device_bytes, &measured->engine_bytes,
                                 &measured->step_ns};
    ranks->numbers[0] = measured->step_ns;
    for (uint32_t r = 1; r < ranks->here && measured->steps; r++) {
        uint64_t device_bytes = remat_session_device_bytes(ranks->ranks[r].session);
        ranks->numbers[r] = ranks->ranks[r].total_ns / measured->steps;
        if (device_bytes > measured->device_bytes)
            measured->device_bytes = device_bytes;
    }
    if (!ranks->processes)
        measured->step_ns = most(ranks->numbers, ranks->count);
    for (size_t i = 0; ranks->processes && i < sizeof numbers / sizeof *numbers; i++) {
        RUN_TRY(ranks_collect(ranks, "measurements", *numbers[i]));
        *numbers[i] = most(ranks->numbers, ranks->count);
    }
    measured->rank_step_ns = ranks->numbers;
fail:
    return st;
}

remat_status ranks_end(struct ranks *ranks)
{
    remat_status st = REMAT_OK;
    if (ranks->processes)
        RUN_TRY(ranks_collect(ranks, "end", 0));
    if (ranks->chosen)
        RUN_TRY(remat_engines_finish(ranks->chosen));
    if (ranks->first)
        RUN_TRY(remat_engines_finish(ranks->first));
    ranks->over = ranks->finished = true;
fail:
    return st;
}
