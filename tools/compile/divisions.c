/* SPDX-License-Identifier: Apache-2.0 */
/* All divisions that the options leave open are enumerated and bounded, which is cheaper than
 * planning them: a lower bound of the step's time, and a floor of the memory. Then they are planned
 * by their bounds, until the next bound is above the slowest of the best. One is planned as soon as
 * a whole mesh is bounded, so that a search which is ended has something. Where nothing fits, those
 * of the lowest floors are planned for the smallest budget, until the next floor is above it. */
#include "divisions.h"

#include "amounts.h"
#include "division.h"
#include "graph_file.h"
#include "mesh.h"
#include "model.h"
#include "options.h"
#include "progress.h"
#include "settings.h"
#include "tool.h"

#include <inttypes.h>
#include <stdlib.h>

struct division_search {
    remat_context *ctx;
    struct remat_arena *arena; /* of what is kept */
    const struct cli_arguments *args;
    const struct remat_graph *parsed;
    const struct remat_compile_settings *settings;
    struct progress *progress;
    struct divisions *divisions;
    uint64_t smallest_bytes;         /* of the budgets that refusals name; 0: there is none */
    const struct division *smallest; /* its division, */
    const char *refusal;             /* with its message */
    uint64_t refused_bytes;          /* by the attempt under way */
};

/* --- options --- */

/* "batch=64,seq=1024": the global batch comes first. */
static const char *join_bindings(struct remat_arena *arena, const struct cli_arguments *args)
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

