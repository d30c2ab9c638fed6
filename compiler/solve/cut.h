/* SPDX-License-Identifier: Apache-2.0 */
/* The network of one lower bound. At the first run of a node k nothing that descends from k has
 * run, and at most `budget` bytes are live. What the descendants read must come out of those bytes
 * or be recomputed: a minimum cut prices the choice with lambda per byte, and lambda is raised
 * by Newton's method on the concave dual (docs/problems.md). For remat-solve; the planner's cut is
 * border.h's. */
#ifndef REMAT_CUT_H
#define REMAT_CUT_H

#include "flow.h"
#include "problem.h"

enum remat_cut_fixed { REMAT_CUT_OPEN, REMAT_CUT_KEPT, REMAT_CUT_DROPPED };

/* Belongs to one thread. `fixed` and `room` may be changed between the calls below; a value that is
 * fixed as kept takes its bytes out of `room` there. */
struct remat_cut {
    const struct remat_problem *problem;
    uint64_t room;                      /* bytes for values that are not surely there */
    uint8_t *fixed;                     /* by value: enum remat_cut_fixed */
    int shift;                          /* units per tick, as a power of two */
    bool *keep, *keep_more, *keep_less; /* by value, of the last cut and of the two lines */
    bool solved;          /* what the bound says is reached within the room, by keep_more */
    bool *free_of_charge; /* surely there */

    struct remat_deadline *deadline; /* may be NULL */
    uint64_t steps;                  /* of all flows */
    struct remat_arena *arena;       /* of the network */
    uint64_t *charge;                /* by node: ticks that making it once more costs at least */
    uint8_t *side;                   /* by node: ancestor, descendant of k or 0 */
    bool *needed;
    bool built; /* the network, for k */
    struct remat_flow flow;
    uint32_t *keep_arc, *run_arc, *need_arc;
};

/* Arrays live in the arena; the network is given back by destroy. */
void remat_cut_create(struct remat_arena *arena, const struct remat_problem *problem,
                      struct remat_deadline *deadline, struct remat_cut *out);
void remat_cut_destroy(struct remat_cut *cut);

/* Takes the first run of k, which no way may fuse. False when what is surely live then exceeds the
 * budget. */
bool remat_cut_look(struct remat_cut *cut, uint32_t k, uint64_t budget);
/* Bytes beyond the room if everything needed were kept; 0: the bound is 0. */
uint64_t remat_cut_pressure(const struct remat_cut *cut);
/* The largest bound, in units beyond the sum of least times. After the deadline it is a smaller
 * one, and the cuts mean nothing. */
double remat_cut_bound(struct remat_cut *cut);

#endif
