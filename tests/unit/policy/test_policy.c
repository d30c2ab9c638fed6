/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions of every policy on gpt2-tiny. */
#include "check.h"
#include "fixture.h"
#include "ops.h"
#include "policy.h"

#include <stdio.h>
#include <stdlib.h>

static remat_context *ctx;
static struct remat_arena arena;
static struct remat_graph *graph;

static struct remat_policy policy;
static struct remat_notes notes;

static struct remat_decision decide(struct remat_policy_settings settings)
{
    struct remat_decision decision = {0};
    CHECK_OK(ctx, fixture_decide(ctx, &arena, graph, &settings, &policy, &decision, &notes));
    return decision;
}

static uint32_t find(const char *name)
{
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (strcmp(graph->values[v].name, name) == 0)
            return v;
    CHECK(false, "no value %s", name);
    return 0;
}

/* Follows views: what is decided is the bytes. */
static bool recomputed(const struct remat_decision *decision, const char *name)
{
    return decision->actions[remat_storage_root(graph, (remat_value){find(name)}).i] ==
           REMAT_ACTION_RECOMPUTE;
}

static uint32_t count_in_layer(const struct remat_decision *decision, int32_t layer)
{
    uint32_t count = 0;
    for (uint32_t v = 0; v < graph->value_count; v++) {
        uint32_t node = graph->values[v].node.i;
        if (decision->actions[v] != REMAT_ACTION_RECOMPUTE)
            continue;
        CHECK(graph->nodes[node].phase == REMAT_PHASE_FORWARD, "%s", graph->values[v].name);
        count += graph->scopes[graph->nodes[node].scope.i].layer == layer;
    }
    return count;
}

static bool same(const struct remat_decision *a, const struct remat_decision *b)
{
    for (uint32_t v = 0; v < a->value_count; v++) {
        const char *x = a->reasons[v] ? a->reasons[v] : "", *y = b->reasons[v] ? b->reasons[v] : "";
        if (a->actions[v] != b->actions[v] || strcmp(x, y) != 0)
            return false;
    }
    return a->value_count == b->value_count;
}

static struct remat_policy_settings megatron(const char *method, int64_t layers)
{
    return (struct remat_policy_settings){.recompute_granularity = "full",
                                          .recompute_method = method,
                                          .has_recompute_num_layers = layers > 0,
                                          .recompute_num_layers = layers};
}

static struct remat_policy_settings every(const char *option)
{
    return (struct remat_policy_settings){.ac_mode = "selective", .ac_option = option};
}

static void test_none(void)
{
    struct remat_decision d = decide((struct remat_policy_settings){0});
    for (int32_t l = -1; l < LAYERS; l++)
        CHECK(count_in_layer(&d, l) == 0, "layer %d", (int)l);
    struct remat_decision e =
        decide((struct remat_policy_settings){.recompute_granularity = "none"});
    CHECK(same(&d, &e), "granularity none");
    e = decide((struct remat_policy_settings){.ac_mode = "none"});
    CHECK(same(&d, &e), "ac-mode none");
}

static void test_equal_policies(void)
{
    struct remat_decision full = decide((struct remat_policy_settings){.ac_mode = "full"}), d;
    d = decide((struct remat_policy_settings){.enable_activation_checkpointing = true});
    CHECK(same(&full, &d), "enable");
    d = decide(megatron("uniform", 0));
    CHECK(same(&full, &d), "uniform, default");
    d = decide(megatron("uniform", 1));
    CHECK(same(&full, &d), "uniform 1");
    d = decide(megatron("block", LAYERS));
    CHECK(same(&full, &d), "block L");
    d = decide(every("0"));
    CHECK(same(&full, &d), "every 0");
    d = decide(every("1"));
    CHECK(same(&full, &d), "every 1");
    d = decide(megatron("uniform", 2));
    CHECK(!same(&full, &d), "uniform 2 is another");
}

static void test_full(void)
{
    struct remat_decision d = decide((struct remat_policy_settings){.ac_mode = "full"});
    CHECK(strcmp(policy.name, "full") == 0 && policy.layer_count == LAYERS, "%s", policy.name);
    CHECK(count_in_layer(&d, -1) == 0, "outside layers");
    for (int32_t l = 0; l < LAYERS; l++)
        CHECK(count_in_layer(&d, l) == count_in_layer(&d, 0) && count_in_layer(&d, l) > 10,
              "layer %d: %u", (int)l, count_in_layer(&d, l));
    CHECK(recomputed(&d, "h.3.mlp.fc"), "fc");
    CHECK(!recomputed(&d, "h.3.mlp.residual") && !recomputed(&d, "embed"), "unit inputs");
    CHECK(recomputed(&d, "h.3.attn.residual"), "inside a layer");
}

