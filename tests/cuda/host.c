/* SPDX-License-Identifier: Apache-2.0 */
/* A session on a stream and in memory that the host made through the driver, beside one that made
 * its own and runs command by command: the same bits; on the host's stream, of whatever kind, entry
 * points return before they are done, what the host has enqueued there comes before them and what
 * it enqueues later after them; on the session's own stream they return when they are done; what is
 * the host's stays the host's; and of the arena as much is used as was planned, to the byte.
 *
 *     cuda_host PLAN LIBRARIES [--doubles [--one-stream]] */
#include "check.h"
#include "cuda_api.h"
#include "plan.h"

#include <remat/remat.h>

#include <stdio.h>
#include <stdlib.h>

#define STEPS         4 /* launch by launch, captured, as a graph, twice */
#define RATE          3e-4f
#define PAINT         0x5a
#define ALLOWED_BYTES (64u << 20) /* that a driver may keep after sessions */

static void must_cuda(int result)
{
    MUST(result == 0, "the driver says %d", result);
}

struct host {
    remat_context *ctx;
    struct cuda_driver driver;
    remat_plan *plan;
    void *context, *event;
    void *stream, *non_blocking, *blocking; /* `stream`: of the session, if it has the host's */
    uint64_t address;                       /* of its device memory, the arena first */
    bool doubles, one_stream;
};

/* Enqueued before an entry point: done afterwards only if somebody waited, or, on a GPU, by chance.
 */
static void mark(struct host *host)
{
    must_cuda(host->driver.cuCtxPushCurrent_v2(host->context));
    must_cuda(host->driver.cuEventRecord(host->event, host->stream));
    must_cuda(host->driver.cuCtxPopCurrent_v2(&host->context));
}

static bool is_done(struct host *host)
{
    float ms;
    must_cuda(host->driver.cuCtxPushCurrent_v2(host->context));
    int result = host->driver.cuEventElapsedTime(&ms, host->event, host->event);
    must_cuda(host->driver.cuCtxPopCurrent_v2(&host->context));
    return result == 0;
}

static uint64_t address_of(struct host *host, const char *name)
{
    const struct remat_program *p = host->plan->program;
    uint32_t tensor = remat_plan_find_tensor(host->plan, name);
    return host->address + p->buffers[p->values[p->tensors[tensor].value].buffer].offset_bytes;
}

/* Enqueued on the host's stream, without a word to the session. */
static void enqueue_rate(struct host *host, const float *lr)
{
    must_cuda(host->driver.cuCtxPushCurrent_v2(host->context));
    must_cuda(
        host->driver.cuMemcpyHtoDAsync_v2(address_of(host, "lr"), lr, sizeof *lr, host->stream));
    must_cuda(host->driver.cuCtxPopCurrent_v2(&host->context));
}

/* What lies in the host's device memory, copied on its stream, without a word to the session. */
static float copy_loss(struct host *host)
{
    float loss;
    must_cuda(host->driver.cuCtxPushCurrent_v2(host->context));
    must_cuda(host->driver.cuMemcpyDtoHAsync_v2(&loss, address_of(host, "loss"), sizeof loss,
                                                host->stream));
    must_cuda(host->driver.cuEventRecord(host->event, host->stream));
    must_cuda(host->driver.cuEventSynchronize(host->event));
    must_cuda(host->driver.cuCtxPopCurrent_v2(&host->context));
    return loss;
}

static size_t available_bytes(struct host *host)
{
    size_t available = 0, total = 0;
    must_cuda(host->driver.cuCtxPushCurrent_v2(host->context));
    must_cuda(host->driver.cuMemGetInfo_v2(&available, &total));
    must_cuda(host->driver.cuCtxPopCurrent_v2(&host->context));
    return available;
}

static void write_ids(struct host *host, remat_session *session, const char *name)
{
    remat_tensor_info info = {.struct_size = sizeof info};
    remat_plan_get_tensor(host->plan, remat_plan_find_tensor(host->plan, name), &info);
    int32_t *ids = calloc(1, info.bytes);
    for (uint64_t i = 0; ids && i < info.bytes / 4; i++)
        ids[i] = (int32_t)(i * 7919 % 5);
    MUST_OK(host->ctx, remat_session_write(session, name, ids, info.bytes));
    int32_t outside = (int32_t)info.index_bound;
    CHECK_STATUS(host->ctx, remat_session_write_part(session, name, 4, &outside, 4),
                 REMAT_ERROR_INVALID, "element 1 is ", "an id outside the vocabulary");
    free(ids);
}

static void paint(struct host *host, uint64_t begin)
{
    must_cuda(host->driver.cuCtxPushCurrent_v2(host->context));
    must_cuda(host->driver.cuMemsetD8Async(host->address + begin, PAINT,
                                           host->plan->program->arena_bytes - begin, host->stream));
    must_cuda(host->driver.cuStreamSynchronize(host->stream));
    must_cuda(host->driver.cuCtxPopCurrent_v2(&host->context));
}

