/* SPDX-License-Identifier: Apache-2.0 */
#include "divisions.h"

bool remat_divisions_planned(const struct remat_divisions *divisions)
{
    bool planned = false;
    for (uint32_t i = 0; i < divisions->count; i++)
        planned |= divisions->items[i].outcome == REMAT_DIVISION_PLANNED;
    return planned;
}

uint64_t remat_divisions_time_to_beat(const struct remat_divisions *divisions)
{
    uint64_t best[REMAT_DIVISIONS_BEST];
    memset(best, 0xff, sizeof best);
    for (uint32_t i = 0; i < divisions->count; i++) {
        uint64_t ns = divisions->items[i].step_ns;
        for (uint32_t k = 0;
             divisions->items[i].outcome == REMAT_DIVISION_PLANNED && k < REMAT_DIVISIONS_BEST; k++)
            if (ns < best[k]) {
                uint64_t next = best[k];
                best[k] = ns;
                ns = next;
            }
    }
    return best[REMAT_DIVISIONS_BEST - 1];
}

uint32_t remat_divisions_find_open(const struct remat_divisions *divisions)
{
    uint32_t open = divisions->count;
    for (uint32_t i = 0; i < divisions->count; i++) {
        const struct remat_division_trial *d = &divisions->items[i];
        if (d->outcome == REMAT_DIVISION_UNTRIED && d->bound.step_ns &&
            (open == divisions->count || d->bound.step_ns < divisions->items[open].bound.step_ns))
            open = i;
    }
    return open;
}

bool remat_divisions_has_new_reason(const struct remat_divisions *s, uint32_t i)
{
    bool first = s->items[i].outcome == REMAT_DIVISION_IMPOSSIBLE;
    for (uint32_t k = 0; first && k < i; k++)
        first = s->items[k].outcome != REMAT_DIVISION_IMPOSSIBLE ||
                strcmp(s->items[k].why, s->items[i].why) != 0;
    return first;
}

const char *remat_divisions_reason(const struct remat_divisions *s, uint32_t i)
{
    const char *why = s->items[i].why, *model = s->asked->model;
    size_t length = strlen(model);
    bool named = strncmp(why, model, length) == 0 && strncmp(why + length, ": ", 2) == 0;
    return why + (named ? length + 2 : 0);
}
