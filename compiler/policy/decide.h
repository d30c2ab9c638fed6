/* SPDX-License-Identifier: Apache-2.0 */
/* Manual policies to decisions. */
#ifndef REMAT_DECIDE_H
#define REMAT_DECIDE_H

#include "policy.h"

/* The ground of the decisions of all policies on one graph; in `arena`. `graph` is expanded and
 * outlives it, like the settings' strings. REMAT_ERROR_USAGE where pins match nothing, cannot be
 * followed or contradict each other. */
struct remat_policy_ground;
remat_status remat_policy_prepare(remat_context *ctx, struct remat_arena *arena,
                                  const struct remat_graph *graph,
                                  const struct remat_policy_settings *pins,
                                  struct remat_policy_ground **out);

/* Some value is as a pin says; false for NULL. */
bool remat_decision_has_pins(const struct remat_decision *decision);

/* The decision of the pins alone: a reason marks each value that they are about. In `arena`. */
const struct remat_decision *remat_policy_pinned(const struct remat_policy_ground *ground,
                                                 struct remat_arena *arena);

/* The decision of a policy with the pins on top. A note is a sentence for the report ("selective
 * saves nothing here: attention is fused ..."). `notes` NULL: neither notes nor reasons are asked
 * for. */
struct remat_notes REMAT_LIST(const char *);
void remat_policy_decide(const struct remat_policy_ground *ground, struct remat_arena *arena,
                         const struct remat_policy *policy, struct remat_decision *out,
                         struct remat_notes *notes);

#endif
