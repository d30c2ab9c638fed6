/* Greedy fusion in graph order (rules in fuse.h). Groups are collected first, without looking at
 * how large they get; where one is too large, once more, within those. So a node that makes one
 * group too large opens no other group to nodes that it was closed to. Then each group's body is
 * written, when it is known which of its values are read elsewhere. */
#include "fuse.h"

#include "fuse_facts.h"
#include "kernel_body.h"
#include "kernel_memo.h"
#include "ops.h"

enum group_kind { GROUP_POINTWISE, GROUP_ROW, GROUP_COLUMN, GROUP_NAMED };

struct node_list {
    remat_node *items;
    size_t count, capacity;
};

struct group {
    enum group_kind kind;
    uint32_t space; /* number of the index space */
    struct node_list nodes;
    bool consumed; /* a node outside has read from it: closed */
    uint8_t bucket;
};

struct group_list {
    struct group *items;
    size_t count, capacity;
};

struct word_list {
    uint32_t *items;
    size_t count, capacity;
};

struct fuser {
    remat_context *ctx;
    struct remat_arena *arena;
    const struct remat_graph *graph;
    const struct remat_sequence *sequence;
    const struct remat_fuse_facts *facts;
    struct group_list groups;
    uint32_t *position; /* by node: in the sequence */
    uint32_t *root;     /* by value: its storage root */
    uint32_t *producer; /* by value: its node in the sequence, REMAT_NONE of what is given */
    uint32_t *group_of; /* by node */
    uint32_t *within;   /* by node: the group that it may not leave; NULL: any, of any size */
    uint32_t *readers;  /* by value: number of nodes that read it directly */
    remat_value *read;  /* by value: what its readers read */
    uint32_t *narrow;   /* by value: what it widens, REMAT_NONE otherwise */
    uint8_t *stored;    /* by value: see find_stored */
    struct word_list key;
};

#define GROUP_NODES_MAX 48

/* Any of these, of enum remat_op_fact or remat_fuse_fact. */
static bool has(const struct fuser *f, const struct remat_node_info *node, uint32_t facts)
{
    return (f->facts->of_node[node - f->graph->nodes] & facts) != 0;
}

static bool producer_has(const struct fuser *f, uint32_t producer, uint32_t facts)
{
    return (f->facts->of_node[producer] & facts) != 0;
}

static const struct remat_node_info *node_at(const struct fuser *f, uint32_t position)
{
    return &f->graph->nodes[f->sequence->nodes[position]];
}

static void find_roots(struct fuser *f)
{
    for (uint32_t v = 0; v < f->graph->value_count; v++)
        f->root[v] = v;
    for (uint32_t k = 0; k < f->sequence->count; k++) {
        const struct remat_node_info *node = node_at(f, k);
        f->position[f->sequence->nodes[k]] = k;
        for (uint32_t o = 0; o < node->output_count; o++)
            f->producer[node->outputs[o].i] = f->sequence->nodes[k];
        if (has(f, node, REMAT_FACT_VIEW))
            f->root[node->outputs[0].i] = f->root[node->inputs[0].i];
    }
}

/* in_memory[n]: an inline node that a named kernel, the host, or (a column) a view reads. */
static void find_in_memory(const struct fuser *f, uint8_t *in_memory)
{
    const struct remat_graph *g = f->graph;
    for (uint32_t k = 0; k < f->sequence->count; k++) {
        const struct remat_node_info *node = node_at(f, k);
        for (uint32_t i = 0; i < node->input_count; i++) {
            uint32_t root = f->root[node->inputs[i].i], producer = f->producer[root];
            bool viewed = root != node->inputs[i].i;
            if (!remat_is_none(producer) && producer_has(f, producer, REMAT_FUSE_INLINE) &&
                (has(f, node, REMAT_FACT_NAMED) ||
                 (viewed && producer_has(f, producer, REMAT_FUSE_COLUMN))))
                in_memory[producer] = 1;
        }
    }
    for (uint32_t o = 0; o < g->output_count; o++) {
        uint32_t producer = f->producer[f->root[g->outputs[o].i]];
        if (!remat_is_none(producer))
            in_memory[producer] = 1;
    }
}

/* Instructions read the f32 of a bf16 value from the value itself: loads widen, and a register
 * holds an f32 anyway. Such a cast is no node of any kernel unless a view or a named kernel reads
 * it. */
