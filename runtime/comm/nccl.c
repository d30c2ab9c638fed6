/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that have a GPU each, by NCCL, which is opened when it is needed. A transfer is sends and
 * receives on the session's stream, or ncclAllGather where all ranks gather equal parts; those that
 * are made at once are between one ncclGroupStart and ncclGroupEnd. One communicator of all ranks
 * does for the groups of every axis, as sends and receives concern those two alone: no order among
 * communicators can be wrong, and none has memory of its own. Nothing blocks: communicators are
 * made non-blocking, so that each call returns at once, and what is still under way is asked for
 * until it is done or a deadline is over. Aborting and destroying, which have been seen to hang,
 * happen in a thread that is abandoned when it is late. */
#include "comm.h"
#include "cuda_api.h"
#include "host.h"
#include "nccl_api.h"

#include <remat/engine.h>

#include <inttypes.h>
#include <pthread.h>

#define LIBRARY       "libnccl.so.2"
#define SCRATCH_BYTES (1u << 20) /* of the GPU: for what the host sends, and as much to receive */
#define TIMEOUT_NS    UINT64_C(600000000000)
#define END_NS        UINT64_C(10000000000)

struct nccl_rank {
    remat_nccl *all;
    uint32_t rank;
    int device;
    void *context, *stream; /* retained, own; NULL before */
    uint64_t scratch;
    size_t free_bytes, taken_bytes; /* of the GPU: before there was a communicator; by it */
    void *comm;                     /* NULL before, and after it was aborted */
    struct comm_call call;          /* see call_guarded */
    bool hangs;
};

struct remat_nccl {
    remat_context *ctx;
    void *library;
#define NCCL_FUNCTION(result, name, ...) result (*name)(__VA_ARGS__);
#include "nccl.def"
#undef NCCL_FUNCTION
    struct cuda_driver driver;
    uint64_t timeout_ns;
    pthread_mutex_t mutex; /* of the two below */
    remat_status failed;
    char message[REMAT_ENGINE_MESSAGE_BYTES]; /* why */
    uint32_t ranks, here;
    struct nccl_rank items[];
};

/* --- failure: the first one is that of all ranks of the process --- */

static void fail_all(remat_nccl *all, remat_status status, const char *message)
{
    pthread_mutex_lock(&all->mutex);
    if (all->failed == REMAT_OK) {
        snprintf(all->message, sizeof all->message, "%s", message);
        all->failed = status;
    }
    pthread_mutex_unlock(&all->mutex);
}

/* REMAT_OK: it has not. `message` may be NULL. */
static remat_status failure_of(remat_nccl *all, char *message)
{
    pthread_mutex_lock(&all->mutex);
    remat_status failed = all->failed;
    if (failed && message)
        snprintf(message, REMAT_ENGINE_MESSAGE_BYTES, "%s", all->message);
    pthread_mutex_unlock(&all->mutex);
    return failed;
}

static bool has_failed(remat_nccl *all)
{
    return failure_of(all, NULL) != REMAT_OK;
}

/* A call of NCCL or, where `result` is NCCL_IN_PROGRESS, a deadline. */
static void fail_call(struct nccl_rank *mine, int result, uint64_t timeout_ns, const char *what)
{
    char message[REMAT_ENGINE_MESSAGE_BYTES], host[REMAT_HOST_BYTES];
    remat_nccl *all = mine->all;
    bool lost = result == NCCL_IN_PROGRESS || result == NCCL_REMOTE_ERROR;
    remat_host_name(host);
    if (result == NCCL_IN_PROGRESS) {
        snprintf(message, sizeof message, "rank %" PRIu32 " on %s waited %.3g s for NCCL %.250s",
                 mine->rank, host, (double)timeout_ns / 1e9, what);
    } else {
        const char *last = all->GetLastError(mine->comm);
        snprintf(message, sizeof message,
                 "rank %" PRIu32 " on %s: NCCL failed %.250s: %.80s%s%.60s", mine->rank, host, what,
                 all->GetErrorString(result), last && *last ? ": " : "", last ? last : "");
    }
    fail_all(all, lost ? REMAT_ERROR_RANK_LOST : REMAT_ERROR_OTHER, message);
}

/* --- what may hang --- */

