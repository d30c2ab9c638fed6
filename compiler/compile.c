/* SPDX-License-Identifier: Apache-2.0 */
/* THE pipeline: passes, then the decision (search/), which comes back carried through to a
 * schedule and packed, then lowering. */
#include "compile.h"

#include <inttypes.h>

#include "amounts.h"
#include "codegen.h"
#include "explain.h"
#include "front.h"
#include "lower.h"
#include "prepare.h"

struct pipeline {
    remat_context *ctx;
    struct remat_arena *arena;
    struct remat_arena *planning; /* of what is not needed once there is a decision */
    const struct remat_compile_settings *settings;
    const struct remat_graph *input;
    struct remat_program **program; /* the results: one of these three */
    uint64_t *bound_ns;
    struct remat_frontier *frontier;
    const struct remat_program *compared; /* to be a point of the frontier, or NULL */
    struct remat_prepared prepared;
    const struct remat_graph *graph; /* what decisions are made on */
    struct remat_statics statics;
    /* Segments without a decision; graph NULL: there is none. */
    struct remat_arrangement update, forward;
    uint64_t fixed_arena_bytes, fixed_live_bytes; /* that they need */
    uint64_t reserve_bytes;
    uint64_t limit_bytes; /* budget - reserve; UINT64_MAX without a budget */
    struct remat_stopwatch watch;
    struct remat_evaluator evaluator;
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

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

/* Of a device that has one: no less than the deltas of attention and two lists of sorted tokens
 * need, before any decision. */
static uint64_t workspace_bytes(const struct pipeline *p)
{
    const struct remat_graph *graph = p->graph;
    uint64_t bytes = p->settings->device.workspace_bytes;
    for (uint32_t n = 0; bytes && n < graph->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[n];
        uint64_t needed = 0;
        if (node->op == REMAT_OP_attention_backward)
            needed = remat_value_bytes(&graph->values[node->inputs[5].i]); /* as lse */
        if (node->op == REMAT_OP_embedding_backward || node->op == REMAT_OP_embedding_accumulate) {
            remat_value ids = node->inputs[node->input_count - 1];
            needed =
                2 * remat_align_up(2 * remat_value_bytes(&graph->values[ids.i]), REMAT_ALIGNMENT);
        }
        bytes = needed > bytes ? needed : bytes;
    }
    return bytes;
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
    for (uint32_t i = 0; i < count; i++)
        REMAT_TRY(remat_price_check_values(p->ctx, graphs[i]));
    REMAT_TRY(
        remat_statics_collect(p->ctx, p->arena, graphs, count, workspace_bytes(p), &p->statics));
    for (size_t i = 0; i < COUNT(fixed); i++) {
        uint64_t bytes = 0;
        if (!fixed[i]->graph)
            continue;
        REMAT_TRY(arrange(p, p->arena, fixed[i]->graph, fixed[i]));
        REMAT_TRY(place(p, p->arena, fixed[i], &bytes));
        if (bytes > p->fixed_arena_bytes)
            p->fixed_arena_bytes = bytes;
        if (fixed[i]->lifespans.live_peak_bytes > p->fixed_live_bytes)
            p->fixed_live_bytes = fixed[i]->lifespans.live_peak_bytes;
    }
fail:
    return st;
}

/* The bits depend on the graph before any decision and on the rules of docs/numerics.md. */
#define NUMERICS_VERSION                                                                           \
    "2: rows 64 lanes, columns 256 of 1048576 sums, gemm k 384, attention q 64 kv 4096"

static bool has_pins(const struct remat_decision *decision)
{
    for (uint32_t v = 0; v < decision->value_count; v++)
        if (decision->reasons[v] && strncmp(decision->reasons[v], "pin ", 4) == 0)
            return true;
    return false;
}

/* The manual policy next to the plan, where Megatron has flags for it; it has none for pins. */
static void describe_manual(struct pipeline *p, const struct remat_chosen *c,
                            struct remat_program *out)
{
    const char *flags = !c->manual || has_pins(&c->decision)
                            ? NULL
                            : remat_policy_megatron_flags(p->arena, c->manual);
    out->manual_policy = flags ? c->manual->name : "";
    out->manual_flags = flags ? flags : "";
    if (flags)
        out->manual_step_ns = c->manual_ns * remat_microbatches(p->settings) + p->update.step_ns;
}

/* Text for CUDA, whatever the target: a plan can be executed elsewhere. Where the text cannot
 * express a command, a note says so, and no GPU can run the plan, or it is an error. */
static remat_status emit(struct pipeline *p, struct remat_search *search, struct remat_program *out)
{
    remat_status st = REMAT_OK;
    struct remat_cuda_settings settings = REMAT_CUDA_DEFAULTS;
    settings.workspace_bytes = out->workspace_bytes;
    remat_stopwatch_start(&p->watch);
    st = remat_cuda_emit(p->ctx, p->arena, out, &settings, &out->cuda);
    remat_stopwatch_lap(&p->watch, REMAT_LAP_EMIT);
    if (st != REMAT_ERROR_INVALID)
        return st;
    out->cuda = (struct remat_cuda_code){0};
    const char *note = REMAT_FORMAT(p->arena, REMAT_CUDA_NOTE "%s", remat_context_message(p->ctx));
    if (p->settings->needs_cuda)
        return remat_error(
            p->ctx, REMAT_ERROR_INVALID,
            "%s: without --arch and --emit-cuda there is a plan, which no GPU can run", note);
    st = REMAT_OK;
    REMAT_PUSH(p->arena, &search->notes, note);
    return st;
}

static remat_status describe(struct pipeline *p, struct remat_search *search,
                             const struct remat_chosen *c, struct remat_program *out)
{
    remat_status st = REMAT_OK;
    const struct remat_compile_settings *s = p->settings;
    uint32_t microbatches = remat_microbatches(s);
    struct remat_setting *settings;
    out->producer = "remat " REMAT_VERSION;
    out->graph_name = p->input->name;
    out->target = s->device.name;
    out->policy = c->name;
    out->graph_hash = remat_graph_hash(p->input);
    out->numerics_hash = remat_hash_string(NUMERICS_VERSION, p->prepared.numerics_hash);
    out->budget_bytes = s->has_budget ? s->budget_bytes : 0;
    out->reserve_bytes = p->reserve_bytes;
    out->arena_bytes = remat_align_up(c->arena_bytes, REMAT_ALIGNMENT);
    REMAT_NEW(p->arena, settings, s->setting_count);
    if (s->setting_count)
        memcpy(settings, s->settings, s->setting_count * sizeof *settings);
    out->settings = settings;
    out->setting_count = s->setting_count;
    out->base_step_ns = p->evaluator.base_ns * microbatches + p->update.step_ns;
    if (c->bound_ns)
        out->bound_step_ns = c->bound_ns * microbatches + p->update.step_ns;
    out->floor_slack_ns = c->floor_slack_ns * microbatches;
    out->floor_bytes = c->floor_bytes;
    if (out->workspace_bytes) /* GEMMs are chosen within it */
        out->numerics_hash =
            remat_hash(&out->workspace_bytes, sizeof out->workspace_bytes, out->numerics_hash);
    describe_manual(p, c, out);
    REMAT_TRY(emit(p, search, out));
    out->notes = search->notes.items;
    out->note_count = (uint32_t)search->notes.count;
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

static struct remat_part part_of(const struct remat_arrangement *c, const char *name,
                                 const char *entry, uint64_t times)
{
    return (struct remat_part){name,        entry,    (uint32_t)times, c->graph,
                               &c->kernels, c->order, c->prices,       &c->lifespans};
}

/* The segments of the plan: a step, whole or as microbatches and their update, and an evaluation.
 */
static void lower(struct pipeline *p, const struct remat_chosen *decided,
                  const struct remat_explanation *explanation, struct remat_program *out)
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
        .alternatives = explanation->alternatives,
    };
    remat_stopwatch_start(&p->watch);
    remat_lower(p->ctx, p->arena, &lowering, out);
    remat_stopwatch_lap(&p->watch, REMAT_LAP_LOWER);
}

