/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks.h"

#include "exit_watch.h"
#include "interrupt.h"
#include "launch.h"
#include "machine.h"
#include "progress.h"
#include "train.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAST_WAIT_NS UINT64_C(500000000)

struct rank {
    struct ranks *all;
    remat_context *ctx;
    remat_session *session;
    remat_engine engine;
    pthread_t thread;
    bool started;
    remat_status status;
    uint64_t steps, total_ns;
    struct records records; /* of another than rank 0 */
};

struct ranks {
    remat_context *ctx; /* of the first rank of this process */
    struct ranks_wish wish;
    struct launch launch;
    bool processes;    /* one rank in this process */
    remat_engine meet; /* among processes: of the host's memory */
    remat_local_ranks *local;
    remat_mpi *mpi;
    remat_nccl *nccl;
    const char *device; /* of all ranks */
    uint32_t gpus;      /* of this machine, where the device is "cuda" */
    char place[300];    /* where ranks are and how they met */
    uint64_t *numbers;  /* of all ranks, see collect */
    uint64_t collected; /* how often */
    bool finished;      /* all ranks have come to the end */
    uint64_t begin_ns;  /* of the first step */
    const struct model *model;
    const struct train_settings *settings;
    bool interrupted;      /* a process was */
    pthread_mutex_t mutex; /* of the three below */
    pthread_cond_t changed;
    uint64_t turn; /* how many orders rank 0 gave */
    enum ranks_order order;
    bool over;
    uint32_t count, here; /* ranks in all, in this process */
    struct rank ranks[];
};

/* --- among processes --- */

remat_status ranks_gather(struct ranks *ranks, const char *what, const void *mine, size_t bytes,
                          void *all)
{
    const struct peers meet = {&ranks->meet, ranks->wish.timeout_ns};
    return peers_gather(ranks->ctx, &meet, what, ranks->collected++, bytes, mine, all);
}

/* Of each rank a number, in ranks->numbers. Among processes only. */
static remat_status collect(struct ranks *ranks, const char *what, uint64_t number)
{
    return ranks_gather(ranks, what, &number, sizeof number, ranks->numbers);
}

/* --- life --- */

static remat_status open_threads(struct ranks *all)
{
    remat_status st = REMAT_OK;
    RUN_TRY(remat_local_create(all->ctx, all->count, &all->local));
    for (; all->here < all->count; all->here++) {
        struct rank *rank = &all->ranks[all->here];
        rank->all = all;
        rank->ctx = all->here ? remat_context_create(NULL, NULL) : all->ctx;
        if (!rank->ctx)
            RUN_FAIL(all->ctx, REMAT_ERROR_MEMORY, "out of memory");
        remat_local_engine(all->local, all->here, &rank->engine);
    }
    snprintf(all->place, sizeof all->place, "threads of this process");
fail:
    return st;
}

/* By SIGTERM mpirun tells a process that another one is gone, and a second later kills it. */
static int go_on(void *user, uint64_t waited_ns)
{
    (void)user;
    return !cli_terminated() || waited_ns < LAST_WAIT_NS;
}

static remat_status open_process(struct ranks *all)
{
    remat_status st = REMAT_OK;
    if (all->launch.size != all->count)
        RUN_FAIL(all->ctx, REMAT_ERROR_USAGE,
                 "the plan is for %" PRIu32 " ranks, %s started %" PRIu32 " processes", all->count,
                 all->launch.by, all->launch.size);
    all->processes = true;
    all->here = 1;
    cli_catch_interrupts();
    snprintf(all->place, sizeof all->place, "processes that %s started", all->launch.by);
    const remat_mpi_params params = {
        .struct_size = sizeof params, .timeout_ns = all->wish.timeout_ns, .go_on = go_on};
    if (!all->launch.has_mpi)
        return REMAT_OK;
    st = remat_mpi_create(all->ctx, &params, &all->mpi);
    if (st)
        RUN_FAIL(all->ctx, st, "rank %" PRIu32 ": %s", all->launch.rank,
                 remat_context_message(all->ctx));
    remat_mpi_engine(all->mpi, &all->ranks[0].engine);
    all->meet = all->ranks[0].engine;
fail:
    return st;
}

