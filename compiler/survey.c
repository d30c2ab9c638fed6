/* SPDX-License-Identifier: Apache-2.0 */
#include "survey.h"

enum { TIE_SHARE = 10000 }; /* hardly below: by less than this share of the time */

static remat_status decide(struct remat_survey *s, const struct remat_survey_list *list,
                           uint32_t index, struct remat_decision *out)
{
    struct remat_notes ignored = {0};
    if (list->policies)
        return remat_policy_decide(s->chooser->ground, &s->scratch, &list->policies[index], out,
                                   &ignored);
    return remat_is_none(list->path)
               ? remat_planner_near(s->planner, &s->scratch, index, out)
               : remat_planner_decide(s->planner, &s->scratch, list->path, index, out);
}

/* --- what is known before --- */

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool is_covered(const struct remat_survey *s, uint64_t bytes, uint64_t ns)
{
    for (size_t i = 0; i < s->points.count; i++)
        if (s->points.items[i].live_peak_bytes <= bytes && s->points.items[i].step_ns <= ns)
            return true;
    return false;
}

/* Between two samples of a path that have been priced. */
static bool is_above_line(const struct remat_survey_list *list, uint64_t bytes, double ns)
{
    const struct remat_survey_sample *above = NULL;
    for (uint32_t i = 0; !remat_is_none(list->path) && i < list->count; i++) {
        const struct remat_survey_sample *at = &list->samples[i];
        if (!at->priced)
            continue;
        if (above && above->live_peak_bytes > bytes && at->live_peak_bytes <= bytes) {
            double share = (double)(above->live_peak_bytes - bytes) /
                           (double)(above->live_peak_bytes - at->live_peak_bytes);
            if ((1 - share) * (double)above->step_ns + share * (double)at->step_ns <= ns)
                return true;
        }
        above = at;
    }
    return false;
}

/* What a sample that has been priced takes beyond its least costs, if that is less. */
static void lessen(const struct remat_survey_sample *sample, uint64_t *bytes, uint64_t *ns)
{
    const struct remat_least *least = &sample->least;
    uint64_t peak = sample->live_peak_bytes, step = sample->step_ns;
    *bytes = lesser(*bytes, peak > least->live_bytes ? peak - least->live_bytes : 0);
    *ns = lesser(*ns, step > least->step_ns ? step - least->step_ns : 0);
}

/* Beyond a sample's least costs: as its neighbours, or as the first of all where there are none. */
static void estimate(const struct remat_survey *s, const struct remat_survey_list *list, uint32_t i,
                     uint64_t *bytes, uint64_t *ns)
{
    const struct remat_survey_sample *samples = list->samples;
    uint32_t left = i, right = i + 1;
    *bytes = *ns = UINT64_MAX;
    while (left > 0 && !samples[left - 1].priced)
        left--;
    while (right < list->count && !samples[right].priced)
        right++;
    if (left > 0)
        lessen(&samples[left - 1], bytes, ns);
    if (right < list->count)
        lessen(&samples[right], bytes, ns);
    for (size_t p = 0; *bytes == UINT64_MAX && p < s->priced.count; p++)
        lessen(&s->priced.items[p], bytes, ns);
}

static bool is_beaten(const struct remat_survey *s, size_t l, uint32_t i)
{
    const struct remat_survey_list *list = &s->lists.items[l];
    struct remat_least least = list->samples[i].least;
    uint64_t bytes, ns;
    bool end = !remat_is_none(list->path) && (i == 0 || i + 1 == list->count);
    if (!s->estimates || end || s->priced.count == 0)
        return is_covered(s, least.live_bytes, least.step_ns);
    estimate(s, list, i, &bytes, &ns);
    least.live_bytes += bytes;
    least.step_ns += ns;
    bool beaten = is_covered(s, least.live_bytes, least.step_ns);
    double tie = (double)least.step_ns / TIE_SHARE;
    for (size_t other = 0; other < s->lists.count && !beaten; other++)
        beaten = other != l && is_above_line(&s->lists.items[other], least.live_bytes,
                                             (double)least.step_ns + (other < l ? tie : -tie));
    return beaten;
}

/* --- pricing --- */

static remat_status price(struct remat_survey *s, const char *name,
                          const struct remat_decision *decision, struct remat_survey_sample *sample)
{
    remat_status st = REMAT_OK;
    struct remat_chooser *c = s->chooser;
    struct remat_evaluation cost;
    REMAT_TRY(remat_evaluate(c->evaluator, decision, &cost));
    if (cost.live_peak_bytes < c->fixed_live_bytes)
        cost.live_peak_bytes = c->fixed_live_bytes;
    sample->priced = true;
    sample->live_peak_bytes = cost.live_peak_bytes;
    sample->step_ns = cost.step_ns;
    REMAT_PUSH(c->arena, &s->priced, *sample);
    REMAT_PUSH(c->arena, &s->points,
               ((struct remat_frontier_point){.policy = name,
                                              .live_peak_bytes = cost.live_peak_bytes,
                                              .step_ns = cost.step_ns}));
    if (!c->state.best_ns || cost.step_ns < c->state.best_ns)
        c->state.best_ns = cost.step_ns;
    if (!c->state.least_bytes || cost.live_peak_bytes < c->state.least_bytes)
        c->state.least_bytes = cost.live_peak_bytes;
fail:
    return st;
}

