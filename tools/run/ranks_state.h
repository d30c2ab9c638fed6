/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of ranks.h, private to them. */
#ifndef REMAT_TOOLS_RUN_RANKS_STATE_H
#define REMAT_TOOLS_RUN_RANKS_STATE_H

#include "ranks.h"

#include "launch.h"

#include <pthread.h>

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
    bool processes;           /* one rank in this process */
    remat_engine host_engine; /* among processes: of the host's memory */
    remat_engines *first;  /* of the host's memory, without a GPU; NULL: none connects processes */
    remat_engines *chosen; /* other ones, which the ranks use instead; NULL: none */
    const char *device;    /* of all ranks */
    uint32_t gpus;         /* of this machine, where the device is "cuda" */
    char place[300];       /* where ranks are and how they met */
    uint64_t *numbers;     /* of all ranks, see ranks_collect */
    uint64_t collected;    /* how often */
    bool finished;         /* all ranks have come to the end */
    uint64_t begin_ns;     /* of the first step */
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

static inline void rank_fail(const remat_engine *engine, remat_status status, const char *why)
{
    if (engine->fail)
        engine->fail(engine->user, status, why);
}

/* Gathers a number of each rank into ranks->numbers: among processes, all of which call it. */
remat_status ranks_collect(struct ranks *ranks, const char *what, uint64_t number);

/* --- rank_threads.c: ranks that are threads of this process: rank 0 is the caller's, the others
 * wait for its orders --- */

remat_status rank_threads_open(struct ranks *ranks);  /* contexts and local engines */
remat_status rank_threads_start(struct ranks *ranks); /* they train */
/* No more orders: waits for the threads. Harmless when they have ended. */
void rank_threads_end(struct ranks *ranks);
/* `status`, unless a thread has failed by itself. */
remat_status rank_threads_failure(struct ranks *ranks, remat_status status);

/* --- rank_devices.c: where ranks run, and the engine between them: as the command line wishes,
 * else as the plan and this machine allow --- */

/* Whether there is such an engine; REMAT_ERROR_USAGE names them all. */
remat_status rank_devices_check(remat_context *ctx, const struct ranks_wish *wish);
/* The engine that connects them in the host's memory, if one does without being chosen. */
remat_status rank_devices_open(struct ranks *ranks);
remat_status rank_devices_choose(struct ranks *ranks, const remat_plan_info *plan);
remat_status rank_devices_connect(struct ranks *ranks, const remat_plan_info *plan);

#endif
