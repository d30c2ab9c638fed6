/* SPDX-License-Identifier: Apache-2.0 */
/* Why nothing fits a budget. */
#ifndef REMAT_REFUSAL_H
#define REMAT_REFUSAL_H

#include "program.h"

struct remat_refusal {
    uint64_t budget_bytes;
    uint64_t smallest_bytes; /* budget for the smallest plan: arena and reserve; 0: not known yet */
    uint64_t reserve_bytes;
    uint64_t floor_bytes; /* proven: no smaller budget fits; 0: nobody asked */
    bool pinned;          /* the floor is of decisions that keep the pins */
    /* Buffers, commands and decisions of the smallest plan; without names of files and settings.
     * NULL: not known yet. */
    const struct remat_program *smallest;
};

#endif
