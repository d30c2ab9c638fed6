/* SPDX-License-Identifier: Apache-2.0 */
#include "replan.h"

#include "cli.h"

#include <remat/compile.h>

static const struct cli_option options[] = {
#define OPTION CLI_OPTION_ROW
#include "compile.def"
#undef OPTION
};
enum { OPTIONS = sizeof options / sizeof *options };

/* Whether it says something other than what is recomputed. */
static bool is_kept(const char *setting)
{
    for (uint32_t o = 0; o < OPTIONS; o++)
        if (strcmp(options[o].name, setting) == 0)
            return strcmp(setting, "budget") != 0 && strcmp(setting, "solver") != 0 &&
                   strcmp(setting, "time-limit") != 0 &&
                   strncmp(options[o].group, "Policy", strlen("Policy")) != 0 &&
                   strncmp(options[o].group, "Pins", strlen("Pins")) != 0;
    return false;
}

static remat_status set_options(const struct remat_program *program, const char *const *saved,
                                uint32_t saved_count, remat_compile_options *out)
{
    remat_status st = REMAT_OK;
    for (uint32_t i = 0; i < program->setting_count; i++) {
        const struct remat_setting *setting = &program->settings[i];
        if (is_kept(setting->name))
            REMAT_TRY(remat_compile_options_set(out, setting->name,
                                                *setting->value ? setting->value : "true"));
    }
    REMAT_TRY(remat_compile_options_set(out, "ac-mode", "full"));
    for (uint32_t k = 0; k < saved_count; k++)
        REMAT_TRY(remat_compile_options_set(out, "save", saved[k]));
fail:
    return st;
}

remat_status replan(remat_context *ctx, struct remat_arena *arena, const char *model,
                    const struct remat_program *program, const char *const *saved,
                    uint32_t saved_count, struct remat_program **out)
{
    remat_status st = REMAT_OK;
    remat_graph_builder *graph = NULL;
    remat_compile_options *asked = NULL;
    remat_compiled *compiled = NULL;
    const void *data;
    size_t bytes;
    char *copy;
    REMAT_TRY(remat_compile_options_create(ctx, &asked));
    REMAT_TRY(set_options(program, saved, saved_count, asked));
    REMAT_TRY(remat_graph_builder_read(ctx, model, &graph));
    st = remat_compiled_create(ctx, graph, asked, &compiled);
    if (st == REMAT_ERROR_USAGE) /* a name of the plan that the graph does not have */
        REMAT_FAIL(ctx, st, "%s: this is not the graph that the plan was made from", model);
    REMAT_TRY(st);
    REMAT_TRY(remat_compiled_data(ctx, compiled, &data, &bytes));
    copy = remat_arena_string(arena, data, bytes);
    if (!copy)
        REMAT_FAIL(ctx, REMAT_ERROR_MEMORY, "out of memory");
    REMAT_TRY(remat_program_read(ctx, model, copy, bytes, arena, out));
    if ((*out)->graph_hash != program->graph_hash)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "%s: this is not the graph that the plan was made from",
                   model);
fail:
    remat_compiled_destroy(&compiled);
    remat_graph_builder_destroy(&graph);
    remat_compile_options_destroy(&asked);
    return st;
}
