/* SPDX-License-Identifier: Apache-2.0 */
/* When a search has to end: asked as work is counted, so that nothing runs long without a look. */
#ifndef REMAT_DEADLINE_H
#define REMAT_DEADLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REMAT_DEADLINE_STEPS = 1 << 16 };

/* `expired` is asked now and then until it is true; that ends the search early. NULL: never. */
struct remat_deadline {
    bool (*expired)(void *user);
    void *user;
    bool hit;              /* it was true at some time */
    uint64_t steps, asked; /* counted so far, of some nanoseconds each; when last asked */
};

static inline bool remat_deadline_expired(struct remat_deadline *d)
{
    if (d && !d->hit && d->expired)
        d->hit = d->expired(d->user);
    return d && d->hit;
}

/* Counts work; asks when REMAT_DEADLINE_STEPS have come together. */
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
