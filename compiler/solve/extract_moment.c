/* The forward pass and the loss run the same kernels in every plan, and named kernels are the same
 * everywhere and run in graph order (schedule.h). So when one of these runs, it is known of many
 * others whether they have. */
#include "extract.h"

#include "extract_layers.h"

struct walker {
    struct remat_arena *arena;
    const struct remat_graph *graph;
    const struct remat_kernel_list *kernels;
    const struct remat_border_graph *border;
    bool *before, *after; /* by kernel: an ancestor, a descendant of the moment's kernel */
    struct remat_border_moment *out;
};

static uint32_t writer_of(const struct walker *w, uint32_t value)
{
    uint32_t node = w->graph->values[value].node;
    return remat_is_none(node) ? REMAT_NONE : w->kernels->kernel_of_node[node];
}

/* The root that an operand reads, REMAT_NONE where it only writes. */
static uint32_t read_root(const struct remat_kernel_operand *o)
{
    return o->access == REMAT_ACCESS_WRITE    ? REMAT_NONE
           : o->access == REMAT_ACCESS_UPDATE ? o->previous.i
                                              : o->value.i;
}

static bool is_early(const struct remat_fused_kernel *kernel)
{
    return kernel->phase == REMAT_PHASE_FORWARD || kernel->phase == REMAT_PHASE_LOSS;
}

static bool is_named(const struct remat_fused_kernel *kernel)
{
    return kernel->kind != REMAT_KERNEL_program && kernel->phase != REMAT_PHASE_OPTIMIZER;
}

/* What has run in every plan, and what has not: named kernels, and those of the forward pass and
 * the loss, run in graph order; producers run before their readers. Kernels come after what they
 * read, so one pass in each direction is enough. */
static void find_relatives(struct walker *w)
{
    uint32_t k = w->out->kernel;
    for (uint32_t j = 0; j < w->kernels->count; j++) {
        const struct remat_fused_kernel *kernel = &w->kernels->kernels[j];
        w->before[j] = j == k || (j < k && (is_early(kernel) || is_named(kernel)));
        w->after[j] = j == k || (j > k && is_named(kernel));
    }
    for (uint32_t j = 0; j < w->kernels->count; j++)
        for (uint32_t o = 0; o < w->kernels->kernels[j].operand_count; o++) {
            uint32_t root = read_root(&w->kernels->kernels[j].operands[o]);
            uint32_t writer = remat_is_none(root) ? REMAT_NONE : writer_of(w, root);
            w->after[j] |= !remat_is_none(writer) && w->after[writer];
        }
    for (uint32_t j = w->kernels->count; j-- > 0;)
        for (uint32_t o = 0; w->before[j] && o < w->kernels->kernels[j].operand_count; o++) {
            uint32_t root = read_root(&w->kernels->kernels[j].operands[o]);
            uint32_t writer = remat_is_none(root) ? REMAT_NONE : writer_of(w, root);
            if (!remat_is_none(writer))
                w->before[writer] = true;
        }
    w->before[k] = w->after[k] = false;
}

static void mark_wanted(struct walker *w)
{
    struct remat_border *b = &w->out->border;
    for (uint32_t i = 0; i < b->item_count; i++)
        b->items[i].wanted = false;
    for (uint32_t j = 0; j < w->kernels->count; j++)
        for (uint32_t o = 0; w->after[j] && o < w->kernels->kernels[j].operand_count; o++) {
            uint32_t root = read_root(&w->kernels->kernels[j].operands[o]);
            uint32_t item = remat_is_none(root) ? REMAT_NONE : w->border->item_of[root];
            if (!remat_is_none(item))
                b->items[item].wanted = true;
        }
}

/* New versions of states lie where the old ones do. */
static void mark_updates(const struct walker *w, bool *seen)
{
    for (uint32_t u = 0; u < w->graph->update_count; u++)
        seen[w->graph->updates[u].value.i] = true;
    for (uint32_t o = 0; o < w->graph->output_count; o++)
        seen[w->graph->outputs[o].i] = true;
}

/* A value that lies in memory during the run, once. */
static void count_live(struct walker *w, uint32_t root, bool *seen)
{
    if (remat_is_none(root) || seen[root] || remat_is_none(w->graph->values[root].node))
        return;
    seen[root] = true;
    w->out->other_bytes +=
        remat_align_up(remat_value_bytes(&w->graph->values[root]), REMAT_ALIGNMENT);
    if (!remat_is_none(w->border->item_of[root]))
        w->out->border.items[w->border->item_of[root]].bytes = 0;
}

/* What the kernel reads and, where it cannot write in place, what it writes; and what was written
 * before, is read after, and cannot be computed again. */
