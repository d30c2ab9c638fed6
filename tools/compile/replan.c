/* SPDX-License-Identifier: Apache-2.0 */
#include "replan.h"

#include "compile.h"
#include "model.h"
#include "ops.h"
#include "options.h"
#include "settings.h"

static const struct cli_option options[] = {
#define OPTION CLI_OPTION_ROW
#include "compile.def"
#undef OPTION
};
static const struct cli_tool compiler = {.name = "remat-compile",
                                         .operands = "MODEL",
                                         .operand_kind = CLI_INPUT,
                                         .operands_min = 1,
                                         .operands_max = 1,
                                         .options = options,
                                         .option_count = OPTION_COUNT};

/* Whether it says something other than what is recomputed. */
static bool is_kept(const char *setting)
{
    for (uint32_t o = 0; o < OPTION_COUNT; o++)
        if (strcmp(options[o].name, setting) == 0)
            return o != OPTION_budget && o != OPTION_solver &&
                   strncmp(options[o].group, "Policy", strlen("Policy")) != 0 &&
                   strncmp(options[o].group, "Pins", strlen("Pins")) != 0;
    return false;
}

/* The settings of the plan as remat-compile reads them. */
static remat_status read_settings(remat_context *ctx, struct remat_arena *arena, const char *model,
                                  const struct remat_program *program, struct cli_arguments *args,
                                  struct remat_compile_settings *out)
{
    remat_status st = REMAT_OK;
    struct words REMAT_LIST(char *) words = {0};
    bool done = false;
    REMAT_TRY_PUSH(arena, &words, (char *)compiler.name);
    REMAT_TRY_PUSH(arena, &words, (char *)model);
    for (uint32_t i = 0; i < program->setting_count; i++) {
        const struct remat_setting *setting = &program->settings[i];
        if (!is_kept(setting->name))
            continue;
        char *word = remat_arena_format(arena, "--%s%s%s", setting->name,
                                        *setting->value ? "=" : "", setting->value);
        if (!word)
            REMAT_FAIL(ctx, REMAT_ERROR_MEMORY, "out of memory");
        REMAT_TRY_PUSH(arena, &words, word);
    }
    REMAT_TRY(cli_parse(ctx, arena, &compiler, (int)words.count, words.items, args, &done));
    REMAT_TRY(settings_read(ctx, arena, args, out));
fail:
    return st;
}

remat_status replan(remat_context *ctx, struct remat_arena *arena, const char *model,
                    const struct remat_program *program, const char *const *saved,
                    uint32_t saved_count, struct remat_program **out)
{
    remat_status st = REMAT_OK;
    struct cli_arguments args = {0};
    struct remat_compile_settings settings;
    struct remat_graph *parsed, *graph;
    REMAT_TRY(read_settings(ctx, arena, model, program, &args, &settings));
    settings.search.policy =
        (struct remat_policy_settings){.ac_mode = "full", .save = saved, .save_count = saved_count};
    REMAT_TRY(model_read(ctx, arena, model, &parsed));
    REMAT_TRY(
        model_bind(ctx, arena, model, parsed, cli_text(&args, OPTION_bind, ""), &settings, &graph));
    if (remat_graph_hash(graph) != program->graph_hash)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "%s: this is not the graph that the plan was made from",
                   model);
    REMAT_TRY(remat_compile(ctx, arena, graph, &settings, out));
fail:
    return st;
}
