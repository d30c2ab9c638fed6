/* SPDX-License-Identifier: Apache-2.0 */
/* From groups of nodes (fuse_groups.h) to kernels: when it is known which values are read
 * elsewhere, each group's body is written, or found among those written before. */
#include "fuse.h"

#include "fuse_groups.h"
#include "kernel_body.h"

/* --- what is asked of every node --- */

static uint32_t facts_of(const struct remat_graph *g, const struct remat_node_info *node)
{
    const struct remat_value_info *first = &g->values[node->outputs[0].i];
    uint32_t facts = remat_op_info(node->op)->facts;
    if (node->op == REMAT_OP_constant || node->op == REMAT_OP_column)
        facts |= REMAT_FUSE_INLINE;
    if (node->op == REMAT_OP_column)
        facts |= REMAT_FUSE_COLUMN;
    if (node->op == REMAT_OP_cast)
        facts |= REMAT_FUSE_CAST;
    if (node->op == REMAT_OP_cast && first->dtype == REMAT_F32)
        facts |= REMAT_FUSE_WIDENS;
    if (first->role != REMAT_ROLE_ACTIVATION)
        facts |= REMAT_FUSE_ROLE;
    return facts;
}

const struct remat_shape *remat_fuse_space(const struct remat_graph *g,
                                           const struct remat_node_info *node)
{
    static const struct remat_shape scalar = {.rank = 1, .dims = {1}};
    bool reduces = remat_op_has(node->op, REMAT_FACT_ROW_REDUCE | REMAT_FACT_COLUMN_REDUCE);
    const struct remat_shape *shape =
        &g->values[(reduces ? node->inputs[0] : node->outputs[0]).i].shape;
    return shape->rank ? shape : &scalar;
}

bool remat_fuse_is_row(const struct remat_shape *shape, const struct remat_shape *space)
{
    if (shape->rank != space->rank || shape->dims[shape->rank - 1] != 1)
        return false;
    return memcmp(shape->dims, space->dims, (shape->rank - 1) * sizeof *shape->dims) == 0;
}

/* What is loaded once for several columns is not stored in place. */
enum remat_fuse_way remat_fuse_way(const struct remat_shape *needed, uint32_t facts,
                                   const struct remat_shape *space, bool rows, bool columns)
{
    const uint32_t whole = REMAT_FACT_ROW_REDUCE | REMAT_FACT_COLUMN_REDUCE | REMAT_FACT_IN_PLACE;
    if (remat_shape_equal(needed, space))
        return columns && (facts & REMAT_FACT_ROW_REDUCE) ? REMAT_FUSE_NOT : REMAT_FUSE_WHOLE;
    return rows && !columns && !(facts & whole) && remat_fuse_is_row(needed, space)
               ? REMAT_FUSE_ROWS
               : REMAT_FUSE_NOT;
}

struct remat_fuse_facts remat_fuse_facts_create(struct remat_arena *arena,
                                                const struct remat_graph *graph)
{
    struct remat_fuse_facts out = {0};
    REMAT_NEW(arena, out.nodes, graph->node_count);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[n];
        const struct remat_shape *space = remat_fuse_space(graph, node);
        out.nodes[n] = (struct remat_fuse_node){
            .facts = facts_of(graph, node),
            .space = space,
            .elements = remat_shape_elements(space),
            .output = node->outputs[0],
            .input_count = node->input_count,
            .inputs = node->inputs,
            .output_count = node->output_count,
            .bucket = node->phase == REMAT_PHASE_LOSS ? REMAT_PHASE_FORWARD : node->phase};
    }
    for (uint32_t o = 0; o < graph->output_count; o++)
        REMAT_PUSH(arena, &out.lasting, graph->outputs[o]);
    for (uint32_t u = 0; u < graph->update_count; u++)
        REMAT_PUSH(arena, &out.lasting, graph->updates[u].value);
    for (remat_value v = {0}; v.i < graph->value_count; v.i++)
        if (graph->values[v.i].role == REMAT_ROLE_GRADIENT)
            REMAT_PUSH(arena, &out.lasting, v);
    return out;
}

