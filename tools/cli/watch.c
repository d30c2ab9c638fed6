/* SPDX-License-Identifier: Apache-2.0 */
#include "watch.h"

#include "cli.h"
#include "interrupt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static remat_status read_limit(remat_context *ctx, const char *text, double *seconds)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"ms", 1e-3}, {"s", 1}, {"min", 60}, {"", 1}};
    char *end;
    double value = strtod(text, &end);
    for (size_t i = 0; end != text && i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].unit) == 0) {
            *seconds = value * units[i].seconds;
            if (*seconds >= 1e-3 && *seconds <= 1e6)
                return REMAT_OK;
        }
    return cli_error(ctx, REMAT_ERROR_USAGE,
                     "--time-limit '%s' is not a time (accepted: 1ms to 1000000s, as 500ms, 10s, "
                     "2min)",
                     text);
}

remat_status cli_watch_start(remat_context *ctx, const char *time_limit, struct cli_watch *w)
{
    w->begin = now();
    w->limit = INFINITY;
    w->next = isatty(STDERR_FILENO) == 1 ? 1 : INFINITY;
    cli_catch_interrupts();
    return time_limit ? read_limit(ctx, time_limit, &w->limit) : REMAT_OK;
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