static remat_status count_others(struct walker *w)
{
    remat_status st = REMAT_OK;
    const struct remat_fused_kernel *kernel = &w->kernels->kernels[w->out->kernel];
    bool *seen;
    REMAT_NEW(w->arena, seen, w->graph->value_count);
    mark_updates(w, seen);
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        uint32_t root = read_root(&kernel->operands[o]);
        if (remat_is_none(root) && kernel->kind != REMAT_KERNEL_program)
            root = kernel->operands[o].value.i;
        count_live(w, root, seen);
    }
    for (uint32_t j = 0; j < w->kernels->count; j++)
        for (uint32_t o = 0; w->after[j] && o < w->kernels->kernels[j].operand_count; o++) {
            uint32_t root = read_root(&w->kernels->kernels[j].operands[o]);
            uint32_t writer = remat_is_none(root) ? REMAT_NONE : writer_of(w, root);
            if (!remat_is_none(writer) && w->before[writer] &&
                remat_is_none(w->border->item_of[root]))
                count_live(w, root, seen);
        }
fail:
    return st;
}

static void adjust_tasks(struct walker *w)
{
    struct remat_border *b = &w->out->border;
    bool early = is_early(&w->kernels->kernels[w->out->kernel]);
    for (uint32_t i = 0; i < b->item_count; i++) {
        struct remat_border_task *task = &b->tasks[b->items[i].task];
        uint32_t writer = writer_of(w, w->border->item_value[i].i);
        if (task->cost_ps > 0 && !w->before[writer] && writer != w->out->kernel)
            task->cost_ps = 0;
        if (task->cost_ps < 0 && !early) {
            w->out->before_ps += task->cost_ps;
            task->cost_ps = 0;
        }
        w->out->wanted_bytes += b->items[i].wanted ? b->items[i].bytes : 0;
    }
}

remat_status remat_extract_moment(struct remat_arena *arena, const struct remat_graph *graph,
                                  const struct remat_kernel_list *kernels,
                                  const struct remat_border_graph *border, uint32_t kernel,
                                  struct remat_border_moment *out)
{
    remat_status st = REMAT_OK;
    struct walker w = {arena, graph, kernels, border, NULL, NULL, out};
    *out = (struct remat_border_moment){.kernel = kernel, .border = border->least};
    REMAT_NEW(arena, out->border.items, border->item_count);
    memcpy(out->border.items, border->least.items, border->item_count * sizeof *out->border.items);
    REMAT_NEW(arena, out->border.tasks, border->least.task_count);
    memcpy(out->border.tasks, border->least.tasks,
           border->least.task_count * sizeof *out->border.tasks);
    REMAT_NEW(arena, w.before, kernels->count);
    REMAT_NEW(arena, w.after, kernels->count);
    find_relatives(&w);
    mark_wanted(&w);
    REMAT_TRY(count_others(&w));
    adjust_tasks(&w);
fail:
    return st;
}

/* A layer from which the kernel reads what no other one does, REMAT_NONE: there is none. */
static uint32_t layer_read(const struct remat_border_graph *border,
                           const struct remat_fused_kernel *kernel)
{
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        uint32_t root = read_root(&kernel->operands[o]);
        uint32_t item = remat_is_none(root) ? REMAT_NONE : border->item_of[root];
        if (!remat_is_none(item) && border->item_crossing[item] == REMAT_CROSSING_NONE &&
            !remat_is_none(border->item_region[item]))
            return border->item_region[item];
    }
    return REMAT_NONE;
}

remat_status remat_extract_moments(struct remat_arena *arena, const struct remat_graph *graph,
                                   const struct remat_kernel_list *kernels,
                                   const struct remat_border_graph *border, uint32_t *out_count,
                                   struct remat_border_moment **out)
{
    remat_status st = REMAT_OK;
    struct {
        struct remat_border_moment *items;
        size_t count, capacity;
    } list = {0};
    uint32_t last = REMAT_NONE; /* the layer that the backward pass reaches first */
    for (uint32_t k = 0; k < kernels->count; k++) {
        const struct remat_fused_kernel *kernel = &kernels->kernels[k];
        bool late = kernel->phase == REMAT_PHASE_BACKWARD;
        uint32_t layer = late ? layer_read(border, kernel) : REMAT_NONE;
        if (!remat_is_none(layer) && !remat_is_none(last) && layer != last)
            break;
        last = remat_is_none(layer) ? last : layer;
        if (kernel->phase != REMAT_PHASE_LOSS && !(late && kernel->kind != REMAT_KERNEL_program))
            continue;
        REMAT_PUSH(arena, &list, (struct remat_border_moment){0});
        REMAT_TRY(
            remat_extract_moment(arena, graph, kernels, border, k, &list.items[list.count - 1]));
    }
    *out_count = (uint32_t)list.count;
    *out = list.items;
fail:
    return st;
}
