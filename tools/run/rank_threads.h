/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are threads of this process: rank 0 is the caller's, the others wait for its orders.
 */
#ifndef REMAT_TOOLS_RUN_RANK_THREADS_H
#define REMAT_TOOLS_RUN_RANK_THREADS_H

#include "ranks_state.h"

remat_status rank_threads_open(struct ranks *ranks);  /* contexts and local engines */
remat_status rank_threads_start(struct ranks *ranks); /* they train */
void rank_threads_order(struct ranks *ranks, enum ranks_order order);
enum ranks_order rank_threads_wait_for_order(struct ranks *ranks, uint64_t turn);
/* No more orders: waits for the threads. Harmless when they have ended. */
void rank_threads_end(struct ranks *ranks);
/* `status`, unless a thread has failed by itself. */
remat_status rank_threads_failure(struct ranks *ranks, remat_status status);

#endif
