/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of rules.def. */
#ifndef REMAT_POLICY_RULES_H
#define REMAT_POLICY_RULES_H

#include "analysis.h"
#include "policy_settings.h"

/* --- pins: the effect of --save GLOB and --recompute GLOB on each value --- */

/* Matches of a glob. */
struct remat_pin_match {
    const char *setting; /* "--save" */
    const char *glob;
    uint32_t matched;    /* scopes or values of whatever kind */
    uint32_t applied;    /* values that it decides */
    remat_value example; /* a matched value that it cannot decide; none: there is none */
};

struct remat_pins {
    uint32_t match_count;
    struct remat_pin_match *matches;                  /* --save pins first, in the order given */
    const struct remat_pin_match **save, **recompute; /* by value, which owns its bytes: the match
                                                         that decides it; NULL: none */
};

void remat_pins_match(struct remat_arena *arena, const struct remat_graph *graph,
                      const struct remat_facts *facts, const struct remat_policy_settings *settings,
                      struct remat_pins *out);

/* --- rules --- */

enum remat_rule_stage { REMAT_STAGE_SETTINGS, REMAT_STAGE_GRAPH, REMAT_STAGE_PINS };

struct remat_rule_case {
    struct remat_arena *arena;
    const struct remat_policy_settings *settings;
    const struct remat_graph *graph;
    const struct remat_pins *pins;                  /* stage PINS only */
    uint32_t layers;                                /* of the graph; set by stage GRAPH */
    const char *setting, *value, *accepted, *other; /* holes of the message */
};

/* REMAT_ERROR_USAGE with the message of the first rule of this stage that is broken. */
remat_status remat_rules_check(remat_context *ctx, struct remat_rule_case *c,
                               enum remat_rule_stage stage);

/* Name of the first rule of `stage` that is broken, NULL when none is. */
const char *remat_rules_broken(struct remat_rule_case *c, enum remat_rule_stage stage);

/* --- meanings of settings, for rules and policies --- */
bool remat_setting_is(const char *value, const char *word); /* false for NULL */
bool remat_settings_selective(const struct remat_policy_settings *settings);
/* True if a checkpointing setting of transformers, TRL or axolotl is given. */
bool remat_settings_checkpointing(const struct remat_policy_settings *settings);
/* True if the outputs of some ops are saved; these ops, comma-separated, NULL for torchtitan's. */
bool remat_settings_by_op(const struct remat_policy_settings *settings);
const char *remat_settings_saved_ops(const struct remat_policy_settings *settings);
/* every_n_layers of --gradient-checkpointing-kwargs, clamped to 64 bits; 1 where it is absent. */
int64_t remat_settings_every_n_layers(struct remat_arena *arena,
                                      const struct remat_policy_settings *settings);
/* Reads --ac-option as a number, clamped to 64 bits; false when it is none. */
bool remat_ac_option_number(const char *text, int64_t *out);
/* Marks, of all REMAT_OP_COUNT ops, those in the layers' forward pass as written; no views. */
void remat_layer_ops(const struct remat_graph *graph, bool found[]);

#endif
