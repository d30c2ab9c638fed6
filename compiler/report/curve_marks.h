/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of other systems beside a curve. */
#ifndef REMAT_CURVE_MARKS_H
#define REMAT_CURVE_MARKS_H

#include "compile.h"

enum { REMAT_CURVE_KINDS = 7 };

struct remat_curve_mark {
    const char *name;
    uint32_t kind;       /* below REMAT_CURVE_KINDS: equal for those that the same systems have */
    const char *systems; /* that have it, for a legend; the same for a kind */
    uint64_t budget_bytes, step_ns;
};

/* Policies that the curve is compared with: settings that people use in Megatron-LM, torchtune and
 * torchtitan, as far as the graph has their ops. */
remat_status remat_curve_policies(remat_context *ctx, struct remat_arena *arena,
                                  const struct remat_graph *graph, struct remat_policies *out);

/* Marks: of these policies, which the front has priced, those that no other one of the same
 * system is as small and as fast as. Those known best come first. */
remat_status remat_curve_marks(struct remat_arena *arena, const struct remat_front *front,
                               struct remat_curve_mark **out, uint32_t *out_count);

#endif
