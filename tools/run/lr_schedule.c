/* SPDX-License-Identifier: Apache-2.0 */
#include "lr_schedule.h"

#include <assert.h>
#include <math.h>
#include <string.h>

const char *schedule_name(enum schedule_kind kind)
{
    static const char *const names[SCHEDULE_COUNT] = {"constant", "linear", "cosine"};
    return names[kind];
}

bool schedule_find(const char *name, enum schedule_kind *out)
{
    for (*out = SCHEDULE_CONSTANT; *out < SCHEDULE_COUNT; (*out)++)
        if (strcmp(schedule_name(*out), name) == 0)
            return true;
    return false;
}

float schedule_lr(const struct schedule *s, uint64_t step)
{
    assert(step > 0);
    if (step <= s->warmup)
        return (float)(s->lr * (double)step / (double)s->warmup);
    if (s->kind == SCHEDULE_CONSTANT)
        return (float)s->lr;
    double t = (double)(step - 1 - s->warmup) / (double)(s->steps - s->warmup);
    double left = t >= 1 ? 0 : s->kind == SCHEDULE_LINEAR ? 1 - t : (1 + cos(M_PI * t)) / 2;
    return (float)(s->min_lr + (s->lr - s->min_lr) * left);
}