/* When it is late, what it uses stays for good. */
static void call_guarded(struct nccl_rank *mine, int (*function)(void *comm))
{
    uint64_t timeout_ns = mine->all->timeout_ns < END_NS ? mine->all->timeout_ns : END_NS;
    mine->call.function = function;
    mine->call.argument = mine->comm;
    mine->hangs = comm_call_within(&mine->call, timeout_ns) == REMAT_ERROR_RANK_LOST;
}

static void abort_comm(struct nccl_rank *mine)
{
    if (mine->comm)
        call_guarded(mine, mine->all->CommAbort);
    mine->comm = NULL;
}

/* --- waiting --- */

/* The result of the calls so far; NCCL_IN_PROGRESS when time is over or another rank failed. */
static int wait_for_calls(struct nccl_rank *mine, uint64_t timeout_ns)
{
    struct remat_wait wait = {0};
    int state = NCCL_IN_PROGRESS, result = 0;
    while (!(result = mine->all->CommGetAsyncError(mine->comm, &state)) &&
           state == NCCL_IN_PROGRESS && wait.waited_ns < timeout_ns && !has_failed(mine->all))
        remat_wait_pause(&wait);
    return result ? result : state;
}

static int wait_for_stream(struct nccl_rank *mine, uint64_t timeout_ns)
{
    struct remat_wait wait = {0};
    int result, state = 0;
    while ((result = mine->all->driver.cuStreamQuery(mine->stream)) == CUDA_NOT_READY &&
           wait.waited_ns < timeout_ns && !has_failed(mine->all)) {
        remat_wait_pause(&wait);
        if (mine->all->CommGetAsyncError(mine->comm, &state) || state)
            return state ? state : 1;
    }
    return result == CUDA_NOT_READY ? NCCL_IN_PROGRESS : result;
}

/* --- a transfer --- */

/* Within a group of NCCL's calls. */
static int post_parts(struct nccl_rank *mine, const remat_transfer *t, bool exchanges, void *stream)
{
    const remat_nccl *all = mine->all;
    uint64_t own = remat_transfer_bytes(t, t->position);
    char *to = t->to;
    int result = 0;
    for (uint32_t q = 0; q < t->size && !result; q++) {
        uint64_t theirs = remat_transfer_bytes(t, q), sent = exchanges ? theirs : own,
                 received = exchanges ? own : theirs;
        int peer = (int)remat_transfer_rank(t, mine->rank, q);
        if (sent)
            result = all->Send(exchanges ? remat_transfer_part_for(t, q) : t->from, sent, NCCL_CHAR,
                               peer, mine->comm, stream);
        if (received && !result)
            result =
                all->Recv(to + q * t->part_bytes, received, NCCL_CHAR, peer, mine->comm, stream);
    }
    return result;
}

static int post(struct nccl_rank *mine, const remat_transfer *t, bool exchanges, void *stream)
{
    bool all_equal = t->size == mine->all->ranks && t->size * t->part_bytes == t->whole_bytes;
    if (!exchanges && all_equal)
        return mine->all->AllGather(t->from, t->to, t->part_bytes, NCCL_CHAR, mine->comm, stream);
    return post_parts(mine, t, exchanges, stream);
}

static int post_group(struct nccl_rank *mine, const remat_transfer *t, uint32_t count,
                      bool exchanges, void *stream)
{
    int result = mine->all->GroupStart(), posted = 0;
    if (result)
        return result;
    for (uint32_t k = 0; k < count && !posted; k++)
        posted = post(mine, &t[k], exchanges, stream);
    result = mine->all->GroupEnd();
    if (posted || (result && result != NCCL_IN_PROGRESS))
        return posted ? posted : result;
    return wait_for_calls(mine, t->timeout_ns);
}

static remat_status move(struct nccl_rank *mine, const remat_transfer *t, uint32_t count,
                         bool exchanges, char *message)
{
    char what[DESCRIPTION_BYTES];
    int result = has_failed(mine->all) ? 0 : post_group(mine, t, count, exchanges, t->stream);
    remat_transfer_describe(t, count, what, sizeof what);
    if (result)
        fail_call(mine, result, t->timeout_ns, what);
    return failure_of(mine->all, message);
}

