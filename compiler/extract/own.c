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
    uint32_t *seen; /* by item: the last one, and 1, whose sources it is among */
    uint32_t *used; /* by item: of how many that programs of the backward pass read it is a source,
                       itself included */
};

static bool is_program_item(const struct own *o, uint32_t item)
{
    return remat_traffic_programmed(o->table, o->border->item_value[item].i);
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
        const struct remat_border_task *task = remat_extract_task(o->border, source);
        for (uint32_t i = task->input_begin; is_program_item(o, source) && i < task->input_end; i++)
            REMAT_TRY(push_source(o, item, o->border->least.inputs[i]));
    }
fail:
    return st;
}

/* The largest of an item's inputs, by `alone_ps`, or the item where that is less. */
static int64_t source_ps(const struct own *o, uint32_t item, const int64_t *alone_ps)
{
    const struct remat_border_task *task = remat_extract_task(o->border, item);
    int64_t most = 0, read_ps = o->border->least.read_ps[item];
    for (uint32_t i = task->input_begin; i < task->input_end; i++) {
        uint32_t input = o->border->least.inputs[i];
        if (remat_border_needs(&o->border->least, i) && alone_ps[input] > most)
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
    REMAT_NEW(arena, alone_ps, border->item_count);
    for (uint32_t i = 0; i < border->item_count; i++)
        if (remat_traffic_first_late(table, border->item_value[i].i) != REMAT_NONE)
            REMAT_TRY(count_sources(&o, i));
    for (uint32_t i = 0; i < border->item_count; i++) {
        struct remat_traffic t = remat_traffic_of(table, border->item_value[i].i);
        uint32_t named = t.named ? table->first_node[t.first_named] : REMAT_NONE;
        int64_t made_ps = is_program_item(&o, i) ? source_ps(&o, i, alone_ps) : least->read_ps[i];
        alone_ps[i] = o.used[i] > 1 ? 0 : made_ps;
        if (parts->readers[i].joins && parts->readers[i].first_node > named)
            least->tasks[least->items[i].task].cost_ps += made_ps;
    }
fail:
    return st;
}
