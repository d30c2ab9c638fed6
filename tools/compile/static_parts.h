/* SPDX-License-Identifier: Apache-2.0 */
/* Persistent memory of a plan, by purpose. */
#ifndef REMAT_TOOLS_COMPILE_STATIC_PARTS_H
#define REMAT_TOOLS_COMPILE_STATIC_PARTS_H

#include "program.h"

enum static_part {
    PART_WEIGHTS,      /* of parameters that a step updates */
    PART_ACCUMULATORS, /* of their gradients */
    PART_MASTERS,
    PART_MOMENTS,
    PART_FROZEN, /* parameters that no step updates */
    PART_OTHER,  /* inputs, outputs, counters, the workspace, alignment */
    STATIC_PART_COUNT
};
const char *static_part_name(enum static_part part); /* "weights", ... */

struct static_parts {
    uint64_t trained, frozen;          /* parameters: elements of whole tensors */
    uint64_t bytes[STATIC_PART_COUNT]; /* of a rank; they add up to static_bytes */
};
/* REMAT_ERROR_MEMORY. */
remat_status static_parts_measure(struct remat_arena *arena, const struct remat_program *program,
                                  struct static_parts *out);

#endif