static void report_laps(const struct pipeline *p)
{
    for (int lap = 0; lap < REMAT_LAP_COUNT && p->settings->pass_time; lap++)
        p->settings->pass_time(p->settings->pass_time_user, remat_lap_name(lap), p->watch.ns[lap],
                               p->watch.runs[lap]);
}

static void end_planning(struct pipeline *p)
{
    remat_evaluator_release(&p->evaluator);
    remat_scratch_close(p->planning);
}

static remat_status find_pinned(struct pipeline *p, struct remat_policy_ground **ground,
                                struct remat_decision **out)
{
    remat_status st = REMAT_OK;
    static const struct remat_policy none = {.name = "none", .granularity = REMAT_POLICY_NONE};
    struct remat_notes ignored = {0};
    REMAT_NEW(p->arena, *out, 1);
    REMAT_TRY(remat_policy_prepare(p->ctx, p->arena, p->graph, &p->settings->policy, ground));
    remat_policy_decide(*ground, p->arena, &none, *out, &ignored);
fail:
    return st;
}

/* Everything before the decision. */
static remat_status start(struct pipeline *p, struct remat_search *search)
{
    remat_status st = REMAT_OK;
    struct remat_policy_ground *ground;
    struct remat_decision *pinned;
    p->planning = remat_scratch_open(p->ctx);
    p->watch.running = p->settings->pass_time != NULL;
    REMAT_TRY(remat_price_check(p->ctx, p->input, &p->settings->device));
    if (p->settings->microbatches > REMAT_MICROBATCHES_MAX)
        REMAT_FAIL(p->ctx, REMAT_ERROR_USAGE, "%" PRIu32 " microbatches, the limit is %u",
                   p->settings->microbatches, REMAT_MICROBATCHES_MAX);
    REMAT_TRY(remat_prepare(p->ctx, p->arena, p->input, p->settings, &p->prepared));
    REMAT_TRY(arrange_fixed(p));
    set_limit(p);
    REMAT_TRY(find_pinned(p, &ground, &pinned));
    remat_evaluator_init(&p->evaluator, p->ctx, p->planning, p->graph, &p->statics,
                         &p->settings->device, pinned, &p->watch);
    *search = (struct remat_search){.ctx = p->ctx,
                                    .arena = p->arena,
                                    .planning = p->planning,
                                    .settings = p->settings,
                                    .graph = p->graph,
                                    .statics = &p->statics,
                                    .evaluator = &p->evaluator,
                                    .watch = &p->watch,
                                    .ground = ground,
                                    .pinned = pinned,
                                    .update = &p->update,
                                    .fixed_arena_bytes = p->fixed_arena_bytes,
                                    .fixed_live_bytes = p->fixed_live_bytes,
                                    .reserve_bytes = p->reserve_bytes,
                                    .limit_bytes = p->limit_bytes};
fail:
    return st;
}

