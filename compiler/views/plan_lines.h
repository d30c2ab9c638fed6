/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of reports on a plan: its mesh, its certificate, the source of its costs, manual policies
 * next to it. */
#ifndef REMAT_PLAN_LINES_H
#define REMAT_PLAN_LINES_H

#include "base.h"
#include "program.h"

/* Appends "mesh  dp=4: 4 ranks, rank 0 sends 1.25 MB a step, in 0.31 ms, of which 0.12 ms are
 * exposed", the word "mesh" padded to `width`, and the depth of the plan's prefetch where it has
 * one; nothing for a plan without a mesh. */
void mesh_print(const struct remat_program *program, int width, struct remat_text *out);

/* Appends "optimal within 0.41 % under these costs: ...", "with these pins" where pins decided some
 * value; nothing when the plan has no bound. */
void certificate_print(const struct remat_program *program, struct remat_text *out);

/* Appends where the costs come from: "100.0 % of the step modelled, 0.0 % interpolated, 0.0 %
 * measured". */
void costs_print(const struct remat_program *program, struct remat_text *out);

/* Appends a line "megatron  --recompute-granularity ..." for each system that the plan names a
 * setting of, the system's name padded to `width`; after "nearest: " and with what it costs in time
 * when the plan is not that policy's. */
void manuals_print(const struct remat_program *program, int width, struct remat_text *out);

#endif
