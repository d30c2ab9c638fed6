/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events of libcuda's double: operations are performed when somebody waits for their
 * stream, or for an event on it; of other streams only what these wait for. With
 * REMAT_DOUBLE_EAGER, 1 or 2, what is on streams without transfers, or with them, is performed at
 * once, as far as it has not to wait. The legacy
 * stream waits for all blocking ones at each call, and they for it. */
#include "driver.h"

#include <pthread.h>

static const char *launch(const struct operation *o)
{
    struct emulator_range ranges[64];
    struct emulator_launch launch = {.kernel = o->launch.kernel->kernel,
                                     .arguments = o->launch.arguments,
                                     .blocks = o->launch.blocks,
                                     .threads = o->launch.threads,
                                     .shared_bytes = o->launch.shared_bytes,
                                     .ranges = ranges};
    for (struct object *a = driver.objects; a && launch.range_count < 64; a = a->next)
        if (a->kind == ALLOCATION && !a->destroyed && a->gpu == o->launch.kernel->gpu)
            ranges[launch.range_count++] =
                (struct emulator_range){a->begin, a->begin + a->bytes, true, true};
    return emulator_run(driver.emulator, &launch);
}

static void drain(struct place place);

static const char *perform(const struct operation *o)
{
    driver.clock_ns += o->type == RECORD || o->type == WAIT ? 0 : DOUBLE_OPERATION_NS;
    switch (o->type) {
    case LAUNCH:
        return launch(o);
    case COPY:
        memcpy(o->copy.to, o->copy.from, o->copy.bytes);
        return NULL;
    case SET:
        memset(o->set.to, o->set.byte, o->set.bytes);
        return NULL;
    case SET_WORDS:
        for (size_t i = 0; i < o->words.count; i++)
            o->words.to[i] = o->words.word;
        return NULL;
    case RECORD:
        o->event->time_ns = driver.clock_ns;
        return NULL;
    case WAIT:
    case TRANSFER:
        return NULL;
    case HOST:
        o->host.run(o->host.data);
        return NULL;
    }
    return "unknown operation";
}

static bool is_pending(struct place place)
{
    return place.stream && place.stream->done < place.position;
}

/* A transfer that other ranks have not come to stands, and so does what waits for it. What waits
 * was enqueued after that for which it waits, so no stream waits for itself. */
static bool may_go(const struct operation *o)
{
    if (o->type != WAIT)
        return o->type != TRANSFER || o->host.try(o->host.data);
    drain(o->wait);
    return !is_pending(o->wait);
}

static void drain(struct place place)
{
    struct object *stream = place.stream;
    /* A GPU flushes subnormals; so do kernels compiled with --ftz=true. */
    unsigned state = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(state | 0x8040u);
    while (stream && stream->done < place.position && !driver.broken) {
        struct operation o = stream->queue.items[stream->done - stream->begun];
        if (!may_go(&o))
            break;
        stream->done++;
        const char *problem = perform(&o);
        if (problem)
            driver.broken = driver_fault(ILLEGAL_ADDRESS, "", problem);
    }
    __builtin_ia32_ldmxcsr(state);
}

struct place driver_end_of(struct object *stream)
{
    if (stream->done == stream->begun + stream->queue.count) {
        stream->begun = stream->done;
        stream->queue.count = 0;
    }
    return (struct place){stream, stream->begun + stream->queue.count};
}

void driver_follow(struct object *stream, struct place place)
{
    const struct object *from = place.stream;
    if (from && from->transferred > from->seen && from->seen < place.position)
        stream->transferred = driver_end_of(stream).position;
}

void driver_drain(struct object *stream)
{
    drain(driver_end_of(stream));
}

static bool has_launch(struct object *stream, const struct object *module)
{
    for (uint64_t i = stream->done; i < driver_end_of(stream).position; i++) {
        const struct operation *o = &stream->queue.items[i - stream->begun];
        if (o->type == LAUNCH && o->launch.kernel->module == module)
            return true;
    }
    return false;
}

static bool has_transfer(const struct object *stream)
{
    for (uint64_t i = stream->done; i < stream->begun + stream->queue.count; i++)
        if (stream->queue.items[i - stream->begun].type == TRANSFER)
            return true;
    return false;
}

void driver_refuse_transfers(const struct object *stream, const char *call)
{
    bool found = stream && stream->transferred > stream->seen;
    for (struct object *s = driver.objects; s && !stream; s = s->next)
        found |= s->kind == STREAM && !s->destroyed && s->gpu == driver_gpu() &&
                 s->transferred > s->seen;
    if (found)
        driver_end(DOUBLE_MISUSE, call, "it may wait for other ranks for ever");
}

bool driver_is_queued(const struct object *module)
{
    struct gpu *gpu = module->gpu;
    bool queued = has_launch(&gpu->legacy, module) || has_launch(&gpu->per_thread, module);
    for (struct object *s = driver.objects; s; s = s->next)
        queued |= s->kind == STREAM && has_launch(s, module);
    return queued;
}

/* --- what the default streams imply --- */

