/* SPDX-License-Identifier: Apache-2.0 */
/* remat-graph: a model's training graph from a preset and sizes. */
#include "cli.h"
#include "config.h"
#include "graph_text.h"
#include "ingest.h"
#include "models.h"
#include "tool.h"
#include "unwind.h"
#include "wrap.h"

#include <errno.h>
#include <stdlib.h>

#define CLI_OPTIONS "graph.def"
#include "option_table.h"

/* Parameters are counted in the graph itself, so that the list cannot be wrong. */

static double count_parameters(const struct remat_graph *graph)
{
    double elements = 0;
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (graph->values[v].role == REMAT_ROLE_PARAMETER)
            elements += (double)remat_shape_elements(&graph->values[v].shape);
    return elements;
}

/* "8.03 B": three digits of a number of 1000 or more. */
static void print_count(double count)
{
    static const char units[] = "kMBT";
    size_t k = 0;
    for (count /= 1e3; count >= 999.5 && k + 2 < sizeof units; k++)
        count /= 1e3;
    printf("%8.*f %c", count >= 99.95 ? 0 : count >= 9.995 ? 1 : 2, count, units[k]);
}

static remat_status print_preset(remat_context *ctx, const char *name)
{
    struct remat_model_settings s;
    struct remat_graph *graph;
    struct remat_arena *scratch = remat_scratch_open(ctx);
    REMAT_CHECK(remat_model_preset(ctx, name, &s));
    if (s.layers == 0) {
        printf("  %-12s %10s  sizes as given by options\n", name, "");
    } else {
        REMAT_CHECK(remat_model_generate(ctx, scratch, &s, &graph));
        printf("  %-12s ", name);
        print_count(count_parameters(graph));
        const char *alias = remat_model_alias(name);
        printf(" %6lld %6lld%s%s\n", (long long)s.layers, (long long)s.width, alias ? "  " : "",
               alias ? alias : "");
    }
    remat_scratch_close(scratch);
    return REMAT_OK;
}

static remat_status print_models(void *user)
{
    remat_context *ctx = user;
    struct remat_arena *scratch = remat_scratch_open(ctx);
    printf("  %-12s %10s %6s %6s  %s\n", "preset", "parameters", "layers", "width", "also");
    for (uint32_t k = 0; remat_model_name(k); k++)
        REMAT_CHECK(print_preset(ctx, remat_model_name(k)));
    cli_print(stdout, "  config.json  of model type %s\n", remat_config_types(scratch));
    remat_scratch_close(scratch);
    return REMAT_OK;
}

static remat_status list_models(remat_context *ctx)
{
    return remat_guard(ctx, print_models, ctx);
}

static const struct cli_tool tool = {
    .name = "remat-graph",
    .summary =
        "Makes the training graph of a model, a preset or a Hugging Face config.json: forward "
        "and loss; the compiler adds the rest.",
    .operands = "MODEL",
    .operand_help = "a preset, a family whose sizes are given, or a config.json; --list names them",
    .operand_kind = CLI_NAME,
    .operands_min = 0,
    .operands_max = 1,
    .examples = {{"GPT-2 124M, two sequences of 512 tokens",
                  "remat-graph gpt2-124m --batch 2 --seq 512 -o model.fbs"},
                 {"other sizes",
                  "remat-graph gpt2 --layers 4 --width 256 --heads 8 --seq 256 -o model.fbs"},
                 {"a Hugging Face model in bf16",
                  "remat-graph config.json --dtype bf16 --seq 1024 -o model.fbs"}},
    .options = options,
    .option_count = OPTION_COUNT,
    .more = "Models",
    .print_more = list_models,
};

static remat_status read_model(remat_context *ctx, struct remat_arena *arena, const char *model,
                               const struct cli_arguments *args, struct remat_model_settings *s)
{
    size_t length = strlen(model), suffix = strlen(".json");
    bool is_file = length > suffix && strcmp(model + length - suffix, ".json") == 0;
    return is_file ? remat_model_config(ctx, arena, model, !cli_has(args, OPTION_dropout),
                                        cli_has(args, OPTION_plan_only), s)
                   : remat_model_preset(ctx, model, s);
}

