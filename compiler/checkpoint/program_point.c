/* SPDX-License-Identifier: Apache-2.0 */
/* The forward pass and the loss run the same kernels in every plan, and built-in kernels are the
 * same everywhere and run in graph order (schedule.h). So when one of these runs, it is known of
 * many others whether they have. */
#include "program_point.h"

#include "rebuild.h"

struct walker {
    struct remat_arena *scratch;
    const struct remat_settled *s;
    const struct remat_model *model;
    bool *before, *after; /* by node: it has run in every plan, it has not run in any */
    bool *read;           /* by root: something reads it that has not run */
    struct remat_program_point *out;
};

/* The root that an operand reads, none where it only writes. */
static remat_value read_root(const struct remat_kernel_operand *o)
{
    return o->access == REMAT_ACCESS_WRITE    ? REMAT_NO_VALUE
           : o->access == REMAT_ACCESS_UPDATE ? o->previous
                                              : o->value;
}

static bool is_builtin(const struct remat_fused_kernel *kernel)
{
    return kernel->kind != REMAT_KERNEL_fused && kernel->phase != REMAT_PHASE_OPTIMIZER;
}

/* Inlining changes fused kernels of the backward pass, so each node of these counts by itself.
 * Returns the kernel in which a node runs together with others in every plan, or NULL. */
static const struct remat_fused_kernel *whole_of(const struct walker *w, remat_node node)
{
    remat_kernel_id k = w->s->kernels->kernel_of_node[node.i];
    const struct remat_fused_kernel *kernel =
        remat_is_none(k.i) ? NULL : &w->s->kernels->kernels[k.i];
    return kernel && (remat_is_early(kernel->phase) || is_builtin(kernel)) ? kernel : NULL;
}

static void mark(const struct walker *w, bool *marks, remat_node node)
{
    const struct remat_fused_kernel *whole = whole_of(w, node);
    marks[node.i] = true;
    for (uint32_t n = 0; whole && n < whole->node_count; n++)
        marks[whole->nodes[n].i] = true;
}

/* Finds nodes that have run in every plan, and nodes that have not in any. Kernels but the
 * optimizer's run in the order of their last nodes. So a node behind a built-in kernel, or behind
 * the loss, runs after it; a node before it runs before it if it is in a kernel that every plan has
 * as a whole, or such a kernel needs it. */
static void find_relatives(struct walker *w)
{
    const struct remat_graph *g = w->s->graph;
    const struct remat_fused_kernel *at = remat_kernel_at(w->s->kernels, w->out->kernel);
    for (uint32_t j = 0; j < w->s->kernels->count; j++) {
        const struct remat_fused_kernel *kernel = &w->s->kernels->kernels[j];
        if (j <= w->out->kernel.i && (remat_is_early(kernel->phase) || is_builtin(kernel)))
            mark(w, w->before, kernel->nodes[0]);
        if (j == w->out->kernel.i || (j > w->out->kernel.i && is_builtin(kernel)))
            mark(w, w->after, kernel->nodes[0]);
    }
    for (remat_node n = {0}; n.i < g->node_count; n.i++) {
        const struct remat_node_info *node = &g->nodes[n.i];
        if (n.i > at->nodes[at->node_count - 1].i && node->phase == REMAT_PHASE_BACKWARD)
            w->after[n.i] = true;
        for (uint32_t i = 0; i < remat_op_reads(node); i++) {
            remat_node producer = remat_producer(g, node->inputs[i]);
            if (!remat_is_none(producer.i) && w->after[producer.i])
                mark(w, w->after, n);
        }
    }
    for (uint32_t n = g->node_count; n-- > 0;)
        for (uint32_t i = 0; w->before[n] && i < remat_op_reads(&g->nodes[n]); i++) {
            remat_node producer = remat_producer(g, g->nodes[n].inputs[i]);
            if (!remat_is_none(producer.i))
                mark(w, w->before, producer);
        }
    for (uint32_t n = 0; n < at->node_count; n++)
        w->before[at->nodes[n].i] = w->after[at->nodes[n].i] = false;
}

/* What runs in no kernel, as a cast that loads do, reads for its readers. */
static void find_read(struct walker *w)
{
    const struct remat_graph *g = w->s->graph;
    const remat_value *root = w->s->facts.root;
    for (uint32_t n = g->node_count; n-- > 0;) {
        const struct remat_node_info *node = &g->nodes[n];
        const struct remat_fused_kernel *whole = whole_of(w, (remat_node){n});
        bool inlined = remat_is_none(w->s->kernels->kernel_of_node[n].i);
        bool reads = inlined ? w->read[root[node->outputs[0].i].i] : w->after[n];
        for (uint32_t i = 0; reads && !whole && i < remat_op_reads(node); i++)
            w->read[root[node->inputs[i].i].i] = true;
        for (uint32_t o = 0; reads && whole && o < whole->operand_count; o++)
            if (!remat_is_none(read_root(&whole->operands[o]).i))
                w->read[read_root(&whole->operands[o]).i] = true;
    }
}

/* A value that no plan has made before, as in a forward pass behind a loss, takes no room yet. */
static void mark_wanted(struct walker *w)
{
    struct remat_border *b = &w->out->border;
    for (uint32_t i = 0; i < b->item_count; i++) {
        remat_value root = w->model->item_value[i];
        bool made = w->before[remat_producer(w->s->graph, root).i] ||
                    remat_settled_writer(w->s, root).i == w->out->kernel.i;
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
    for (remat_value v = {0}; v.i < w->s->graph->value_count; v.i++) {
        remat_node node = remat_producer(w->s->graph, v);
        if (w->read[v.i] && remat_is_none(w->model->item_of[v.i].i) && !remat_is_none(node.i) &&
            w->before[node.i] && !remat_is_none(w->s->kernels->kernel_of_node[node.i].i))
            count_live(w, v, seen);
    }
}

/* Behind the loss what recomputation spares may have been spared before: all of it is granted, and
 * not offered again. */
static void grant_before(struct walker *w)
{
    struct remat_border *b = &w->out->border;
    for (uint32_t t = 0; t < b->task_count; t++)
        if (b->tasks[t].cost_ps < 0) {
            b->constant_ps += b->tasks[t].cost_ps;
            b->tasks[t].cost_ps = 0;
        }
    for (uint32_t a = 0; a < b->arc_count; a++)
        if (b->arcs[a].from < b->item_count && b->arcs[a].ps > 0)
            b->arcs[a].ps = 0;
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
    out.border.arcs = remat_copy(arena, border->arcs, border->arc_count, sizeof *border->arcs);
    REMAT_NEW(w.scratch, w.before, w.s->graph->node_count);
    REMAT_NEW(w.scratch, w.after, w.s->graph->node_count);
    REMAT_NEW(w.scratch, w.read, w.s->graph->value_count);
    find_relatives(&w);
    find_read(&w);
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
