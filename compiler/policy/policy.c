/* SPDX-License-Identifier: Apache-2.0 */
/* Settings -> policy, and the manual policies to choose from. */
#include "policy.h"

#include "module.h"
#include "ops.h"
#include "rules.h"

bool remat_policy_given(const struct remat_policy_settings *s)
{
#define TEXT(field, name)   s->field ||
#define FLAG(field, name)   s->field ||
#define NUMBER(field, name) s->has_##field ||
#define GLOBS(field, name)
    return
#include "policy_settings.def"
        false;
}

enum {
    LISTED_OPS = 63,
    LISTED_NODES = 32000000, /* for all lists of ops together */
    LISTS_MIN = 1022,        /* all of ten ops, unless that is more than NODES_MOST */
    NODES_MOST = 50000000,   /* for all policies of a kind together */
    MOST_MIN = 16,
};

static const struct remat_policy none = {
    .name = "none", .granularity = REMAT_POLICY_NONE, .unit_layers = 1};

/* Of a graph. */
struct layers {
    uint32_t most, all; /* of one stack, and of all together */
    bool one_stack;
};

static struct layers count_layers(struct remat_arena *arena, const struct remat_graph *graph)
{
    struct remat_layer_numbers numbers;
    struct layers layers = {.most = remat_graph_layers(graph)};
    remat_layers_number(arena, graph, &numbers);
    layers.all = numbers.count;
    layers.one_stack = numbers.stack_count == 1 && layers.all == layers.most;
    return layers;
}

static const char *name_of_saved(struct remat_arena *arena, const char *ops)
{
    if (!ops)
        return "save ops by default";
    return REMAT_FORMAT(arena, strcmp(ops, "attention") == 0 ? "save %s" : "save ops %s", ops);
}

/* Layers 0, N, 2N, ... of all stacks. */
static void count_through_stacks(struct remat_arena *arena, const struct layers *layers, uint32_t n,
                                 struct remat_policy *policy)
{
    bool by_op = policy->granularity == REMAT_POLICY_OPS;
    if (n > 1) {
        policy->layer_count = layers->all;
        policy->stacks = layers->one_stack ? REMAT_STACKS_ONE : REMAT_STACKS_TOGETHER;
        policy->family = by_op ? REMAT_POLICIES_NONE : REMAT_POLICIES_EVERY_N_LAYERS;
        policy->name = REMAT_FORMAT(arena, "%s%severy_n_layers %u", by_op ? policy->name : "",
                                    by_op ? ", " : "", n);
    } else if (!by_op) {
        policy->name = "full";
    }
}

/* Settings that have passed every rule. Recomputes the first layers, or else every `step`: the last
 * or the first of so many. */
static struct remat_policy create(struct remat_arena *arena, const struct layers *all,
                                  const struct remat_policy_settings *s)
{
    struct remat_policy policy = {.granularity = REMAT_POLICY_LAYERS,
                                  .unit_layers = 1,
                                  .layer_count = all->most,
                                  .stacks = all->one_stack ? REMAT_STACKS_ONE : REMAT_STACKS_APART};
    uint32_t layers = s->has_recompute_num_layers ? (uint32_t)s->recompute_num_layers : 1;
    uint32_t first = 0, step = 1;
    bool begins = remat_settings_checkpointing(s);
    int64_t every;
    if (remat_settings_by_op(s)) {
        policy.granularity = REMAT_POLICY_OPS;
        policy.save_ops = remat_settings_saved_ops(s);
        policy.name = name_of_saved(arena, policy.save_ops);
    }
    if (remat_settings_selective(s)) {
        policy.granularity = REMAT_POLICY_SELECTIVE;
        policy.modules = s->recompute_modules ? s->recompute_modules : "core_attn";
        policy.name = REMAT_FORMAT(arena, "selective %s", policy.modules);
    } else if (remat_setting_is(s->recompute_method, "block")) {
        first = layers;
        policy.family = REMAT_POLICIES_BLOCK;
        policy.name = REMAT_FORMAT(arena, "block %u", first);
    } else if (remat_setting_is(s->recompute_method, "uniform")) {
        policy.unit_layers = layers;
        policy.family = REMAT_POLICIES_UNIFORM;
        policy.name = REMAT_FORMAT(arena, "uniform %u", layers);
    } else if (s->enable_activation_checkpointing || remat_setting_is(s->ac_mode, "full")) {
        policy.name = "full";
    } else if (remat_settings_checkpointing(s)) {
        step = (uint32_t)remat_settings_every_n_layers(arena, s);
        count_through_stacks(arena, all, step, &policy);
    } else if (remat_ac_option_number(s->ac_option, &every)) {
        step = every ? (uint32_t)every : 1;
        policy.family = REMAT_POLICIES_EVERY;
        policy.name = REMAT_FORMAT(arena, "every %u", step);
    } else if (!remat_settings_by_op(s)) {
        return none;
    }
    policy.inputs = s->distribute_saved_activations ? REMAT_ACTION_PART : REMAT_ACTION_SAVE;
    if (s->distribute_saved_activations)
        policy.name = REMAT_FORMAT(arena, "%s distributed", policy.name);
    REMAT_NEW(arena, policy.recomputed, policy.layer_count);
    for (uint32_t l = 0; l < policy.layer_count; l++)
        policy.recomputed[l] = first ? l < first : l % step == (begins ? 0 : step - 1);
    return policy;
}