static remat_status find_read(struct fuser *f)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = f->graph;
    REMAT_NEW(f->arena, f->read, g->value_count);
    REMAT_NEW(f->arena, f->narrow, g->value_count);
    memset(f->narrow, 0xff, g->value_count * sizeof *f->narrow);
    for (uint32_t v = 0; v < g->value_count; v++)
        f->read[v] = (remat_value){v};
    for (uint32_t k = 0; k < f->sequence->count; k++) {
        const struct remat_node_info *node = node_at(f, k);
        if (!has(f, node, REMAT_FUSE_WIDENS))
            continue;
        remat_value v = node->outputs[0];
        f->narrow[v.i] = node->inputs[0].i;
        if (!has(f, node, REMAT_FUSE_ROLE))
            f->read[v.i] = node->inputs[0];
    }
    for (uint32_t k = 0; k < f->sequence->count; k++) {
        const struct remat_node_info *node = node_at(f, k);
        if (has(f, node, REMAT_FACT_VIEW | REMAT_FACT_NAMED))
            for (uint32_t i = 0; i < node->input_count; i++)
                f->read[node->inputs[i].i] = node->inputs[i];
    }
fail:
    return st;
}

static remat_value input_of(const struct fuser *f, const struct remat_node_info *node, uint32_t i)
{
    return f->read[node->inputs[i].i];
}

static bool is_absorbed(const struct fuser *f, const struct remat_node_info *node)
{
    return has(f, node, REMAT_FACT_VIEW | REMAT_FUSE_INLINE) ||
           f->read[node->outputs[0].i].i != node->outputs[0].i;
}

/* Forward and loss may mix; nothing else does. */
static uint8_t bucket_of(const struct remat_node_info *node)
{
    return node->phase == REMAT_PHASE_LOSS ? REMAT_PHASE_FORWARD : node->phase;
}

static const struct remat_shape *shape_of(const struct fuser *f, remat_value v)
{
    return &f->graph->values[v.i].shape;
}

/* The number of the index space a node needs. */
static uint32_t space_of(const struct fuser *f, const struct remat_node_info *node)
{
    return f->facts->space_of_node[node - f->graph->nodes];
}

static bool is_row_of(const struct remat_shape *shape, const struct remat_shape *space)
{
    if (shape->rank != space->rank || shape->dims[shape->rank - 1] != 1)
        return false;
    return memcmp(shape->dims, space->dims, (shape->rank - 1) * sizeof *shape->dims) == 0;
}

static bool reads_only_through_itself(const struct fuser *f, const struct group *group,
                                      const struct remat_node_info *node)
{
    for (size_t k = 0; k < group->nodes.count; k++) {
        const struct remat_node_info *member = &f->graph->nodes[group->nodes.items[k].i];
        for (uint32_t o = 0; o < member->output_count; o++) {
            uint32_t inside = 0;
            for (size_t j = 0; j < group->nodes.count; j++) {
                const struct remat_node_info *reader = &f->graph->nodes[group->nodes.items[j].i];
                for (uint32_t i = 0; i < reader->input_count; i++)
                    inside += input_of(f, reader, i).i == member->outputs[o].i;
            }
            for (uint32_t i = 0; i < node->input_count; i++)
                inside += input_of(f, node, i).i == member->outputs[o].i;
            bool kept = f->graph->values[member->outputs[o].i].role != REMAT_ROLE_ACTIVATION;
            bool reduced = has(f, member, REMAT_FACT_COLUMN_REDUCE);
            if (!reduced && (kept || inside != f->readers[member->outputs[o].i]))
                return false;
        }
    }
    return true;
}

/* All inputs come from the group itself or can be loaded over its space; none is a view of what the
 * group computes. */
static bool inputs_fit(const struct fuser *f, uint32_t group, const struct remat_node_info *node,
                       const struct remat_shape *space, bool row)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        remat_value in = input_of(f, node, i), root = {f->root[in.i]};
        uint32_t producer = f->producer[in.i];
        uint32_t root_producer = f->producer[root.i];
        if (!remat_is_none(producer) && producer_has(f, producer, REMAT_FUSE_INLINE))
            continue;
        bool inside = !remat_is_none(root_producer) && f->group_of[root_producer] == group;
        if (inside && root.i != in.i)
            return false;
        const struct remat_shape *shape = shape_of(f, in);
        if (inside ? row && !is_row_of(shape, space)
                   : row && shape->rank && shape->dims[shape->rank - 1] != 1)
            return false;
    }
    return true;
}

