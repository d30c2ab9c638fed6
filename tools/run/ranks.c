/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks.h"

#include "progress.h"
#include "train.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rank {
    struct ranks *all;
    remat_context *ctx;
    remat_session *session;
    remat_engine engine;
    pthread_t thread;
    bool started;
    remat_status status;
    uint64_t steps, total_ns;
    struct records records; /* of another than rank 0 */
};

struct ranks {
    remat_context *ctx; /* of the first rank of this process */
    remat_local_ranks *local;
    remat_mpi *mpi;     /* in the place of `local`: one rank in this process */
    uint64_t *numbers;  /* of all ranks, see collect */
    uint64_t collected; /* how often */
    uint64_t begin_ns;  /* of the first step */
    const struct train_model *model;
    const struct train_settings *settings;
    const struct text *text;
    pthread_mutex_t mutex; /* of the two below */
    pthread_cond_t changed;
    uint64_t step; /* that rank 0 began */
    bool over;
    uint32_t count, here; /* ranks in all, in this process */
    struct rank ranks[];
};

/* --- life --- */

static remat_status open_threads(struct ranks *all)
{
    remat_status st = REMAT_OK;
    RUN_TRY(remat_local_create(all->ctx, all->count, &all->local));
    for (; all->here < all->count; all->here++) {
        struct rank *rank = &all->ranks[all->here];
        rank->all = all;
        rank->ctx = all->here ? remat_context_create(NULL, NULL) : all->ctx;
        if (!rank->ctx)
            RUN_FAIL(all->ctx, REMAT_ERROR_MEMORY, "out of memory");
        remat_local_engine(all->local, all->here, &rank->engine);
    }
fail:
    return st;
}

static remat_status open_process(struct ranks *all, const char *started)
{
    remat_status st = REMAT_OK;
    if (strtoull(started, NULL, 10) != all->count)
        RUN_FAIL(all->ctx, REMAT_ERROR_USAGE,
                 "the plan is for %" PRIu32 " ranks, mpirun started %.20s processes", all->count,
                 started);
    RUN_TRY(remat_mpi_create(all->ctx, &all->mpi));
    remat_mpi_engine(all->mpi, &all->ranks[0].engine);
    all->here = 1;
fail:
    return st;
}

remat_status ranks_open(remat_context *ctx, const remat_plan *plan, struct ranks **out)
{
    remat_plan_info info = {.struct_size = sizeof info};
    const char *started = getenv("OMPI_COMM_WORLD_SIZE");
    remat_plan_get_info(plan, &info);
    *out = NULL;
    if (info.rank_count == 1 && (!started || strcmp(started, "1") == 0))
        return REMAT_OK;
    struct ranks *all = calloc(1, sizeof *all + info.rank_count * sizeof *all->ranks);
    if (!all)
        return cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    *out = all;
    all->ctx = ctx;
    all->count = info.rank_count;
    pthread_mutex_init(&all->mutex, NULL);
    pthread_cond_init(&all->changed, NULL);
    all->numbers = calloc(all->count, sizeof *all->numbers);
    if (!all->numbers)
        return cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    return started ? open_process(all, started) : open_threads(all);
}

static void end_steps(struct ranks *ranks)
{
    pthread_mutex_lock(&ranks->mutex);
    ranks->over = true;
    pthread_cond_broadcast(&ranks->changed);
    pthread_mutex_unlock(&ranks->mutex);
}

static void join(struct ranks *ranks)
{
    for (uint32_t r = 1; r < ranks->here; r++) {
        if (ranks->ranks[r].started)
            pthread_join(ranks->ranks[r].thread, NULL);
        ranks->ranks[r].started = false;
    }
}

void ranks_close(struct ranks **ranks)
{
    struct ranks *all = *ranks;
    if (!all)
        return;
    if (all->local)
        end_steps(all);
    join(all);
    for (uint32_t r = 0; r < all->here; r++)
        records_release(&all->ranks[r].records);
    for (uint32_t r = 1; r < all->here; r++) {
        remat_session_destroy(&all->ranks[r].session);
        remat_context_destroy(&all->ranks[r].ctx);
    }
    remat_local_destroy(&all->local);
    if (all->mpi && !all->over)
        all->ranks[0].engine.fail(all->mpi, "its process ends");
    remat_mpi_destroy(&all->mpi);
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
    return ranks ? ranks->ranks[0].engine.rank : 0;
}

const char *ranks_engine_name(const struct ranks *ranks)
{
    return ranks ? ranks->ranks[0].engine.name : NULL;
}

/* Without binding each process on a machine has all of its cores. */
uint32_t ranks_cores(const struct ranks *ranks)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    const char *started = ranks->mpi ? getenv("OMPI_COMM_WORLD_LOCAL_SIZE") : NULL;
    uint32_t cores = sched_getaffinity(0, sizeof set, &set) ? 1 : (uint32_t)CPU_COUNT(&set);
    uint32_t share = started && cores == sysconf(_SC_NPROCESSORS_ONLN)
                         ? (uint32_t)strtoul(started, NULL, 10)
                         : ranks->here;
    return cores > share ? cores / share : 1;
}

uint32_t ranks_ordinal(const struct ranks *ranks, uint32_t rank, uint32_t gpus)
{
    const char *mine = ranks && ranks->mpi ? getenv("OMPI_COMM_WORLD_LOCAL_RANK") : NULL;
    return gpus ? (rank + (mine ? (uint32_t)strtoul(mine, NULL, 10) : 0)) % gpus : 0;
}

const remat_engine *ranks_engine(const struct ranks *ranks, uint32_t rank)
{
    return ranks ? &ranks->ranks[rank].engine : NULL;
}

