/* remat-graph: a model's training graph from a preset and sizes. */
#include "cli.h"
#include "graph_text.h"
#include "ingest.h"
#include "models.h"

#include <stdio.h>

enum {
#define OPTION CLI_OPTION_INDEX
#include "graph.def"
#undef OPTION
    OPTION_COUNT
};
static const struct cli_option options[] = {
#define OPTION CLI_OPTION_ROW
#include "graph.def"
#undef OPTION
};
static const struct cli_tool tool = {
    .name = "remat-graph",
    .summary = "Makes the training graph of a model: forward and loss; the compiler adds the rest.",
    .operands = "MODEL",
    .operands_min = 1,
    .operands_max = 1,
    .examples = {{"GPT-2 124M, two sequences of 512 tokens",
                  "remat-graph gpt2-124m --batch 2 --seq 512 -o model.fbs"},
                 {"sizes of one's own",
                  "remat-graph gpt2 --layers 4 --width 256 --heads 8 --seq 256 -o model.fbs"},
                 {"the graph as text", "remat-graph gpt2-tiny --layers 1 --text"}},
    .options = options,
    .option_count = OPTION_COUNT,
};

static remat_status read_settings(remat_context *ctx, const struct cli_arguments *args,
                                  struct remat_model_settings *s)
{
    remat_status st = REMAT_OK;
    struct remat_optimizer *o = &s->optimizer;
    REMAT_TRY(remat_model_preset(ctx, args->operands[0], s));
    s->name = cli_text(args, OPTION_name, s->name);
    s->layers = cli_integer(args, OPTION_layers, s->layers);
    s->width = cli_integer(args, OPTION_width, s->width);
    s->heads = cli_integer(args, OPTION_heads, s->heads);
    s->vocab = cli_integer(args, OPTION_vocab, s->vocab);
    s->context = cli_integer(args, OPTION_context, s->context);
    s->batch = cli_integer(args, OPTION_batch, s->batch);
    s->seq = cli_integer(args, OPTION_seq, s->seq);

    o->adamw = cli_choice(args, OPTION_optimizer, 0) == 0;
    o->beta1 = cli_number(args, OPTION_beta1, o->beta1);
    o->beta2 = cli_number(args, OPTION_beta2, o->beta2);
    o->epsilon = cli_number(args, OPTION_epsilon, o->epsilon);
    o->weight_decay = cli_number(args, OPTION_weight_decay, o->weight_decay);
    for (uint32_t k = OPTION_beta1; k <= OPTION_weight_decay; k++)
        if (!o->adamw && cli_has(args, k))
            REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--%s needs --optimizer adamw", options[k].name);
    if (!cli_has(args, OPTION_text) && !cli_has(args, OPTION_output))
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--output is missing (or --text, which can do without)");
    return REMAT_OK;
fail:
    return st;
}

static remat_status make_file(remat_context *ctx, struct remat_arena *arena,
                              const struct remat_graph *graph, bool as_text, const void **data,
                              size_t *bytes)
{
    if (!as_text)
        return remat_graph_write(ctx, graph, arena, data, bytes);
    struct remat_text text = {.arena = arena};
    remat_status st = remat_graph_print(ctx, graph, &text);
    *data = text.items;
    *bytes = text.count;
    return st;
}

static remat_status generate(remat_context *ctx, struct remat_arena *arena,
                             const struct cli_arguments *args)
{
    remat_status st = REMAT_OK;
    struct remat_model_settings settings;
    struct remat_graph *graph;
    const void *data;
    size_t bytes;
    REMAT_TRY(read_settings(ctx, args, &settings));
    REMAT_TRY(remat_model_generate(ctx, arena, &settings, &graph));
    REMAT_TRY(make_file(ctx, arena, graph, cli_has(args, OPTION_text), &data, &bytes));
    if (cli_has(args, OPTION_output))
        return remat_file_write(ctx, cli_text(args, OPTION_output, NULL), data, bytes);
    fwrite(data, 1, bytes, stdout); /* cli_main checks it */
    return REMAT_OK;
fail:
    return st;
}

int main(int argc, char **argv)
{
    return cli_main(&tool, argc, argv, generate);
}
