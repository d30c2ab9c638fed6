/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds and plans one division. */
#include "division_search.h"

#include "asked_settings.h"
#include "bindings.h"
#include "mesh.h"

/* --- one of them --- */

/* A proof that one division does not fit is none for others. */
static void keep_refused(void *user, const struct remat_refusal *refusal)
{
    struct division_search *s = user;
    if (!refusal->smallest)
        return;
    s->refused_bytes = refusal->smallest_bytes;
    if (s->request->settings.search.refused)
        s->request->settings.search.refused(s->request->settings.search.refused_user, refusal);
}

static remat_status start(struct division_search *s, struct remat_arena *scratch,
                          struct remat_division_trial *d, struct remat_compile_settings *settings,
                          struct remat_graph **graph)
{
    *settings = remat_settings_of_trial(&s->request->settings);
    settings->mesh = d->mesh;
    settings->passes.sequence_parallel = d->sequence_parallel;
    settings->passes.zero = d->zero;
    settings->passes.microbatches = d->microbatches;
    settings->search.refused = keep_refused;
    settings->search.refused_user = s;
    s->refused_bytes = 0;
    remat_request_look(s->request,
                       (struct remat_attempt){.divisions = s->divisions, .division = d});
    return remat_asked_bind(s->request, settings, s->divisions->bindings, scratch, graph);
}

/* What an attempt has come to; other errors go on. */
static remat_status conclude(struct division_search *s, struct remat_division_trial *d,
                             remat_status st)
{
    const char *message = remat_context_message(s->request->ctx);
    if (st == REMAT_ERROR_INFEASIBLE) {
        d->outcome = REMAT_DIVISION_TOO_LARGE;
        if (s->refused_bytes && (!s->smallest_bytes || s->refused_bytes < s->smallest_bytes)) {
            s->smallest_bytes = s->refused_bytes;
            s->smallest = d;
            s->refusal = remat_arena_format(s->request->arena, "%s", message);
        }
        return s->smallest && !s->refusal ? REMAT_ERROR_MEMORY : REMAT_OK;
    }
    if (st != REMAT_ERROR_INVALID && st != REMAT_ERROR_USAGE)
        return st;
    d->outcome = REMAT_DIVISION_IMPOSSIBLE;
    d->refusal = st;
    d->why = remat_arena_format(s->request->arena, "%s", message);
    return d->why ? REMAT_OK : REMAT_ERROR_MEMORY;
}

/* With gradients in pieces as small as are tried. No piece has any part in persistent memory. */
static remat_status bound_in_pieces(struct division_search *s, struct remat_arena *scratch,
                                    const struct remat_graph *graph,
                                    struct remat_compile_settings *settings,
                                    struct remat_division_trial *d)
{
    remat_status st = REMAT_OK;
    struct remat_bound bound;
    d->in_pieces = remat_may_cut_gradients(s->request->asked, s->request->graph, settings);
    if (d->in_pieces && d->bound.static_bytes > settings->search.budget_bytes)
        d->bound.floor_bytes = d->bound.static_bytes;
    if (!d->in_pieces || d->bound.static_bytes > settings->search.budget_bytes)
        return REMAT_OK;
    settings->passes.exchange_bytes = REMAT_SMALLEST_PIECE_BYTES;
    REMAT_TRY(remat_compile_bound(s->request->ctx, scratch, graph, settings, &d->bound));
    while (d->bound.step_ns && (settings->passes.exchange_bytes *= 4) < REMAT_EXCHANGE_BYTES) {
        REMAT_TRY(remat_compile_bound(s->request->ctx, scratch, graph, settings, &bound));
        if (bound.step_ns && bound.step_ns < d->bound.step_ns)
            d->bound.step_ns = bound.step_ns;
    }
fail:
    return st;
}

/* Whether what is persistent with `a` is so with `b`: sequence parallelism changes nothing of it,
 * and several microbatches add an accumulator of each gradient. */
static bool keeps_no_more(const struct remat_division_trial *a,
                          const struct remat_division_trial *b)
{
    return a->zero == b->zero && (a->microbatches == 1 || b->microbatches > 1) &&
           remat_mesh_size(&a->mesh, "tp") == remat_mesh_size(&b->mesh, "tp");
}

/* Too large by what is persistent with a division before it. */
static bool is_hopeless(const struct division_search *s, struct remat_division_trial *d)
{
    for (const struct remat_division_trial *a = s->divisions->items; a < d; a++)
        if (a->outcome == REMAT_DIVISION_TOO_LARGE &&
            a->bound.static_bytes > s->request->settings.search.budget_bytes &&
            keeps_no_more(a, d)) {
            d->bound = (struct remat_bound){.floor_bytes = a->bound.static_bytes,
                                            .static_bytes = a->bound.static_bytes};
            d->in_pieces = a->in_pieces;
            d->outcome = REMAT_DIVISION_TOO_LARGE;
            return true;
        }
    return false;
}

