/* SPDX-License-Identifier: Apache-2.0 */
/* The border problem (border.h) of one lower bound. At the first run of a node k nothing that
 * descends from k has run, and at most `budget` bytes are live. Values that the descendants read
 * must come out of those bytes or be recomputed (docs/problems.md). */
#ifndef REMAT_CUT_H
#define REMAT_CUT_H

#include "border.h"
#include "problem.h"

/* Belongs to one thread. A value that is fixed as kept takes its bytes out of `room`. */
struct remat_cut {
    const struct remat_problem *problem;
    struct remat_border border; /* items and tasks by node, no charges; costs in units */
    uint64_t room;              /* bytes for values that are not surely there */
    int shift;                  /* units per tick, as a power of two */
    uint64_t *charge;           /* by node: units that making it once more costs at least */
    uint8_t *side;              /* by node: ancestor, descendant of k or 0 */
};

struct remat_cut remat_cut_create(struct remat_arena *arena, const struct remat_problem *problem);

/* Takes the first run of k, which no mode may fuse. Values that are surely there have no bytes.
 * False when that exceeds the budget. */
bool remat_cut_look(struct remat_cut *cut, remat_problem_node k, uint64_t budget);
/* Bytes beyond the room if everything wanted were kept; 0: the bound is 0. */
uint64_t remat_cut_pressure(const struct remat_cut *cut);

#endif
