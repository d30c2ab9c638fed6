/* SPDX-License-Identifier: Apache-2.0 */
#include "lane.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#define STACK_BYTES (512u << 10) /* an engine's library runs on it */

struct remat_lane {
    remat_context *ctx;
    remat_lane_task *run;
    void *user;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t mutex;         /* of all that follows */
    pthread_cond_t started, ended; /* for the lane; for who waits */
    uint32_t capacity;
    uint64_t start_count, end_count, waited_count; /* tasks */
    bool running, leaves;
    remat_status failed;
    char message[REMAT_ENGINE_MESSAGE_BYTES]; /* why */
    uint32_t tasks[];                         /* a ring */
};

/* With the mutex held. */
static void run_next(struct remat_lane *lane)
{
    char message[REMAT_ENGINE_MESSAGE_BYTES] = "";
    uint32_t task = lane->tasks[lane->end_count % lane->capacity];
    lane->running = true;
    pthread_mutex_unlock(&lane->mutex);
    remat_status st = lane->run(lane->user, task, message);
    pthread_mutex_lock(&lane->mutex);
    lane->running = false;
    if (st) {
        lane->failed = st;
        snprintf(lane->message, sizeof lane->message, "%s", message);
    }
    lane->end_count++;
    pthread_cond_signal(&lane->ended);
}

static void *work(void *user)
{
    struct remat_lane *lane = user;
    pthread_mutex_lock(&lane->mutex);
    while (!lane->leaves)
        if (lane->end_count == lane->start_count || lane->failed)
            pthread_cond_wait(&lane->started, &lane->mutex);
        else
            run_next(lane);
    pthread_mutex_unlock(&lane->mutex);
    return NULL;
}

/* Signals are for the threads of the host. */
static bool start_thread(struct remat_lane *lane)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    if (pthread_attr_init(&attributes))
        return false;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    lane->has_thread = pthread_create(&lane->thread, &attributes, work, lane) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return lane->has_thread;
}

remat_status remat_lane_create(remat_context *ctx, remat_lane_task *run, void *user,
                               uint32_t capacity, struct remat_lane **out)
{
    size_t bytes = sizeof(struct remat_lane) + capacity * sizeof(uint32_t);
    struct remat_lane *lane = *out = remat_reallocate(ctx, NULL, bytes);
    if (!lane)
        return REMAT_ERROR_MEMORY;
    memset(lane, 0, bytes);
    lane->ctx = ctx;
    lane->run = run;
    lane->user = user;
    lane->capacity = capacity;
    pthread_mutex_init(&lane->mutex, NULL); /* these three cannot fail without attributes */
    pthread_cond_init(&lane->started, NULL);
    pthread_cond_init(&lane->ended, NULL);
    if (start_thread(lane))
        return REMAT_OK;
    remat_lane_destroy(out);
    return remat_error(ctx, REMAT_ERROR_MEMORY,
                       "out of memory, or of threads: cannot start the thread of transfers");
}

void remat_lane_destroy(struct remat_lane **out)
{
    struct remat_lane *lane = *out;
    *out = NULL;
    if (!lane)
        return;
    pthread_mutex_lock(&lane->mutex);
    lane->leaves = true;
    pthread_cond_signal(&lane->started);
    pthread_mutex_unlock(&lane->mutex);
    if (lane->has_thread)
        pthread_join(lane->thread, NULL);
    pthread_cond_destroy(&lane->ended);
    pthread_cond_destroy(&lane->started);
    pthread_mutex_destroy(&lane->mutex);
    remat_reallocate(lane->ctx, lane, 0);
}

void remat_lane_start(struct remat_lane *lane, uint32_t task)
{
    pthread_mutex_lock(&lane->mutex);
    lane->tasks[lane->start_count++ % lane->capacity] = task;
    pthread_cond_signal(&lane->started);
    pthread_mutex_unlock(&lane->mutex);
}

remat_status remat_lane_wait(struct remat_lane *lane, uint32_t count,
                             char message[REMAT_ENGINE_MESSAGE_BYTES])
{
    pthread_mutex_lock(&lane->mutex);
    lane->waited_count += count;
    while (lane->end_count < lane->waited_count && !lane->failed)
        pthread_cond_wait(&lane->ended, &lane->mutex);
    remat_status failed = lane->failed;
    if (failed)
        snprintf(message, REMAT_ENGINE_MESSAGE_BYTES, "%s", lane->message);
    pthread_mutex_unlock(&lane->mutex);
    return failed;
}

void remat_lane_clear(struct remat_lane *lane)
{
    pthread_mutex_lock(&lane->mutex);
    lane->start_count = lane->end_count + lane->running;
    while (lane->running)
        pthread_cond_wait(&lane->ended, &lane->mutex);
    lane->waited_count = lane->end_count;
    lane->failed = REMAT_OK;
    pthread_mutex_unlock(&lane->mutex);
}