/* The node rounds column sums that the group computes: their store does that. */
static bool rounds_columns(const struct fuser *f, uint32_t id, const struct remat_node_info *node)
{
    uint32_t producer = f->producer[node->inputs[0].i];
    return node->op == REMAT_OP_cast && !remat_is_none(producer) && f->group_of[producer] == id &&
           producer_has(f, producer, REMAT_FACT_COLUMN_REDUCE);
}

/* So that many nodes more may be in the group. */
static bool has_room(const struct fuser *f, const struct group *group, size_t nodes)
{
    return (!f->within && group->kind != GROUP_COLUMN) ||
           group->nodes.count + nodes <= GROUP_NODES_MAX;
}

static bool may_meet(const struct fuser *f, const struct group *group,
                     const struct remat_node_info *node)
{
    return !f->within || f->within[group->nodes.items[0].i] == f->within[node - f->graph->nodes];
}

static bool can_join(const struct fuser *f, uint32_t id, const struct remat_node_info *node)
{
    const struct group *group = &f->groups.items[id];
    if (group->kind == GROUP_NAMED || group->consumed || group->bucket != bucket_of(node) ||
        !has_room(f, group, 1) || !may_meet(f, group, node))
        return false;
    if (node->input_count > 0 && rounds_columns(f, id, node))
        return true;
    bool row_reduce = has(f, node, REMAT_FACT_ROW_REDUCE);
    bool column_reduce = has(f, node, REMAT_FACT_COLUMN_REDUCE);
    if (column_reduce && group->nodes.count >= GROUP_NODES_MAX)
        return false;
    const struct remat_shape *const *spaces = f->facts->spaces;
    uint32_t space = space_of(f, node);
    bool same = space == group->space;
    bool row = !same && group->kind == GROUP_ROW && !row_reduce && !column_reduce &&
               is_row_of(spaces[space], spaces[group->space]);
    if (!same && !row)
        return false;
    if (row_reduce && group->kind == GROUP_COLUMN)
        return false;
    if (column_reduce && (group->kind == GROUP_ROW || !reads_only_through_itself(f, group, node)))
        return false;
    if (!column_reduce && group->kind == GROUP_COLUMN)
        return false;
    return inputs_fit(f, id, node, spaces[group->space], row);
}

/* The latest group that computes a direct input of the node and accepts it. */
static uint32_t find_group(const struct fuser *f, const struct remat_node_info *node)
{
    uint32_t best = REMAT_NONE;
    for (uint32_t i = 0; i < node->input_count; i++) {
        uint32_t producer = f->producer[input_of(f, node, i).i];
        uint32_t group = remat_is_none(producer) ? REMAT_NONE : f->group_of[producer];
        if (!remat_is_none(group) && (remat_is_none(best) || group > best) &&
            can_join(f, group, node))
            best = group;
    }
    return best;
}

static bool reads_root(const struct fuser *f, const struct group *group, uint32_t root)
{
    for (size_t k = 0; k < group->nodes.count; k++) {
        const struct remat_node_info *member = &f->graph->nodes[group->nodes.items[k].i];
        for (uint32_t i = 0; i < member->input_count; i++)
            if (f->root[input_of(f, member, i).i] == root)
                return true;
    }
    return false;
}

/* A column reduction of a value that the latest column kernel of the same scope reads anyway. */
static uint32_t find_sibling(const struct fuser *f, const struct remat_node_info *node)
{
    if (!has(f, node, REMAT_FACT_COLUMN_REDUCE) || f->groups.count == 0)
        return REMAT_NONE;
    for (size_t back = 1; back <= 8 && back <= f->groups.count; back++) {
        uint32_t id = (uint32_t)(f->groups.count - back);
        const struct group *group = &f->groups.items[id];
        if (group->kind == GROUP_COLUMN &&
            f->graph->nodes[group->nodes.items[0].i].scope == node->scope &&
            reads_root(f, group, f->root[input_of(f, node, 0).i]) && can_join(f, id, node))
            return id;
    }
    return REMAT_NONE;
}

static enum group_kind kind_of(const struct fuser *f, const struct remat_node_info *node)
{
    if (has(f, node, REMAT_FACT_NAMED))
        return GROUP_NAMED;
    if (has(f, node, REMAT_FACT_ROW_REDUCE))
        return GROUP_ROW;
    return has(f, node, REMAT_FACT_COLUMN_REDUCE) ? GROUP_COLUMN : GROUP_POINTWISE;
}