static remat_status open_nccl(struct ranks *all)
{
    remat_status st = REMAT_OK;
    const char *place = NULL;
    if (all->processes && !all->mpi)
        RUN_TRY(launch_meet(all->ctx, &all->launch, &place));
    const remat_nccl_params params = {
        .struct_size = sizeof params,
        .ranks = all->count,
        .first = all->launch.rank,
        .here = all->here,
        .ordinal = ranks_ordinal(all, 0),
        .libraries = all->wish.libraries,
        .meet = all->mpi ? &all->meet : NULL,
        .timeout_ns = all->wish.timeout_ns,
    };
    RUN_TRY(remat_nccl_create(all->ctx, &params, &all->nccl));
    for (uint32_t r = 0; r < all->here; r++)
        remat_nccl_engine(all->nccl, r, &all->ranks[r].engine);
    if (!all->mpi)
        all->meet = all->ranks[0].engine;
    if (all->processes)
        snprintf(all->place, sizeof all->place, "processes that %s started, which met %s%.200s",
                 all->launch.by, place ? "at " : "by MPI", place ? place : "");
fail:
    return st;
}

/* A GPU for each rank on this machine; among processes of MPI, on all. Other launchers may show
 * each process its own, and ranks that they started have no other way than NCCL. */
static remat_status have_gpus(struct ranks *all, bool *out)
{
    remat_status st = REMAT_OK;
    uint32_t needed = !all->processes ? all->count : all->mpi ? all->launch.local_size : 1;
    uint64_t have = all->gpus >= needed;
    if (all->mpi)
        RUN_TRY(collect(all, "devices", have));
    for (uint32_t r = 0; r < all->count && all->mpi; r++)
        have &= all->numbers[r];
    *out = have;
fail:
    return st;
}

/* Where nobody says which: GPUs where there are enough of them, but a plan with a budget for a CPU
 * runs there, and no plan for a GPU does. */
static remat_status choose_device(struct ranks *all, const remat_plan_info *plan)
{
    remat_status st = REMAT_OK;
    bool for_gpu = *plan->target_arch, bound = plan->budget_bytes && !for_gpu, have = false;
    const char *engine = all->wish.engine;
    bool is_nccl = engine && strcmp(engine, "nccl") == 0;
    all->device = all->wish.device ? all->wish.device : is_nccl ? "cuda" : "cpu";
    all->gpus = strcmp(all->device, "cuda") == 0 || (!all->wish.device && !engine && !bound)
                    ? remat_gpu_count(all->ctx, all->wish.libraries)
                    : 0;
    if (!all->wish.device && !engine && !bound)
        RUN_TRY(have_gpus(all, &have));
    if (have)
        all->device = "cuda";
    if (for_gpu && !all->wish.device && strcmp(all->device, "cuda") != 0)
        RUN_FAIL(all->ctx, engine ? REMAT_ERROR_USAGE : REMAT_ERROR_IO,
                 "the plan is for %s, and %s: run it with --device cpu", plan->target,
                 engine ? "--engine does not say where it runs"
                        : "there is no GPU for each of its ranks");
    if (is_nccl && strcmp(all->device, "cuda") != 0)
        RUN_FAIL(all->ctx, REMAT_ERROR_USAGE, "--engine nccl contradicts --device cpu");
    if (engine && !is_nccl &&
        (all->processes ? !all->mpi || strcmp(engine, "mpi") != 0 : strcmp(engine, "local") != 0))
        RUN_FAIL(all->ctx, REMAT_ERROR_USAGE, "--engine %s: the ranks are %s", engine, all->place);
fail:
    return st;
}

static remat_status open_engine(struct ranks *all, const remat_plan_info *plan)
{
    const char *engine = all->wish.engine;
    bool on_gpus = strcmp(all->device, "cuda") == 0;
    bool is_free = !all->wish.device && !engine && !all->processes && !*plan->target_arch;
    if (engine ? strcmp(engine, "nccl") != 0 : !on_gpus) {
        if (all->processes && !all->mpi)
            return cli_error(all->ctx, REMAT_ERROR_USAGE,
                             "%s: only NCCL connects them, and they have no GPUs: start them with "
                             "mpirun",
                             all->place);
        return REMAT_OK;
    }
    remat_status st = open_nccl(all);
    if (st != REMAT_ERROR_IO || !is_free)
        return st;
    cli_log(all->ctx, REMAT_SEVERITY_INFO, "the GPUs are not used: %s",
            remat_context_message(all->ctx));
    all->device = "cpu";
    return REMAT_OK;
}

