/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are processes of a launcher, one each. */
#ifndef REMAT_TOOLS_RUN_RANK_PROCESSES_H
#define REMAT_TOOLS_RUN_RANK_PROCESSES_H

#include "ranks_state.h"

/* And the first engine. */
remat_status rank_processes_open(struct ranks *ranks);
/* Of each rank a number, into ranks->numbers. All call it. */
remat_status rank_processes_collect(struct ranks *ranks, const char *what, uint64_t number);
remat_status rank_processes_order(struct ranks *ranks, enum ranks_order order); /* of rank 0 */
remat_status rank_processes_wait_for_order(struct ranks *ranks, enum ranks_order *order);

#endif