/* The next of the GPU's blocking streams; NULL begins and ends. */
static struct object *next_blocking(struct gpu *gpu, struct object *stream)
{
    if (!stream)
        return &gpu->per_thread;
    for (stream = stream == &gpu->per_thread ? driver.objects : stream->next; stream;
         stream = stream->next)
        if (stream->kind == STREAM && stream->blocking && !stream->destroyed && stream->gpu == gpu)
            return stream;
    return NULL;
}

static bool is_blocked(const struct object *stream) /* by the capture of a blocking one */
{
    struct gpu *gpu = stream->gpu;
    for (struct object *s = NULL; stream == &gpu->legacy && (s = next_blocking(gpu, s));)
        if (s->capture)
            return true;
    return false;
}

static void wait_for(struct object *stream, struct object *other)
{
    struct operation wait = {.type = WAIT, .wait = driver_end_of(other)};
    if (is_pending(wait.wait))
        driver_push(&stream->queue, &wait);
}

static void join(struct object *stream)
{
    struct gpu *gpu = stream->gpu;
    if (stream->blocking)
        wait_for(stream, &gpu->legacy);
    for (struct object *s = NULL; stream == &gpu->legacy && (s = next_blocking(gpu, s));)
        wait_for(stream, s);
}

int driver_enqueue(void *handle, const struct operation *operation, const char *call)
{
    struct object *stream = driver_stream(handle, call);
    if (driver.broken)
        return driver.broken;
    if (is_blocked(stream))
        return driver_fault(CAPTURE_IMPLICIT, call, " on the legacy stream");
    if (stream->capture) {
        struct operation captured = *operation;
        captured.lane = driver_lane(stream->capture, stream);
        driver_push(&stream->capture->graph->queue, &captured);
        return stream->capture->invalid ? CAPTURE_INVALIDATED : SUCCESS;
    }
    driver_end_of(stream);
    join(stream);
    driver_push(&stream->queue, operation);
    if (driver_setting("REMAT_DOUBLE_EAGER", 0) == (has_transfer(stream) ? 2 : 1))
        drain(driver_end_of(stream));
    return SUCCESS;
}

int double_enqueue_host(void *stream, void (*run)(const void *data), const void *data, size_t bytes)
{
    struct operation o = {.type = HOST, .host = {.run = run}};
    NEEDS_CONTEXT
    if (bytes > sizeof o.host.data)
        return INVALID_VALUE;
    memcpy(o.host.data, data, bytes);
    return driver_enqueue(stream, &o, __func__);
}

int double_enqueue_transfer(void *stream, bool (*try)(const void *data), const void *data,
                            size_t bytes)
{
    struct operation o = {.type = TRANSFER, .host = {.try = try}};
    NEEDS_CONTEXT
    if (bytes > sizeof o.host.data)
        return INVALID_VALUE;
    memcpy(o.host.data, data, bytes);
    int result = driver_enqueue(stream, &o, __func__);
    struct object *on = driver_stream(stream, __func__);
    if (!on->capture)
        on->transferred = driver_end_of(on).position;
    return result;
}

/* --- streams --- */

/* One that the legacy stream waits for makes each host's work there wait for a step. */
int cuStreamCreate(void **stream, unsigned flags)
{
    NEEDS_CONTEXT
    if (flags != CUDA_STREAM_NON_BLOCKING && !driver_setting("REMAT_DOUBLE_BLOCKING", 0))
        driver_end(DOUBLE_MISUSE, __func__, "a blocking stream");
    struct object *made = driver_add(STREAM);
    made->blocking = flags != CUDA_STREAM_NON_BLOCKING;
    *stream = made;
    return SUCCESS;
}

int cuStreamDestroy_v2(void *handle)
{
    NEEDS_CONTEXT
    struct object *stream = driver_find(handle, STREAM, __func__);
    if (stream->capture)
        driver_end(DOUBLE_MISUSE, __func__, "a stream that captures");
    driver_refuse_transfers(stream, __func__);
    drain(driver_end_of(stream));
    return driver_drop(handle, STREAM, __func__);
}

int cuStreamSynchronize(void *handle)
{
    NEEDS_NO_CAPTURE
    struct object *stream = driver_stream(handle, __func__);
    if (is_blocked(stream))
        return driver_fault(CAPTURE_IMPLICIT, __func__, " of the legacy stream");
    driver_refuse_transfers(stream, __func__);
    join(stream);
    drain(driver_end_of(stream));
    return driver.broken;
}

static int answer(struct place place)
{
    if (driver.broken || is_pending(place))
        return driver.broken ? driver.broken : NOT_READY;
    if (place.stream && place.position > place.stream->seen)
        place.stream->seen = place.position;
    for (struct object *s = driver.objects; s; s = s->next)
        if (s->hidden && s->done == driver_end_of(s).position)
            s->seen = s->done;
    return SUCCESS;
}

/* GPUs work while somebody looks at one of them; where no transfer may come early, those alone
 * whose streams are the thread's. */
static void look(struct place place)
{
    bool all = driver_setting("REMAT_DOUBLE_EAGER", 0) != 1;
    drain(place);
    for (struct object *s = driver.objects; s && is_pending(place); s = s->next)
        if (s->kind == STREAM && !s->destroyed && has_transfer(s) &&
            (all || s->thread == pthread_self()))
            drain(driver_end_of(s));
    drain(place);
}

