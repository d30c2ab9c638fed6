/* SPDX-License-Identifier: Apache-2.0 */
/* Values are numbered 0 ... value_count - 1. Memory grows with the value, so nothing above the
 * largest that fits is tried. Throughput rises while launches and weights are spread over more
 * work, falls where recomputation sets in, and rises a little whenever one more layer recomputes
 * less: only a bound rules a value out. */
#include "sizes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

remat_status sizes_parse(remat_context *ctx, struct remat_arena *arena, const char *bindings,
                         uint32_t parts, struct sizes *out)
{
    remat_status st = REMAT_OK;
    long long low, high;
    const char *word = strstr(bindings, WORD), *begin = word, *end;
    *out = (struct sizes){.multiple = 1};
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
        out->multiple = parts;
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

const char *sizes_bindings(struct remat_arena *arena, const struct sizes *s, uint32_t value)
{
    return remat_arena_format(arena, "%s%s=%u%s", s->before, s->symbol, value, s->after);
}

/* --- the search --- */

struct search {
    remat_context *ctx;
    struct remat_arena *arena;
    struct sizes *sizes;
    size_t capacity;
    uint32_t too_large;  /* the smallest value that is, */
    const char *refusal; /* with its message; NULL: none is */
    uint32_t slow_from;  /* the number from which on all are slower; value_count: none is known */
    uint32_t asked;      /* the value that was the best when that was asked for; 0: it was not */
    const struct size_attempts *attempts;
};

enum outcome { FITS, TOO_LARGE, IMPOSSIBLE }; /* what is bounded is taken to fit */

static uint32_t value_of(const struct sizes *s, uint32_t number)
{
    return s->smallest + number * s->multiple;
}

static uint32_t number_of(const struct sizes *s, uint32_t trial)
{
    return (s->trials[trial].value - s->smallest) / s->multiple;
}

static bool any_fits(const struct sizes *s)
{
    return s->best < s->trial_count;
}

static void find_best(struct sizes *s)
{
    s->best = s->trial_count;
    for (uint32_t t = 0; t < s->trial_count; t++)
        if (s->trials[t].fits && (!any_fits(s) || s->trials[t].rate > s->trials[s->best].rate))
            s->best = t;
}

static double best_rate(const struct sizes *s)
{
    return any_fits(s) ? s->trials[s->best].rate : 0;
}

/* Adds a trial in its place, or puts it there instead of one of the same value. */
static remat_status add(struct search *search, const struct size_trial *trial)
{
    struct sizes *s = search->sizes;
    uint32_t place = s->trial_count;
    if (s->trial_count == search->capacity) {
        s->trials = remat_arena_grow(search->arena, s->trials, s->trial_count, &search->capacity,
                                     sizeof *s->trials);
        if (!s->trials)
            return REMAT_ERROR_MEMORY;
    }
    while (place > 0 && s->trials[place - 1].value >= trial->value)
        place--;
    if (place == s->trial_count || s->trials[place].value != trial->value) {
        memmove(&s->trials[place + 1], &s->trials[place],
                (s->trial_count - place) * sizeof *s->trials);
        s->trial_count++;
    }
    s->trials[place] = *trial;
    find_best(s);
    return REMAT_OK;
}

static remat_status keep_refusal(struct search *search, uint32_t value)
{
    if (search->refusal && search->too_large < value)
        return REMAT_OK;
    search->too_large = value;
    search->refusal = remat_arena_format(search->arena, "%s", remat_context_message(search->ctx));
    return search->refusal ? REMAT_OK : REMAT_ERROR_MEMORY;
}

static remat_status try_number(struct search *search, uint32_t number, double rate_to_beat,
                               enum outcome *outcome)
{
    remat_status st = REMAT_OK;
    struct sizes *s = search->sizes;
    struct size_trial trial = {.value = value_of(s, number)};
    *outcome = TOO_LARGE;
    if (s->cut_short)
        return REMAT_OK;
    st = search->attempts->attempt(search->attempts->user, rate_to_beat, &trial);
    s->cut_short = search->attempts->is_over(search->attempts->user);
    if (s->cut_short && any_fits(s))
        return st == REMAT_ERROR_INFEASIBLE || st == REMAT_ERROR_CUT_SHORT ? REMAT_OK : st;
    trial.fits = st == REMAT_OK && !trial.bounded;
    if (st == REMAT_ERROR_INFEASIBLE)
        st = keep_refusal(search, trial.value);
    else if (st == REMAT_ERROR_INVALID) {
        *outcome = IMPOSSIBLE;
        st = REMAT_OK;
    }
    REMAT_TRY(st);
    REMAT_TRY(add(search, &trial));
    if (trial.fits || trial.bounded)
        *outcome = FITS;
fail:
    return st;
}

/* It is only bounded, and may be better than the best. */
static bool is_open(const struct search *search, const struct size_trial *trial)
{
    const struct sizes *s = search->sizes;
    bool too_large = search->refusal && trial->value > search->too_large;
    return trial->bounded && !too_large && trial->rate >= best_rate(s) &&
           (trial->value - s->smallest) / s->multiple < search->slow_from;
}

/* The most promising one that is; trial_count: none is. */
static uint32_t find_open(const struct search *search)
{
    const struct sizes *s = search->sizes;
    uint32_t open = s->trial_count;
    for (uint32_t t = 0; t < s->trial_count; t++)
        if (is_open(search, &s->trials[t]) &&
            (open == s->trial_count || s->trials[t].rate > s->trials[open].rate))
            open = t;
    return open;
}

/* What then does not fit moves *above. */
static remat_status plan_open(struct search *search, uint32_t *above)
{
    remat_status st = REMAT_OK;
    struct sizes *s = search->sizes;
    enum outcome outcome;
    for (uint32_t t; (t = find_open(search)) < s->trial_count && !s->cut_short;) {
        uint32_t number = number_of(s, t);
        REMAT_TRY(try_number(search, number, 0, &outcome));
        *above = outcome == TOO_LARGE && number < *above && number > number_of(s, s->best) ? number
                                                                                           : *above;
    }
fail:
    return st;
}

static remat_status try_all(struct search *search)
{
    remat_status st = REMAT_OK;
    enum outcome outcome = FITS;
    for (uint32_t k = 0; k < search->sizes->value_count && outcome != TOO_LARGE; k++)
        REMAT_TRY(try_number(search, k, 0, &outcome));
fail:
    return st;
}

/* Tries a number between `*low`, below what does not fit, and `*above`, and moves one of them. What
 * is impossible lies below all that fits until something does, and above it from then on. */
static remat_status narrow(struct search *search, uint32_t number, double rate_to_beat,
                           uint32_t *low, uint32_t *above)
{
    remat_status st = REMAT_OK;
    enum outcome outcome;
    REMAT_TRY(try_number(search, number, any_fits(search->sizes) ? rate_to_beat : 0, &outcome));
    bool below = outcome == FITS || (outcome == IMPOSSIBLE && !any_fits(search->sizes));
    *(below ? low : above) = number;
fail:
    return st;
}

/* Plans what may be best by now, and asks from where on all are slower than that. */
static remat_status find_slow(struct search *search, uint32_t *above)
{
    remat_status st = REMAT_OK;
    const struct sizes *s = search->sizes;
    const struct size_attempts *attempts = search->attempts;
    uint32_t from, number;
    REMAT_TRY(plan_open(search, above));
    if (!any_fits(s) || s->cut_short || search->asked == s->trials[s->best].value)
        return REMAT_OK;
    search->asked = s->trials[s->best].value;
    REMAT_TRY(attempts->find_slow(attempts->user, search->asked, best_rate(s),
                                  value_of(s, s->value_count - 1), &from));
    number = from ? (from - s->smallest + s->multiple - 1) / s->multiple : s->value_count;
    search->slow_from = number < search->slow_from ? number : search->slow_from;
    *above = number < *above ? number : *above;
fail:
    return st;
}

/* Rates, or their bounds, no longer rise at the largest value tried. */
static bool falls(const struct sizes *s)
{
    const struct size_trial *last = &s->trials[s->trial_count - 1];
    bool falls = false;
    for (uint32_t t = 0; t + 1 < s->trial_count; t++)
        falls |= s->trials[t].rate >= last->rate;
    return falls;
}

static uint32_t largest_below(const struct sizes *s, uint32_t above)
{
    uint32_t largest = 0;
    for (uint32_t t = 0; t < s->trial_count && number_of(s, t) < above; t++)
        largest = number_of(s, t);
    return largest;
}

/* *out_above: the number from which on all are slower than the best, or, with the largest that
 * fits among the trials, the number behind it. */
static remat_status find_largest(struct search *search, uint32_t *out_above)
{
    remat_status st = REMAT_OK;
    uint32_t count = search->sizes->value_count, low = 0, above = count;
    REMAT_TRY(narrow(search, 0, 0, &low, &above));
    while (above == count && low < count - 1 && !search->sizes->cut_short) {
        uint32_t next = low < (count - 1) / 2 ? 2 * low + 1 : count - 1;
        REMAT_TRY(narrow(search, next, INFINITY, &low, &above));
        if (above == count && falls(search->sizes))
            REMAT_TRY(find_slow(search, &above));
    }
    REMAT_TRY(find_slow(search, &above));
    low = largest_below(search->sizes, above);
    while (above > low + 1 && above < search->slow_from && !search->sizes->cut_short)
        REMAT_TRY(narrow(search, low + (above - low) / 2, best_rate(search->sizes), &low, &above));
    *out_above = above;
fail:
    return st;
}

/* The first number upwards or downwards of the best one that has not been tried, below `above` and
 * above what is impossible. */
static bool find_untried(const struct sizes *s, bool upwards, uint32_t above, uint32_t *out)
{
    uint32_t t = s->best;
    for (;;) {
        uint32_t number = number_of(s, t);
        bool last = upwards ? t + 1 == s->trial_count : t == 0;
        if (s->trials[t].why || (upwards ? number + 1 >= above : number == 0))
            return false;
        *out = upwards ? number + 1 : number - 1;
        if (last || number_of(s, upwards ? t + 1 : t - 1) != *out)
            return true;
        t = upwards ? t + 1 : t - 1;
    }
}

/* All below `above`, those next to the best one first: what beats it is found early. */
static remat_status sweep(struct search *search, uint32_t above)
{
    remat_status st = REMAT_OK;
    struct sizes *s = search->sizes;
    while (any_fits(s) && !s->cut_short) {
        uint32_t best = number_of(s, s->best), left, right;
        bool to_left = find_untried(s, false, above, &left);
        bool to_right = find_untried(s, true, above, &right);
        enum outcome outcome;
        if (!to_left && !to_right)
            break;
        if (to_left && to_right)
            to_left = best - left <= right - best;
        uint32_t next = to_left ? left : right;
        REMAT_TRY(try_number(search, next, best_rate(s), &outcome));
        above = outcome == TOO_LARGE && !to_left && !s->cut_short ? next : above;
        REMAT_TRY(plan_open(search, &above));
    }
fail:
    return st;
}

static remat_status add_range(struct remat_arena *arena, struct size_ranges *ranges,
                              uint32_t multiple, uint32_t low, uint32_t high)
{
    remat_status st = REMAT_OK;
    struct size_range *last = ranges->count ? &ranges->items[ranges->count - 1] : NULL;
    if (last && last->high + multiple == low)
        last->high = high;
    else
        REMAT_TRY_PUSH(arena, ranges, ((struct size_range){low, high}));
fail:
    return st;
}

/* The numbers from `begin` to before `end`, of which none is a trial. */
static remat_status list_gap(struct search *search, uint32_t begin, uint32_t end)
{
    remat_status st = REMAT_OK;
    struct sizes *s = search->sizes;
    uint32_t slow = search->slow_from < begin ? begin : search->slow_from;
    slow = slow < end ? slow : end;
    if (begin < slow)
        REMAT_TRY(add_range(search->arena, &s->untried, s->multiple, value_of(s, begin),
                            value_of(s, slow - 1)));
    if (slow < end)
        REMAT_TRY(add_range(search->arena, &s->slower, s->multiple, value_of(s, slow),
                            value_of(s, end - 1)));
fail:
    return st;
}

/* What was not planned, up to the first trial behind all that fit. */
static remat_status list_ranges(struct search *search)
{
    remat_status st = REMAT_OK;
    struct sizes *s = search->sizes;
    uint32_t next = 0, end = s->trial_count;
    bool has_slow = search->slow_from < s->value_count;
    while (!has_slow && !s->trials[end - 1].fits &&
           (!s->trials[end - 1].bounded ||
            (search->refusal && s->trials[end - 1].value > search->too_large)))
        end--;
    for (uint32_t t = 0; t <= end; t++) {
        bool tried = t < s->trial_count;
        uint32_t number = tried ? number_of(s, t) : s->value_count;
        REMAT_TRY(list_gap(search, next, number));
        next = number + 1;
        if (!tried || !s->trials[t].bounded)
            continue;
        REMAT_TRY(add_range(search->arena,
                            is_open(search, &s->trials[t]) ? &s->untried : &s->slower, s->multiple,
                            s->trials[t].value, s->trials[t].value));
    }
fail:
    return st;
}

/* Nothing fits. */
static remat_status refuse(const struct search *search)
{
    const struct sizes *s = search->sizes;
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

remat_status sizes_search(remat_context *ctx, struct remat_arena *arena, struct sizes *sizes,
                          const struct size_attempts *attempts)
{
    remat_status st = REMAT_OK;
    struct search search = {.ctx = ctx,
                            .arena = arena,
                            .sizes = sizes,
                            .slow_from = sizes->value_count,
                            .attempts = attempts};
    uint32_t above;
    if (sizes->value_count <= TRY_ALL) {
        REMAT_TRY(try_all(&search));
    } else {
        REMAT_TRY(find_largest(&search, &above));
        REMAT_TRY(sweep(&search, above));
    }
    st = any_fits(sizes) ? list_ranges(&search) : refuse(&search);
fail:
    return st;
}
