/* An item is made of others by way of values that stay inside its kernel. To save some of these
 * spares the item's inputs, of which there may be more bytes. It never does where each input has a
 * path of its own to the item, along values that are as large as all inputs whose paths they are
 * on: whatever cuts the inputs off is as large as they are. What is no smaller than the one item
 * that is made of it needs no room on a path: that could be saved in its place. */
#include "inner.h"

struct size {
    uint64_t bytes, aligned_bytes; /* what is moved, what is held */
};

struct inner {
    struct remat_arena *arena;
    const struct remat_traffic_table *table;
    const struct remat_decision *pinned;
    struct remat_border_graph *border;
    struct size *used; /* by value: by paths to the item at hand */
    bool *met;         /* by value: an item is made of it */
    uint32_t *seen, walk;
    struct {
        uint32_t *items;
        size_t count, capacity;
    } stack;
};

static uint32_t root_of(const struct inner *n, uint32_t item)
{
    return n->border->item_value[item].i;
}

static uint32_t writer_of(const struct inner *n, uint32_t item)
{
    return remat_traffic_writer(n->table, root_of(n, item));
}

static bool is_program(const struct inner *n, uint32_t item)
{
    return remat_traffic_programmed(n->table, root_of(n, item));
}

static struct size size_of(const struct inner *n, uint32_t v)
{
    const struct remat_value_info *info = &n->table->graph->values[v];
    return (struct size){remat_value_bytes(info),
                         remat_align_up(remat_storage_bytes(info), REMAT_ALIGNMENT)};
}

static struct size sum(struct size a, struct size b)
{
    return (struct size){a.bytes + b.bytes, a.aligned_bytes + b.aligned_bytes};
}

static bool fits(struct size a, struct size room)
{
    return a.bytes <= room.bytes && a.aligned_bytes <= room.aligned_bytes;
}

/* A value that the walk through a kernel goes on from. */
static bool is_inside(const struct inner *n, uint32_t v)
{
    bool saved = n->pinned->reasons[v] && n->pinned->actions[v] == REMAT_ACTION_SAVE;
    return remat_is_none(n->border->item_of[v]) && !saved && n->border->facts.forward[v];
}

/* --- walks --- */

static remat_status push_inputs(struct inner *n, uint32_t v)
{
    remat_status st = REMAT_OK;
    const struct remat_node_info *node = &n->table->graph->nodes[n->table->graph->values[v].node];
    for (uint32_t i = 0; i < remat_op_reads(node); i++) {
        uint32_t root = n->border->facts.root[node->inputs[i].i];
        if (n->seen[root] == n->walk)
            continue;
        n->seen[root] = n->walk;
        REMAT_PUSH(n->arena, &n->stack, root);
    }
fail:
    return st;
}

/* Calls `meet` for what is inside the kernel and the item is made of. */
static remat_status walk_up(struct inner *n, uint32_t item,
                            void (*meet)(struct inner *, uint32_t v, uint32_t item))
{
    remat_status st = REMAT_OK;
    n->stack.count = 0;
    n->walk++;
    REMAT_TRY(push_inputs(n, root_of(n, item)));
    for (size_t s = 0; s < n->stack.count; s++)
        if (is_inside(n, n->stack.items[s])) {
            meet(n, n->stack.items[s], item);
            REMAT_TRY(push_inputs(n, n->stack.items[s]));
        }
fail:
    return st;
}

static void find_made(struct inner *n, uint32_t v, uint32_t item)
{
    uint32_t node = n->table->graph->values[v].node;
    bool only = !n->met[v] && fits(size_of(n, root_of(n, item)), size_of(n, v));
    if (remat_is_none(n->table->kernels->kernel_of_node[node]))
        return; /* a constant or an index is never in memory */
    n->met[v] = true;
    n->border->made_of[v] = only ? item : REMAT_NONE;
}

static void clear(struct inner *n, uint32_t v, uint32_t item)
{
    (void)item;
    n->used[v] = (struct size){0};
}

/* --- paths --- */

static bool has_room(const struct inner *n, uint32_t v, struct size input)
{
    return fits(sum(n->used[v], input), size_of(n, v));
}

/* Room that is not there stands for the item. */
static void take(struct inner *n, uint32_t v, struct size input)
{
    if (!has_room(n, v, input))
        n->border->item_replaced[n->border->made_of[v]] = true;
    n->used[v] = sum(n->used[v], input);
}

