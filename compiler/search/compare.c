/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"

#include "prepare.h"
#include "sensitivity.h"

/* Of a whole step, by class. */
static struct remat_class_times times_of(const struct remat_search *s,
                                         struct remat_class_times decided)
{
    struct remat_class_times times = s->update->times;
    for (uint32_t k = 0; k < REMAT_COST_CLASSES; k++)
        times.ns[k] += decided.ns[k] * remat_microbatches(s->settings);
    return times;
}

/* The policy fits, and costs that are off could put it in front of what takes *chosen. */
static remat_status is_rival(struct remat_search *s, struct remat_proposal *policy,
                             const struct remat_class_times *chosen, bool *out)
{
    remat_status st = REMAT_OK;
    const struct remat_class_times times = times_of(s, policy->least.times);
    *out = false;
    if (policy->least.live_bytes > s->limit_bytes || !remat_sensitivity_may_lead(&times, chosen))
        return REMAT_OK;
    REMAT_TRY(remat_proposal_evaluate(s, policy, s->limit_bytes));
    *out = policy->cost.arena_bytes <= s->limit_bytes;
fail:
    return st;
}

remat_status remat_compare_manual(struct remat_search *s, struct remat_proposals *policies,
                                  const struct remat_proposal *chosen,
                                  const struct remat_proposal *manual)
{
    remat_status st = REMAT_OK;
    struct remat_class_times *times;
    uint32_t count = 1;
    double slower = (double)remat_search_step_ns(s, manual->cost.step_ns) /
                        (double)remat_search_step_ns(s, chosen->cost.step_ns) -
                    1;
    REMAT_NEW(s->arena, times, policies->count + 1);
    times[0] = times_of(s, chosen->cost.times);
    for (size_t i = 0; i < policies->count; i++) {
        bool rival;
        if (remat_search_is_over(s))
            return REMAT_OK;
        REMAT_TRY(is_rival(s, &policies->items[i], &times[0], &rival));
        if (rival)
            times[count++] = times_of(s, policies->items[i].cost.times);
    }
    struct remat_sensitivity sensitivity = remat_sensitivity_of(times, count, 0);
    const char *rival = "the plan is a manual policy";
    if (!chosen->policy)
        rival =
            REMAT_FORMAT(s->arena, "the fastest manual policy that fits is \"%s\", %.2f %% slower",
                         manual->name, 100 * slower);
    const char *note = REMAT_FORMAT(s->arena,
                                    "%s; with costs of matmul, attention or the rest 20 %% "
                                    "off no %sthat fits is faster in %u of "
                                    "%u cases",
                                    rival, chosen->policy ? "other " : "manual policy ",
                                    sensitivity.held, REMAT_SENSITIVITY_CASES);
    REMAT_PUSH(s->arena, &s->notes, note);
fail:
    return st;
}
