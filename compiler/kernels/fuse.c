/* SPDX-License-Identifier: Apache-2.0 */
/* From groups of nodes (fuse_groups.h) to kernels: when it is known which values are read
 * elsewhere, each group's body is written, or found among those written before. */
#include "fuse.h"

#include "fuse_groups.h"
#include "kernel_body.h"
#include "kernel_memo.h"

struct word_list {
    uint32_t *items;
    size_t count, capacity;
};

struct writer {
    struct remat_arena *arena; /* of kernels; what is not needed later lies in that of the groups */
    struct remat_fuser groups;
    struct word_list key;
};

/* Its first node that is not there for others to read within the kernel alone. */
static const struct remat_node_info *name_of(const struct remat_fuser *f,
                                             const struct remat_fuse_group *group)
{
    const struct remat_node_info *nodes = f->graph->nodes;
    uint32_t n = group->first;
    while (nodes[n].instance && nodes[n].instance % 2 == 0 && !remat_is_none(f->next[n]))
        n = f->next[n];
    return &nodes[n];
}

static void write_kernel(struct writer *w, const struct remat_fuse_group *group, remat_node *nodes,
                         struct remat_fused_kernel *kernel)
{
    const struct remat_fuser *f = &w->groups;
    const struct remat_node_info *first = name_of(f, group);
    bool named = group->kind == REMAT_GROUP_NAMED;
    *kernel = (struct remat_fused_kernel){
        .id = REMAT_NONE,
        .kind = named ? remat_op_info(first->op)->executor : (uint32_t)REMAT_KERNEL_program,
        .phase = first->phase,
        .instance = first->instance,
        .scope = first->scope,
        .nodes = nodes,
        .node_count = group->node_count,
        .name = first->outputs[0],
    };
    if (named) {
        remat_named_body(w->arena, f->graph, kernel);
    } else {
        kernel->space = *f->facts->spaces[group->space];
        remat_program_body(w->arena, f->graph, f->stored, kernel);
    }
}

/* Whether it is stored lies in the low bits, and its root follows where that is another value. */
#define KEY_VALUES_MAX (1u << 30)

static inline void push_value(struct writer *w, uint32_t v)
{
    uint32_t root = w->groups.values[v].root;
    REMAT_PUSH(w->groups.arena, &w->key, v << 2 | (uint32_t)(root != v) << 1 | w->groups.stored[v]);
    if (root != v)
        REMAT_PUSH(w->groups.arena, &w->key, root);
}

/* All that the bodies above depend on and a sequence can change: the nodes, where their inputs come
 * from, and which values are stored. */
static void write_key(struct writer *w, const remat_node *nodes, uint32_t count)
{
    const struct remat_fuser *f = &w->groups;
    w->key.count = 0;
    for (uint32_t n = 0; n < count; n++) {
        const struct remat_fuse_node *node = &f->facts->nodes[nodes[n].i];
        push_value(w, node->output); /* which names the node */
        for (uint32_t i = 0; i < node->input_count; i++)
            for (uint32_t v = node->inputs[i].i; !remat_is_none(v); v = f->values[v].narrow)
                push_value(w, v);
    }
}

static void find_kernel(struct writer *w, const struct remat_fuse_group *group, remat_node *nodes,
                        struct remat_fused_kernel *out)
{
    const struct remat_fuser *f = &w->groups;
    struct remat_kernel_memo *memo = f->sequence->memo;
    const struct remat_fused_kernel *found;
    uint64_t hash;
    if (!memo || f->graph->value_count > KEY_VALUES_MAX) {
        write_kernel(w, group, nodes, out);
        return;
    }
    write_key(w, nodes, group->node_count);
    found = remat_kernel_memo_find(memo, group->first, w->key.items, (uint32_t)w->key.count, &hash);
    if (found) {
        *out = *found;
    } else {
        write_kernel(w, group, nodes, out);
        remat_kernel_list_shared(w->arena, f->graph, out);
        remat_kernel_memo_add(memo, w->key.items, (uint32_t)w->key.count, hash, out);
    }
}

static void find_kernels(struct writer *w, struct remat_fused_kernel *out)
{
    const struct remat_fuser *f = &w->groups;
    remat_node *nodes;
    REMAT_NEW(w->arena, nodes, f->sequence->count);
    for (size_t g = 0; g < f->groups.count; g++) {
        uint32_t count = 0;
        for (uint32_t n = f->groups.items[g].first; !remat_is_none(n); n = f->next[n])
            nodes[count++].i = n;
        find_kernel(w, &f->groups.items[g], nodes, &out[g]);
        nodes += count;
    }
}

static void append_tail(const struct remat_kernel_list *tail, struct remat_kernel_list *out)
{
    for (uint32_t k = 0; k < tail->count; k++) {
        const struct remat_fused_kernel *kernel = &tail->kernels[k];
        for (uint32_t n = 0; n < kernel->node_count; n++)
            out->kernel_of_node[kernel->nodes[n].i] = out->count;
        out->kernels[out->count++] = *kernel;
    }
}

static struct remat_kernel_list fuse(struct remat_arena *arena, struct remat_arena *scratch,
                                     const struct remat_graph *graph,
                                     const struct remat_sequence *sequence)
{
    struct remat_fuse_facts facts;
    struct writer w = {.arena = arena,
                       .groups = {.arena = scratch,
                                  .graph = graph,
                                  .sequence = sequence,
                                  .facts = sequence->facts ? sequence->facts : &facts}};
    uint32_t tail = sequence->tail ? sequence->tail->count : 0;
    REMAT_NEW(arena, w.groups.group_of, graph->node_count);
    if (!sequence->facts)
        remat_fuse_facts_create(scratch, graph, &facts);
    if (graph->has_kernels)
        remat_fuse_take(&w.groups);
    else
        remat_fuse_collect(&w.groups);
    struct remat_kernel_list list = {.count = (uint32_t)w.groups.groups.count,
                                     .kernel_of_node = w.groups.group_of};
    REMAT_NEW(arena, list.kernels, list.count + tail);
    find_kernels(&w, list.kernels);
    if (tail)
        append_tail(sequence->tail, &list);
    return list;
}

struct remat_kernel_list remat_fuse_sequence(struct remat_arena *arena,
                                             const struct remat_graph *graph,
                                             const struct remat_sequence *sequence)
{
    return fuse(arena, arena, graph, sequence);
}

struct remat_kernel_list remat_fuse(struct remat_arena *arena, const struct remat_graph *graph)
{
    struct remat_sequence all = {.count = graph->node_count};
    uint32_t *nodes;
    struct remat_arena *scratch = remat_scratch_open(arena->ctx);
    REMAT_NEW(scratch, nodes, graph->node_count);
    for (uint32_t n = 0; n < graph->node_count; n++)
        nodes[n] = n;
    all.nodes = nodes;
    struct remat_kernel_list list = fuse(arena, scratch, graph, &all);
    remat_scratch_close(scratch);
    return list;
}

struct remat_fused_kernel remat_fuse_nodes(struct remat_arena *arena,
                                           const struct remat_graph *graph,
                                           const struct remat_fused_kernel *whole,
                                           remat_node *nodes, uint32_t count, const uint8_t *stored)
{
    struct remat_fused_kernel part = *whole;
    part.nodes = nodes;
    part.node_count = count;
    remat_program_body(arena, graph, stored, &part);
    return part;
}