static void test_blocks(void)
{
    for (int64_t k = 1; k <= LAYERS; k++) {
        struct remat_decision d = decide(megatron("block", k));
        for (int32_t l = 0; l < LAYERS; l++)
            CHECK((count_in_layer(&d, l) > 0) == (l < k), "block %d, layer %d", (int)k, (int)l);
    }
    struct remat_decision one = decide(megatron("block", 0)), two = decide(megatron("block", 1));
    CHECK(same(&one, &two), "default 1");
}

/* Units of 4: layers 0-3 and what remains, 4-5; only their last outputs are saved. */
static void test_uniform(void)
{
    for (int64_t k = 1; k <= LAYERS; k++) {
        struct remat_decision d = decide(megatron("uniform", k));
        for (int32_t l = 0; l < LAYERS; l++) {
            char name[32];
            snprintf(name, sizeof name, "h.%d.mlp.residual", (int)l);
            bool last = (l + 1) % k == 0 || l + 1 == LAYERS;
            CHECK(recomputed(&d, name) == !last, "uniform %d: %s", (int)k, name);
            CHECK(count_in_layer(&d, l) > 0, "uniform %d, layer %d", (int)k, (int)l);
        }
    }
}

static void test_every(void)
{
    static const char *const options[] = {"1", "2", "3", "4", "5", "6"};
    for (int32_t n = 1; n <= LAYERS; n++) {
        struct remat_decision d = decide(every(options[n - 1]));
        for (int32_t l = 0; l < LAYERS; l++)
            CHECK((count_in_layer(&d, l) > 0) == ((l + 1) % n == 0), "every %d, layer %d", (int)n,
                  (int)l);
    }
}

/* Layers 0, N, 2N, ..., as transformers counts them. */
static void test_every_n_layers(void)
{
    for (int32_t n = 1; n <= LAYERS; n++) {
        char keywords[32];
        snprintf(keywords, sizeof keywords, "every_n_layers=%d", (int)n);
        struct remat_decision d = decide((struct remat_policy_settings){
            .gradient_checkpointing = true, .gradient_checkpointing_kwargs = keywords});
        for (int32_t l = 0; l < LAYERS; l++)
            CHECK((count_in_layer(&d, l) > 0) == (l % n == 0), "%s, layer %d", keywords, (int)l);
    }
}

/* All of a layer is recomputed but attention, and what the layer passes on. */
static void test_save_attention(void)
{
    const struct remat_policy_settings forms[] = {
        {.ac_mode = "selective", .ac_option = "attention"},
        {.selective_checkpointing = "true"},
        {.gradient_checkpointing = true, .selective_checkpointing = "attention"},
        {.gradient_checkpointing_kwargs = "use_reentrant=false", .selective_checkpointing = "true"},
        {.ac_mode = "selective", .ac_option = "op", .save_ops = "attention"},
    };
    struct remat_decision full = decide((struct remat_policy_settings){.ac_mode = "full"});
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        struct remat_decision d = decide(forms[f]);
        uint32_t saved = 0;
        CHECK(strcmp(policy.name, "save attention") == 0, "%s", policy.name);
        for (uint32_t v = 0; v < graph->value_count; v++) {
            if (d.actions[v] == full.actions[v])
                continue;
            const struct remat_node_info *node = &graph->nodes[graph->values[v].node.i];
            CHECK(node->op == REMAT_OP_attention && d.actions[v] == REMAT_ACTION_SAVE, "%s",
                  graph->values[v].name);
            saved++;
        }
        CHECK(saved == 2 * LAYERS, "%u values of attention are saved", saved);
    }
    decide((struct remat_policy_settings){.selective_checkpointing = "attention,linear"});
    CHECK(strcmp(policy.name, "save ops attention,linear") == 0, "%s", policy.name);
}