/* Where the host's memory ends that has another byte than `byte`. */
static uint64_t end_of_others(struct host *host, unsigned char byte)
{
    uint64_t end = host->plan->program->arena_bytes;
    unsigned char *arena = malloc(end);
    must_cuda(host->driver.cuCtxPushCurrent_v2(host->context));
    must_cuda(host->driver.cuMemcpyDtoHAsync_v2(arena, host->address, end, host->stream));
    must_cuda(host->driver.cuStreamSynchronize(host->stream));
    must_cuda(host->driver.cuCtxPopCurrent_v2(&host->context));
    while (end > 0 && arena[end - 1] == byte)
        end--;
    free(arena);
    return end;
}

static void check_peak(struct host *host)
{
    const struct remat_program *program = host->plan->program;
    uint64_t end = end_of_others(host, PAINT);
    CHECK(end == program->touched_bytes,
          "another peak than planned: %llu bytes of the arena are used, %llu planned",
          (unsigned long long)end, (unsigned long long)program->touched_bytes);
}

static int look(void *seen, const remat_trace_event *event)
{
    *(uint64_t *)seen += event->duration_ns;
    return 0;
}

static remat_session *create(struct host *host, const remat_session_params *params)
{
    remat_session *session;
    if (params->memory)
        paint(host, 0);
    MUST_OK(host->ctx, remat_session_create(host->ctx, host->plan, params, &session));
    CHECK(!params->memory || end_of_others(host, 0) == 0, "the host's memory was not cleared");
    MUST_OK(host->ctx, remat_session_run(session, "init"));
    if (params->memory)
        paint(host, host->plan->program->static_bytes); /* the rest is for steps to write anew */
    write_ids(host, session, "tokens");
    write_ids(host, session, "targets");
    return session;
}

static void write_step(struct host *host, remat_session *session, int32_t step, float lr)
{
    const int32_t rng[4] = {7, 0, step, 0};
    MUST_OK(host->ctx, remat_session_write(session, "step", &step, sizeof step));
    MUST_OK(host->ctx, remat_session_write(session, "lr", &lr, sizeof lr));
    MUST_OK(host->ctx, remat_session_write(session, "rng", rng, sizeof rng));
}

static float run_step(struct host *host, remat_session *session, int32_t step)
{
    float loss = 0;
    write_step(host, session, step, RATE);
    MUST_OK(host->ctx, remat_session_run(session, "train"));
    MUST_OK(host->ctx, remat_session_read(session, "loss", &loss, sizeof loss));
    return loss;
}

/* Each command by itself, between events, never as a graph. */
static void trace(struct host *host, const remat_session_params *params, int32_t steps,
                  float *losses)
{
    uint64_t ns = 0;
    remat_session *session = create(host, params);
    remat_session_set_trace(session, look, &ns);
    remat_session_set_trace_data(session, 0);
    for (int32_t step = 1; step <= steps; step++)
        losses[step - 1] = run_step(host, session, step);
    CHECK(ns > 0, "no time passed");
    remat_session_destroy(&session);
}

static void train(struct host *host, const remat_session_params *params, float *losses)
{
    static const float lr = RATE;
    bool is_hosts = params->stream != REMAT_STREAM_OWN;
    remat_session *session = create(host, params);
    for (int32_t step = 1; step <= STEPS; step++) {
        write_step(host, session, step, is_hosts ? 0 : RATE);
        if (is_hosts) {
            enqueue_rate(host, &lr);
            mark(host);
        }
        MUST_OK(host->ctx, remat_session_run(session, "train"));
        if (is_hosts && host->doubles)
            CHECK(!is_done(host), "the session waited for the host's stream");
        /* One after the other: who waits for the step is not who waited for the host's work. */
        float copied = params->memory && step % 2 ? copy_loss(host) : 0;
        MUST_OK(host->ctx,
                remat_session_read(session, "loss", &losses[step - 1], sizeof losses[step - 1]));
        if (params->memory)
            CHECK((step % 2 ? copied : copy_loss(host)) == losses[step - 1], "%s",
                  is_hosts ? "what comes after a run on the host's stream does not see it"
                           : "a run on the session's own stream was not done on return");
    }
    if (params->memory)
        check_peak(host);
    remat_session_destroy(&session);
}

static void fail_run(struct host *host, remat_session *session, const char *failure)
{
    setenv("REMAT_DOUBLE_FAIL", failure, 1);
    bool failed = remat_session_run(session, "train") != REMAT_OK;
    unsetenv("REMAT_DOUBLE_FAIL");
    CHECK(failed && strstr(remat_context_message(host->ctx), strchr(failure, ':') + 1),
          "a run that fails is no error, or another");
}

