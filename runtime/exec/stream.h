/* SPDX-License-Identifier: Apache-2.0 */
/* A thread beside the caller's, which runs tasks one after the other in the order in which they are
 * started. Whatever a task reads was written before it was started, and what it wrote is there
 * after waiting for it. */
#ifndef REMAT_STREAM_H
#define REMAT_STREAM_H

#include "base.h"

#include <remat/engine.h>

/* A task, in the stream's thread. `message` is empty before; what it says of a failure. */
typedef remat_status remat_stream_task(void *user, uint32_t task,
                                       char message[REMAT_ENGINE_MESSAGE_BYTES]);

struct remat_stream;

/* For at most `capacity` tasks that were started and not waited for, at least 1. */
remat_status remat_stream_create(remat_context *ctx, remat_stream_task *run, void *user,
                                 uint32_t capacity, struct remat_stream **out);
/* Waits for the task that is running, and drops those that have not begun. */
void remat_stream_destroy(struct remat_stream **stream);

/* The rest is for one thread at a time. */
/* Returns how many tasks were started, this one included. */
uint64_t remat_stream_start(struct remat_stream *stream, uint32_t task);
/* Until the next `count` tasks are done, of those that were started and not waited for. Fails as
 * the first task that failed did, with its message; after that none runs any more. */
remat_status remat_stream_wait(struct remat_stream *stream, uint32_t count,
                               char message[REMAT_ENGINE_MESSAGE_BYTES]);
/* Drops what has not begun. */
void remat_stream_drop(struct remat_stream *stream);
/* Drops what has not begun, waits for what has, and forgets a failure: as after creation. */
void remat_stream_clear(struct remat_stream *stream);

/* For a task of another stream: until the first `count` tasks since creation are done. False: they
 * will not be. */
bool remat_stream_reach(struct remat_stream *stream, uint64_t count);

#endif
