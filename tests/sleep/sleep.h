/* SPDX-License-Identifier: Apache-2.0 */
/* A device whose commands take the time that the plan predicts for them, stretched, and an engine
 * whose transfers do. All that a command does is sleep, so that any number of ranks run side by
 * side, whatever the plan is for: what a session makes of the plan's streams takes its real time.
 *
 * sleep_devices are found by name, beside those of the product, in programs that link with the
 * dependency `sleep`. A session gets one, and the engine of its rank; then sleep_attach joins both
 * to the clock of the rank. While sessions run, every access to a buffer is watched (accesses.h).
 *
 * A command begins when the last one on its rank that has ended did, and not when its thread wakes:
 * commands that follow each other lose no time between them, as on a GPU. Where the device computes
 * too, a command begins when it is executed. */
#ifndef TESTS_SLEEP_H
#define TESTS_SLEEP_H

#include "program.h"

#include <remat/engine.h>
#include <remat/remat.h>

#define SLEEP_DEVICE         "sleep"     /* computes nothing; its memory is address space */
#define SLEEP_DEVICE_ON_CPUS "sleep+cpu" /* computes as the CPU does, in the time that is left */

struct sleep_settings {
    double scale,
        transfer_scale; /* of predicted times, of commands that compute and of transfers */
    uint64_t seed; /* not 0: each command takes half to double the time, by its rank and this */
    uint64_t timeout_ns; /* that a transfer waits for other ranks */
};

/* The ranks of a program: a clock for each, and where they meet. */
struct sleep_ranks;
struct sleep_ranks *sleep_create(const struct remat_program *program);
void sleep_destroy(struct sleep_ranks **ranks);

/* Of a rank's session; `inner`, which moves the bytes, may be NULL: they stay. */
void sleep_engine(struct sleep_ranks *ranks, uint32_t rank, const remat_engine *inner,
                  remat_engine *out);
void sleep_attach(struct sleep_ranks *ranks, uint32_t rank, remat_session *session);

/* By each rank before it runs an entry point. */
void sleep_begin(struct sleep_ranks *ranks, uint32_t rank, const struct sleep_settings *settings);
/* Of what ran since then: how long commands that compute took, and the first wrong access of the
 * rank ("" where there was none). */
uint64_t sleep_computed_ns(const struct sleep_ranks *ranks, uint32_t rank);
const char *sleep_message(const struct sleep_ranks *ranks, uint32_t rank);

#endif