remat_status ranks_open(remat_context *ctx, const remat_plan *plan, const struct ranks_wish *wish,
                        struct ranks **out)
{
    remat_status st = REMAT_OK;
    remat_plan_info info = {.struct_size = sizeof info};
    struct launch launch = launch_find();
    remat_plan_get_info(plan, &info);
    *out = NULL;
    if (info.rank_count == 1 && launch.size == 1)
        return REMAT_OK;
    struct ranks *all = calloc(1, sizeof *all + info.rank_count * sizeof *all->ranks);
    if (!all)
        return cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    *out = all;
    all->ctx = ctx;
    all->count = info.rank_count;
    all->wish = *wish;
    all->launch = launch;
    pthread_mutex_init(&all->mutex, NULL);
    pthread_cond_init(&all->changed, NULL);
    all->numbers = calloc(all->count, sizeof *all->numbers);
    if (!all->numbers)
        return cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    RUN_TRY(launch.by ? open_process(all) : open_threads(all));
    RUN_TRY(choose_device(all, &info));
    RUN_TRY(open_engine(all, &info));
    if (strcmp(all->device, "cuda") != 0)
        all->gpus = 0;
fail:
    return st;
}

static void tell_end(struct ranks *ranks)
{
    pthread_mutex_lock(&ranks->mutex);
    ranks->over = true;
    pthread_cond_broadcast(&ranks->changed);
    pthread_mutex_unlock(&ranks->mutex);
}

static void join(struct ranks *ranks)
{
    for (uint32_t r = 1; r < ranks->here; r++) {
        if (ranks->ranks[r].started)
            pthread_join(ranks->ranks[r].thread, NULL);
        ranks->ranks[r].started = false;
    }
}

static void fail(const remat_engine *engine, remat_status status, const char *why)
{
    if (engine->fail)
        engine->fail(engine->user, status, why);
}

void ranks_leave(struct ranks *ranks, remat_status status)
{
    if (!ranks || ranks->finished)
        return;
    fail(&ranks->ranks[0].engine, status, remat_context_message(ranks->ctx));
    fail(&ranks->meet, status, remat_context_message(ranks->ctx));
}

void ranks_watch_exit(const struct ranks *ranks, remat_status status)
{
    if (ranks && (ranks->processes || ranks->nccl))
        exit_watch(ranks_first(ranks), ranks->wish.timeout_ns,
                   status ? (int)status : REMAT_ERROR_RANK_LOST);
}

void ranks_close(struct ranks **ranks)
{
    struct ranks *all = *ranks;
    if (!all)
        return;
    if (!all->processes)
        tell_end(all);
    join(all);
    for (uint32_t r = 0; r < all->here; r++)
        records_release(&all->ranks[r].records);
    for (uint32_t r = 1; r < all->here; r++) {
        remat_session_destroy(&all->ranks[r].session);
        remat_context_destroy(&all->ranks[r].ctx);
    }
    for (uint32_t r = 1; r < all->here && !all->finished; r++)
        fail(&all->ranks[r].engine, REMAT_ERROR_RANK_LOST, "its process ends");
    remat_nccl_destroy(&all->nccl);
    remat_mpi_destroy(&all->mpi);
    remat_local_destroy(&all->local);
    free(all->numbers);
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->mutex);
    free(all);
    *ranks = NULL;
}

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
    for (uint32_t r = 0; ranks->nccl && r < ranks->here; r++) {
        uint64_t bytes = remat_nccl_device_bytes(ranks->nccl, r);
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
    return ranks ? &ranks->ranks[rank].engine : NULL;
}

struct peers ranks_peers(const struct ranks *ranks, uint32_t rank)
{
    return (struct peers){ranks_engine(ranks, rank), ranks ? ranks->wish.timeout_ns : 0};
}

remat_context *ranks_context(const struct ranks *ranks, uint32_t rank)
{
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

/* --- steps --- */

static void *follow(void *user)
{
    struct rank *rank = user;
    struct ranks *all = rank->all;
    rank->status = train_follow(rank->ctx, all->model, all->settings, rank->session,
                                ranks_peers(all, (uint32_t)(rank - all->ranks)), &rank->records,
                                &rank->steps, &rank->total_ns);
    if (rank->status)
        fail(&rank->engine, rank->status, remat_context_message(rank->ctx));
    return NULL;
}

/* Signals are rank 0's, whose calls they interrupt. */
static bool start_thread(struct rank *rank)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rank->started = pthread_create(&rank->thread, NULL, follow, rank) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rank->started;
}

remat_status ranks_start(struct ranks *ranks, const struct model *model,
                         const struct train_settings *settings)
{
    ranks->model = model;
    ranks->settings = settings;
    for (uint32_t r = 1; r < ranks->here; r++)
        if (!start_thread(&ranks->ranks[r]))
            return cli_error(ranks->ctx, REMAT_ERROR_MEMORY,
                             "out of memory, or of threads: cannot start rank %" PRIu32, r);
    return REMAT_OK;
}

