/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a plan: threads of this process, or the processes that mpirun started. Rank 0
 * prints, records and decides; the others do the same steps, each in a thread or a process. Among
 * threads rank 0 is the caller's. A plan of one rank has no other. */
#ifndef REMAT_TOOLS_RUN_RANKS_H
#define REMAT_TOOLS_RUN_RANKS_H

#include "run.h"

#include "peers.h"
#include "records.h"
#include "report.h"

#include <stdbool.h>

struct model;
struct train_settings;
struct ranks;

struct ranks_wish { /* of the command line; NULL: as it comes */
    const char *device, *engine, *libraries;
    uint64_t timeout_ns;
};

/* Contexts for all ranks of this process but the first, whose is `ctx`. Processes of MPI meet. *out
 * is NULL for one rank. REMAT_ERROR_USAGE: a launcher started another number of processes than the
 * plan has ranks. */
remat_status ranks_open(remat_context *ctx, const remat_plan *plan, const struct ranks_wish *wish,
                        struct ranks **out);
/* Whether processes can gather: those that only NCCL connects cannot before ranks_connect. */
bool ranks_have_met(const struct ranks *ranks);
/* Their device and their engines; NULL is harmless. REMAT_ERROR_USAGE: the wishes do not fit. */
remat_status ranks_connect(struct ranks *ranks, const remat_plan *plan);
/* Before the first rank's session is destroyed. Unless all have come to the end, tells the others
 * that this rank is gone, and why; what its session waits for ends. */
void ranks_leave(struct ranks *ranks, remat_status status);
/* From here on a process of several, or on a GPU, ends within the wish's timeout, whatever hangs:
 * with `status` or, without a failure, REMAT_ERROR_RANK_LOST. NULL is harmless. */
void ranks_watch_exit(const struct ranks *ranks, remat_status status);
/* After the first rank's session was destroyed. Ends the threads; NULL in *ranks is harmless. Ranks
 * leave each other, unless there was a failure: then a launcher ends the others when this process
 * has ended. */
void ranks_close(struct ranks **ranks);

uint32_t ranks_count(const struct ranks *ranks);      /* in all */
uint32_t ranks_here(const struct ranks *ranks);       /* in this process; 1: ranks is NULL */
uint32_t ranks_first(const struct ranks *ranks);      /* of this process */
uint32_t ranks_on_machine(const struct ranks *ranks); /* this one: of all its processes */
/* A rank's share of the machine's, at least 1. */
uint32_t ranks_cores(const struct ranks *ranks);
const char *ranks_device(const struct ranks *ranks); /* of all: "cuda" or "cpu" */
/* The GPU of a rank of this process. They share GPUs where these are too few. */
uint32_t ranks_ordinal(const struct ranks *ranks, uint32_t rank);
/* How many ranks of this process its fullest device has. */
uint32_t ranks_together(const struct ranks *ranks);
/* The engine between them, as "mpi"; NULL: ranks is NULL. */
const char *ranks_engine_name(const struct ranks *ranks);
/* "threads of this process", or who started the processes and how they met. */
const char *ranks_place(const struct ranks *ranks);
/* Bytes that the engine took of this process's GPUs, of the one where that is most. */
uint64_t ranks_engine_bytes(const struct ranks *ranks);
/* The engine of a rank of this process, counted from its first; NULL: ranks is NULL. */
const remat_engine *ranks_engine(const struct ranks *ranks, uint32_t rank);
struct peers ranks_peers(const struct ranks *ranks, uint32_t rank); /* engine NULL: none */
/* Context of a thread other than the caller's, and its session, which the ranks destroy. */
remat_context *ranks_context(const struct ranks *ranks, uint32_t rank);
remat_session **ranks_session(struct ranks *ranks, uint32_t rank);
/* The same of its records, which are not opened yet. */
struct records *ranks_records(struct ranks *ranks, uint32_t rank);

/* `bytes` of each rank, in their order, into `all`. Among processes, all of which call it. */
remat_status ranks_gather(struct ranks *ranks, const char *what, const void *mine, size_t bytes,
                          void *all);
/* When the first step began, by clock_ns of this process: at one time on all ranks. */
uint64_t ranks_begin_ns(const struct ranks *ranks);

/* Starts the threads, which train on their sessions (train_follow). */
remat_status ranks_start(struct ranks *ranks, const struct model *model,
                         const struct train_settings *settings);
/* Orders of rank 0 to all ranks: no more steps, a step, an evaluation, a checkpoint. */
enum ranks_order { RANKS_END, RANKS_STEP, RANKS_EVALUATE, RANKS_SAVE };
remat_status ranks_order(struct ranks *ranks, enum ranks_order order);
/* Another rank waits for order number `turn`, counted from 1. */
remat_status ranks_wait_for_order(struct ranks *ranks, uint64_t turn, enum ranks_order *order);
/* Whether this or, on rank 0, another process was interrupted before the last order. */
bool ranks_interrupted(const struct ranks *ranks);
/* On rank 0, after it or a failure: waits for the threads. `status` is rank 0's, and so is the
 * result, unless another rank failed first. */
remat_status ranks_finish(struct ranks *ranks, remat_status status);
/* On every process, after its last step: step time of the slowest rank, memory of the fullest
 * process and GPU, and step times of all ranks, which are there until ranks_close. */
remat_status ranks_measure(struct ranks *ranks, struct measured *measured);
/* On every process, last, on rank 0 when its files are in place: none goes before all have come. */
remat_status ranks_end(struct ranks *ranks);

#endif
