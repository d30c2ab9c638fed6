/* SPDX-License-Identifier: Apache-2.0 */
/* The planner's bounds against plans: decisions of its own, of manual policies and at random are
 * carried through, and none is faster than the least cost says, or than the bound for its own live
 * peak, or smaller than the floor; what computes built-in kernels twice costs that much more at
 * least. How near they come is printed. The estimates of what one value more or less would change
 * are compared with the exact step times. */
#include <inttypes.h>
#include <math.h>

#include "analysis.h"
#include "border.h"
#include "check.h"
#include "noisy_profile.h"
#include "philox.h"
#include "search.h"
#include "subject.h"

static const struct {
    const char *preset;
    remat_dtype dtype;
    double dropout;
    bool written_out;
    uint32_t batch, microbatches;
    const char *device;
    uint32_t profile; /* seed of a noisy profile; 0: none */
} cases[] = {
    {"gpt2-tiny", REMAT_F32, 0, false, 4, 0, "cpu", 0},
    {"gpt2-tiny", REMAT_F32, 0.1, true, 4, 0, "h100-sxm", 0},
    {"gpt2-tiny", REMAT_BF16, 0.1, false, 8, 2, "h200", 0},
    {"llama-tiny", REMAT_BF16, 0, false, 8, 0, "a100-80", 0},
    {"llama-tiny", REMAT_F32, 0, true, 8, 4, "rtx-4090", 0},
    {"bert-tiny", REMAT_F32, 0.1, false, 4, 0, "v100", 0},
    {"bert-tiny", REMAT_BF16, 0.1, false, 4, 0, "a100-80", 0},
    {"encdec-tiny", REMAT_BF16, 0.1, true, 4, 0, "b200", 0},
    {"encdec-tiny", REMAT_F32, 0, false, 4, 2, "cpu", 0},
    {"gpt2-tiny", REMAT_F32, 0.1, true, 4, 0, "cpu", 1},
    {"llama-tiny", REMAT_BF16, 0, false, 8, 2, "h100-sxm", 2},
    {"bert-tiny", REMAT_F32, 0.1, false, 4, 0, "cpu", 3},
};
enum { RANDOM = 60, STRIDE = 7 }; /* of decisions that compute units of layers again */

struct bench {
    struct subject subject;
    struct remat_arrangement base;
    struct remat_decision none;
    struct remat_planner *planner;
    double worst, sum; /* of step / bound - 1 over the planner's own decisions */
    uint32_t count;
    double estimate_error_ns, change_ns; /* summed over values */
};

static remat_status prepare(struct bench *b, size_t row)
{
    remat_status st = REMAT_OK;
    struct subject *s = &b->subject;
    struct remat_model_settings settings;
    uint32_t microbatches = cases[row].microbatches;
    REMAT_TRY(remat_model_preset(s->ctx, cases[row].preset, &settings));
    settings.batch = cases[row].batch / (microbatches ? microbatches : 1);
    settings.dtype = cases[row].dtype;
    settings.dropout = cases[row].dropout;
    settings.written_out = cases[row].written_out;
    REMAT_TRY(subject_prepare(s, &settings, microbatches, cases[row].device));
    if (cases[row].profile)
        REMAT_TRY(noisy_profile(s, cases[row].profile));
    REMAT_TRY(subject_plan(s, &b->base, &b->none, &b->planner));
fail:
    return st;
}

static void check_decision(struct bench *b, const struct remat_decision *decision, const char *name,
                           uint32_t number, uint64_t *ns, double *excess)
{
    struct remat_evaluation cost;
    struct remat_least least;
    uint64_t bound_ns;
    cost = remat_evaluate(&b->subject.evaluator, decision, 0);
    bound_ns = remat_planner_bound(b->planner, cost.live_peak_bytes);
    CHECK(cost.live_peak_bytes >= b->planner->floor_bytes,
          "%s, %s %u: live peak %" PRIu64 " B below the floor %" PRIu64 " B",
          b->subject.graph->name, name, number, cost.live_peak_bytes, b->planner->floor_bytes);
    CHECK(cost.step_ns >= bound_ns,
          "%s for %s, %s %u: %" PRIu64 " ns, live %" PRIu64 " B, bound %" PRIu64 " ns",
          b->subject.graph->name, b->subject.device.name, name, number, cost.step_ns,
          cost.live_peak_bytes, bound_ns);
    least = remat_planner_least(b->planner, &b->subject.arena, decision);
    CHECK(cost.step_ns >= least.step_ns && cost.live_peak_bytes >= least.live_bytes,
          "%s for %s, %s %u: %" PRIu64 " ns, live %" PRIu64 " B, at least %" PRIu64 " ns, %" PRIu64
          " B",
          b->subject.graph->name, b->subject.device.name, name, number, cost.step_ns,
          cost.live_peak_bytes, least.step_ns, least.live_bytes);
    struct remat_evaluation sum = remat_evaluate_time(&b->subject.evaluator, decision);
    CHECK(sum.step_ns == cost.step_ns && sum.effect == cost.effect,
          "%s, %s %u: a sum of %" PRIu64 " ns, carried through %" PRIu64 " ns",
          b->subject.graph->name, name, number, sum.step_ns, cost.step_ns);
    for (uint32_t c = 0; c < REMAT_COST_CLASSES; c++)
        CHECK(cost.times.ns[c] == sum.times.ns[c],
              "%s for %s, %s %u: class %u takes %" PRIu64 " ns, as a sum %" PRIu64 " ns",
              b->subject.graph->name, b->subject.device.name, name, number, c, cost.times.ns[c],
              sum.times.ns[c]);
    *ns = cost.step_ns;
    *excess = (double)cost.step_ns / (double)bound_ns - 1;
}

