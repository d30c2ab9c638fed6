/* SPDX-License-Identifier: Apache-2.0 */
#include "closure.h"

#include <assert.h>

/* Only what is read after the kernel is wanted. A value that no plan has made before, as in a
 * forward pass after a loss, takes no room yet. What pins recompute may be held: where the forward
 * pass has yet to read it, or after its rerun. */
static void mark_wanted(const struct remat_model *model, const struct remat_live *live,
                        struct remat_program_point *out)
{
    bool late = !remat_kernel_in_forward_pass(model->settled->kernels, out->kernel);
    for (uint32_t i = 0; i < out->border.item_count; i++) {
        remat_value root = model->item_value[i];
        struct remat_border_item *item = &out->border.items[i];
        bool made = remat_settled_writer(model->settled, root).i <= out->kernel.i;
        item->wanted = made && live->last[root.i].i > out->kernel.i;
        item->bytes = made ? item->bytes : 0;
        item->recomputed &= !late && live->last_early[root.i].i <= out->kernel.i;
    }
}

/* Candidates that the kernel reads or, if it is a built-in one, writes: each once. A fused kernel
 * writes those that are saved; one in place of what the kernel reads takes no room of its own. */
static void count_operands(const struct remat_model *model, struct remat_program_point *out)
{
    const struct remat_kernel_info *kernel = remat_kernel_at(model->settled->kernels, out->kernel);
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        remat_item item = model->item_of[kernel->operands[o].value.i];
        bool always = kernel->kind != REMAT_KERNEL_fused ||
                      !remat_is_none(remat_operand_read(&kernel->operands[o]).i);
        if (remat_is_none(item.i) || (!always && !remat_kernel_may_share(kernel, o)))
            continue;
        out->other_bytes += always ? out->border.items[item.i].bytes : 0;
        out->border.items[item.i].bytes = 0;
    }
}

/* After the loss the loads that recomputation spares may have been spared before: all of them are
 * granted, and not offered again. A held value has been stored: by the forward pass, or by its
 * rerun, which takes no less: in a host it still stores, and the forward pass, which makes the
 * value in any case, on the way to an output, is spared the store alone. */
static void grant_before(struct remat_arena *arena, struct remat_border *b)
{
    struct remat_border_work *work = b->work ? remat_copy(arena, b->work, 1, sizeof *work) : NULL;
    for (uint32_t t = 0; t < b->task_count; t++)
        if (b->tasks[t].cost_ps < 0) {
            b->constant_ps += b->tasks[t].cost_ps;
            if (work)
                work->constant_ps[work->task[t]] += b->tasks[t].cost_ps;
            b->tasks[t].cost_ps = 0;
        }
    b->work = work;
}

static struct remat_program_point describe(struct remat_arena *arena,
                                           const struct remat_model *model,
                                           const struct remat_live *live, remat_kernel_id kernel)
{
    const struct remat_border *border = &model->border;
    struct remat_program_point out = {
        .kernel = kernel, .border = *border, .other_bytes = live->fixed_bytes[kernel.i]};
    out.border.items = remat_copy(arena, border->items, border->item_count, sizeof *border->items);
    out.border.tasks = remat_copy(arena, border->tasks, border->task_count, sizeof *border->tasks);
    mark_wanted(model, live, &out);
    count_operands(model, &out);
    if (!remat_kernel_in_forward_pass(model->settled->kernels, kernel))
        grant_before(arena, &out.border);
    return out;
}

/* Every choice costs no more at `b` than at `a`, and leaves it no less room: nor does `b` bound
 * more. */
static bool covers(const struct remat_program_point *a, const struct remat_program_point *b)
{
    uint64_t most_bytes = b->other_bytes; /* beside what is kept at `a` */
    bool no_less = a->border.constant_ps >= b->border.constant_ps;
    for (uint32_t i = 0; i < b->border.item_count; i++) {
        const struct remat_border_item *at_a = &a->border.items[i], *at_b = &b->border.items[i];
        no_less &= at_a->wanted >= at_b->wanted && at_a->recomputed >= at_b->recomputed;
        most_bytes += at_b->bytes > at_a->bytes ? at_b->bytes - at_a->bytes : 0;
    }
    return no_less && most_bytes <= a->other_bytes;
}

/* A layer of which the kernel reads a value that no other reads; it may be none. */
static remat_layer layer_read(const struct remat_model *model,
                              const struct remat_kernel_info *kernel)
{
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        remat_value root = remat_operand_read(&kernel->operands[o]);
        remat_item item = remat_is_none(root.i) ? REMAT_NO_ITEM : model->item_of[root.i];
        if (!remat_is_none(item.i) && model->item_reach[item.i] == REMAT_REACH_LOCAL &&
            !remat_is_none(model->item_layer[item.i].i))
            return model->item_layer[item.i];
    }
    return REMAT_NO_LAYER;
}

struct remat_program_points remat_model_points(struct remat_arena *arena,
                                               const struct remat_model *model,
                                               const struct remat_live *live)
{
    assert(live->kernel_count == model->settled->kernels->count);
    const struct remat_kernel_list *kernels = model->settled->kernels;
    struct remat_program_points list = {0};
    remat_layer last = REMAT_NO_LAYER; /* the layer that the backward pass reaches first */
    for (remat_kernel_id k = {0}; k.i < kernels->count; k.i++) {
        const struct remat_kernel_info *kernel = &kernels->kernels[k.i];
        bool late = kernel->phase == REMAT_PHASE_BACKWARD;
        remat_layer layer = late ? layer_read(model, kernel) : REMAT_NO_LAYER;
        if (!remat_is_none(layer.i) && !remat_is_none(last.i) && layer.i != last.i)
            break;
        last = remat_is_none(layer.i) ? last : layer;
        if (!remat_kernel_has_phase(model->settled->graph, kernel, REMAT_PHASE_LOSS) &&
            (!late || kernel->kind == REMAT_KERNEL_fused))
            continue;
        if (model->places.divided && !model->places.fixed[k.i])
            continue;
        struct remat_program_point point = describe(arena, model, live, k);
        bool covered = false;
        for (size_t i = 0; i < list.count && !covered; i++)
            covered = covers(&list.items[i], &point);
        if (!covered)
            REMAT_PUSH(arena, &list, point);
    }
    return list;
}
