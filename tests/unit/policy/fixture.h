/* SPDX-License-Identifier: Apache-2.0 */
/* A GPT-2-like graph as policies see it: expanded, with its backward pass. */
#ifndef POLICY_FIXTURE_H
#define POLICY_FIXTURE_H

#include "graph.h"
#include "policy.h"

enum { LAYERS = 6 };

/* `family` "gpt2-tiny" has LAYERS layers; `expanded` false: as generated. */
remat_status fixture_graph(remat_context *ctx, struct remat_arena *arena, const char *preset,
                           bool expanded, struct remat_graph **out);

/* The passes up to that point, on a graph as written. */
remat_status fixture_expand(struct remat_arena *arena, struct remat_graph *graph,
                            struct remat_graph **out);

/* Resolves the settings and decides. */
remat_status fixture_decide(remat_context *ctx, struct remat_arena *arena,
                            const struct remat_graph *graph,
                            const struct remat_policy_settings *settings,
                            struct remat_policy *policy, struct remat_decision *decision,
                            struct remat_notes *notes);

#endif