static remat_status new_group(struct fuser *f, const struct remat_node_info *node, uint32_t *out)
{
    remat_status st = REMAT_OK;
    struct group group = {
        .kind = kind_of(f, node), .bucket = bucket_of(node), .space = space_of(f, node)};
    REMAT_PUSH(f->arena, &f->groups, group);
    *out = (uint32_t)f->groups.count - 1;
fail:
    return st;
}

static void mark_consumed(struct fuser *f, const struct remat_node_info *node, uint32_t own)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        uint32_t producer = f->producer[f->root[input_of(f, node, i).i]];
        uint32_t group = remat_is_none(producer) ? REMAT_NONE : f->group_of[producer];
        if (!remat_is_none(group) && group != own)
            f->groups.items[group].consumed = true;
    }
}

/* Moves the nodes of `from` into `to`, in graph order. */
static remat_status merge(struct fuser *f, uint32_t from, uint32_t to)
{
    remat_status st = REMAT_OK;
    struct group *source = &f->groups.items[from], *target = &f->groups.items[to];
    size_t s = source->nodes.count, t = target->nodes.count, at = s + t;
    for (size_t k = 0; k < s; k++)
        REMAT_PUSH(f->arena, &target->nodes, source->nodes.items[k]);
    while (s > 0) { /* from behind, in place */
        bool take = t == 0 || f->position[source->nodes.items[s - 1].i] >
                                  f->position[target->nodes.items[t - 1].i];
        target->nodes.items[--at] = take ? source->nodes.items[--s] : target->nodes.items[--t];
    }
    for (size_t k = 0; k < source->nodes.count; k++)
        f->group_of[source->nodes.items[k].i] = to;
    if (target->kind == GROUP_POINTWISE)
        target->kind = source->kind;
    source->nodes.count = 0;
fail:
    return st;
}

/* The other kernels that compute inputs of the node and that it could have joined become one with
 * its own: neither has been read from outside, so no cycle can arise. */
static remat_status merge_producers(struct fuser *f, const struct remat_node_info *node,
                                    uint32_t id)
{
    remat_status st = REMAT_OK;
    for (uint32_t i = 0; i < node->input_count; i++) {
        uint32_t producer = f->producer[input_of(f, node, i).i];
        uint32_t other = remat_is_none(producer) ? REMAT_NONE : f->group_of[producer];
        if (remat_is_none(other) || other == id || !can_join(f, other, node))
            continue;
        struct group *a = &f->groups.items[other], *b = &f->groups.items[id];
        bool mixed = (a->kind == GROUP_COLUMN) != (b->kind == GROUP_COLUMN);
        if (!mixed && a->space == b->space && has_room(f, a, b->nodes.count + 1))
            REMAT_TRY(merge(f, other, id));
    }
fail:
    return st;
}

static remat_status place_node(struct fuser *f, uint32_t n)
{
    remat_status st = REMAT_OK;
    const struct remat_node_info *node = &f->graph->nodes[n];
    uint32_t id = REMAT_NONE;
    if (!has(f, node, REMAT_FACT_NAMED)) {
        id = find_group(f, node);
        if (remat_is_none(id))
            id = find_sibling(f, node);
        else
            REMAT_TRY(merge_producers(f, node, id));
    }
    if (remat_is_none(id))
        REMAT_TRY(new_group(f, node, &id));
    struct group *group = &f->groups.items[id];
    if (group->kind == GROUP_POINTWISE)
        group->kind = kind_of(f, node);
    REMAT_PUSH(f->arena, &group->nodes, (remat_node){n});
    f->group_of[n] = id;
    mark_consumed(f, node, id);
fail:
    return st;
}

/* stored[v]: a root that some other kernel reads, directly or through a view, or that outlives the
 * step's commands as output, state or gradient. */
static void find_stored(struct fuser *f)
{
    uint8_t *stored = f->stored;
    const struct remat_graph *g = f->graph;
    for (uint32_t k = 0; k < f->sequence->count; k++) {
        const struct remat_node_info *node = node_at(f, k);
        for (uint32_t o = 0; has(f, node, REMAT_FUSE_GRADIENT) && o < node->output_count; o++)
            if (g->values[node->outputs[o].i].role == REMAT_ROLE_GRADIENT)
                stored[f->root[node->outputs[o].i]] = 1;
        if (is_absorbed(f, node))
            continue;
        for (uint32_t i = 0; i < node->input_count; i++) {
            uint32_t root = f->root[input_of(f, node, i).i], producer = f->producer[root];
            if (!remat_is_none(producer) &&
                f->group_of[producer] != f->group_of[f->sequence->nodes[k]])
                stored[root] = 1;
        }
    }
    for (uint32_t o = 0; o < g->output_count; o++)
        stored[f->root[g->outputs[o].i]] = 1;
    for (uint32_t u = 0; u < g->update_count; u++)
        stored[f->root[g->updates[u].value.i]] = 1;
}