/* Bytes [at, at + bytes) of all parts, which are the host's. */
static int gather_piece(struct nccl_rank *mine, const remat_transfer *t, uint64_t at,
                        uint64_t bytes)
{
    const struct cuda_driver *driver = &mine->all->driver;
    uint64_t received = mine->scratch + SCRATCH_BYTES, own = remat_transfer_bytes(t, t->position);
    remat_transfer piece = *t;
    piece.part_bytes = bytes;
    piece.whole_bytes = t->size * bytes;
    piece.from = (const void *)(uintptr_t)mine->scratch;
    piece.to = (void *)(uintptr_t)received;
    int result = 0;
    if (own > at)
        result = driver->cuMemcpyHtoDAsync_v2(mine->scratch, (const char *)t->from + at,
                                              own - at < bytes ? own - at : bytes, mine->stream);
    if (!result)
        result = post_group(mine, &piece, 1, false, mine->stream);
    if (!result) /* before copies, which the driver may wait for */
        result = wait_for_stream(mine, t->timeout_ns);
    for (uint32_t q = 0; q < t->size && !result; q++) {
        uint64_t theirs = remat_transfer_bytes(t, q), rest = theirs > at ? theirs - at : 0;
        if (rest)
            result = driver->cuMemcpyDtoHAsync_v2((char *)t->to + q * t->part_bytes + at,
                                                  received + q * bytes, rest < bytes ? rest : bytes,
                                                  mine->stream);
    }
    return result ? result : wait_for_stream(mine, t->timeout_ns);
}

static remat_status gather_on_host(struct nccl_rank *mine, const remat_transfer *t, char *message)
{
    char what[DESCRIPTION_BYTES];
    uint64_t most = SCRATCH_BYTES / t->size;
    int result = 0;
    mine->all->driver.cuCtxPushCurrent_v2(mine->context);
    for (uint64_t at = 0; at < t->part_bytes && !result && !has_failed(mine->all); at += most)
        result = gather_piece(mine, t, at, t->part_bytes - at < most ? t->part_bytes - at : most);
    mine->all->driver.cuCtxPopCurrent_v2(&mine->context);
    remat_transfer_describe(t, 1, what, sizeof what);
    if (result)
        fail_call(mine, result, t->timeout_ns, what);
    return failure_of(mine->all, message);
}

static remat_status exchange(void *user, const remat_transfer *transfers, uint32_t count,
                             char message[REMAT_ENGINE_MESSAGE_BYTES])
{
    if (!transfers->on_device) {
        snprintf(message, REMAT_ENGINE_MESSAGE_BYTES, "NCCL exchanges what lies on GPUs");
        return REMAT_ERROR_USAGE;
    }
    return move(user, transfers, count, true, message);
}

static remat_status gather(void *user, const remat_transfer *transfers, uint32_t count,
                           char message[REMAT_ENGINE_MESSAGE_BYTES])
{
    remat_status st = REMAT_OK;
    if (transfers->on_device)
        return move(user, transfers, count, false, message);
    for (uint32_t k = 0; k < count && !st; k++)
        st = gather_on_host(user, &transfers[k], message);
    return st;
}

static remat_status check(void *user, char message[REMAT_ENGINE_MESSAGE_BYTES])
{
    struct nccl_rank *mine = user;
    int state = 0;
    if (!has_failed(mine->all)) {
        int result = mine->all->CommGetAsyncError(mine->comm, &state);
        if (result || (state && state != NCCL_IN_PROGRESS))
            fail_call(mine, result ? result : state, 0, "while its GPU works");
    }
    return failure_of(mine->all, message);
}

/* What is on the streams ends when communicators are aborted. Other ranks of the process do that
 * when they hear of it, each in its thread. */
static void fail(void *user, remat_status status, const char *why)
{
    struct nccl_rank *mine = user;
    char message[REMAT_ENGINE_MESSAGE_BYTES];
    snprintf(message, sizeof message, "rank %" PRIu32 " failed: %.400s", mine->rank, why);
    fail_all(mine->all, status, message);
    abort_comm(mine);
}

/* --- life --- */

