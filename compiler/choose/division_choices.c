/* SPDX-License-Identifier: Apache-2.0 */
/* What the options leave open. */
#include "division_search.h"

#include "amounts.h"
#include "mesh.h"

#include <inttypes.h>

/* --- options --- */

const char *remat_division_bindings(struct remat_arena *arena, const struct remat_asked *asked)
{
    const char *given = remat_asked_text(asked, "bind", "");
    const char *batch = remat_asked_text(asked, "global-batch", NULL);
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

remat_status remat_division_check_options(remat_context *ctx, const struct remat_asked *asked,
                                          const struct remat_compile_settings *settings)
{
    const char *asking = remat_asks(asked, "ranks") ? "--ranks" : "--microbatches auto";
    uint32_t ranks = remat_mesh_ranks(&settings->mesh);
    if (remat_asks(asked, "global-batch") && has_batch(remat_asked_text(asked, "bind", "")))
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--global-batch and batch in --bind exclude each other: both give the "
                           "sequences of a step");
    if (!remat_division_asked(asked))
        return REMAT_OK;
    if (!settings->search.has_budget)
        return remat_error(ctx, REMAT_ERROR_USAGE, "%s needs --budget", asking);
    if (strstr(remat_asked_text(asked, "bind", ""), "=auto"))
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%s and auto in --bind exclude each other: the batch of a step is fixed "
                           "where its division is chosen",
                           asking);
    if (remat_asks(asked, "ranks") && remat_asks(asked, "mesh") &&
        ranks != remat_asked_integer(asked, "ranks", 1))
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "--mesh %s has %" PRIu32 " ranks, --ranks %s has another number",
                           remat_asked_text(asked, "mesh", ""), ranks,
                           remat_asked_text(asked, "ranks", ""));
    return REMAT_OK;
}

/* --- all of them --- */

/* Those that an option has, or all. */
struct choices {
    uint32_t count, items[3];
};

static struct choices stages_of(const struct division_search *s, uint32_t dp)
{
    if (!remat_asks(s->request->asked, "ranks") || remat_asks(s->request->asked, "zero"))
        return (struct choices){1, {s->request->settings.passes.zero}};
    return dp > 1 ? (struct choices){3, {0, 1, 3}} : (struct choices){1, {0}};
}

static struct choices sequence_of(const struct division_search *s, uint32_t tp)
{
    bool given = s->request->settings.passes.sequence_parallel;
    if (!remat_asks(s->request->asked, "ranks") || given || tp == 1)
        return (struct choices){1, {given}};
    return (struct choices){2, {0, 1}};
}

/* By number of microbatches, which divides a rank's batch. One that ranks do not divide is not
 * possible, which compiling it says. */
static remat_status add_microbatches(const struct division_search *s,
                                     struct remat_division_trial division,
                                     struct remat_division_list *out)
{
    remat_status st = REMAT_OK;
    int64_t batch = s->divisions->batch / remat_mesh_size(&division.mesh, "dp");
    bool open =
        !remat_asks(s->request->asked, "microbatches") || remat_division_is_auto(s->request->asked);
    uint32_t first = open ? 1 : s->request->settings.passes.microbatches;
    int64_t last = open && batch > 1 ? batch : first;
    for (int64_t m = first; m <= last && m <= REMAT_MICROBATCHES_MAX; m++) {
        if (open && m > 1 && s->divisions->batch % (m * remat_mesh_size(&division.mesh, "dp")))
            continue;
        division.microbatches = (uint32_t)m;
        division.number = (uint32_t)out->count;
        REMAT_TRY_PUSH(s->request->arena, out, division);
    }
fail:
    return st;
}

static remat_status add_mesh(const struct division_search *s, const struct remat_mesh *mesh,
                             struct remat_division_list *out)
{
    remat_status st = REMAT_OK;
    struct choices sequence = sequence_of(s, remat_mesh_size(mesh, "tp"));
    struct choices stages = stages_of(s, remat_mesh_size(mesh, "dp"));
    for (uint32_t q = 0; q < sequence.count; q++)
        for (uint32_t z = 0; z < stages.count; z++)
            REMAT_TRY(add_microbatches(
                s,
                (struct remat_division_trial){
                    .mesh = *mesh, .sequence_parallel = sequence.items[q], .zero = stages.items[z]},
                out));
fail:
    return st;
}

remat_status remat_division_enumerate(const struct division_search *s,
                                      struct remat_division_list *out)
{
    remat_status st = REMAT_OK;
    uint32_t ranks = (uint32_t)remat_asked_integer(s->request->asked, "ranks", 1);
    if (!remat_asks(s->request->asked, "ranks") || remat_asks(s->request->asked, "mesh"))
        return add_mesh(s, &s->request->settings.mesh, out);
    for (uint32_t tp = 1; tp <= ranks && tp <= REMAT_RANKS_MAX; tp++) {
        char text[REMAT_MESH_TEXT_BYTES];
        struct remat_mesh mesh;
        if (ranks % tp || ranks / tp > REMAT_RANKS_MAX)
            continue;
        snprintf(text, sizeof text, "dp=%" PRIu32 ",tp=%" PRIu32, ranks / tp, tp);
        REMAT_TRY(remat_mesh_parse(s->request->ctx, text, &mesh));
        REMAT_TRY(add_mesh(s, &mesh, out));
    }
    if (out->count == 0)
        REMAT_FAIL(s->request->ctx, REMAT_ERROR_USAGE,
                   "--ranks %" PRIu32 " is no product of two axes of at most %d ranks", ranks,
                   REMAT_RANKS_MAX);
fail:
    return st;
}
