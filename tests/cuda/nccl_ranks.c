/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of GPUs, for threads of one process: what arrives is what the header says, for tensors
 * of every length up to beyond the number of ranks, on GPUs and in the host's memory, among all
 * ranks and in the rows and columns of a mesh; then steps of a plan of three ranks, command by
 * command and as CUDA graphs, whose losses are one, and printed. faults.py plants faults under it.
 *
 *     nccl_ranks PLAN LIBRARIES */
#include "check.h"
#include "host.h"

#include "cuda_api.h"
#include "plan.h"

#include <remat/remat.h>

#include <pthread.h>
#include <stdlib.h>

enum { RANKS = 3, RANKS_MAX = 6, STEPS = 3 };
#define BYTES      (UINT64_C(3) << 20) /* of a rank's memory on its GPU, a half to send */
#define TIMEOUT_NS UINT64_C(20000000000)

struct rank {
    uint32_t rank, columns; /* columns: of the mesh, [ranks / columns, columns] */
    bool along_rows;        /* the next transfer is among the ranks of a row, else of a column */
    remat_engine engine;
    remat_context *ctx;
    const remat_plan *plan;
    const char *libraries;
    struct cuda_driver driver;
    void *context, *stream;
    uint64_t memory;
    float losses[STEPS], of_graphs[STEPS];
    uint64_t rests; /* bytes looked at, in a row of each exchange */
};

static void must_cuda(int result)
{
    MUST(result == 0, "the driver says %d", result);
}

/* Byte i of what rank r has in a tensor of `length` bytes. */
static unsigned char byte_of(uint32_t r, uint64_t length, uint64_t i)
{
    return (unsigned char)(37 * r + 11 * length + 13 * (i >> 8) + i + 1);
}

static remat_transfer describe(const struct rank *rank, uint64_t length)
{
    uint32_t columns = rank->columns, size = rank->engine.ranks / columns;
    size = rank->along_rows ? columns : size;
    return (remat_transfer){.struct_size = sizeof(remat_transfer),
                            .name = "tensor",
                            .size = size,
                            .position =
                                rank->along_rows ? rank->rank % columns : rank->rank / columns,
                            .part_bytes = (length + size - 1) / size,
                            .whole_bytes = length,
                            .timeout_ns = TIMEOUT_NS,
                            .rank_stride = rank->along_rows ? 1 : columns};
}

/* The rank of a position in the group, by the definition of the mesh. */
static uint32_t rank_of(const struct rank *rank, uint32_t position)
{
    return rank->along_rows ? rank->rank / rank->columns * rank->columns + position
                            : position * rank->columns + rank->rank % rank->columns;
}

/* --- bytes --- */

/* What the rank has of a tensor: all of it, or its part. */
static uint64_t fill(const struct rank *rank, const remat_transfer *t, bool exchanges,
                     unsigned char *out)
{
    uint64_t begin = exchanges ? 0 : t->position * t->part_bytes;
    uint64_t bytes = exchanges ? t->whole_bytes : remat_transfer_bytes(t, t->position);
    for (uint64_t i = 0; i < bytes; i++)
        out[i] = byte_of(rank->rank, t->whole_bytes, begin + i);
    return bytes;
}

static void check_bytes(const struct rank *rank, const remat_transfer *t, bool exchanges,
                        const unsigned char *to, const char *where)
{
    uint64_t own = remat_transfer_bytes(t, t->position);
    uint64_t rows = exchanges ? t->size * t->part_bytes : t->whole_bytes;
    for (uint64_t i = 0; i < rows; i++) {
        uint32_t q = (uint32_t)(i / t->part_bytes);
        uint64_t at = exchanges ? t->position * t->part_bytes + i % t->part_bytes : i;
        bool stays = exchanges && i % t->part_bytes >= own;
        if (to[i] != (stays ? 0 : byte_of(rank_of(rank, q), t->whole_bytes, at))) {
            CHECK(false, "%s of %llu bytes %s: byte %llu on rank %u",
                  exchanges ? "exchange" : "gather", (unsigned long long)t->whole_bytes, where,
                  (unsigned long long)i, rank->rank);
            return;
        }
    }
}

static void wait_for_stream(struct rank *rank)
{
    struct remat_wait wait = {0};
    while (rank->driver.cuStreamQuery(rank->stream) == CUDA_NOT_READY)
        remat_wait_pause(&wait);
}

