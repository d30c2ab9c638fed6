/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are threads of one process. Transfers that are made at once are two meetings of the
 * ranks of a group: when the last one has come every rank reads the others' memory, and when the
 * last one has read it may change. Who has come to the first and found all with the same transfers
 * comes to the second, whatever fails, so memory that is read stays.
 *
 * A rank may have a plan of its own and destroy it when it has left. What others then say of it is
 * the copy that it made of its first transfer.
 *
 * Groups meet by themselves. A rank may be at a meeting along each axis at once, and at one of all
 * ranks: each is a stream. As all ranks make the same transfers, they are at their k-th call of a
 * stream at the same meeting: one that is further, or there with another group, does not make the
 * same. Nor does one that is in another stream with the same transfer. */
#include "comm.h"
#include "host.h"

#include <assert.h>
#include <remat/engine.h>

#include <inttypes.h>
#include <pthread.h>
#include <time.h>

enum { STREAMS = 8 }; /* of all ranks, then of each axis */

struct local_stream {
    struct local_rank *rank;
    uint64_t begun, read;    /* meetings: that it came to; at which it has read all */
    bool exchanges;          /* at the last one: exchanges, else gathers */
    remat_transfer transfer; /* the first of them; its names are the two below */
    char name[129], axis[33];
    const remat_transfer *transfers; /* all; NULL when it has left the meeting */
    uint32_t count;
};

struct local_rank {
    remat_local_ranks *all;
    uint32_t rank;
    bool asked, missing; /* when one is late */
    struct local_stream streams[STREAMS];
};

struct remat_local_ranks {
    remat_context *ctx;
    pthread_mutex_t mutex; /* of all that follows */
    pthread_cond_t changed;
    uint32_t count;
    remat_status failed;
    char message[REMAT_ENGINE_MESSAGE_BYTES]; /* why */
    struct local_rank ranks[];
};

/* --- failure, with the mutex held --- */

/* The first failure is that of all ranks. */
static void fail_all(remat_local_ranks *all, remat_status status, const char *message)
{
    if (all->failed == REMAT_OK) {
        snprintf(all->message, sizeof all->message, "%s", message);
        all->failed = status;
    }
    pthread_cond_broadcast(&all->changed);
}

static struct local_stream *stream_of(struct local_rank *rank, const remat_transfer *transfer)
{
    return &rank->streams[transfer->axis ? 1 + transfer->group % (STREAMS - 1) : 0];
}

/* Of its group. */
static struct local_stream *member(const struct local_stream *mine, uint32_t position)
{
    uint32_t rank = remat_transfer_rank(&mine->transfer, mine->rank->rank, position);
    return &mine->rank->all->ranks[rank].streams[mine - mine->rank->streams];
}

/* Marks those of its group that have begun fewer transfers and, of those that themselves wait for
 * others, whom they wait for instead. */
static void mark_missing(struct local_stream *mine)
{
    for (uint32_t q = 0; q < mine->transfer.size; q++) {
        struct local_stream *other = member(mine, q);
        if (other->begun >= mine->begun || other->rank->asked)
            continue;
        other->rank->asked = other->rank->missing = true;
        for (struct local_stream *stream = other->rank->streams;
             stream < other->rank->streams + STREAMS; stream++)
            if (stream->begun != stream->read) {
                other->rank->missing = false;
                mark_missing(stream);
            }
    }
}

/* "1, 2, 5" */
static void list_missing(struct local_stream *mine, char *out, size_t bytes)
{
    size_t length = 0;
    const remat_local_ranks *all = mine->rank->all;
    *out = 0;
    mark_missing(mine);
    for (uint32_t r = 0; r < all->count && length + 16 < bytes; r++)
        if (all->ranks[r].missing)
            length +=
                (size_t)snprintf(out + length, bytes - length, "%s%" PRIu32, length ? ", " : "", r);
}

static void fail_late(struct local_stream *mine)
{
    char missing[128], where[DESCRIPTION_BYTES], message[REMAT_ENGINE_MESSAGE_BYTES];
    list_missing(mine, missing, sizeof missing);
    remat_transfer_describe(&mine->transfer, mine->count, where, sizeof where);
    snprintf(message, sizeof message, "rank %" PRIu32 " waited %.3g s %s; missing: rank %s",
             mine->rank->rank, (double)mine->transfer.timeout_ns / 1e9, where, missing);
    fail_all(mine->rank->all, REMAT_ERROR_RANK_LOST, message);
}

