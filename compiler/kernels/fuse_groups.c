/* SPDX-License-Identifier: Apache-2.0 */
/* Greedy in graph order (rules in fuse.h). Groups are collected first, without looking at how large
 * they get; where one is too large, once more, within those. So a node that makes one group too
 * large opens no other group to nodes that it was closed to. A group is a list linked by node.
 * Nodes of a graph that has kernels say themselves which one they run in. */
#include "fuse_groups.h"

#define GROUP_NODES_MAX 48

static bool has(const struct remat_fuse_node *node, uint32_t facts)
{
    return (node->facts & facts) != 0;
}

static const struct remat_fuse_node *node_of(const struct remat_fuser *f, uint32_t n)
{
    return &f->facts->nodes[n];
}

/* The node that computes a value; NULL of what is given. */
static const struct remat_fuse_node *producer_of(const struct remat_fuser *f, uint32_t value)
{
    uint32_t producer = f->graph->values[value].node.i;
    return remat_is_none(producer) ? NULL : node_of(f, producer);
}

/* --- what nodes read --- */

/* An inline node is in memory where a built-in kernel, the host, or (a column) a view reads it. */
static void find_in_memory(struct remat_fuser *f, const struct remat_fuse_node *reader,
                           uint32_t root)
{
    const struct remat_fuse_node *producer = producer_of(f, root);
    bool builtin = has(reader, REMAT_FACT_BUILTIN);
    if (producer && has(producer, builtin ? REMAT_FUSE_INLINE : REMAT_FUSE_COLUMN))
        f->in_memory[f->graph->values[root].node.i] = 1;
}

static void read_inputs(struct remat_fuser *f, const struct remat_fuse_node *node)
{
    bool as_is = has(node, REMAT_FACT_VIEW | REMAT_FACT_BUILTIN);
    for (uint32_t i = 0; i < node->input_count; i++) {
        struct remat_fuse_value *input = &f->values[node->inputs[i].i];
        input->readers++;
        if (as_is)
            input->read = node->inputs[i].i;
        if (as_is || input->root != node->inputs[i].i)
            find_in_memory(f, node, input->root);
    }
}

/* Instructions read the f32 of a bf16 value from the value itself: loads widen, and a register
 * holds an f32 anyway. Such a cast is no node of any kernel unless a view or a built-in kernel
 * reads it. */
static void find_read(struct remat_fuser *f)
{
    bool formed = f->graph->has_kernels;
    for (uint32_t v = 0; v < f->graph->value_count; v++)
        f->values[v] = (struct remat_fuse_value){
            .root = v, .read = v, .narrow = REMAT_NONE, .group = REMAT_NONE};
    for (uint32_t k = 0; k < f->sequence->count; k++) {
        const struct remat_node_info *info = &f->graph->nodes[f->sequence->nodes[k].i];
        const struct remat_fuse_node *node = node_of(f, f->sequence->nodes[k].i);
        if (!formed)
            read_inputs(f, node);
        if (has(node, REMAT_FACT_VIEW))
            f->values[node->output].root = f->values[node->inputs[0].i].root;
        if (!has(node, REMAT_FUSE_WIDENS))
            continue;
        f->values[node->output].narrow = node->inputs[0].i;
        if (formed ? remat_is_none(info->kernel) : !has(node, REMAT_FUSE_ROLE))
            f->values[node->output].read = node->inputs[0].i;
    }
}

/* The readers of a cast that is no node take its place. */
static void count_readers(struct remat_fuser *f)
{
    for (uint32_t v = 0; v < f->graph->value_count; v++)
        if (f->values[v].read != v)
            f->values[f->values[v].read].readers += f->values[v].readers - 1;
    for (uint32_t o = 0; o < f->graph->output_count; o++) {
        uint32_t producer = f->graph->values[f->values[f->graph->outputs[o].i].root].node.i;
        if (!remat_is_none(producer))
            f->in_memory[producer] = 1;
    }
}

/* It is no node of any kernel: its readers make it for themselves, or read what it is made of. */
static bool is_absorbed(const struct remat_fuser *f, const struct remat_fuse_node *node)
{
    return has(node, REMAT_FACT_VIEW | REMAT_FUSE_INLINE) ||
           f->values[node->output].read != node->output;
}

/* --- whether a node may join --- */

static bool is_row_of(const struct remat_shape *shape, const struct remat_shape *space)
{
    if (shape->rank != space->rank || shape->dims[shape->rank - 1] != 1)
        return false;
    return memcmp(shape->dims, space->dims, (shape->rank - 1) * sizeof *shape->dims) == 0;
}

static uint32_t count_reads(const struct remat_fuser *f, const struct remat_fuse_node *node,
                            uint32_t value)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < node->input_count; i++)
        count += remat_fuse_input(f, node, i) == value;
    return count;
}

