/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers of the forward and the backward pass: none that the optimizer waits for. */
#ifndef REMAT_DUMP_LAYER_TRANSFERS_H
#define REMAT_DUMP_LAYER_TRANSFERS_H

#include "dump.h"

struct transfer {
    uint32_t command;
    struct remat_transfer_shape shape;
    uint32_t times;                             /* in a step */
    const struct remat_decision_record *record; /* about its result; NULL: there is none */
};
struct transfers {
    struct transfer *items; /* those of a step, in order */
    size_t count, capacity;
    uint32_t *about; /* by decision: the one that makes what it is about, REMAT_NONE: none does */
};

/* `decision`: about each value (views.h); *out is zero. */
remat_status transfers_find(struct remat_arena *arena, const struct remat_program *program,
                            const uint32_t *decision, struct transfers *out);
/* A table of those along an axis, if there are any. */
remat_status transfers_print(struct remat_arena *arena, const struct remat_program *program,
                             const struct transfers *transfers, uint32_t axis,
                             struct remat_text *out);
json_t *transfer_json(const struct remat_program *program, const struct transfer *transfer);

#endif
