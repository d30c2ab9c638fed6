/* SPDX-License-Identifier: Apache-2.0 */
/* The clocks of ranks, and the engine. A transfer begins when the last rank of its group has come,
 * at the latest of their times; each rank then takes its own. */
#include "sleep.h"

#include "check.h"
#include "clock.h"
#include "host.h"
#include "session_state.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

struct meeting { /* of the ranks of a group */
    pthread_cond_t changed;
    uint32_t come, number;
    uint64_t latest_ns, begin_ns; /* of those that have come; of the last one that all came to */
    const char *name;             /* of the transfer that they have come for */
};

struct sleep_ranks {
    const struct remat_program *program;
    uint32_t count;
    struct sleep_rank *ranks;
    pthread_mutex_t mutex;                         /* of all that follows */
    struct meeting *meetings[REMAT_MESH_AXES_MAX]; /* by the first rank of the group */
    remat_status failed;
    char message[REMAT_ENGINE_MESSAGE_BYTES];
};

/* --- life --- */

static void make_condition(pthread_cond_t *out)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(out, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void make_rank(struct sleep_ranks *all, uint32_t number)
{
    struct sleep_rank *rank = &all->ranks[number];
    *rank = (struct sleep_rank){.all = all, .program = all->program, .number = number};
    rank->accesses = accesses_create(all->program, number ? all->ranks[0].accesses : NULL);
    for (uint32_t a = 0; a < REMAT_MESH_AXES_MAX; a++) {
        rank->queues[a].commands =
            calloc(all->program->command_count + (size_t)1, sizeof *rank->queues[a].commands);
        MUST(rank->queues[a].commands);
    }
    pthread_mutex_init(&rank->mutex, NULL);
    make_condition(&rank->begun);
}

static void make_meetings(struct sleep_ranks *all, uint32_t axis)
{
    all->meetings[axis] = calloc(all->count, sizeof *all->meetings[axis]);
    MUST(all->meetings[axis]);
    for (uint32_t r = 0; r < all->count; r++)
        make_condition(&all->meetings[axis][r].changed);
}

struct sleep_ranks *sleep_create(const struct remat_program *program)
{
    struct sleep_ranks *all = calloc(1, sizeof *all);
    MUST(all);
    *all = (struct sleep_ranks){.program = program, .count = remat_program_ranks(program)};
    all->ranks = calloc(all->count, sizeof *all->ranks);
    MUST(all->ranks);
    for (uint32_t a = 0; a < REMAT_MESH_AXES_MAX; a++)
        make_meetings(all, a);
    for (uint32_t r = 0; r < all->count; r++)
        make_rank(all, r);
    pthread_mutex_init(&all->mutex, NULL);
    return all;
}

void sleep_destroy(struct sleep_ranks **ranks)
{
    struct sleep_ranks *all = *ranks;
    *ranks = NULL;
    for (uint32_t r = 0; r < all->count; r++) {
        accesses_destroy(&all->ranks[r].accesses);
        for (uint32_t a = 0; a < REMAT_MESH_AXES_MAX; a++) {
            free(all->ranks[r].queues[a].commands);
            pthread_cond_destroy(&all->meetings[a][r].changed);
        }
        pthread_cond_destroy(&all->ranks[r].begun);
        pthread_mutex_destroy(&all->ranks[r].mutex);
    }
    for (uint32_t a = 0; a < REMAT_MESH_AXES_MAX; a++)
        free(all->meetings[a]);
    pthread_mutex_destroy(&all->mutex);
    free(all->ranks);
    free(all);
}

/* --- the clock of a rank --- */

uint64_t sleep_now(struct sleep_rank *rank)
{
    pthread_mutex_lock(&rank->mutex);
    uint64_t now_ns = rank->computes ? remat_now_ns() : rank->latest_ns;
    pthread_mutex_unlock(&rank->mutex);
    return now_ns;
}

static uint64_t command_ns(const struct sleep_rank *rank, uint32_t command)
{
    const struct sleep_settings *s = &rank->settings;
    const struct remat_program *p = rank->program;
    bool transfer = remat_kernel_kind_is_transfer(p->kernels[p->commands[command].kernel].kind);
    double factor = transfer ? s->transfer_scale : s->scale;
    if (s->seed) {
        uint64_t draw = remat_hash((uint32_t[]){rank->number, command}, 8, s->seed) >> 11;
        factor *= exp2(2 * ((double)draw * 0x1p-53) - 1);
    }
    return (uint64_t)(factor * (double)p->commands[command].estimated_ns);
}

static struct timespec time_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000),
                             .tv_nsec = (long)(ns % 1000000000)};
}

/* With the mutex held. */
static void set_ended(struct sleep_rank *rank, uint64_t end_ns)
{
    rank->latest_ns = end_ns > rank->latest_ns ? end_ns : rank->latest_ns;
}