static bool reads_only_through_itself(const struct remat_fuser *f,
                                      const struct remat_fuse_group *group,
                                      const struct remat_fuse_node *node)
{
    for (uint32_t m = group->first; !remat_is_none(m); m = f->next[m]) {
        const struct remat_node_info *member = &f->graph->nodes[m];
        for (uint32_t o = 0; o < member->output_count; o++) {
            uint32_t v = member->outputs[o].i, inside = count_reads(f, node, v);
            for (uint32_t r = group->first; !remat_is_none(r); r = f->next[r])
                inside += count_reads(f, node_of(f, r), v);
            bool kept = f->graph->values[v].role != REMAT_ROLE_ACTIVATION;
            bool reduced = has(node_of(f, m), REMAT_FACT_COLUMN_REDUCE);
            if (!reduced && (kept || inside != f->values[v].readers))
                return false;
        }
    }
    return true;
}

/* All inputs come from the group itself or can be loaded over its space; none is a view of what the
 * group computes. */
static bool inputs_fit(const struct remat_fuser *f, uint32_t group,
                       const struct remat_fuse_node *node, const struct remat_shape *space,
                       bool row)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        uint32_t in = remat_fuse_input(f, node, i), root = f->values[in].root;
        const struct remat_fuse_node *producer = producer_of(f, in);
        if (producer && has(producer, REMAT_FUSE_INLINE))
            continue;
        bool inside = f->values[root].group == group;
        if (inside && root != in)
            return false;
        const struct remat_shape *shape = &f->graph->values[in].shape;
        if (row &&
            (inside ? !is_row_of(shape, space) : shape->rank && shape->dims[shape->rank - 1] != 1))
            return false;
    }
    return true;
}

/* The node rounds column sums that the group computes: their store does that. */
static bool rounds_columns(const struct remat_fuser *f, uint32_t id,
                           const struct remat_fuse_node *node)
{
    return has(node, REMAT_FUSE_CAST) && f->values[node->inputs[0].i].group == id &&
           has(producer_of(f, node->inputs[0].i), REMAT_FACT_COLUMN_REDUCE);
}

/* So that many nodes more may be in the group. */
static bool has_room(const struct remat_fuser *f, const struct remat_fuse_group *group,
                     uint32_t nodes)
{
    return (!f->within && group->kind != REMAT_GROUP_COLUMN) ||
           group->node_count + nodes <= GROUP_NODES_MAX;
}

static bool can_join(const struct remat_fuser *f, uint32_t id, const struct remat_fuse_node *node)
{
    const struct remat_fuse_group *group = &f->groups.items[id];
    bool apart = f->within && f->within[group->first] != f->within[node - f->facts->nodes];
    if (group->kind == REMAT_GROUP_BUILTIN || group->consumed || group->bucket != node->bucket ||
        apart)
        return false;
    if (rounds_columns(f, id, node))
        return true;
    if (!has_room(f, group, 1))
        return false;
    bool row_reduce = has(node, REMAT_FACT_ROW_REDUCE);
    bool column_reduce = has(node, REMAT_FACT_COLUMN_REDUCE);
    if (column_reduce && group->node_count >= GROUP_NODES_MAX)
        return false;
    bool same = remat_shape_equal(node->space, group->space);
    bool row = !same && group->kind == REMAT_GROUP_ROW && !row_reduce && !column_reduce &&
               is_row_of(node->space, group->space);
    if (!same && !row)
        return false;
    if (row_reduce && group->kind == REMAT_GROUP_COLUMN)
        return false;
    if (column_reduce &&
        (group->kind == REMAT_GROUP_ROW || !reads_only_through_itself(f, group, node)))
        return false;
    if (!column_reduce && group->kind == REMAT_GROUP_COLUMN)
        return false;
    return inputs_fit(f, id, node, group->space, row);
}

/* --- choosing a group --- */

/* The latest group that computes a direct input of the node and accepts it. */
static uint32_t find_group(const struct remat_fuser *f, const struct remat_fuse_node *node)
{
    uint32_t best = REMAT_NONE;
    for (uint32_t i = 0; i < node->input_count; i++) {
        uint32_t group = f->values[remat_fuse_input(f, node, i)].group;
        if (!remat_is_none(group) && (remat_is_none(best) || group > best) &&
            can_join(f, group, node))
            best = group;
    }
    return best;
}

static bool reads_root(const struct remat_fuser *f, const struct remat_fuse_group *group,
                       uint32_t root)
{
    for (uint32_t m = group->first; !remat_is_none(m); m = f->next[m])
        for (uint32_t i = 0; i < node_of(f, m)->input_count; i++)
            if (f->values[remat_fuse_input(f, node_of(f, m), i)].root == root)
                return true;
    return false;
}

