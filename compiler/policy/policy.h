/* SPDX-License-Identifier: Apache-2.0 */
/* Manual policies: the settings users know from Megatron-LM and torchtune/torchtitan, as rules from
 * a graph to a decision. Semantics and sources: docs/policies.md. */
#ifndef REMAT_POLICY_H
#define REMAT_POLICY_H

#include "decision.h"
#include "graph.h"
#include "policy_settings.h"

enum remat_granularity {                    /* the three families of settings come down to these */
                         REMAT_POLICY_NONE, /* save everything */
                         REMAT_POLICY_LAYERS,    /* recompute whole layers: full, block, uniform,
                                                    every-N */
                         REMAT_POLICY_SELECTIVE, /* recompute modules of every layer */
                         REMAT_POLICY_OPS, /* recompute all but the outputs of listed ops in every
                                              layer */
};

/* True when some setting other than pins is present. */
bool remat_policy_given(const struct remat_policy_settings *settings);

/* Policies of a family differ in a number of layers. Where layers are alike, a later one in the
 * array of manual policies is slower and smaller; of BLOCK, which recomputes one layer more, in any
 * case. */
enum remat_policy_family {
    REMAT_POLICIES_NONE,
    REMAT_POLICIES_BLOCK,
    REMAT_POLICIES_UNIFORM,
    REMAT_POLICIES_EVERY,
    REMAT_POLICIES_EVERY_N_LAYERS
};

/* How layers are counted: of each stack, or through all stacks in one go; both where there is one
 * stack. */
enum remat_stacks_counted { REMAT_STACKS_APART, REMAT_STACKS_TOGETHER, REMAT_STACKS_ONE };

/* A policy that has been checked against a graph. */
struct remat_policy {
    const char *name; /* printable: "none", "selective core_attn", "block 3", "save attention" */
    enum remat_granularity granularity;
    uint32_t unit_layers; /* LAYERS: number of layers replayed together (uniform), else 1 */
    uint32_t layer_count; /* of `recomputed`; 0: none */
    uint8_t *recomputed;  /* by layer: nonzero when the policy recomputes something in it */
    enum remat_stacks_counted stacks;
    uint8_t inputs;       /* LAYERS: the action of how what a unit is recomputed from is kept */
    const char *modules;  /* SELECTIVE: comma-separated */
    const char *save_ops; /* OPS: NULL for the default rule */
    enum remat_policy_family family;
};

/* Walks rules.def: settings that contradict each other, are unknown, out of range, match nothing,
 * or ask for what the graph lacks give REMAT_ERROR_USAGE with a message that names the setting, the
 * value and the accepted range. */
remat_status remat_policy_resolve(remat_context *ctx, struct remat_arena *arena,
                                  const struct remat_graph *graph,
                                  const struct remat_policy_settings *settings,
                                  struct remat_policy *out);

/* Systems that know some of the policies. */
enum remat_system {
    REMAT_SYSTEM_MEGATRON,
    REMAT_SYSTEM_TORCHTUNE,
    REMAT_SYSTEM_TORCHTITAN,
    REMAT_SYSTEM_TRANSFORMERS, /* and TRL */
    REMAT_SYSTEM_AXOLOTL,
    REMAT_SYSTEM_COUNT /* none of them: any policy */
};
const char *remat_system_name(enum remat_system system); /* "megatron" */

/* The system's flags for the policy, as typed there, "" for none of them; NULL: it has none for it.
 */
const char *remat_policy_flags(struct remat_arena *arena, const struct remat_policy *policy,
                               enum remat_system system);

/* The manual policies that a budget chooses from: none, selective of every set of modules that the
 * graph has, block 1 ... L - 1, uniform 2 ... L, every L ... 2, every_n_layers of all layers ... 2,
 * full, save ops by default, and of every list of the layers' ops; with "tp", and no sequence
 * parallelism, block, uniform and full also distributed; where these are more than ten, and lists
 * times nodes above 32,000,000, of those lists that save most of what takes long, 1022 at least.
 * Where policies of one kind times nodes are above 50,000,000, of block, uniform and every some
 * numbers, and fewer lists. Lists may decide the same, as each other and as other policies. Block
 * L, uniform 1 and every 1 are full. Without layers: none alone. */
struct remat_policies REMAT_LIST(struct remat_policy);
void remat_manual_policies(struct remat_arena *arena, const struct remat_graph *graph,
                           struct remat_policies *out);

/* Facts from which every policy on one graph decides; in `arena`. `graph` is expanded and
 * outlives it, like the settings' strings. REMAT_ERROR_USAGE where pins match nothing, cannot be
 * followed or contradict each other. */
struct remat_policy_facts;
remat_status remat_policy_prepare(remat_context *ctx, struct remat_arena *arena,
                                  const struct remat_graph *graph,
                                  const struct remat_policy_settings *pins,
                                  struct remat_policy_facts **out);

/* Some value is as a pin says; false for NULL. */
bool remat_decision_has_pins(const struct remat_decision *decision);

/* The decision of the pins alone: a reason marks each value that they are about. In `arena`. */
const struct remat_decision *remat_policy_pinned(const struct remat_policy_facts *shared,
                                                 struct remat_arena *arena);

/* The decision of a policy with the pins on top. A note is a sentence for the report ("selective
 * saves nothing here: attention is fused ..."). `notes` NULL: neither notes nor reasons are asked
 * for. */
struct remat_notes REMAT_LIST(const char *);
void remat_policy_decide(const struct remat_policy_facts *shared, struct remat_arena *arena,
                         const struct remat_policy *policy, struct remat_decision *out,
                         struct remat_notes *notes);

#endif
