/* SPDX-License-Identifier: Apache-2.0 */
/* The rise, the two ways to fall and what comes after, at places where the value is known by
 * itself; names that are found again. */
#include "check.h"
#include "lr_schedule.h"

#include <math.h>

static void expect(const struct schedule *s, uint64_t step, double lr)
{
    float found = schedule_lr(s, step);
    CHECK(fabs((double)found - lr) <= 1e-7 * lr, "%s, step %llu: %g, expected %g",
          schedule_name(s->kind), (unsigned long long)step, (double)found, lr);
}

int main(void)
{
    struct schedule s = {SCHEDULE_CONSTANT, 0.5, 0.1, 0, 20};
    expect(&s, 1, 0.5);
    expect(&s, 1000000000, 0.5);
    for (int kind = SCHEDULE_CONSTANT; kind < SCHEDULE_COUNT; kind++) {
        s = (struct schedule){(enum schedule_kind)kind, 0.5, 0.1, 10, 30};
        for (uint64_t step = 1; step <= 10; step++)
            expect(&s, step, 0.05 * (double)step);
        expect(&s, 11, 0.5);
        expect(&s, 21, kind == SCHEDULE_CONSTANT ? 0.5 : 0.3); /* half of the way */
        for (uint64_t step = 31; step <= 1000000000; step *= 31)
            expect(&s, step, kind == SCHEDULE_CONSTANT ? 0.5 : 0.1);
        for (uint64_t step = 11; step < 40; step++)
            CHECK(schedule_lr(&s, step) >= schedule_lr(&s, step + 1), "it rises at %llu",
                  (unsigned long long)step);
        enum schedule_kind found;
        CHECK(schedule_find(schedule_name(s.kind), &found) && found == s.kind, "%s",
              schedule_name(s.kind));
        CHECK(!schedule_find("cos", &found), "no name");
    }
    s = (struct schedule){SCHEDULE_LINEAR, 1, 0, 0, 4};
    expect(&s, 2, 0.75);
    s.kind = SCHEDULE_COSINE;
    expect(&s, 2, (1 + sqrt(0.5)) / 2);
    return check_exit();
}
