/* SPDX-License-Identifier: Apache-2.0 */
/* All divisions that the options leave open are enumerated and bounded, which is cheaper than
 * planning them: a lower bound of the step's time, and a floor of the memory. Then they are planned
 * by their bounds, until the next bound is above the slowest of the best. One is planned as soon as
 * a whole mesh is bounded, so that a search which is ended has something. Where nothing fits, those
 * of the lowest floors are planned for the smallest budget, until the next floor is above it. */
#include "division_search.h"

#include "bindings.h"
#include "graph_file.h"

#include <stdlib.h>

/* The first that may fit is planned when its whole mesh is bounded, or the search ended. */
static remat_status bound_all(struct division_search *s)
{
    remat_status st = REMAT_OK;
    struct remat_divisions *divisions = s->divisions;
    for (uint32_t i = 0, count = divisions->count; i < count && !divisions->cut_short; i++) {
        REMAT_TRY(remat_division_find_bound(s, &divisions->items[i]));
        bool over = remat_request_is_over(s->request);
        bool last = i + 1 == count || remat_mesh_size(&divisions->items[i].mesh, "tp") !=
                                          remat_mesh_size(&divisions->items[i + 1].mesh, "tp");
        uint32_t open = remat_divisions_find_open(divisions);
        divisions->cut_short = over && remat_divisions_planned(divisions);
        if (open < count && (over || last) && !remat_divisions_planned(divisions))
            REMAT_TRY(remat_division_plan(s, &divisions->items[open]));
    }
fail:
    return st;
}

static remat_status plan_open(struct division_search *s)
{
    remat_status st = REMAT_OK;
    struct remat_divisions *divisions = s->divisions;
    for (uint32_t open; !divisions->cut_short &&
                        (open = remat_divisions_find_open(divisions)) < divisions->count;) {
        struct remat_division_trial *d = &divisions->items[open];
        if (d->bound.step_ns > remat_divisions_time_to_beat(divisions))
            d->outcome = REMAT_DIVISION_SLOWER;
        else
            REMAT_TRY(remat_division_plan(s, d));
    }
fail:
    return st;
}

/* The one with the lowest floor of which no refusal is known, unless that is no lower than the
 * smallest budget found; NULL: there is none. */
static struct remat_division_trial *find_smaller(const struct division_search *s,
                                                 const bool *refused)
{
    struct remat_division_trial *least = NULL;
    for (uint32_t i = 0; i < s->divisions->count; i++) {
        struct remat_division_trial *d = &s->divisions->items[i];
        uint64_t floor_bytes = d->bound.floor_bytes;
        if (d->outcome == REMAT_DIVISION_TOO_LARGE && !refused[i] &&
            (!s->smallest_bytes || floor_bytes < s->smallest_bytes) &&
            (!least || floor_bytes < least->bound.floor_bytes))
            least = d;
    }
    return least;
}

/* None is possible: the first one's reason is the message, all of them stand after it. */
static remat_status refuse_all(const struct division_search *s)
{
    struct remat_divisions *divisions = s->divisions;
    const struct remat_division_trial *first = divisions->items;
    struct remat_text lines = {.arena = s->request->arena};
    uint32_t count = 0;
    for (uint32_t i = 0; i < divisions->count; i++)
        count += remat_divisions_has_new_reason(divisions, i);
    for (uint32_t i = 0; i < divisions->count && count > 1; i++)
        if (remat_divisions_has_new_reason(divisions, i))
            remat_text_append(&lines, "  not possible: %s: %s\n",
                              remat_division_options(&divisions->items[i]).text,
                              remat_divisions_reason(divisions, i));
    if (lines.failed)
        return remat_error(s->request->ctx, REMAT_ERROR_MEMORY, "out of memory");
    divisions->reasons = lines.items ? lines.items : "";
    return remat_error(s->request->ctx, first->refusal, "%s", first->why);
}

/* Nothing fits: what needs least? */
static remat_status refuse(struct division_search *s)
{
    remat_status st = REMAT_OK;
    struct remat_divisions *divisions = s->divisions;
    struct remat_division_trial *d;
    bool *refused;
    REMAT_TRY_NEW(s->request->arena, refused, divisions->count);
    while (!divisions->cut_short && (d = find_smaller(s, refused))) {
        refused[d - divisions->items] = true;
        REMAT_TRY(remat_division_plan(s, d));
        if (d->outcome == REMAT_DIVISION_PLANNED)
            return REMAT_OK; /* in time */
    }
    if (s->smallest)
        return remat_error(s->request->ctx, REMAT_ERROR_INFEASIBLE,
                           "no division fits; the smallest%s, %s: %s",
                           divisions->cut_short ? " that there was time for" : "",
                           remat_division_options(s->smallest).text, s->refusal);
    if (divisions->cut_short)
        return remat_error(s->request->ctx, REMAT_ERROR_CUT_SHORT,
                           "the search was ended before it found a division that fits");
    return refuse_all(s);
fail:
    return st;
}

