/* SPDX-License-Identifier: Apache-2.0 */
/* A plan made by hand: two layers, one value of layer 0 recomputed. */
#ifndef PLANS_H
#define PLANS_H

#include "program.h"

/* Lives in the arena; NULL when out of memory. It is not meant to run. */
struct remat_program *make_small_plan(struct remat_arena *arena);

#endif