/* Among processes each one says at every order what it has to say: rank 0 the order, the others
 * whether they were interrupted. */
static remat_status tell_order(struct ranks *ranks, uint64_t number)
{
    remat_status st = collect(ranks, "order", number);
    ranks->begin_ns = ranks->begin_ns ? ranks->begin_ns : clock_ns();
    return st;
}

remat_status ranks_order(struct ranks *ranks, enum ranks_order order)
{
    if (ranks->processes) {
        remat_status st = tell_order(ranks, order);
        for (uint32_t r = 1; r < ranks->count && st == REMAT_OK; r++)
            ranks->interrupted |= ranks->numbers[r] != 0;
        return st;
    }
    pthread_mutex_lock(&ranks->mutex);
    ranks->turn++;
    ranks->order = order;
    ranks->begin_ns = ranks->begin_ns ? ranks->begin_ns : clock_ns();
    pthread_cond_broadcast(&ranks->changed);
    pthread_mutex_unlock(&ranks->mutex);
    return REMAT_OK;
}

remat_status ranks_wait_for_order(struct ranks *ranks, uint64_t turn, enum ranks_order *order)
{
    if (ranks->processes) {
        remat_status st = tell_order(ranks, cli_interrupted());
        *order = (enum ranks_order)ranks->numbers[0];
        return st;
    }
    pthread_mutex_lock(&ranks->mutex);
    while (ranks->turn < turn && !ranks->over)
        pthread_cond_wait(&ranks->changed, &ranks->mutex);
    *order = ranks->turn < turn ? RANKS_END : ranks->order;
    pthread_mutex_unlock(&ranks->mutex);
    return REMAT_OK;
}

bool ranks_interrupted(const struct ranks *ranks)
{
    return cli_interrupted() || (ranks && ranks->interrupted);
}

/* A rank that was late for the others may have a failure of its own. */
static remat_status first_failure(struct ranks *ranks, remat_status status)
{
    for (uint32_t r = 1; r < ranks->here; r++) {
        const struct rank *rank = &ranks->ranks[r];
        bool told = status == REMAT_OK || status == REMAT_ERROR_RANK_LOST;
        if (told && rank->status != REMAT_OK && rank->status != status)
            return cli_error(ranks->ctx, rank->status, "rank %" PRIu32 ": %s", r,
                             remat_context_message(rank->ctx));
    }
    return status;
}

remat_status ranks_finish(struct ranks *ranks, remat_status status)
{
    struct rank *first = &ranks->ranks[0];
    if (status)
        fail(&first->engine, status, remat_context_message(ranks->ctx));
    if (ranks->processes)
        return status;
    tell_end(ranks);
    join(ranks);
    return first_failure(ranks, status);
}

static uint64_t most(const uint64_t *numbers, uint32_t count)
{
    uint64_t out = 0;
    for (uint32_t r = 0; r < count; r++)
        out = numbers[r] > out ? numbers[r] : out;
    return out;
}

remat_status ranks_measure(struct ranks *ranks, struct measured *measured)
{
    remat_status st = REMAT_OK;
    uint64_t *const numbers[] = {&measured->resident_bytes, &measured->address_bytes,
                                 &measured->device_bytes, &measured->engine_bytes,
                                 &measured->step_ns};
    ranks->numbers[0] = measured->step_ns;
    for (uint32_t r = 1; r < ranks->here && measured->steps; r++) {
        uint64_t device_bytes = remat_session_device_bytes(ranks->ranks[r].session);
        ranks->numbers[r] = ranks->ranks[r].total_ns / measured->steps;
        if (device_bytes > measured->device_bytes)
            measured->device_bytes = device_bytes;
    }
    if (!ranks->processes)
        measured->step_ns = most(ranks->numbers, ranks->count);
    for (size_t i = 0; ranks->processes && i < sizeof numbers / sizeof *numbers; i++) {
        RUN_TRY(collect(ranks, "measurements", *numbers[i]));
        *numbers[i] = most(ranks->numbers, ranks->count);
    }
    measured->rank_step_ns = ranks->numbers;
fail:
    return st;
}

remat_status ranks_end(struct ranks *ranks)
{
    remat_status st = REMAT_OK;
    if (ranks->processes)
        RUN_TRY(collect(ranks, "end", 0));
    if (ranks->mpi)
        RUN_TRY(remat_mpi_finish(ranks->mpi));
    ranks->over = ranks->finished = true;
fail:
    return st;
}
