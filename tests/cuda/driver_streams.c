/* Streams, events and graphs of libcuda's double: operations are performed when somebody waits for
 * their stream, or for an event on it; other streams are left alone. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>

static const char *launch(const struct operation *o)
{
    struct emulator_range ranges[64];
    struct emulator_launch launch = {.kernel = o->launch.kernel,
                                     .arguments = o->launch.arguments,
                                     .blocks = o->launch.blocks,
                                     .threads = o->launch.threads,
                                     .shared_bytes = o->launch.shared_bytes,
                                     .ranges = ranges};
    for (struct object *a = driver.objects; a && launch.range_count < 64; a = a->next)
        if (a->kind == ALLOCATION)
            ranges[launch.range_count++] =
                (struct emulator_range){a->begin, a->begin + a->bytes, true, true};
    return emulator_run(driver.emulator, &launch);
}

static const char *perform(const struct operation *o)
{
    driver.clock_ns += o->type == RECORD ? 0 : DOUBLE_OPERATION_NS;
    switch (o->type) {
    case LAUNCH:
        return launch(o);
    case COPY:
        memcpy(o->copy.to, o->copy.from, o->copy.bytes);
        return NULL;
    case SET:
        memset(o->set.to, o->set.byte, o->set.bytes);
        return NULL;
    case RECORD:
        o->event->time_ns = driver.clock_ns;
        return NULL;
    case HOST:
        o->host.run(o->host.data);
        return NULL;
    }
    return "unknown operation";
}

static int drain(struct object *stream)
{
    /* A GPU flushes subnormals; so do kernels compiled with --ftz=true. */
    unsigned state = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(state | 0x8040u);
    for (size_t i = 0; i < stream->queue.count && !driver.broken; i++) {
        const char *problem = perform(&stream->queue.items[i]);
        if (problem)
            driver.broken = driver_fault(ILLEGAL_ADDRESS, "", problem);
    }
    __builtin_ia32_ldmxcsr(state);
    stream->queue.count = 0;
    return driver.broken;
}

int cuStreamCreate(void **stream, unsigned flags)
{
    NEEDS_CONTEXT(void) flags;
    *stream = driver_add(STREAM);
    return SUCCESS;
}

int cuStreamDestroy_v2(void *handle)
{
    NEEDS_CONTEXT
    struct object *stream = driver_find(handle, STREAM);
    if (!stream || stream->capture)
        return INVALID_VALUE;
    drain(stream);
    return driver_drop(handle, STREAM);
}

int cuStreamSynchronize(void *handle)
{
    NEEDS_CONTEXT
    struct object *stream = driver_find(handle, STREAM);
    if (!stream || stream->capture)
        return driver_fault(CAPTURE_UNSUPPORTED, __func__, " while capturing");
    return drain(stream);
}

int double_enqueue_host(void *stream, void (*run)(const void *data), const void *data, size_t bytes)
{
    struct operation o = {.type = HOST, .host = {.run = run}};
    if (bytes > sizeof o.host.data)
        return INVALID_VALUE;
    memcpy(o.host.data, data, bytes);
    return driver_enqueue(stream, &o);
}

int cuStreamIsCapturing(void *handle, int *state)
{
    NEEDS_CONTEXT
    struct object *stream = driver_find(handle, STREAM);
    *state = stream && stream->capture;
    return stream ? SUCCESS : INVALID_VALUE;
}

int cuStreamBeginCapture_v2(void *handle, int mode)
{
    NEEDS_CONTEXT
    struct object *stream = driver_find(handle, STREAM);
    if (!stream || stream->capture || mode != CUDA_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        return INVALID_VALUE;
    stream->capture = &driver_add(GRAPH)->queue;
    return SUCCESS;
}

int cuStreamEndCapture(void *handle, void **graph)
{
    NEEDS_CONTEXT
    struct object *stream = driver_find(handle, STREAM);
    if (!stream || !stream->capture)
        return INVALID_VALUE;
    *graph = (char *)stream->capture - offsetof(struct object, queue);
    stream->capture = NULL;
    return SUCCESS;
}

int cuGraphInstantiateWithFlags(void **out, void *handle, unsigned long long flags)
{
    NEEDS_CONTEXT
    struct object *graph = driver_find(handle, GRAPH);
    if (!graph || flags)
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
    const char *log = getenv("REMAT_DOUBLE_LOG");
    struct object *executable = driver_find(handle, EXECUTABLE);
    int result = executable ? SUCCESS : INVALID_VALUE;
    double_charge(driver_setting("REMAT_DOUBLE_LEAK", 0));
    for (size_t i = 0; !result && i < executable->queue.count; i++)
        result = driver_enqueue(stream, &executable->queue.items[i]);
    FILE *file = log && executable ? fopen(log, "a") : NULL;
    if (file) {
        fprintf(file, "graph of %zu\n", executable->queue.count);
        fclose(file);
    }
    return result;
}

int cuGraphDestroy(void *graph)
{
    return driver_drop(graph, GRAPH);
}

int cuGraphExecDestroy(void *executable)
{
    return driver_drop(executable, EXECUTABLE);
}

int cuEventCreate(void **event, unsigned flags)
{
    NEEDS_CONTEXT(void) flags;
    *event = driver_add(EVENT);
    return SUCCESS;
}

int cuEventDestroy_v2(void *event)
{
    return driver_drop(event, EVENT);
}

int cuEventRecord(void *event, void *stream)
{
    struct operation o = {.type = RECORD, .event = driver_find(event, EVENT)};
    if (!o.event)
        return INVALID_VALUE;
    o.event->time_ns = 0;
    o.event->stream = stream;
    return driver_enqueue(stream, &o);
}

int cuEventSynchronize(void *handle)
{
    NEEDS_CONTEXT
    struct object *event = driver_find(handle, EVENT);
    struct object *stream = event && event->stream ? driver_find(event->stream, STREAM) : NULL;
    if (stream && !stream->capture)
        drain(stream);
    return driver.broken ? driver.broken : event && event->time_ns ? SUCCESS : NOT_READY;
}

int cuEventElapsedTime(float *ms, void *begin, void *end)
{
    NEEDS_CONTEXT
    struct object *from = driver_find(begin, EVENT), *to = driver_find(end, EVENT);
    if (!from || !to || !from->time_ns || !to->time_ns)
        return NOT_READY;
    *ms = (float)((double)(int64_t)(to->time_ns - from->time_ns) * 1e-6);
    return SUCCESS;
}
