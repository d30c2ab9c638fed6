/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a scheduled, placed and priced kernel list. */
#ifndef REMAT_LOWER_H
#define REMAT_LOWER_H

#include "border.h"
#include "decision.h"
#include "step.h"

/* The effect of the other action on one value, all other values as decided. */
struct remat_alternative {
    bool written;                        /* the forward pass writes it when everything is saved */
    bool recomputable;                   /* both saving and recomputing it are possible */
    int64_t recompute_extra_ns;          /* of one run: recomputed minus saved */
    const struct remat_border_way *ways; /* to keep it other than in place */
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

REMAT_INDEX(remat_command_id); /* of a program */

/* Fills decisions and recomputed_layers, for dump and report: one record for each forward value
 * that the backward pass needs, in order. SAVE: it reads the original. RECOMPUTE: a clone owns
 * bytes. INLINE: there are clones, and none does. TWICE and TWICE_INLINE: the same for the last
 * round's clones, where there are two rounds. A value that never leaves its kernel when everything
 * is saved has no record. `first_command` is the segment's. */
void remat_lower_decisions(struct remat_arena *arena, struct remat_arena *scratch,
                           const struct remat_lowering *lowering, remat_command_id first_command,
                           const char *const *root_name, struct remat_program *out);

#endif
