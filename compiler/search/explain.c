/* SPDX-License-Identifier: Apache-2.0 */
#include "border.h"
#include "search.h"

#include <assert.h>

enum { NODES_EVALUATED = 250000 }; /* for all values together; beyond it costs are estimated */

static bool is_recomputable(const struct remat_model *model, remat_item item)
{
    return remat_is_candidate(model->settled, model->item_value[item.i]);
}

struct choice {
    struct remat_decision decision;
    bool *kept;  /* by item */
    bool *twice; /* by layer: it has a value that is recomputed twice */
};

static uint8_t *action_of(const struct remat_model *model, const struct choice *choice,
                          remat_item item)
{
    return &choice->decision.actions[model->item_value[item.i].i];
}

/* The action that recomputes an item: twice where other values of its layer are. */
static uint8_t again(const struct remat_model *model, const struct choice *choice, remat_item item)
{
    remat_layer layer = model->item_layer[item.i];
    bool twice = !remat_is_none(layer.i) && choice->twice[layer.i];
    return twice ? REMAT_ACTION_TWICE : REMAT_ACTION_RECOMPUTE;
}

/* Finds the values that the decision keeps. Values that nothing needs count as recomputed, so that
 * no alternative keeps one of them instead. */
static void find_choice(struct remat_arena *arena, const struct remat_model *model,
                        const struct remat_decision *decision, struct choice *out)
{
    uint8_t *times;
    remat_decision_create(arena, decision->value_count, &out->decision);
    memcpy(out->decision.actions, decision->actions, decision->value_count);
    out->decision.blocking = decision->blocking;
    out->decision.depth = decision->depth;
    REMAT_NEW(arena, out->twice, model->layer_count);
    REMAT_NEW(arena, times, model->item_count);
    for (remat_item i = {0}; i.i < model->item_count; i.i++) {
        times[i.i] = (uint8_t)remat_action_times(*action_of(model, out, i));
        if (!remat_is_none(model->item_layer[i.i].i))
            out->twice[model->item_layer[i.i].i] |= times[i.i] > 1;
    }
    struct remat_border_choice choice = remat_border_follow(arena, &model->border, times);
    remat_border_measure(arena, &model->border, &choice);
    for (remat_item i = {0}; i.i < model->item_count; i.i++) {
        choice.keep[i.i] |= !is_recomputable(model, i);
        if (times[i.i] == 0 && !choice.keep[i.i])
            *action_of(model, out, i) = again(model, out, i);
    }
    out->kept = choice.keep;
}

/* The differences of exact step times, one evaluation a value. */
static void evaluate_alternatives(struct remat_search *c, const struct remat_model *model,
                                  const struct choice *choice, int64_t *extra_ps)
{
    struct remat_evaluation as_is = remat_evaluate(c->evaluator, &choice->decision, 0);
    for (remat_item i = {0}; i.i < model->item_count; i.i++) {
        uint8_t *action = action_of(model, choice, i), was = *action;
        if (!is_recomputable(model, i))
            continue;
        *action = choice->kept[i.i] ? again(model, choice, i) : REMAT_ACTION_SAVE;
        struct remat_evaluation changed = remat_evaluate(c->evaluator, &choice->decision, 0);
        *action = was;
        int64_t more_ns = (int64_t)(changed.step_ns - as_is.step_ns);
        extra_ps[i.i] = 1000 * (choice->kept[i.i] ? more_ns : -more_ns);
    }
}

static void estimate_alternatives(struct remat_arena *arena, const struct remat_model *model,
                                  const struct choice *choice, int64_t *extra_ps)
{
    uint8_t *times, *otherwise;
    REMAT_NEW(arena, times, model->item_count);
    REMAT_NEW(arena, otherwise, model->item_count);
    for (remat_item i = {0}; i.i < model->item_count; i.i++) {
        uint8_t action = choice->kept[i.i] ? REMAT_ACTION_SAVE : *action_of(model, choice, i);
        times[i.i] = (uint8_t)remat_action_times(action);
        otherwise[i.i] = (uint8_t)remat_action_times(again(model, choice, i));
    }
    remat_border_marginals(arena, &model->border, times, otherwise, extra_ps);
    for (remat_item i = {0}; i.i < model->item_count; i.i++)
        if (choice->kept[i.i])
            extra_ps[i.i] -= remat_border_way(&model->border, i, *action_of(model, choice, i)).ps;
}

/* Nodes that decisions are about: all but the optimizer's. */
static uint64_t count_decided(const struct remat_graph *graph)
{
    uint64_t count = 0;
    for (uint32_t n = 0; n < graph->node_count; n++)
        count += graph->nodes[n].phase != REMAT_PHASE_OPTIMIZER;
    return count;
}

struct remat_explanation remat_explain(struct remat_search *c,
                                       const struct remat_decision *decision)
{
    assert(decision->value_count == c->graph->value_count);
    const struct remat_model *model = &c->model;
    struct remat_explanation out;
    int64_t *extra_ps;
    struct choice choice;
    remat_stopwatch_start(c->evaluator->watch);
    REMAT_NEW(c->arena, out.alternatives, c->graph->value_count);
    REMAT_NEW(c->arena, extra_ps, model->item_count);
    find_choice(c->arena, model, decision, &choice);
    out.exact = (uint64_t)model->item_count * count_decided(c->graph) <= NODES_EVALUATED;
    if (out.exact) {
        remat_stopwatch_lap(c->evaluator->watch, REMAT_LAP_EXPLAIN);
        evaluate_alternatives(c, model, &choice, extra_ps);
    } else {
        estimate_alternatives(c->arena, model, &choice, extra_ps);
    }
    for (uint32_t i = 0; i < model->item_count; i++) {
        struct remat_alternative *a = &out.alternatives[model->item_value[i].i];
        a->written = true;
        a->recomputable = is_recomputable(model, (remat_item){i});
        a->recompute_extra_ns = a->recomputable ? extra_ps[i] / 1000 : 0;
        const uint32_t *ways = &model->settled->keeps.begin[model->item_value[i].i];
        a->way_count = ways[1] - ways[0];
        a->ways = a->way_count ? model->settled->keeps.ways + ways[0] : NULL;
    }
    remat_stopwatch_lap(c->evaluator->watch, REMAT_LAP_EXPLAIN);
    return out;
}