/* --- what is asked for --- */

static remat_status make_plan(void *user)
{
    remat_status st = REMAT_OK;
    struct pipeline *p = user;
    const struct remat_compile_settings *settings = p->settings;
    struct remat_search search;
    struct remat_chosen best;
    struct remat_explanation explanation;
    struct remat_program *program;
    REMAT_TRY(start(p, &search));
    REMAT_TRY(remat_choose(&search, &best));
    if (settings->after_pass)
        settings->after_pass(settings->after_pass_user, "rewrite", best.arranged.graph);
    REMAT_TRY(remat_graph_verify(p->ctx, best.arranged.graph));

    REMAT_NEW(p->arena, program, 1);
    REMAT_TRY(remat_explain(&search, &best.decision, &explanation));
    end_planning(p);
    lower(p, &best, &explanation, program);
    program->exact_extras = explanation.exact;
    REMAT_TRY(describe(p, &search, &best, program));
    REMAT_TRY(remat_program_verify(p->ctx, program));
    st = remat_program_simulate(p->ctx, program);
    if (st == REMAT_ERROR_INVALID)
        st = REMAT_ERROR_INTERNAL; /* it is our own */
    REMAT_TRY(st);
    *p->program = program;
    report_laps(p);
fail:
    return st;
}

remat_status remat_compile(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_graph *graph,
                           const struct remat_compile_settings *settings,
                           struct remat_program **out)
{
    struct pipeline p = {
        .ctx = ctx, .arena = arena, .input = graph, .settings = settings, .program = out};
    return remat_guard(ctx, make_plan, &p);
}

static remat_status find_bound(void *user)
{
    remat_status st = REMAT_OK;
    struct pipeline *p = user;
    struct remat_search search;
    *p->bound_ns = 0;
    REMAT_TRY(start(p, &search));
    REMAT_TRY(remat_search_plan(&search));
    if (p->limit_bytes >= remat_planner_floor(search.planner))
        *p->bound_ns =
            remat_planner_bound(search.planner, p->limit_bytes) * remat_microbatches(p->settings) +
            p->update.step_ns;
    end_planning(p);
fail:
    return st;
}

remat_status remat_compile_bound(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_graph *graph,
                                 const struct remat_compile_settings *settings,
                                 uint64_t *out_step_ns)
{
    struct pipeline p = {
        .ctx = ctx, .arena = arena, .input = graph, .settings = settings, .bound_ns = out_step_ns};
    return remat_guard(ctx, find_bound, &p);
}

/* From the decided segment to the whole step. */
static void complete_frontier(const struct pipeline *p, struct remat_frontier *f)
{
    uint64_t times = remat_microbatches(p->settings);
    for (uint32_t i = 0; i < f->count; i++) {
        f->points[i].step_ns = f->points[i].step_ns * times + p->update.step_ns;
        if (f->bounded)
            f->points[i].bound_ns = f->points[i].bound_ns * times + p->update.step_ns;
    }
    f->base_ns = f->base_ns * times + p->update.step_ns;
    f->reserve_bytes = p->reserve_bytes;
}

static remat_status find_frontier(void *user)
{
    remat_status st = REMAT_OK;
    struct pipeline *p = user;
    const struct remat_program *plan = p->compared;
    struct remat_search search;
    struct remat_frontier_point point;
    REMAT_TRY(start(p, &search));
    if (plan)
        point = (struct remat_frontier_point){.policy = plan->policy,
                                              .live_peak_bytes = plan->peak_bytes,
                                              .step_ns = (plan->step_ns - p->update.step_ns) /
                                                         remat_microbatches(p->settings)};
    REMAT_TRY(remat_search_front(&search, plan ? &point : NULL, p->frontier));
    complete_frontier(p, p->frontier);
    report_laps(p);
    end_planning(p);
fail:
    return st;
}

remat_status remat_compile_frontier(remat_context *ctx, struct remat_arena *arena,
                                    const struct remat_graph *graph,
                                    const struct remat_compile_settings *settings,
                                    const struct remat_program *plan, struct remat_frontier *out)
{
    struct pipeline p = {.ctx = ctx,
                         .arena = arena,
                         .input = graph,
                         .settings = settings,
                         .compared = plan,
                         .frontier = out};
    return remat_guard(ctx, find_frontier, &p);
}