/* What slows computation at that time, and when that changes, at most *until_ns. */
static double slowdown_at(const struct sleep_rank *rank, uint64_t now_ns, uint64_t *until_ns)
{
    double slowdown = 0;
    for (uint32_t a = 0; a < REMAT_MESH_AXES_MAX; a++) {
        const struct sleep_flight *f = &rank->flights[a];
        uint64_t change_ns = now_ns < f->begin_ns ? f->begin_ns : f->end_ns;
        if (now_ns >= f->begin_ns && now_ns < f->end_ns && f->slowdown > slowdown)
            slowdown = f->slowdown;
        if (change_ns > now_ns && change_ns < *until_ns)
            *until_ns = change_ns;
    }
    return slowdown;
}

void sleep_compute(struct sleep_rank *rank, uint32_t command, uint64_t begin_ns)
{
    double work_ns = (double)command_ns(rank, command);
    uint64_t now_ns = begin_ns;
    pthread_mutex_lock(&rank->mutex);
    rank->computed_ns += (uint64_t)work_ns;
    while (work_ns >= 1) {
        uint64_t until_ns = UINT64_MAX;
        double slowdown = slowdown_at(rank, now_ns, &until_ns);
        uint64_t end_ns = now_ns + (uint64_t)(work_ns * (1 + slowdown));
        until_ns = end_ns < until_ns ? end_ns : until_ns;
        if (remat_now_ns() < until_ns) {
            const struct timespec until = time_of(until_ns);
            pthread_cond_timedwait(&rank->begun, &rank->mutex, &until);
            continue;
        }
        work_ns -= until_ns == end_ns ? work_ns : (double)(until_ns - now_ns) / (1 + slowdown);
        now_ns = until_ns;
    }
    set_ended(rank, now_ns);
    pthread_mutex_unlock(&rank->mutex);
}

/* A group along the axis, which has begun. */
static void fly(struct sleep_rank *rank, uint32_t axis, struct sleep_flight flight)
{
    const struct timespec end = time_of(flight.end_ns);
    pthread_mutex_lock(&rank->mutex);
    rank->flights[axis] = flight;
    pthread_cond_signal(&rank->begun);
    pthread_mutex_unlock(&rank->mutex);
    while (remat_now_ns() < flight.end_ns)
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
    pthread_mutex_lock(&rank->mutex);
    set_ended(rank, flight.end_ns);
    pthread_mutex_unlock(&rank->mutex);
}

void sleep_begin(struct sleep_ranks *ranks, uint32_t rank, const struct sleep_settings *settings)
{
    struct sleep_rank *mine = &ranks->ranks[rank];
    mine->settings = *settings;
    mine->latest_ns = remat_now_ns();
    mine->computed_ns = 0;
}

uint64_t sleep_computed_ns(const struct sleep_ranks *ranks, uint32_t rank)
{
    return ranks->ranks[rank].computed_ns;
}

const char *sleep_message(const struct sleep_ranks *ranks, uint32_t rank)
{
    return accesses_message(ranks->ranks[rank].accesses);
}

/* --- which command a transfer is --- */

/* The session says so when it comes to the command; an engine makes those along an axis in order.
 */
static void note_transfer(remat_session *session, uint32_t command)
{
    struct remat_transfer_shape shape;
    struct sleep_rank *rank = session->checks.state;
    if (!remat_command_transfer(session->program, command, &shape))
        return;
    struct sleep_queue *queue = &rank->queues[shape.group];
    pthread_mutex_lock(&rank->mutex);
    queue->commands[queue->end++ % rank->program->command_count] = command;
    pthread_mutex_unlock(&rank->mutex);
}

static uint32_t take_transfer(struct sleep_rank *rank, const remat_transfer *t)
{
    struct sleep_queue *queue = &rank->queues[t->group];
    pthread_mutex_lock(&rank->mutex);
    MUST(queue->begin != queue->end, "\"%s\" was not started", t->name);
    uint32_t command = queue->commands[queue->begin++ % rank->program->command_count];
    pthread_mutex_unlock(&rank->mutex);
    MUST(strcmp(rank->program->commands[command].name, t->name) == 0, "\"%s\" is out of turn",
         t->name);
    return command;
}

void sleep_attach(struct sleep_ranks *ranks, uint32_t rank, remat_session *session)
{
    sleep_device_attach(session->device, &ranks->ranks[rank]);
    session->checks.state = &ranks->ranks[rank];
    session->checks.before = note_transfer;
}

/* --- meetings --- */

static void fail_all(struct sleep_ranks *all, remat_status status, const char *message)
{
    if (!all->failed) {
        all->failed = status;
        snprintf(all->message, sizeof all->message, "%s", message);
    }
    for (uint32_t a = 0; a < REMAT_MESH_AXES_MAX; a++)
        for (uint32_t r = 0; r < all->count; r++)
            pthread_cond_broadcast(&all->meetings[a][r].changed);
}

