/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include "options.h"
#include "size.h"

#include <inttypes.h>

/* A run takes a second more than its limit at most: the other half is to free memory. */
#define GRACE_SECONDS 0.5

static void tell_of_plan(const struct remat_search_state *s)
{
    if (!s->best_ns)
        fprintf(stderr, ": no plan yet");
    else
        fprintf(stderr, ": step %s", remat_time_text(s->best_ns).text);
    if (s->best_ns && s->bound_ns)
        fprintf(stderr, ", at least %s, gap %.2f %%", remat_time_text(s->bound_ns).text,
                100 * ((double)s->best_ns / (double)s->bound_ns - 1));
}

static void tell_of_curve(const struct remat_search_state *s)
{
    fprintf(stderr, ", the curve: %" PRIu32 " of %" PRIu32 " decisions", s->seen_count,
            s->to_see_count);
    if (s->least_bytes)
        fprintf(stderr, ", fastest %s, smallest live peak %s", remat_time_text(s->best_ns).text,
                remat_short_text(s->least_bytes).text);
}

/* Of the values that have been looked at before. */
static void tell_of_sizes(const struct remat_sizes *s)
{
    fprintf(stderr, "; %" PRIu32 " of %" PRIu32 " seen", s->trial_count, s->value_count);
    if (s->best < s->trial_count)
        fprintf(stderr, ", best %s %" PRIu32 ": step %s", s->symbol, s->trials[s->best].value,
                remat_time_text(s->trials[s->best].step_ns).text);
}

static void tell_of_divisions(const struct remat_divisions *divisions)
{
    const struct remat_division_trial *best = NULL;
    uint32_t seen = 0, planned = 0;
    for (uint32_t i = 0; i < divisions->count; i++) {
        const struct remat_division_trial *d = &divisions->items[i];
        seen += d->outcome != REMAT_DIVISION_UNTRIED || d->bound.step_ns;
        planned += d->outcome == REMAT_DIVISION_PLANNED;
        if (d->outcome == REMAT_DIVISION_PLANNED && (!best || d->step_ns < best->step_ns))
            best = d;
    }
    fprintf(stderr, "; %" PRIu32 " of %" PRIu32 " divisions seen, %" PRIu32 " planned", seen,
            divisions->count, planned);
    if (best)
        fprintf(stderr, ", best %s: step %s", remat_division_options(best).text,
                remat_time_text(best->step_ns).text);
}

static void tell(void *user, double elapsed)
{
    const struct progress *s = user;
    const struct remat_attempt *now = &s->attempt;
    bool one = (!now->sizes || now->chosen) && !now->divisions;
    fprintf(stderr, "remat-compile: %.0f s", elapsed);
    if (now->divisions)
        fprintf(stderr, ", %s", remat_division_options(now->division).text);
    if (now->sizes)
        fprintf(stderr, ", %s %" PRIu32, now->sizes->symbol, now->value);
    if (s->state.to_see_count)
        tell_of_curve(&s->state);
    else if (s->state.best_ns || one)
        tell_of_plan(&s->state);
    if (now->divisions)
        tell_of_divisions(now->divisions);
    else if (!one)
        tell_of_sizes(now->sizes);
    fputc('\n', stderr);
}

bool progress_is_over(void *user)
{
    return cli_watch_over(&((struct progress *)user)->watch);
}

void progress_look(void *user, const struct remat_attempt *attempt)
{
    struct progress *progress = user;
    progress->attempt = *attempt;
    progress->state = (struct remat_search_state){0};
}

/* A plan is lowered and written after its search, which takes up to one and a half times as long as
 * everything before it, writing alone up to two fifths (docs/tables/scale.md); so the search ends
 * that much before the limit, and the run where there is nothing to write by then. */
static bool is_over(void *user, const struct remat_search_state *state)
{
    struct progress *s = user;
    s->state = *state;
    if (s->lowers_after) {
        double elapsed = cli_watch_elapsed(&s->watch);
        s->watch.limit -= 1.5 * elapsed;
        s->late -= 0.4 * elapsed;
        s->lowers_after = false;
    }
    return cli_watch_over(&s->watch);
}

static bool is_late(void *user)
{
    const struct progress *s = user;
    return cli_watch_elapsed(&s->watch) >= s->late;
}

/* Of many plans one is chosen, which is then made in full. */
static bool compares(const struct remat_asked *asked)
{
    return strstr(remat_asked_text(asked, "bind", ""), "=auto") || remat_division_asked(asked);
}

/* Whether there is a choice. */
static bool searches(const struct cli_arguments *args, const struct remat_asked *asked,
                     const struct remat_compile_settings *settings)
{
    return (settings->search.has_budget && !remat_policy_given(&settings->search.policy)) ||
           cli_has(args, OPTION_curve) || compares(asked);
}

remat_status progress_start(remat_context *ctx, const struct cli_arguments *args,
                            const struct remat_asked *asked,
                            struct remat_compile_settings *settings, struct progress *progress)
{
    const char *limit = cli_text(args, OPTION_time_limit, NULL);
    *progress = (struct progress){.watch = {.tell = tell, .user = progress}};
    if (!searches(args, asked, settings)) {
        if (!limit)
            return REMAT_OK;
        return remat_error(
            ctx, REMAT_ERROR_USAGE,
            "--time-limit needs a search: --budget without a policy, --curve, or auto");
    }
    progress->lowers_after = !cli_has(args, OPTION_curve) && !compares(asked);
    settings->search.is_over = is_over;
    settings->is_late = is_late;
    settings->search.is_over_user = progress;
    remat_status st = cli_watch_start(ctx, limit, &progress->watch);
    progress->late = progress->watch.limit + GRACE_SECONDS;
    return st;
}