/* Saved by a share that goes from few to most: any set of values, recomputed apart or fused,
 * two-level or not. */
static void check_random(struct bench *b, uint32_t seed)
{
    struct remat_decision decision;
    struct remat_facts facts;
    uint64_t ns;
    double excess;
    remat_decision_create(&b->subject.arena, b->subject.graph->value_count, &decision);
    remat_facts_create(&b->subject.arena, b->subject.graph, &facts);
    for (uint32_t v = 0; v < b->subject.graph->value_count; v++) {
        uint32_t bits[4];
        philox((const uint32_t[4]){v}, (const uint32_t[2]){seed}, bits);
        if (facts.recomputable[v] && bits[0] % 8 <= seed % 8)
            decision.actions[v] = seed % 3 == 0 || (seed % 3 == 1 && bits[1] % 2)
                                      ? REMAT_ACTION_INLINE
                                      : REMAT_ACTION_RECOMPUTE;
        if (bits[2] % 4 < seed % 4)
            decision.actions[v] = (uint8_t)remat_action_twice(decision.actions[v]);
    }
    check_decision(b, &decision, "at random", seed, &ns, &excess);
}

static remat_status check_manual(struct bench *b)
{
    remat_status st = REMAT_OK;
    struct subject_manual listed;
    REMAT_TRY(subject_manual(&b->subject, &listed));
    for (uint32_t i = 0; i < listed.count; i++) {
        struct remat_decision decision;
        uint64_t ns;
        double excess;
        REMAT_TRY(subject_manual_decide(&listed, &b->subject.arena, i, &decision));
        check_decision(b, &decision, listed.policies[i].name, i, &ns, &excess);
    }
fail:
    return st;
}

/* Between two corners a decision is faster than one before it only where the corner ahead is no
 * slower. */
static void check_order(const struct bench *b, uint32_t path, const uint64_t *ns)
{
    uint32_t count = remat_path_length(&b->planner->paths[path]), from = 0;
    for (uint32_t j = 1; j < count; j++) {
        uint32_t corner = remat_path_corner(&b->planner->paths[path], j);
        for (uint32_t i = from; i < j; i++)
            CHECK(ns[j] >= ns[i] || ns[j] >= ns[corner],
                  "%s for %s, path %u: %" PRIu64 " ns at %u, %" PRIu64 " ns at %u, %" PRIu64
                  " ns at corner %u",
                  b->subject.graph->name, b->subject.device.name, path, ns[i], i, ns[j], j,
                  ns[corner], corner);
        from = corner == j ? j : from;
    }
}

static remat_status check_path(struct bench *b, uint32_t path, uint32_t stride)
{
    remat_status st = REMAT_OK;
    uint32_t count = remat_path_step_count(&b->planner->paths[path]);
    uint64_t *ns;
    REMAT_TRY_NEW(&b->subject.arena, ns, count);
    for (uint32_t i = path % stride; i < count; i += stride) {
        struct remat_decision decision;
        double excess;
        remat_planner_decide(b->planner, &b->subject.arena, (remat_path_id){path}, i, &decision);
        check_decision(b, &decision, "path", i, &ns[i], &excess);
        b->worst = fmax(b->worst, excess);
        b->sum += excess;
        b->count++;
    }
    if (stride == 1 && !b->subject.device.profile)
        check_order(b, path, ns);
fail:
    return st;
}

static remat_status check_paths(struct bench *b)
{
    remat_status st = REMAT_OK;
    uint32_t singles = b->planner->single_count;
    for (uint32_t path = 0; path < b->planner->path_count; path++)
        REMAT_TRY(check_path(b, path, path < singles ? 1 : STRIDE));
fail:
    return st;
}

