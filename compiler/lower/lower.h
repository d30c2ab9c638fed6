/* SPDX-License-Identifier: Apache-2.0 */
/* From a scheduled, placed and priced kernel list to the plan. */
#ifndef REMAT_LOWER_H
#define REMAT_LOWER_H

#include "border.h"
#include "decision.h"
#include "step.h"

/* The effect of the other action on a value, all others as decided. */
struct remat_alternative {
    bool written;                        /* the forward pass writes it when everything is saved */
    bool recomputable;                   /* both saving and recomputing it are possible */
    int64_t recompute_extra_ns;          /* of one run: recomputed minus saved */
    const struct remat_border_way *ways; /* to keep it, beside in place */
    uint32_t way_count;
};

struct remat_lowering {
    const struct remat_step *step; /* whose segments are all scheduled */
    const struct remat_persistent *persistent;
    const struct remat_decision *decision;
    const struct remat_alternative *alternatives; /* by value of the decided graph */
};

/* Fills buffers, values, operands, kernels, commands, segments, scripts, tensors, mesh, decisions,
 * the byte counts and step_ns of `out`; what is known only to the pipeline (names, budget, policy,
 * hashes, base time) is left to the caller. Segment and entry "init" fill parameters and states. */
void remat_lower(struct remat_arena *arena, const struct remat_lowering *lowering,
                 struct remat_program *out);

#endif
