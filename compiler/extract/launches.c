/* A clone that a named kernel of the backward pass reads is in memory by then, so the kernel that
 * makes it is closed. In a kernel nodes are connected by what they read. Beside the clone there may
 * be those of neighbours: of what its task reads, of what reads it, of what one kernel writes
 * together with it; of their neighbours; and nodes of the backward pass that read one of them. So
 * where no neighbour runs, and such nodes come later, the kernel is there for the clone alone. A
 * neighbour that leads to nothing but other neighbours does not matter; one that may count as saved
 * and run is none to go by. */
#include "launches.h"

#include "ops.h"

struct neighbours { /* of one item */
    uint32_t *items;
    size_t count, capacity;
    uint32_t *seen, search; /* by item: the last search that found it */
};

struct launches {
    struct remat_arena *arena;
    const struct remat_traffic_table *table;
    const struct remat_border_graph *border;
    uint32_t *reader_begin, *readers; /* by item: those of programs whose tasks read it */
    struct neighbours own, theirs;
};

static const struct remat_fused_kernel *writer_of(const struct launches *l, uint32_t item)
{
    return &l->table->kernels
                ->kernels[remat_traffic_writer(l->table, l->border->item_value[item].i)];
}

static bool is_program(const struct launches *l, uint32_t item)
{
    return remat_traffic_programmed(l->table, l->border->item_value[item].i);
}

static bool runs_never(const struct launches *l, uint32_t item)
{
    return l->border->least.items[item].kept || remat_extract_task(l->border, item)->forbidden;
}

/* Kernels of column reductions also have what is not connected. */
static bool reduces_columns(const struct launches *l, uint32_t item)
{
    const struct remat_fused_kernel *writer = writer_of(l, item);
    for (uint32_t n = 0; n < writer->node_count; n++)
        if (remat_op_has(l->table->graph->nodes[writer->nodes[n].i].op, REMAT_FACT_COLUMN_REDUCE))
            return true;
    return false;
}

/* The first node of the backward pass that may be in one kernel with a clone of the item because it
 * reads that; REMAT_NONE: there is none. */
static uint32_t first_host(const struct launches *l, uint32_t item)
{
    return remat_traffic_first_late(l->table, l->border->item_value[item].i);
}

/* --- neighbours --- */

static void visit_inputs(struct launches *l, uint32_t *at)
{
    const struct remat_border *least = &l->border->least;
    for (uint32_t i = 0; i < least->item_count; i++) {
        const struct remat_border_task *task = remat_extract_task(l->border, i);
        for (uint32_t e = task->input_begin; is_program(l, i) && e < task->input_end; e++) {
            if (l->readers)
                l->readers[at[least->inputs[e]]] = i;
            at[least->inputs[e]]++;
        }
    }
}

static remat_status find_readers(struct launches *l)
{
    remat_status st = REMAT_OK;
    uint32_t count = l->border->item_count, *at;
    REMAT_NEW(l->arena, at, count + 1);
    REMAT_NEW(l->arena, l->reader_begin, count + 1);
    visit_inputs(l, at);
    for (uint32_t i = 0; i < count; i++)
        l->reader_begin[i + 1] = l->reader_begin[i] + at[i];
    memcpy(at, l->reader_begin, (count + 1) * sizeof *at);
    REMAT_NEW(l->arena, l->readers, l->reader_begin[count] + 1);
    visit_inputs(l, at);
fail:
    return st;
}

static remat_status push(const struct launches *l, struct neighbours *out, uint32_t of,
                         uint32_t item)
{
    remat_status st = REMAT_OK;
    if (item != of && out->seen[item] != out->search && is_program(l, item) &&
        !runs_never(l, item)) {
        out->seen[item] = out->search;
        REMAT_PUSH(l->arena, out, item);
    }
fail:
    return st;
}

static remat_status find_neighbours(const struct launches *l, uint32_t item, struct neighbours *out)
{
    remat_status st = REMAT_OK;
    const struct remat_fused_kernel *writer = writer_of(l, item);
    const struct remat_border_task *task = remat_extract_task(l->border, item);
    out->count = 0;
    out->search++;
    for (uint32_t e = task->input_begin; e < task->input_end; e++)
        REMAT_TRY(push(l, out, item, l->border->least.inputs[e]));
    for (uint32_t r = l->reader_begin[item]; r < l->reader_begin[item + 1]; r++)
        REMAT_TRY(push(l, out, item, l->readers[r]));
    for (uint32_t o = 0; o < writer->operand_count; o++) {
        uint32_t other = l->border->item_of[writer->operands[o].value.i];
        if (writer->operands[o].access == REMAT_ACCESS_WRITE && !remat_is_none(other))
            REMAT_TRY(push(l, out, item, other));
    }
fail:
    return st;
}

/* Whether the neighbour, when it runs, adds nothing to the item's kernel, which is closed by node
 * `closed`, and has no launch of its own to share. */
static remat_status leads_nowhere(struct launches *l, uint32_t item, uint32_t neighbour,
                                  uint32_t closed, bool *out)
{
    remat_status st = REMAT_OK;
    *out = first_host(l, neighbour) >= closed && remat_is_none(l->border->item_named[neighbour]);
    REMAT_TRY(find_neighbours(l, neighbour, &l->theirs));
    for (size_t n = 0; n < l->theirs.count; n++)
        *out &= l->theirs.items[n] == item || l->own.seen[l->theirs.items[n]] == l->own.search;
fail:
    return st;
}

static remat_status find_launch(struct launches *l, uint32_t item, int64_t launch_ps,
                                struct remat_border_task *task)
{
    remat_status st = REMAT_OK;
    uint32_t closed = l->border->item_named[item], count = 0;
    if (remat_is_none(closed) || first_host(l, item) < closed || reduces_columns(l, item))
        return REMAT_OK;
    task->launch_with = REMAT_NONE;
    REMAT_TRY(find_neighbours(l, item, &l->own));
    for (size_t n = 0; n < l->own.count; n++) {
        bool nowhere;
        REMAT_TRY(leads_nowhere(l, item, l->own.items[n], closed, &nowhere));
        if (!nowhere) {
            task->launch_with = l->own.items[n];
            count++;
        }
    }
    if (count == 0 || (count == 1 && !l->border->item_replaced[task->launch_with]))
        task->launch_ps = launch_ps;
fail:
    return st;
}

remat_status remat_extract_launches(struct remat_arena *arena,
                                    const struct remat_traffic_table *table, int64_t launch_ps,
                                    struct remat_border_graph *border)
{
    remat_status st = REMAT_OK;
    struct launches l = {.arena = arena, .table = table, .border = border};
    REMAT_NEW(arena, l.own.seen, border->item_count);
    REMAT_NEW(arena, l.theirs.seen, border->item_count);
    REMAT_NEW(arena, border->item_named, border->item_count);
    for (uint32_t i = 0; i < border->item_count; i++) {
        struct remat_traffic t = remat_traffic_of(table, border->item_value[i].i);
        border->item_named[i] = t.named ? table->first_node[t.first_named] : REMAT_NONE;
    }
    REMAT_TRY(find_readers(&l));
    for (uint32_t i = 0; i < border->item_count; i++)
        if (is_program(&l, i))
            REMAT_TRY(
                find_launch(&l, i, launch_ps, &border->least.tasks[border->least.items[i].task]));
fail:
    return st;
}
