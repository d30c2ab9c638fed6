/* SPDX-License-Identifier: Apache-2.0 */
/* For tools that search: the clock, interrupts and a line of progress every second. */
#ifndef REMAT_TOOLS_WATCH_H
#define REMAT_TOOLS_WATCH_H

#include <remat/status.h>
#include <stdbool.h>

/* One at a time. */
struct cli_watch {
    double begin, limit, next;                /* seconds; next: of the next line, since `begin`;
                                                 INFINITY: standard error is no terminal */
    void (*tell)(void *user, double elapsed); /* prints a line */
    void *user;
};

/* Catches interrupts, of which the first ends the search. `time_limit`: as in size.h; NULL:
 * none. REMAT_ERROR_USAGE: it is not a time. */
remat_status cli_watch_start(remat_context *ctx, const char *time_limit, struct cli_watch *watch);
/* Seconds since the start. */
double cli_watch_elapsed(const struct cli_watch *watch);
/* True from the interrupt or the limit on. Tells if a second has passed. */
bool cli_watch_over(struct cli_watch *watch);

#endif
