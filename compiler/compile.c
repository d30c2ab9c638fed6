/* THE pipeline. Every policy is evaluated to its step time and live peak; whether it fits is known
 * when it has been carried through and packed. Candidates do not depend on the budget, so more
 * budget never gives a slower plan. */
#include "compile.h"

#include <inttypes.h>
#include <stdlib.h>

#include "evaluate.h"
#include "lower.h"
#include "prepare.h"
#include "rewrite.h"
#include "sensitivity.h"

struct pipeline {
    remat_context *ctx;
    struct remat_arena *arena;
    const struct remat_compile_settings *settings;
    struct remat_prepared prepared;
    const struct remat_graph *graph; /* what decisions are made on */
    struct remat_statics statics;
    /* Segments without a decision; graph NULL: there is none. */
    struct remat_arrangement update, forward;
    uint64_t fixed_arena_bytes; /* that they need */
    uint64_t reserve_bytes;
    uint64_t limit_bytes; /* budget - reserve; UINT64_MAX without a budget */
    struct remat_notes notes;
    struct remat_stopwatch watch;
    struct remat_evaluator evaluator;
};

/* A policy carried through; everything lies in the arena it was made in. */
struct candidate {
    const struct remat_policy *policy;
    struct remat_decision decision;
    struct remat_arrangement arranged;
};