/* Parts `stride` bytes apart. */
static void write_parts(struct rank *rank, const remat_transfer *t, const unsigned char *data,
                        uint64_t stride)
{
    for (uint32_t q = 0; q < t->size; q++)
        must_cuda(rank->driver.cuMemcpyHtoDAsync_v2(
            rank->memory + q * stride, data + q * t->part_bytes, t->part_bytes, rank->stream));
}

/* What it sends lies `at` bytes into the rank's memory. The receiver's ends where the result does,
 * so nothing may be written after it. `apart`: bytes between the parts that an exchange sends. */
static remat_transfer prepare(struct rank *rank, uint64_t length, bool exchanges, uint64_t apart,
                              uint64_t at)
{
    remat_transfer t = describe(rank, length);
    const struct cuda_driver *driver = &rank->driver;
    uint64_t bytes = exchanges ? t.size * t.part_bytes : length, to;
    unsigned char *data = calloc(1, BYTES);
    MUST(data);
    must_cuda(driver->cuMemAlloc_v2(&to, bytes));
    must_cuda(driver->cuMemsetD8Async(to, 0, bytes, rank->stream));
    uint64_t sent = fill(rank, &t, exchanges, data);
    t.stride_bytes = apart ? t.part_bytes + apart : 0;
    if (apart)
        write_parts(rank, &t, data, t.stride_bytes);
    else if (sent)
        must_cuda(driver->cuMemcpyHtoDAsync_v2(rank->memory + at, data, sent, rank->stream));
    wait_for_stream(rank);
    free(data);
    t.from = (const void *)(uintptr_t)(rank->memory + at);
    t.to = (void *)(uintptr_t)to;
    t.on_device = 1;
    t.stream = rank->stream;
    return t;
}

static void finish(struct rank *rank, const remat_transfer *t, bool exchanges)
{
    const struct cuda_driver *driver = &rank->driver;
    uint64_t bytes = exchanges ? t->size * t->part_bytes : t->whole_bytes;
    unsigned char *data = calloc(1, bytes);
    MUST(data);
    must_cuda(driver->cuMemcpyDtoHAsync_v2(data, (uintptr_t)t->to, bytes, rank->stream));
    wait_for_stream(rank);
    check_bytes(rank, t, exchanges, data, "on GPUs");
    must_cuda(driver->cuMemFree_v2((uintptr_t)t->to));
    free(data);
}

static void move(struct rank *rank, const remat_transfer *t, uint32_t count, bool exchanges)
{
    char message[REMAT_ENGINE_MESSAGE_BYTES] = "";
    MUST((exchanges ? rank->engine.exchange : rank->engine.gather)(rank->engine.user, t, count,
                                                                   message) == REMAT_OK,
         "%s", message);
    wait_for_stream(rank);
}

static void check_on_gpu(struct rank *rank, uint64_t length, bool exchanges, uint64_t apart)
{
    remat_transfer t = prepare(rank, length, exchanges, apart, 0);
    move(rank, &t, 1, exchanges);
    finish(rank, &t, exchanges);
}

static void check_group(struct rank *rank, bool exchanges)
{
    static const uint64_t lengths[] = {7 * 12, 1, 30001, 2 * RANKS + 1, 9 * 12};
    enum { GROUP = sizeof lengths / sizeof *lengths };
    remat_transfer t[GROUP];
    for (uint32_t k = 0; k < GROUP; k++)
        t[k] = prepare(rank, lengths[k], exchanges, 0, k * (BYTES / GROUP));
    move(rank, t, GROUP, exchanges);
    for (uint32_t k = 0; k < GROUP; k++)
        finish(rank, &t[k], exchanges);
}

static void check_on_host(struct rank *rank, uint64_t length)
{
    char message[REMAT_ENGINE_MESSAGE_BYTES] = "";
    remat_transfer t = describe(rank, length);
    unsigned char *from = calloc(1, length), *to = calloc(1, length);
    MUST(from && to);
    fill(rank, &t, false, from);
    t.from = from;
    t.to = to;
    MUST(rank->engine.gather(rank->engine.user, &t, 1, message) == REMAT_OK, "%s", message);
    check_bytes(rank, &t, false, to, "in the host's memory");
    free(from);
    free(to);
}

