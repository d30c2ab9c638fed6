/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a plan as threads of this process. Rank 0 is the caller's thread, which prints,
 * records and decides; the others do the same steps, each in a thread. A plan of one rank has no
 * other. */
#ifndef REMAT_TOOLS_RUN_RANKS_H
#define REMAT_TOOLS_RUN_RANKS_H

#include "run.h"

struct train_model;
struct train_settings;
struct text;
struct ranks;

/* Contexts for all ranks but 0, whose is `ctx`, and their engines. *out is NULL for one rank. */
remat_status ranks_open(remat_context *ctx, const remat_plan *plan, struct ranks **out);
/* Ends the threads; NULL in *ranks is harmless. */
void ranks_close(struct ranks **ranks);

uint32_t ranks_count(const struct ranks *ranks); /* 1: ranks is NULL */
/* Of a rank that is below the count; NULL: ranks is NULL. */
const remat_engine *ranks_engine(const struct ranks *ranks, uint32_t rank);
/* Of a rank above 0: its context, and its session, which the ranks destroy. */
remat_context *ranks_context(const struct ranks *ranks, uint32_t rank);
remat_session **ranks_session(struct ranks *ranks, uint32_t rank);

/* Starts the threads, which train on their sessions (train_follow). */
remat_status ranks_start(struct ranks *ranks, const struct train_model *model,
                         const struct train_settings *settings, const struct text *text);
/* Rank 0 begins a step, counted from 1. */
void ranks_begin_step(struct ranks *ranks, uint64_t step);
/* Waits until it does; false: there are no more. */
bool ranks_wait_for_step(struct ranks *ranks, uint64_t step);
/* No more steps: waits for the threads. `status` is rank 0's, and so is the result, unless another
 * rank failed first. *total_ns: of the slowest of the others. */
remat_status ranks_finish(struct ranks *ranks, remat_status status, uint64_t *total_ns);

#endif
