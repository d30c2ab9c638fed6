/* SPDX-License-Identifier: Apache-2.0 */
/* Values are numbered 0 ... value_count - 1. Memory grows with the value, so nothing above what
 * does not fit is tried. Throughput rises while launches and weights are spread over more work,
 * falls where recomputation sets in, and rises a little whenever one more layer recomputes less:
 * only a bound rules a value out. Doubling finds a good value; then all that may be better are
 * bounded, and the most promising planned whenever rates fall, until no bound is above the best. */
#include "sizes.h"

#include <math.h>
#include <stdlib.h>

enum { TRY_ALL = 16, HIGH_DEFAULT = 1024 };
#define WORD "=auto"

/* --- the option --- */

/* ":LOW..HIGH", or nothing, at `text`; NULL: malformed. */
static const char *parse_range(const char *text, long long *low, long long *high)
{
    char *end;
    *low = 1;
    *high = HIGH_DEFAULT;
    if (*text != ':')
        return text;
    *low = strtoll(text + 1, &end, 10);
    if (end == text + 1 || strncmp(end, "..", 2) != 0)
        return NULL;
    text = end + 2;
    *high = strtoll(text, &end, 10);
    return end == text ? NULL : end;
}

remat_status remat_sizes_parse(remat_context *ctx, struct remat_arena *arena, const char *bindings,
                               uint32_t microbatches, struct remat_sizes *out)
{
    remat_status st = REMAT_OK;
    long long low, high;
    const char *word = strstr(bindings, WORD), *begin = word, *end;
    *out = (struct remat_sizes){.multiple = 1};
    if (!word)
        return REMAT_OK;
    while (begin > bindings && begin[-1] != ',')
        begin--;
    size_t length = strcspn(begin, ",");
    end = parse_range(word + strlen(WORD), &low, &high);
    if (end != begin + length || begin == word || low < 1 || high > INT32_MAX)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE,
                   "--bind '%.*s' is malformed (accepted: SYMBOL=auto, SYMBOL=auto:LOW..HIGH, from "
                   "1 to %d)",
                   length > 60 ? 60 : (int)length, begin, INT32_MAX);
    if (strstr(end, WORD))
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--bind gives auto to more than one symbol");
    out->symbol = remat_arena_format(arena, "%.*s", (int)(word - begin), begin);
    out->before = remat_arena_format(arena, "%.*s", (int)(begin - bindings), bindings);
    out->after = end;
    if (!out->symbol || !out->before)
        return REMAT_ERROR_MEMORY;
    if (strcmp(out->symbol, "batch") == 0)
        out->multiple = microbatches;
    out->low = (uint32_t)low;
    out->high = (uint32_t)high;
    out->value_count = low > high ? 0 : out->high / out->multiple - (out->low - 1) / out->multiple;
    if (out->value_count == 0 && low <= high)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--bind '%.*s': the range has no multiple of %u",
                   (int)length, begin, out->multiple);
    if (out->value_count == 0)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE,
                   "--bind '%.*s': the range has no value (LOW..HIGH, the smaller one first)",
                   (int)length, begin);
    out->smallest = ((out->low - 1) / out->multiple + 1) * out->multiple;
fail:
    return st;
}

const char *remat_sizes_bindings(struct remat_arena *arena, const struct remat_sizes *s,
                                 uint32_t value)
{
    return remat_arena_format(arena, "%s%s=%u%s", s->before, s->symbol, value, s->after);
}

/* --- the search --- */

struct size_search {
    remat_context *ctx;
    struct remat_arena *arena;
    struct remat_sizes *sizes;
    size_t capacity;
    uint32_t too_large;  /* the smallest value that is, */
    const char *refusal; /* with its message; NULL: none is */
    const struct remat_size_attempts *attempts;
};

enum size_outcome { MAY_FIT, TOO_LARGE, IMPOSSIBLE };

static uint32_t value_of(const struct remat_sizes *s, uint32_t number)
{
    return s->smallest + number * s->multiple;
}