/* Settings of an optimizer that there is not, or is another. */
static remat_status check_optimizer(remat_context *ctx, const struct cli_arguments *args,
                                    const struct remat_optimizer *o)
{
    static const uint32_t of_adamw[] = {OPTION_beta1, OPTION_beta2, OPTION_epsilon, OPTION_moments};
    static const uint32_t of_decay[] = {OPTION_decay, OPTION_no_decay};
    bool forward_only = cli_has(args, OPTION_forward_only);
    bool none = o->kind == REMAT_OPTIMIZER_NONE || forward_only;
    for (uint32_t k = OPTION_optimizer; none && k <= OPTION_clip_norm; k++)
        if (cli_has(args, k) && (k != OPTION_optimizer || o->kind != REMAT_OPTIMIZER_NONE))
            return remat_error(ctx, REMAT_ERROR_USAGE,
                               forward_only ? "--%s contradicts --forward-only"
                                            : "--%s needs an optimizer",
                               options[k].name);
    for (size_t i = 0; i < sizeof of_adamw / sizeof *of_adamw; i++)
        if (o->kind != REMAT_OPTIMIZER_ADAMW && cli_has(args, of_adamw[i]))
            return remat_error(ctx, REMAT_ERROR_USAGE, "--%s needs --optimizer adamw",
                               options[of_adamw[i]].name);
    for (size_t i = 0; i < sizeof of_decay / sizeof *of_decay; i++)
        if (o->weight_decay == 0 && cli_has(args, of_decay[i]))
            return remat_error(ctx, REMAT_ERROR_USAGE, "--%s needs --weight-decay above 0",
                               options[of_decay[i]].name);
    if (cli_has(args, OPTION_clip_norm) && !(o->clip_norm > 0))
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--clip-norm 0 is out of range (accepted: more than 0)");
    return REMAT_OK;
}

static remat_status read_optimizer(remat_context *ctx, const struct cli_arguments *args,
                                   struct remat_optimizer *o)
{
    static const uint8_t kinds[] = {REMAT_OPTIMIZER_ADAMW, REMAT_OPTIMIZER_SGD,
                                    REMAT_OPTIMIZER_NONE};
    o->kind = kinds[cli_choice(args, OPTION_optimizer, 0)];
    o->beta1 = cli_number(args, OPTION_beta1, o->beta1);
    o->beta2 = cli_number(args, OPTION_beta2, o->beta2);
    o->epsilon = cli_number(args, OPTION_epsilon, o->epsilon);
    double decay = o->kind == REMAT_OPTIMIZER_ADAMW ? o->weight_decay : 0;
    o->weight_decay = cli_number(args, OPTION_weight_decay, decay);
    o->clip_norm = cli_number(args, OPTION_clip_norm, 0);
    o->no_master = cli_choice(args, OPTION_master, 0) == 1;
    o->bf16_moments = cli_choice(args, OPTION_moments, 0) == 1;
    return check_optimizer(ctx, args, o);
}

/* "RANK" or "RANK:TARGETS"; all linears of layers are peft's "all-linear". */
static remat_status read_lora(remat_context *ctx, const struct cli_arguments *args,
                              struct remat_model_settings *s)
{
    const char *text = cli_text(args, OPTION_lora, "");
    char *end;
    s->lora.alpha = cli_number(args, OPTION_lora_alpha, 0);
    if (cli_has(args, OPTION_lora_alpha) && !cli_has(args, OPTION_lora))
        return remat_error(ctx, REMAT_ERROR_USAGE, "--lora-alpha needs --lora");
    if (cli_has(args, OPTION_lora_alpha) && !(s->lora.alpha > 0))
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--lora-alpha 0 is out of range (accepted: more than 0)");
    if (!cli_has(args, OPTION_lora))
        return REMAT_OK;
    errno = 0;
    s->lora.rank = *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : 0;
    if (s->lora.rank < 1 || errno || (*end && *end != ':') || (*end && !end[1]))
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--lora '%.200s' (accepted: RANK, 1 to 65536, or RANK:TARGETS, such as "
                           "16:q_proj,v_proj)",
                           text);
    s->lora.targets = *end && strcmp(end, ":all-linear") != 0 ? end + 1 : NULL;
    return REMAT_OK;
}

/* Which parameters train, and which decay. */
static remat_status read_training(remat_context *ctx, struct remat_arena *arena,
                                  const struct cli_arguments *args, struct remat_model_settings *s)
{
    const struct {
        uint32_t option;
        struct remat_globs *globs;
    } rows[] = {
        {OPTION_decay, &s->decay}, {OPTION_no_decay, &s->no_decay}, {OPTION_freeze, &s->freeze}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        rows[i].globs->items = cli_texts(arena, args, rows[i].option, &rows[i].globs->count);
        if (!rows[i].globs->items)
            return REMAT_ERROR_MEMORY;
    }
    if (s->optimizer.no_master && !remat_dtype_is_rounded(s->dtype))
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--master none needs --dtype bf16: parameters in fp32 have no master");
    if (s->forward_only && s->freeze.count)
        return remat_error(ctx, REMAT_ERROR_USAGE, "--freeze contradicts --forward-only");
    return read_lora(ctx, args, s);
}

