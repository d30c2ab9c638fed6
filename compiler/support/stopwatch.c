/* SPDX-License-Identifier: Apache-2.0 */
#include "stopwatch.h"

#include <assert.h>
#include <time.h>

uint64_t remat_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void remat_stopwatch_start(struct remat_stopwatch *watch)
{
    if (watch->running)
        watch->begin_ns = remat_clock_ns();
}

void remat_stopwatch_lap(struct remat_stopwatch *watch, enum remat_lap lap)
{
    assert(lap < REMAT_LAP_COUNT);
    if (!watch->running)
        return;
    uint64_t now = remat_clock_ns();
    watch->ns[lap] += now - watch->begin_ns;
    watch->runs[lap]++;
    watch->begin_ns = now;
}

void remat_stopwatch_report(const struct remat_stopwatch *watch,
                            void (*report)(void *user, const char *lap, uint64_t ns, uint32_t runs),
                            void *user)
{
    static const char *const names[] = {"extract", "plan",     "decide",    "clone",
                                        "fuse",    "schedule", "lifespans", "price",
                                        "place",   "explain",  "lower",     "emit"};
    for (int lap = 0; lap < REMAT_LAP_COUNT && report; lap++)
        report(user, names[lap], watch->ns[lap], watch->runs[lap]);
}