static int compare(const void *a, const void *b)
{
    const struct remat_division_trial *x = a, *y = b;
    bool first = x->outcome == REMAT_DIVISION_PLANNED,
         second = y->outcome == REMAT_DIVISION_PLANNED;
    if (first != second)
        return first ? -1 : 1;
    if (first && x->step_ns != y->step_ns)
        return x->step_ns < y->step_ns ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static remat_status choose(struct division_search *s)
{
    remat_status st = REMAT_OK;
    struct remat_divisions *divisions = s->divisions;
    REMAT_TRY(bound_all(s));
    REMAT_TRY(plan_open(s));
    if (!remat_divisions_planned(divisions))
        REMAT_TRY(refuse(s));
    qsort(divisions->items, divisions->count, sizeof *divisions->items, compare);
    for (uint32_t i = 0; i < divisions->count; i++)
        divisions->counts[divisions->items[i].outcome]++;
    for (uint32_t i = 0; i < REMAT_DIVISIONS_BEST && i < divisions->counts[REMAT_DIVISION_PLANNED];
         i++)
        REMAT_TRY(remat_division_describe(s->request->arena, divisions, &divisions->items[i]));
fail:
    return st;
}

/* What is given of the whole step. */
static remat_status describe(struct division_search *s)
{
    remat_status st = REMAT_OK;
    struct remat_divisions *divisions = s->divisions;
    struct remat_arena *scratch = remat_scratch_open(s->request->ctx);
    struct remat_graph *symbols = remat_graph_copy(scratch, s->request->graph, 1);
    REMAT_TRY(remat_graph_set_symbols(s->request->ctx, s->request->asked->model,
                                      divisions->bindings, symbols));
    const struct remat_symbol *batch = remat_graph_symbol(symbols, "batch");
    divisions->batch = batch ? batch->value : 0;
    divisions->work = remat_asked_work(symbols, &divisions->unit);
    if (!divisions->unit) {
        divisions->unit = "steps";
        divisions->work = 1;
    }
    divisions->meshes = remat_asks(s->request->asked, "ranks");
    divisions->ranks = (uint32_t)remat_asked_integer(s->request->asked, "ranks",
                                                     remat_mesh_ranks(&s->request->settings.mesh));
fail:
    remat_scratch_close(scratch);
    return st;
}

/* Unless mesh and microbatches are given, so that the rest alone was chosen. */
static remat_status record_choice(const struct division_search *s,
                                  struct remat_compile_settings *settings)
{
    const struct remat_asked *asked = s->request->asked;
    bool microbatches = remat_asks(asked, "microbatches") && !remat_division_is_auto(asked);
    if (microbatches && remat_asks(asked, "mesh"))
        return REMAT_OK;
    settings->chosen_by = "--microbatches auto";
    if (remat_asks(asked, "ranks"))
        settings->chosen_by = remat_arena_format(s->request->arena, "--ranks %s",
                                                 remat_asked_text(asked, "ranks", ""));
    return settings->chosen_by ? REMAT_OK : REMAT_ERROR_MEMORY;
}

remat_status remat_divisions_choose(struct remat_request *r, struct remat_divisions *divisions,
                                    struct remat_asked *out)
{
    remat_status st = REMAT_OK;
    struct remat_division_list list = {0};
    struct division_search s = {.request = r, .divisions = divisions};
    const struct remat_asked *asked = r->asked;
    *divisions = (struct remat_divisions){.asked = asked,
                                          .bindings = remat_division_bindings(r->arena, asked)};
    REMAT_TRY(divisions->bindings ? REMAT_OK : REMAT_ERROR_MEMORY);
    REMAT_TRY(remat_division_check_options(r->ctx, asked, &r->settings));
    if (!remat_division_asked(asked))
        return remat_division_arguments(r->arena, divisions, NULL, out);
    REMAT_TRY(describe(&s));
    REMAT_TRY(remat_division_enumerate(&s, &list));
    divisions->items = list.items;
    divisions->count = (uint32_t)list.count;
    st = choose(&s);
    remat_request_look(r, (struct remat_attempt){0});
    REMAT_TRY(st);
    const struct remat_division_trial *best = divisions->items;
    r->settings.mesh = best->mesh;
    r->settings.passes.sequence_parallel = best->sequence_parallel;
    r->settings.passes.zero = best->zero;
    r->settings.passes.microbatches = best->microbatches;
    REMAT_TRY(record_choice(&s, &r->settings));
    st = remat_division_arguments(r->arena, divisions, best, out);
fail:
    return st;
}
