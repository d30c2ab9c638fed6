/* SPDX-License-Identifier: Apache-2.0 */
/* THE pipeline: passes, then the choice of a decision (search/), which comes scheduled and packed,
 * then lowering. */
#include "compile.h"

#include <assert.h>
#include <inttypes.h>

#include "amounts.h"
#include "clone_round.h"
#include "codegen.h"
#include "lower.h"
#include "prepare.h"
#include "search.h"

struct pipeline {
    remat_context *ctx;
    struct remat_arena *arena; /* of the results */
    const struct remat_graph *input;
    const struct remat_compile_settings *settings;
    struct remat_program **program; /* the results: one of these four */
    struct remat_bound *bound;
    struct remat_front *front;
    struct remat_found_order *order;
    struct remat_prepared prepared;
    struct remat_persistent persistent;
    struct remat_stopwatch watch;
    struct remat_evaluator evaluator;
    struct remat_search search;
    bool refused;
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Transfers are overlapped where there is room. */
static remat_status arrange(struct pipeline *p, struct remat_step_segment *segment)
{
    struct remat_search *s = &p->search;
    struct remat_arrangement *a = &segment->arranged;
    REMAT_CHECK(remat_arrange(p->ctx, p->arena, segment->graph, &p->persistent,
                              &p->settings->device, &p->watch, !segment->overlaps, s->limit_bytes,
                              a));
    remat_stopwatch_start(&p->watch);
    uint64_t arena_bytes = remat_packed_bytes(p->ctx, &p->persistent, &a->lifespans);
    remat_stopwatch_lap(&p->watch, REMAT_LAP_PLACE);
    remat_keep_most(&s->fixed_arena_bytes, arena_bytes);
    remat_keep_most(&s->fixed_live_bytes, a->lifespans.live_peak_bytes);
    return REMAT_OK;
}

/* Places the tensors that outlive a segment, and arranges the segments that no decision is about.
 */
static remat_status arrange_fixed(struct pipeline *p)
{
    const struct remat_step *step = &p->prepared.step;
    uint32_t count = (uint32_t)step->segments.count;
    const struct remat_graph **graphs;
    REMAT_NEW(p->arena, graphs, count);
    for (uint32_t i = 0; i < count; i++) {
        graphs[i] = step->segments.items[i].graph;
        REMAT_CHECK(remat_price_check_values(p->ctx, graphs[i]));
    }
    p->persistent =
        remat_persistent_collect(p->arena, graphs, count, p->settings->device.workspace_bytes);
    for (uint32_t i = 0; i < count; i++)
        if (!step->segments.items[i].decided)
            REMAT_CHECK(arrange(p, &step->segments.items[i]));
    return REMAT_OK;
}

/* The bits depend on the graph before any decision and on the rules of docs/numerics.md. */
#define NUMERICS_VERSION                                                                           \
    "2: rows 64 lanes, columns 256 of 1048576 sums, gemm k 384, attention q 64 kv 4096"

/* Lists the manual policies to compare the plan with, by system: those that it has flags for. No
 * system has flags for pins. */
static void describe_manual(struct pipeline *p, const struct remat_chosen *c,
                            struct remat_program *out)
{
    REMAT_NEW(p->arena, out->manuals, REMAT_SYSTEM_COUNT);
    for (enum remat_system k = 0; k < REMAT_SYSTEM_COUNT; k++) {
        const struct remat_policy *policy = c->manual[k].policy;
        const char *flags = NULL;
        if (policy && !remat_decision_has_pins(&c->decision))
            flags = remat_policy_flags(p->arena, policy, k);
        if (flags)
            out->manuals[out->manual_count++] =
                (struct remat_manual){remat_system_name(k), policy->name, flags,
                                      remat_search_step_ns(&p->search, c->manual[k].ns)};
    }
}

/* All microbatches take the same work, and all ranks along an axis. */
static void describe_work(struct pipeline *p, struct remat_program *out)
{
    const struct remat_compile_settings *s = p->settings;
    uint64_t runs = remat_step_microbatches(&p->prepared.step);
    struct remat_model_work work = remat_price_model_work(p->search.graph, &s->device);
    out->tokens = p->input->tokens * runs * remat_mesh_size(&s->mesh, "dp");
    out->model_flops = remat_mul_saturated(work.flops, runs);
    out->model_ns = (uint64_t)(work.ns * (double)runs + 0.5); /* no more than kernels take */
}

#define WHOLE "ZeRO: every rank has the whole state of what the ranks do not divide: "

static bool has_axis(const struct remat_program *program, uint32_t axis, const char *name)
{
    return axis < program->mesh_count && strcmp(program->mesh[axis].name, name) == 0;
}

/* Ranks along "dp" divide it, alone or after others. */
static bool is_divided(const struct remat_program *program, const struct remat_program_value *value)
{
    return value->whole_rank && (has_axis(program, value->part_axis, "dp") ||
                                 has_axis(program, value->block_axis, "dp"));
}

/* A note on the parameters whose state every rank holds whole although the plan has --zero, because
 * the ranks do not divide them. NULL: there is none. */
static const char *note_whole(struct remat_arena *arena, const struct remat_program *program)
{
    struct remat_text text = {.arena = arena};
    for (uint32_t v = 0; v < program->value_count; v++) {
        const struct remat_program_value *value = &program->values[v];
        if (value->role != REMAT_ROLE_GRADIENT || is_divided(program, value))
            continue;
        int length = (int)strlen(value->name) - (int)strlen(".grad");
        remat_text_append(&text, "%s%.*s", text.items ? ", " : WHOLE, length, value->name);
    }
    if (text.items)
        remat_text_complete(&text);
    return text.items;
}

/* Of the first foreign node; NULL: there is none. */
static const char *foreign_name(const struct remat_graph *graph)
{
    remat_node n = remat_find_foreign(graph);
    return remat_is_none(n.i) ? NULL : graph->values[graph->nodes[n.i].outputs[0].i].name;
}

static remat_status describe(struct pipeline *p, const struct remat_chosen *c,
                             struct remat_program *out)
{
    const struct remat_compile_settings *s = p->settings;
    out->producer = "remat " REMAT_VERSION;
    out->graph_name = p->input->name;
    out->config = p->input->config;
    out->plan_only = p->input->plan_only;
    out->foreign = foreign_name(p->input);
    out->target = s->device.name;
    out->target_arch = s->device.cuda_arch;
    out->policy = c->name;
    out->graph_hash = remat_graph_hash(p->input);
    out->numerics_hash = remat_hash_string(NUMERICS_VERSION, p->prepared.numerics_hash);
    out->budget_bytes = s->search.has_budget ? s->search.budget_bytes : 0;
    out->reserve_bytes = p->search.reserve_bytes;
    out->arena_bytes = remat_aligned_bytes(c->arena_bytes);
    describe_work(p, out);
    out->settings = remat_copy(p->arena, s->settings, s->setting_count, sizeof *s->settings);
    out->setting_count = s->setting_count;
    out->chosen_by = s->chosen_by;
    out->base_step_ns = remat_search_step_ns(&p->search, p->evaluator.base_ns);
    out->bound_step_ns = remat_search_bound_ns(&p->search, c->bound_ns);
    out->limited_by = c->limited_by;
    out->floor_bytes = c->floor_bytes;
    if (out->workspace_bytes) /* GEMMs are chosen within it */
        out->numerics_hash =
            remat_hash(&out->workspace_bytes, sizeof out->workspace_bytes, out->numerics_hash);
    describe_manual(p, c, out);
    const char *notes[2] = {s->passes.zero ? note_whole(p->arena, out) : NULL};
    remat_stopwatch_start(&p->watch);
    if (!s->without_cuda && !out->foreign)
        REMAT_CHECK(remat_cuda_emit_plan(p->ctx, p->arena, s->needs_cuda, out, &notes[1]));
    remat_stopwatch_lap(&p->watch, REMAT_LAP_EMIT);
    for (size_t i = 0; i < COUNT(notes); i++)
        if (notes[i])
            REMAT_PUSH(p->arena, &p->search.notes, notes[i]);
    out->notes = p->search.notes.items;
    out->note_count = (uint32_t)p->search.notes.count;
    return REMAT_OK;
}

static remat_status lower(struct pipeline *p, const struct remat_chosen *chosen,
                          const struct remat_explanation *explanation, struct remat_program *out)
{
    uint64_t arena_bytes;
    const struct remat_lowering lowering = {
        .step = &p->prepared.step,
        .persistent = &p->persistent,
        .decision = &chosen->decision,
        .alternatives = explanation->alternatives,
    };
    remat_stopwatch_start(&p->watch);
    remat_step_decided(lowering.step)->arranged = chosen->arranged;
    REMAT_CHECK(remat_step_place(p->ctx, lowering.persistent, lowering.step, &arena_bytes));
    assert(arena_bytes == chosen->arena_bytes);
    remat_stopwatch_lap(&p->watch, REMAT_LAP_PLACE);
    remat_lower(p->arena, &lowering, out);
    remat_stopwatch_lap(&p->watch, REMAT_LAP_LOWER);
    return REMAT_OK;
}

/* `program`: the smallest plan, lowered. */
static remat_status refuse(struct pipeline *p, const struct remat_chosen *smallest,
                           const struct remat_program *program)
{
    const struct remat_search *s = &p->search;
    bool given = remat_policy_given(&s->settings->policy);
    const char *what = given                    ? "this policy"
                       : remat_search_per_op(s) ? "the smallest plan found"
                       : s->over                ? "the smallest policy tried"
                                                : "the smallest manual policy";
    struct remat_refusal refusal = {
        .budget_bytes = s->settings->budget_bytes,
        .smallest_bytes = smallest->arena_bytes + s->reserve_bytes,
        .reserve_bytes = s->reserve_bytes,
        .floor_bytes = smallest->floor_bytes ? smallest->floor_bytes + s->reserve_bytes : 0,
        .pinned = remat_decision_has_pins(&smallest->decision),
        .smallest = program};
    p->refused = true;
    if (s->settings->refused)
        s->settings->refused(s->settings->refused_user, &refusal);
    return remat_error(
        s->ctx, REMAT_ERROR_INFEASIBLE,
        "budget %" PRIu64 " B is too small: %s%s needs %" PRIu64 " B", refusal.budget_bytes, what,
        s->over && !given ? " before the search was ended" : "", refusal.smallest_bytes);
}

static remat_status check(struct pipeline *p)
{
    const struct remat_compile_settings *s = p->settings;
    REMAT_CHECK(remat_price_check(p->ctx, p->input, &s->device));
    REMAT_CHECK(remat_price_check_mesh(p->ctx, &s->mesh, &s->device));
    if (s->passes.microbatches > REMAT_MICROBATCHES_MAX)
        return remat_error(p->ctx, REMAT_ERROR_USAGE, "%" PRIu32 " microbatches, the limit is %u",
                           s->passes.microbatches, REMAT_MICROBATCHES_MAX);
    return REMAT_OK;
}

/* Sets the limits of the search. */
static void begin_search(struct pipeline *p)
{
    const struct remat_compile_settings *settings = p->settings;
    struct remat_search *s = &p->search;
    *s = (struct remat_search){.ctx = p->ctx,
                               .arena = p->arena,
                               .planning = remat_scratch_open(p->ctx),
                               .scratch = remat_scratch_open(p->ctx),
                               .settings = &settings->search,
                               .step = &p->prepared.step,
                               .graph = remat_step_decided(&p->prepared.step)->graph,
                               .evaluator = &p->evaluator,
                               .limit_bytes = UINT64_MAX};
    s->reserve_bytes = settings->has_reserve
                           ? settings->reserve_bytes
                           : settings->device.reserve_bytes +
                                 remat_price_engine_bytes(&settings->mesh, &settings->device);
    if (settings->search.has_budget)
        s->limit_bytes = settings->search.budget_bytes > s->reserve_bytes
                             ? settings->search.budget_bytes - s->reserve_bytes
                             : 0;
}

/* Everything before the decision. */
static remat_status start(struct pipeline *p)
{
    struct remat_search *s = &p->search;
    enum remat_purpose purpose = p->program || p->order ? REMAT_FOR_PLAN
                                 : p->front             ? REMAT_FOR_CURVE
                                                        : REMAT_FOR_BOUND;
    REMAT_CHECK(check(p));
    REMAT_CHECK(remat_prepare(p->ctx, p->arena, p->input, p->settings, purpose, &p->prepared));
    begin_search(p);
    REMAT_CHECK(arrange_fixed(p));
    remat_search_raise_floor(s, p->persistent.total_bytes, true);
    if (s->floor_bytes > s->limit_bytes && p->settings->search.briefly)
        return remat_search_refuse_briefly(s);
    REMAT_CHECK(remat_policy_prepare(p->ctx, p->arena, s->graph, &p->settings->search.policy,
                                     &s->policy_facts));
    remat_evaluator_init(&p->evaluator, s->planning, s->graph, &p->persistent, &p->settings->device,
                         remat_policy_pinned(s->policy_facts, p->arena), &p->watch);
    remat_stopwatch_start(&p->watch);
    REMAT_CHECK(remat_model_create(s->planning, p->evaluator.settled, p->evaluator.prices,
                                   &p->settings->device, &s->model));
    remat_stopwatch_lap(&p->watch, REMAT_LAP_EXTRACT);
    return REMAT_OK;
}

static void report_times(const struct pipeline *p)
{
    remat_stopwatch_report(&p->watch, p->settings->pass_time, p->settings->pass_time_user);
}

/* A refusal and a point of the curve are results; a decision is none before it is lowered. */
static bool is_late(void *user)
{
    const struct pipeline *p = user;
    const struct remat_compile_settings *s = p->settings;
    bool done = p->refused || (p->front && p->search.state.best_ns);
    return !done && s->is_late && s->is_late(s->search.is_over_user);
}

/* --- entry points --- */

static struct pipeline begin(remat_context *ctx, struct remat_arena *arena,
                             const struct remat_graph *graph,
                             const struct remat_compile_settings *settings)
{
    return (struct pipeline){.ctx = ctx,
                             .arena = arena,
                             .input = graph,
                             .settings = settings,
                             .watch = {.running = settings->pass_time != NULL}};
}

/* An invalid plan is an error of the compiler, not of its input. */
static remat_status of_ours(remat_status status)
{
    return status == REMAT_ERROR_INVALID ? REMAT_ERROR_INTERNAL : status;
}

static remat_status make_plan(void *user)
{
    struct pipeline *p = user;
    struct remat_chosen best;
    struct remat_program *program;
    REMAT_CHECK(start(p));
    REMAT_CHECK(remat_choose(&p->search, &best));
    REMAT_NEW(p->arena, program, 1);
    struct remat_explanation explanation = remat_explain(&p->search, &best.decision);
    REMAT_CHECK(lower(p, &best, &explanation, program));
    remat_evaluator_release(&p->evaluator); /* makes room for what follows */
    remat_scratch_close(p->search.scratch);
    remat_scratch_close(p->search.planning);
    program->exact_extras = explanation.exact;
    if (!best.fits)
        return refuse(p, &best, program);
    REMAT_CHECK(describe(p, &best, program));
    if (!program->foreign)
        REMAT_CHECK(of_ours(remat_program_verify(p->ctx, program)));
    REMAT_CHECK(of_ours(remat_program_simulate(p->ctx, program)));
    *p->program = program;
    report_times(p);
    return REMAT_OK;
}

remat_status remat_compile(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_graph *graph,
                           const struct remat_compile_settings *settings,
                           struct remat_program **out)
{
    struct pipeline p = begin(ctx, arena, graph, settings);
    p.program = out;
    return remat_guard_until(ctx, make_plan, is_late, &p);
}

/* The node of the given graph that a node is or stands for. */
static remat_node original_of(const struct remat_graph *graph, remat_node n)
{
    remat_value v = graph->nodes[n.i].outputs[0];
    return graph->nodes[n.i].instance ? remat_producer(graph, graph->values[v.i].original) : n;
}

static bool is_stored(const struct remat_graph *graph, const struct remat_kernel_info *kernel,
                      remat_node n)
{
    for (uint32_t o = 0; o < kernel->operand_count; o++)
        if ((kernel->operands[o].access & REMAT_ACCESS_WRITE) &&
            remat_producer(graph, kernel->operands[o].value).i == n.i)
            return true;
    return false;
}

static void list_runs(struct remat_arena *arena, const struct remat_arrangement *a,
                      struct remat_found_order *out)
{
    struct remat_found_run *runs;
    uint32_t count = 0;
    for (uint32_t k = 0; k < a->kernels.count; k++)
        count += a->kernels.kernels[k].node_count;
    REMAT_NEW_UNINITIALIZED(arena, runs, count);
    for (uint32_t position = 0; position < a->kernels.count; position++) {
        const struct remat_kernel_info *kernel = remat_kernel_at(&a->kernels, a->order[position]);
        for (uint32_t n = 0; n < kernel->node_count; n++)
            runs[out->run_count++] = (struct remat_found_run){
                .node = original_of(a->graph, kernel->nodes[n]),
                .round = remat_clone_round(a->graph->nodes[kernel->nodes[n].i].instance),
                .position = position,
                .stored = is_stored(a->graph, kernel, kernel->nodes[n])};
    }
    out->runs = runs;
}

/* As remat_compile records them in a plan. */
static remat_status explain(struct pipeline *p, const struct remat_chosen *best)
{
    struct remat_program *program;
    REMAT_NEW(p->arena, program, 1);
    struct remat_explanation explanation = remat_explain(&p->search, &best->decision);
    REMAT_CHECK(lower(p, best, &explanation, program));
    p->order->decisions = program->decisions;
    p->order->decision_count = program->decision_count;
    return REMAT_OK;
}

static remat_status find_order(void *user)
{
    struct pipeline *p = user;
    struct remat_search *s = &p->search;
    struct remat_chosen best;
    REMAT_CHECK(start(p));
    REMAT_CHECK(remat_choose(s, &best));
    if (!best.fits)
        return refuse(p, &best, NULL);
    *p->order = (struct remat_found_order){
        .policy = best.name,
        .arena_bytes = best.arena_bytes,
        .live_peak_bytes = best.arranged.lifespans.live_peak_bytes,
        .static_bytes = p->persistent.total_bytes,
        .reserve_bytes = s->reserve_bytes,
        .floor_bytes = best.floor_bytes ? best.floor_bytes + s->reserve_bytes : 0,
        .step_ns = remat_search_step_ns(s, best.arranged.step_ns),
        .base_ns = remat_search_step_ns(s, p->evaluator.base_ns),
        .bound_ns = remat_search_bound_ns(s, best.bound_ns),
        .cut_short = s->over};
    list_runs(p->arena, &best.arranged, p->order);
    if (p->settings->explains)
        REMAT_CHECK(explain(p, &best));
    report_times(p);
    return REMAT_OK;
}

remat_status remat_compile_order(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_graph *graph,
                                 const struct remat_compile_settings *settings,
                                 struct remat_found_order *out)
{
    struct pipeline p = begin(ctx, arena, graph, settings);
    p.order = out;
    return remat_guard_until(ctx, find_order, is_late, &p);
}

static remat_status find_bound(void *user)
{
    struct pipeline *p = user;
    REMAT_CHECK(start(p));
    REMAT_CHECK(remat_search_plan(&p->search, true));
    uint64_t reserve_bytes = p->search.reserve_bytes;
    *p->bound = (struct remat_bound){
        .step_ns = remat_search_bound_ns(&p->search, p->search.state.bound_ns),
        .floor_bytes = remat_add_saturated(p->search.floor_bytes, reserve_bytes),
        .static_bytes = remat_add_saturated(p->persistent.total_bytes, reserve_bytes)};
    return REMAT_OK;
}

remat_status remat_compile_bound(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_graph *graph,
                                 const struct remat_compile_settings *settings,
                                 struct remat_bound *out)
{
    struct pipeline p = begin(ctx, arena, graph, settings);
    p.bound = out;
    return remat_guard_until(ctx, find_bound, is_late, &p);
}

static remat_status find_front(void *user)
{
    struct pipeline *p = user;
    REMAT_CHECK(start(p));
    REMAT_CHECK(remat_search_front(&p->search, p->front));
    report_times(p);
    return REMAT_OK;
}

remat_status remat_compile_front(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_graph *graph,
                                 const struct remat_compile_settings *settings,
                                 struct remat_front *front)
{
    struct pipeline p = begin(ctx, arena, graph, settings);
    p.front = front;
    return remat_guard_until(ctx, find_front, is_late, &p);
}
