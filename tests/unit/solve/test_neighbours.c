/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions near given ones, against all decisions of few items, written as numbers to the base of
 * the choices, each with the least number of digits in which it differs from a start. */
#include "path.h"

#include "decision.h"
#include "support.h"

enum { ITEMS_MAX = 5, STARTS_MAX = 6, CHOICES = 3, ALL_MAX = 243, ROUNDS = 2000 };

static const uint8_t choices[CHOICES] = {REMAT_ACTION_SAVE, REMAT_ACTION_RECOMPUTE,
                                         REMAT_ACTION_PART};

struct sample {
    uint32_t items, starts, numbers, all; /* numbers: CHOICES ^ items; all: that are decisions */
    uint32_t actions[ITEMS_MAX];          /* bits; not of all the last choice */
    uint8_t start[STARTS_MAX * ITEMS_MAX];
    uint32_t distance[ALL_MAX];           /* by decision */
    uint32_t at_distance[ITEMS_MAX + 1];  /* how many decisions */
    uint32_t first[STARTS_MAX], distinct; /* the starts as decisions, each once */
};

static bool has_part(const struct sample *s, uint32_t item)
{
    return s->actions[item] >> choices[CHOICES - 1] & 1;
}

static uint32_t number_of(const uint8_t *actions, uint32_t items)
{
    uint32_t number = 0;
    for (uint32_t i = items; i-- > 0;) {
        uint32_t choice = 0;
        while (choice + 1 < CHOICES && choices[choice] != actions[i])
            choice++;
        number = number * CHOICES + choice;
    }
    return number;
}

static bool is_decision(const struct sample *s, uint32_t number)
{
    for (uint32_t i = 0; i < s->items; i++, number /= CHOICES)
        if (number % CHOICES == CHOICES - 1 && !has_part(s, i))
            return false;
    return number == 0;
}

static uint32_t differ(uint32_t a, uint32_t b)
{
    uint32_t count = 0;
    for (; a != b; a /= CHOICES, b /= CHOICES)
        count += a % CHOICES != b % CHOICES;
    return count;
}

static void make_sample(struct test *t, struct sample *s)
{
    *s = (struct sample){.items = draw(t, 1, ITEMS_MAX)};
    s->starts = draw(t, 1, STARTS_MAX);
    s->numbers = 1;
    for (uint32_t i = 0; i < s->items; i++) {
        s->numbers *= CHOICES;
        s->actions[i] = 1u << choices[0] | 1u << choices[1] | draw(t, 0, 1) << choices[2];
    }
    for (uint32_t i = 0; i < s->starts * s->items; i++)
        s->start[i] = choices[draw(t, 0, has_part(s, i % s->items) ? CHOICES - 1 : CHOICES - 2)];
    for (uint32_t d = 0; d < s->numbers; d++) {
        if (!is_decision(s, d))
            continue;
        s->all++;
        s->distance[d] = s->items;
        for (uint32_t i = 0; i < s->starts; i++) {
            uint32_t far = differ(d, number_of(s->start + i * s->items, s->items));
            s->distance[d] = far < s->distance[d] ? far : s->distance[d];
        }
        s->at_distance[s->distance[d]]++;
    }
    for (uint32_t i = 0; i < s->starts; i++) {
        uint32_t number = number_of(s->start + i * s->items, s->items), k = 0;
        while (k < s->distinct && s->first[k] != number)
            k++;
        if (k == s->distinct)
            s->first[s->distinct++] = number;
    }
}

/* How many are to be found. */
static uint32_t expected(const struct sample *s, uint32_t limit)
{
    uint32_t nearest = s->starts * (1 + s->items);
    for (uint32_t i = 0; i < s->items; i++)
        nearest += s->starts * has_part(s, i);
    if (nearest > limit)
        return s->distinct;
    return limit < s->all ? limit : s->all;
}

static void check(struct test *t, const struct sample *s, uint32_t limit)
{
    struct remat_neighbours found;
    bool seen[ALL_MAX] = {0};
    uint32_t far = 0, at_far = 0, count = expected(s, limit);
    found = remat_neighbours_find(&t->arena, s->items, s->actions, s->start, s->starts, limit);
    CHECK(found.item_count == s->items && found.count == count,
          "%u items, %u starts, limit %u: %u decisions, expected %u", s->items, s->starts, limit,
          found.count, count);
    for (uint32_t i = 0; i < found.count; i++) {
        uint32_t number = number_of(found.actions + (size_t)i * s->items, s->items);
        CHECK(is_decision(s, number) && !seen[number], "decision %u comes twice, or is none",
              number);
        if (number >= s->numbers)
            return;
        seen[number] = true;
        CHECK(i >= s->distinct || number == s->first[i], "the starts do not come first");
        if (s->distance[number] != far) {
            CHECK(s->distance[number] == far + 1 && at_far == s->at_distance[far],
                  "%u of %u decisions that differ in %u items, then one in %u", at_far,
                  s->at_distance[far], far, s->distance[number]);
            far = s->distance[number];
            at_far = 0;
        }
        at_far++;
    }
}

int main(void)
{
    struct test t;
    struct sample s;
    test_begin(&t);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        make_sample(&t, &s);
        uint32_t nearest = s.starts * (1 + (CHOICES - 1) * s.items);
        const uint32_t limits[] = {0,          1,     nearest - 1, nearest, draw(&t, 1, 300),
                                   s.all - 1u, s.all, 2 * ALL_MAX};
        for (size_t k = 0; k < sizeof limits / sizeof *limits; k++)
            check(&t, &s, limits[k]);
        test_next(&t);
    }
    return test_end(&t);
}