/* From `v`, which is inside or the item at hand, up to `input`; takes the room on the way. */
static bool find_path(struct inner *n, uint32_t v, uint32_t input, struct size size)
{
    const struct remat_graph *g = n->table->graph;
    const struct remat_node_info *node = &g->nodes[g->values[v].node];
    for (uint32_t i = 0; i < remat_op_reads(node); i++) {
        uint32_t root = n->border->facts.root[node->inputs[i].i];
        if (root == input)
            return true;
        if (n->seen[root] == n->walk || !is_inside(n, root) ||
            (remat_is_none(n->border->made_of[root]) && !has_room(n, root, size)))
            continue;
        n->seen[root] = n->walk;
        if (find_path(n, root, input, size)) {
            take(n, root, size);
            return true;
        }
    }
    return false;
}

/* The largest input of the task that comes behind `last` by size and position; input_end: none. */
static uint32_t next_input(const struct inner *n, const struct remat_border_task *task,
                           uint32_t last)
{
    const uint32_t *inputs = n->border->least.inputs;
    const struct remat_border_item *items = n->border->least.items;
    uint32_t best = task->input_end;
    for (uint32_t e = task->input_begin; e < task->input_end; e++) {
        uint64_t bytes = items[inputs[e]].bytes;
        bool behind = last == task->input_end || bytes < items[inputs[last]].bytes ||
                      (bytes == items[inputs[last]].bytes && e > last);
        if (behind && (best == task->input_end || bytes > items[inputs[best]].bytes))
            best = e;
    }
    return best;
}

static remat_status find_paths(struct inner *n, uint32_t item, bool *loose)
{
    remat_status st = REMAT_OK;
    const struct remat_border_task *task = remat_extract_task(n->border, item);
    REMAT_TRY(walk_up(n, item, clear));
    for (uint32_t e = next_input(n, task, task->input_end); e < task->input_end;
         e = next_input(n, task, e)) {
        uint32_t input = root_of(n, n->border->least.inputs[e]);
        n->walk++;
        loose[e] = !find_path(n, root_of(n, item), input, size_of(n, input));
    }
fail:
    return st;
}

/* --- inputs without a path --- */

static void loosen(const struct remat_border *least, struct remat_border_task *task, uint32_t item)
{
    for (uint32_t e = task->input_begin; e < task->input_end; e++)
        least->loose[e] |= least->inputs[e] == item;
    for (uint32_t r = task->read_begin; r < task->read_end; r++)
        if (least->reads[r].item == item)
            least->reads[r--] = least->reads[--task->read_end];
}

/* An input is loose for all that its kernel makes or for nothing: paths to different items have
 * values in common. */
static void spread(struct inner *n, const bool *loose)
{
    const struct remat_border *least = &n->border->least;
    for (uint32_t i = 0; i < least->item_count; i++) {
        const struct remat_border_task *task = remat_extract_task(n->border, i);
        for (uint32_t e = task->input_begin; e < task->input_end; e++)
            for (uint32_t k = 0; loose[e] && k < least->item_count; k++)
                if (writer_of(n, k) == writer_of(n, i))
                    loosen(least, &least->tasks[least->items[k].task], least->inputs[e]);
    }
}

remat_status remat_extract_inner(struct remat_arena *arena, const struct remat_traffic_table *table,
                                 const struct remat_decision *pinned, uint32_t input_count,
                                 struct remat_border_graph *border)
{
    remat_status st = REMAT_OK;
    struct inner n = {.arena = arena, .table = table, .pinned = pinned, .border = border};
    uint32_t values = table->graph->value_count;
    bool *loose;
    REMAT_NEW(arena, n.met, values);
    REMAT_NEW(arena, border->made_of, values);
    REMAT_NEW(arena, border->item_replaced, border->item_count);
    memset(border->made_of, 0xff, values * sizeof *border->made_of);
    REMAT_NEW(arena, n.used, values);
    REMAT_NEW(arena, n.seen, values);
    REMAT_NEW(arena, loose, input_count);
    REMAT_NEW(arena, border->least.loose, input_count);
    for (uint32_t i = 0; i < border->item_count; i++)
        if (is_program(&n, i))
            REMAT_TRY(walk_up(&n, i, find_made));
    for (uint32_t i = 0; i < border->item_count; i++)
        if (is_program(&n, i))
            REMAT_TRY(find_paths(&n, i, loose));
    spread(&n, loose);
fail:
    return st;
}
