/* SPDX-License-Identifier: Apache-2.0 */
/* All divisions that the options leave open are enumerated and bounded, which is cheaper than
 * planning them: a lower bound of the step's time, and a floor of the memory. Then they are planned
 * by their bounds, until the next bound is above the slowest of the best. One is planned as soon as
 * a whole mesh is bounded, so that a search which is ended has something. Where nothing fits, those
 * of the lowest floors are planned for the smallest budget, until the next floor is above it. */
#include "division_search.h"

#include "graph_file.h"
#include "model.h"
#include "options.h"
#include "progress.h"
#include "tool.h"

#include <stdlib.h>

/* The first that may fit is planned when its whole mesh is bounded, or the search ended. */
static remat_status bound_all(struct division_search *s)
{
    remat_status st = REMAT_OK;
    struct divisions *divisions = s->divisions;
    for (uint32_t i = 0, count = divisions->count; i < count && !divisions->cut_short; i++) {
        REMAT_TRY(division_find_bound(s, &divisions->items[i]));
        bool over = cli_watch_over(&s->progress->watch);
        bool last = i + 1 == count || remat_mesh_size(&divisions->items[i].mesh, "tp") !=
                                          remat_mesh_size(&divisions->items[i + 1].mesh, "tp");
        uint32_t open = divisions_find_open(divisions);
        divisions->cut_short = over && divisions_planned(divisions);
        if (open < count && (over || last) && !divisions_planned(divisions))
            REMAT_TRY(division_plan(s, &divisions->items[open]));
    }
fail:
    return st;
}

static remat_status plan_open(struct division_search *s)
{
    remat_status st = REMAT_OK;
    struct divisions *divisions = s->divisions;
    for (uint32_t open;
         !divisions->cut_short && (open = divisions_find_open(divisions)) < divisions->count;) {
        struct division *d = &divisions->items[open];
        if (d->bound.step_ns > divisions_time_to_beat(divisions))
            d->outcome = DIVISION_SLOWER;
        else
            REMAT_TRY(division_plan(s, d));
    }
fail:
    return st;
}

/* The one with the lowest floor of which no refusal is known, unless that is no lower than the
 * smallest budget found; NULL: there is none. */
static struct division *find_smaller(const struct division_search *s, const bool *refused)
{
    struct division *least = NULL;
    for (uint32_t i = 0; i < s->divisions->count; i++) {
        struct division *d = &s->divisions->items[i];
        uint64_t floor_bytes = d->bound.floor_bytes;
        if (d->outcome == DIVISION_TOO_LARGE && !refused[i] &&
            (!s->smallest_bytes || floor_bytes < s->smallest_bytes) &&
            (!least || floor_bytes < least->bound.floor_bytes))
            least = d;
    }
    return least;
}

/* None is possible: the first one's reason is the message, all of them stand after it. */
static remat_status refuse_all(const struct division_search *s)
{
    const struct divisions *divisions = s->divisions;
    const struct division *first = divisions->items;
    struct remat_text lines = {.arena = s->arena};
    uint32_t count = 0;
    for (uint32_t i = 0; i < divisions->count; i++)
        count += divisions_has_new_reason(divisions, i);
    for (uint32_t i = 0; i < divisions->count && count > 1; i++)
        if (divisions_has_new_reason(divisions, i))
            remat_text_append(&lines, "  not possible: %s: %s\n",
                              division_options(&divisions->items[i]).text,
                              divisions_reason(divisions, i));
    if (lines.failed)
        return remat_error(s->ctx, REMAT_ERROR_MEMORY, "out of memory");
    cli_explain(lines.items ? lines.items : "");
    return remat_error(s->ctx, first->refusal, "%s", first->why);
}

/* Nothing fits: what needs least? */
static remat_status refuse(struct division_search *s)
{
    remat_status st = REMAT_OK;
    struct divisions *divisions = s->divisions;
    struct division *d;
    bool *refused;
    REMAT_TRY_NEW(s->arena, refused, divisions->count);
    while (!divisions->cut_short && (d = find_smaller(s, refused))) {
        refused[d - divisions->items] = true;
        REMAT_TRY(division_plan(s, d));
        if (d->outcome == DIVISION_PLANNED)
            return REMAT_OK; /* in time */
    }
    if (s->smallest)
        return remat_error(s->ctx, REMAT_ERROR_INFEASIBLE,
                           "no division fits; the smallest%s, %s: %s",
                           divisions->cut_short ? " that there was time for" : "",
                           division_options(s->smallest).text, s->refusal);
    if (divisions->cut_short)
        return remat_error(s->ctx, REMAT_ERROR_CUT_SHORT,
                           "the search was ended before it found a division that fits");
    return refuse_all(s);
fail:
    return st;
}

