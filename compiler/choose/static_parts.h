/* SPDX-License-Identifier: Apache-2.0 */
/* Persistent memory of a plan, by purpose. */
#ifndef REMAT_STATIC_PARTS_H
#define REMAT_STATIC_PARTS_H

#include "program.h"

enum remat_static_part {
    REMAT_PART_WEIGHTS,      /* of parameters that a step updates */
    REMAT_PART_ACCUMULATORS, /* of their gradients */
    REMAT_PART_MASTERS,
    REMAT_PART_MOMENTS,
    REMAT_PART_FROZEN, /* parameters that no step updates */
    REMAT_PART_OTHER,  /* inputs, outputs, counters, the workspace, alignment */
    REMAT_STATIC_PARTS
};
const char *remat_static_part_name(enum remat_static_part part); /* "weights", ... */

struct remat_static_parts {
    uint64_t trained, frozen;           /* parameters: elements of whole tensors */
    uint64_t bytes[REMAT_STATIC_PARTS]; /* of a rank; they add up to static_bytes */
};
/* REMAT_ERROR_MEMORY. */
remat_status remat_static_parts_measure(struct remat_arena *arena,
                                        const struct remat_program *program,
                                        struct remat_static_parts *out);

#endif