static uint32_t number_of(const struct remat_sizes *s, uint32_t trial)
{
    return (s->trials[trial].value - s->smallest) / s->multiple;
}

static bool any_fits(const struct remat_sizes *s)
{
    return s->best < s->trial_count;
}

static double best_rate(const struct remat_sizes *s)
{
    return any_fits(s) ? s->trials[s->best].rate : 0;
}

static void find_best(struct remat_sizes *s)
{
    s->best = s->trial_count;
    for (uint32_t t = 0; t < s->trial_count; t++)
        if (s->trials[t].fits && (!any_fits(s) || s->trials[t].rate > s->trials[s->best].rate))
            s->best = t;
}

/* The first trial of this number or a larger one; trial_count: there is none. */
static uint32_t trial_from(const struct remat_sizes *s, uint32_t number)
{
    uint32_t t = 0;
    while (t < s->trial_count && number_of(s, t) < number)
        t++;
    return t;
}

static bool has_trial(const struct remat_sizes *s, uint32_t number)
{
    uint32_t t = trial_from(s, number);
    return t < s->trial_count && number_of(s, t) == number;
}

/* Adds a trial in its place, or puts it in place of an earlier one. */
static remat_status keep(struct size_search *search, uint32_t number,
                         const struct remat_size_trial *trial)
{
    struct remat_sizes *s = search->sizes;
    uint32_t place = trial_from(s, number);
    if (!has_trial(s, number)) {
        if (s->trial_count == search->capacity) {
            s->trials = remat_arena_grow(search->arena, s->trials, s->trial_count,
                                         &search->capacity, sizeof *s->trials);
            if (!s->trials)
                return REMAT_ERROR_MEMORY;
        }
        memmove(&s->trials[place + 1], &s->trials[place],
                (s->trial_count - place) * sizeof *s->trials);
        s->trial_count++;
    }
    s->trials[place] = *trial;
    find_best(s);
    return REMAT_OK;
}

static remat_status keep_refusal(struct size_search *search, uint32_t value)
{
    if (search->refusal && search->too_large < value)
        return REMAT_OK;
    search->too_large = value;
    search->refusal = remat_arena_format(search->arena, "%s", remat_context_message(search->ctx));
    return search->refusal ? REMAT_OK : REMAT_ERROR_MEMORY;
}

/* Until something fits all are planned: a refusal needs a message. */
static remat_status look_at(struct size_search *search, uint32_t number, bool planned,
                            enum size_outcome *outcome)
{
    remat_status st = REMAT_OK;
    struct remat_sizes *s = search->sizes;
    const struct remat_size_attempts *attempts = search->attempts;
    struct remat_size_trial trial = {.value = value_of(s, number)};
    *outcome = TOO_LARGE;
    if (s->cut_short)
        return REMAT_OK;
    if (has_trial(s, number))
        trial = s->trials[trial_from(s, number)];
    if (planned || !any_fits(s))
        st = attempts->plan(attempts->user, trial.each > 0 ? best_rate(s) : 0, &trial);
    else
        st = attempts->bound(attempts->user, &trial);
    s->cut_short = attempts->is_over(attempts->user);
    if (s->cut_short && any_fits(s))
        return st == REMAT_ERROR_INFEASIBLE || st == REMAT_ERROR_CUT_SHORT ? REMAT_OK : st;
    trial.fits = st == REMAT_OK && !trial.bounded;
    trial.bounded &= st == REMAT_OK;
    if (st == REMAT_OK)
        *outcome = MAY_FIT;
    else if (st == REMAT_ERROR_INVALID)
        *outcome = IMPOSSIBLE;
    if (st == REMAT_ERROR_INFEASIBLE)
        st = keep_refusal(search, trial.value);
    REMAT_TRY(st == REMAT_ERROR_INVALID ? REMAT_OK : st);
    REMAT_TRY(keep(search, number, &trial));
fail:
    return st;
}