/* Drops the groups that merging has emptied and renumbers in order of last nodes. */
static remat_status compact(struct fuser *f)
{
    remat_status st = REMAT_OK;
    uint32_t *renamed, count = 0;
    struct group *groups;
    REMAT_NEW(f->arena, renamed, f->groups.count);
    memset(renamed, 0xff, f->groups.count * sizeof *renamed);
    for (uint32_t k = f->sequence->count; k-- > 0;) {
        uint32_t group = f->group_of[f->sequence->nodes[k]];
        if (!remat_is_none(group) && remat_is_none(renamed[group]))
            renamed[group] = count++;
    }
    REMAT_NEW(f->arena, groups, count);
    for (size_t g = 0; g < f->groups.count; g++)
        if (!remat_is_none(renamed[g]))
            groups[count - 1 - renamed[g]] = f->groups.items[g];
    for (uint32_t k = 0; k < f->sequence->count; k++) {
        uint32_t *group = &f->group_of[f->sequence->nodes[k]];
        if (!remat_is_none(*group))
            *group = count - 1 - renamed[*group];
    }
    f->groups.items = groups;
    f->groups.count = count;
fail:
    return st;
}

static remat_status write_kernel(struct fuser *f, const struct group *group,
                                 struct remat_fused_kernel *kernel)
{
    const struct remat_node_info *first = &f->graph->nodes[group->nodes.items[0].i];
    *kernel = (struct remat_fused_kernel){
        .id = REMAT_NONE,
        .kind = group->kind == GROUP_NAMED ? remat_op_info(first->op)->executor
                                           : (uint32_t)REMAT_KERNEL_program,
        .phase = first->phase,
        .instance = first->instance,
        .scope = first->scope,
        .nodes = group->nodes.items,
        .node_count = (uint32_t)group->nodes.count,
        .name = first->outputs[0],
    };
    if (group->kind != GROUP_NAMED)
        kernel->space = *f->facts->spaces[group->space];
    return group->kind == GROUP_NAMED
               ? remat_named_body(f->ctx, f->arena, f->graph, kernel)
               : remat_program_body(f->ctx, f->arena, f->graph, f->stored, kernel);
}

/* Whether it is stored lies in the low bits, and its root follows where that is another value. */
#define KEY_VALUES_MAX (1u << 30)

static remat_status push_value(struct fuser *f, uint32_t v)
{
    remat_status st = REMAT_OK;
    bool view = f->root[v] != v;
    REMAT_PUSH(f->arena, &f->key, v << 2 | (uint32_t)view << 1 | f->stored[v]);
    if (view)
        REMAT_PUSH(f->arena, &f->key, f->root[v]);
fail:
    return st;
}

/* All that the bodies above depend on and a sequence can change: the nodes, where their inputs come
 * from, and which values are stored. */
static remat_status write_key(struct fuser *f, const struct group *group)
{
    remat_status st = REMAT_OK;
    f->key.count = 0;
    for (size_t n = 0; n < group->nodes.count; n++) {
        const struct remat_node_info *node = &f->graph->nodes[group->nodes.items[n].i];
        REMAT_TRY(push_value(f, node->outputs[0].i)); /* which names the node */
        for (uint32_t i = 0; i < node->input_count; i++)
            for (uint32_t v = node->inputs[i].i; !remat_is_none(v); v = f->narrow[v])
                REMAT_TRY(push_value(f, v));
    }
fail:
    return st;
}

static remat_status find_kernel(struct fuser *f, const struct group *group,
                                struct remat_fused_kernel *out)
{
    remat_status st = REMAT_OK;
    struct remat_kernel_memo *memo = f->sequence->memo;
    const struct remat_fused_kernel *found;
    uint64_t hash;
    if (!memo || f->graph->value_count > KEY_VALUES_MAX)
        return write_kernel(f, group, out);
    REMAT_TRY(write_key(f, group));
    found = remat_kernel_memo_find(memo, group->nodes.items[0].i, f->key.items,
                                   (uint32_t)f->key.count, &hash);
    if (found) {
        *out = *found;
    } else {
        REMAT_TRY(write_kernel(f, group, out));
        REMAT_TRY(remat_kernel_list_shared(f->arena, f->graph, out));
        REMAT_TRY(remat_kernel_memo_add(memo, f->key.items, (uint32_t)f->key.count, hash, out));
    }
fail:
    return st;
}

