/* SPDX-License-Identifier: Apache-2.0 */
/* CPU times of the stages of compiling, for -v. */
#ifndef REMAT_STOPWATCH_H
#define REMAT_STOPWATCH_H

#include <stdbool.h>
#include <stdint.h>

enum remat_lap {
    REMAT_LAP_EXTRACT,
    REMAT_LAP_PLAN,
    REMAT_LAP_DECIDE,
    REMAT_LAP_CLONE,
    REMAT_LAP_FUSE,
    REMAT_LAP_SCHEDULE,
    REMAT_LAP_LIFESPANS,
    REMAT_LAP_PRICE,
    REMAT_LAP_PLACE,
    REMAT_LAP_EXPLAIN,
    REMAT_LAP_LOWER,
    REMAT_LAP_EMIT,
    REMAT_LAP_COUNT
};

/* Thread-compatible. */
struct remat_stopwatch {
    bool running; /* false: no clock is read */
    uint64_t begin_ns;
    uint64_t ns[REMAT_LAP_COUNT];
    uint32_t runs[REMAT_LAP_COUNT];
};

uint64_t remat_clock_ns(void); /* CPU time of the process */
void remat_stopwatch_start(struct remat_stopwatch *watch);
/* Adds the time since the start or the lap before. */
void remat_stopwatch_lap(struct remat_stopwatch *watch, enum remat_lap lap);
/* Each lap's name, time and number of times; report NULL: nothing. */
void remat_stopwatch_report(const struct remat_stopwatch *watch,
                            void (*report)(void *user, const char *lap, uint64_t ns, uint32_t runs),
                            void *user);

#endif
