/* SPDX-License-Identifier: Apache-2.0 */
#include "watch.h"

#include "interrupt.h"
#include "size.h"

#include <math.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

remat_status cli_watch_start(remat_context *ctx, const char *time_limit, struct cli_watch *w)
{
    w->begin = now();
    w->limit = INFINITY;
    w->next = isatty(STDERR_FILENO) == 1 ? 1 : INFINITY;
    cli_catch_interrupts();
    return time_limit ? remat_duration_parse(ctx, "--time-limit", time_limit, &w->limit) : REMAT_OK;
}

double cli_watch_elapsed(const struct cli_watch *w)
{
    return now() - w->begin;
}

bool cli_watch_over(struct cli_watch *w)
{
    double elapsed = cli_watch_elapsed(w);
    if (elapsed >= w->next) {
        w->tell(w->user, floor(elapsed));
        w->next = floor(elapsed) + 1;
    }
    return cli_interrupted() || elapsed >= w->limit;
}