static bool same_transfer(const remat_transfer *a, const remat_transfer *b)
{
    return a->rank_stride == b->rank_stride && a->sequence == b->sequence && a->group == b->group &&
           a->size == b->size && strcmp(a->name, b->name) == 0 && a->part_bytes == b->part_bytes &&
           a->whole_bytes == b->whole_bytes;
}

/* Which of the transfers is the first that they do not have in common; a->count: none. */
static uint32_t first_difference(const struct local_stream *a, const struct local_stream *b)
{
    uint32_t k = 0;
    if (a->begun != b->begun || a->exchanges != b->exchanges || member(a, 0) != member(b, 0) ||
        !a->transfers || !b->transfers)
        return 0;
    while (k < a->count && k < b->count && same_transfer(&a->transfers[k], &b->transfers[k]))
        k++;
    return k;
}

static bool same_transfers(const struct local_stream *a, const struct local_stream *b)
{
    return a->count == b->count && first_difference(a, b) == a->count;
}

static void append(char *message, const struct local_stream *stream, uint32_t k, const char *before)
{
    const remat_transfer *t = k == 0 ? &stream->transfer : &stream->transfers[k];
    size_t length = strlen(message), rest = REMAT_ENGINE_MESSAGE_BYTES - length;
    if (k == stream->count)
        snprintf(message + length, rest, "%sno more than %" PRIu32 " at once on rank %" PRIu32,
                 before, stream->count, stream->rank->rank);
    else
        snprintf(message + length, rest,
                 "%s%s %" PRIu64 " \"%.80s\" of %" PRIu64 " bytes %s %.16s on rank %" PRIu32,
                 before, stream->exchanges ? "exchange" : "gather", t->sequence, t->name,
                 t->whole_bytes, t->axis ? "along" : "among", t->axis ? t->axis : "all",
                 stream->rank->rank);
}

/* Every rank compares all of its group, so that none reads what is not there. */
static void fail_different(const struct local_stream *a, const struct local_stream *b, uint32_t k)
{
    char message[REMAT_ENGINE_MESSAGE_BYTES] = "ranks differ: ";
    append(message, a, k, "");
    append(message, b, k, ", ");
    fail_all(a->rank->all, REMAT_ERROR_OTHER, message);
}

static bool compare_all(const struct local_stream *mine)
{
    const struct local_stream *first = member(mine, 0), *other = mine;
    uint32_t q = 0;
    while (q < mine->transfer.size && same_transfers(mine, member(mine, q)))
        q++;
    if (q == mine->transfer.size)
        return true;
    if (same_transfers(mine, first))
        other = member(mine, q);
    fail_different(first, other, first_difference(first, other));
    return false;
}

/* One of its group that is in another stream with the same transfer, or NULL. */
static const struct local_stream *find_elsewhere(const struct local_stream *mine)
{
    const struct local_stream *found = NULL;
    for (uint32_t q = 0; q < mine->transfer.size && mine->transfer.axis; q++) {
        const struct local_stream *streams = member(mine, q)->rank->streams;
        for (uint32_t l = 1; l < STREAMS; l++)
            if (&streams[l] != member(mine, q) && streams[l].transfers &&
                streams[l].transfer.sequence < mine->transfer.sequence + mine->count &&
                mine->transfer.sequence < streams[l].transfer.sequence + streams[l].count)
                found = &streams[l];
    }
    return found;
}

/* --- meeting --- */

#define SECOND_NS UINT64_C(1000000000)

/* Waits for a change, at most for what is left of a deadline and for a second, and takes that time
 * off what is left: a process that was stopped for longer (Ctrl-Z) is not late for it. */
static void wait_for_change(remat_local_ranks *all, uint64_t *left_ns)
{
    struct timespec until;
    uint64_t slice_ns = *left_ns < SECOND_NS ? *left_ns : SECOND_NS, begin_ns = remat_now_ns();
    uint64_t end_ns = begin_ns + slice_ns;
    until.tv_sec = (time_t)(end_ns / SECOND_NS);
    until.tv_nsec = (long)(end_ns % SECOND_NS);
    pthread_cond_timedwait(&all->changed, &all->mutex, &until);
    uint64_t waited_ns = remat_now_ns() - begin_ns;
    *left_ns -= waited_ns < slice_ns ? waited_ns : slice_ns;
}