/* Each value that matters saved and recomputed, the others as in the middle of a path. */
static remat_status check_marginals(struct bench *b)
{
    remat_status st = REMAT_OK;
    struct remat_model model;
    struct remat_decision decision;
    int64_t *extra_ps;
    uint8_t *times, *once;
    REMAT_TRY(subject_extract(&b->subject, &model));
    remat_planner_decide(b->planner, &b->subject.arena, (remat_path_id){0},
                         remat_path_length(&b->planner->paths[0]) / 2, &decision);
    REMAT_TRY_NEW(&b->subject.arena, extra_ps, model.item_count);
    REMAT_TRY_NEW(&b->subject.arena, times, model.item_count);
    REMAT_TRY_NEW(&b->subject.arena, once, model.item_count);
    memset(once, 1, model.item_count);
    for (uint32_t i = 0; i < model.item_count; i++)
        times[i] = (uint8_t)remat_action_times(decision.actions[model.item_value[i].i]);
    remat_border_marginals(&b->subject.arena, &model.border, times, once, extra_ps);
    for (uint32_t i = 0; i < model.item_count; i++) {
        struct remat_evaluation with, without;
        uint8_t *action = &decision.actions[model.item_value[i].i], was = *action;
        if (model.border.items[i].kept || !extra_ps[i])
            continue;
        *action = REMAT_ACTION_SAVE;
        with = remat_evaluate(&b->subject.evaluator, &decision, 0);
        *action = REMAT_ACTION_RECOMPUTE;
        without = remat_evaluate(&b->subject.evaluator, &decision, 0);
        *action = was;
        double exact_ns = (double)without.step_ns - (double)with.step_ns;
        b->estimate_error_ns += fabs((double)extra_ps[i] / 1000 - exact_ns);
        b->change_ns += fabs(exact_ns);
    }
fail:
    return st;
}

/* The step time with another action for a value. */
static int64_t evaluate_as(struct bench *b, struct remat_decision *decision, uint32_t value,
                           uint8_t action)
{
    uint8_t was = decision->actions[value];
    decision->actions[value] = action;
    struct remat_evaluation cost = remat_evaluate(&b->subject.evaluator, decision, 0);
    decision->actions[value] = was;
    return (int64_t)cost.step_ns;
}

/* What a small plan says of its values: the exact difference. */
static void check_explained(struct bench *b)
{
    struct subject *s = &b->subject;
    struct remat_search search = {.ctx = s->ctx,
                                  .arena = &s->arena,
                                  .graph = s->graph,
                                  .evaluator = &s->evaluator,
                                  .model = b->planner->model};
    struct remat_decision decision;
    uint32_t count = 0;
    remat_planner_decide(b->planner, &s->arena, (remat_path_id){0},
                         remat_path_length(&b->planner->paths[0]) / 2, &decision);
    struct remat_explanation explained = remat_explain(&search, &decision);
    CHECK(explained.exact, "estimated, in a small graph");
    for (uint32_t v = 0; v < s->graph->value_count; v++) {
        int64_t saved_ns, again_ns, said_ns = explained.alternatives[v].recompute_extra_ns;
        if (!explained.alternatives[v].recomputable)
            continue;
        saved_ns = evaluate_as(b, &decision, v, REMAT_ACTION_SAVE);
        again_ns = evaluate_as(b, &decision, v, REMAT_ACTION_RECOMPUTE);
        CHECK(said_ns == again_ns - saved_ns,
              "%s, \"%s\": %" PRId64 " ns explained, %" PRId64 " ns evaluated", s->graph->name,
              s->graph->values[v].name, said_ns, again_ns - saved_ns);
        count++;
    }
    CHECK(count > 20, "%u values explained", count);
}

int main(void)
{
    double error_ns = 0, change_ns = 0;
    for (size_t row = 0; row < sizeof cases / sizeof *cases; row++) {
        struct bench b = {0};
        subject_init(&b.subject);
        remat_status st = prepare(&b, row);
        if (st == REMAT_OK)
            st = check_manual(&b);
        for (uint32_t seed = 0; seed < RANDOM && st == REMAT_OK; seed++)
            check_random(&b, seed);
        if (st == REMAT_OK)
            st = check_paths(&b);
        if (st == REMAT_OK && !cases[row].profile)
            st = check_marginals(&b);
        if (st == REMAT_OK && row == 0)
            check_explained(&b);
        CHECK_OK(b.subject.ctx, st, "%s", cases[row].preset);
        printf(
            "%-12s %-9s%s %u candidates, above the bound by %.2f %% on average, %.2f %% at most\n",
            cases[row].preset, cases[row].device, cases[row].profile ? " by profile," : "", b.count,
            100 * b.sum / b.count, 100 * b.worst);
        printf("    one value more or less: %.1f us in all, estimates off by %.1f %%\n",
               b.change_ns / 1000, 100 * b.estimate_error_ns / b.change_ns);
        error_ns += b.estimate_error_ns;
        change_ns += b.change_ns;
        subject_release(&b.subject);
    }
    check_figure(1 - error_ns / change_ns, "compile_planner share of a change that is estimated");
    return check_exit();
}
