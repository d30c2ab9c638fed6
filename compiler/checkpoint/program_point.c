/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels run in one order in every plan, but for the optimizer's, which run as soon as they can
 * (schedule.h); a decision changes what they inline and store, and inserts reruns. So when one
 * runs, it is known of the others whether they have. */
#include "program_point.h"

#include "rebuild.h"

struct walker {
    struct remat_arena *scratch;
    const struct remat_settled *s;
    const struct remat_model *model;
    bool *after; /* by kernel: it has not run in any plan */
    bool *read;  /* by root: something reads it that has not run */
    struct remat_program_point *out;
};

/* The root that an operand reads, none where it only writes. */
static remat_value read_root(const struct remat_kernel_operand *o)
{
    return o->access == REMAT_ACCESS_WRITE    ? REMAT_NO_VALUE
           : o->access == REMAT_ACCESS_UPDATE ? o->previous
                                              : o->value;
}

/* The kernel that writes a value, none of a value that no kernel writes. */
static remat_kernel_id writer_of(const struct walker *w, remat_value root)
{
    return remat_is_none(root.i) ? REMAT_NO_KERNEL : remat_settled_writer(w->s, root);
}

static bool is_made(const struct walker *w, remat_value root)
{
    remat_kernel_id writer = writer_of(w, root);
    return !remat_is_none(writer.i) && writer.i <= w->out->kernel.i;
}

/* Kernels behind it have not run: of the optimizer's, which come last in the list, those that need
 * what it or one that has not run writes. */
static void find_after(struct walker *w)
{
    for (uint32_t k = w->out->kernel.i + 1; k < w->s->kernels->count; k++) {
        const struct remat_fused_kernel *kernel = &w->s->kernels->kernels[k];
        w->after[k] = kernel->phase != REMAT_PHASE_OPTIMIZER;
        for (uint32_t o = 0; o < kernel->operand_count; o++) {
            remat_kernel_id writer = writer_of(w, read_root(&kernel->operands[o]));
            w->after[k] |=
                writer.i == w->out->kernel.i || (!remat_is_none(writer.i) && w->after[writer.i]);
        }
        for (uint32_t o = 0; w->after[k] && o < kernel->operand_count; o++)
            if (!remat_is_none(read_root(&kernel->operands[o]).i))
                w->read[read_root(&kernel->operands[o]).i] = true;
    }
}

/* A value that no plan has made before, as in a forward pass behind a loss, takes no room yet. */
static void mark_wanted(struct walker *w)
{
    struct remat_border *b = &w->out->border;
    for (uint32_t i = 0; i < b->item_count; i++) {
        remat_value root = w->model->item_value[i];
        bool made = is_made(w, root);
        b->items[i].wanted = made && w->read[root.i];
        b->items[i].bytes = made ? b->items[i].bytes : 0;
    }
}

/* A value that lies in memory during the run, once. */
static void count_live(struct walker *w, remat_value root, bool *seen)
{
    if (remat_is_none(root.i) || seen[root.i] || remat_is_none(remat_producer(w->s->graph, root).i))
        return;
    remat_item item = w->model->item_of[root.i];
    seen[root.i] = true;
    w->out->other_bytes +=
        remat_align_up(remat_storage_bytes(&w->s->graph->values[root.i]), REMAT_ALIGNMENT);
    if (!remat_is_none(item.i))
        w->out->border.items[item.i].bytes = 0;
}

/* The kernel's inputs and, where it cannot write in place, its outputs; and values that were made
 * before, are read after, and cannot be recomputed. New versions of states lie where the old ones
 * do. */
static void count_others(struct walker *w)
{
    const struct remat_fused_kernel *kernel = remat_kernel_at(w->s->kernels, w->out->kernel);
    bool *seen = remat_find_kept(w->scratch, w->s->graph);
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        remat_value root = read_root(&kernel->operands[o]);
        if (remat_is_none(root.i) && kernel->kind != REMAT_KERNEL_fused)
            root = kernel->operands[o].value;
        count_live(w, root, seen);
    }
    for (remat_value v = {0}; v.i < w->s->graph->value_count; v.i++)
        if (w->read[v.i] && remat_is_none(w->model->item_of[v.i].i) && is_made(w, v) &&
            writer_of(w, v).i != w->out->kernel.i)
            count_live(w, v, seen);
}

/* Behind the loss the loads that recomputation spares may have been spared before: all of them are
 * granted, and not offered again. A held value has been stored: by the forward pass, or by its
 * rerun, which takes no less. */
static void grant_before(struct walker *w)
{
    struct remat_border *b = &w->out->border;
    for (uint32_t t = 0; t < b->task_count; t++)
        if (b->tasks[t].cost_ps < 0) {
            b->constant_ps += b->tasks[t].cost_ps;
            b->tasks[t].cost_ps = 0;
        }
}

static struct remat_program_point describe(struct remat_arena *arena,
                                           const struct remat_model *model, remat_kernel_id kernel)
{
    const struct remat_border *border = &model->border;
    struct remat_program_point out = {.kernel = kernel, .border = *border};
    struct walker w = {.scratch = remat_scratch_open(arena->ctx),
                       .s = model->settled,
                       .model = model,
                       .out = &out};
    out.border.items = remat_copy(arena, border->items, border->item_count, sizeof *border->items);
    out.border.tasks = remat_copy(arena, border->tasks, border->task_count, sizeof *border->tasks);
    REMAT_NEW(w.scratch, w.after, w.s->kernels->count);
    REMAT_NEW(w.scratch, w.read, w.s->graph->value_count);
    find_after(&w);
    mark_wanted(&w);
    count_others(&w);
    if (!remat_kernel_is_early(w.s->kernels, kernel))
        grant_before(&w);
    remat_scratch_close(w.scratch);
    return out;
}

/* A layer of which the kernel reads a value that no other reads, REMAT_NONE: there is none. */
static uint32_t layer_read(const struct remat_model *model, const struct remat_fused_kernel *kernel)
{
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        remat_value root = read_root(&kernel->operands[o]);
        remat_item item = remat_is_none(root.i) ? REMAT_NO_ITEM : model->item_of[root.i];
        if (!remat_is_none(item.i) && model->item_crossing[item.i] == REMAT_CROSSING_NONE &&
            !remat_is_none(model->item_region[item.i]))
            return model->item_region[item.i];
    }
    return REMAT_NONE;
}

struct remat_program_points remat_model_points(struct remat_arena *arena,
                                               const struct remat_model *model)
{
    const struct remat_kernel_list *kernels = model->settled->kernels;
    struct remat_program_points list = {0};
    uint32_t last = REMAT_NONE; /* the layer that the backward pass reaches first */
    for (remat_kernel_id k = {0}; k.i < kernels->count; k.i++) {
        const struct remat_fused_kernel *kernel = &kernels->kernels[k.i];
        bool late = kernel->phase == REMAT_PHASE_BACKWARD;
        uint32_t layer = late ? layer_read(model, kernel) : REMAT_NONE;
        if (!remat_is_none(layer) && !remat_is_none(last) && layer != last)
            break;
        last = remat_is_none(layer) ? last : layer;
        if (kernel->phase == REMAT_PHASE_LOSS || (late && kernel->kind != REMAT_KERNEL_fused))
            REMAT_PUSH(arena, &list, describe(arena, model, k));
    }
    return list;
}
