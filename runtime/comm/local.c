/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are threads of one process. A group of transfers is two meetings of all ranks: when
 * the last one has come every rank reads the others' memory, and when the last one has read it may
 * change. Who has come to the first comes to the second, whatever fails, so memory that is read
 * stays. */
#include "comm.h"

#include <remat/engine.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

struct local_rank {
    remat_local_ranks *all;
    uint32_t rank;
    uint64_t meetings; /* that it came to */
    /* What it came with, until it leaves: exchanges, else gathers. */
    bool exchanges;
    const remat_transfer *transfers;
    uint32_t count;
};

struct remat_local_ranks {
    remat_context *ctx;
    pthread_mutex_t mutex; /* of all that follows */
    pthread_cond_t changed;
    uint64_t meetings; /* that were held */
    uint32_t arrived;  /* ranks that wait for the next one */
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

/* "1, 2, 5": those that have come to fewer meetings. */
static void list_missing(const remat_local_ranks *all, uint64_t meetings, char *out, size_t bytes)
{
    size_t length = 0;
    *out = 0;
    for (uint32_t r = 0; r < all->count && length + 16 < bytes; r++)
        if (all->ranks[r].meetings < meetings)
            length +=
                (size_t)snprintf(out + length, bytes - length, "%s%" PRIu32, length ? ", " : "", r);
}

static void fail_late(remat_local_ranks *all, const struct local_rank *mine)
{
    char missing[128], where[DESCRIPTION_BYTES], message[REMAT_ENGINE_MESSAGE_BYTES];
    list_missing(all, mine->meetings, missing, sizeof missing);
    remat_transfer_describe(mine->transfers, mine->count, where, sizeof where);
    snprintf(message, sizeof message, "rank %" PRIu32 " waited %.3g s %s; missing: rank %s",
             mine->rank, (double)mine->transfers->timeout_ns / 1e9, where, missing);
    fail_all(all, REMAT_ERROR_RANK_LOST, message);
}

static bool same_transfer(const remat_transfer *a, const remat_transfer *b)
{
    return a->sequence == b->sequence && a->axis_number == b->axis_number && a->size == b->size &&
           strcmp(a->name, b->name) == 0 && a->part_bytes == b->part_bytes &&
           a->whole_bytes == b->whole_bytes;
}

/* The first transfer in which they differ; as many as there are: in none. */
static uint32_t first_difference(const struct local_rank *a, const struct local_rank *b)
{
    uint32_t k = 0;
    while (a->exchanges == b->exchanges && k < a->count && k < b->count &&
           same_transfer(&a->transfers[k], &b->transfers[k]))
        k++;
    return k;
}

static void append(char *message, const struct local_rank *rank, uint32_t k)
{
    const remat_transfer *t = &rank->transfers[k];
    size_t length = strlen(message), rest = REMAT_ENGINE_MESSAGE_BYTES - length;
    if (k == rank->count)
        snprintf(message + length, rest, "no more in a group of %" PRIu32 " on rank %" PRIu32,
                 rank->count, rank->rank);
    else
        snprintf(message + length, rest,
                 "%s %" PRIu64 " \"%.96s\" of %" PRIu64 " bytes along axis %" PRIu32
                 " on rank %" PRIu32,
                 rank->exchanges ? "exchange" : "gather", t->sequence, t->name, t->whole_bytes,
                 t->axis_number, rank->rank);
}

/* Every rank compares all, so that none reads what is not there. */
static void compare_all(remat_local_ranks *all)
{
    char message[REMAT_ENGINE_MESSAGE_BYTES] = "ranks differ: ";
    const struct local_rank *first = &all->ranks[0];
    for (uint32_t r = 1; r < all->count; r++) {
        uint32_t k = first_difference(first, &all->ranks[r]);
        if (k == first->count && k == all->ranks[r].count)
            continue;
        append(message, first, k);
        strcat(message, ", ");
        append(message, &all->ranks[r], k);
        fail_all(all, REMAT_ERROR_OTHER, message);
        return;
    }
}

/* --- meeting --- */

#define SECOND_NS UINT64_C(1000000000)

/* Waits for a change, at most for what is left of a deadline and for a second, which is taken off
 * what is left: a process that was stopped for longer (Ctrl-Z) is not late for it. */
static void wait_for_change(remat_local_ranks *all, uint64_t *left_ns)
{
    struct timespec until;
    uint64_t slice_ns = *left_ns < SECOND_NS ? *left_ns : SECOND_NS;
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + slice_ns;
    until.tv_sec += (time_t)(ns / SECOND_NS);
    until.tv_nsec = (long)(ns % SECOND_NS);
    if (pthread_cond_timedwait(&all->changed, &all->mutex, &until) == ETIMEDOUT)
        *left_ns -= slice_ns;
}

/* With the mutex held; the number of the meeting that this rank has come to. */
static uint64_t arrive(struct local_rank *mine)
{
    remat_local_ranks *all = mine->all;
    if (++all->arrived == all->count) {
        all->arrived = 0;
        all->meetings++;
        pthread_cond_broadcast(&all->changed);
    }
    return ++mine->meetings;
}

/* Before anything is read. False: it was not held, as a rank has failed or is late. */
static bool meet(struct local_rank *mine)
{
    remat_local_ranks *all = mine->all;
    uint64_t left_ns = mine->transfers->timeout_ns;
    pthread_mutex_lock(&all->mutex);
    uint64_t meeting = all->failed ? UINT64_MAX : arrive(mine);
    while (!all->failed && all->meetings < meeting && left_ns > 0)
        wait_for_change(all, &left_ns);
    if (!all->failed && all->meetings < meeting)
        fail_late(all, mine);
    bool held = all->meetings >= meeting;
    pthread_mutex_unlock(&all->mutex);
    return held;
}

/* After everything is read: all come, and soon. False: some rank has failed. */
static bool part(struct local_rank *mine)
{
    remat_local_ranks *all = mine->all;
    pthread_mutex_lock(&all->mutex);
    uint64_t meeting = arrive(mine);
    while (all->meetings < meeting)
        pthread_cond_wait(&all->changed, &all->mutex);
    bool good = !all->failed;
    pthread_mutex_unlock(&all->mutex);
    return good;
}

static remat_status refuse(struct local_rank *mine, char *message)
{
    pthread_mutex_lock(&mine->all->mutex);
    snprintf(message, REMAT_ENGINE_MESSAGE_BYTES, "%s", mine->all->message);
    remat_status st = mine->all->failed;
    pthread_mutex_unlock(&mine->all->mutex);
    return st;
}

/* --- transfers --- */

static void take(const struct local_rank *mine, uint32_t k)
{
    const remat_transfer *t = &mine->transfers[k];
    for (uint32_t q = 0; q < t->size; q++) {
        const remat_transfer *theirs = &mine->all->ranks[q].transfers[k];
        const void *from = theirs->from;
        char *to = (char *)t->to + q * t->part_bytes;
        uint64_t bytes = remat_transfer_bytes(t, mine->exchanges ? t->position : q);
        if (mine->exchanges && bytes)
            from = remat_transfer_part_for(theirs, t->position);
        if (bytes)
            memcpy(to, from, bytes);
    }
}

static remat_status transfer_all(struct local_rank *mine, const remat_transfer *transfers,
                                 uint32_t count, bool exchanges, char *message)
{
    mine->transfers = transfers;
    mine->count = count;
    mine->exchanges = exchanges;
    if (!meet(mine))
        return refuse(mine, message);
    pthread_mutex_lock(&mine->all->mutex);
    compare_all(mine->all);
    bool good = !mine->all->failed;
    pthread_mutex_unlock(&mine->all->mutex);
    for (uint32_t k = 0; k < count && good; k++)
        take(mine, k);
    return part(mine) ? REMAT_OK : refuse(mine, message);
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
    return failed ? refuse(mine, message) : REMAT_OK;
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
    for (uint32_t r = 0; r < ranks; r++)
        all->ranks[r] = (struct local_rank){.all = all, .rank = r};
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
    };
}
