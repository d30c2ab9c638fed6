/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks_state.h"

#include "train.h"

#include <inttypes.h>
#include <signal.h>

remat_status rank_threads_open(struct ranks *all)
{
    remat_status st = REMAT_OK;
    for (; all->here < all->count; all->here++) {
        struct rank *rank = &all->ranks[all->here];
        rank->all = all;
        rank->ctx = all->here ? remat_context_create(NULL, NULL) : all->ctx;
        if (!rank->ctx)
            RUN_FAIL(all->ctx, REMAT_ERROR_MEMORY, "out of memory");
    }
    snprintf(all->place, sizeof all->place, "threads of this process");
    RUN_TRY(rank_devices_open(all));
fail:
    return st;
}

static void *follow(void *user)
{
    struct rank *rank = user;
    struct ranks *all = rank->all;
    rank->status = train_follow(rank->ctx, all->model, all->settings, rank->session,
                                ranks_peers(all, (uint32_t)(rank - all->ranks)), &rank->records,
                                &rank->steps, &rank->total_ns);
    if (rank->status)
        rank_fail(&rank->engine, rank->status, remat_context_message(rank->ctx));
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

remat_status rank_threads_start(struct ranks *ranks)
{
    for (uint32_t r = 1; r < ranks->here; r++)
        if (!start_thread(&ranks->ranks[r]))
            return cli_error(ranks->ctx, REMAT_ERROR_MEMORY,
                             "out of memory, or of threads: cannot start rank %" PRIu32, r);
    return REMAT_OK;
}

void rank_threads_end(struct ranks *ranks)
{
    pthread_mutex_lock(&ranks->mutex);
    ranks->over = true;
    pthread_cond_broadcast(&ranks->changed);
    pthread_mutex_unlock(&ranks->mutex);
    for (uint32_t r = 1; r < ranks->here; r++) {
        if (ranks->ranks[r].started)
            pthread_join(ranks->ranks[r].thread, NULL);
        ranks->ranks[r].started = false;
    }
}

/* A rank that was late for the others may have a failure of its own. */
remat_status rank_threads_failure(struct ranks *ranks, remat_status status)
{
    for (uint32_t r = 1; r < ranks->here; r++) {
        const struct rank *rank = &ranks->ranks[r];
        bool told = status == REMAT_OK || status == REMAT_ERROR_RANK_LOST;
        if (told && rank->status != REMAT_OK && rank->status != status)
            return cli_error(ranks->ctx, rank->status, "rank %" PRIu32 ": %s", r,
                             remat_context_message(rank->ctx));
    }
    return status;
}