static bool all_have_come(const struct local_stream *mine)
{
    bool all = true;
    for (uint32_t q = 0; q < mine->transfer.size; q++)
        all &= member(mine, q)->begun >= mine->begun;
    return all;
}

static bool all_have_read(const struct local_stream *mine)
{
    bool all = true;
    for (uint32_t q = 0; q < mine->transfer.size; q++)
        all &= member(mine, q)->read >= mine->begun;
    return all;
}

/* What messages say of a rank, also when it has left. */
static void keep_first(struct local_stream *mine, const remat_transfer *first)
{
    mine->transfer = *first;
    mine->transfer.name = mine->name;
    snprintf(mine->name, sizeof mine->name, "%s", first->name);
    mine->transfer.axis = first->axis ? mine->axis : NULL;
    snprintf(mine->axis, sizeof mine->axis, "%s", first->axis ? first->axis : "");
}

/* Before anything is read. False: there is nothing to read, as a rank has failed, is late or has
 * come with another transfer. */
static bool wait_for_all(struct local_stream *mine, const remat_transfer *transfers, uint32_t count,
                         bool exchanges)
{
    remat_local_ranks *all = mine->rank->all;
    uint64_t left_ns = transfers->timeout_ns;
    pthread_mutex_lock(&all->mutex);
    bool comes = !all->failed, held = false;
    if (comes) {
        keep_first(mine, transfers);
        mine->transfers = transfers;
        mine->count = count;
        mine->exchanges = exchanges;
        mine->begun++;
        pthread_cond_broadcast(&all->changed);
    }
    const struct local_stream *other = comes ? find_elsewhere(mine) : NULL;
    if (other)
        fail_different(mine, other, 0);
    while (comes && !(held = all_have_come(mine)) && !all->failed && left_ns > 0)
        wait_for_change(all, &left_ns);
    if (comes && !held && !all->failed)
        fail_late(mine);
    held = held && compare_all(mine);
    if (!held)
        mine->transfers = NULL;
    pthread_mutex_unlock(&all->mutex);
    return held;
}

/* After everything is read: all come, and soon. False: some rank has failed. */
static bool wait_for_readers(struct local_stream *mine)
{
    remat_local_ranks *all = mine->rank->all;
    pthread_mutex_lock(&all->mutex);
    mine->read = mine->begun;
    pthread_cond_broadcast(&all->changed);
    while (!all_have_read(mine))
        pthread_cond_wait(&all->changed, &all->mutex);
    mine->transfers = NULL;
    bool good = !all->failed;
    pthread_mutex_unlock(&all->mutex);
    return good;
}

static remat_status refuse(struct local_stream *mine, char *message)
{
    pthread_mutex_lock(&mine->rank->all->mutex);
    snprintf(message, REMAT_ENGINE_MESSAGE_BYTES, "%s", mine->rank->all->message);
    remat_status st = mine->rank->all->failed;
    pthread_mutex_unlock(&mine->rank->all->mutex);
    return st;
}

/* --- transfers --- */

static void copy_parts(const struct local_stream *mine, uint32_t k)
{
    const remat_transfer *t = &mine->transfers[k];
    for (uint32_t q = 0; q < t->size; q++) {
        const remat_transfer *theirs = &member(mine, q)->transfers[k];
        const void *from = theirs->from;
        char *to = (char *)t->to + q * t->part_bytes;
        uint64_t bytes = remat_transfer_bytes(t, mine->exchanges ? t->position : q);
        if (mine->exchanges && bytes)
            from = remat_transfer_part_for(theirs, t->position);
        if (bytes)
            memcpy(to, from, bytes);
    }
}

static remat_status transfer_all(struct local_rank *rank, const remat_transfer *transfers,
                                 uint32_t count, bool exchanges, char *message)
{
    struct local_stream *mine = stream_of(rank, transfers);
    if (!wait_for_all(mine, transfers, count, exchanges))
        return refuse(mine, message);
    for (uint32_t k = 0; k < count; k++)
        copy_parts(mine, k);
    return wait_for_readers(mine) ? REMAT_OK : refuse(mine, message);
}

