/* SPDX-License-Identifier: Apache-2.0 */
#include "explain.h"

#include "marginal.h"

enum { NODES_EVALUATED = 250000 }; /* for all values together; beyond it costs are estimated */

static bool is_recomputable(const struct remat_model *model, remat_item item)
{
    const struct remat_border_item *i = &model->border.items[item.i];
    return !i->kept && !model->border.tasks[i->task].forbidden;
}

struct choice {
    uint8_t *actions; /* by item: as decided */
    uint8_t *again;   /* by item: the action that recomputes it */
    bool *kept;       /* by item */
};

/* Layers of which a value is recomputed twice: so would be any other value of theirs. */
static void find_again(struct remat_arena *arena, const struct remat_model *model,
                       struct choice *choice)
{
    bool *twice;
    REMAT_NEW(arena, twice, model->region_count);
    for (uint32_t i = 0; i < model->item_count; i++)
        if (!remat_is_none(model->item_region[i]))
            twice[model->item_region[i]] |= remat_action_times(choice->actions[i]) > 1;
    for (uint32_t i = 0; i < model->item_count; i++) {
        uint32_t region = model->item_region[i];
        choice->again[i] =
            !remat_is_none(region) && twice[region] ? REMAT_ACTION_TWICE : REMAT_ACTION_RECOMPUTE;
    }
}

/* The values that the decision keeps. Those that nothing needs count as recomputed, so that no
 * value's alternative keeps another one in its place. */
static void find_choice(struct remat_arena *arena, const struct remat_model *model,
                        const struct remat_decision *decision, struct choice *out)
{
    const struct remat_border *border = &model->border;
    uint8_t *times;
    REMAT_NEW(arena, out->actions, model->item_count);
    REMAT_NEW(arena, out->again, model->item_count);
    REMAT_NEW(arena, times, model->item_count);
    for (uint32_t i = 0; i < model->item_count; i++) {
        out->actions[i] = decision->actions[model->item_value[i].i];
        times[i] = (uint8_t)remat_action_times(out->actions[i]);
    }
    struct remat_border_point point = remat_border_follow(arena, border, times);
    remat_border_measure(arena, border, &point);
    find_again(arena, model, out);
    for (uint32_t i = 0; i < model->item_count; i++) {
        point.keep[i] |= border->items[i].kept || border->tasks[border->items[i].task].forbidden;
        if (times[i] == 0 && !point.keep[i])
            out->actions[i] = out->again[i];
    }
    out->kept = point.keep;
}

/* The differences of exact step times, one evaluation a value. */
static void evaluate_alternatives(struct remat_search *c, const struct remat_model *model,
                                  const struct choice *choice,
                                  const struct remat_decision *decision, int64_t *extra_ps)
{
    struct remat_decision other;
    remat_decision_create(c->arena, c->graph->value_count, &other);
    memcpy(other.actions, decision->actions, c->graph->value_count * sizeof *other.actions);
    for (uint32_t i = 0; i < model->item_count; i++)
        other.actions[model->item_value[i].i] = choice->actions[i];
    struct remat_evaluation as_is = remat_evaluate(c->evaluator, &other);
    for (uint32_t i = 0; i < model->item_count; i++) {
        uint8_t *action = &other.actions[model->item_value[i].i], was = *action;
        if (!is_recomputable(model, (remat_item){i}))
            continue;
        *action = choice->kept[i] ? choice->again[i] : REMAT_ACTION_SAVE;
        struct remat_evaluation changed = remat_evaluate(c->evaluator, &other);
        *action = was;
        int64_t more_ns = (int64_t)(changed.step_ns - as_is.step_ns);
        extra_ps[i] = 1000 * (choice->kept[i] ? more_ns : -more_ns);
    }
}

static void estimate_alternatives(struct remat_arena *arena, const struct remat_model *model,
                                  const struct choice *choice, int64_t *extra_ps)
{
    uint8_t *times, *otherwise;
    REMAT_NEW(arena, times, model->item_count);
    REMAT_NEW(arena, otherwise, model->item_count);
    for (uint32_t i = 0; i < model->item_count; i++) {
        times[i] = choice->kept[i] ? 0 : (uint8_t)remat_action_times(choice->actions[i]);
        otherwise[i] = (uint8_t)remat_action_times(choice->again[i]);
    }
    remat_border_marginals(arena, &model->border, times, otherwise, extra_ps);
}

remat_status remat_explain(struct remat_search *c, const struct remat_decision *decision,
                           struct remat_explanation *out)
{
    struct remat_model model;
    int64_t *extra_ps;
    struct choice choice;
    remat_stopwatch_start(c->watch);
    REMAT_NEW(c->arena, out->alternatives, c->graph->value_count);
    REMAT_CHECK(remat_model_create(c->arena, c->evaluator->settled, c->evaluator->prices,
                                   &c->settings->device, NULL, &model));
    REMAT_NEW(c->arena, extra_ps, model.item_count);
    find_choice(c->arena, &model, decision, &choice);
    out->exact = (uint64_t)model.item_count * c->evaluator->clones.tail <= NODES_EVALUATED;
    if (out->exact) {
        remat_stopwatch_lap(c->watch, REMAT_LAP_EXPLAIN);
        evaluate_alternatives(c, &model, &choice, decision, extra_ps);
    } else {
        estimate_alternatives(c->arena, &model, &choice, extra_ps);
    }
    for (uint32_t i = 0; i < model.item_count; i++) {
        struct remat_alternative *a = &out->alternatives[model.item_value[i].i];
        a->written = true;
        a->recomputable = is_recomputable(&model, (remat_item){i});
        a->recompute_extra_ns = a->recomputable ? extra_ps[i] / 1000 : 0;
    }
    remat_stopwatch_lap(c->watch, REMAT_LAP_EXPLAIN);
    return REMAT_OK;
}
