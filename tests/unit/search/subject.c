/* SPDX-License-Identifier: Apache-2.0 */
#include "subject.h"

#include "border.h"
#include "policy.h"
#include "prepare.h"

enum { LISTS_EACH = 16 };

void subject_init(struct subject *s)
{
    *s = (struct subject){.ctx = remat_context_create(NULL, NULL)};
    remat_arena_init(&s->arena, s->ctx);
}

void subject_release(struct subject *s)
{
    remat_evaluator_release(&s->evaluator);
    remat_arena_release(&s->arena);
    remat_context_destroy(&s->ctx);
}

remat_status subject_prepare_graph(struct subject *s, const struct remat_graph *source,
                                   uint32_t microbatches)
{
    remat_status st = REMAT_OK;
    struct remat_compile_settings compile = {.passes.microbatches = microbatches,
                                             .passes.loss_chunk = s->loss_chunk,
                                             .passes.zero = s->zero};
    if (s->ranks)
        compile.mesh =
            (struct remat_mesh){.axis_count = 1, .axes = {{s->tensor ? "tp" : "dp", s->ranks}}};
    struct remat_prepared prepared;
    REMAT_TRY(remat_prepare(s->ctx, &s->arena, source, &compile, REMAT_FOR_PLAN, &prepared));
    const struct remat_step_segment decided = *remat_step_decided(&prepared.step);
    s->graph = decided.graph;
    remat_step_add(&s->arena, &s->step, "train", 1, decided);
    s->persistent = remat_persistent_collect(&s->arena, &s->graph, 1, 0);
    remat_evaluator_init(&s->evaluator, &s->arena, s->graph, &s->persistent, &s->device, NULL,
                         &s->watch);
fail:
    return st;
}

remat_status subject_pin(struct subject *s, const bool *saved)
{
    remat_status st = REMAT_OK;
    struct remat_graph *graph = remat_graph_copy(&s->arena, s->graph, 1);
    const struct remat_policy_settings none = {0};
    struct remat_policy_facts *shared;
    for (uint32_t v = 0; v < graph->value_count; v++)
        graph->values[v].pin = saved[v] ? REMAT_PIN_SAVE : REMAT_PIN_NONE;
    REMAT_TRY(remat_policy_prepare(s->ctx, &s->arena, graph, &none, &shared));
    s->graph = graph;
    remat_evaluator_release(&s->evaluator);
    remat_evaluator_init(&s->evaluator, &s->arena, s->graph, &s->persistent, &s->device,
                         remat_policy_pinned(shared, &s->arena), &s->watch);
fail:
    return st;
}

void subject_reprice(struct subject *s)
{
    remat_evaluator_release(&s->evaluator);
    remat_evaluator_init(&s->evaluator, &s->arena, s->graph, &s->persistent, &s->device, NULL,
                         &s->watch);
}

remat_status subject_prepare(struct subject *s, const struct remat_model_settings *settings,
                             uint32_t microbatches, const char *device)
{
    remat_status st = REMAT_OK;
    struct remat_graph *source;
    REMAT_TRY(remat_model_generate(s->ctx, &s->arena, settings, &source));
    REMAT_TRY(remat_device_description_read(s->ctx, &s->arena, device, 0, &s->device));
    REMAT_TRY(subject_prepare_graph(s, source, microbatches));
fail:
    return st;
}

remat_status subject_choose(struct subject *s, struct remat_arena *arena, uint64_t limit_bytes,
                            struct remat_chosen *out)
{
    const struct remat_search_settings settings = {.has_budget = true};
    const struct remat_policy_settings no_pins = {0};
    remat_status st = REMAT_OK;
    struct remat_policy_facts *shared;
    REMAT_TRY(remat_policy_prepare(s->ctx, arena, s->graph, &no_pins, &shared));
    struct remat_search search = {.ctx = s->ctx,
                                  .arena = arena,
                                  .planning = arena,
                                  .settings = &settings,
                                  .graph = s->graph,
                                  .evaluator = &s->evaluator,
                                  .step = &s->step,
                                  .policy_facts = shared,
                                  .limit_bytes = limit_bytes};
    REMAT_TRY(remat_model_create(arena, s->evaluator.settled, s->evaluator.prices, &s->device,
                                 &search.model));
    search.scratch = remat_scratch_open(s->ctx);
    st = remat_choose(&search, out);
    remat_scratch_close(search.scratch);
    if (st == REMAT_OK && !out->fits)
        st = REMAT_ERROR_INFEASIBLE;
fail:
    return st;
}

