#include "marginal.h"

remat_status remat_border_follow(struct remat_arena *scratch, const struct remat_border *border,
                                 const bool *saved, bool *run)
{
    remat_status st = REMAT_OK;
    uint32_t *queue, count = 0, inputs = 0;
    for (uint32_t t = 0; t < border->task_count; t++)
        inputs += border->tasks[t].input_end - border->tasks[t].input_begin;
    REMAT_NEW(scratch, queue, border->item_count + inputs);
    memset(run, 0, border->task_count * sizeof *run);
    for (uint32_t i = 0; i < border->item_count; i++)
        if (border->items[i].wanted)
            queue[count++] = i;
    while (count > 0) {
        uint32_t item = queue[--count], task = border->items[item].task;
        const struct remat_border_task *t = &border->tasks[task];
        if (run[task] || saved[item])
            continue;
        run[task] = true;
        for (uint32_t e = t->input_begin; e < t->input_end; e++)
            queue[count++] = border->inputs[e];
    }
fail:
    return st;
}

static remat_status cost_of(struct remat_arena *scratch, const struct remat_border *border,
                            const bool *saved, int64_t *out_ps)
{
    remat_status st = REMAT_OK;
    struct remat_border_point point = {0};
    REMAT_NEW(scratch, point.run, border->task_count);
    REMAT_TRY(remat_border_follow(scratch, border, saved, point.run));
    REMAT_TRY(remat_border_measure(scratch, border, &point));
    *out_ps = point.cost_ps;
fail:
    remat_arena_reset(scratch);
    return st;
}

remat_status remat_border_marginals(struct remat_arena *arena, const struct remat_border *border,
                                    const bool *saved, int64_t *extra_ps)
{
    remat_status st = REMAT_OK;
    struct remat_arena scratch;
    bool *other;
    int64_t as_is_ps, changed_ps;
    remat_arena_init(&scratch, arena->ctx);
    REMAT_NEW(arena, other, border->item_count);
    memcpy(other, saved, border->item_count * sizeof *other);
    REMAT_TRY(cost_of(&scratch, border, saved, &as_is_ps));
    for (uint32_t i = 0; i < border->item_count; i++) {
        other[i] = !saved[i];
        REMAT_TRY(cost_of(&scratch, border, other, &changed_ps));
        extra_ps[i] = saved[i] ? changed_ps - as_is_ps : as_is_ps - changed_ps;
        other[i] = saved[i];
    }
fail:
    remat_arena_release(&scratch);
    return st;
}
