/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of a path whose hull has two corners behind the first one, eight steps before each. */
#include "path.h"

#include "support.h"

enum { STEPS = 16, CHOICES = STEPS + 1 };

static void check_samples(struct test *t, uint32_t first, uint32_t most, const uint32_t *expected,
                          uint32_t count)
{
    struct remat_border_point points[] = {{.bytes = 1024, .cost_ps = 0},
                                          {.bytes = 896, .cost_ps = 128},
                                          {.bytes = 0, .cost_ps = 1024}};
    struct remat_border_hull hull = {3, points};
    struct remat_path_step list[STEPS];
    for (uint32_t s = 0; s < STEPS; s++)
        list[s] = (struct remat_path_step){.corner = s / 8, .region = s % 8};
    struct remat_path_steps steps = {.count = STEPS, .steps = list};
    struct remat_path path = {.hull = &hull, .steps = &steps, .first = first};
    uint32_t found, *samples;
    CHECK(t, remat_path_samples(&t->arena, &path, most, &found, &samples) == REMAT_OK,
          "out of memory");
    CHECK(t, found == count, "from %u, at most %u: %u samples, expected %u", first, most, found,
          count);
    for (uint32_t i = 0; i < found && i < count; i++)
        CHECK(t, samples[i] == expected[i], "from %u, at most %u: sample %u is %u, expected %u",
              first, most, i, samples[i], expected[i]);
    test_next(t);
}

int main(void)
{
    struct test t;
    uint32_t all[CHOICES];
    for (uint32_t i = 0; i < CHOICES; i++)
        all[i] = i;
    test_begin(&t, "path");
    check_samples(&t, 0, CHOICES, all, CHOICES);
    check_samples(&t, 0, 2, (const uint32_t[]){0, 16}, 2);
    /* an eighth of the way lies before the first corner, and as much between two samples */
    check_samples(&t, 0, 9, (const uint32_t[]){0, 8, 10, 11, 12, 13, 14, 15, 16}, 9);
    check_samples(&t, 12, 3, (const uint32_t[]){0, 2, 4}, 3);
    return test_end(&t);
}