static void test_selective(void)
{
    struct remat_decision d = decide((struct remat_policy_settings){.recompute_activations = true}),
                          e;
    CHECK(strcmp(policy.name, "selective core_attn") == 0, "%s", policy.name);
    CHECK(notes.count == 1 && strstr(notes.items[0], "attention is fused"), "%zu notes",
          notes.count);
    CHECK(!recomputed(&d, "h.0.attn.core") && recomputed(&d, "h.0.attn.core.1"), "context, lse");
    CHECK(!recomputed(&d, "h.0.attn.qkv") && !recomputed(&d, "h.0.ln_1"), "outside the region");
    e = decide((struct remat_policy_settings){.recompute_granularity = "selective"});
    CHECK(same(&d, &e), "the same");

    d = decide(
        (struct remat_policy_settings){.recompute_activations = true, .recompute_modules = "mlp"});
    CHECK(notes.count == 0, "%zu notes", notes.count);
    CHECK(recomputed(&d, "h.5.mlp.fc") && recomputed(&d, "h.5.mlp.act"), "mlp");
    CHECK(!recomputed(&d, "h.5.mlp.proj") && !recomputed(&d, "h.5.ln_2"), "around mlp");

    d = decide((struct remat_policy_settings){.recompute_activations = true,
                                              .recompute_modules = "layernorm,core_attn"});
    CHECK(recomputed(&d, "h.2.ln_1") && recomputed(&d, "h.2.ln_2"), "output is discarded");
    CHECK(!recomputed(&d, "ln_f") && !recomputed(&d, "h.2.mlp.act"), "others");
}

/* The second element of paths: "h.3/mlp/fc". */
static void rename_scopes(const char *from, const char *to)
{
    for (uint32_t s = 0; s < graph->scope_count; s++) {
        const char *path = graph->scopes[s].path, *element = strchr(path, '/');
        size_t length = element ? strcspn(++element, "/") : 0;
        if (element && length == strlen(from) && strncmp(element, from, length) == 0)
            graph->scopes[s].path = remat_arena_format(&arena, "%.*s%s%s", (int)(element - path),
                                                       path, to, element + length);
    }
}

/* Modules of models that no preset has: here the MLP is one. */
static void test_other_modules(void)
{
    static const struct {
        const char *name;
        bool discards;
    } rows[] = {
        {"moe", false},         {"shared_experts", false}, {"moe_act", true}, {"mla_up_proj", true},
        {"gdn_norm_out", true}, {"gdp_in_proj", true},     {"gdp_qkv", true}, {"mhc", true}};
    const char *last = "mlp";
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        rename_scopes(last, rows[k].name);
        last = rows[k].name;
        struct remat_decision d = decide((struct remat_policy_settings){
            .recompute_activations = true, .recompute_modules = last});
        CHECK(recomputed(&d, "h.5.mlp.fc") && recomputed(&d, "h.0.mlp.act"), "%s", last);
        CHECK(recomputed(&d, "h.5.mlp.proj") == rows[k].discards, "%s: its output", last);
        CHECK(!recomputed(&d, "h.5.ln_2") && !recomputed(&d, "h.5.attn.qkv"), "%s: others", last);
    }
    rename_scopes(last, "mlp");
}

/* The 2nd and 4th matmul of a layer are the two projections. */
static void test_ops(void)
{
    struct remat_decision d = decide(every("op"));
    CHECK(!recomputed(&d, "h.1.attn.qkv") && recomputed(&d, "h.1.attn.proj"), "1st, 2nd");
    CHECK(!recomputed(&d, "h.1.mlp.fc") && recomputed(&d, "h.1.mlp.proj"), "3rd, 4th");
    CHECK(!recomputed(&d, "h.1.attn.core") && !recomputed(&d, "h.1.attn.core.1"), "attention");
    CHECK(recomputed(&d, "h.1.mlp.act") && recomputed(&d, "h.1.ln_1"), "the rest");
    CHECK(!recomputed(&d, "h.1.mlp.residual"), "the layer's output");

    struct remat_policy_settings listed = every("op");
    listed.save_ops = "linear";
    d = decide(listed);
    CHECK(!recomputed(&d, "h.1.attn.proj") && !recomputed(&d, "h.1.mlp.proj"), "all linears");
    CHECK(recomputed(&d, "h.1.attn.core") && recomputed(&d, "h.1.mlp.act"), "not in the list");
    listed.save_ops = "gelu,layer_norm";
    d = decide(listed);
    CHECK(!recomputed(&d, "h.1.mlp.act") && !recomputed(&d, "h.1.ln_1"), "composites");
    CHECK(!recomputed(&d, "h.1.ln_1.1"), "their other outputs");
    CHECK(recomputed(&d, "h.1.mlp.fc"), "not in the list");
}

