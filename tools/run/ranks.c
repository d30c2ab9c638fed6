/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks_state.h"

#include "exit_watch.h"
#include "interrupt.h"
#include "machine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- among processes --- */

remat_status ranks_gather(struct ranks *ranks, const char *what, const void *mine, size_t bytes,
                          void *all)
{
    const struct peers meet = {&ranks->host_engine, ranks->wish.timeout_ns};
    return peers_gather(ranks->ctx, &meet, what, ranks->collected++, bytes, mine, all);
}

/* --- life --- */

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
    return launch.by ? rank_processes_open(all) : rank_threads_open(all);
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

uint32_t ranks_count(const struct ranks *ranks)
{
    return ranks->count;
}

uint32_t ranks_here(const struct ranks *ranks)
{
    return ranks ? ranks->here : 1;
}

uint32_t ranks_first(const struct ranks *ranks)
{
    return ranks ? ranks->launch.rank : 0;
}

uint32_t ranks_on_machine(const struct ranks *ranks)
{
    return ranks_here(ranks) * (ranks ? ranks->launch.local_size : 1);
}

const char *ranks_engine_name(const struct ranks *ranks)
{
    return ranks ? ranks->ranks[0].engine.name : NULL;
}

/* Without binding each process on a machine has all of its cores. */
uint32_t ranks_cores(const struct ranks *ranks)
{
    uint32_t cores = machine_cores();
    uint32_t share = ranks->processes && cores == sysconf(_SC_NPROCESSORS_ONLN)
                         ? ranks->launch.local_size
                         : ranks->here;
    return cores > share && share ? cores / share : 1;
}

const char *ranks_place(const struct ranks *ranks)
{
    return ranks->place;
}

uint64_t ranks_engine_bytes(const struct ranks *ranks)
{
    uint64_t most = 0;
    for (uint32_t r = 0; ranks->chosen && r < ranks->here; r++) {
        uint64_t bytes = remat_engines_device_bytes(ranks->chosen, r);
        most = bytes > most ? bytes : most;
    }
    return most;
}

const char *ranks_device(const struct ranks *ranks)
{
    return ranks->device;
}

uint32_t ranks_ordinal(const struct ranks *ranks, uint32_t rank)
{
    return ranks->gpus ? (ranks->launch.local + rank) % ranks->gpus : 0;
}

uint32_t ranks_together(const struct ranks *ranks)
{
    uint32_t devices = ranks && ranks->gpus ? ranks->gpus : 1;
    return (ranks_here(ranks) + devices - 1) / devices;
}

const remat_engine *ranks_engine(const struct ranks *ranks, uint32_t rank)
{
    assert(!ranks || rank < ranks->here);
    return ranks ? &ranks->ranks[rank].engine : NULL;
}

struct peers ranks_peers(const struct ranks *ranks, uint32_t rank)
{
    return (struct peers){ranks_engine(ranks, rank), ranks ? ranks->wish.timeout_ns : 0};
}

remat_context *ranks_context(const struct ranks *ranks, uint32_t rank)
{
    assert(rank < ranks->here);
    return ranks->ranks[rank].ctx;
}

remat_session **ranks_session(struct ranks *ranks, uint32_t rank)
{
    return &ranks->ranks[rank].session;
}

struct records *ranks_records(struct ranks *ranks, uint32_t rank)
{
    return &ranks->ranks[rank].records;
}

uint64_t ranks_begin_ns(const struct ranks *ranks)
{
    return ranks->begin_ns;
}

/* --- steps --- */

remat_status ranks_start(struct ranks *ranks, const struct model *model,
                         const struct train_settings *settings)
{
    ranks->model = model;
    ranks->settings = settings;
    remat_status st = rank_threads_start(ranks);
    return st ? ranks_finish(ranks, st) : REMAT_OK; /* those that run read what the caller frees */
}

remat_status ranks_order(struct ranks *ranks, enum ranks_order order)
{
    if (ranks->processes)
        return rank_processes_order(ranks, order);
    rank_threads_order(ranks, order);
    return REMAT_OK;
}

remat_status ranks_wait_for_order(struct ranks *ranks, uint64_t turn, enum ranks_order *order)
{
    if (ranks->processes)
        return rank_processes_wait_for_order(ranks, order);
    *order = rank_threads_wait_for_order(ranks, turn);
    return REMAT_OK;
}

bool ranks_interrupted(const struct ranks *ranks)
{
    return cli_interrupted() || (ranks && ranks->interrupted);
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
        RUN_TRY(rank_processes_collect(ranks, "measurements", *numbers[i]));
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
        RUN_TRY(rank_processes_collect(ranks, "end", 0));
    if (ranks->chosen)
        RUN_TRY(remat_engines_finish(ranks->chosen));
    if (ranks->first)
        RUN_TRY(remat_engines_finish(ranks->first));
    ranks->over = ranks->finished = true;
fail:
    return st;
}
