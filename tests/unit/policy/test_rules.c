/* SPDX-License-Identifier: Apache-2.0 */
/* Walks every row of rules.def: each needs a case below that breaks it first. */
#include "check.h"
#include "fixture.h"
#include "policy.h"
#include "rules.h"

#define GLOBS(...)                                                                                 \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

struct rule_test {
    const char *rule;
    const char *preset; /* NULL: gpt2-tiny */
    const char *said;   /* part of the message */
    struct remat_policy_settings settings;
};

static const struct rule_test cases[] = {
    {"granularity_unknown",
     NULL,
     "'some' is unknown (accepted: none, full, selective)",
     {.recompute_granularity = "some"}},
    {"method_unknown",
     NULL,
     "'blocks' is unknown (accepted: uniform, block)",
     {.recompute_granularity = "full", .recompute_method = "blocks"}},
    {"module_unknown",
     NULL,
     "'experts' is unknown (accepted: core_attn, mlp, layernorm, moe, moe_act, shared_experts, "
     "mla_up_proj, ",
     {.recompute_activations = true, .recompute_modules = "mlp,experts"}},
    {"module_twice",
     NULL,
     "'mlp' is given twice",
     {.recompute_activations = true, .recompute_modules = "mlp,core_attn,mlp"}},
    {"ac_mode_unknown", NULL, "'on' is unknown", {.ac_mode = "on"}},
    {"ac_option_unknown", NULL, "'2x'", {.ac_mode = "selective", .ac_option = "2x"}},
    {"save_op_unknown",
     NULL,
     "'mm' is no op",
     {.ac_mode = "selective", .ac_option = "op", .save_ops = "linear,mm"}},
    {"save_op_unknown",
     NULL,
     "--selective-checkpointing: 'attn' is no op",
     {.selective_checkpointing = "attention,attn"}},
    {"keyword_unknown",
     NULL,
     "--gradient-checkpointing-kwargs: 'offload': true' is unknown",
     {.gradient_checkpointing_kwargs = "{'use_reentrant': false, 'offload': true}"}},
    {"keyword_unknown",
     NULL,
     "'every_n_layers=2x' is unknown (accepted: every_n_layers=N, ",
     {.gradient_checkpointing = true, .gradient_checkpointing_kwargs = "every_n_layers=2x"}},
    {"families_mixed",
     NULL,
     "--ac-mode and --gradient-checkpointing contradict",
     {.ac_mode = "full", .gradient_checkpointing = true}},
    {"families_mixed",
     NULL,
     "--enable-activation-checkpointing and --selective-checkpointing contradict",
     {.enable_activation_checkpointing = true, .selective_checkpointing = "true"}},
    {"families_mixed",
     NULL,
     "--recompute-granularity and --ac-mode contradict",
     {.recompute_granularity = "none", .ac_mode = "full"}},
    {"families_mixed",
     NULL,
     "--ac-mode and --enable-activation-checkpointing contradict",
     {.ac_mode = "full", .enable_activation_checkpointing = true}},
    {"families_mixed",
     NULL,
     "--recompute-num-layers and --enable-activation-checkpointing",
     {.has_recompute_num_layers = true,
      .recompute_num_layers = 1,
      .enable_activation_checkpointing = true}},
    {"activations_against_granularity",
     NULL,
     "contradicts 'full'",
     {.recompute_activations = true, .recompute_granularity = "full"}},
    {"full_without_method",
     NULL,
     "needs --recompute-method (accepted: uniform, block)",
     {.recompute_granularity = "full"}},
    {"selective_with_method",
     NULL,
     "--recompute-method block",
     {.recompute_activations = true, .recompute_method = "block"}},
    {"method_without_full",
     NULL,
     "needs --recompute-granularity full",
     {.recompute_method = "uniform"}},
    {"num_layers_without_method",
     NULL,
     "--recompute-num-layers 2 would be ignored",
     {.recompute_activations = true, .has_recompute_num_layers = true, .recompute_num_layers = 2}},
    {"modules_without_selective",
     NULL,
     "--recompute-modules mlp would be ignored",
     {.recompute_granularity = "full", .recompute_method = "block", .recompute_modules = "mlp"}},
    {"ac_option_without_selective",
     NULL,
     "--ac-option 2 would be ignored",
     {.ac_mode = "full", .ac_option = "2"}},
    {"ac_option_without_selective", NULL, "needs --ac-mode selective", {.ac_option = "op"}},
    {"ac_selective_without_option", NULL, "needs --ac-option", {.ac_mode = "selective"}},
    {"save_ops_without_op",
     NULL,
     "--save-ops linear would be ignored",
     {.ac_mode = "selective", .ac_option = "2", .save_ops = "linear"}},
    {"save_ops_without_op",
     NULL,
     "--save-ops linear would be ignored",
     {.ac_mode = "selective", .ac_option = "attention", .save_ops = "linear"}},
    {"distribute_without_full",
     NULL,
     "needs --recompute-granularity full",
     {.recompute_activations = true, .distribute_saved_activations = true}},
    {"distribute_without_method",
     NULL,
     "needs --recompute-method",
     {.recompute_granularity = "full", .distribute_saved_activations = true}},
    {"distribute_on_one_rank",
     NULL,
     "it needs --mesh tp=N, N from 2",
     {.recompute_granularity = "full",
      .recompute_method = "block",
      .distribute_saved_activations = true}},
    {"distribute_parts",
     "sequence parallel",
     "contradicts --sequence-parallel",
     {.recompute_granularity = "full",
      .recompute_method = "block",
      .distribute_saved_activations = true}},
    {"distribute_indivisible",
     "7 ranks",
     "is not divisible by 7 ranks along tp",
     {.recompute_granularity = "full",
      .recompute_method = "block",
      .distribute_saved_activations = true}},
    {"no_layers", "no layers", "--ac-mode full: graph \"flat\" has no layers", {.ac_mode = "full"}},
    {"no_layers",
     "no layers",
     "--recompute-granularity full",
     {.recompute_granularity = "full", .recompute_method = "uniform"}},
    {"layer_numbers", "sparse layers", "numbered up to 4000000", {.ac_mode = "full"}},
    {"num_layers_range",
     NULL,
     "--recompute-num-layers 7 is out of range: the graph has 6 layers",
     {.recompute_granularity = "full",
      .recompute_method = "block",
      .has_recompute_num_layers = true,
      .recompute_num_layers = 7}},
    {"num_layers_range",
     NULL,
     "--recompute-num-layers 0 is out of range",
     {.recompute_granularity = "full",
      .recompute_method = "uniform",
      .has_recompute_num_layers = true}},
    {"num_layers_range",
     NULL,
     "-1",
     {.recompute_granularity = "full",
      .recompute_method = "uniform",
      .has_recompute_num_layers = true,
      .recompute_num_layers = -1}},
    {"ac_option_range",
     NULL,
     "--ac-option 7 is out of range: the graph has 6 layers",
     {.ac_mode = "selective", .ac_option = "7"}},
    {"ac_option_range",
     NULL,
     "--ac-option 99999999999999999999 is out of range: the graph has 6 layers",
     {.ac_mode = "selective", .ac_option = "99999999999999999999"}},
    {"num_layers_range",
     NULL,
     "--recompute-num-layers 99999999999999999999 is out of range: the graph has 6 layers",
     {.recompute_granularity = "full",
      .recompute_method = "block",
      .has_recompute_num_layers = true,
      .recompute_num_layers = INT64_MAX,
      .recompute_num_layers_text = "99999999999999999999"}},
    {"ac_option_range",
     NULL,
     "accepted: 0 to 6, op, attention)",
     {.ac_mode = "selective", .ac_option = "-1"}},
    {"every_n_layers_range",
     NULL,
     "every_n_layers 7 is out of range: the graph has 6 layers (accepted: 1 to 6)",
     {.gradient_checkpointing_kwargs = "every_n_layers=7"}},
    {"every_n_layers_range",
     NULL,
     "every_n_layers 99999999999999999999 is out of range: ",
     {.gradient_checkpointing_kwargs = "every_n_layers=2,every_n_layers=99999999999999999999"}},
    {"no_layers",
     "no layers",
     "--selective-checkpointing: graph \"flat\" has no layers",
     {.selective_checkpointing = "true"}},
    {"module_missing",
     "mlp-tiny",
     "graph \"mlp-tiny\" has no attention: no layer has nodes of module core_attn",
     {.recompute_activations = true}},
    {"module_missing",
     "mlp-tiny",
     "has no norms: no layer has nodes of module layernorm (scope ln, ln_*, norm* or *norm)",
     {.recompute_activations = true, .recompute_modules = "layernorm"}},
    {"module_missing",
     NULL,
     "--recompute-modules: graph \"gpt2-tiny\" has no mixture of experts: ",
     {.recompute_activations = true, .recompute_modules = "mlp,moe"}},
    {"module_missing",
     NULL,
     "has no shared experts: no layer has nodes of module shared_experts",
     {.recompute_activations = true, .recompute_modules = "shared_experts"}},
    {"module_missing",
     NULL,
     "has no multi-latent attention: ",
     {.recompute_activations = true, .recompute_modules = "mla_up_proj"}},
    {"save_op_missing",
     NULL,
     "has the op 'cross_entropy' (accepted: ",
     {.ac_mode = "selective", .ac_option = "op", .save_ops = "cross_entropy"}},
    {"save_op_missing",
     "mlp-tiny",
     "--ac-option: no layer of graph \"mlp-tiny\" has the op 'attention' (accepted: ",
     {.ac_mode = "selective", .ac_option = "attention"}},
    {"pin_matches_nothing",
     NULL,
     "--save 'h.9' matches no scope and no value",
     {.save_count = 1, .save = GLOBS("h.9")}},
    {"pin_matches_nothing",
     NULL,
     "--recompute 'layers.*'",
     {.recompute_count = 2, .recompute = GLOBS("h.0", "layers.*")}},
    {"pin_cannot_save",
     NULL,
     "--save 'wte.weight'",
     {.save_count = 1, .save = GLOBS("wte.weight")}},
    {"pin_cannot_recompute",
     NULL,
     "--recompute 'loss' matches only values that cannot",
     {.recompute_count = 1, .recompute = GLOBS("loss")}},
    {"pin_conflict",
     NULL,
     "--save 'h.*' and --recompute 'h.2/mlp' both match value",
     {.save_count = 1, .save = GLOBS("h.*"), .recompute_count = 1, .recompute = GLOBS("h.2/mlp")}},
};
enum { CASE_COUNT = sizeof cases / sizeof *cases };