static void test_pins(void)
{
    const char *const attention[] = {"h.*/attn/core"}, *const fc[] = {"h.[01].mlp.fc"};
    struct remat_policy_settings settings = {.ac_mode = "full", .save_count = 1, .save = attention};
    struct remat_decision d = decide(settings);
    CHECK(!recomputed(&d, "h.4.attn.core") && !recomputed(&d, "h.4.attn.core.1"), "saved");
    CHECK(recomputed(&d, "h.4.attn.qkv") && recomputed(&d, "h.4.mlp.fc"), "the rest");
    const char *reason = d.reasons[find("h.4.attn.core.1")];
    CHECK(reason && strcmp(reason, "pin --save h.*/attn/core") == 0, "%s", reason);

    d = decide((struct remat_policy_settings){.recompute_count = 1, .recompute = fc});
    CHECK(recomputed(&d, "h.0.mlp.fc") && recomputed(&d, "h.1.mlp.fc"), "by name");
    CHECK(!recomputed(&d, "h.2.mlp.fc"), "not matched");

    graph->values[find("h.2.mlp.act")].pin = REMAT_PIN_RECOMPUTE;
    d = decide((struct remat_policy_settings){0});
    CHECK(recomputed(&d, "h.2.mlp.act"), "pin in the graph");
    const char *const act[] = {"h.2.mlp.act"};
    d = decide((struct remat_policy_settings){.save_count = 1, .save = act});
    CHECK(!recomputed(&d, "h.2.mlp.act"), "the command line overrides it");
    graph->values[find("h.2.mlp.act")].pin = REMAT_PIN_NONE;
}

/* gpt2-tiny's layers have five ops here: two lists of them, of none and of all, are no policies.
 * One of them is "save attention". */
static void test_manual_policies(void)
{
    struct remat_policies list;
    const uint32_t by_layer = 1 + 7 + 3 * (LAYERS - 1) + (LAYERS - 2) + 1, lists = (1 << 5) - 2;
    struct remat_policy_settings no_pins = {0};
    struct remat_policy_facts *shared;
    CHECK_OK(ctx, remat_policy_prepare(ctx, &arena, graph, &no_pins, &shared));
    remat_manual_policies(&arena, graph, &list);
    struct remat_policy *policies = list.items;
    uint32_t count = (uint32_t)list.count;
    CHECK(count == by_layer + 1 + lists, "%u policies", count);
    struct remat_decision *decisions = remat_arena_array(&arena, count, sizeof *decisions);
    for (uint32_t i = 0; i < count; i++) {
        struct remat_notes ignored = {0};
        remat_policy_decide(shared, &arena, &policies[i], &decisions[i], &ignored);
        for (uint32_t j = 0; j < i && i <= by_layer; j++)
            CHECK(!same(&decisions[i], &decisions[j]), "%s equals %s", policies[i].name,
                  policies[j].name);
        for (uint32_t j = by_layer + 1; j < i; j++)
            CHECK(strcmp(policies[i].name, policies[j].name) != 0, "%s twice", policies[i].name);
    }
    CHECK(strcmp(policies[by_layer + 1].name, "save attention") == 0, "%s",
          policies[by_layer + 1].name);
    for (uint32_t i = by_layer + 2; i < by_layer + 1 + (1 << 3); i++)
        CHECK(strstr(policies[i].name, "linear") && strstr(policies[i].name, "attention"),
              "%s comes before lists that save all that takes long", policies[i].name);
    CHECK(strcmp(policies[0].name, "none") == 0 && strcmp(policies[by_layer - 1].name, "full") == 0,
          "ends");
}

/* Flags back into settings; those that a policy may get. */
static struct remat_policy_settings parse_flags(char *flags)
{
    struct remat_policy_settings settings = {0};
    for (char *flag = strtok(flags, " "); flag; flag = strtok(NULL, " ")) {
        char *value = strtok(NULL, " ");
        if (strcmp(flag, "--recompute-granularity") == 0)
            settings.recompute_granularity = value;
        else if (strcmp(flag, "--recompute-method") == 0)
            settings.recompute_method = value;
        else if (strcmp(flag, "--recompute-modules") == 0) {
            settings.recompute_modules = value;
            for (char *next = strtok(NULL, " "); next; next = strtok(NULL, " "))
                next[-1] = ',';
        } else if (strcmp(flag, "--recompute-num-layers") == 0) {
            settings.has_recompute_num_layers = true;
            settings.recompute_num_layers = strtol(value, NULL, 10);
        } else
            CHECK(false, "%s is no flag of Megatron's", flag);
    }
    return settings;
}

static void check_flags(struct remat_policy *of)
{
    const struct remat_policy_settings no_pins = {0};
    struct remat_policy_facts *shared;
    struct remat_decision meant = {0};
    char flags[256];
    const char *found = remat_policy_flags(&arena, of, REMAT_SYSTEM_MEGATRON);
    CHECK(found, "%s: no flags", of->name);
    snprintf(flags, sizeof flags, "%s", found ? found : "");
    CHECK_OK(ctx, remat_policy_prepare(ctx, &arena, graph, &no_pins, &shared), "%s", of->name);
    remat_policy_decide(shared, &arena, of, &meant, &notes);
    struct remat_decision said = decide(parse_flags(flags));
    CHECK(same(&meant, &said), "%s is not \"%s\"", of->name, found);
}