/* A column reduction of a value that the latest column kernel of the same scope reads anyway. */
static uint32_t find_sibling(const struct remat_fuser *f, uint32_t n)
{
    const struct remat_fuse_node *node = node_of(f, n);
    if (!has(node, REMAT_FACT_COLUMN_REDUCE))
        return REMAT_NONE;
    for (size_t back = 1; back <= 8 && back <= f->groups.count; back++) {
        uint32_t id = (uint32_t)(f->groups.count - back);
        const struct remat_fuse_group *group = &f->groups.items[id];
        if (group->node_count > 0 && group->kind == REMAT_GROUP_COLUMN &&
            f->graph->nodes[group->first].scope.i == f->graph->nodes[n].scope.i &&
            reads_root(f, group, f->values[remat_fuse_input(f, node, 0)].root) &&
            can_join(f, id, node))
            return id;
    }
    return REMAT_NONE;
}

static uint8_t kind_of(const struct remat_fuse_node *node)
{
    if (has(node, REMAT_FACT_BUILTIN))
        return REMAT_GROUP_BUILTIN;
    if (has(node, REMAT_FACT_ROW_REDUCE))
        return REMAT_GROUP_ROW;
    return has(node, REMAT_FACT_COLUMN_REDUCE) ? REMAT_GROUP_COLUMN : REMAT_GROUP_POINTWISE;
}

static void open_group(struct remat_fuser *f, const struct remat_fuse_node *node)
{
    struct remat_fuse_group group = {
        .kind = kind_of(node), .bucket = node->bucket, .space = node->space};
    REMAT_PUSH(f->arena, &f->groups, group);
}

/* Joins two lists in graph order; returns the last node. */
static uint32_t join(struct remat_fuser *f, uint32_t a, uint32_t b, uint32_t *first)
{
    uint32_t last = REMAT_NONE, *link = first;
    while (!remat_is_none(a) || !remat_is_none(b)) {
        bool from_a = remat_is_none(b) || (!remat_is_none(a) && a < b);
        last = *link = from_a ? a : b;
        *(from_a ? &a : &b) = f->next[last];
        link = &f->next[last];
    }
    return last;
}

static void set_group(struct remat_fuser *f, uint32_t n, uint32_t group)
{
    f->values[node_of(f, n)->output].group = group;
    for (uint32_t o = 1; o < node_of(f, n)->output_count; o++)
        f->values[f->graph->nodes[n].outputs[o].i].group = group;
}

/* Moves the nodes of `from` into `to`. */
static void merge(struct remat_fuser *f, uint32_t from, uint32_t to)
{
    struct remat_fuse_group *source = &f->groups.items[from], *target = &f->groups.items[to];
    for (uint32_t n = source->first; !remat_is_none(n); n = f->next[n])
        set_group(f, n, to);
    target->last = join(f, source->first, target->first, &target->first);
    target->node_count += source->node_count;
    if (target->kind == REMAT_GROUP_POINTWISE)
        target->kind = source->kind;
    source->node_count = 0;
    source->first = source->last = REMAT_NONE;
}

/* The other kernels that compute inputs of the node and that it could have joined become one with
 * its own: neither has been read from outside, so no cycle can arise. */
static void merge_producers(struct remat_fuser *f, const struct remat_fuse_node *node, uint32_t id)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        uint32_t other = f->values[remat_fuse_input(f, node, i)].group;
        if (remat_is_none(other) || other == id || !can_join(f, other, node))
            continue;
        const struct remat_fuse_group *a = &f->groups.items[other], *b = &f->groups.items[id];
        bool mixed = (a->kind == REMAT_GROUP_COLUMN) != (b->kind == REMAT_GROUP_COLUMN);
        if (!mixed && remat_shape_equal(a->space, b->space) && has_room(f, a, b->node_count + 1))
            merge(f, other, id);
    }
}

static void append(struct remat_fuser *f, uint32_t n, uint32_t id)
{
    struct remat_fuse_group *group = &f->groups.items[id];
    if (group->kind == REMAT_GROUP_POINTWISE)
        group->kind = kind_of(node_of(f, n));
    *(group->node_count++ ? &f->next[group->last] : &group->first) = n;
    group->last = n;
    f->next[n] = REMAT_NONE;
    set_group(f, n, id);
}

static void mark_consumed(struct remat_fuser *f, const struct remat_fuse_node *node, uint32_t own)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        uint32_t group = f->values[f->values[remat_fuse_input(f, node, i)].root].group;
        if (!remat_is_none(group) && group != own)
            f->groups.items[group].consumed = true;
    }
}

