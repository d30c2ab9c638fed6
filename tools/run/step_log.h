/* SPDX-License-Identifier: Apache-2.0 */
/* A line for each step, in a file that grows with the run: what is written is there whatever
 * becomes of the process. */
#ifndef REMAT_TOOLS_RUN_STEP_LOG_H
#define REMAT_TOOLS_RUN_STEP_LOG_H

#include "run.h"

#define STEP_LOG_LINE_BYTES 512 /* the most that a line has, with its end */

struct step_log {
    int file; /* -1: none */
    const char *path;
};

/* Begins the file anew, or, for a run that goes on after step `resumed`, after the line of that
 * step. REMAT_ERROR_USAGE: another process writes to it, or it has other lines than those of a log;
 * it stays as it is. */
remat_status step_log_open(remat_context *ctx, const char *path, uint64_t resumed,
                           struct step_log *out);
void step_log_close(struct step_log *log); /* harmless when closed */

/* A whole line: {"step":N,"loss":X, ... ,"unix_s":X} */
remat_status step_log_add(remat_context *ctx, const struct step_log *log, const char *line);

#endif
