/* SPDX-License-Identifier: Apache-2.0 */
#include "replan.h"

#include "asked_settings.h"
#include "bindings.h"
#include "graph_file.h"
#include "ops.h"
#include "options.h"

static const struct cli_option options[] = {
#define OPTION CLI_OPTION_ROW
#include "compile.def"
#undef OPTION
};

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

/* What the plan was asked for. */
static remat_status list_settings(struct remat_arena *arena, const char *model,
                                  const struct remat_program *program, struct remat_asked *out)
{
    remat_status st = REMAT_OK;
    *out = (struct remat_asked){.model = model};
    for (uint32_t i = 0; i < program->setting_count; i++)
        if (is_kept(program->settings[i].name))
            REMAT_TRY_PUSH(arena, out, program->settings[i]);
fail:
    return st;
}

remat_status replan(remat_context *ctx, struct remat_arena *arena, const char *model,
                    const struct remat_program *program, const char *const *saved,
                    uint32_t saved_count, struct remat_program **out)
{
    remat_status st = REMAT_OK;
    struct remat_asked asked;
    struct remat_request r = {.ctx = ctx, .arena = arena, .asked = &asked};
    struct remat_graph *parsed, *graph;
    REMAT_TRY(list_settings(arena, model, program, &asked));
    REMAT_TRY(remat_settings_read(ctx, arena, &asked, &r.settings));
    r.settings.search.policy =
        (struct remat_policy_settings){.ac_mode = "full", .save = saved, .save_count = saved_count};
    REMAT_TRY(remat_graph_file_read(ctx, model, arena, &parsed));
    r.graph = parsed;
    REMAT_TRY(
        remat_asked_bind(&r, &r.settings, remat_asked_text(&asked, "bind", ""), arena, &graph));
    if (remat_graph_hash(graph) != program->graph_hash)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "%s: this is not the graph that the plan was made from",
                   model);
    REMAT_TRY(remat_compile(ctx, arena, graph, &r.settings, out));
fail:
    return st;
}
