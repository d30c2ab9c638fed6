/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks.h"

#include "train.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct rank {
    struct ranks *all;
    remat_context *ctx;
    remat_session *session;
    remat_engine engine;
    pthread_t thread;
    bool started;
    remat_status status;
    uint64_t total_ns;
};

struct ranks {
    remat_context *ctx; /* rank 0's */
    remat_local_ranks *local;
    const struct train_model *model;
    const struct train_settings *settings;
    const struct text *text;
    pthread_mutex_t mutex; /* of the two below */
    pthread_cond_t changed;
    uint64_t step; /* that rank 0 began */
    bool over;
    uint32_t count;
    struct rank ranks[];
};

/* --- life --- */

remat_status ranks_open(remat_context *ctx, const remat_plan *plan, struct ranks **out)
{
    remat_status st = REMAT_OK;
    remat_plan_info info = {.struct_size = sizeof info};
    remat_plan_get_info(plan, &info);
    *out = NULL;
    if (info.rank_count == 1)
        return REMAT_OK;
    struct ranks *all = calloc(1, sizeof *all + info.rank_count * sizeof *all->ranks);
    if (!all)
        return cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    all->ctx = ctx;
    all->count = info.rank_count;
    pthread_mutex_init(&all->mutex, NULL);
    pthread_cond_init(&all->changed, NULL);
    RUN_TRY(remat_local_create(ctx, all->count, &all->local));
    for (uint32_t r = 0; r < all->count; r++) {
        struct rank *rank = &all->ranks[r];
        rank->all = all;
        rank->ctx = r ? remat_context_create(NULL, NULL) : ctx;
        if (!rank->ctx)
            RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "out of memory");
        remat_local_engine(all->local, r, &rank->engine);
    }
fail:
    *out = all;
    return st;
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
    for (uint32_t r = 1; r < ranks->count; r++) {
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
    end_steps(all);
    join(all);
    for (uint32_t r = 1; r < all->count; r++) {
        remat_session_destroy(&all->ranks[r].session);
        remat_context_destroy(&all->ranks[r].ctx);
    }
    remat_local_destroy(&all->local);
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->mutex);
    free(all);
    *ranks = NULL;
}

uint32_t ranks_count(const struct ranks *ranks)
{
    return ranks ? ranks->count : 1;
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

/* --- steps --- */

static void *follow(void *user)
{
    struct rank *rank = user;
    struct ranks *all = rank->all;
    rank->status = train_follow(rank->ctx, all->model, all->settings, all->text, rank->session,
                                &rank->total_ns);
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
    for (uint32_t r = 1; r < ranks->count; r++)
        if (!start_thread(&ranks->ranks[r]))
            return cli_error(ranks->ctx, REMAT_ERROR_MEMORY,
                             "out of memory, or of threads: cannot start rank %" PRIu32, r);
    return REMAT_OK;
}

void ranks_begin_step(struct ranks *ranks, uint64_t step)
{
    pthread_mutex_lock(&ranks->mutex);
    ranks->step = step;
    pthread_cond_broadcast(&ranks->changed);
    pthread_mutex_unlock(&ranks->mutex);
}

bool ranks_wait_for_step(struct ranks *ranks, uint64_t step)
{
    pthread_mutex_lock(&ranks->mutex);
    while (ranks->step < step && !ranks->over)
        pthread_cond_wait(&ranks->changed, &ranks->mutex);
    bool begun = ranks->step >= step;
    pthread_mutex_unlock(&ranks->mutex);
    return begun;
}

/* What a rank failed of by itself is not REMAT_ERROR_OTHER, as what it heard from others is. */
static remat_status first_failure(struct ranks *ranks, remat_status status)
{
    for (uint32_t r = 1; r < ranks->count; r++) {
        const struct rank *rank = &ranks->ranks[r];
        bool tells_more = rank->status != REMAT_OK && rank->status != REMAT_ERROR_OTHER;
        if (status == REMAT_OK ? rank->status != REMAT_OK
                               : status == REMAT_ERROR_OTHER && tells_more)
            return cli_error(ranks->ctx, rank->status, "rank %" PRIu32 ": %s", r,
                             remat_context_message(rank->ctx));
    }
    return status;
}

remat_status ranks_finish(struct ranks *ranks, remat_status status, uint64_t *total_ns)
{
    struct rank *first = &ranks->ranks[0];
    *total_ns = 0;
    if (status)
        first->engine.fail(first->engine.user, remat_context_message(ranks->ctx));
    end_steps(ranks);
    join(ranks);
    for (uint32_t r = 1; r < ranks->count; r++)
        *total_ns = ranks->ranks[r].total_ns > *total_ns ? ranks->ranks[r].total_ns : *total_ns;
    return first_failure(ranks, status);
}
