/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines of searches, polled as work is counted. */
#ifndef REMAT_DEADLINE_H
#define REMAT_DEADLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REMAT_DEADLINE_STEPS = 1 << 16 };

/* `expired` is polled until it returns true, which ends the search early. NULL: no deadline. */
struct remat_deadline {
    bool (*expired)(void *user);
    void *user;
    bool hit;              /* it has returned true */
    uint64_t steps, asked; /* steps so far, of some nanoseconds each; steps at the last poll */
};

static inline bool remat_deadline_expired(struct remat_deadline *d)
{
    if (d && !d->hit && d->expired)
        d->hit = d->expired(d->user);
    return d && d->hit;
}

/* Counts work, and polls every REMAT_DEADLINE_STEPS steps. */
static inline bool remat_deadline_count(struct remat_deadline *d, uint64_t steps)
{
    if (!d)
        return false;
    d->steps += steps;
    if (d->steps - d->asked < REMAT_DEADLINE_STEPS)
        return d->hit;
    d->asked = d->steps;
    return remat_deadline_expired(d);
}

#endif