static remat_status check_options(remat_context *ctx, const struct cli_arguments *args,
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

struct division_list REMAT_LIST(struct division);

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

static remat_status enumerate(const struct division_search *s, struct division_list *out)
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

/* --- one of them --- */

/* A proof that one division does not fit is none for others. */
static void keep_refused(void *user, const struct remat_refusal *refusal)
{
    struct division_search *s = user;
    if (!refusal->smallest)
        return;
    s->refused_bytes = refusal->smallest_bytes;
    if (s->settings->search.refused)
        s->settings->search.refused(s->settings->search.refused_user, refusal);
}

static remat_status start(struct division_search *s, struct remat_arena *scratch,
                          struct division *d, struct remat_compile_settings *settings,
                          struct remat_graph **graph)
{
    *settings = settings_of_trial(s->settings);
    settings->mesh = d->mesh;
    settings->passes.sequence_parallel = d->sequence_parallel;
    settings->passes.zero = d->zero;
    settings->passes.microbatches = d->microbatches;
    settings->search.refused = keep_refused;
    settings->search.refused_user = s;
    s->refused_bytes = 0;
    progress_look_at_division(s->progress, s->divisions, d);
    return model_bind(s->ctx, scratch, s->args->operands[0], s->parsed, s->divisions->bindings,
                      settings, graph);
}

/* What an attempt has come to; other errors go on. */
static remat_status conclude(struct division_search *s, struct division *d, remat_status st)
{
    const char *message = remat_context_message(s->ctx);
    if (st == REMAT_ERROR_INFEASIBLE) {
        d->outcome = DIVISION_TOO_LARGE;
        if (s->refused_bytes && (!s->smallest_bytes || s->refused_bytes < s->smallest_bytes)) {
            s->smallest_bytes = s->refused_bytes;
            s->smallest = d;
            s->refusal = remat_arena_format(s->arena, "%s", message);
        }
        return s->smallest && !s->refusal ? REMAT_ERROR_MEMORY : REMAT_OK;
    }
    if (st != REMAT_ERROR_INVALID && st != REMAT_ERROR_USAGE)
        return st;
    d->outcome = DIVISION_IMPOSSIBLE;
    d->refusal = st;
    d->why = remat_arena_format(s->arena, "%s", message);
    return d->why ? REMAT_OK : REMAT_ERROR_MEMORY;
}

/* With gradients in pieces as small as are tried. No piece has any part in persistent memory. */
static remat_status bound_in_pieces(struct division_search *s, struct remat_arena *scratch,
                                    const struct remat_graph *graph,
                                    struct remat_compile_settings *settings, struct division *d)
{
    remat_status st = REMAT_OK;
    struct remat_bound bound;
    d->in_pieces = settings_may_cut_gradients(s->args, s->parsed, settings);
    if (d->in_pieces && d->bound.static_bytes > settings->search.budget_bytes)
        d->bound.floor_bytes = d->bound.static_bytes;
    if (!d->in_pieces || d->bound.static_bytes > settings->search.budget_bytes)
        return REMAT_OK;
    settings->passes.exchange_bytes = SETTINGS_SMALLEST_PIECE_BYTES;
    REMAT_TRY(remat_compile_bound(s->ctx, scratch, graph, settings, &d->bound));
    while (d->bound.step_ns && (settings->passes.exchange_bytes *= 4) < REMAT_EXCHANGE_BYTES) {
        REMAT_TRY(remat_compile_bound(s->ctx, scratch, graph, settings, &bound));
        if (bound.step_ns && bound.step_ns < d->bound.step_ns)
            d->bound.step_ns = bound.step_ns;
    }
fail:
    return st;
}

/* Whether what is persistent with `a` is so with `b`: sequence parallelism changes nothing of it,
 * and several microbatches add an accumulator of each gradient. */
static bool keeps_no_more(const struct division *a, const struct division *b)
{
    return a->zero == b->zero && (a->microbatches == 1 || b->microbatches > 1) &&
           remat_mesh_size(&a->mesh, "tp") == remat_mesh_size(&b->mesh, "tp");
}

/* Too large by what is persistent with a division before it. */
static bool is_hopeless(const struct division_search *s, struct division *d)
{
    for (const struct division *a = s->divisions->items; a < d; a++)
        if (a->outcome == DIVISION_TOO_LARGE &&
            a->bound.static_bytes > s->settings->search.budget_bytes && keeps_no_more(a, d)) {
            d->bound = (struct remat_bound){.floor_bytes = a->bound.static_bytes,
                                            .static_bytes = a->bound.static_bytes};
            d->in_pieces = a->in_pieces;
            d->outcome = DIVISION_TOO_LARGE;
            return true;
        }
    return false;
}

static remat_status find_bound(struct division_search *s, struct division *d)
{
    remat_status st = REMAT_OK;
    struct remat_arena *scratch = remat_scratch_open(s->ctx);
    struct remat_compile_settings settings;
    struct remat_graph *graph;
    if (is_hopeless(s, d))
        goto fail;
    st = start(s, scratch, d, &settings, &graph);
    if (st == REMAT_OK)
        st = remat_compile_bound(s->ctx, scratch, graph, &settings, &d->bound);
    if (st == REMAT_OK && !d->bound.step_ns)
        st = bound_in_pieces(s, scratch, graph, &settings, d);
    if (st == REMAT_OK && !d->bound.step_ns)
        d->outcome = DIVISION_TOO_LARGE;
    st = conclude(s, d, st);
fail:
    remat_scratch_close(scratch);
    return st;
}

static const char *copy(const struct division_search *s, const char *text)
{
    return remat_arena_format(s->arena, "%s", text);
}

static remat_status keep_plan(const struct division_search *s, struct division *d,
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
    d->outcome = DIVISION_PLANNED;
    return kept ? REMAT_OK : REMAT_ERROR_MEMORY;
}

static bool is_planned(const struct divisions *divisions)
{
    bool planned = false;
    for (uint32_t i = 0; i < divisions->count; i++)
        planned |= divisions->items[i].outcome == DIVISION_PLANNED;
    return planned;
}

/* As the whole command would: with the largest pieces that fit. */
static remat_status compile_in_pieces(struct division_search *s, struct remat_arena *scratch,
                                      const struct remat_graph *graph,
                                      struct remat_compile_settings *settings,
                                      struct remat_program **out)
{
    remat_status st;
    struct remat_program *larger;
    settings->passes.exchange_bytes = SETTINGS_SMALLEST_PIECE_BYTES;
    settings->search.briefly = false;
    st = remat_compile(s->ctx, scratch, graph, settings, out);
    settings->search.briefly = true;
    settings->passes.exchange_bytes = REMAT_EXCHANGE_BYTES / 4;
    while (st == REMAT_OK && settings->passes.exchange_bytes > SETTINGS_SMALLEST_PIECE_BYTES) {
        remat_status fits = remat_compile(s->ctx, scratch, graph, settings, &larger);
        if (fits == REMAT_OK)
            *out = larger;
        if (fits != REMAT_ERROR_INFEASIBLE)
            return fits;
        settings->passes.exchange_bytes /= 4;
    }
    return st;
}

/* An attempt that is cut short counts only if there is nothing else. */
static remat_status plan(struct division_search *s, struct division *d)
{
    remat_status st = REMAT_OK;
    struct remat_arena *scratch = remat_scratch_open(s->ctx);
    struct remat_compile_settings settings;
    struct remat_graph *graph;
    struct remat_program *program = NULL;
    bool planned = is_planned(s->divisions);
    st = start(s, scratch, d, &settings, &graph);
    settings.search.briefly = settings_may_cut_gradients(s->args, s->parsed, &settings);
    if (st == REMAT_OK)
        st = d->in_pieces ? REMAT_ERROR_INFEASIBLE
                          : remat_compile(s->ctx, scratch, graph, &settings, &program);
    if (st == REMAT_ERROR_INFEASIBLE && settings.search.briefly)
        st = compile_in_pieces(s, scratch, graph, &settings, &program);
    s->divisions->cut_short = cli_watch_over(&s->progress->watch);
    if (s->divisions->cut_short && planned)
        st = st == REMAT_ERROR_INFEASIBLE || st == REMAT_ERROR_CUT_SHORT ? REMAT_OK : st;
    else if (st == REMAT_OK)
        st = keep_plan(s, d, program);
    else
        st = conclude(s, d, st);
    remat_scratch_close(scratch);
    return st;
}

/* --- the search --- */

/* Of the slowest of the best; UINT64_MAX: there are not as many yet. */
static uint64_t time_to_beat(const struct divisions *divisions)
{
    uint64_t best[DIVISIONS_BEST];
    memset(best, 0xff, sizeof best);
    for (uint32_t i = 0; i < divisions->count; i++) {
        uint64_t ns = divisions->items[i].step_ns;
        for (uint32_t k = 0; divisions->items[i].outcome == DIVISION_PLANNED && k < DIVISIONS_BEST;
             k++)
            if (ns < best[k]) {
                uint64_t next = best[k];
                best[k] = ns;
                ns = next;
            }
    }
    return best[DIVISIONS_BEST - 1];
}

/* The one with the lowest bound that is only bounded; count: there is none. */
static uint32_t find_open(const struct divisions *divisions)
{
    uint32_t open = divisions->count;
    for (uint32_t i = 0; i < divisions->count; i++) {
        const struct division *d = &divisions->items[i];
        if (d->outcome == DIVISION_UNTRIED && d->bound.step_ns &&
            (open == divisions->count || d->bound.step_ns < divisions->items[open].bound.step_ns))
            open = i;
    }
    return open;
}

/* The first that may fit is planned when its whole mesh is bounded, or the search ended. */
static remat_status bound_all(struct division_search *s)
{
    remat_status st = REMAT_OK;
    struct divisions *divisions = s->divisions;
    for (uint32_t i = 0, count = divisions->count; i < count && !divisions->cut_short; i++) {
        REMAT_TRY(find_bound(s, &divisions->items[i]));
        bool over = cli_watch_over(&s->progress->watch);
        bool last = i + 1 == count || remat_mesh_size(&divisions->items[i].mesh, "tp") !=
                                          remat_mesh_size(&divisions->items[i + 1].mesh, "tp");
        uint32_t open = find_open(divisions);
        divisions->cut_short = over && is_planned(divisions);
        if (open < count && (over || last) && !is_planned(divisions))
            REMAT_TRY(plan(s, &divisions->items[open]));
    }
fail:
    return st;
}

static remat_status plan_open(struct division_search *s)
{
    remat_status st = REMAT_OK;
    struct divisions *divisions = s->divisions;
    for (uint32_t open;
         !divisions->cut_short && (open = find_open(divisions)) < divisions->count;) {
        struct division *d = &divisions->items[open];
        if (d->bound.step_ns > time_to_beat(divisions))
            d->outcome = DIVISION_SLOWER;
        else
            REMAT_TRY(plan(s, d));
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

bool divisions_has_new_reason(const struct divisions *s, uint32_t i)
{
    bool first = s->items[i].outcome == DIVISION_IMPOSSIBLE;
    for (uint32_t k = 0; first && k < i; k++)
        first = s->items[k].outcome != DIVISION_IMPOSSIBLE ||
                strcmp(s->items[k].why, s->items[i].why) != 0;
    return first;
}

const char *divisions_reason(const struct divisions *s, uint32_t i)
{
    const char *why = s->items[i].why, *model = s->args->operands[0];
    size_t length = strlen(model);
    bool named = strncmp(why, model, length) == 0 && strncmp(why + length, ": ", 2) == 0;
    return why + (named ? length + 2 : 0);
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
        REMAT_TRY(plan(s, d));
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
    if (!is_planned(divisions))
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
    REMAT_TRY(graph_file_set_symbols(s->ctx, s->args->operands[0], divisions->bindings, symbols));
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
    *divisions = (struct divisions){.args = args, .bindings = join_bindings(arena, args)};
    REMAT_TRY(divisions->bindings ? REMAT_OK : REMAT_ERROR_MEMORY);
    REMAT_TRY(check_options(ctx, args, settings));
    if (!division_asked(args))
        return division_arguments(arena, divisions, NULL, out);
    REMAT_TRY(describe(&s));
    REMAT_TRY(enumerate(&s, &list));
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