remat_status remat_policy_resolve(remat_context *ctx, struct remat_arena *arena,
                                  const struct remat_graph *graph,
                                  const struct remat_policy_settings *settings,
                                  struct remat_policy *out)
{
    struct remat_rule_case c = {.arena = arena, .settings = settings, .graph = graph};
    REMAT_CHECK(remat_rules_check(ctx, &c, REMAT_STAGE_SETTINGS));
    REMAT_CHECK(remat_rules_check(ctx, &c, REMAT_STAGE_GRAPH));
    struct layers layers = count_layers(arena, graph);
    *out = create(arena, &layers, settings);
    return REMAT_OK;
}

/* The number of first layers of each stack that are recomputed when no others are; UINT32_MAX
 * otherwise. */
static uint32_t first_layers(const struct remat_policy *policy)
{
    uint32_t first = 0;
    if (policy->stacks == REMAT_STACKS_TOGETHER)
        return UINT32_MAX;
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
    return REMAT_FORMAT(
        arena, "--recompute-granularity full --recompute-method %s --recompute-num-layers %u%s",
        all ? "uniform" : "block", all ? policy->unit_layers : first,
        policy->inputs == REMAT_ACTION_PART ? " --distribute-saved-activations" : "");
}

/* Megatron takes a list of modules apart by spaces. */
static const char *selective_flags(struct remat_arena *arena, const struct remat_policy *policy)
{
    char *flags = REMAT_FORMAT(arena, "--recompute-granularity selective --recompute-modules %s",
                               policy->modules);
    for (char *c = flags; *c; c++)
        if (*c == ',')
            *c = ' ';
    return flags;
}

static const char *megatron_flags(struct remat_arena *arena, const struct remat_policy *policy)
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

static bool each_alone(const struct remat_policy *policy)
{
    return policy->granularity == REMAT_POLICY_LAYERS && policy->unit_layers == 1 &&
           policy->inputs == REMAT_ACTION_SAVE;
}

/* N where layers N, 2N, 3N, ... are recomputed, each on its own; 0 otherwise. */
static uint32_t every_layers(const struct remat_policy *policy)
{
    uint32_t every = 1;
    while (every <= policy->layer_count && !policy->recomputed[every - 1])
        every++;
    for (uint32_t layer = 0; layer < policy->layer_count; layer++)
        if (!policy->recomputed[layer] != ((layer + 1) % every != 0))
            return 0;
    return each_alone(policy) && policy->stacks != REMAT_STACKS_TOGETHER ? every : 0;
}

/* N where layers 0, N, 2N, ... of all stacks are recomputed, each on its own; 0 otherwise. */
static uint32_t every_n_layers(const struct remat_policy *policy)
{
    uint32_t n = 1;
    while (n < policy->layer_count && !policy->recomputed[n])
        n++;
    for (uint32_t layer = 0; layer < policy->layer_count; layer++)
        if (!policy->recomputed[layer] != (layer % n != 0))
            return 0;
    return each_alone(policy) && (n == 1 || policy->stacks != REMAT_STACKS_APART) ? n : 0;
}

#define TORCHTUNE "enable_activation_checkpointing=False ac_mode="

static const char *torchtune_flags(struct remat_arena *arena, const struct remat_policy *policy)
{
    uint32_t every = every_layers(policy);
    if (policy->granularity == REMAT_POLICY_NONE)
        return TORCHTUNE "none";
    if (every == 1)
        return TORCHTUNE "full";
    return every ? REMAT_FORMAT(arena, TORCHTUNE "selective ac_option=%u", every) : NULL;
}