static remat_status try_all(struct size_search *search)
{
    remat_status st = REMAT_OK;
    enum size_outcome outcome = MAY_FIT;
    for (uint32_t k = 0; k < search->sizes->value_count && outcome != TOO_LARGE; k++)
        REMAT_TRY(look_at(search, k, true, &outcome));
fail:
    return st;
}

/* The number from which on none fits or is possible, above the best one; value_count: not known. */
static uint32_t end_of(const struct remat_sizes *s)
{
    for (uint32_t t = s->best + 1; t < s->trial_count; t++)
        if (!s->trials[t].fits && !s->trials[t].bounded)
            return number_of(s, t);
    return s->value_count;
}

/* The first number from `number` on that no smaller one rules out. */
static uint32_t skip_slower(const struct remat_sizes *s, uint32_t number)
{
    uint32_t t = trial_from(s, number);
    while (t > 0 && s->trials[t - 1].each == 0)
        t--;
    if (t == 0)
        return number;
    double value = best_rate(s) / s->trials[t - 1].each; /* all below are slower */
    double next = ceil((value - s->smallest) / s->multiple);
    return next <= number ? number : next < s->value_count ? (uint32_t)next : s->value_count;
}

/* The most promising trial that is only bounded, and may be better than the best; trial_count:
 * there is none. */
static uint32_t find_open(const struct remat_sizes *s)
{
    uint32_t open = s->trial_count, end = end_of(s);
    double most = best_rate(s);
    for (uint32_t t = 0; t < s->trial_count && number_of(s, t) < end; t++)
        if (s->trials[t].bounded && s->trials[t].rate >= most) {
            open = t;
            most = s->trials[t].rate;
        }
    return open;
}

static remat_status plan_open(struct size_search *search)
{
    remat_status st = REMAT_OK;
    struct remat_sizes *s = search->sizes;
    enum size_outcome outcome;
    for (uint32_t t; !s->cut_short && (t = find_open(s)) < s->trial_count;)
        REMAT_TRY(look_at(search, number_of(s, t), true, &outcome));
fail:
    return st;
}

/* Rates no longer rise, as far as they are known. */
static bool falls(const struct remat_sizes *s)
{
    uint32_t count = s->trial_count;
    return count > 1 && s->trials[count - 1].rate < s->trials[count - 2].rate;
}

/* Doubles the number until rates fall or nothing fits. *begin: the first number that is possible.
 */
static remat_status find_range(struct size_search *search, uint32_t *begin)
{
    remat_status st = REMAT_OK;
    const struct remat_sizes *s = search->sizes;
    uint32_t number = 0, last = s->value_count - 1, possible;
    enum size_outcome outcome;
    *begin = 0;
    for (;; number = number < last / 2 ? 2 * number + 1 : last) {
        REMAT_TRY(look_at(search, number, false, &outcome));
        if (outcome == IMPOSSIBLE && !any_fits(s))
            *begin = number + 1;
        else if (outcome != MAY_FIT || falls(s))
            break;
        if (number == last)
            break;
    }
    possible = any_fits(s) ? number_of(s, s->best) : number;
    while (*begin < possible && !s->cut_short) {
        uint32_t middle = *begin + (possible - *begin) / 2;
        REMAT_TRY(look_at(search, middle, false, &outcome));
        if (outcome == IMPOSSIBLE)
            *begin = middle + 1;
        else
            possible = middle;
    }
fail:
    return st;
}

/* All from `begin` on that no bound rules out. The most promising is planned as soon as rates fall:
 * the better the best, the more its bounds rule out. */
static remat_status bound_all(struct size_search *search, uint32_t begin)
{
    remat_status st = REMAT_OK;
    const struct remat_sizes *s = search->sizes;
    enum size_outcome outcome;
    for (uint32_t n = skip_slower(s, begin); n < end_of(s) && !s->cut_short;
         n = skip_slower(s, n + 1)) {
        if (!has_trial(s, n))
            REMAT_TRY(look_at(search, n, false, &outcome));
        uint32_t open = find_open(s);
        if (open < s->trial_count && number_of(s, open) < n)
            REMAT_TRY(plan_open(search));
    }
fail:
    return st;
}