/* readers[v]: nodes of the sequence. */
static void count_readers(struct fuser *f)
{
    for (uint32_t k = 0; k < f->sequence->count; k++) {
        const struct remat_node_info *node = node_at(f, k);
        bool cast = f->read[node->outputs[0].i].i != node->outputs[0].i;
        for (uint32_t i = 0; !cast && i < node->input_count; i++)
            f->readers[input_of(f, node, i).i]++;
    }
}

static remat_status place_nodes(struct fuser *f, const uint8_t *in_memory)
{
    remat_status st = REMAT_OK;
    f->groups.count = 0;
    for (uint32_t k = 0; k < f->sequence->count; k++)
        if (in_memory[f->sequence->nodes[k]] || !is_absorbed(f, node_at(f, k)))
            REMAT_TRY(place_node(f, f->sequence->nodes[k]));
fail:
    return st;
}

/* Too large, or so large that a column reduction was kept out. */
static bool is_full(const struct group *group)
{
    return group->nodes.count >= GROUP_NODES_MAX;
}

static remat_status collect_groups(struct fuser *f, bool *limited)
{
    remat_status st = REMAT_OK;
    uint8_t *in_memory;
    bool full = false;
    REMAT_NEW(f->arena, in_memory, f->graph->node_count);
    find_in_memory(f, in_memory);
    REMAT_TRY(place_nodes(f, in_memory));
    for (size_t g = 0; g < f->groups.count; g++) {
        full |= is_full(&f->groups.items[g]);
        *limited |=
            is_full(&f->groups.items[g]) && f->groups.items[g].bucket == REMAT_PHASE_BACKWARD;
    }
    if (full) {
        f->within = f->group_of;
        REMAT_NEW(f->arena, f->group_of, f->graph->node_count);
        memset(f->group_of, 0xff, f->graph->node_count * sizeof *f->group_of);
        REMAT_TRY(place_nodes(f, in_memory));
    }
    REMAT_TRY(compact(f));
fail:
    return st;
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

remat_status remat_fuse_sequence(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_graph *graph,
                                 const struct remat_sequence *sequence,
                                 struct remat_kernel_list *out)
{
    remat_status st = REMAT_OK;
    struct fuser f = {.ctx = ctx, .arena = arena, .graph = graph, .sequence = sequence};
    uint32_t tail = sequence->tail ? sequence->tail->count : 0;
    bool limited = false;
    struct remat_fuse_facts facts;
    f.facts = sequence->facts ? sequence->facts : &facts;
    if (!sequence->facts)
        REMAT_TRY(remat_fuse_facts_create(arena, graph, &facts));
    REMAT_NEW(arena, f.position, graph->node_count);
    REMAT_NEW(arena, f.group_of, graph->node_count);
    REMAT_NEW(arena, f.root, graph->value_count);
    REMAT_NEW(arena, f.producer, graph->value_count);
    memset(f.producer, 0xff, graph->value_count * sizeof *f.producer);
    REMAT_NEW(arena, f.readers, graph->value_count);
    REMAT_NEW(arena, f.stored, graph->value_count);
    memset(f.group_of, 0xff, graph->node_count * sizeof *f.group_of);
    find_roots(&f);
    REMAT_TRY(find_read(&f));
    count_readers(&f);
    REMAT_TRY(collect_groups(&f, &limited));
    find_stored(&f);
    *out = (struct remat_kernel_list){
        .count = (uint32_t)f.groups.count, .kernel_of_node = f.group_of, .limited = limited};
    REMAT_NEW(arena, out->kernels, f.groups.count + tail);
    for (uint32_t k = 0; k < out->count; k++)
        REMAT_TRY(find_kernel(&f, &f.groups.items[k], &out->kernels[k]));
    if (tail)
        append_tail(sequence->tail, out);
fail:
    return st;
}

remat_status remat_fuse(remat_context *ctx, struct remat_arena *arena,
                        const struct remat_graph *graph, struct remat_kernel_list *out)
{
    remat_status st = REMAT_OK;
    struct remat_sequence all = {.count = graph->node_count};
    uint32_t *nodes;
    REMAT_NEW(arena, nodes, graph->node_count);
    for (uint32_t n = 0; n < graph->node_count; n++)
        nodes[n] = n;
    all.nodes = nodes;
    REMAT_TRY(remat_fuse_sequence(ctx, arena, graph, &all, out));
fail:
    return st;
}
