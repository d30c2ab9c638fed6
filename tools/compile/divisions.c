/* SPDX-License-Identifier: Apache-2.0 */
#include "divisions.h"

bool divisions_planned(const struct divisions *divisions)
{
    bool planned = false;
    for (uint32_t i = 0; i < divisions->count; i++)
        planned |= divisions->items[i].outcome == DIVISION_PLANNED;
    return planned;
}

uint64_t divisions_time_to_beat(const struct divisions *divisions)
{
    uint64_t best[DIVISIONS_BEST];
    memset(best, 0xff, sizeof best);
    for (uint32_t i = 0; i < divisions->count; i++) {
        uint64_t ns = divisions->items[i].step_ns;
        for (uint32_t k = 0; divisions->items[i].outcome == DIVISION_PLANNED && k < DIVISIONS_BEST;
             k++)
            if (ns < best[k]) {
                uint64_t next = best[k];
                best[k] = ns;
                ns = next;
            }
    }
    return best[DIVISIONS_BEST - 1];
}

uint32_t divisions_find_open(const struct divisions *divisions)
{
    uint32_t open = divisions->count;
    for (uint32_t i = 0; i < divisions->count; i++) {
        const struct division *d = &divisions->items[i];
        if (d->outcome == DIVISION_UNTRIED && d->bound.step_ns &&
            (open == divisions->count || d->bound.step_ns < divisions->items[open].bound.step_ns))
            open = i;
    }
    return open;
}

bool divisions_has_new_reason(const struct divisions *s, uint32_t i)
{
    bool first = s->items[i].outcome == DIVISION_IMPOSSIBLE;
    for (uint32_t k = 0; first && k < i; k++)
        first = s->items[k].outcome != DIVISION_IMPOSSIBLE ||
                strcmp(s->items[k].why, s->items[i].why) != 0;
    return first;
}

const char *divisions_reason(const struct divisions *s, uint32_t i)
{
    const char *why = s->items[i].why, *model = s->args->operands[0];
    size_t length = strlen(model);
    bool named = strncmp(why, model, length) == 0 && strncmp(why + length, ": ", 2) == 0;
    return why + (named ? length + 2 : 0);
}