/* The flags of a policy ask for its decision; Megatron-LM has none for every n and for ops. */
static void test_megatron_flags(void)
{
    struct remat_policies list;
    remat_manual_policies(&arena, graph, &list);
    struct remat_policy *policies = list.items;
    uint32_t count = (uint32_t)list.count;
    for (uint32_t i = 0; i < count; i++)
        if (!strstr(policies[i].name, "every") && !strstr(policies[i].name, "save"))
            check_flags(&policies[i]);
    decide(every("1"));
    check_flags(&policy);
    decide(every("2"));
    CHECK(!remat_policy_flags(&arena, &policy, REMAT_SYSTEM_MEGATRON), "every 2 has flags");
    decide(every("op"));
    CHECK(!remat_policy_flags(&arena, &policy, REMAT_SYSTEM_MEGATRON), "op has flags");
    decide((struct remat_policy_settings){.recompute_granularity = "selective",
                                          .recompute_modules = "core_attn,mlp"});
    const char *flags = remat_policy_flags(&arena, &policy, REMAT_SYSTEM_MEGATRON);
    CHECK(flags && strstr(flags, "--recompute-modules core_attn mlp"), "%s", flags);
}

/* What other systems are told for the same policy; NULL: they have nothing for it. */
static void test_other_flags(void)
{
    static const enum remat_system systems[] = {REMAT_SYSTEM_TORCHTUNE, REMAT_SYSTEM_TORCHTITAN,
                                                REMAT_SYSTEM_TRANSFORMERS, REMAT_SYSTEM_AXOLOTL};
    static const struct {
        const char *policy, *flags[sizeof systems / sizeof *systems];
    } rows[] = {
        {"none",
         {"enable_activation_checkpointing=False ac_mode=none", "activation-checkpoint:none",
          "gradient_checkpointing=False", "gradient_checkpointing: false"}},
        {"full",
         {"enable_activation_checkpointing=False ac_mode=full", "activation-checkpoint:full",
          "gradient_checkpointing=True", "gradient_checkpointing: true"}},
        {"every 2", {"enable_activation_checkpointing=False ac_mode=selective ac_option=2"}},
        {"every_n_layers 2",
         {NULL, NULL,
          "gradient_checkpointing=True, gradient_checkpointing_kwargs={\"every_n_layers\": 2}",
          "gradient_checkpointing: true, gradient_checkpointing_kwargs: {every_n_layers: 2}"}},
        {"block 1",
         {NULL, NULL,
          "gradient_checkpointing=True, gradient_checkpointing_kwargs={\"every_n_layers\": 6}",
          "gradient_checkpointing: true, gradient_checkpointing_kwargs: {every_n_layers: 6}"}},
        {"save attention",
         {NULL, NULL, NULL, "gradient_checkpointing: true, selective_checkpointing: true"}},
        {"save ops by default", {NULL, "activation-checkpoint:selective"}},
        {"save ops linear", {NULL}},
        {"block 2", {NULL}},
        {"uniform 2", {NULL}},
        {"selective mlp", {NULL}},
    };
    struct remat_policies list;
    uint32_t found = 0;
    remat_manual_policies(&arena, graph, &list);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < list.count; k++) {
            if (strcmp(list.items[k].name, rows[i].policy) != 0)
                continue;
            found++;
            for (size_t s = 0; s < sizeof systems / sizeof *systems; s++) {
                const char *flags = remat_policy_flags(&arena, &list.items[k], systems[s]);
                const char *expected = rows[i].flags[s];
                CHECK(!flags == !expected && (!flags || strcmp(flags, expected) == 0), "%s, %s: %s",
                      rows[i].policy, remat_system_name(systems[s]), flags);
            }
        }
    CHECK(found == sizeof rows / sizeof *rows, "%u of the policies are listed", found);
}

int main(void)
{
    ctx = remat_context_create(NULL, NULL);
    remat_arena_init(&arena, ctx);
    MUST_OK(ctx, fixture_graph(ctx, &arena, "gpt2-tiny", true, &graph));
    test_none();
    test_equal_policies();
    test_full();
    test_blocks();
    test_uniform();
    test_every();
    test_every_n_layers();
    test_save_attention();
    test_selective();
    test_other_modules();
    test_ops();
    test_pins();
    test_manual_policies();
    test_megatron_flags();
    test_other_flags();
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