static remat_status exchange(void *user, const remat_transfer *transfers, uint32_t count,
                             char message[REMAT_ENGINE_MESSAGE_BYTES])
{
    return transfer_all(user, transfers, count, true, message);
}

static remat_status gather(void *user, const remat_transfer *transfers, uint32_t count,
                           char message[REMAT_ENGINE_MESSAGE_BYTES])
{
    return transfer_all(user, transfers, count, false, message);
}

static remat_status check(void *user, char message[REMAT_ENGINE_MESSAGE_BYTES])
{
    struct local_rank *mine = user;
    pthread_mutex_lock(&mine->all->mutex);
    bool failed = mine->all->failed;
    pthread_mutex_unlock(&mine->all->mutex);
    return failed ? refuse(&mine->streams[0], message) : REMAT_OK;
}

static void fail(void *user, remat_status status, const char *why)
{
    struct local_rank *mine = user;
    char message[REMAT_ENGINE_MESSAGE_BYTES];
    snprintf(message, sizeof message, "rank %" PRIu32 " failed: %.400s", mine->rank, why);
    pthread_mutex_lock(&mine->all->mutex);
    fail_all(mine->all, status, message);
    pthread_mutex_unlock(&mine->all->mutex);
}

/* --- life --- */

static bool make_condition(pthread_cond_t *out)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes))
        return false;
    bool good = !pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) &&
                !pthread_cond_init(out, &attributes);
    pthread_condattr_destroy(&attributes);
    return good;
}

remat_status remat_local_create(remat_context *ctx, uint32_t ranks, remat_local_ranks **out)
{
    *out = NULL;
    if (ranks == 0)
        return remat_error(ctx, REMAT_ERROR_USAGE, "0 ranks");
    size_t bytes = sizeof(remat_local_ranks) + ranks * sizeof(struct local_rank);
    remat_local_ranks *all = remat_reallocate(ctx, NULL, bytes);
    if (!all)
        return REMAT_ERROR_MEMORY;
    memset(all, 0, bytes);
    all->ctx = ctx;
    all->count = ranks;
    for (uint32_t r = 0; r < ranks; r++) {
        all->ranks[r] = (struct local_rank){.all = all, .rank = r};
        for (uint32_t l = 0; l < STREAMS; l++)
            all->ranks[r].streams[l].rank = &all->ranks[r];
    }
    if (!make_condition(&all->changed)) {
        remat_reallocate(ctx, all, 0);
        return remat_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    }
    pthread_mutex_init(&all->mutex, NULL); /* cannot fail without attributes */
    *out = all;
    return REMAT_OK;
}

void remat_local_destroy(remat_local_ranks **local)
{
    remat_local_ranks *all = *local;
    if (!all)
        return;
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->mutex);
    remat_reallocate(all->ctx, all, 0);
    *local = NULL;
}

void remat_local_engine(remat_local_ranks *local, uint32_t rank, remat_engine *out)
{
    assert(rank < local->count);
    *out = (remat_engine){
        .struct_size = sizeof *out,
        .name = "local",
        .user = &local->ranks[rank],
        .rank = rank,
        .ranks = local->count,
        .exchange = exchange,
        .gather = gather,
        .fail = fail,
        .check = check,
        .concurrent = 1,
    };
}

/* --- by name --- */

static remat_status open_kind(remat_context *ctx, const remat_engines_params *params, void **out)
{
    remat_local_ranks *local;
    if (params->here != params->ranks)
        return remat_error(ctx, REMAT_ERROR_USAGE, "%" PRIu32 " of %" PRIu32 " ranks are threads",
                           params->here, params->ranks);
    remat_status st = remat_local_create(ctx, params->ranks, &local);
    *out = local;
    return st;
}

static void get_engine(void *opened, uint32_t rank, remat_engine *out)
{
    remat_local_engine(opened, rank, out);
}

static void close_kind(void *opened)
{
    remat_local_destroy(&(remat_local_ranks *){opened});
}

const struct comm_kind comm_kind_local = {
    .kind = {.name = "local", .between_threads = 1},
    .open = open_kind,
    .get = get_engine,
    .close = close_kind,
};
