/* SPDX-License-Identifier: Apache-2.0 */
/* Regions in a row, one a unit: against every set of those that pass on what is not saved: the
 * arrangement has the fewest inputs at once, counted by walking back over the stages. */
#include "path.h"
#include "support.h"

enum { STAGES = 14 };

/* The most inputs that are there at once: the first is given; going back, a unit finds those of
 * all units before it, its own inner ones, and none of what is after. */
static uint32_t most_inputs(uint32_t stages, uint32_t dropped)
{
    uint32_t most = 0;
    for (uint32_t at = 0; at < stages; at++) {
        uint32_t saved = 0, begin = 0, inner = 0;
        for (uint32_t s = 0; s <= at; s++)
            if (s == 0 || !(dropped >> (s - 1) & 1)) {
                saved++;
                begin = s;
            }
        for (uint32_t s = begin + 1; s <= at; s++)
            inner++;
        most = saved + inner > most ? saved + inner : most;
    }
    return most;
}

static uint32_t fewest(uint32_t stages, uint32_t count)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t mask = 0; mask < 1u << (stages - 1); mask++)
        if ((uint32_t)__builtin_popcount(mask) == count && most_inputs(stages, mask) < least)
            least = most_inputs(stages, mask);
    return least;
}

int main(void)
{
    struct test t;
    test_begin(&t);
    for (uint32_t stages = 1; stages <= STAGES; stages++)
        for (uint32_t count = 0; count < stages; count++) {
            bool dropped[STAGES] = {false};
            uint32_t mask = 0;
            const struct remat_path_steps steps = {.count = 0};
            const struct remat_path path = {
                .steps = &steps, .layer_count = stages, .unit_layers = 1};
            remat_path_twice(&path, count, dropped);
            CHECK(remat_path_twice_count(&path) == stages - 1, "%u stages", stages);
            for (uint32_t s = 0; s < stages; s++)
                mask |= (uint32_t)dropped[s] << s;
            CHECK(!dropped[stages - 1] && (uint32_t)__builtin_popcount(mask) == count,
                  "%u of %u stages: %x dropped", count, stages, mask);
            CHECK(most_inputs(stages, mask) == fewest(stages, count),
                  "%u of %u stages: %u inputs at once, %u are enough", count, stages,
                  most_inputs(stages, mask), fewest(stages, count));
        }
    return test_end(&t);
}
