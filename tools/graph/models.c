/* SPDX-License-Identifier: Apache-2.0 */
#include "models.h"

#include "model_builder.h"

#include <fnmatch.h>

static void (*const builders[REMAT_FAMILY_COUNT])(struct model_builder *m) = {
    [REMAT_FAMILY_mlp] = remat_model_mlp,       [REMAT_FAMILY_gpt2] = remat_model_gpt2,
    [REMAT_FAMILY_llama] = remat_model_llama,   [REMAT_FAMILY_bert] = remat_model_bert,
    [REMAT_FAMILY_encdec] = remat_model_encdec,
};

/* What trains decays if it is only ever the weight of linears. That leaves out norms, biases,
 * positions and embeddings, also those that are the head's weight too. */
static void leave_out_decay(struct remat_graph *graph)
{
    for (uint32_t n = 0; n < graph->node_count; n++)
        for (uint32_t k = 0; k < graph->nodes[n].input_count; k++) {
            remat_value v = graph->nodes[n].inputs[k];
            bool weight = graph->nodes[n].op == REMAT_OP_linear && k == 1;
            graph->values[v.i].no_decay |= graph->values[v.i].trainable && !weight;
        }
}

enum mark { DECAY, NO_DECAY, FREEZE };

static void set_mark(struct remat_value_info *parameter, enum mark mark)
{
    if (mark == FREEZE)
        parameter->trainable = false;
    else
        parameter->no_decay = mark == NO_DECAY;
}

static remat_status set_marks(remat_context *ctx, struct remat_graph *graph, const char *option,
                              const struct remat_globs *globs, enum mark mark)
{
    for (uint32_t g = 0; g < globs->count; g++) {
        bool found = false;
        for (uint32_t v = 0; v < graph->value_count; v++)
            if (graph->values[v].role == REMAT_ROLE_PARAMETER &&
                fnmatch(globs->items[g], graph->values[v].name, 0) == 0) {
                set_mark(&graph->values[v], mark);
                found = true;
            }
        if (!found)
            return remat_error(ctx, REMAT_ERROR_USAGE, "%s '%.200s' matches no parameter of %s",
                               option, globs->items[g], graph->name);
    }
    return REMAT_OK;
}

static remat_status check_trained(remat_context *ctx, const struct remat_graph *graph)
{
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (graph->values[v].trainable)
            return REMAT_OK;
    return remat_error(ctx, REMAT_ERROR_USAGE,
                       "--freeze leaves nothing to train (--forward-only makes such a graph)");
}

static remat_status train(remat_context *ctx, const struct remat_model_settings *settings,
                          struct remat_graph *graph)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(set_marks(ctx, graph, "--freeze", &settings->freeze, FREEZE));
    if (settings->optimizer.weight_decay > 0)
        leave_out_decay(graph);
    REMAT_TRY(set_marks(ctx, graph, "--decay", &settings->decay, DECAY));
    REMAT_TRY(set_marks(ctx, graph, "--no-decay", &settings->no_decay, NO_DECAY));
    if (!settings->forward_only)
        REMAT_TRY(check_trained(ctx, graph));
fail:
    return st;
}

static remat_status generate(remat_context *ctx, struct remat_arena *arena,
                             const struct remat_model_settings *settings, struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    struct remat_model_settings s = *settings;
    struct model_builder m = {.settings = &s,
                              .scope = "",
                              .scale = 1,
                              .prefix = "",
                              .rng = REMAT_NO_VALUE,
                              .positions = REMAT_NO_VALUE};
    remat_model_complete(&s);
    REMAT_TRY(remat_model_check(ctx, &s));

    struct remat_graph *graph = remat_graph_create(arena, s.name);
    graph->optimizer = s.optimizer;
    m.b = (struct remat_builder){.arena = arena, .graph = graph};
    builders[s.family](&m);
    if (s.lora.targets && !m.adapters)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--lora '%.200s' matches no weight of a linear of %s",
                   s.lora.targets, s.name);
    int length;
    const char *idle = s.lora.targets ? remat_model_idle_target(&m, &length) : NULL;
    if (idle)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--lora: '%.*s' matches no weight of a linear of %s",
                   length, idle, s.name);
    REMAT_TRY(train(ctx, &s, graph));
    REMAT_TRY(remat_graph_verify(ctx, graph));
    *out = graph;
    return REMAT_OK;
fail:
    return st;
}

remat_status remat_model_generate(remat_context *ctx, struct remat_arena *arena,
                                  const struct remat_model_settings *settings,
                                  struct remat_graph **out)
{
    struct remat_model_settings two = *settings;
    struct remat_graph *pair;
    REMAT_CHECK(generate(ctx, arena, settings, out));
    two.batch = 2;
    if (settings->batch != 1)
        return REMAT_OK;
    REMAT_CHECK(generate(ctx, arena, &two, &pair));
    (*out)->pair = pair;
    return REMAT_OK;
}