/* A graph for ranks along "tp", which its passes know nothing of. */
static remat_status make_tensor(remat_context *ctx, struct remat_arena *arena, bool parts,
                                struct remat_graph **out)
{
    static const struct remat_rank_part tokens = {.block_axis = REMAT_NONE, .tokens = true};
    remat_status st = REMAT_OK;
    REMAT_TRY(fixture_graph(ctx, arena, "gpt2-tiny", true, out));
    (*out)->mesh = (struct remat_mesh){.axis_count = 1, .axes = {{"tp", 7}}};
    if (parts)
        (*out)->values[(*out)->value_count - 1].part = &tokens;
fail:
    return st;
}

/* A graph whose scopes have no layer, or layers with an absurd number. */
static remat_status make_graph(remat_context *ctx, struct remat_arena *arena, const char *preset,
                               struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    bool sparse = preset && strcmp(preset, "sparse layers") == 0;
    bool parts = preset && strcmp(preset, "sequence parallel") == 0;
    if (parts || (preset && strcmp(preset, "7 ranks") == 0))
        return make_tensor(ctx, arena, parts, out);
    if (!sparse && !(preset && strcmp(preset, "no layers") == 0))
        return fixture_graph(ctx, arena, preset ? preset : "gpt2-tiny", true, out);
    REMAT_TRY(fixture_graph(ctx, arena, "gpt2-tiny", true, out));
    (*out)->name = "flat";
    for (uint32_t s = 0; s < (*out)->scope_count; s++)
        if ((*out)->scopes[s].layer >= 0)
            (*out)->scopes[s].layer = sparse ? 4000000 : -1;
fail:
    return st;
}