/* With the mutex held: for the others, until the deadline. */
static void wait_for_others(struct sleep_ranks *all, const struct sleep_rank *rank,
                            struct meeting *meeting, const remat_transfer *t)
{
    char message[REMAT_ENGINE_MESSAGE_BYTES];
    uint32_t number = meeting->number;
    uint64_t until_ns = remat_now_ns() + rank->settings.timeout_ns;
    const struct timespec until = time_of(until_ns);
    while (meeting->number == number && !all->failed && remat_now_ns() < until_ns)
        pthread_cond_timedwait(&meeting->changed, &all->mutex, &until);
    if (meeting->number != number || all->failed)
        return;
    snprintf(message, sizeof message, "rank %" PRIu32 " waits for ever at \"%.200s\"", rank->number,
             t->name);
    fail_all(all, REMAT_ERROR_RANK_LOST, message);
}

static remat_status meet(struct sleep_rank *rank, const remat_transfer *t, uint64_t *begin_ns,
                         char *message)
{
    struct sleep_ranks *all = rank->all;
    struct meeting *meeting = &all->meetings[t->group][remat_transfer_rank(t, rank->number, 0)];
    uint64_t now_ns = sleep_now(rank);
    pthread_mutex_lock(&all->mutex);
    if (meeting->come && strcmp(meeting->name, t->name) != 0)
        fail_all(all, REMAT_ERROR_OTHER, "ranks differ");
    meeting->name = t->name;
    meeting->latest_ns = meeting->come && meeting->latest_ns > now_ns ? meeting->latest_ns : now_ns;
    if (++meeting->come == t->size) {
        meeting->begin_ns = meeting->latest_ns;
        meeting->come = 0;
        meeting->number++;
        pthread_cond_broadcast(&meeting->changed);
    } else {
        wait_for_others(all, rank, meeting, t);
    }
    *begin_ns = meeting->begin_ns;
    remat_status st = all->failed;
    if (st)
        snprintf(message, REMAT_ENGINE_MESSAGE_BYTES, "%s", all->message);
    pthread_mutex_unlock(&all->mutex);
    return st;
}

/* --- the engine --- */

static remat_status make_all(struct sleep_rank *rank, const remat_transfer *t, uint32_t count,
                             bool exchanges, char *message)
{
    remat_status st = REMAT_OK;
    uint32_t first = take_transfer(rank, t);
    uint64_t ns = command_ns(rank, first);
    struct sleep_flight flight = {.slowdown =
                                      rank->program->commands[first].slowdown_permille / 1000.0};
    const remat_engine *inner = &rank->inner;
    accesses_begin(rank->accesses, first);
    for (uint32_t k = 1; k < count; k++) {
        uint32_t command = take_transfer(rank, &t[k]);
        MUST(command == first + k, "a group of commands apart");
        accesses_begin(rank->accesses, command);
        ns += command_ns(rank, command);
    }
    REMAT_TRY(meet(rank, t, &flight.begin_ns, message));
    if (inner->ranks)
        REMAT_TRY((exchanges ? inner->exchange : inner->gather)(inner->user, t, count, message));
    flight.end_ns = flight.begin_ns + ns;
    fly(rank, t->group, flight);
fail:
    for (uint32_t k = 0; k < count; k++)
        accesses_end(rank->accesses, first + k);
    return st;
}

static remat_status exchange(void *user, const remat_transfer *transfers, uint32_t count,
                             char message[REMAT_ENGINE_MESSAGE_BYTES])
{
    return make_all(user, transfers, count, true, message);
}

static remat_status gather(void *user, const remat_transfer *transfers, uint32_t count,
                           char message[REMAT_ENGINE_MESSAGE_BYTES])
{
    return make_all(user, transfers, count, false, message);
}

static void fail(void *user, remat_status status, const char *message)
{
    struct sleep_rank *rank = user;
    pthread_mutex_lock(&rank->all->mutex);
    fail_all(rank->all, status, message);
    pthread_mutex_unlock(&rank->all->mutex);
    if (rank->inner.ranks && rank->inner.fail)
        rank->inner.fail(rank->inner.user, status, message);
}

void sleep_engine(struct sleep_ranks *ranks, uint32_t rank, const remat_engine *inner,
                  remat_engine *out)
{
    struct sleep_rank *mine = &ranks->ranks[rank];
    if (inner)
        mine->inner = *inner;
    *out = (remat_engine){
        .struct_size = sizeof *out,
        .name = "sleep",
        .user = mine,
        .rank = rank,
        .ranks = ranks->count,
        .exchange = exchange,
        .gather = gather,
        .fail = fail,
    };
}
