/* SPDX-License-Identifier: Apache-2.0 */
/* The stream: order, failure, what is dropped, and what destroying it waits for. */
#include "check.h"

#include <stream.h>

#include <pthread.h>
#include <stdio.h>

enum { CAPACITY = 8, GATE = 100, FAILS = 200 };

/* Task GATE waits until the gate is open, FAILS fails. */
struct log {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool open, at_gate;
    uint32_t count, tasks[1000];
};

static remat_context *ctx;

static remat_status run(void *user, uint32_t task, char message[REMAT_ENGINE_MESSAGE_BYTES])
{
    struct log *log = user;
    pthread_mutex_lock(&log->mutex);
    log->tasks[log->count++] = task;
    log->at_gate = task == GATE;
    pthread_cond_broadcast(&log->changed);
    while (task == GATE && !log->open)
        pthread_cond_wait(&log->changed, &log->mutex);
    log->at_gate = false;
    pthread_mutex_unlock(&log->mutex);
    if (task == FAILS)
        snprintf(message, REMAT_ENGINE_MESSAGE_BYTES, "it failed");
    return task == FAILS ? REMAT_ERROR_RANK_LOST : REMAT_OK;
}

static void wait_at_gate(struct log *log)
{
    pthread_mutex_lock(&log->mutex);
    while (!log->at_gate)
        pthread_cond_wait(&log->changed, &log->mutex);
    pthread_mutex_unlock(&log->mutex);
}

static void *open_gate(void *user)
{
    struct log *log = user;
    pthread_mutex_lock(&log->mutex);
    log->open = true;
    pthread_cond_broadcast(&log->changed);
    pthread_mutex_unlock(&log->mutex);
    return NULL;
}

static void make(struct log *log, struct remat_stream **stream)
{
    *log = (struct log){.count = 0};
    pthread_mutex_init(&log->mutex, NULL);
    pthread_cond_init(&log->changed, NULL);
    MUST_OK(ctx, remat_stream_create(ctx, run, log, CAPACITY, stream));
}

static void release(struct log *log, struct remat_stream **stream)
{
    remat_stream_destroy(stream);
    CHECK(!*stream, "destroyed");
    pthread_cond_destroy(&log->changed);
    pthread_mutex_destroy(&log->mutex);
}

static void test_order(void)
{
    char message[REMAT_ENGINE_MESSAGE_BYTES] = "";
    struct remat_stream *stream;
    struct log log;
    make(&log, &stream);
    for (uint32_t i = 0; i < 90; i++) { /* between one and CAPACITY are not waited for */
        remat_stream_start(stream, i);
        if (i >= CAPACITY - 1)
            CHECK(remat_stream_wait(stream, 1, message) == REMAT_OK, "%s", message);
    }
    CHECK(remat_stream_wait(stream, CAPACITY - 1, message) == REMAT_OK, "%s", message);
    CHECK(log.count == 90, "%u tasks", log.count);
    for (uint32_t i = 0; i < log.count; i++)
        CHECK(log.tasks[i] == i, "task %u is number %u", log.tasks[i], i);
    release(&log, &stream);
}

/* What was started is not waited for; what waits goes on as soon as its own are done. */
static void test_beside(void)
{
    char message[REMAT_ENGINE_MESSAGE_BYTES] = "";
    struct remat_stream *stream;
    struct log log;
    make(&log, &stream);
    remat_stream_start(stream, 1);
    remat_stream_start(stream, GATE);
    remat_stream_start(stream, 2);
    CHECK(remat_stream_wait(stream, 1, message) == REMAT_OK, "%s", message);
    wait_at_gate(&log);
    CHECK(log.count == 2, "%u tasks began", log.count);
    open_gate(&log);
    CHECK(remat_stream_wait(stream, 2, message) == REMAT_OK && log.count == 3, "%u tasks",
          log.count);
    release(&log, &stream);
}

static void test_failure(void)
{
    char message[REMAT_ENGINE_MESSAGE_BYTES] = "";
    struct remat_stream *stream;
    struct log log;
    make(&log, &stream);
    remat_stream_start(stream, FAILS);
    remat_stream_start(stream, 1);
    CHECK(remat_stream_wait(stream, 2, message) == REMAT_ERROR_RANK_LOST &&
              strcmp(message, "it failed") == 0,
          "%s", message);
    remat_stream_clear(stream);
    CHECK(log.count == 1, "%u tasks ran, one of them after a failure", log.count);
    remat_stream_start(stream, 2);
    CHECK(remat_stream_wait(stream, 1, message) == REMAT_OK && log.tasks[1] == 2,
          "after that it works");
    release(&log, &stream);
}

/* While a task runs: it ends, of the others some may have run. */
static void test_dropped(bool destroys)
{
    char message[REMAT_ENGINE_MESSAGE_BYTES] = "";
    struct remat_stream *stream;
    struct log log;
    pthread_t opener;
    make(&log, &stream);
    remat_stream_start(stream, GATE);
    for (uint32_t i = 0; i < CAPACITY - 1; i++)
        remat_stream_start(stream, i);
    wait_at_gate(&log);
    MUST(pthread_create(&opener, NULL, open_gate, &log) == 0);
    if (destroys)
        remat_stream_destroy(&stream);
    else
        remat_stream_clear(stream);
    pthread_join(opener, NULL);
    CHECK(!log.at_gate, "it did not wait for what ran");
    uint32_t ran = log.count;
    if (!destroys) {
        remat_stream_start(stream, 1);
        CHECK(remat_stream_wait(stream, 1, message) == REMAT_OK, "%s", message);
        CHECK(log.count == ran + 1, "%u tasks after %u", log.count, ran);
    }
    release(&log, &stream);
}

int main(void)
{
    MUST(ctx = remat_context_create(NULL, NULL));
    for (uint32_t i = 0; i < 20; i++) {
        test_order();
        test_beside();
        test_failure();
        test_dropped(false);
        test_dropped(true);
    }
    remat_context_destroy(&ctx);
    return check_exit();
}
