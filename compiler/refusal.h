/* SPDX-License-Identifier: Apache-2.0 */
/* Why nothing fits a budget. */
#ifndef REMAT_REFUSAL_H
#define REMAT_REFUSAL_H

#include <stdbool.h>
#include <stdint.h>

enum { REMAT_REFUSED_RESIDENTS = 5 }; /* named at most */

/* A buffer that lives at the peak. */
struct remat_refused_resident {
    const char *name; /* of the value in it */
    uint64_t bytes;
    const char *removal;        /* "recompute", or why it stays: "persistent", "in use", "pinned",
                                   "needed" */
    int64_t recompute_extra_ns; /* of a step, by recomputing */
};

/* The smallest plan, and why it is no smaller. */
struct remat_refusal {
    uint64_t budget_bytes;
    uint64_t smallest_bytes; /* budget for it: arena and reserve */
    uint64_t reserve_bytes, live_peak_bytes, static_bytes;
    uint64_t workspace_bytes;    /* of static_bytes; no resident */
    uint64_t floor_bytes;        /* proven: no smaller budget fits; 0: nobody asked */
    bool pinned;                 /* the floor is of decisions that keep the pins */
    const char *binding, *phase; /* the command at the live peak */
    uint32_t resident_count;
    const struct remat_refused_resident *residents; /* the largest ones, largest first */
};

#endif
