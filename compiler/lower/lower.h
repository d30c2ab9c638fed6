/* From a scheduled, placed and priced kernel list to the plan. */
#ifndef REMAT_LOWER_H
#define REMAT_LOWER_H

#include "decision.h"
#include "place.h"
#include "price.h"

struct remat_lowering {
    const struct remat_graph *graph; /* rewritten */
    const struct remat_kernel_list *kernels;
    const uint32_t *order;
    const struct remat_price *prices; /* by kernel */
    const struct remat_lifespans *lifespans;
    const struct remat_graph *decided; /* the graph that the decision is about */
    const struct remat_decision *decision;
};

/* Fills buffers, values, operands, kernels, commands, segments, entries, tensors, decisions and the
 * byte counts of `out`; what is known only to the pipeline (names, budget, policy, hashes, base
 * time) is left to the caller. Segment "init" fills parameters and states, segment "step" is the
 * rest. */
remat_status remat_lower(remat_context *ctx, struct remat_arena *arena,
                         const struct remat_lowering *lowering, struct remat_program *out);

#endif