static remat_status read_settings(remat_context *ctx, struct remat_arena *arena,
                                  const struct cli_arguments *args, struct remat_model_settings *s)
{
    remat_status st = REMAT_OK;
    static const remat_dtype dtypes[] = {
    /* as the option has them */
#define COMPUTED_DTYPE(NAME, ...) REMAT_##NAME,
#include <remat/dtypes.def>
    };
    REMAT_TRY(read_model(ctx, arena, args->operands[0], args, s));
    s->name = cli_text(args, OPTION_name, s->name);
    s->layers = cli_integer(args, OPTION_layers, s->layers);
    s->width = cli_integer(args, OPTION_width, s->width);
    s->heads = cli_integer(args, OPTION_heads, s->heads);
    s->vocab = cli_integer(args, OPTION_vocab, s->vocab);
    s->vocab_multiple = cli_integer(args, OPTION_vocab_multiple, 0);
    s->context = cli_integer(args, OPTION_context, s->context);
    s->batch = cli_integer(args, OPTION_batch, s->batch);
    s->seq = cli_integer(args, OPTION_seq, s->seq);
    s->source_seq = cli_integer(args, OPTION_source_seq, s->source_seq);
    s->kv_heads = cli_integer(args, OPTION_kv_heads, s->kv_heads);
    s->head_size = cli_integer(args, OPTION_head_size, s->head_size);
    s->hidden = cli_integer(args, OPTION_hidden, s->hidden);

    s->no_bias |= cli_has(args, OPTION_no_bias);
    s->dtype = dtypes[cli_choice(args, OPTION_dtype, 0)];
    s->dropout = cli_number(args, OPTION_dropout, s->dropout);
    s->written_out = cli_choice(args, OPTION_attention, 0) == 1;
    s->forward_only = cli_has(args, OPTION_forward_only);
    REMAT_TRY(read_optimizer(ctx, args, &s->optimizer));
    REMAT_TRY(read_training(ctx, arena, args, s));
    if (!cli_has(args, OPTION_text) && !cli_has(args, OPTION_output))
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--output is missing (or --text, which can do without)");
    return REMAT_OK;
fail:
    return st;
}

/* Of sequences that are longer than those the model was made for. */
static void note_positions(remat_context *ctx, const struct remat_model_settings *settings)
{
    struct remat_model_settings s = *settings;
    remat_model_complete(&s);
    const struct {
        const char *option;
        int64_t length;
    } rows[] = {{"--seq", s.seq}, {"--source-seq", s.source_seq}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (s.context && rows[k].length > s.context)
            cli_log(ctx, REMAT_SEVERITY_INFO,
                    "note: %s %lld is above the %lld positions that the model was made for; its "
                    "positions are computed, so there are more",
                    rows[k].option, (long long)rows[k].length, (long long)s.context);
}

/* Takes the values from the symbols in --unbound, unless they are given. */
static remat_status unbind(remat_context *ctx, const struct cli_arguments *args,
                           struct remat_graph *graph)
{
    static const uint32_t lengths[] = {OPTION_batch, OPTION_seq, OPTION_source_seq};
    const char *name = cli_text(args, OPTION_unbound, "");
    for (size_t length; *name; name += length + (name[length] == ',')) {
        uint32_t k = 0;
        length = strcspn(name, ",");
        while (k < graph->symbol_count && (strlen(graph->symbols[k].name) != length ||
                                           memcmp(graph->symbols[k].name, name, length) != 0))
            k++;
        if (k == graph->symbol_count)
            return remat_error(
                ctx, REMAT_ERROR_USAGE, "--unbound '%.*s' is no symbol of model %s (accepted: %s)",
                (int)length, name, graph->name, k == 3 ? "batch, seq, source_seq" : "batch, seq");
        if (!cli_has(args, lengths[k]))
            graph->symbols[k].value = 0;
    }
    return REMAT_OK;
}

static remat_status make_file(remat_context *ctx, struct remat_arena *arena,
                              const struct remat_graph *graph, bool as_text, const void **data,
                              size_t *bytes)
{
    if (!as_text)
        return remat_graph_write(ctx, graph, arena, data, bytes);
    struct remat_text text = {.arena = arena};
    remat_graph_print(graph, &text);
    *data = text.items;
    *bytes = text.count;
    return REMAT_OK;
}

static remat_status generate(remat_context *ctx, struct remat_arena *arena,
                             const struct cli_arguments *args)
{
    remat_status st = REMAT_OK;
    struct remat_model_settings settings;
    struct remat_graph *graph;
    const void *data;
    size_t bytes;
    if (cli_has(args, OPTION_list))
        return list_models(ctx);
    if (args->operand_count == 0)
        return remat_error(ctx, REMAT_ERROR_USAGE, "MODEL is missing (--list names all)");
    REMAT_TRY(read_settings(ctx, arena, args, &settings));
    REMAT_TRY(remat_model_generate_symbolic(ctx, arena, &settings, &graph));
    note_positions(ctx, &settings);
    graph->config = remat_model_config_text(arena, &settings);
    graph->plan_only = settings.plan_only;
    REMAT_TRY(unbind(ctx, args, graph));
    REMAT_TRY(make_file(ctx, arena, graph, cli_has(args, OPTION_text), &data, &bytes));
    st = cli_write(ctx, args, OPTION_output, data, bytes);
fail:
    return st;
}

int main(int argc, char **argv)
{
    return cli_main(&tool, argc, argv, generate);
}
