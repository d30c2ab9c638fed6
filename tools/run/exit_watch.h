/* SPDX-License-Identifier: Apache-2.0 */
/* A deadline for the rest of the process, exit() included. */
#ifndef RUN_EXIT_WATCH_H
#define RUN_EXIT_WATCH_H

#include <stdint.h>

/* To be called after the last transfer. Libraries of MPI and GPUs do more when the process exits,
 * and may hang: after timeout_ns a thread ends it with a line on standard error and `code`. Once.
 * Where there is no thread to be had nothing is watched. */
void exit_watch(uint32_t rank, uint64_t timeout_ns, int code);

#endif