/* The first run of an entry point launches commands, which loads them, the second is captured.
 * Where a run fails the message names what failed first, and the next run does what it had to do.
 */
static void check_failures(struct host *host, const remat_session_params *params, const float *own)
{
    static const struct {
        int32_t step; /* that fails */
        const char *failure;
    } cases[] = {{1, "cuLaunchKernel:701"},
                 {2, "cuLaunchKernel:701"},
                 {2, "cuStreamEndCapture:901"},
                 {2, "cuGraphInstantiateWithFlags:1"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        remat_session *session = create(host, params);
        int before = checks_failed();
        for (int32_t step = 1; step <= 2; step++) {
            if (step == cases[i].step)
                fail_run(host, session, cases[i].failure);
            CHECK(run_step(host, session, step) == own[step - 1], "another loss");
        }
        if (checks_failed() > before)
            fprintf(stderr, "with %s in step %d\n", cases[i].failure, cases[i].step);
        remat_session_destroy(&session);
    }
}

/* On each kind of stream that a host may have: what PyTorch has is the legacy one. */
static void train_on(struct host *host, remat_session_params *params, const float *own)
{
    const struct {
        const char *name;
        void *stream;
    } streams[] = {{"a stream that is not blocking", host->non_blocking},
                   {"a blocking stream", host->blocking},
                   {"the legacy stream, NULL", NULL},
                   {"the legacy stream", CUDA_STREAM_LEGACY},
                   {"the thread's stream", CUDA_STREAM_PER_THREAD}};
    for (size_t i = 0; i < (host->one_stream ? 1 : sizeof streams / sizeof *streams); i++) {
        float losses[STEPS];
        int before = checks_failed();
        params->stream = host->stream = streams[i].stream;
        train(host, params, losses);
        CHECK(memcmp(own, losses, sizeof losses) == 0,
              "other losses: what comes before a run on the host's stream is not seen by it");
        if (!host->one_stream)
            trace(host, params, 1, losses);
        CHECK(losses[0] == own[0], "another loss in a step that is traced");
        if (checks_failed() > before)
            fprintf(stderr, "on %s\n", streams[i].name);
    }
    params->stream = REMAT_STREAM_OWN;
    host->stream = host->non_blocking;
}

static void begin_capture(struct host *host, void *stream)
{
    must_cuda(host->driver.cuCtxPushCurrent_v2(host->context));
    setenv("REMAT_DOUBLE_BLOCKING", "1", 1);
    must_cuda(host->driver.cuStreamBeginCapture_v2(stream, CUDA_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    unsetenv("REMAT_DOUBLE_BLOCKING");
}

static void end_capture(struct host *host, void *stream)
{
    void *graph = NULL;
    must_cuda(host->driver.cuStreamEndCapture(stream, &graph));
    CHECK(graph != NULL, "the host's capture was broken");
    must_cuda(host->driver.cuGraphDestroy(graph));
    must_cuda(host->driver.cuCtxPopCurrent_v2(&host->context));
}

/* While the host captures, nothing is done on a stream that it then may not use, and the capture
 * goes on. */
static void check_capture(struct host *host, const remat_session_params *params, void *captured)
{
    const float lr = 0;
    float loss;
    remat_session *session, *other;
    MUST_OK(host->ctx, remat_session_create(host->ctx, host->plan, params, &session));
    begin_capture(host, captured);
    CHECK_STATUS(host->ctx, remat_session_run(session, "init"), REMAT_ERROR_USAGE,
                 "stream is being captured", "run in a capture");
    CHECK(remat_session_write(session, "lr", &lr, sizeof lr) == REMAT_ERROR_USAGE,
          "write in a capture");
    CHECK(remat_session_read(session, "loss", &loss, sizeof loss) == REMAT_ERROR_USAGE,
          "read in a capture");
    CHECK(remat_session_create(host->ctx, host->plan, params, &other) == REMAT_ERROR_USAGE,
          "create in a capture");
    end_capture(host, captured);
    MUST_OK(host->ctx, remat_session_run(session, "init"));
    remat_session_destroy(&session);
}

/* The legacy stream is as free as ever while the host captures one that is not blocking. */
static void check_legacy_beside_capture(struct host *host, const remat_session_params *params)
{
    remat_session *session;
    MUST_OK(host->ctx, remat_session_create(host->ctx, host->plan, params, &session));
    MUST_OK(host->ctx, remat_session_run(session, "init"));
    MUST_OK(host->ctx, remat_session_run(session, "init"));
    begin_capture(host, host->non_blocking);
    MUST_OK(host->ctx, remat_session_run(session, "init"));
    end_capture(host, host->non_blocking);
    remat_session_destroy(&session);
}

static void check_captures(struct host *host, remat_session_params *params)
{
    params->stream = host->non_blocking;
    check_capture(host, params, host->non_blocking);
    params->stream = CUDA_STREAM_PER_THREAD;
    check_capture(host, params, CUDA_STREAM_PER_THREAD);
    params->stream = NULL;
    check_capture(host, params, host->blocking);
    check_legacy_beside_capture(host, params);
    params->stream = REMAT_STREAM_OWN;
}

static void check_refusals(struct host *host, const remat_session_params *params)
{
    remat_session *session;
    remat_session_params wrong = *params;
    wrong.memory_bytes--;
    CHECK(remat_session_create(host->ctx, host->plan, &wrong, &session) != REMAT_OK,
          "a byte too little is not refused");
    wrong = *params;
    wrong.memory = (char *)wrong.memory + 16;
    CHECK(remat_session_create(host->ctx, host->plan, &wrong, &session) != REMAT_OK,
          "memory that is not aligned is not refused");
}

static void make_streams(struct host *host, uint64_t bytes)
{
    must_cuda(host->driver.cuCtxPushCurrent_v2(host->context));
    must_cuda(host->driver.cuStreamCreate(&host->non_blocking, CUDA_STREAM_NON_BLOCKING));
    setenv("REMAT_DOUBLE_BLOCKING", "1", 1);
    must_cuda(host->driver.cuStreamCreate(&host->blocking, 0));
    unsetenv("REMAT_DOUBLE_BLOCKING");
    must_cuda(host->driver.cuEventCreate(&host->event, CUDA_EVENT_DEFAULT));
    must_cuda(host->driver.cuMemAlloc_v2(&host->address, bytes));
    must_cuda(host->driver.cuCtxPopCurrent_v2(&host->context));
    host->stream = host->non_blocking;
}

static void destroy_streams(struct host *host)
{
    must_cuda(host->driver.cuCtxPushCurrent_v2(host->context));
    CHECK(host->driver.cuMemFree_v2(host->address) == 0, "the session freed the host's memory");
    must_cuda(host->driver.cuEventDestroy_v2(host->event));
    CHECK(host->driver.cuStreamDestroy_v2(host->non_blocking) == 0 &&
              host->driver.cuStreamDestroy_v2(host->blocking) == 0,
          "the session destroyed the host's stream");
    must_cuda(host->driver.cuCtxPopCurrent_v2(&host->context));
}

static void run(struct host *host, const char *libraries)
{
    float own[STEPS], hosts[STEPS];
    uint64_t bytes;
    remat_session_params params;
    remat_session_params_init(&params);
    params.device = "cuda";
    params.cuda_libraries = libraries;
    params.seed = 7;
    trace(host, &params, STEPS, own);
    CHECK(own[0] != own[STEPS - 1], "the loss does not change");
    train(host, &params, hosts);
    CHECK(memcmp(own, hosts, sizeof own) == 0, "other losses in steps that are graphs");
    if (host->doubles && !host->one_stream)
        check_failures(host, &params, own);
    MUST_OK(host->ctx, remat_session_memory_bytes(host->ctx, host->plan, &params, &bytes));
    make_streams(host, bytes);
    params.memory = (void *)(uintptr_t)host->address;
    params.memory_bytes = bytes;
    check_refusals(host, &params);
    size_t before = available_bytes(host);
    train_on(host, &params, own);
    check_captures(host, &params);
    train(host, &params, hosts);
    CHECK(memcmp(own, hosts, sizeof own) == 0, "other losses in the host's memory");
    size_t left = before - available_bytes(host), allowed = host->doubles ? 0 : ALLOWED_BYTES;
    printf("%zu bytes of the GPU are in use more than before the sessions\n", left);
    CHECK((ptrdiff_t)left <= (ptrdiff_t)allowed, "a session left something in the GPU's memory");
    destroy_streams(host);
}

int main(int argc, char **argv)
{
    struct host host = {
        .ctx = remat_context_create(NULL, NULL), .doubles = argc > 3, .one_stream = argc > 4};
    const char *libraries = argc > 2 && strcmp(argv[2], "-") != 0 ? argv[2] : NULL;
    if (argc < 3)
        return 2;
    MUST_OK(host.ctx, cuda_driver_open(host.ctx, libraries, &host.driver));
    MUST_OK(host.ctx, remat_plan_load_file(host.ctx, argv[1], &host.plan));
    must_cuda(host.driver.cuDevicePrimaryCtxRetain(&host.context, 0));
    run(&host, libraries);
    must_cuda(host.driver.cuDevicePrimaryCtxRelease_v2(0));
    remat_plan_destroy(&host.plan);
    cuda_driver_close(&host.driver);
    remat_context_destroy(&host.ctx);
    return check_exit();
}