static int compare(const void *a, const void *b)
{
    const struct division *x = a, *y = b;
    bool first = x->outcome == DIVISION_PLANNED, second = y->outcome == DIVISION_PLANNED;
    if (first != second)
        return first ? -1 : 1;
    if (first && x->step_ns != y->step_ns)
        return x->step_ns < y->step_ns ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static remat_status choose(struct division_search *s)
{
    remat_status st = REMAT_OK;
    struct divisions *divisions = s->divisions;
    REMAT_TRY(bound_all(s));
    REMAT_TRY(plan_open(s));
    if (!divisions_planned(divisions))
        REMAT_TRY(refuse(s));
    qsort(divisions->items, divisions->count, sizeof *divisions->items, compare);
    for (uint32_t i = 0; i < divisions->count; i++)
        divisions->counts[divisions->items[i].outcome]++;
    for (uint32_t i = 0; i < DIVISIONS_BEST && i < divisions->counts[DIVISION_PLANNED]; i++)
        REMAT_TRY(division_describe(s->arena, divisions, &divisions->items[i]));
fail:
    return st;
}

/* What is given of the whole step. */
static remat_status describe(struct division_search *s)
{
    remat_status st = REMAT_OK;
    struct divisions *divisions = s->divisions;
    struct remat_arena *scratch = remat_scratch_open(s->ctx);
    struct remat_graph *symbols = remat_graph_copy(scratch, s->parsed, 1);
    REMAT_TRY(remat_graph_set_symbols(s->ctx, s->args->operands[0], divisions->bindings, symbols));
    const struct remat_symbol *batch = remat_graph_symbol(symbols, "batch");
    divisions->batch = batch ? batch->value : 0;
    divisions->work = model_work(symbols, &divisions->unit);
    if (!divisions->unit) {
        divisions->unit = "steps";
        divisions->work = 1;
    }
    divisions->meshes = cli_has(s->args, OPTION_ranks);
    divisions->ranks =
        (uint32_t)cli_integer(s->args, OPTION_ranks, remat_mesh_ranks(&s->settings->mesh));
fail:
    remat_scratch_close(scratch);
    return st;
}

/* Unless mesh and microbatches are given, so that the rest alone was chosen. */
static remat_status record_choice(const struct division_search *s,
                                  struct remat_compile_settings *settings)
{
    const struct cli_arguments *args = s->args;
    bool microbatches = cli_has(args, OPTION_microbatches) && !division_is_auto(args);
    if (microbatches && cli_has(args, OPTION_mesh))
        return REMAT_OK;
    settings->chosen_by = "--microbatches auto";
    if (cli_has(args, OPTION_ranks))
        settings->chosen_by =
            remat_arena_format(s->arena, "--ranks %s", cli_text(args, OPTION_ranks, ""));
    return settings->chosen_by ? REMAT_OK : REMAT_ERROR_MEMORY;
}

remat_status divisions_choose(remat_context *ctx, struct remat_arena *arena,
                              const struct cli_arguments *args, const struct remat_graph *parsed,
                              struct remat_compile_settings *settings, struct progress *progress,
                              struct divisions *divisions, struct cli_arguments *out)
{
    remat_status st = REMAT_OK;
    struct division_list list = {0};
    struct division_search s = {.ctx = ctx,
                                .arena = arena,
                                .args = args,
                                .parsed = parsed,
                                .settings = settings,
                                .progress = progress,
                                .divisions = divisions};
    *divisions = (struct divisions){.args = args, .bindings = division_bindings(arena, args)};
    REMAT_TRY(divisions->bindings ? REMAT_OK : REMAT_ERROR_MEMORY);
    REMAT_TRY(division_check_options(ctx, args, settings));
    if (!division_asked(args))
        return division_arguments(arena, divisions, NULL, out);
    REMAT_TRY(describe(&s));
    REMAT_TRY(division_enumerate(&s, &list));
    divisions->items = list.items;
    divisions->count = (uint32_t)list.count;
    st = choose(&s);
    progress_look_at_division(progress, NULL, NULL);
    REMAT_TRY(st);
    const struct division *best = divisions->items;
    settings->mesh = best->mesh;
    settings->passes.sequence_parallel = best->sequence_parallel;
    settings->passes.zero = best->zero;
    settings->passes.microbatches = best->microbatches;
    REMAT_TRY(record_choice(&s, settings));
    st = division_arguments(arena, divisions, best, out);
fail:
    return st;
}
