/* SPDX-License-Identifier: Apache-2.0 */
/* Two stacks of layers of unequal length, an encoder and a decoder whose layers all read its
 * output: each is counted on its own, and N is checked against the longer. Of what is passed on,
 * the shards are what one unit of the same stack reads. */
#include "check.h"
#include "fixture.h"
#include "graph_text.h"
#include "policy.h"

#include <stdio.h>

enum { ENCODER = 5, DECODER = 3 };

static remat_context *ctx;
static struct remat_arena arena;
static struct remat_graph *graph;
static struct remat_decision decision;

/* skip: the encoder's layer 3 also reads what layer 0 passes on. */
static remat_status make_graph(bool skip)
{
    remat_status st = REMAT_OK;
    struct remat_text text = {.arena = &arena};
    remat_text_append(&text, "graph \"stacks\"\n"
                             "optimizer sgd { weight_decay = 0.0 }\n"
                             "input %%ids : i32[2,4]\n"
                             "parameter %%table : f32[16,8] = normal(0.0, 0.02)\n"
                             "%%encoder.0 : f32[2,4,8] = embedding %%table %%ids phase forward\n");
    for (int l = 0; l < ENCODER; l++)
        remat_text_append(&text,
                          "%%encoder.%d.act : f32[2,4,8] = %s phase forward scope "
                          "\"encoder/layers.%d\"\n"
                          "%%encoder.%d : f32[2,4,8] = add %%encoder.%d %%encoder.%d.act phase "
                          "forward scope \"encoder/layers.%d\"\n",
                          l,
                          skip && l == 3 ? "swiglu %encoder.3 %encoder.1"
                                         : remat_arena_format(&arena, "gelu %%encoder.%d", l),
                          l, l + 1, l, l, l);
    remat_text_append(&text, "%%decoder.0 : f32[2,4,8] = embedding %%table %%ids phase forward\n");
    for (int l = 0; l < DECODER; l++)
        remat_text_append(&text,
                          "%%decoder.%d.act : f32[2,4,8] = gelu %%decoder.%d phase forward scope "
                          "\"decoder/layers.%d\"\n"
                          "%%decoder.%d : f32[2,4,8] = swiglu %%decoder.%d.act %%encoder.%d phase "
                          "forward scope \"decoder/layers.%d\"\n",
                          l, l, l, l + 1, l, ENCODER, l);
    remat_text_append(&text,
                      "%%logits : f32[2,4,16] = linear %%decoder.%d %%table { transpose_weight = 1 "
                      "} phase forward\n"
                      "%%loss : f32[] output, %%lse : f32[2,4,1] = cross_entropy %%logits %%ids "
                      "phase loss\n"
                      "output %%loss\n",
                      DECODER);
    REMAT_TRY(remat_graph_parse(ctx, "stacks", text.items, text.count, &arena, &graph));
    REMAT_TRY(fixture_expand(&arena, graph, &graph));
fail:
    return st;
}

static uint8_t action(const char *stack, int number, const char *suffix)
{
    char name[32];
    snprintf(name, sizeof name, "%s.%d%s", stack, number, suffix);
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (strcmp(graph->values[v].name, name) == 0)
            return decision.actions[v];
    CHECK(false, "no value %s", name);
    return REMAT_ACTION_SAVE;
}

/* A string of the layers of a stack: '.' nothing is recomputed, 'i' all but the output, 'x' all. */
static const char *show(const char *stack, int layers)
{
    char *shown = remat_arena_array(&arena, (size_t)layers + 1, 1);
    for (int l = 0; l < layers; l++) {
        bool inside = action(stack, l, ".act") == REMAT_ACTION_RECOMPUTE;
        bool output = action(stack, l + 1, "") == REMAT_ACTION_RECOMPUTE;
        shown[l] = inside ? output ? 'x' : 'i' : '.';
        CHECK(inside || !output, "%s %d: the output alone", stack, l);
    }
    return shown;
}

static struct remat_policy_settings megatron(const char *method, int64_t layers)
{
    return (struct remat_policy_settings){.recompute_granularity = "full",
                                          .recompute_method = method,
                                          .has_recompute_num_layers = true,
                                          .recompute_num_layers = layers};
}

static struct remat_policy_settings every(const char *option)
{
    return (struct remat_policy_settings){.ac_mode = "selective", .ac_option = option};
}

static struct remat_policy_settings every_n_layers(const char *keywords)
{
    return (struct remat_policy_settings){.gradient_checkpointing_kwargs = keywords};
}

static void check(struct remat_policy_settings settings, const char *encoder, const char *decoder)
{
    struct remat_policy policy;
    struct remat_notes notes;
    remat_status st = fixture_decide(ctx, &arena, graph, &settings, &policy, &decision, &notes);
    if (!CHECK_OK(ctx, st))
        return;
    CHECK(strcmp(show("encoder", ENCODER), encoder) == 0, "%s, encoder: %s, expected %s",
          policy.name, show("encoder", ENCODER), encoder);
    CHECK(strcmp(show("decoder", DECODER), decoder) == 0, "%s, decoder: %s, expected %s",
          policy.name, show("decoder", DECODER), decoder);
}

