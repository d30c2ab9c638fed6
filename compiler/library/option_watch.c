/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a search: a time limit, or the host's word. */
#include "library.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

/* A call takes a second more than its limit at most: the other half is to free memory. */
#define GRACE_SECONDS 0.5

struct option_watch {
    const remat_compile_options *options;
    double limit_s, late_s; /* since the options' begin; late: without a plan to write it ends */
    bool lowers_after;      /* the search to begin is followed by the plan alone */
    bool found;
    struct remat_attempt attempt;
    struct remat_search_state state;
};

double remat_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double elapsed_s(const struct option_watch *w)
{
    return remat_now_s() - w->options->begin_s;
}

/* --- progress --- */

static void count_sizes(const struct remat_sizes *s, char best[32], remat_compile_progress *out)
{
    out->attempt_count = s->trial_count;
    out->to_attempt_count = s->value_count;
    if (s->best >= s->trial_count)
        return;
    snprintf(best, 32, "%.16s %u", s->symbol, s->trials[s->best].value);
    out->best_attempt = best;
    out->best_attempt_ns = s->trials[s->best].step_ns;
}

static void count_divisions(const struct remat_divisions *divisions,
                            struct remat_division_text *best_text, remat_compile_progress *out)
{
    const struct remat_division_trial *best = NULL;
    out->divisions = true;
    out->to_attempt_count = divisions->count;
    for (uint32_t i = 0; i < divisions->count; i++) {
        const struct remat_division_trial *d = &divisions->items[i];
        bool planned = d->outcome == REMAT_DIVISION_PLANNED;
        out->attempt_count += d->outcome != REMAT_DIVISION_UNTRIED || d->bound.step_ns;
        out->planned_count += planned;
        if (planned && (!best || d->step_ns < best->step_ns))
            best = d;
    }
    if (!best)
        return;
    *best_text = remat_division_options(best);
    out->best_attempt = best_text->text;
    out->best_attempt_ns = best->step_ns;
}

static bool is_cancelled(const struct option_watch *w, bool abandons)
{
    const remat_compile_options *o = w->options;
    const struct remat_attempt *now = &w->attempt;
    struct remat_division_text attempt, best;
    char size[32], best_size[32];
    if (!o->is_cancelled)
        return false;
    remat_compile_progress progress = {.struct_size = sizeof progress,
                                       .best_ns = w->state.best_ns,
                                       .bound_ns = w->state.bound_ns,
                                       .seen_count = w->state.seen_count,
                                       .to_see_count = w->state.to_see_count,
                                       .least_bytes = w->state.least_bytes,
                                       .settled = now->chosen,
                                       .abandons = abandons};
    if (now->divisions) {
        attempt = remat_division_options(now->division);
        progress.attempt = attempt.text;
        count_divisions(now->divisions, &best, &progress);
    } else if (now->sizes) {
        snprintf(size, sizeof size, "%.16s %u", now->sizes->symbol, now->value);
        progress.attempt = size;
        count_sizes(now->sizes, best_size, &progress);
    }
    return o->is_cancelled(o->user, &progress);
}

/* --- what searches ask --- */

static bool is_over(void *user)
{
    const struct option_watch *w = user;
    return is_cancelled(w, false) || elapsed_s(w) >= w->limit_s;
}

/* A plan is lowered and written after its search, which takes up to one and a half times as long as
 * everything before it, writing alone up to two fifths (docs/tables/scale.md); so the search ends
 * that much before the limit, and the call where there is nothing to write by then. */
static bool is_search_over(void *user, const struct remat_search_state *state)
{
    struct option_watch *w = user;
    w->state = *state;
    w->found |= state->best_ns != 0;
    if (w->lowers_after) {
        double elapsed = elapsed_s(w);
        w->limit_s -= 1.5 * elapsed;
        w->late_s -= 0.4 * elapsed;
        w->lowers_after = false;
    }
    return is_over(w);
}

static bool is_late(void *user)
{
    const struct option_watch *w = user;
    return elapsed_s(w) >= w->late_s || (!w->found && is_cancelled(w, true));
}

static void look(void *user, const struct remat_attempt *attempt)
{
    struct option_watch *w = user;
    w->attempt = *attempt;
    w->state = (struct remat_search_state){0};
}

void remat_watch_request(const remat_compile_options *o, bool plans, struct remat_request *r)
{
    struct option_watch *w;
    bool limited = o->limit_s > 0;
    if (!limited && !o->is_cancelled)
        return;
    REMAT_NEW(r->arena, w, 1);
    *w = (struct option_watch){.options = o,
                               .limit_s = limited ? o->limit_s : INFINITY,
                               .late_s = limited ? o->limit_s + GRACE_SECONDS : INFINITY,
                               .lowers_after = plans};
    r->settings.search.is_over = is_search_over;
    r->settings.search.is_over_user = w;
    r->settings.is_late = is_late;
    r->is_over = is_over;
    r->look = look;
    r->user = w;
}

bool remat_is_ended(const struct remat_request *r)
{
    return r->is_over && is_cancelled(r->user, false);
}