static void place_node(struct remat_fuser *f, uint32_t n)
{
    const struct remat_fuse_node *node = node_of(f, n);
    uint32_t id = REMAT_NONE;
    if (!has(node, REMAT_FACT_BUILTIN)) {
        id = find_group(f, node);
        if (remat_is_none(id))
            id = find_sibling(f, n);
        else
            merge_producers(f, node, id);
    }
    if (remat_is_none(id)) {
        id = (uint32_t)f->groups.count;
        open_group(f, node);
    }
    append(f, n, id);
    mark_consumed(f, node, id);
}

static void place_nodes(struct remat_fuser *f)
{
    f->groups.count = 0;
    for (uint32_t k = 0; k < f->sequence->count; k++) {
        uint32_t n = f->sequence->nodes[k].i;
        if (f->in_memory[n] || !is_absorbed(f, node_of(f, n)))
            place_node(f, n);
    }
}

/* A column reduction may have stayed out of one. */
static bool is_full(const struct remat_fuser *f)
{
    for (size_t g = 0; g < f->groups.count; g++)
        if (f->groups.items[g].node_count >= GROUP_NODES_MAX)
            return true;
    return false;
}

/* Once more, within the groups that there are. */
static void divide(struct remat_fuser *f)
{
    REMAT_NEW(f->arena, f->within, f->graph->node_count);
    for (size_t g = 0; g < f->groups.count; g++)
        for (uint32_t n = f->groups.items[g].first; !remat_is_none(n); n = f->next[n])
            f->within[n] = (uint32_t)g;
    for (uint32_t v = 0; v < f->graph->value_count; v++)
        f->values[v].group = REMAT_NONE;
    place_nodes(f);
}

/* --- groups of a graph that has kernels --- */

/* As the nodes say, each in one piece. Of their index spaces the largest is the kernel's: others
 * are over its rows. */
static void take(struct remat_fuser *f)
{
    uint32_t kernel = REMAT_NONE;
    int64_t elements = 0; /* of the group's space */
    for (uint32_t k = 0; k < f->sequence->count; k++) {
        uint32_t n = f->sequence->nodes[k].i, own = f->graph->nodes[n].kernel;
        const struct remat_fuse_node *node = node_of(f, n);
        if (remat_is_none(own))
            continue;
        if (own != kernel)
            open_group(f, node);
        elements = own != kernel ? node->elements : elements;
        kernel = own;
        if (node->elements > elements) {
            f->groups.items[f->groups.count - 1].space = node->space;
            elements = node->elements;
        }
        append(f, n, (uint32_t)f->groups.count - 1);
    }
}

/* --- both --- */

/* Drops the groups that merging has emptied and renumbers in order of last nodes. */
static void compact(struct remat_fuser *f)
{
    struct remat_fuse_groups ordered = {0};
    for (uint32_t k = 0; k < f->sequence->count; k++) {
        uint32_t n = f->sequence->nodes[k].i, group = f->values[node_of(f, n)->output].group;
        if (!remat_is_none(group) && f->groups.items[group].last == n)
            REMAT_PUSH(f->arena, &ordered, f->groups.items[group]);
    }
    memset(f->group_of, 0xff, f->graph->node_count * sizeof *f->group_of);
    for (size_t g = 0; g < ordered.count; g++)
        for (uint32_t n = ordered.items[g].first; !remat_is_none(n); n = f->next[n])
            f->group_of[n].i = (uint32_t)g;
    f->groups = ordered;
}

/* What a group reads of another, and what lasts. */
static void find_stored(struct remat_fuser *f)
{
    for (uint32_t k = 0; k < f->sequence->count; k++) {
        const struct remat_fuse_node *node = node_of(f, f->sequence->nodes[k].i);
        uint32_t group = f->values[node->output].group;
        for (uint32_t i = 0; i < node->input_count && !remat_is_none(group); i++) {
            uint32_t root = f->values[remat_fuse_input(f, node, i)].root;
            if (f->values[root].group != group)
                f->stored[root] = 1;
        }
    }
    for (size_t l = 0; l < f->facts->lasting.count; l++)
        f->stored[f->values[f->facts->lasting.items[l]].root] = 1;
}

void remat_fuse_collect(struct remat_fuser *f)
{
    REMAT_NEW(f->arena, f->values, f->graph->value_count);
    REMAT_NEW(f->arena, f->stored, f->graph->value_count);
    REMAT_NEW(f->arena, f->next, f->graph->node_count);
    REMAT_NEW(f->arena, f->in_memory, f->graph->node_count);
    find_read(f);
    if (f->graph->has_kernels) {
        take(f);
    } else {
        count_readers(f);
        place_nodes(f);
        if (is_full(f))
            divide(f);
    }
    compact(f);
    find_stored(f);
}
