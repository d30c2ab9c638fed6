/* Settings -> policy, and the ladder of policies. */
#include "policy.h"

#include "rules.h"

bool remat_policy_given(const struct remat_policy_settings *s)
{
    return s->recompute_granularity || s->recompute_activations || s->recompute_method ||
           s->has_recompute_num_layers || s->recompute_modules || s->ac_mode || s->ac_option ||
           s->save_ops || s->enable_activation_checkpointing || s->distribute_saved_activations;
}

enum { NO_LAYER, FIRST_LAYERS, EVERY_LAYERS };
enum { SELECTIVE_MAX = 7, OPS_MAX = 4 };

/* FIRST_LAYERS: layers 0 ... number - 1; EVERY_LAYERS: number, 2 number, ... counted from 1. */
static remat_status create(struct remat_arena *arena, const struct remat_graph *graph,
                           enum remat_granularity granularity, int which, uint32_t number,
                           const char *name, struct remat_policy *out)
{
    remat_status st = REMAT_OK;
    *out = (struct remat_policy){.name = name, .granularity = granularity, .group = 1};
    if (!name)
        return REMAT_ERROR_MEMORY;
    out->layer_count = granularity == REMAT_POLICY_NONE ? 0 : remat_graph_layers(graph);
    REMAT_NEW(arena, out->recomputed, out->layer_count);
    for (uint32_t l = 0; l < out->layer_count; l++)
        out->recomputed[l] = which == FIRST_LAYERS ? l < number : (l + 1) % number == 0;
fail:
    return st;
}

static remat_status create_none(struct remat_arena *arena, const struct remat_graph *graph,
                                struct remat_policy *out)
{
    return create(arena, graph, REMAT_POLICY_NONE, NO_LAYER, 1, "none", out);
}

static remat_status create_full(struct remat_arena *arena, const struct remat_graph *graph,
                                struct remat_policy *out)
{
    return create(arena, graph, REMAT_POLICY_LAYERS, EVERY_LAYERS, 1, "full", out);
}

static remat_status create_block(struct remat_arena *arena, const struct remat_graph *graph,
                                 uint32_t layers, struct remat_policy *out)
{
    return create(arena, graph, REMAT_POLICY_LAYERS, FIRST_LAYERS, layers,
                  remat_arena_format(arena, "block %u", layers), out);
}

static remat_status create_uniform(struct remat_arena *arena, const struct remat_graph *graph,
                                   uint32_t group, struct remat_policy *out)
{
    remat_status st = create(arena, graph, REMAT_POLICY_LAYERS, EVERY_LAYERS, 1,
                             remat_arena_format(arena, "uniform %u", group), out);
    out->group = group;
    return st;
}

static remat_status create_every(struct remat_arena *arena, const struct remat_graph *graph,
                                 uint32_t step, struct remat_policy *out)
{
    return create(arena, graph, REMAT_POLICY_LAYERS, EVERY_LAYERS, step ? step : 1,
                  remat_arena_format(arena, "every %u", step ? step : 1), out);
}

static remat_status create_selective(struct remat_arena *arena, const struct remat_graph *graph,
                                     const char *modules, struct remat_policy *out)
{
    remat_status st = create(arena, graph, REMAT_POLICY_SELECTIVE, EVERY_LAYERS, 1,
                             remat_arena_format(arena, "selective %s", modules), out);
    out->modules = modules;
    return st;
}

static remat_status create_ops(struct remat_arena *arena, const struct remat_graph *graph,
                               const char *save_ops, struct remat_policy *out)
{
    const char *name =
        save_ops ? remat_arena_format(arena, "save ops %s", save_ops) : "save ops by default";
    remat_status st = create(arena, graph, REMAT_POLICY_OPS, EVERY_LAYERS, 1, name, out);
    out->save_ops = save_ops;
    return st;
}

/* Settings that have passed every rule. */
static remat_status create_from(struct remat_arena *arena, const struct remat_graph *graph,
                                const struct remat_policy_settings *s, struct remat_policy *out)
{
    int64_t every;
    uint32_t layers = s->has_recompute_num_layers ? (uint32_t)s->recompute_num_layers : 1;
    if (remat_settings_selective(s))
        return create_selective(arena, graph,
                                s->recompute_modules ? s->recompute_modules : "core_attn", out);
    if (remat_setting_is(s->recompute_method, "block"))
        return create_block(arena, graph, layers, out);
    if (remat_setting_is(s->recompute_method, "uniform"))
        return create_uniform(arena, graph, layers, out);
    if (s->enable_activation_checkpointing || remat_setting_is(s->ac_mode, "full"))
        return create_full(arena, graph, out);
    if (remat_setting_is(s->ac_option, "op"))
        return create_ops(arena, graph, s->save_ops, out);
    if (remat_ac_option_number(s->ac_option, &every))
        return create_every(arena, graph, (uint32_t)every, out);
    return create_none(arena, graph, out);
}

remat_status remat_policy_resolve(remat_context *ctx, struct remat_arena *arena,
                                  const struct remat_graph *graph,
                                  const struct remat_policy_settings *settings,
                                  struct remat_policy *out)
{
    remat_status st = REMAT_OK;
    struct remat_rule_case c = {.arena = arena, .settings = settings, .graph = graph};
    REMAT_TRY(remat_rules_check(ctx, &c, REMAT_STAGE_SETTINGS));
    REMAT_TRY(remat_rules_check(ctx, &c, REMAT_STAGE_GRAPH));
    REMAT_TRY(create_from(arena, graph, settings, out));
fail:
    return st;
}

