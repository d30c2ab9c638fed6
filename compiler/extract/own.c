/* Programs that read an item after a named kernel need not: each saves the item's bytes. The kernel
 * that makes it for them reads its sources, at least the largest. That may have been read there for
 * something else before, unless nothing else which programs of the backward pass read is made from
 * it. */
#include "own.h"

struct own {
    struct remat_arena *arena;
    const struct remat_traffic_table *table;
    const struct remat_border_graph *border;
    struct id_list {
        uint32_t *items;
        size_t count, capacity;
    } sources;
    uint32_t *seen;  /* by item: the last one, and 1, whose sources it is among */
    uint32_t *used;  /* by item: of how many that programs of the backward pass read it is a source,
                        itself included */
    uint32_t *until; /* by item: tasks that are charged for it, or for what it is made of, have run
                        before this node; 0: no task is, REMAT_NONE: at any time */
};

static bool is_program(const struct own *o, uint32_t kernel)
{
    return o->table->kernels->kernels[kernel].kind == REMAT_KERNEL_program;
}

static bool is_program_item(const struct own *o, uint32_t item)
{
    return is_program(o, remat_traffic_writer(o->table, o->border->item_value[item].i));
}

static const struct remat_border_task *task_of(const struct own *o, uint32_t item)
{
    return &o->border->least.tasks[o->border->least.items[item].task];
}

static remat_status push_source(struct own *o, uint32_t of, uint32_t item)
{
    remat_status st = REMAT_OK;
    if (o->seen[item] != of + 1) {
        o->seen[item] = of + 1;
        o->used[item]++;
        REMAT_PUSH(o->arena, &o->sources, item);
    }
fail:
    return st;
}

/* Counts the item and what programs make it from. */
static remat_status count_sources(struct own *o, uint32_t item)
{
    remat_status st = REMAT_OK;
    o->sources.count = 0;
    REMAT_TRY(push_source(o, item, item));
    for (size_t s = 0; s < o->sources.count; s++) {
        uint32_t source = o->sources.items[s];
        const struct remat_border_task *task = task_of(o, source);
        for (uint32_t i = task->input_begin; is_program_item(o, source) && i < task->input_end; i++)
            REMAT_TRY(push_source(o, item, o->border->least.inputs[i]));
    }
fail:
    return st;
}

static bool is_read_by_late_program(const struct own *o, uint32_t item)
{
    const struct remat_traffic_table *t = o->table;
    uint32_t root = o->border->item_value[item].i;
    for (uint32_t r = t->reader_begin[root]; r < t->reader_begin[root + 1]; r++)
        if (!remat_is_early(&t->kernels->kernels[t->readers[r]]) && is_program(o, t->readers[r]))
            return true;
    return false;
}

static uint32_t later(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* A named kernel that reads what a task makes runs behind the kernel that is charged. */
static void find_until(struct own *o)
{
    const struct remat_border *least = &o->border->least;
    for (uint32_t i = 0; i < least->item_count; i++) {
        struct remat_traffic t = remat_traffic_of(o->table, o->border->item_value[i].i);
        uint32_t ends = t.named ? o->table->first_node[t.first_named] : REMAT_NONE;
        for (uint32_t r = task_of(o, i)->read_begin; r < task_of(o, i)->read_end; r++)
            o->until[least->reads[r].item] = later(o->until[least->reads[r].item], ends);
    }
    for (uint32_t i = 0; i < least->item_count; i++)
        for (uint32_t u = task_of(o, i)->input_begin;
             is_program_item(o, i) && u < task_of(o, i)->input_end; u++)
            o->until[i] = later(o->until[i], o->until[least->inputs[u]]);
}

/* The largest of an item's inputs that no task is charged for from node `from` on, by `alone_ps`,
 * or the item where that is less. */
static int64_t source_ps(const struct own *o, uint32_t item, uint32_t from, const int64_t *alone_ps)
{
    const struct remat_border_task *task = task_of(o, item);
    int64_t most = 0, read_ps = o->border->least.read_ps[item];
    for (uint32_t i = task->input_begin; i < task->input_end; i++) {
        uint32_t input = o->border->least.inputs[i];
        if (remat_border_needs(&o->border->least, i) && o->until[input] <= from &&
            alone_ps[input] > most)
            most = alone_ps[input];
    }
    return most < read_ps ? most : read_ps;
}

remat_status remat_extract_own(struct remat_arena *arena, const struct remat_traffic_table *table,
                               const struct remat_parts *parts, struct remat_border_graph *border)
{
    remat_status st = REMAT_OK;
    struct own o = {.arena = arena, .table = table, .border = border};
    struct remat_border *least = &border->least;
    int64_t *alone_ps; /* by item: the least that is read of it, or of what it is made from, for a
                          single value */
    REMAT_NEW(arena, o.seen, border->item_count);
    REMAT_NEW(arena, o.used, border->item_count);
    REMAT_NEW(arena, o.until, border->item_count);
    REMAT_NEW(arena, alone_ps, border->item_count);
    find_until(&o);
    for (uint32_t i = 0; i < border->item_count; i++)
        if (is_read_by_late_program(&o, i))
            REMAT_TRY(count_sources(&o, i));
    for (uint32_t i = 0; i < border->item_count; i++) {
        bool program = is_program_item(&o, i);
        struct remat_traffic t = remat_traffic_of(table, border->item_value[i].i);
        uint32_t named = t.named ? table->first_node[t.first_named] : REMAT_NONE;
        int64_t made_ps = program ? source_ps(&o, i, REMAT_NONE, alone_ps) : least->read_ps[i];
        alone_ps[i] = o.used[i] > 1 ? 0 : made_ps;
        made_ps = program ? source_ps(&o, i, named, alone_ps) : 0;
        if (t.named && parts->readers[i].joins && parts->readers[i].first_node > named)
            least->tasks[least->items[i].task].cost_ps += made_ps;
    }
fail:
    return st;
}