/* --- kernels written before: those of one first node are a list, the latest found first --- */

void remat_kernel_memo_init(struct remat_kernel_memo *memo, struct remat_arena *arena,
                            const struct remat_graph *graph)
{
    *memo = (struct remat_kernel_memo){.arena = arena};
    REMAT_NEW(arena, memo->first, graph->node_count);
    memo->values = remat_fuse_values_create(arena, graph);
}

static const struct remat_fused_kernel *find_written(struct remat_kernel_memo *memo,
                                                     remat_node first, const uint32_t *words,
                                                     uint32_t count)
{
    struct remat_memo_entry *entry, **link = &memo->first[first.i];
    for (; (entry = *link); link = &entry->next) {
        if (entry->word_count != count || memcmp(entry->words, words, count * sizeof *words) != 0)
            continue;
        *link = entry->next;
        entry->next = memo->first[first.i];
        memo->first[first.i] = entry;
        return &entry->kernel;
    }
    return NULL;
}

static void keep_written(struct remat_kernel_memo *memo, const uint32_t *words, uint32_t count,
                         struct remat_fused_kernel *kernel)
{
    kernel->number = ++memo->count;
    struct remat_memo_entry **first = &memo->first[kernel->nodes[0].i];
    struct remat_memo_entry *entry =
        remat_room(memo->arena, 1, sizeof *entry + count * sizeof *words);
    entry->next = *first;
    entry->kernel = *kernel;
    entry->word_count = count;
    memcpy(entry->words, words, count * sizeof *words);
    *first = entry;
}

/* --- kernels --- */

struct writer {
    struct remat_arena *arena; /* of kernels; what is not needed later is in that of the groups */
    struct remat_arena *body;  /* of one kernel while it is written */
    struct remat_kernel_memo *memo; /* NULL: none */
    struct remat_shared_views views;
    struct remat_fuser groups;
    struct REMAT_LIST(uint32_t) key;
};

/* Its first node that is not there for others to read within the kernel alone. */
static const struct remat_node_info *name_of(const struct remat_fuser *f,
                                             const struct remat_fuse_group *group)
{
    const struct remat_node_info *nodes = f->graph->nodes;
    remat_node n = group->first;
    while (nodes[n.i].instance && nodes[n.i].instance % 2 == 0 && !remat_is_none(f->next[n.i].i))
        n = f->next[n.i];
    return &nodes[n.i];
}

static struct remat_fused_kernel write_kernel(struct writer *w,
                                              const struct remat_fuse_group *group)
{
    const struct remat_fuser *f = &w->groups;
    uint32_t count = 0;
    remat_node *nodes;
    REMAT_NEW(w->arena, nodes, group->node_count);
    for (remat_node n = group->first; !remat_is_none(n.i); n = f->next[n.i])
        nodes[count++] = n;
    const struct remat_node_info *first = name_of(f, group);
    bool builtin = group->kind == REMAT_GROUP_BUILTIN;
    struct remat_fused_kernel kernel = {
        .kind = builtin ? remat_op_info(first->op)->executor : (uint32_t)REMAT_KERNEL_fused,
        .phase = first->phase,
        .instance = first->instance,
        .scope = first->scope,
        .nodes = nodes,
        .node_count = group->node_count,
        .name = first->outputs[0],
    };
    if (builtin) {
        remat_builtin_body(w->arena, &w->views, f->graph, &kernel);
    } else {
        kernel.space = *group->space;
        remat_fused_body(w->arena, w->body, &w->views, f->graph, f->stored, &kernel);
        remat_arena_reset(w->body);
        remat_kernel_list_shared(w->arena, f->graph, &kernel);
    }
    return kernel;
}

/* Whether it is stored lies in the low bits, and its root follows where that is another value. */
#define KEY_VALUES_MAX (1u << 30)

static inline void push_value(struct writer *w, remat_value v)
{
    remat_value root = w->groups.values[v.i].root;
    uint32_t other = root.i != v.i;
    REMAT_PUSH(w->groups.arena, &w->key, v.i << 2 | other << 1 | w->groups.stored[v.i]);
    if (other)
        REMAT_PUSH(w->groups.arena, &w->key, root.i);
}