/* The first layer of all is not that of each stack, nor the other way round. */
static void check_flags(void)
{
    static const struct {
        const char *policy, *megatron, *transformers;
    } rows[] = {
        {"full", "uniform --recompute-num-layers 1", "gradient_checkpointing=True"},
        {"block 1", "block --recompute-num-layers 1", NULL},
        {"every 2", NULL, NULL},
        {"every_n_layers 8", NULL, "{\"every_n_layers\": 8}"},
        {"every_n_layers 2", NULL, "{\"every_n_layers\": 2}"},
    };
    struct remat_policies list;
    uint32_t found = 0;
    remat_manual_policies(&arena, graph, &list);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < list.count; k++) {
            const char *flags[2], *expected[] = {rows[i].megatron, rows[i].transformers};
            if (strcmp(list.items[k].name, rows[i].policy) != 0)
                continue;
            found++;
            flags[0] = remat_policy_flags(&arena, &list.items[k], REMAT_SYSTEM_MEGATRON);
            flags[1] = remat_policy_flags(&arena, &list.items[k], REMAT_SYSTEM_TRANSFORMERS);
            for (int s = 0; s < 2; s++)
                CHECK(!flags[s] == !expected[s] && (!flags[s] || strstr(flags[s], expected[s])),
                      "%s: %s", rows[i].policy, flags[s]);
        }
    CHECK(found == sizeof rows / sizeof *rows, "%u of the policies are listed", found);
}

/* With two ranks along "tp". 's': what the layer passes on is saved as a shard. */
static void check_shards(int64_t layers, const char *encoder, const char *decoder)
{
    struct remat_policy_settings settings = megatron("uniform", layers);
    const char *expected[] = {encoder, decoder}, *stacks[] = {"encoder", "decoder"};
    struct remat_policy policy;
    struct remat_notes notes;
    settings.distribute_saved_activations = true;
    if (!CHECK_OK(ctx, fixture_decide(ctx, &arena, graph, &settings, &policy, &decision, &notes)))
        return;
    for (int k = 0; k < 2; k++)
        for (int l = 0; expected[k][l]; l++) {
            bool shard = action(stacks[k], l + 1, "") == REMAT_ACTION_PART;
            CHECK(shard == (expected[k][l] == 's'), "%s, %s.%d: %s", policy.name, stacks[k], l + 1,
                  shard ? "a shard" : "no shard");
        }
}

static void refuse(struct remat_policy_settings settings, const char *message)
{
    struct remat_policy policy;
    struct remat_notes notes;
    CHECK_STATUS(ctx, fixture_decide(ctx, &arena, graph, &settings, &policy, &decision, &notes),
                 REMAT_ERROR_USAGE, message);
}

int main(void)
{
    ctx = remat_context_create(NULL, NULL);
    remat_arena_init(&arena, ctx);
    MUST_OK(ctx, make_graph(false));
    check((struct remat_policy_settings){.ac_mode = "full"}, "iiiii", "iii");
    check(megatron("block", 2), "ii...", "ii.");
    check(megatron("block", 4), "iiii.", "iii");
    check(megatron("uniform", 2), "xixii", "xii");
    check(megatron("uniform", 4), "xxxii", "xxi");
    check(megatron("uniform", 5), "xxxxi", "xxi");
    check(every("2"), ".i.i.", ".i.");
    check(every("4"), "...i.", "...");
    refuse(megatron("block", 6), "(accepted: 1 to 5)");
    refuse(megatron("uniform", 6), "(accepted: 1 to 5)");
    refuse(every("6"), "(accepted: 0 to 5, op, attention)");
    /* through both in one go: the decoder's are 5, 6 and 7 */
    check((struct remat_policy_settings){.gradient_checkpointing = true}, "iiiii", "iii");
    check(every_n_layers("every_n_layers=1"), "iiiii", "iii");
    check(every_n_layers("every_n_layers=2"), "i.i.i", ".i.");
    check(every_n_layers("{\"every_n_layers\": 3, \"use_reentrant\": false}"), "i..i.", ".i.");
    check(every_n_layers("{'use_reentrant': False, 'every_n_layers':4}"), "i...i", "...");
    check(every_n_layers("every_n_layers=5"), "i....", "i..");
    check(every_n_layers("every_n_layers=8"), "i....", "...");
    check(every_n_layers("every_n_layers=9,every_n_layers=7"), "i....", "..i");
    check(every_n_layers("use_reentrant=true"), "iiiii", "iii");
    check(every_n_layers("{}"), "iiiii", "iii");
    check(every_n_layers("every_n_layers = 2,"), "i.i.i", ".i.");
    check((struct remat_policy_settings){.gradient_checkpointing_kwargs = "every_n_layers=3",
                                         .selective_checkpointing = "swiglu"},
          "i..i.", ".i.");
    refuse(every_n_layers("every_n_layers=9"), "the graph has 8 layers (accepted: 1 to 8)");
    refuse(every_n_layers("every_n_layers=0"), "every_n_layers 0 is out of range");
    check_flags();
    graph->mesh = (struct remat_mesh){.axis_count = 1, .axes = {{"tp", 2}}};
    check_shards(1, "ssss.", "ss.");
    check_shards(2, ".s.s.", ".s.");
    check_shards(3, "..s..", "...");
    MUST_OK(ctx, make_graph(true));
    graph->mesh = (struct remat_mesh){.axis_count = 1, .axes = {{"tp", 2}}};
    check_shards(1, ".sss.", "ss.");
    check_shards(2, "ss.s.", ".s.");
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