/* The number of first layers that are recomputed when no others are; UINT32_MAX otherwise. */
static uint32_t first_layers(const struct remat_policy *policy)
{
    uint32_t first = 0;
    while (first < policy->layer_count && policy->recomputed[first])
        first++;
    for (uint32_t layer = first; layer < policy->layer_count; layer++)
        if (policy->recomputed[layer])
            return UINT32_MAX;
    return first;
}

static const char *layers_flags(struct remat_arena *arena, const struct remat_policy *policy)
{
    uint32_t first = first_layers(policy);
    bool all = first == policy->layer_count;
    if (first == UINT32_MAX)
        return NULL;
    return remat_arena_format(
        arena, "--recompute-granularity full --recompute-method %s --recompute-num-layers %u",
        all ? "uniform" : "block", all ? policy->group : first);
}

/* Megatron takes a list of modules apart by spaces. */
static const char *selective_flags(struct remat_arena *arena, const struct remat_policy *policy)
{
    char *flags = remat_arena_format(
        arena, "--recompute-granularity selective --recompute-modules %s", policy->modules);
    for (char *c = flags; c && *c; c++)
        if (*c == ',')
            *c = ' ';
    return flags;
}

const char *remat_policy_megatron_flags(struct remat_arena *arena,
                                        const struct remat_policy *policy)
{
    switch (policy->granularity) {
    case REMAT_POLICY_NONE:
        return "";
    case REMAT_POLICY_LAYERS:
        return layers_flags(arena, policy);
    case REMAT_POLICY_SELECTIVE:
        return selective_flags(arena, policy);
    default:
        return NULL;
    }
}

static bool accepted(struct remat_arena *arena, const struct remat_graph *graph,
                     const struct remat_policy_settings *settings)
{
    struct remat_rule_case c = {.arena = arena, .settings = settings, .graph = graph};
    return !remat_rules_broken(&c, REMAT_STAGE_GRAPH);
}

/* Those of the graph's modules that selective recomputation can be about. */
static remat_status push_selective(struct remat_arena *arena, const struct remat_graph *graph,
                                   struct remat_policy *policies, uint32_t *count)
{
    static const char *const modules[] = {"core_attn",
                                          "mlp",
                                          "layernorm",
                                          "core_attn,mlp",
                                          "core_attn,layernorm",
                                          "mlp,layernorm",
                                          "core_attn,mlp,layernorm"};
    remat_status st = REMAT_OK;
    _Static_assert(sizeof modules / sizeof *modules == SELECTIVE_MAX, "");
    for (uint32_t m = 0; m < SELECTIVE_MAX; m++) {
        const struct remat_policy_settings s = {.recompute_granularity = "selective",
                                                .recompute_modules = modules[m]};
        if (accepted(arena, graph, &s))
            REMAT_TRY(create_selective(arena, graph, modules[m], &policies[(*count)++]));
    }
fail:
    return st;
}

/* Saved by default, and lists of ops that the graph has. */
static remat_status push_ops(struct remat_arena *arena, const struct remat_graph *graph,
                             struct remat_policy *policies, uint32_t *count)
{
    static const char *const saved[] = {NULL, "linear", "linear,attention", "linear,matmul"};
    remat_status st = REMAT_OK;
    _Static_assert(sizeof saved / sizeof *saved == OPS_MAX, "");
    for (uint32_t l = 0; l < OPS_MAX; l++) {
        const struct remat_policy_settings s = {
            .ac_mode = "selective", .ac_option = "op", .save_ops = saved[l]};
        if (accepted(arena, graph, &s))
            REMAT_TRY(create_ops(arena, graph, saved[l], &policies[(*count)++]));
    }
fail:
    return st;
}

remat_status remat_policy_ladder(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_graph *graph, uint32_t *out_count,
                                 struct remat_policy **out_policies)
{
    (void)ctx;
    remat_status st = REMAT_OK;
    const struct remat_policy_settings every = {.enable_activation_checkpointing = true};
    uint32_t layers = accepted(arena, graph, &every) ? remat_graph_layers(graph) : 0, count = 0;
    struct remat_policy *policies;
    REMAT_NEW(arena, policies, 2 + SELECTIVE_MAX + OPS_MAX + 3 * (size_t)layers);
    REMAT_TRY(create_none(arena, graph, &policies[count++]));
    if (layers > 0) {
        REMAT_TRY(push_selective(arena, graph, policies, &count));
        REMAT_TRY(push_ops(arena, graph, policies, &count));
    }
    for (uint32_t k = 1; k < layers; k++)
        REMAT_TRY(create_block(arena, graph, k, &policies[count++]));
    for (uint32_t k = 2; k <= layers; k++)
        REMAT_TRY(create_uniform(arena, graph, k, &policies[count++]));
    for (uint32_t n = 2; n <= layers; n++)
        REMAT_TRY(create_every(arena, graph, n, &policies[count++]));
    if (layers > 0)
        REMAT_TRY(create_full(arena, graph, &policies[count++]));
    *out_count = count;
    *out_policies = policies;
fail:
    return st;
}
