/* For tools that search: the clock, Ctrl-C and a line of progress every second. */
#ifndef REMAT_TOOLS_WATCH_H
#define REMAT_TOOLS_WATCH_H

#include <remat/status.h>
#include <stdbool.h>

/* One at a time. */
struct cli_watch {
    double begin, limit, next;                /* seconds; next: of the next line, since `begin` */
    void (*tell)(void *user, double elapsed); /* prints a line */
    void *user;
};

/* From now on Ctrl-C ends the search; a second one ends the process. `time_limit`: "500ms", "10s",
 * "2min", "10" (seconds), NULL: none. REMAT_ERROR_USAGE: it is not a time. */
remat_status cli_watch_start(remat_context *ctx, const char *time_limit, struct cli_watch *watch);
/* True from Ctrl-C or the limit on. Tells if a second has passed. */
bool cli_watch_over(struct cli_watch *watch);
bool cli_watch_interrupted(void);
/* Ctrl-C ends the process again. */
void cli_watch_stop(void);

#endif