remat_context *ranks_context(const struct ranks *ranks, uint32_t rank)
{
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

static void *follow(void *user)
{
    struct rank *rank = user;
    struct ranks *all = rank->all;
    rank->status = train_follow(rank->ctx, all->model, all->settings, all->text, rank->session,
                                &rank->engine, &rank->records, &rank->steps, &rank->total_ns);
    if (rank->status)
        rank->engine.fail(rank->engine.user, remat_context_message(rank->ctx));
    return NULL;
}

/* Signals are rank 0's, whose calls they interrupt. */
static bool start_thread(struct rank *rank)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rank->started = pthread_create(&rank->thread, NULL, follow, rank) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rank->started;
}

remat_status ranks_start(struct ranks *ranks, const struct train_model *model,
                         const struct train_settings *settings, const struct text *text)
{
    ranks->model = model;
    ranks->settings = settings;
    ranks->text = text;
    for (uint32_t r = 1; r < ranks->here; r++)
        if (!start_thread(&ranks->ranks[r]))
            return cli_error(ranks->ctx, REMAT_ERROR_MEMORY,
                             "out of memory, or of threads: cannot start rank %" PRIu32, r);
    return REMAT_OK;
}

remat_status ranks_gather(struct ranks *ranks, const char *what, const void *mine, size_t bytes,
                          void *all)
{
    char message[REMAT_ENGINE_MESSAGE_BYTES] = "";
    const remat_engine *engine = &ranks->ranks[0].engine;
    const remat_transfer transfer = {.struct_size = sizeof transfer,
                                     .name = what,
                                     .sequence = ranks->collected++,
                                     .size = ranks->count,
                                     .position = engine->rank,
                                     .part_bytes = bytes,
                                     .whole_bytes = ranks->count * bytes,
                                     .from = mine,
                                     .to = all,
                                     .timeout_ns = UINT64_C(600000000000)};
    remat_status st = engine->gather(engine->user, &transfer, message);
    return st ? cli_error(ranks->ctx, st, "%s", message) : REMAT_OK;
}

/* Of each rank a number, in ranks->numbers. Among processes only. */
static remat_status collect(struct ranks *ranks, const char *what, uint64_t number)
{
    return ranks_gather(ranks, what, &number, sizeof number, ranks->numbers);
}

remat_status ranks_begin_step(struct ranks *ranks, uint64_t step)
{
    if (ranks->mpi) {
        remat_status st = collect(ranks, "step", step);
        ranks->begin_ns = step == 1 ? clock_ns() : ranks->begin_ns;
        return st;
    }
    pthread_mutex_lock(&ranks->mutex);
    ranks->step = step;
    ranks->begin_ns = step == 1 ? clock_ns() : ranks->begin_ns;
    pthread_cond_broadcast(&ranks->changed);
    pthread_mutex_unlock(&ranks->mutex);
    return REMAT_OK;
}

remat_status ranks_wait_for_step(struct ranks *ranks, uint64_t step, bool *begun)
{
    if (ranks->mpi) {
        remat_status st = collect(ranks, "step", 0);
        ranks->begin_ns = step == 1 ? clock_ns() : ranks->begin_ns;
        *begun = ranks->numbers[0] >= step;
        return st;
    }
    pthread_mutex_lock(&ranks->mutex);
    while (ranks->step < step && !ranks->over)
        pthread_cond_wait(&ranks->changed, &ranks->mutex);
    *begun = ranks->step >= step;
    pthread_mutex_unlock(&ranks->mutex);
    return REMAT_OK;
}

/* What a rank failed of by itself is not REMAT_ERROR_OTHER, as what it heard from others is. */
static remat_status first_failure(struct ranks *ranks, remat_status status)
{
    for (uint32_t r = 1; r < ranks->here; r++) {
        const struct rank *rank = &ranks->ranks[r];
        bool tells_more = rank->status != REMAT_OK && rank->status != REMAT_ERROR_OTHER;
        if (status == REMAT_OK ? rank->status != REMAT_OK
                               : status == REMAT_ERROR_OTHER && tells_more)
            return cli_error(ranks->ctx, rank->status, "rank %" PRIu32 ": %s", r,
                             remat_context_message(rank->ctx));
    }
    return status;
}

remat_status ranks_finish(struct ranks *ranks, remat_status status)
{
    struct rank *first = &ranks->ranks[0];
    if (status)
        first->engine.fail(first->engine.user, remat_context_message(ranks->ctx));
    if (ranks->mpi)
        return status ? status : collect(ranks, "step", 0);
    end_steps(ranks);
    join(ranks);
    return first_failure(ranks, status);
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
                                 &measured->device_bytes, &measured->step_ns};
    ranks->numbers[0] = measured->step_ns;
    for (uint32_t r = 1; r < ranks->here && measured->steps; r++) {
        uint64_t device_bytes = remat_session_device_bytes(ranks->ranks[r].session);
        ranks->numbers[r] = ranks->ranks[r].total_ns / measured->steps;
        if (device_bytes > measured->device_bytes)
            measured->device_bytes = device_bytes;
    }
    if (!ranks->mpi)
        measured->step_ns = most(ranks->numbers, ranks->count);
    for (size_t i = 0; ranks->mpi && i < sizeof numbers / sizeof *numbers; i++) {
        RUN_TRY(collect(ranks, "measurements", *numbers[i]));
        *numbers[i] = most(ranks->numbers, ranks->count);
    }
    measured->rank_step_ns = ranks->numbers;
    ranks->over = true;
fail:
    return st;
}
