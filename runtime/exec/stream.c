/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>

#define STACK_BYTES (512u << 10) /* an engine's library runs on it */

struct remat_stream {
    remat_context *ctx;
    remat_stream_task *run;
    void *user;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t mutex;         /* of all that follows */
    pthread_cond_t started, ended; /* for the stream; for who waits */
    uint32_t capacity;
    uint64_t start_count, end_count, waited_count; /* tasks */
    bool running, leaves;
    remat_status failed;
    char message[REMAT_ENGINE_MESSAGE_BYTES]; /* why */
    uint32_t tasks[];                         /* a ring */
};

/* With the mutex held. */
static void run_next(struct remat_stream *stream)
{
    char message[REMAT_ENGINE_MESSAGE_BYTES] = "";
    uint32_t task = stream->tasks[stream->end_count % stream->capacity];
    stream->running = true;
    pthread_mutex_unlock(&stream->mutex);
    remat_status st = stream->run(stream->user, task, message);
    pthread_mutex_lock(&stream->mutex);
    stream->running = false;
    if (st) {
        stream->failed = st;
        snprintf(stream->message, sizeof stream->message, "%s", message);
    }
    stream->end_count++;
    pthread_cond_broadcast(&stream->ended);
}

static void *work(void *user)
{
    struct remat_stream *stream = user;
    pthread_mutex_lock(&stream->mutex);
    while (!stream->leaves)
        if (stream->end_count == stream->start_count || stream->failed)
            pthread_cond_wait(&stream->started, &stream->mutex);
        else
            run_next(stream);
    pthread_mutex_unlock(&stream->mutex);
    return NULL;
}

/* Signals are for the threads of the host. */
static bool start_thread(struct remat_stream *stream)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    if (pthread_attr_init(&attributes))
        return false;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    stream->has_thread = pthread_create(&stream->thread, &attributes, work, stream) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return stream->has_thread;
}

remat_status remat_stream_create(remat_context *ctx, remat_stream_task *run, void *user,
                                 uint32_t capacity, struct remat_stream **out)
{
    assert(run && capacity > 0);
    size_t bytes = sizeof(struct remat_stream) + capacity * sizeof(uint32_t);
    struct remat_stream *stream = *out = remat_reallocate(ctx, NULL, bytes);
    if (!stream)
        return REMAT_ERROR_MEMORY;
    memset(stream, 0, bytes);
    stream->ctx = ctx;
    stream->run = run;
    stream->user = user;
    stream->capacity = capacity;
    pthread_mutex_init(&stream->mutex, NULL); /* these three cannot fail without attributes */
    pthread_cond_init(&stream->started, NULL);
    pthread_cond_init(&stream->ended, NULL);
    if (start_thread(stream))
        return REMAT_OK;
    remat_stream_destroy(out);
    return remat_error(ctx, REMAT_ERROR_MEMORY,
                       "out of memory, or of threads: cannot start the thread of transfers");
}

void remat_stream_destroy(struct remat_stream **out)
{
    struct remat_stream *stream = *out;
    *out = NULL;
    if (!stream)
        return;
    pthread_mutex_lock(&stream->mutex);
    stream->leaves = true;
    pthread_cond_signal(&stream->started);
    pthread_mutex_unlock(&stream->mutex);
    if (stream->has_thread)
        pthread_join(stream->thread, NULL);
    pthread_cond_destroy(&stream->ended);
    pthread_cond_destroy(&stream->started);
    pthread_mutex_destroy(&stream->mutex);
    remat_reallocate(stream->ctx, stream, 0);
}

uint64_t remat_stream_start(struct remat_stream *stream, uint32_t task)
{
    pthread_mutex_lock(&stream->mutex);
    stream->tasks[stream->start_count++ % stream->capacity] = task;
    uint64_t count = stream->start_count;
    pthread_cond_signal(&stream->started);
    pthread_mutex_unlock(&stream->mutex);
    return count;
}

remat_status remat_stream_wait(struct remat_stream *stream, uint32_t count,
                               char message[REMAT_ENGINE_MESSAGE_BYTES])
{
    pthread_mutex_lock(&stream->mutex);
    stream->waited_count += count;
    while (stream->end_count < stream->waited_count && !stream->failed)
        pthread_cond_wait(&stream->ended, &stream->mutex);
    remat_status failed = stream->failed;
    if (failed)
        snprintf(message, REMAT_ENGINE_MESSAGE_BYTES, "%s", stream->message);
    pthread_mutex_unlock(&stream->mutex);
    return failed;
}

void remat_stream_drop(struct remat_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    stream->start_count = stream->end_count + stream->running;
    pthread_cond_broadcast(&stream->ended);
    pthread_mutex_unlock(&stream->mutex);
}

bool remat_stream_reach(struct remat_stream *stream, uint64_t count)
{
    pthread_mutex_lock(&stream->mutex);
    while (stream->end_count < count && count <= stream->start_count && !stream->failed)
        pthread_cond_wait(&stream->ended, &stream->mutex);
    bool reached = stream->end_count >= count && !stream->failed;
    pthread_mutex_unlock(&stream->mutex);
    return reached;
}

void remat_stream_clear(struct remat_stream *stream)
{
    remat_stream_drop(stream);
    pthread_mutex_lock(&stream->mutex);
    while (stream->running)
        pthread_cond_wait(&stream->ended, &stream->mutex);
    stream->waited_count = stream->end_count;
    stream->failed = REMAT_OK;
    pthread_mutex_unlock(&stream->mutex);
}
