/* SPDX-License-Identifier: Apache-2.0 */
/* Captures and graphs of libcuda's double: a graph is what was enqueued on the streams of a
 * capture, kept. When it is launched they are streams as any others, the first one that of the
 * launch, so that an order among them that nobody asked for is no order. A capture ends with the
 * first call of its thread that no graph could have, as cuThreadExchangeStreamCaptureMode of cuda.h
 * says of unsafe calls. */
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
    *stream->capture = (struct capture){driver_add(GRAPH), pthread_self(), false, {stream}, 1};
    return SUCCESS;
}

int driver_lane(const struct capture *capture, const struct object *stream)
{
    int lane = 0;
    while (capture->streams[lane] != stream)
        lane++;
    return lane;
}

uint64_t driver_lane_length(const struct object *graph, int lane)
{
    uint64_t length = 0;
    for (size_t i = 0; i < graph->queue.count; i++)
        length += graph->queue.items[i].lane == lane;
    return length;
}

/* All that is on other streams is waited for on the first one. */
static bool is_joined(const struct capture *capture)
{
    bool joined[LANES_MAX] = {true};
    const struct queue *queue = &capture->graph->queue;
    for (size_t i = 0; i < queue->count; i++) {
        const struct operation *o = &queue->items[i];
        if (o->type == WAIT && o->lane == 0)
            joined[o->waited_lane] |=
                o->wait.position == driver_lane_length(capture->graph, o->waited_lane);
    }
    bool all = true;
    for (int lane = 0; lane < capture->stream_count; lane++)
        all &= joined[lane];
    return all;
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
    if (stream != capture.streams[0])
        driver_end(DOUBLE_MISUSE, __func__, "on another stream than the capture began on");
    bool joined = capture.invalid || is_joined(&capture);
    free(stream->capture);
    for (int lane = 0; lane < capture.stream_count; lane++)
        capture.streams[lane]->capture = NULL;
    capture.graph->lane_count = capture.stream_count;
    *graph = capture.invalid || !joined ? NULL : capture.graph;
    if (!*graph)
        driver_drop(capture.graph, GRAPH, __func__);
    if (!joined)
        return driver_fault(CAPTURE_UNJOINED, __func__, " while another stream is not joined");
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
    executable->lane_count = graph->lane_count;
    for (int lane = 1; lane < graph->lane_count; lane++) {
        executable->lanes[lane] = driver_add(STREAM);
        executable->lanes[lane]->hidden = true;
    }
    *out = executable;
    return SUCCESS;
}

/* Where the first `count` operations of a lane end, of those that were just enqueued. */
static uint64_t lane_position(const struct queue *queue, const uint64_t *ends, int lane,
                              uint64_t count)
{
    size_t i = 0;
    for (uint64_t found = 0; found < count; i++)
        found += queue->items[i].lane == lane;
    return ends[i - 1];
}

static int enqueue_all(struct object *executable, void *stream, uint64_t *ends, const char *call)
{
    int result = SUCCESS;
    const struct queue *queue = &executable->queue;
    for (size_t i = 0; !result && i < queue->count; i++) {
        struct operation o = queue->items[i];
        struct object *on = o.lane ? executable->lanes[o.lane] : driver_stream(stream, call);
        if (o.type == WAIT && o.wait.position == 0)
            o.wait.stream = NULL;
        else if (o.type == WAIT)
            o.wait = (struct place){o.waited_lane ? executable->lanes[o.waited_lane]
                                                  : driver_stream(stream, call),
                                    lane_position(queue, ends, o.waited_lane, o.wait.position)};
        result = driver_enqueue(o.lane ? (void *)on : stream, &o, call);
        ends[i] = driver_end_of(on).position;
        if (o.type == WAIT)
            driver_follow(on, o.wait);
        if (o.type == TRANSFER)
            on->transferred = ends[i];
    }
    return result;
}

int cuGraphLaunch(void *handle, void *stream)
{
    NEEDS_CONTEXT
    const char *log = getenv("REMAT_DOUBLE_LOG");
    struct object *executable = driver_find(handle, EXECUTABLE, __func__);
    double_charge(driver_setting("REMAT_DOUBLE_LEAK", 0));
    uint64_t *ends = malloc((executable->queue.count + 1) * sizeof *ends);
    int result = enqueue_all(executable, stream, ends, __func__);
    free(ends);
    FILE *file = log ? fopen(log, "a") : NULL;
    if (file) {
        fprintf(file, "graph of %zu\n", executable->queue.count);
        fclose(file);
    }
    return result;
}

bool double_has_graph(void)
{
    LOCKED
    for (struct object *o = driver.objects; o; o = o->next)
        for (size_t i = 0;
             o->kind == EXECUTABLE && !o->destroyed && o->gpu == driver_gpu() && i < o->queue.count;
             i++)
            if (o->queue.items[i].type == TRANSFER)
                return true;
    return false;
}

int cuGraphDestroy(void *graph)
{
    NEEDS_CONTEXT
    return driver_drop(graph, GRAPH, __func__);
}

int cuGraphExecDestroy(void *executable)
{
    NEEDS_CONTEXT
    struct object *dropped = driver_find(executable, EXECUTABLE, __func__);
    for (int lane = 1; lane < dropped->lane_count; lane++) {
        driver_refuse_transfers(dropped->lanes[lane], __func__);
        driver_drain(dropped->lanes[lane]);
        driver_drop(dropped->lanes[lane], STREAM, __func__);
    }
    return driver_drop(executable, EXECUTABLE, __func__);
}