/* Adds the numbers from `begin` to before `end`, of which the first alone may be a trial. */
static remat_status list_range(struct size_search *search, struct remat_size_ranges *ranges,
                               uint32_t begin, uint32_t end)
{
    remat_status st = REMAT_OK;
    struct remat_sizes *s = search->sizes;
    struct remat_size_range *last = ranges->count ? &ranges->items[ranges->count - 1] : NULL;
    if (begin >= end)
        return REMAT_OK;
    uint32_t low = value_of(s, begin), high = value_of(s, end - 1);
    if (last && last->high + s->multiple == low)
        last->high = high;
    else
        REMAT_TRY_PUSH(search->arena, ranges, ((struct remat_size_range){low, high}));
fail:
    return st;
}

/* The number after the last one below the best that is not possible; 0: all are, as far as is
 * known. */
static uint32_t begin_of(const struct remat_sizes *s)
{
    uint32_t t = s->best;
    while (t > 0 && !s->trials[t - 1].why)
        t--;
    return t > 0 ? number_of(s, t - 1) + 1 : 0;
}

/* What became of the values that were not planned. */
static remat_status list_ranges(struct size_search *search)
{
    remat_status st = REMAT_OK;
    struct remat_sizes *s = search->sizes;
    uint32_t begin = begin_of(s), end = end_of(s), next = 0;
    for (uint32_t t = 0; next < end; t++) {
        uint32_t number = t < s->trial_count ? number_of(s, t) : end;
        uint32_t open = skip_slower(s, next);
        open = open < number ? open : number;
        REMAT_TRY(list_range(search, &s->slower, next, open));
        REMAT_TRY(list_range(search, number < begin ? &s->below : &s->untried, open, number));
        next = number + 1;
        if (number < end && s->trials[t].bounded)
            REMAT_TRY(list_range(
                search, s->trials[t].rate < best_rate(s) ? &s->slower : &s->untried, number, next));
    }
    if (begin > 0)
        s->impossible = value_of(s, begin - 1);
    if (end < s->value_count) {
        s->end = value_of(s, end);
        s->end_is_possible = !s->trials[trial_from(s, end)].why;
    }
    for (next = end + 1; next < s->value_count; next++)
        if (!has_trial(s, next))
            REMAT_TRY(list_range(search, &s->above, next, next + 1));
fail:
    return st;
}

/* Nothing fits. */
static remat_status refuse(const struct size_search *search)
{
    const struct remat_sizes *s = search->sizes;
    if (search->refusal)
        return remat_error(search->ctx, REMAT_ERROR_INFEASIBLE,
                           "the smallest %s%s, %u, does not fit: %s", s->symbol,
                           search->too_large > s->smallest ? " that is possible" : "",
                           search->too_large, search->refusal);
    if (s->cut_short)
        return remat_error(search->ctx, REMAT_ERROR_CUT_SHORT,
                           "the search was ended before it found a %s that is possible", s->symbol);
    return remat_error(search->ctx, REMAT_ERROR_INVALID, "no %s from %u to %u is possible; %u: %s",
                       s->symbol, s->low, s->high, s->trials[0].value, s->trials[0].why);
}

remat_status remat_sizes_search(remat_context *ctx, struct remat_arena *arena,
                                struct remat_sizes *sizes,
                                const struct remat_size_attempts *attempts)
{
    remat_status st = REMAT_OK;
    struct size_search search = {.ctx = ctx, .arena = arena, .sizes = sizes, .attempts = attempts};
    uint32_t begin;
    if (sizes->value_count <= TRY_ALL) {
        REMAT_TRY(try_all(&search));
    } else {
        REMAT_TRY(find_range(&search, &begin));
        REMAT_TRY(plan_open(&search));
        if (any_fits(sizes))
            REMAT_TRY(bound_all(&search, begin));
        REMAT_TRY(plan_open(&search));
    }
    st = any_fits(sizes) ? list_ranges(&search) : refuse(&search);
fail:
    return st;
}
