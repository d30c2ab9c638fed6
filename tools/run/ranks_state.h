/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of ranks.h share. Private. */
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
    bool processes;        /* one rank in this process */
    remat_engine meet;     /* among processes: of the host's memory */
    remat_engines *first;  /* of the host's memory, without a GPU; NULL: none connects processes */
    remat_engines *chosen; /* other ones, which the ranks use instead; NULL: none */
    const char *device;    /* of all ranks */
    uint32_t gpus;         /* of this machine, where the device is "cuda" */
    char place[300];       /* where ranks are and how they met */
    uint64_t *numbers;     /* of all ranks, see collect */
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

#endif
