/* SPDX-License-Identifier: Apache-2.0 */
#include "marginal.h"

#include "decision.h"

remat_status remat_border_follow(struct remat_arena *arena, const struct remat_border *border,
                                 const uint8_t *times, struct remat_border_point *point)
{
    remat_status st = REMAT_OK;
    struct demand {
        uint32_t item;
        uint8_t round;
    } * queue;
    uint32_t count = 0, inputs = 0;
    bool *run[REMAT_ROUNDS_MAX]; /* by task */
    for (uint32_t t = 0; t < border->task_count; t++)
        inputs += border->tasks[t].input_end - border->tasks[t].input_begin;
    REMAT_NEW(arena, queue, border->item_count + REMAT_ROUNDS_MAX * inputs);
    for (uint32_t r = 0; r < REMAT_ROUNDS_MAX; r++)
        REMAT_NEW(arena, run[r], border->task_count);
    for (uint32_t i = 0; i < border->item_count; i++)
        if (border->items[i].wanted)
            queue[count++] = (struct demand){i, REMAT_ROUNDS_MAX};
    while (count > 0) {
        struct demand d = queue[--count];
        const struct remat_border_task *t = &border->tasks[border->items[d.item].task];
        uint8_t round = times[d.item] < d.round ? times[d.item] : d.round;
        if (round == 0 || run[round - 1][border->items[d.item].task])
            continue;
        run[round - 1][border->items[d.item].task] = true;
        for (uint32_t e = t->input_begin; e < t->input_end; e++)
            queue[count++] = (struct demand){border->inputs[e], round};
    }
    point->run = run[0];
    point->again = run[1];
    for (uint32_t t = 0; t < border->task_count; t++) {
        bool first = run[0][t], second = run[1][t];
        point->run[t] = first || second;
        point->again[t] = first && second;
    }
fail:
    return st;
}

static remat_status cost_of(struct remat_arena *scratch, const struct remat_border *border,
                            const uint8_t *times, int64_t *out_ps)
{
    remat_status st = REMAT_OK;
    struct remat_border_point point = {0};
    REMAT_TRY(remat_border_follow(scratch, border, times, &point));
    REMAT_TRY(remat_border_measure(scratch, border, &point));
    *out_ps = point.cost_ps;
fail:
    remat_arena_reset(scratch);
    return st;
}

remat_status remat_border_marginals(struct remat_arena *arena, const struct remat_border *border,
                                    const uint8_t *times, const uint8_t *otherwise,
                                    int64_t *extra_ps)
{
    remat_status st = REMAT_OK;
    struct remat_arena scratch;
    uint8_t *other;
    int64_t as_is_ps, changed_ps;
    remat_arena_init(&scratch, arena->ctx);
    REMAT_NEW(arena, other, border->item_count);
    memcpy(other, times, border->item_count * sizeof *other);
    REMAT_TRY(cost_of(&scratch, border, times, &as_is_ps));
    for (uint32_t i = 0; i < border->item_count; i++) {
        other[i] = times[i] ? 0 : otherwise[i];
        REMAT_TRY(cost_of(&scratch, border, other, &changed_ps));
        extra_ps[i] = times[i] ? as_is_ps - changed_ps : changed_ps - as_is_ps;
        other[i] = times[i];
    }
fail:
    remat_arena_release(&scratch);
    return st;
}
