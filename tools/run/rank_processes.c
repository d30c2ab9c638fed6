/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks_state.h"

#include "interrupt.h"
#include "progress.h"

#include <inttypes.h>

remat_status rank_processes_open(struct ranks *all)
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
    st = rank_devices_open(all);
    if (st)
        RUN_FAIL(all->ctx, st, "rank %" PRIu32 ": %s", all->launch.rank,
                 remat_context_message(all->ctx));
    all->host_engine = all->ranks[0].engine;
fail:
    return st;
}

remat_status rank_processes_collect(struct ranks *ranks, const char *what, uint64_t number)
{
    return ranks_gather(ranks, what, &number, sizeof number, ranks->numbers);
}

/* Each one says at every order what it has to say: rank 0 the order, the others whether they were
 * interrupted. */
static remat_status tell_order(struct ranks *ranks, uint64_t number)
{
    remat_status st = rank_processes_collect(ranks, "order", number);
    ranks->begin_ns = ranks->begin_ns ? ranks->begin_ns : clock_ns();
    return st;
}

remat_status rank_processes_order(struct ranks *ranks, enum ranks_order order)
{
    remat_status st = tell_order(ranks, order);
    for (uint32_t r = 1; r < ranks->count && st == REMAT_OK; r++)
        ranks->interrupted |= ranks->numbers[r] != 0;
    return st;
}

remat_status rank_processes_wait_for_order(struct ranks *ranks, enum ranks_order *order)
{
    remat_status st = tell_order(ranks, cli_interrupted());
    *order = (enum ranks_order)ranks->numbers[0];
    return st;
}