static const char *first_broken(struct remat_arena *arena, const struct remat_graph *graph,
                                const struct remat_policy_settings *settings)
{
    struct remat_rule_case c = {.arena = arena, .settings = settings, .graph = graph};
    struct remat_facts facts;
    struct remat_pins pins;
    const char *name = remat_rules_broken(&c, REMAT_STAGE_SETTINGS);
    if (!name)
        name = remat_rules_broken(&c, REMAT_STAGE_GRAPH);
    if (name)
        return name;
    remat_facts_create(arena, graph, &facts);
    remat_pins_match(arena, graph, &facts, settings, &pins);
    c.pins = &pins;
    return remat_rules_broken(&c, REMAT_STAGE_PINS);
}

static void check_case(remat_context *ctx, const struct rule_test *test)
{
    struct remat_arena arena;
    struct remat_graph *graph;
    struct remat_policy policy;
    struct remat_decision decision;
    struct remat_notes notes;
    remat_arena_init(&arena, ctx);
    CHECK_OK(ctx, make_graph(ctx, &arena, test->preset, &graph));
    const char *broken = first_broken(&arena, graph, &test->settings);
    CHECK(broken && strcmp(broken, test->rule) == 0, "%s: %s is broken", test->rule,
          broken ? broken : "no rule");
    remat_status st =
        fixture_decide(ctx, &arena, graph, &test->settings, &policy, &decision, &notes);
    const char *message = remat_context_message(ctx);
    CHECK_STATUS(ctx, st, REMAT_ERROR_USAGE, test->said, "%s", test->rule);
    CHECK(!strchr(message, '{'), "%s: a hole is left in '%s'", test->rule, message);
    remat_arena_release(&arena);
}

static const char *const names[] = {
#define RULE(stage, name, broken, message) #name,
#include "rules.def"
#undef RULE
};

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    for (uint32_t r = 0; r < sizeof names / sizeof names[0]; r++) {
        uint32_t found = 0;
        for (uint32_t i = 0; i < CASE_COUNT; i++)
            found += strcmp(cases[i].rule, names[r]) == 0;
        CHECK(found > 0, "rule %s has no case", names[r]);
    }
    for (uint32_t i = 0; i < CASE_COUNT; i++)
        check_case(ctx, &cases[i]);
    remat_context_destroy(&ctx);
    return check_exit();
}