static void check_transfers(struct rank *rank)
{
    const struct cuda_driver *driver = &rank->driver;
    must_cuda(driver->cuCtxPushCurrent_v2(rank->context));
    must_cuda(driver->cuStreamCreate(&rank->stream, CUDA_STREAM_NON_BLOCKING));
    must_cuda(driver->cuMemAlloc_v2(&rank->memory, BYTES));
    for (uint64_t length = 1; length < 3 * RANKS; length++)
        for (int exchanges = 0; exchanges < 2; exchanges++) {
            rank->along_rows = rank->columns > 1 && length % 2;
            check_on_gpu(rank, length, exchanges, 0);
        }
    for (int exchanges = 0; exchanges < 2 && rank->plan; exchanges++)
        check_on_gpu(rank, 1000003, exchanges, 0);
    check_on_gpu(rank, describe(rank, 1).size, true, 5);
    check_on_gpu(rank, UINT64_C(1000) * describe(rank, 1).size, true, 77);
    check_group(rank, false);
    check_group(rank, true);
    must_cuda(driver->cuMemFree_v2(rank->memory));
    must_cuda(driver->cuStreamDestroy_v2(rank->stream));
    must_cuda(driver->cuCtxPopCurrent_v2(&rank->context));
    check_on_host(rank, 1);
    check_on_host(rank, 2 * RANKS + 1);
    check_on_host(rank, (UINT64_C(1) << 20) + 7); /* in pieces */
}

/* --- steps --- */

/* After a part that is shorter than a row of an exchange, the row is 0. */
static int check_rests(void *user, const remat_trace_event *event)
{
    struct rank *rank = user;
    struct remat_transfer_shape shape;
    if (!remat_command_transfer(rank->plan->program, event->command, &shape) ||
        shape.kind != REMAT_KERNEL_exchange)
        return 0;
    const char *data = event->values[0].data;
    uint64_t part = remat_transfer_part(&shape, rank->rank);
    MUST(data, "%s", event->name);
    for (uint64_t i = 0; i < RANKS * shape.part_bytes; i++)
        if (i % shape.part_bytes >= part && data[i])
            CHECK(false, "%s: byte %llu on rank %u is not 0", event->name, (unsigned long long)i,
                  rank->rank);
    rank->rests += shape.part_bytes - part;
    return 0;
}

static void write_zeros(struct rank *rank, remat_session *session)
{
    for (uint32_t t = 0; t < 2; t++) {
        const char *name = t ? "targets" : "tokens";
        remat_tensor_info info = {.struct_size = sizeof info};
        remat_plan_get_tensor(rank->plan, remat_plan_find_tensor(rank->plan, name), &info);
        void *ids = calloc(1, info.bytes);
        MUST(ids);
        MUST_OK(rank->ctx, remat_session_write(session, name, ids, info.bytes));
        free(ids);
    }
}

/* One rank is on a stream of the host's, so that nothing has waited for its steps. */
static void train(struct rank *rank, bool graphs, float *losses)
{
    remat_session *session;
    remat_session_params params;
    remat_session_params_init(&params);
    must_cuda(rank->driver.cuCtxPushCurrent_v2(rank->context));
    must_cuda(rank->driver.cuStreamCreate(&rank->stream, CUDA_STREAM_NON_BLOCKING));
    must_cuda(rank->driver.cuCtxPopCurrent_v2(&rank->context));
    if (rank->rank == 1)
        params.stream = rank->stream;
    params.device = "cuda";
    params.cuda_libraries = rank->libraries;
    params.ordinal = rank->rank;
    params.engine = &rank->engine;
    params.transfer_timeout_ns = TIMEOUT_NS;
    params.trace_copies = UINT32_MAX;
    params.cuda_graph_ranks = graphs;
    MUST_OK(rank->ctx, remat_session_create(rank->ctx, rank->plan, &params, &session));
    MUST_OK(rank->ctx, remat_session_run(session, "init"));
    write_zeros(rank, session);
    for (int32_t step = 1; step <= STEPS; step++) {
        float lr = 0.01f;
        MUST_OK(rank->ctx, remat_session_write(session, "lr", &lr, sizeof lr));
        MUST_OK(rank->ctx, remat_session_write(session, "step", &step, sizeof step));
        bool looks = step == STEPS - 1 && !graphs; /* memory is not as bind cleared it */
        remat_session_set_trace(session, looks ? check_rests : NULL, rank);
        MUST_OK(rank->ctx, remat_session_run(session, "train"));
        MUST_OK(rank->ctx, remat_session_read(session, "loss", &losses[step - 1], sizeof(float)));
    }
    remat_session_destroy(&session);
    must_cuda(rank->driver.cuCtxPushCurrent_v2(rank->context));
    must_cuda(rank->driver.cuStreamDestroy_v2(rank->stream));
    must_cuda(rank->driver.cuCtxPopCurrent_v2(&rank->context));
}