static remat_status open_library(remat_nccl *all, const char *folder)
{
    int version = 0;
    all->library = folder ? cuda_library_open(folder, LIBRARY) : NULL;
    if (!all->library)
        all->library = cuda_library_open(NULL, LIBRARY);
    if (!all->library)
        return remat_error(all->ctx, REMAT_ERROR_IO,
                           "cannot open NCCL, " LIBRARY "%s%s: install it, or the wheel "
                           "nvidia-nccl-cu13 or nvidia-nccl-cu12, or name the folder of the "
                           "library with --cuda-libraries",
                           folder ? ", in " : "", folder ? folder : "");
#define NCCL_FUNCTION(result, name, ...)                                                           \
    if (!cuda_library_find(all->library, "nccl" #name, &all->name))                                \
        return remat_error(all->ctx, REMAT_ERROR_IO,                                               \
                           "NCCL has no function nccl" #name ": install 2.14 or newer");
#include "nccl.def"
#undef NCCL_FUNCTION
    if (all->GetVersion(&version) || version < NCCL_CONFIG_VERSION)
        return remat_error(all->ctx, REMAT_ERROR_IO, "NCCL has version %d: install 2.14 or newer",
                           version);
    return REMAT_OK;
}

static remat_status open_gpu(struct nccl_rank *mine, uint32_t ordinal)
{
    remat_status st = REMAT_OK;
    remat_nccl *all = mine->all;
    const struct cuda_driver *driver = &all->driver;
    size_t total = 0;
    if (driver->cuDeviceGet(&mine->device, (int)ordinal))
        REMAT_FAIL(all->ctx, REMAT_ERROR_USAGE, "there is no GPU %" PRIu32 " for rank %" PRIu32,
                   ordinal, mine->rank);
    int result = cuda_context_retain(driver, mine->device, &mine->context);
    if (result)
        mine->context = NULL;
    REMAT_TRY(cuda_check(all->ctx, driver, result, "cuDevicePrimaryCtxRetain"));
    CUDA_TRY(all->ctx, driver, cuCtxPushCurrent_v2, mine->context);
    result = driver->cuStreamCreate(&mine->stream, CUDA_STREAM_NON_BLOCKING);
    if (!result)
        result = driver->cuMemGetInfo_v2(&mine->free_bytes, &total);
    if (!result)
        result = driver->cuMemAlloc_v2(&mine->scratch, 2 * SCRATCH_BYTES);
    driver->cuCtxPopCurrent_v2(&mine->context);
    st = cuda_check(all->ctx, driver, result, "a stream and memory for NCCL");
fail:
    return st;
}

/* The first process's NCCL makes it, and `meet` brings it to all; without, NCCL itself has one for
 * all from its environment, or there is one process. */
static remat_status find_id(remat_nccl *all, const remat_engine *meet, struct nccl_id *out)
{
    remat_status st = REMAT_OK;
    char message[REMAT_ENGINE_MESSAGE_BYTES] = "";
    struct nccl_id *ids = NULL;
    int result = meet && meet->rank > 0 ? 0 : all->GetUniqueId(out);
    if (result)
        REMAT_FAIL(all->ctx, REMAT_ERROR_IO, "NCCL has no id for its ranks: %s: %s",
                   all->GetErrorString(result), all->GetLastError(NULL));
    if (!meet)
        return REMAT_OK;
    ids = remat_reallocate(all->ctx, NULL, meet->ranks * sizeof *ids);
    if (!ids)
        return REMAT_ERROR_MEMORY;
    const remat_transfer transfer = {.struct_size = sizeof transfer,
                                     .name = "NCCL's id",
                                     .size = meet->ranks,
                                     .position = meet->rank,
                                     .part_bytes = sizeof *ids,
                                     .whole_bytes = meet->ranks * sizeof *ids,
                                     .from = out,
                                     .to = ids,
                                     .timeout_ns = all->timeout_ns};
    st = meet->gather(meet->user, &transfer, 1, message);
    if (st)
        REMAT_FAIL(all->ctx, st, "%s", message);
    *out = ids[0];
fail:
    if (ids)
        remat_reallocate(all->ctx, ids, 0);
    return st;
}

typedef int step_function(struct nccl_rank *mine, const void *user);

/* One step of all ranks of the process together, and until it is done. */
static remat_status step_all(remat_nccl *all, step_function *step, const void *user,
                             const char *what)
{
    int result = all->GroupStart();
    for (uint32_t i = 0; i < all->here && !result; i++) {
        all->driver.cuCtxPushCurrent_v2(all->items[i].context);
        result = step(&all->items[i], user);
        all->driver.cuCtxPopCurrent_v2(&all->items[i].context);
        result = result == NCCL_IN_PROGRESS ? 0 : result;
    }
    int ended = all->GroupEnd();
    result = result || ended == NCCL_IN_PROGRESS ? result : ended;
    for (uint32_t i = 0; i < all->here && !result; i++) {
        result = wait_for_calls(&all->items[i], all->timeout_ns);
        if (result)
            fail_call(&all->items[i], result, all->timeout_ns, what);
    }
    if (result && !has_failed(all))
        fail_call(&all->items[0], result, all->timeout_ns, what);
    return result ? remat_error(all->ctx, all->failed, "%s", all->message) : REMAT_OK;
}

static int start_comm(struct nccl_rank *mine, const void *id)
{
    struct nccl_config config = {sizeof config, NCCL_CONFIG_MAGIC, NCCL_CONFIG_VERSION, 0};
    return mine->all->CommInitRankConfig(&mine->comm, (int)mine->all->ranks,
                                         *(const struct nccl_id *)id, (int)mine->rank, &config);
}

/* So that NCCL has made its connections, and their memory counts, before sessions look. */
static int start_transfer(struct nccl_rank *mine, const void *exchanges)
{
    uint32_t ranks = mine->all->ranks;
    uint64_t part = ranks > SCRATCH_BYTES ? 1 : SCRATCH_BYTES / ranks;
    const remat_transfer transfer = {.size = ranks,
                                     .position = mine->rank,
                                     .part_bytes = part,
                                     .whole_bytes = ranks * part,
                                     .from = (const void *)(uintptr_t)mine->scratch,
                                     .to = (void *)(uintptr_t)(mine->scratch + SCRATCH_BYTES)};
    return post(mine, &transfer, *(const bool *)exchanges, mine->stream);
}

static int finalize(struct nccl_rank *mine, const void *user)
{
    (void)user;
    return mine->all->CommFinalize(mine->comm);
}

static remat_status warm_up(remat_nccl *all)
{
    remat_status st = REMAT_OK;
    size_t available, total;
    for (int k = 0; k < 2; k++)
        REMAT_TRY(step_all(all, start_transfer, &(bool){k == 0}, "to make connections"));
    for (uint32_t i = 0; i < all->here; i++) {
        struct nccl_rank *mine = &all->items[i];
        all->driver.cuCtxPushCurrent_v2(mine->context);
        int result = wait_for_stream(mine, all->timeout_ns);
        if (result)
            fail_call(mine, result, all->timeout_ns, "to make connections");
        else if (!all->driver.cuMemGetInfo_v2(&available, &total) && available < mine->free_bytes)
            mine->taken_bytes = mine->free_bytes - available;
        all->driver.cuCtxPopCurrent_v2(&mine->context);
    }
    if (has_failed(all))
        st = remat_error(all->ctx, all->failed, "%s", all->message);
fail:
    return st;
}

static remat_status check_params(remat_context *ctx, const remat_nccl_params *params)
{
    if (params->struct_size < sizeof *params || params->here == 0 ||
        params->first >= params->ranks || params->here > params->ranks - params->first)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "NCCL for ranks %" PRIu32 " and %" PRIu32 " more, of %" PRIu32,
                           params->first, params->here, params->ranks);
    return REMAT_OK;
}

remat_status remat_nccl_create(remat_context *ctx, const remat_nccl_params *params,
                               remat_nccl **out)
{
    remat_status st = REMAT_OK;
    struct nccl_id id = {{0}};
    *out = NULL;
    REMAT_TRY(check_params(ctx, params));
    size_t bytes = sizeof(remat_nccl) + params->here * sizeof(struct nccl_rank);
    remat_nccl *all = *out = remat_reallocate(ctx, NULL, bytes);
    if (!all)
        return REMAT_ERROR_MEMORY;
    memset(all, 0, bytes);
    all->ctx = ctx;
    all->ranks = params->ranks;
    all->here = params->here;
    all->timeout_ns = params->timeout_ns ? params->timeout_ns : TIMEOUT_NS;
    pthread_mutex_init(&all->mutex, NULL); /* cannot fail without attributes */
    for (uint32_t i = 0; i < all->here; i++)
        all->items[i] = (struct nccl_rank){.all = all, .rank = params->first + i};
    REMAT_TRY(open_library(all, params->libraries));
    REMAT_TRY(cuda_driver_open(ctx, params->libraries, &all->driver));
    for (uint32_t i = 0; i < all->here; i++)
        REMAT_TRY(open_gpu(&all->items[i], params->ordinal + i));
    REMAT_TRY(find_id(all, params->meet, &id));
    REMAT_TRY(step_all(all, start_comm, &id, "to bring all ranks together"));
    REMAT_TRY(warm_up(all));
    return REMAT_OK;
fail:
    remat_nccl_destroy(out);
    return st;
}

static void close_gpu(struct nccl_rank *mine)
{
    const struct cuda_driver *driver = &mine->all->driver;
    if (!mine->context)
        return;
    driver->cuCtxPushCurrent_v2(mine->context);
    if (mine->scratch)
        driver->cuMemFree_v2(mine->scratch);
    if (mine->stream)
        driver->cuStreamDestroy_v2(mine->stream);
    driver->cuCtxPopCurrent_v2(&mine->context);
    driver->cuDevicePrimaryCtxRelease_v2(mine->device);
}

void remat_nccl_destroy(remat_nccl **nccl)
{
    remat_nccl *all = *nccl;
    if (!all)
        return;
    bool hangs = false, whole = !all->failed && all->items[all->here - 1].comm;
    if (whole)
        whole = step_all(all, finalize, NULL, "to end") == REMAT_OK;
    for (uint32_t i = 0; i < all->here; i++) {
        if (whole)
            call_guarded(&all->items[i], all->CommDestroy);
        else
            abort_comm(&all->items[i]);
        hangs |= all->items[i].hangs;
    }
    /* After a failure freeing anything may wait for a transfer that does not end. */
    for (uint32_t i = 0; i < all->here && !all->failed && !hangs; i++)
        close_gpu(&all->items[i]);
    if (!hangs) {
        cuda_driver_close(&all->driver);
        pthread_mutex_destroy(&all->mutex);
        remat_reallocate(all->ctx, all, 0); /* the library stays: it has threads */
    }
    *nccl = NULL;
}

uint64_t remat_nccl_device_bytes(const remat_nccl *nccl, uint32_t rank)
{
    return nccl->items[rank].taken_bytes;
}

void remat_nccl_engine(remat_nccl *nccl, uint32_t rank, remat_engine *out)
{
    *out = (remat_engine){
        .struct_size = sizeof *out,
        .name = "nccl",
        .user = &nccl->items[rank],
        .rank = nccl->items[rank].rank,
        .ranks = nccl->ranks,
        .on_device = 1,
        .exchange = exchange,
        .gather = gather,
        .fail = fail,
        .check = check,
    };
}

/* --- by name --- */

static remat_status open_kind(remat_context *ctx, const remat_engines_params *params, void **out)
{
    remat_nccl *nccl;
    const remat_nccl_params own = {.struct_size = sizeof own,
                                   .ranks = params->ranks,
                                   .first = params->first,
                                   .here = params->here,
                                   .ordinal = params->ordinal,
                                   .libraries = params->libraries,
                                   .meet = params->meet,
                                   .timeout_ns = params->timeout_ns};
    remat_status st = remat_nccl_create(ctx, &own, &nccl);
    *out = nccl;
    return st;
}

static void get_engine(void *opened, uint32_t rank, remat_engine *out)
{
    remat_nccl_engine(opened, rank, out);
}

static uint64_t device_bytes(const void *opened, uint32_t rank)
{
    return remat_nccl_device_bytes(opened, rank);
}

static void close_kind(void *opened)
{
    remat_nccl_destroy(&(remat_nccl *){opened});
}

const struct comm_kind comm_kind_nccl = {
    .kind = {.name = "nccl", .on_device = 1, .between_threads = 1, .between_processes = ""},
    .open = open_kind,
    .get = get_engine,
    .device_bytes = device_bytes,
    .close = close_kind,
};
