/* SPDX-License-Identifier: Apache-2.0 */
/* Private to exec: the handle of a loaded program. */
#ifndef REMAT_PLAN_H
#define REMAT_PLAN_H

#include "program.h"

#include <remat/remat.h>

struct remat_plan {
    struct remat_arena arena;      /* of the program */
    struct remat_program *program; /* immutable */
    char mesh[REMAT_MESH_TEXT_BYTES];
};

/* An entry point by name, NULL when there is none. */
const struct remat_entry *remat_plan_find_entry(const struct remat_plan *plan, const char *name);

/* From a rank to the next one along an axis of the mesh, whose last one has the nearest neighbours.
 */
uint32_t remat_rank_stride(const struct remat_program *program, uint32_t axis);

/* How ranks divide the tensor that a value is of. */
remat_parts remat_parts_of(const struct remat_program *program,
                           const struct remat_program_value *value);

#endif