struct remat_kernel_list subject_kernels(struct remat_evaluator *e, struct remat_arena *arena,
                                         const struct remat_decision *decision)
{
    struct remat_price *prices;
    remat_evaluate_time(e, decision);
    return remat_times_list(e->sums, e->variants, arena, decision, &prices);
}

remat_status subject_plan(struct subject *s, struct remat_arrangement *base,
                          struct remat_decision *none, struct remat_planner **planner)
{
    remat_status st = REMAT_OK;
    struct remat_model model;
    REMAT_TRY(remat_arrange(s->ctx, &s->arena, s->graph, &s->persistent, &s->device, &s->watch,
                            false, UINT64_MAX, base));
    remat_decision_create(&s->arena, s->graph->value_count, none);
    REMAT_TRY(subject_extract(s, &model));
    *planner = remat_planner_create(&s->arena, &s->evaluator, &model, false);
fail:
    return st;
}

uint32_t subject_runs(const struct subject *s)
{
    return s->evaluator.depths.count + 1;
}

void subject_set_run(const struct subject *s, struct remat_decision *decision, uint32_t run)
{
    const struct remat_depths *depths = &s->evaluator.depths;
    run %= subject_runs(s);
    decision->blocking = depths->count && run == depths->count;
    decision->depth = run < depths->count ? depths->items[run] : 0;
}

remat_status subject_extract(struct subject *s, struct remat_model *out)
{
    return remat_model_create(&s->arena, s->evaluator.settled, s->evaluator.prices, &s->device,
                              out);
}

remat_status subject_charged(struct remat_arena *scratch, const struct remat_model *model,
                             const struct remat_decision *decision, uint64_t *out_ns)
{
    remat_status st = REMAT_OK;
    struct remat_border_choice choice = {0};
    uint8_t *times;
    uint8_t *way;
    REMAT_TRY_NEW(scratch, times, model->item_count);
    REMAT_TRY_NEW(scratch, way, model->item_count);
    for (uint32_t i = 0; i < model->item_count; i++) {
        uint8_t action = decision->actions[model->item_value[i].i];
        times[i] = (uint8_t)remat_action_times(action);
        way[i] = action;
    }
    choice = remat_border_follow(scratch, &model->border, times);
    choice.again = NULL; /* a second run is not charged */
    choice.way = way;
    remat_border_measure(scratch, &model->border, &choice);
    *out_ns = model->least_ns;
    if (choice.cost_ps > 0)
        *out_ns += (uint64_t)(choice.cost_ps / 1000);
fail:
    return st;
}

remat_status subject_bench_extract(struct subject_bench *b)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(subject_plan(&b->s, &b->base, &b->none, &b->planner));
    REMAT_TRY(subject_extract(&b->s, &b->model));
fail:
    return st;
}

/* Of lists of ops some. */
static void thin_out(struct subject_manual *listed)
{
    uint32_t kept = 0, lists = 0;
    for (uint32_t i = 0; i < listed->count; i++)
        if (!listed->policies[i].save_ops || lists++ % LISTS_EACH == 0)
            listed->policies[kept++] = listed->policies[i];
    listed->count = kept;
}

remat_status subject_manual(struct subject *s, struct subject_manual *out)
{
    remat_status st = REMAT_OK;
    const struct remat_policy_settings no_pins = {0};
    REMAT_TRY(remat_policy_prepare(s->ctx, &s->arena, s->graph, &no_pins, &out->facts));
    struct remat_policies policies;
    remat_manual_policies(&s->arena, s->graph, &policies);
    out->policies = policies.items;
    out->count = (uint32_t)policies.count;
    thin_out(out);
fail:
    return st;
}

remat_status subject_manual_decide(const struct subject_manual *listed, struct remat_arena *arena,
                                   uint32_t policy, struct remat_decision *out)
{
    struct remat_notes notes = {0};
    remat_policy_decide(listed->facts, arena, &listed->policies[policy], out, &notes);
    return REMAT_OK;
}