/* The subcommand of 2026, which goes last. */
static const char *torchtitan_flags(const struct remat_policy *policy)
{
    if (policy->granularity == REMAT_POLICY_NONE)
        return "activation-checkpoint:none";
    if (policy->granularity == REMAT_POLICY_OPS && !policy->save_ops)
        return "activation-checkpoint:selective";
    return every_layers(policy) == 1 ? "activation-checkpoint:full" : NULL;
}

/* Of TrainingArguments and SFTConfig, whose defaults differ. */
static const char *transformers_flags(struct remat_arena *arena, const struct remat_policy *policy)
{
    uint32_t n = every_n_layers(policy);
    if (policy->granularity == REMAT_POLICY_NONE)
        return "gradient_checkpointing=False";
    if (n == 1)
        return "gradient_checkpointing=True";
    return n ? REMAT_FORMAT(arena,
                            "gradient_checkpointing=True, "
                            "gradient_checkpointing_kwargs={\"every_n_layers\": %u}",
                            n)
             : NULL;
}

/* Of the YAML file, there one a line. */
static const char *axolotl_flags(struct remat_arena *arena, const struct remat_policy *policy)
{
    uint32_t n = every_n_layers(policy);
    if (policy->granularity == REMAT_POLICY_NONE)
        return "gradient_checkpointing: false";
    if (policy->granularity == REMAT_POLICY_OPS && first_layers(policy) == policy->layer_count &&
        remat_setting_is(policy->save_ops, "attention"))
        return "gradient_checkpointing: true, selective_checkpointing: true";
    if (n == 1)
        return "gradient_checkpointing: true";
    return n ? REMAT_FORMAT(arena,
                            "gradient_checkpointing: true, "
                            "gradient_checkpointing_kwargs: {every_n_layers: %u}",
                            n)
             : NULL;
}

const char *remat_system_name(enum remat_system system)
{
    static const char *const names[] = {"megatron", "torchtune", "torchtitan", "transformers",
                                        "axolotl"};
    return names[system];
}

const char *remat_policy_flags(struct remat_arena *arena, const struct remat_policy *policy,
                               enum remat_system system)
{
    assert(system <= REMAT_SYSTEM_COUNT);
    switch (system) {
    case REMAT_SYSTEM_MEGATRON:
        return megatron_flags(arena, policy);
    case REMAT_SYSTEM_TORCHTUNE:
        return torchtune_flags(arena, policy);
    case REMAT_SYSTEM_TORCHTITAN:
        return torchtitan_flags(policy);
    case REMAT_SYSTEM_TRANSFORMERS:
        return transformers_flags(arena, policy);
    case REMAT_SYSTEM_AXOLOTL:
        return axolotl_flags(arena, policy);
    default:
        return "";
    }
}

/* Of one kind. */
static uint32_t most_policies(const struct remat_graph *graph)
{
    return NODES_MOST / (graph->node_count + 1) + MOST_MIN;
}

/* Of numbers of layers in a unit: each one up to half as many as `most`, then at distances that
 * grow so that as many again reach 99,999, the most that scopes can tell. */
static uint32_t next_unit(uint32_t unit, uint32_t most)
{
    return unit + 1 + (unit > most / 2 ? (unit - most / 2) * 16 / most : 0);
}

/* Lists of the layers' ops, by bits. */
struct op_lists {
    uint16_t ops[REMAT_OP_COUNT]; /* those that take long come last */
    uint32_t op_count;
    uint64_t count; /* from `first` down */
    uint64_t first; /* without one op, as the list of all saves what `none` does; of that list where
                       parameters are gathered, which `none` alone keeps */
};

/* Along "dp", before they are read. */
static bool gathers_parameters(const struct remat_graph *graph)
{
    uint32_t axis = remat_mesh_axis(&graph->mesh, "dp");
    bool any = false;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[n];
        any |= node->op == REMAT_OP_gather && remat_in_forward_pass(node->phase) &&
               remat_node_int(node, "group", -1) == axis &&
               graph->values[node->inputs[0].i].role == REMAT_ROLE_PARAMETER;
    }
    return any;
}

/* All where the graph is small or has few ops, else those that save most of what takes long. */
static void find_lists(const struct remat_graph *graph, struct op_lists *out)
{
    bool found[REMAT_OP_COUNT];
    uint64_t most = LISTED_NODES / (graph->node_count + 1);
    *out = (struct op_lists){0};
    remat_layer_ops(graph, found);
    for (int heavy = 0; heavy < 2; heavy++)
        for (uint16_t op = 0; op < REMAT_OP_COUNT; op++)
            if (found[op] && remat_op_has(op, REMAT_FACT_COMPUTE_HEAVY) == (heavy == 1))
                out->ops[out->op_count++] = op;
    if (out->op_count == 0 || out->op_count > LISTED_OPS)
        return;
    out->first = (UINT64_C(1) << out->op_count) - (gathers_parameters(graph) ? 1 : 2);
    most = most < LISTS_MIN ? LISTS_MIN : most;
    most = most < most_policies(graph) ? most : most_policies(graph);
    out->count = out->first < most ? out->first : most;
}