/* What is kept of each policy while they are compared. */
struct rung {
    const struct remat_policy *policy;
    struct remat_evaluation cost;
    uint32_t index;
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static remat_status decide(struct pipeline *p, struct remat_arena *arena,
                           const struct remat_policy *policy,
                           const struct remat_policy_settings *pins, struct remat_notes *notes,
                           struct remat_decision *out)
{
    remat_stopwatch_start(&p->watch);
    remat_status st = remat_policy_decide(p->ctx, arena, p->graph, policy, pins, out, notes);
    remat_stopwatch_lap(&p->watch, REMAT_LAP_DECIDE);
    return st;
}

static remat_status arrange(struct pipeline *p, struct remat_arena *arena,
                            const struct remat_graph *graph, struct remat_arrangement *out)
{
    return remat_arrange(p->ctx, arena, graph, &p->statics, &p->settings->device, &p->watch, out);
}

static remat_status place(struct pipeline *p, struct remat_arena *arena,
                          struct remat_arrangement *arranged, uint64_t *out_arena_bytes)
{
    remat_stopwatch_start(&p->watch);
    remat_status st = remat_place(p->ctx, arena, &p->statics, &arranged->lifespans,
                                  p->settings->guard_bytes, out_arena_bytes);
    remat_stopwatch_lap(&p->watch, REMAT_LAP_PLACE);
    return st;
}

/* Segments that no decision is about; and where every tensor that outlives a segment lies. */
static remat_status arrange_fixed(struct pipeline *p)
{
    remat_status st = REMAT_OK;
    struct remat_arrangement *const fixed[] = {&p->update, &p->forward};
    p->graph = p->prepared.decided;
    p->update.graph = p->prepared.update;
    p->forward.graph = p->prepared.forward;
    const struct remat_graph *graphs[3] = {p->graph};
    uint32_t count = 1;
    for (size_t i = 0; i < COUNT(fixed); i++)
        if (fixed[i]->graph)
            graphs[count++] = fixed[i]->graph;
    REMAT_TRY(remat_statics_collect(p->ctx, p->arena, graphs, count, &p->statics));
    for (size_t i = 0; i < COUNT(fixed); i++) {
        uint64_t bytes = 0;
        if (!fixed[i]->graph)
            continue;
        REMAT_TRY(arrange(p, p->arena, fixed[i]->graph, fixed[i]));
        REMAT_TRY(place(p, p->arena, fixed[i], &bytes));
        if (bytes > p->fixed_arena_bytes)
            p->fixed_arena_bytes = bytes;
    }
fail:
    return st;
}

static int compare_rungs(const void *a, const void *b)
{
    const struct rung *x = a, *y = b;
    if (x->cost.step_ns != y->cost.step_ns)
        return x->cost.step_ns < y->cost.step_ns ? -1 : 1;
    if (x->cost.live_peak_bytes != y->cost.live_peak_bytes)
        return x->cost.live_peak_bytes < y->cost.live_peak_bytes ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Evaluates every policy and sorts them, the fastest first. */
static remat_status compare(struct pipeline *p, struct remat_policy *policies, uint32_t count,
                            struct rung **out)
{
    remat_status st = REMAT_OK;
    struct remat_arena scratch;
    struct rung *rungs;
    remat_arena_init(&scratch, p->ctx);
    REMAT_NEW(p->arena, rungs, count);
    for (uint32_t i = 0; i < count; i++) {
        struct remat_decision decision;
        struct remat_notes ignored = {0};
        rungs[i] = (struct rung){.policy = &policies[i], .index = i};
        REMAT_TRY(decide(p, &scratch, &policies[i], &p->settings->policy, &ignored, &decision));
        REMAT_TRY(remat_evaluate(&p->evaluator, &decision, &rungs[i].cost));
        remat_arena_reset(&scratch);
    }
    qsort(rungs, count, sizeof *rungs, compare_rungs);
    *out = rungs;
fail:
    remat_arena_release(&scratch);
    return st;
}

/* decide, clone, arrange, place. What comes out is what was evaluated. */
static remat_status carry(struct pipeline *p, const struct rung *rung, struct remat_arena *arena,
                          struct remat_notes *notes, struct candidate *out,
                          uint64_t *out_arena_bytes)
{
    remat_status st = REMAT_OK;
    struct remat_graph *graph;
    *out = (struct candidate){.policy = rung->policy};
    REMAT_TRY(decide(p, arena, rung->policy, &p->settings->policy, notes, &out->decision));
    remat_stopwatch_start(&p->watch);
    REMAT_TRY(remat_rewrite(p->ctx, arena, p->graph, &out->decision, &graph));
    remat_stopwatch_lap(&p->watch, REMAT_LAP_CLONE);
    REMAT_TRY(arrange(p, arena, graph, &out->arranged));
    if (out->arranged.step_ns != rung->cost.step_ns ||
        out->arranged.lifespans.live_peak_bytes != rung->cost.live_peak_bytes)
        REMAT_FAIL(p->ctx, REMAT_ERROR_INTERNAL,
                   "policy \"%s\": evaluated to %" PRIu64 " ns and %" PRIu64
                   " B, carried through to %" PRIu64 " ns and %" PRIu64 " B",
                   rung->policy->name, rung->cost.step_ns, rung->cost.live_peak_bytes,
                   out->arranged.step_ns, out->arranged.lifespans.live_peak_bytes);
    REMAT_TRY(place(p, arena, &out->arranged, out_arena_bytes));
    if (*out_arena_bytes < p->fixed_arena_bytes)
        *out_arena_bytes = p->fixed_arena_bytes;
fail:
    return st;
}

#define RESIDENTS_NAMED 3

struct resident { /* a buffer that lives at the peak, by what it holds there */
    uint32_t value;
    uint32_t since; /* position of the kernel that wrote the value; 0 for graph inputs */
    uint64_t bytes;
};

static int compare_residents(const void *a, const void *b)
{
    const struct resident *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->value < y->value ? -1 : x->value > y->value;
}

/* residents[buffer]: the newest value in it at the peak, bytes 0 where it does not live then. */
static remat_status find_residents(struct remat_arena *arena, const struct remat_arrangement *c,
                                   struct resident **out)
{
    remat_status st = REMAT_OK;
    const struct remat_lifespans *l = &c->lifespans;
    uint32_t *position;
    REMAT_NEW(arena, *out, l->buffer_count);
    REMAT_NEW(arena, position, c->kernels.count);
    for (uint32_t at = 0; at < c->kernels.count; at++)
        position[c->order[at]] = at;
    for (uint32_t v = 0; v < c->graph->value_count; v++) {
        if (remat_is_none(l->buffer_of[v]))
            continue;
        uint32_t node = c->graph->values[v].node;
        uint32_t since = remat_is_none(node) ? 0 : position[c->kernels.kernel_of_node[node]];
        const struct remat_placed_buffer *b = &l->buffers[l->buffer_of[v]];
        struct resident *resident = &(*out)[l->buffer_of[v]];
        if (b->begin <= l->peak_position && l->peak_position < b->end &&
            since <= l->peak_position && (!resident->bytes || since >= resident->since))
            *resident = (struct resident){v, since, b->bytes};
    }
fail:
    return st;
}

/* "\"a\" (5 B), ..." : the largest buffers that live at the peak. */
static remat_status append_residents(const struct remat_arrangement *c, struct remat_text *text)
{
    remat_status st = REMAT_OK;
    struct resident *residents;
    REMAT_TRY(find_residents(text->arena, c, &residents));
    qsort(residents, c->lifespans.buffer_count, sizeof *residents, compare_residents);
    for (uint32_t i = 0; i < c->lifespans.buffer_count && i < RESIDENTS_NAMED; i++)
        if (residents[i].bytes)
            remat_text_append(text, "%s\"%s\" (%" PRIu64 " B)", i ? ", " : "",
                              c->graph->values[residents[i].value].name, residents[i].bytes);
fail:
    return st;
}

static remat_status infeasible(struct pipeline *p, const struct remat_arrangement *c,
                               uint64_t arena_bytes)
{
    remat_status st = REMAT_OK;
    struct remat_text residents = {.arena = p->arena};
    bool given = remat_policy_given(&p->settings->policy);
    if (c->lifespans.live_peak_bytes < p->update.lifespans.live_peak_bytes)
        c = &p->update;
    const struct remat_lifespans *l = &c->lifespans;
    uint32_t k = c->order[l->peak_position];
    REMAT_TRY(append_residents(c, &residents));
    st = remat_error(
        p->ctx, REMAT_ERROR_INFEASIBLE,
        "budget %" PRIu64 " B is too small: %s needs %" PRIu64 " B = arena %" PRIu64
        " B + reserve %" PRIu64 " B (live peak %" PRIu64 " B, of it %" PRIu64
        " B static). Binding command: \"%s\" (%s). Largest residents: %s",
        p->settings->budget_bytes,
        given ? "this policy" : "the smallest feasible budget of the ladder",
        arena_bytes + p->reserve_bytes, arena_bytes, p->reserve_bytes, l->live_peak_bytes,
        p->statics.total_bytes, c->graph->values[c->kernels.kernels[k].name.i].name,
        remat_phase_name(c->kernels.kernels[k].phase), residents.items ? residents.items : "none");
fail:
    return st;
}

/* The rung with the smallest packed arena. Packing never goes below the live peak, so rungs whose
 * live peak is no better than the best arena are skipped. */
static remat_status smallest(struct pipeline *p, const struct rung *rungs, uint32_t count,
                             const struct rung **out_rung)
{
    remat_status st = REMAT_OK;
    struct remat_arena scratch;
    uint64_t best = UINT64_MAX;
    remat_arena_init(&scratch, p->ctx);
    for (uint32_t i = count; i-- > 0;) {
        struct candidate candidate;
        struct remat_notes ignored = {0};
        uint64_t arena_bytes;
        if (rungs[i].cost.live_peak_bytes >= best)
            continue;
        REMAT_TRY(carry(p, &rungs[i], &scratch, &ignored, &candidate, &arena_bytes));
        if (arena_bytes < best) {
            best = arena_bytes;
            *out_rung = &rungs[i];
        }
        remat_arena_reset(&scratch);
    }
fail:
    remat_arena_release(&scratch);
    return st;
}

/* Says whether rungs[0] stays the fastest when costs are off; of the slower ones those count whose
 * live peak fits. */
static remat_status note_sensitivity(struct pipeline *p, const struct rung *rungs, uint32_t count)
{
    remat_status st = REMAT_OK;
    struct remat_class_times *times;
    const char **names, *note;
    uint32_t fit = 0;
    REMAT_NEW(p->arena, times, count);
    REMAT_NEW(p->arena, names, count);
    for (uint32_t i = 0; i < count; i++)
        if (rungs[i].cost.live_peak_bytes <= p->limit_bytes) {
            times[fit] = rungs[i].cost.times;
            names[fit++] = rungs[i].policy->name;
        }
    if (fit < 2)
        return REMAT_OK;
    struct remat_sensitivity s = remat_sensitivity_of(times, fit, 0);
    note = remat_arena_format(p->arena,
                              "with costs of matmul, attention or the rest 20 %% off this is the "
                              "fastest of %u policies that "
                              "fit in %u of %u cases",
                              fit, s.held, REMAT_SENSITIVITY_CASES);
    if (note && s.worst != 0)
        note = remat_arena_format(p->arena, "%s; at worst \"%s\" is faster by %.2f %%", note,
                                  names[s.worst], 100 * s.lost);
    if (!note)
        return REMAT_ERROR_MEMORY;
    REMAT_PUSH(p->arena, &p->notes, note);
fail:
    return st;
}

/* The fastest rung whose packed arena fits. */
static remat_status choose(struct pipeline *p, struct remat_policy *policies, uint32_t count,
                           struct candidate *out, uint64_t *out_arena_bytes)
{
    remat_status st = REMAT_OK;
    const struct rung *rung = NULL;
    struct rung *rungs;
    REMAT_TRY(compare(p, policies, count, &rungs));
    for (uint32_t i = 0; i < count; i++) {
        if (rungs[i].cost.live_peak_bytes > p->limit_bytes)
            continue;
        p->notes.count = 0;
        REMAT_TRY(carry(p, &rungs[i], p->arena, &p->notes, out, out_arena_bytes));
        if (*out_arena_bytes <= p->limit_bytes)
            return note_sensitivity(p, &rungs[i], count - i);
    }
    REMAT_TRY(smallest(p, rungs, count, &rung));
    REMAT_TRY(carry(p, rung, p->arena, &p->notes, out, out_arena_bytes));
    st = infeasible(p, &out->arranged, *out_arena_bytes);
fail:
    return st;
}

/* Step time with everything saved. */
static remat_status base_time(struct pipeline *p, uint64_t *out_ns)
{
    remat_status st = REMAT_OK;
    const struct remat_policy none = {.name = "none", .granularity = REMAT_POLICY_NONE};
    struct remat_arena scratch;
    struct remat_decision decision;
    struct remat_evaluation cost;
    const struct remat_policy_settings no_pins = {0};
    struct remat_notes ignored = {0};
    remat_arena_init(&scratch, p->ctx);
    REMAT_TRY(decide(p, &scratch, &none, &no_pins, &ignored, &decision));
    REMAT_TRY(remat_evaluate(&p->evaluator, &decision, &cost));
    *out_ns = cost.step_ns * remat_microbatches(p->settings) + p->update.step_ns;
fail:
    remat_arena_release(&scratch);
    return st;
}

/* The bits depend on the graph before any decision and on the rules of docs/numerics.md. */
#define NUMERICS_VERSION "1: rows 64 lanes, columns 256, gemm k 384, attention q 64 kv 4096"

static remat_status describe(struct pipeline *p, const struct remat_graph *input,
                             const struct candidate *c, uint64_t arena_bytes,
                             struct remat_program *out)
{
    remat_status st = REMAT_OK;
    const struct remat_compile_settings *s = p->settings;
    struct remat_setting *settings;
    out->producer = "remat " REMAT_VERSION;
    out->graph_name = input->name;
    out->target = s->device.name;
    out->policy = c->policy->name;
    out->graph_hash = remat_graph_hash(input);
    out->numerics_hash = remat_hash_string(NUMERICS_VERSION, p->prepared.numerics_hash);
    out->budget_bytes = s->has_budget ? s->budget_bytes : 0;
    out->reserve_bytes = p->reserve_bytes;
    out->arena_bytes = remat_align_up(arena_bytes, REMAT_ALIGNMENT);
    REMAT_NEW(p->arena, settings, s->setting_count);
    if (s->setting_count)
        memcpy(settings, s->settings, s->setting_count * sizeof *settings);
    out->settings = settings;
    out->setting_count = s->setting_count;
    out->notes = p->notes.items;
    out->note_count = (uint32_t)p->notes.count;
    REMAT_TRY(base_time(p, &out->base_step_ns));
fail:
    return st;
}

static void set_limit(struct pipeline *p)
{
    const struct remat_compile_settings *s = p->settings;
    p->reserve_bytes = s->has_reserve ? s->reserve_bytes : s->device.reserve_bytes;
    p->limit_bytes = UINT64_MAX;
    if (s->has_budget)
        p->limit_bytes =
            s->budget_bytes > p->reserve_bytes ? s->budget_bytes - p->reserve_bytes : 0;
}

/* The policies to choose from: the one that was given, or the ladder when there is only a budget.
 */
static remat_status candidates(struct pipeline *p, struct remat_policy **out, uint32_t *out_count)
{
    const struct remat_policy_settings *given = &p->settings->policy;
    if (p->settings->has_budget && !remat_policy_given(given))
        return remat_policy_ladder(p->ctx, p->arena, p->graph, out_count, out);
    *out_count = 1;
    *out = remat_arena_array(p->arena, 1, sizeof **out);
    return *out ? remat_policy_resolve(p->ctx, p->arena, p->graph, given, *out)
                : REMAT_ERROR_MEMORY;
}

static struct remat_part part_of(const struct remat_arrangement *c, const char *name,
                                 const char *entry, uint64_t times)
{
    return (struct remat_part){name,        entry,    (uint32_t)times, c->graph,
                               &c->kernels, c->order, c->prices,       &c->lifespans};
}

/* The segments of the plan: a step, whole or as microbatches and their update, and an evaluation.
 */
static remat_status lower(struct pipeline *p, const struct candidate *decided,
                          struct remat_program *out)
{
    struct remat_part parts[3];
    uint32_t count = 0;
    uint64_t times = remat_microbatches(p->settings);
    if (!p->prepared.trains)
        parts[count++] = part_of(&decided->arranged, "forward", "eval", times);
    else
        parts[count++] =
            part_of(&decided->arranged, times > 1 ? "microbatch" : "step", "train", times);
    if (p->update.graph)
        parts[count++] = part_of(&p->update, "update", "train", 1);
    if (p->forward.graph)
        parts[count++] = part_of(&p->forward, "forward", "eval", times);
    struct remat_lowering lowering = {
        .part_count = count,
        .parts = parts,
        .statics = &p->statics,
        .decided = p->graph,
        .decision = &decided->decision,
    };
    remat_stopwatch_start(&p->watch);
    remat_status st = remat_lower(p->ctx, p->arena, &lowering, out);
    remat_stopwatch_lap(&p->watch, REMAT_LAP_LOWER);
    return st;
}

static void report_laps(const struct pipeline *p)
{
    for (int lap = 0; lap < REMAT_LAP_COUNT && p->settings->pass_time; lap++)
        p->settings->pass_time(p->settings->pass_time_user, remat_lap_name(lap), p->watch.ns[lap],
                               p->watch.runs[lap]);
}

remat_status remat_compile(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_graph *graph,
                           const struct remat_compile_settings *settings,
                           struct remat_program **out)
{
    remat_status st = REMAT_OK;
    struct pipeline p = {.ctx = ctx, .arena = arena, .settings = settings};
    struct remat_policy *policies;
    struct candidate best;
    uint32_t count;
    uint64_t arena_bytes;

    p.watch.running = settings->pass_time != NULL;
    REMAT_TRY(remat_price_check(ctx, graph, &settings->device));
    REMAT_TRY(remat_prepare(ctx, arena, graph, settings, &p.prepared));
    REMAT_TRY(arrange_fixed(&p));
    REMAT_TRY(candidates(&p, &policies, &count));
    set_limit(&p);
    REMAT_TRY(remat_evaluator_init(&p.evaluator, ctx, arena, p.graph, &p.statics, &settings->device,
                                   &p.watch));
    REMAT_TRY(choose(&p, policies, count, &best, &arena_bytes));
    if (settings->after_pass)
        settings->after_pass(settings->after_pass_user, "rewrite", best.arranged.graph);
    REMAT_TRY(remat_graph_verify(ctx, best.arranged.graph));

    REMAT_NEW(arena, *out, 1);
    REMAT_TRY(lower(&p, &best, *out));
    REMAT_TRY(describe(&p, graph, &best, arena_bytes, *out));
    REMAT_TRY(remat_program_verify(ctx, *out));
    REMAT_TRY(remat_program_simulate(ctx, *out));
    report_laps(&p);
fail:
    remat_evaluator_release(&p.evaluator);
    return st;
}
