/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks as their steps see them: where and how many they are, what they gather, orders of rank
 * 0. */
#include "ranks_state.h"

#include "interrupt.h"
#include "machine.h"
#include "progress.h"

#include <assert.h>
#include <unistd.h>

uint32_t ranks_count(const struct ranks *ranks)
{
    return ranks->count;
}

uint32_t ranks_here(const struct ranks *ranks)
{
    return ranks ? ranks->here : 1;
}

uint32_t ranks_first(const struct ranks *ranks)
{
    return ranks ? ranks->launch.rank : 0;
}

uint32_t ranks_on_machine(const struct ranks *ranks)
{
    return ranks_here(ranks) * (ranks ? ranks->launch.local_size : 1);
}

const char *ranks_engine_name(const struct ranks *ranks)
{
    return ranks ? ranks->ranks[0].engine.name : NULL;
}

/* Without binding each process on a machine has all of its cores. */
uint32_t ranks_cores(const struct ranks *ranks)
{
    uint32_t cores = machine_cores();
    uint32_t share = ranks->processes && cores == sysconf(_SC_NPROCESSORS_ONLN)
                         ? ranks->launch.local_size
                         : ranks->here;
    return cores > share && share ? cores / share : 1;
}

const char *ranks_place(const struct ranks *ranks)
{
    return ranks->place;
}

uint64_t ranks_engine_bytes(const struct ranks *ranks)
{
    uint64_t most = 0;
    for (uint32_t r = 0; ranks->chosen && r < ranks->here; r++) {
        uint64_t bytes = remat_engines_device_bytes(ranks->chosen, r);
        most = bytes > most ? bytes : most;
    }
    return most;
}

const char *ranks_device(const struct ranks *ranks)
{
    return ranks->device;
}

uint32_t ranks_ordinal(const struct ranks *ranks, uint32_t rank)
{
    return ranks->gpus ? (ranks->launch.local + rank) % ranks->gpus : 0;
}

uint32_t ranks_together(const struct ranks *ranks)
{
    uint32_t devices = ranks && ranks->gpus ? ranks->gpus : 1;
    return (ranks_here(ranks) + devices - 1) / devices;
}

const remat_engine *ranks_engine(const struct ranks *ranks, uint32_t rank)
{
    assert(!ranks || rank < ranks->here);
    return ranks ? &ranks->ranks[rank].engine : NULL;
}

struct peers ranks_peers(const struct ranks *ranks, uint32_t rank)
{
    return (struct peers){ranks_engine(ranks, rank), ranks ? ranks->wish.timeout_ns : 0};
}

remat_context *ranks_context(const struct ranks *ranks, uint32_t rank)
{
    assert(rank < ranks->here);
    return ranks->ranks[rank].ctx;
}

remat_session **ranks_session(struct ranks *ranks, uint32_t rank)
{
    return &ranks->ranks[rank].session;
}

struct records *ranks_records(struct ranks *ranks, uint32_t rank)
{
    return &ranks->ranks[rank].records;
}

uint64_t ranks_begin_ns(const struct ranks *ranks)
{
    return ranks->begin_ns;
}

/* --- what they gather --- */

remat_status ranks_gather(struct ranks *ranks, const char *what, const void *mine, size_t bytes,
                          void *all)
{
    const struct peers meet = {&ranks->host_engine, ranks->wish.timeout_ns};
    return peers_gather(ranks->ctx, &meet, what, ranks->collected++, bytes, mine, all);
}

remat_status ranks_collect(struct ranks *ranks, const char *what, uint64_t number)
{
    return ranks_gather(ranks, what, &number, sizeof number, ranks->numbers);
}

/* --- orders --- */

/* Each one says at every order what it has to say: rank 0 the order, the others whether they were
 * interrupted. */
static remat_status tell_order(struct ranks *ranks, uint64_t number)
{
    remat_status st = ranks_collect(ranks, "order", number);
    ranks->begin_ns = ranks->begin_ns ? ranks->begin_ns : clock_ns();
    return st;
}

static remat_status order_processes(struct ranks *ranks, enum ranks_order order)
{
    remat_status st = tell_order(ranks, order);
    for (uint32_t r = 1; r < ranks->count && st == REMAT_OK; r++)
        ranks->interrupted |= ranks->numbers[r] != 0;
    return st;
}

static remat_status wait_among_processes(struct ranks *ranks, enum ranks_order *order)
{
    remat_status st = tell_order(ranks, cli_interrupted());
    *order = (enum ranks_order)ranks->numbers[0];
    return st;
}

static void order_threads(struct ranks *ranks, enum ranks_order order)
{
    pthread_mutex_lock(&ranks->mutex);
    ranks->turn++;
    ranks->order = order;
    ranks->begin_ns = ranks->begin_ns ? ranks->begin_ns : clock_ns();
    pthread_cond_broadcast(&ranks->changed);
    pthread_mutex_unlock(&ranks->mutex);
}

static enum ranks_order wait_among_threads(struct ranks *ranks, uint64_t turn)
{
    pthread_mutex_lock(&ranks->mutex);
    while (ranks->turn < turn && !ranks->over)
        pthread_cond_wait(&ranks->changed, &ranks->mutex);
    enum ranks_order order = ranks->turn < turn ? RANKS_END : ranks->order;
    pthread_mutex_unlock(&ranks->mutex);
    return order;
}

remat_status ranks_order(struct ranks *ranks, enum ranks_order order)
{
    if (ranks->processes)
        return order_processes(ranks, order);
    order_threads(ranks, order);
    return REMAT_OK;
}

remat_status ranks_wait_for_order(struct ranks *ranks, uint64_t turn, enum ranks_order *order)
{
    if (ranks->processes)
        return wait_among_processes(ranks, order);
    *order = wait_among_threads(ranks, turn);
    return REMAT_OK;
}

bool ranks_interrupted(const struct ranks *ranks)
{
    return cli_interrupted() || (ranks && ranks->interrupted);
}
