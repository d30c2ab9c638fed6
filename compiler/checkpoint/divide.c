/* SPDX-License-Identifier: Apache-2.0 */
#include "closure.h"

#include "amounts.h"
#include "overlap.h"

#include <math.h>

_Static_assert((int)REMAT_STREAMS <= (int)REMAT_STREAMS_MAX, "a weight for each stream");

static const uint8_t computation = 1u << REMAT_STREAM_COMPUTATION;

/* None: there is no such kernel, or one that inlines values may run before it. All work then counts
 * as that of the second half. */
static remat_kernel_id find_division(const struct remat_model *model)
{
    const struct remat_settled *s = model->settled;
    remat_kernel_id division = {0};
    while (division.i < s->kernels->count &&
           !(model->places.fixed[division.i] &&
             remat_kernel_has_phase(s->graph, remat_kernel_at(s->kernels, division),
                                    REMAT_PHASE_LOSS)))
        division.i++;
    for (remat_kernel_id k = {0}; k.i < s->kernels->count; k.i++)
        if (!remat_kernel_in_forward_pass(s->kernels, k) && s->inlines[k.i].count > 0 &&
            model->places.begin[k.i] <= division.i)
            return REMAT_NO_KERNEL;
    return division.i < s->kernels->count ? division : REMAT_NO_KERNEL;
}

static enum remat_half half_of(const struct remat_model *model, remat_kernel_id division,
                               remat_kernel_id kernel)
{
    if (remat_is_none(division.i) || remat_is_none(kernel.i))
        return REMAT_HALF_SECOND;
    return remat_places_half(&model->places, division, kernel);
}

/* Reruns follow the loss, and so does what gets a value that is kept. */
static void divide_items(const struct remat_model *model, remat_kernel_id division,
                         uint8_t *task_kind, uint8_t *put_kind, uint8_t *get_kind)
{
    const struct remat_settled *s = model->settled;
    for (uint32_t i = 0; i < model->item_count; i++) {
        const struct remat_border_item *item = &model->border.items[i];
        remat_kernel_id writer = remat_settled_writer(s, model->item_value[i]);
        task_kind[item->task.i] =
            remat_work_kind(REMAT_HALF_SECOND, model->places.streams[writer.i]);
        for (uint32_t w = item->way_begin; w < item->way_end; w++) {
            const struct remat_kernel_info *get =
                remat_kernel_at(&s->keeps.kernels, s->keeps.keeps[w].get);
            bool before = !remat_is_none(division.i) && writer.i < division.i &&
                          model->places.fixed[writer.i];
            put_kind[w] =
                remat_work_kind(before ? REMAT_HALF_FIRST : REMAT_HALF_SECOND, computation);
            get_kind[w] =
                remat_work_kind(REMAT_HALF_SECOND, remat_streams_occupied(s->keeps.graph, get));
        }
    }
}

void remat_model_divide(struct remat_arena *arena, struct remat_model *model,
                        const struct remat_divided_costs *costs)
{
    const struct remat_settled *s = model->settled;
    const struct remat_border *b = &model->border;
    remat_kernel_id division = find_division(model);
    struct remat_border_work *work;
    uint8_t *task, *charge, *arc, *put, *get;
    REMAT_NEW(arena, work, 1);
    REMAT_NEW(arena, task, b->task_count);
    REMAT_NEW(arena, charge, b->charge_count);
    REMAT_NEW(arena, arc, b->arc_count);
    REMAT_NEW(arena, put, b->way_count);
    REMAT_NEW(arena, get, b->way_count);
    divide_items(model, division, task, put, get);
    for (uint32_t e = 0; e < b->charge_count; e++)
        charge[e] = remat_work_kind(REMAT_HALF_SECOND, computation);
    for (uint32_t a = 0; a < b->arc_count; a++)
        arc[a] = remat_work_kind(half_of(model, division, costs->arc_at[a]), computation);
    *work = (struct remat_border_work){
        .task = task, .charge = charge, .arc = arc, .put = put, .get = get};
    for (remat_kernel_id k = {0}; k.i < s->kernels->count; k.i++) {
        uint8_t kind = remat_work_kind(half_of(model, division, k), model->places.streams[k.i]);
        work->constant_ps[kind] += remat_ps(floor(costs->kernel_ps[k.i]));
    }
    for (uint32_t half = 0; half < 2; half++)
        work->weights.of[half][REMAT_STREAM_COMPUTATION] = 1;
    model->border.work = work;
}
