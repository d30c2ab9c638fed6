/* SPDX-License-Identifier: Apache-2.0 */
/* Captures and graphs of libcuda's double: a graph is a queue kept. A capture ends with the first
 * call of its thread that no graph could have, as cuThreadExchangeStreamCaptureMode of cuda.h says
 * of unsafe calls. */
#include "driver.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* --- captures --- */

int driver_refuse(const char *call)
{
    int refused = SUCCESS;
    struct object *per_thread = &driver_gpu()->per_thread;
    for (struct object *s = per_thread; s; s = s == per_thread ? driver.objects : s->next)
        if (s->kind == STREAM && s->capture && s->capture->thread == pthread_self()) {
            s->capture->invalid = true;
            refused = driver_fault(CAPTURE_UNSUPPORTED, call, " while the thread captures");
        }
    return refused;
}

bool double_refuse(const char *call)
{
    LOCKED
    return driver_refuse(call) != SUCCESS;
}

/* Thread-local: others go on as they like, and this thread's unsafe calls are refused. */
int cuStreamBeginCapture_v2(void *handle, int mode)
{
    NEEDS_CONTEXT
    struct object *stream = driver_stream(handle, __func__);
    bool blocking = stream->blocking && !driver_setting("REMAT_DOUBLE_BLOCKING", 0);
    if (stream == &stream->gpu->legacy || stream->capture || blocking)
        return driver_fault(CAPTURE_UNSUPPORTED, __func__,
                            blocking ? " on a blocking stream" : " on the legacy stream, or twice");
    if (mode != CUDA_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        driver_end(DOUBLE_MISUSE, __func__, "a capture that is not the thread's own");
    stream->capture = malloc(sizeof *stream->capture);
    *stream->capture = (struct capture){driver_add(GRAPH), pthread_self(), false};
    return SUCCESS;
}

/* Ends it also where it fails. */
int cuStreamEndCapture(void *handle, void **graph)
{
    NEEDS_CURRENT
    int failure = driver_failure(__func__);
    struct object *stream = driver_stream(handle, __func__);
    if (!stream->capture)
        return driver_fault(INVALID_VALUE, __func__, " without a capture");
    struct capture capture = *stream->capture;
    if (capture.thread != pthread_self())
        return driver_fault(CAPTURE_WRONG_THREAD, __func__, " by another thread");
    free(stream->capture);
    stream->capture = NULL;
    *graph = capture.invalid ? NULL : capture.graph;
    if (capture.invalid)
        driver_drop(capture.graph, GRAPH, __func__);
    return failure ? failure : capture.invalid ? CAPTURE_INVALIDATED : SUCCESS;
}

/* Where it fails, what it leaves in *out is no executable graph. */
int cuGraphInstantiateWithFlags(void **out, void *handle, unsigned long long flags)
{
    LOCKED
    struct object *graph = driver_find(handle, GRAPH, __func__);
    *out = graph;
    NEEDS_CONTEXT
    if (flags)
        return INVALID_VALUE;
    long bytes = driver_setting("REMAT_DOUBLE_GRAPH", 1 << 16);
    if (!double_charge(bytes))
        return CUDA_OUT_OF_MEMORY;
    double_charge(-bytes);
    struct object *executable = driver_add(EXECUTABLE);
    executable->bytes = (size_t)bytes;
    for (size_t i = 0; i < graph->queue.count; i++)
        driver_push(&executable->queue, &graph->queue.items[i]);
    *out = executable;
    return SUCCESS;
}

int cuGraphLaunch(void *handle, void *stream)
{
    NEEDS_CONTEXT
    const char *log = getenv("REMAT_DOUBLE_LOG");
    struct object *executable = driver_find(handle, EXECUTABLE, __func__);
    int result = SUCCESS;
    double_charge(driver_setting("REMAT_DOUBLE_LEAK", 0));
    for (size_t i = 0; !result && i < executable->queue.count; i++)
        result = driver_enqueue(stream, &executable->queue.items[i], __func__);
    FILE *file = log ? fopen(log, "a") : NULL;
    if (file) {
        fprintf(file, "graph of %zu\n", executable->queue.count);
        fclose(file);
    }
    return result;
}

int cuGraphDestroy(void *graph)
{
    NEEDS_CONTEXT
    return driver_drop(graph, GRAPH, __func__);
}

int cuGraphExecDestroy(void *executable)
{
    NEEDS_CONTEXT
    return driver_drop(executable, EXECUTABLE, __func__);
}
