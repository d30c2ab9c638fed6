/* Values are numbered 0 ... value_count - 1. Memory grows with the value, so nothing above one that
 * does not fit is tried; throughput rises while launches and weights are spread over more work, and
 * falls where recomputation sets in. */
#include "sizes.h"

#include <errno.h>
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

remat_status sizes_parse(remat_context *ctx, struct remat_arena *arena, const char *bindings,
                         uint32_t microbatches, struct sizes *out)
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
        out->multiple = microbatches;
    out->low = (uint32_t)low;
    out->high = (uint32_t)high;
    out->value_count = low > high ? 0 : out->high / out->multiple - (out->low - 1) / out->multiple;
    if (out->value_count == 0)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--bind '%.*s': the range has no %s%s", (int)length,
                   begin, out->multiple > 1 ? "multiple of the microbatches" : "value",
                   low > high ? " (LOW..HIGH, the smaller one first)" : "");
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
    remat_status (*attempt)(void *user, struct size_trial *trial);
    bool (*is_over)(void *user);
    void *user;
};

static uint32_t value_of(const struct sizes *s, uint32_t number)
{
    return s->smallest + number * s->multiple;
}

static uint32_t number_of(const struct sizes *s, uint32_t trial)
{
    return (s->trials[trial].value - s->smallest) / s->multiple;
}

static void find_best(struct sizes *s)
{
    s->best = 0;
    for (uint32_t t = 1; t < s->trial_count; t++)
        if (s->trials[t].fits && s->trials[t].rate > s->trials[s->best].rate)
            s->best = t;
}

/* Adds a trial in its place. */
static remat_status try_number(struct search *search, uint32_t number, bool *fits)
{
    remat_status st = REMAT_OK;
    struct sizes *s = search->sizes;
    struct size_trial trial = {.value = value_of(s, number)};
    uint32_t place = s->trial_count;
    *fits = false;
    if (s->cut_short)
        return REMAT_OK;
    st = search->attempt(search->user, &trial);
    s->cut_short = search->is_over(search->user);
    if (s->cut_short && s->trial_count > 0)
        return st == REMAT_ERROR_INFEASIBLE ? REMAT_OK : st;
    trial.fits = st == REMAT_OK;
    if (st == REMAT_ERROR_INFEASIBLE && s->trial_count > 0)
        st = REMAT_OK;
    REMAT_TRY(st);
    if (s->trial_count == search->capacity) {
        s->trials = remat_arena_grow(search->arena, s->trials, s->trial_count, &search->capacity,
                                     sizeof *s->trials);
        if (!s->trials)
            return REMAT_ERROR_MEMORY;
    }
    for (; place > 0 && s->trials[place - 1].value > trial.value; place--)
        s->trials[place] = s->trials[place - 1];
    s->trials[place] = trial;
    s->trial_count++;
    find_best(s);
    *fits = trial.fits;
fail:
    return st;
}

static remat_status try_all(struct search *search)
{
    remat_status st = REMAT_OK;
    bool fits = true;
    for (uint32_t k = 0; k < search->sizes->value_count && fits; k++)
        REMAT_TRY(try_number(search, k, &fits));
fail:
    return st;
}

/* The largest that fits is then among the trials. */
static remat_status find_largest(struct search *search)
{
    remat_status st = REMAT_OK;
    uint32_t count = search->sizes->value_count, fitting = 0, above = count;
    bool fits;
    REMAT_TRY(try_number(search, 0, &fits));
    while (above == count && fitting < count - 1 && !search->sizes->cut_short) {
        uint32_t next = fitting < (count - 1) / 2 ? 2 * fitting + 1 : count - 1;
        REMAT_TRY(try_number(search, next, &fits));
        *(fits ? &fitting : &above) = next;
    }
    while (above - fitting > 1 && !search->sizes->cut_short) {
        uint32_t middle = fitting + (above - fitting) / 2;
        REMAT_TRY(try_number(search, middle, &fits));
        *(fits ? &fitting : &above) = middle;
    }
fail:
    return st;
}

static remat_status refine(struct search *search)
{
    remat_status st = REMAT_OK;
    struct sizes *s = search->sizes;
    for (bool tried = true; tried && !s->cut_short;) {
        uint32_t best = number_of(s, s->best);
        uint32_t left = s->best > 0 ? number_of(s, s->best - 1) : best;
        uint32_t right = s->best + 1 < s->trial_count ? number_of(s, s->best + 1) : best;
        bool fits;
        tried = best - left > 1 || right - best > 1;
        if (best - left > 1)
            REMAT_TRY(try_number(search, left + (best - left) / 2, &fits));
        if (right - best > 1)
            REMAT_TRY(try_number(search, best + (right - best) / 2, &fits));
    }
fail:
    return st;
}

remat_status sizes_search(remat_context *ctx, struct remat_arena *arena, struct sizes *sizes,
                          remat_status (*attempt)(void *user, struct size_trial *trial),
                          bool (*is_over)(void *user), void *user)
{
    remat_status st = REMAT_OK;
    struct search search = {.ctx = ctx,
                            .arena = arena,
                            .sizes = sizes,
                            .attempt = attempt,
                            .is_over = is_over,
                            .user = user};
    if (sizes->value_count <= TRY_ALL) {
        REMAT_TRY(try_all(&search));
    } else {
        REMAT_TRY(find_largest(&search));
        REMAT_TRY(refine(&search));
    }
fail:
    return st;
}