/* All that the bodies above depend on and a sequence can change: the nodes, where their inputs come
 * from, and which values are stored. */
static void write_key(struct writer *w, const struct remat_fuse_group *group)
{
    const struct remat_fuser *f = &w->groups;
    w->key.count = 0;
    for (remat_node n = group->first; !remat_is_none(n.i); n = f->next[n.i]) {
        const struct remat_fuse_node *node = &f->facts->nodes[n.i];
        push_value(w, node->output); /* which names the node */
        for (uint32_t i = 0; i < node->input_count; i++)
            for (remat_value v = node->inputs[i]; !remat_is_none(v.i); v = f->values[v.i].narrow)
                push_value(w, v);
    }
}

static struct remat_fused_kernel find_kernel(struct writer *w, const struct remat_fuse_group *group)
{
    if (!w->memo)
        return write_kernel(w, group);
    write_key(w, group);
    const struct remat_fused_kernel *found =
        find_written(w->memo, group->first, w->key.items, (uint32_t)w->key.count);
    if (found)
        return *found;
    struct remat_fused_kernel kernel = write_kernel(w, group);
    keep_written(w->memo, w->key.items, (uint32_t)w->key.count, &kernel);
    return kernel;
}

struct remat_kernel_list remat_fuse_sequence(struct remat_arena *arena, struct remat_arena *scratch,
                                             const struct remat_graph *graph,
                                             const struct remat_sequence *sequence)
{
    static const struct remat_kernel_list none = {0};
    const struct remat_kernel_list *tail = sequence->tail ? sequence->tail : &none;
    bool known = sequence->memo && graph->value_count <= KEY_VALUES_MAX;
    struct writer w = {
        .arena = known ? sequence->memo->arena : arena,
        .body = remat_scratch_open(arena->ctx),
        .memo = known ? sequence->memo : NULL,
        .groups = {
            .arena = scratch, .graph = graph, .sequence = sequence, .facts = sequence->facts}};
    struct remat_kernel_list out = {0};
    w.groups.values = known ? w.memo->values : remat_fuse_values_create(scratch, graph);
    REMAT_ROOM(arena, out.kernel_of_node, graph->node_count);
    w.groups.kernel_of = out.kernel_of_node;
    remat_fuse_collect(&w.groups);
    REMAT_ROOM(arena, out.kernels, w.groups.groups.count + tail->count);
    for (size_t g = 0; g < w.groups.groups.count; g++)
        out.kernels[out.count++] = find_kernel(&w, &w.groups.groups.items[g]);
    remat_scratch_close(w.body);
    for (uint32_t k = 0; k < tail->count; k++) {
        for (uint32_t n = 0; n < tail->kernels[k].node_count; n++)
            out.kernel_of_node[tail->kernels[k].nodes[n].i].i = out.count;
        out.kernels[out.count++] = tail->kernels[k];
    }
    return out;
}

struct remat_kernel_list remat_fuse(struct remat_arena *arena, const struct remat_graph *graph)
{
    struct remat_arena *scratch = remat_scratch_open(arena->ctx);
    struct remat_fuse_facts facts = remat_fuse_facts_create(scratch, graph);
    remat_node *nodes;
    REMAT_NEW(scratch, nodes, graph->node_count);
    for (remat_node n = {0}; n.i < graph->node_count; n.i++)
        nodes[n.i] = n;
    struct remat_sequence all = {.count = graph->node_count, .nodes = nodes, .facts = &facts};
    struct remat_kernel_list list = remat_fuse_sequence(arena, scratch, graph, &all);
    remat_scratch_close(scratch);
    return list;
}

struct remat_fused_kernel remat_fuse_nodes(struct remat_arena *arena,
                                           const struct remat_graph *graph,
                                           const struct remat_fused_kernel *whole,
                                           remat_node *nodes, uint32_t count, const uint8_t *stored)
{
    struct remat_fused_kernel out = *whole;
    struct remat_shared_views views = {0};
    out.nodes = nodes;
    out.node_count = count;
    remat_fused_body(arena, arena, &views, graph, stored, &out);
    return out;
}