static void *run(void *user)
{
    struct rank *rank = user;
    check_transfers(rank);
    if (rank->plan)
        train(rank, false, rank->losses);
    if (rank->plan)
        train(rank, true, rank->of_graphs);
    return NULL;
}

static void open_rank(struct rank *rank)
{
    MUST(rank->ctx = remat_context_create(NULL, NULL));
    MUST_OK(rank->ctx, cuda_driver_open(rank->ctx, rank->libraries, &rank->driver));
    must_cuda(cuda_context_retain(&rank->driver, (int)rank->rank, &rank->context));
}

static void close_rank(struct rank *rank)
{
    must_cuda(rank->driver.cuDevicePrimaryCtxRelease_v2((int)rank->rank));
    cuda_driver_close(&rank->driver);
    remat_context_destroy(&rank->ctx);
}

static void check_losses(const struct rank *ranks)
{
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t step = 0; step < STEPS; step++)
            CHECK(ranks[r].losses[step] == ranks[0].losses[step] &&
                      ranks[r].of_graphs[step] == ranks[0].losses[step] &&
                      (step == 0 || ranks[r].losses[step] < ranks[r].losses[step - 1]),
                  "rank %u: loss %g after %u steps, with graphs %g, on rank 0 %g", r,
                  ranks[r].losses[step], step, ranks[r].of_graphs[step], ranks[0].losses[step]);
    for (uint32_t step = 0; step < STEPS; step++)
        printf("%a\n", ranks[0].losses[step]);
    CHECK(ranks[RANKS - 1].rests > 0, "all parts are equal");
}

/* Transfers and, unless it is NULL, steps of the plan. */
static void run_all(remat_context *ctx, uint32_t count, uint32_t columns, const remat_plan *plan,
                    const char *libraries)
{
    struct rank ranks[RANKS_MAX] = {0};
    pthread_t threads[RANKS_MAX];
    remat_nccl *nccl;
    const remat_nccl_params params = {.struct_size = sizeof params,
                                      .ranks = count,
                                      .here = count,
                                      .libraries = libraries,
                                      .timeout_ns = TIMEOUT_NS};
    MUST_OK(ctx, remat_nccl_create(ctx, &params, &nccl));
    for (uint32_t r = 0; r < count; r++) {
        ranks[r] =
            (struct rank){.rank = r, .columns = columns, .plan = plan, .libraries = libraries};
        remat_nccl_engine(nccl, r, &ranks[r].engine);
        open_rank(&ranks[r]);
        CHECK(remat_nccl_device_bytes(nccl, r) > 2 << 20, "rank %u: NCCL takes nothing", r);
    }
    for (uint32_t r = 0; r < count; r++)
        MUST(pthread_create(&threads[r], NULL, run, &ranks[r]) == 0);
    for (uint32_t r = 0; r < count; r++)
        pthread_join(threads[r], NULL);
    if (plan)
        check_losses(ranks);
    remat_nccl_destroy(&nccl);
    for (uint32_t r = 0; r < count; r++)
        close_rank(&ranks[r]);
}

int main(int argc, char **argv)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    remat_plan *plan;
    MUST(argc == 3);
    setenv("REMAT_DOUBLE_GPUS", "6", 1);
    setenv("REMAT_DOUBLE_NCCL", ".", 0);
    MUST_OK(ctx, remat_plan_load_file(ctx, argv[1], &plan));
    run_all(ctx, RANKS, 1, plan, argv[2]);
    run_all(ctx, 6, 2, NULL, argv[2]);
    run_all(ctx, 6, 3, NULL, argv[2]);
    remat_plan_destroy(&plan);
    remat_context_destroy(&ctx);
    return check_exit();
}