/* Their names, for --save-ops. */
static const char *list_text(struct remat_arena *arena, const struct op_lists *lists,
                             uint64_t saved)
{
    struct remat_text list = {.arena = arena};
    for (uint32_t i = 0; saved >> i; i++)
        if (saved >> i & 1)
            remat_text_append(&list, "%s%s", list.count ? "," : "",
                              remat_op_info(lists->ops[i])->name);
    remat_text_complete(&list);
    return list.items;
}

static bool accepted(struct remat_arena *arena, const struct remat_graph *graph,
                     const struct remat_policy_settings *settings)
{
    struct remat_rule_case c = {.arena = arena, .settings = settings, .graph = graph};
    return !remat_rules_broken(&c, REMAT_STAGE_GRAPH);
}

static void reverse(struct remat_policies *policies, size_t begin)
{
    for (size_t i = begin, j = policies->count; i + 1 < j; i++) {
        struct remat_policy policy = policies->items[i];
        policies->items[i] = policies->items[--j];
        policies->items[j] = policy;
    }
}

void remat_manual_policies(struct remat_arena *arena, const struct remat_graph *graph,
                           struct remat_policies *out)
{
    static const char *const modules[] = {"core_attn",
                                          "mlp",
                                          "layernorm",
                                          "core_attn,mlp",
                                          "core_attn,layernorm",
                                          "mlp,layernorm",
                                          "core_attn,mlp,layernorm"};
    const struct remat_policy_settings every = {.enable_activation_checkpointing = true};
    const struct remat_policy_settings attention = {.ac_option = "attention"};
    uint32_t most = most_policies(graph);
    struct op_lists lists;
    find_lists(graph, &lists);
    *out = (struct remat_policies){0};
    REMAT_PUSH(arena, out, none);
    if (remat_graph_layers(graph) == 0 || !accepted(arena, graph, &every))
        return;
    struct layers all = count_layers(arena, graph);
    uint32_t layers = all.most, begin;
#define ADD(...)                                                                                   \
    REMAT_PUSH(arena, out, create(arena, &all, &(struct remat_policy_settings){__VA_ARGS__}))
    for (uint32_t m = 0; m < sizeof modules / sizeof *modules; m++) {
        const struct remat_policy_settings s = {.recompute_granularity = "selective",
                                                .recompute_modules = modules[m]};
        if (accepted(arena, graph, &s))
            REMAT_PUSH(arena, out, create(arena, &all, &s));
    }
    const struct remat_policy_settings shards = {.recompute_granularity = "full",
                                                 .recompute_method = "uniform",
                                                 .distribute_saved_activations = true};
    int ways = accepted(arena, graph, &shards) ? 2 : 1;
    for (int way = 0; way < ways; way++) {
        for (uint32_t k = 1; k < layers; k += 1 + layers / most)
            ADD(.recompute_method = "block", .has_recompute_num_layers = true,
                .recompute_num_layers = k, .distribute_saved_activations = way == 1);
        for (uint32_t k = way == 1 ? 1 : 2; k <= layers; k = next_unit(k, most))
            ADD(.recompute_method = "uniform", .has_recompute_num_layers = true,
                .recompute_num_layers = k, .distribute_saved_activations = way == 1);
    }
    begin = (uint32_t)out->count;
    for (uint32_t k = 2; k <= layers; k = next_unit(k, most))
        ADD(.ac_option = REMAT_FORMAT(arena, "%u", k));
    reverse(out, begin);
    begin = (uint32_t)out->count;
    for (uint32_t n = 2; n < all.all + !all.one_stack; n = next_unit(n, most)) /* L: block 1 */
        ADD(.gradient_checkpointing_kwargs = REMAT_FORMAT(arena, "every_n_layers=%u", n));
    reverse(out, begin);
    ADD(.ac_mode = "full");
    ADD(.ac_option = "op");
    if (accepted(arena, graph, &attention))
        REMAT_PUSH(arena, out, create(arena, &all, &attention));
    for (uint64_t l = 0; l < lists.count; l++) {
        const char *list = list_text(arena, &lists, lists.first - l);
        if (strcmp(list, "attention") != 0)
            ADD(.ac_option = "op", .save_ops = list);
    }
}
