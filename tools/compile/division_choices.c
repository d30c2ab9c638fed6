/* SPDX-License-Identifier: Apache-2.0 */
/* What the options leave open. */
#include "division_search.h"

#include "amounts.h"
#include "mesh.h"
#include "options.h"

#include <inttypes.h>

/* --- options --- */

const char *division_bindings(struct remat_arena *arena, const struct cli_arguments *args)
{
    const char *given = cli_text(args, OPTION_bind, "");
    const char *batch = cli_text(args, OPTION_global_batch, NULL);
    return batch ? remat_arena_format(arena, "batch=%s%s%s", batch, *given ? "," : "", given)
                 : given;
}

/* Whether "seq=8,batch=64" has the batch. */
static bool has_batch(const char *bindings)
{
    for (const char *at = bindings; (at = strstr(at, "batch=")); at++)
        if (at == bindings || at[-1] == ',')
            return true;
    return false;
}

remat_status division_check_options(remat_context *ctx, const struct cli_arguments *args,
                                    const struct remat_compile_settings *settings)
{
    const char *asking = cli_has(args, OPTION_ranks) ? "--ranks" : "--microbatches auto";
    uint32_t ranks = remat_mesh_ranks(&settings->mesh);
    if (cli_has(args, OPTION_global_batch) && has_batch(cli_text(args, OPTION_bind, "")))
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--global-batch and batch in --bind exclude each other: both give the "
                           "sequences of a step");
    if (!division_asked(args))
        return REMAT_OK;
    if (!settings->search.has_budget)
        return remat_error(ctx, REMAT_ERROR_USAGE, "%s needs --budget", asking);
    if (strstr(cli_text(args, OPTION_bind, ""), "=auto"))
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%s and auto in --bind exclude each other: the batch of a step is fixed "
                           "where its division is chosen",
                           asking);
    if (cli_has(args, OPTION_ranks) && cli_has(args, OPTION_mesh) &&
        ranks != cli_integer(args, OPTION_ranks, 1))
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--mesh %s has %" PRIu32 " ranks, --ranks %s has another number",
                           cli_text(args, OPTION_mesh, ""), ranks,
                           cli_text(args, OPTION_ranks, ""));
    return REMAT_OK;
}

/* --- all of them --- */

/* Those that an option has, or all. */
struct choices {
    uint32_t count, items[3];
};

static struct choices stages_of(const struct division_search *s, uint32_t dp)
{
    if (!cli_has(s->args, OPTION_ranks) || cli_has(s->args, OPTION_zero))
        return (struct choices){1, {s->settings->passes.zero}};
    return dp > 1 ? (struct choices){3, {0, 1, 3}} : (struct choices){1, {0}};
}

static struct choices sequence_of(const struct division_search *s, uint32_t tp)
{
    bool given = s->settings->passes.sequence_parallel;
    if (!cli_has(s->args, OPTION_ranks) || given || tp == 1)
        return (struct choices){1, {given}};
    return (struct choices){2, {0, 1}};
}

/* By number of microbatches, which divides a rank's batch. One that ranks do not divide is not
 * possible, which compiling it says. */
static remat_status add_microbatches(const struct division_search *s, struct division division,
                                     struct division_list *out)
{
    remat_status st = REMAT_OK;
    int64_t batch = s->divisions->batch / remat_mesh_size(&division.mesh, "dp");
    bool open = !cli_has(s->args, OPTION_microbatches) || division_is_auto(s->args);
    uint32_t first = open ? 1 : s->settings->passes.microbatches;
    int64_t last = open && batch > 1 ? batch : first;
    for (int64_t m = first; m <= last && m <= REMAT_MICROBATCHES_MAX; m++) {
        if (open && m > 1 && s->divisions->batch % (m * remat_mesh_size(&division.mesh, "dp")))
            continue;
        division.microbatches = (uint32_t)m;
        division.number = (uint32_t)out->count;
        REMAT_TRY_PUSH(s->arena, out, division);
    }
fail:
    return st;
}

static remat_status add_mesh(const struct division_search *s, const struct remat_mesh *mesh,
                             struct division_list *out)
{
    remat_status st = REMAT_OK;
    struct choices sequence = sequence_of(s, remat_mesh_size(mesh, "tp"));
    struct choices stages = stages_of(s, remat_mesh_size(mesh, "dp"));
    for (uint32_t q = 0; q < sequence.count; q++)
        for (uint32_t z = 0; z < stages.count; z++)
            REMAT_TRY(add_microbatches(s,
                                       (struct division){.mesh = *mesh,
                                                         .sequence_parallel = sequence.items[q],
                                                         .zero = stages.items[z]},
                                       out));
fail:
    return st;
}

remat_status division_enumerate(const struct division_search *s, struct division_list *out)
{
    remat_status st = REMAT_OK;
    uint32_t ranks = (uint32_t)cli_integer(s->args, OPTION_ranks, 1);
    if (!cli_has(s->args, OPTION_ranks) || cli_has(s->args, OPTION_mesh))
        return add_mesh(s, &s->settings->mesh, out);
    for (uint32_t tp = 1; tp <= ranks && tp <= REMAT_RANKS_MAX; tp++) {
        char text[REMAT_MESH_TEXT_BYTES];
        struct remat_mesh mesh;
        if (ranks % tp || ranks / tp > REMAT_RANKS_MAX)
            continue;
        snprintf(text, sizeof text, "dp=%" PRIu32 ",tp=%" PRIu32, ranks / tp, tp);
        REMAT_TRY(remat_mesh_parse(s->ctx, text, &mesh));
        REMAT_TRY(add_mesh(s, &mesh, out));
    }
    if (out->count == 0)
        REMAT_FAIL(s->ctx, REMAT_ERROR_USAGE,
                   "--ranks %" PRIu32 " is no product of two axes of at most %d ranks", ranks,
                   REMAT_RANKS_MAX);
fail:
    return st;
}