/* Lists meet: one that makes the same kernels may have been priced. */
static bool find_twin(const struct remat_survey *s, struct remat_survey_sample *sample)
{
    for (size_t p = 0; p < s->priced.count; p++) {
        const struct remat_survey_sample *other = &s->priced.items[p];
        if (other->least.effect != sample->least.effect ||
            other->least.step_ns != sample->least.step_ns)
            continue;
        sample->priced = true;
        sample->live_peak_bytes = other->live_peak_bytes;
        sample->step_ns = other->step_ns;
        return true;
    }
    return false;
}

static remat_status visit(struct remat_survey *s, size_t l, uint32_t i)
{
    remat_status st = REMAT_OK;
    struct remat_survey_list *list = &s->lists.items[l];
    struct remat_survey_sample *sample = &list->samples[i];
    struct remat_decision decision;
    bool known = false;
    if (list->priced_max == 0 || (remat_choose_is_over(s->chooser) && s->priced.count > 0))
        return REMAT_OK;
    REMAT_TRY(decide(s, list, sample->index, &decision));
    if (s->planner) {
        REMAT_TRY(remat_planner_least(s->planner, &s->scratch, &decision, &sample->least));
        known = find_twin(s, sample) || is_beaten(s, l, i);
    }
    if (!known) {
        const char *name = list->policies ? list->policies[sample->index].name : "per-op";
        REMAT_TRY(price(s, name, &decision, sample));
        list->priced_max--;
    }
    s->chooser->state.seen_count++;
fail:
    remat_arena_reset(&s->scratch);
    return st;
}

remat_status remat_survey_price(struct remat_survey *s, size_t begin, size_t end)
{
    remat_status st = REMAT_OK;
    uint32_t most = 0, stride = 1;
    for (size_t l = begin; l < end; l++) {
        uint32_t count = s->lists.items[l].count;
        most = count > most ? count : most;
        if (count > 0)
            REMAT_TRY(visit(s, l, 0));
        if (count > 1)
            REMAT_TRY(visit(s, l, count - 1));
    }
    while (stride < most)
        stride *= 2;
    for (; stride > 0; stride /= 2)
        for (size_t l = begin; l < end; l++)
            for (uint32_t i = stride; i + 1 < s->lists.items[l].count; i += 2 * stride)
                REMAT_TRY(visit(s, l, i));
fail:
    return st;
}

/* --- rooms --- */

/* What lies on a path between two samples of which only the second fits. */
struct span {
    const struct remat_survey_list *list;
    struct remat_survey_sample above, fits;
};

/* The one that ends in the fastest sample that fits; none: list NULL. */
static struct span find_span(const struct remat_survey *s, uint64_t room_bytes)
{
    struct span best = {0};
    for (size_t l = 0; l < s->lists.count; l++) {
        const struct remat_survey_list *list = &s->lists.items[l];
        const struct remat_survey_sample *above = NULL;
        for (uint32_t i = 0; !remat_is_none(list->path) && i < list->count; i++) {
            const struct remat_survey_sample *at = &list->samples[i];
            if (!at->priced)
                continue;
            if (above && above->live_peak_bytes > room_bytes && at->live_peak_bytes <= room_bytes &&
                (!best.list || at->step_ns < best.fits.step_ns))
                best = (struct span){list, *above, *at};
            above = at;
        }
    }
    return best;
}

/* Bisection: what a decision takes beyond its least bytes is what the one that fits does. */
static remat_status search_span(struct remat_survey *s, const struct span *span,
                                uint64_t room_bytes, struct remat_survey_sample *out)
{
    remat_status st = REMAT_OK;
    uint32_t low = span->above.index + 1;
    *out = span->fits;
    while (low < out->index) {
        uint64_t bytes = UINT64_MAX, ns = UINT64_MAX;
        struct remat_survey_sample middle = {.index = low + (out->index - low) / 2};
        struct remat_decision decision;
        REMAT_TRY(decide(s, span->list, middle.index, &decision));
        REMAT_TRY(remat_planner_least(s->planner, &s->scratch, &decision, &middle.least));
        remat_arena_reset(&s->scratch);
        lessen(&span->fits, &bytes, &ns);
        if (middle.least.live_bytes + bytes <= room_bytes)
            *out = middle;
        else
            low = middle.index + 1;
    }
fail:
    return st;
}

remat_status remat_survey_fill(struct remat_survey *s, uint64_t room_bytes)
{
    remat_status st = REMAT_OK;
    struct span span = find_span(s, room_bytes);
    struct remat_survey_sample sample;
    struct remat_decision decision;
    if (!span.list || remat_choose_is_over(s->chooser))
        return REMAT_OK;
    REMAT_TRY(search_span(s, &span, room_bytes, &sample));
    if (sample.priced)
        return REMAT_OK;
    REMAT_TRY(decide(s, span.list, sample.index, &decision));
    REMAT_TRY(price(s, "per-op", &decision, &sample));
fail:
    remat_arena_reset(&s->scratch);
    return st;
}