remat_status remat_division_find_bound(struct division_search *s, struct remat_division_trial *d)
{
    remat_status st = REMAT_OK;
    struct remat_arena *scratch = remat_scratch_open(s->request->ctx);
    struct remat_compile_settings settings;
    struct remat_graph *graph;
    if (is_hopeless(s, d))
        goto fail;
    st = start(s, scratch, d, &settings, &graph);
    if (st == REMAT_OK)
        st = remat_compile_bound(s->request->ctx, scratch, graph, &settings, &d->bound);
    if (st == REMAT_OK && !d->bound.step_ns)
        st = bound_in_pieces(s, scratch, graph, &settings, d);
    if (st == REMAT_OK && !d->bound.step_ns)
        d->outcome = REMAT_DIVISION_TOO_LARGE;
    st = conclude(s, d, st);
fail:
    remat_scratch_close(scratch);
    return st;
}

static const char *copy(const struct division_search *s, const char *text)
{
    return remat_arena_format(s->request->arena, "%s", text);
}

static remat_status keep_plan(const struct division_search *s, struct remat_division_trial *d,
                              const struct remat_program *program)
{
    bool kept = (d->policy = copy(s, program->policy)) != NULL;
    d->step_ns = program->step_ns;
    d->peak_bytes = program->peak_bytes;
    for (d->manual_count = 0; d->manual_count < program->manual_count; d->manual_count++) {
        const struct remat_manual *manual = &program->manuals[d->manual_count];
        struct remat_manual *out = &d->manuals[d->manual_count];
        *out = (struct remat_manual){copy(s, manual->system), copy(s, manual->policy),
                                     copy(s, manual->flags), manual->step_ns};
        kept = kept && out->system && out->policy && out->flags;
    }
    d->outcome = REMAT_DIVISION_PLANNED;
    return kept ? REMAT_OK : REMAT_ERROR_MEMORY;
}

/* As the whole command would: with the largest pieces that fit. */
static remat_status compile_in_pieces(struct division_search *s, struct remat_arena *scratch,
                                      const struct remat_graph *graph,
                                      struct remat_compile_settings *settings,
                                      struct remat_program **out)
{
    remat_status st;
    struct remat_program *larger;
    settings->passes.exchange_bytes = REMAT_SMALLEST_PIECE_BYTES;
    settings->search.briefly = false;
    st = remat_compile(s->request->ctx, scratch, graph, settings, out);
    settings->search.briefly = true;
    settings->passes.exchange_bytes = REMAT_EXCHANGE_BYTES / 4;
    while (st == REMAT_OK && settings->passes.exchange_bytes > REMAT_SMALLEST_PIECE_BYTES) {
        remat_status fits = remat_compile(s->request->ctx, scratch, graph, settings, &larger);
        if (fits == REMAT_OK)
            *out = larger;
        if (fits != REMAT_ERROR_INFEASIBLE)
            return fits;
        settings->passes.exchange_bytes /= 4;
    }
    return st;
}

remat_status remat_division_plan(struct division_search *s, struct remat_division_trial *d)
{
    remat_status st = REMAT_OK;
    struct remat_arena *scratch = remat_scratch_open(s->request->ctx);
    struct remat_compile_settings settings;
    struct remat_graph *graph;
    struct remat_program *program = NULL;
    bool planned = remat_divisions_planned(s->divisions);
    st = start(s, scratch, d, &settings, &graph);
    settings.search.briefly =
        remat_may_cut_gradients(s->request->asked, s->request->graph, &settings);
    if (st == REMAT_OK)
        st = d->in_pieces ? REMAT_ERROR_INFEASIBLE
                          : remat_compile(s->request->ctx, scratch, graph, &settings, &program);
    if (st == REMAT_ERROR_INFEASIBLE && settings.search.briefly)
        st = compile_in_pieces(s, scratch, graph, &settings, &program);
    s->divisions->cut_short = remat_request_is_over(s->request);
    if (s->divisions->cut_short && planned)
        st = st == REMAT_ERROR_INFEASIBLE || st == REMAT_ERROR_CUT_SHORT ? REMAT_OK : st;
    else if (st == REMAT_OK)
        st = keep_plan(s, d, program);
    else
        st = conclude(s, d, st);
    remat_scratch_close(scratch);
    return st;
}