int cuStreamQuery(void *handle)
{
    NEEDS_NO_CAPTURE
    struct object *stream = driver_stream(handle, __func__);
    if (is_blocked(stream))
        return driver_fault(CAPTURE_IMPLICIT, __func__, " of the legacy stream");
    join(stream);
    look(driver_end_of(stream));
    return answer(driver_end_of(stream));
}

int cuStreamIsCapturing(void *handle, int *state)
{
    NEEDS_CONTEXT
    struct object *stream = driver_stream(handle, __func__);
    *state = stream->capture ? 1 + stream->capture->invalid : 0;
    return is_blocked(stream) ? CAPTURE_IMPLICIT : SUCCESS;
}

/* The capture that the event is of, if it still goes on, and is the thread's. */
static struct capture *capture_of(const struct object *event)
{
    struct capture *capture = event->recorded.stream ? event->recorded.stream->capture : NULL;
    bool goes_on = event->is_captured && capture && capture->graph == event->graph &&
                   capture->thread == pthread_self();
    return goes_on ? capture : NULL;
}

/* An event of a capture brings the stream into it; any other is none for a stream that captures. */
static int wait_in_capture(struct object *stream, const struct object *event, const char *call)
{
    struct capture *capture = capture_of(event);
    if (!capture || (stream->capture && stream->capture != capture))
        return driver_fault(CAPTURE_ISOLATION, call, " across a capture");
    if (!stream->capture && capture->stream_count == LANES_MAX)
        driver_end(DOUBLE_MISUSE, call, "more streams than the double's captures have");
    if (!stream->capture)
        capture->streams[capture->stream_count++] = stream;
    stream->capture = capture;
    struct operation o = {.type = WAIT,
                          .wait = {NULL, event->recorded.position},
                          .waited_lane = driver_lane(capture, event->recorded.stream)};
    return driver_enqueue(stream, &o, call);
}

int cuStreamWaitEvent(void *handle, void *waited, unsigned flags)
{
    NEEDS_CONTEXT
    struct object *stream = driver_stream(handle, __func__);
    struct object *event = driver_find(waited, EVENT, __func__);
    struct operation o = {.type = WAIT, .wait = event->recorded};
    if (flags)
        return INVALID_VALUE;
    if (event->is_captured || stream->capture)
        return wait_in_capture(stream, event, __func__);
    int result = driver_enqueue(handle, &o, __func__);
    driver_follow(stream, event->recorded);
    return result;
}

/* --- events --- */

int cuEventCreate(void **event, unsigned flags)
{
    NEEDS_CONTEXT
    if (flags != CUDA_EVENT_DEFAULT && flags != CUDA_EVENT_DISABLE_TIMING)
        return INVALID_VALUE;
    struct object *made = driver_add(EVENT);
    made->is_timed = flags == CUDA_EVENT_DEFAULT;
    *event = made;
    return SUCCESS;
}

int cuEventDestroy_v2(void *event)
{
    NEEDS_CONTEXT
    return driver_drop(event, EVENT, __func__);
}

int cuEventRecord(void *handle, void *stream)
{
    NEEDS_CONTEXT
    struct object *event = driver_find(handle, EVENT, __func__),
                  *on = driver_stream(stream, __func__);
    struct operation o = {.type = RECORD, .event = event};
    event->time_ns = 0;
    int result = driver_enqueue(stream, &o, __func__);
    event->is_captured = on->capture != NULL;
    event->graph = on->capture ? on->capture->graph : NULL;
    event->recorded = driver_end_of(on);
    if (on->capture)
        event->recorded.position = driver_lane_length(event->graph, driver_lane(on->capture, on));
    return result;
}

int cuEventSynchronize(void *handle)
{
    NEEDS_NO_CAPTURE
    struct object *event = driver_find(handle, EVENT, __func__);
    if (event->is_captured)
        return driver_fault(CAPTURED_EVENT, __func__, " of a captured event");
    if (event->recorded.stream)
        driver_refuse_transfers(event->recorded.stream, __func__);
    drain(event->recorded);
    return driver.broken;
}

int cuEventQuery(void *handle)
{
    NEEDS_NO_CAPTURE
    struct object *event = driver_find(handle, EVENT, __func__);
    if (event->is_captured)
        return driver_fault(CAPTURED_EVENT, __func__, " of a captured event");
    look(event->recorded);
    return answer(event->recorded);
}

int cuEventElapsedTime(float *ms, void *begin, void *end)
{
    NEEDS_NO_CAPTURE
    struct object *from = driver_find(begin, EVENT, __func__),
                  *to = driver_find(end, EVENT, __func__);
    if (from->is_captured || to->is_captured || !from->is_timed || !to->is_timed)
        return driver_fault(INVALID_VALUE, __func__, " of events without a time");
    if (!from->time_ns || !to->time_ns)
        return NOT_READY;
    *ms = (float)((double)(int64_t)(to->time_ns - from->time_ns) * 1e-6);
    return SUCCESS;
}
