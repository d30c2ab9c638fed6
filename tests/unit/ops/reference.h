/* SPDX-License-Identifier: Apache-2.0 */
/* A float64 reference of every op, primitive and composite: plain loops over indices, which share
 * no code with compiler/ops. Tests only. */
#ifndef REFERENCE_H
#define REFERENCE_H

#include "ops.h"

/* Evaluates the graph in order. values[v] points to the elements of value v (i32 ones as doubles,
 * too): set for graph inputs by the caller, allocated in the arena for the others. Nothing is
 * updated in place. False when an op has no reference or memory is out. */
bool reference_evaluate(struct remat_arena *arena, const struct remat_graph *graph,
                        double **values);

#endif
