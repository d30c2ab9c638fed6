/* SPDX-License-Identifier: Apache-2.0 */
/* Greedy in graph order (rules in kernel_list.h). A first pass collects fusions of any size. If one
 * is too large, a second pass divides within the fusions of the first, so that a node that does not
 * fit its fusion opens no other fusion to nodes that it was closed to. A fusion is a list linked by
 * node. */
#include "fusions.h"

/* --- facts of a node --- */

const struct remat_shape *remat_fuse_space(const struct remat_graph *g,
                                           const struct remat_node_info *node)
{
    static const struct remat_shape scalar = {.rank = 1, .dims = {1}};
    bool reduces = remat_op_has(node->op, REMAT_FACT_ROW_REDUCE | REMAT_FACT_COLUMN_REDUCE);
    const struct remat_shape *shape =
        &g->values[(reduces ? node->inputs[0] : node->outputs[0]).i].shape;
    return shape->rank ? shape : &scalar;
}

/* The shape has one element for each row of the space. */
static bool is_row(const struct remat_shape *shape, const struct remat_shape *space)
{
    if (shape->rank != space->rank || shape->dims[shape->rank - 1] != 1)
        return false;
    return memcmp(shape->dims, space->dims, (shape->rank - 1) * sizeof *shape->dims) == 0;
}

/* No input of the node has more than one element a row. */
static bool reads_rows(const struct remat_graph *g, const struct remat_node_info *node)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct remat_shape *shape = &g->values[node->inputs[i].i].shape;
        if (shape->rank && shape->dims[shape->rank - 1] != 1)
            return false;
    }
    return true;
}

/* A row shared by several columns is never stored in place. */
bool remat_fuse_fits(const struct remat_graph *g, const struct remat_node_info *node,
                     const struct remat_shape *space, bool rows, bool columns)
{
    const uint32_t whole = REMAT_FACT_ROW_REDUCE | REMAT_FACT_COLUMN_REDUCE | REMAT_FACT_IN_PLACE;
    const struct remat_shape *needed = remat_fuse_space(g, node);
    if (remat_shape_equal(needed, space))
        return !columns || !remat_op_has(node->op, REMAT_FACT_ROW_REDUCE);
    return rows && !columns && !remat_op_has(node->op, whole) && is_row(needed, space) &&
           reads_rows(g, node);
}

static uint32_t facts_of(const struct remat_node_info *node)
{
    uint32_t facts = remat_op_info(node->op)->facts;
    if (node->op == REMAT_OP_column)
        facts |= REMAT_FUSE_COLUMN;
    if (node->op == REMAT_OP_cast)
        facts |= REMAT_FUSE_CAST;
    return facts;
}

static bool has(const struct remat_fuse_node *node, uint32_t facts)
{
    return (node->facts & facts) != 0;
}

static const struct remat_fuse_node *node_of(const struct remat_fuser *f, remat_node n)
{
    return &f->facts[n.i];
}

static remat_fusion_id fusion_of(const struct remat_fuser *f, remat_value value)
{
    return f->values[value.i].fusion;
}

static const struct remat_source *source_of(const struct remat_fuser *f,
                                            const struct remat_fuse_node *node, uint32_t input)
{
    return &f->sources.of[node->inputs[input].i];
}

/* The fusion that computes what a node loads. */
static remat_fusion_id source_fusion(const struct remat_fuser *f,
                                     const struct remat_fuse_node *node, uint32_t input)
{
    remat_value root = source_of(f, node, input)->root;
    return remat_is_none(root.i) ? REMAT_NO_FUSION : fusion_of(f, root);
}

/* The same; none through a view. */
static remat_fusion_id input_fusion(const struct remat_fuser *f, const struct remat_fuse_node *node,
                                    uint32_t input)
{
    return source_of(f, node, input)->viewed ? REMAT_NO_FUSION : source_fusion(f, node, input);
}

/* --- whether a node may join --- */

static uint32_t count_reads(const struct remat_fuser *f, const struct remat_fuse_node *node,
                            remat_value value)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < node->input_count; i++)
        count += source_of(f, node, i)->root.i == value.i && !source_of(f, node, i)->viewed;
    return count;
}

static bool reads_only_through_itself(const struct remat_fuser *f,
                                      const struct remat_fusion *fusion,
                                      const struct remat_fuse_node *node)
{
    for (remat_node m = fusion->first; !remat_is_none(m.i); m = f->next[m.i]) {
        const struct remat_node_info *member = &f->graph->nodes[m.i];
        for (uint32_t o = 0; o < member->output_count; o++) {
            remat_value v = member->outputs[o];
            uint32_t inside = count_reads(f, node, v);
            for (remat_node r = fusion->first; !remat_is_none(r.i); r = f->next[r.i])
                inside += count_reads(f, node_of(f, r), v);
            bool kept = f->graph->values[v.i].role != REMAT_ROLE_ACTIVATION;
            bool reduced = has(node_of(f, m), REMAT_FACT_COLUMN_REDUCE);
            if (!reduced && (kept || inside != f->values[v.i].reads))
                return false;
        }
    }
    return true;
}

/* A view of what the fusion computes is there only after it. */
static bool reads_own_view(const struct remat_fuser *f, remat_fusion_id fusion,
                           const struct remat_fuse_node *node)
{
    for (uint32_t i = 0; i < node->input_count; i++)
        if (source_of(f, node, i)->viewed && source_fusion(f, node, i).i == fusion.i)
            return true;
    return false;
}

/* The node rounds column sums that the fusion computes: their store does that. */
static bool rounds_columns(const struct remat_fuser *f, remat_fusion_id id,
                           const struct remat_fuse_node *node)
{
    return has(node, REMAT_FUSE_CAST) && fusion_of(f, node->inputs[0]).i == id.i &&
           has(node_of(f, remat_producer(f->graph, node->inputs[0])), REMAT_FACT_COLUMN_REDUCE);
}

/* True if the fusion may grow by so many nodes. */
static bool has_room(const struct remat_fuser *f, const struct remat_fusion *fusion, uint32_t nodes)
{
    return (!f->within && fusion->kind != REMAT_FUSION_COLUMN) ||
           fusion->node_count + nodes <= REMAT_FUSED_NODES_MAX;
}

static bool can_join(const struct remat_fuser *f, remat_fusion_id id,
                     const struct remat_fuse_node *node)
{
    const struct remat_fusion *fusion = &f->fusions.items[id.i];
    bool apart = f->within && f->within[fusion->first.i].i != f->within[node - f->facts].i;
    if (fusion->kind == REMAT_FUSION_BUILTIN || fusion->consumed || fusion->phase != node->phase ||
        apart)
        return false;
    if (rounds_columns(f, id, node))
        return true;
    if (!has_room(f, fusion, 1))
        return false;
    bool rows = fusion->kind == REMAT_FUSION_ROW, columns = fusion->kind == REMAT_FUSION_COLUMN;
    bool column_reduce = has(node, REMAT_FACT_COLUMN_REDUCE);
    if (column_reduce && fusion->node_count >= REMAT_FUSED_NODES_MAX)
        return false;
    return remat_fuse_fits(f->graph, &f->graph->nodes[node - f->facts], fusion->space, rows,
                           columns) &&
           (column_reduce ? !rows && reads_only_through_itself(f, fusion, node) : !columns) &&
           !reads_own_view(f, id, node);
}

/* --- choosing a fusion --- */

/* The latest fusion that computes a direct input of the node and accepts it. */
static remat_fusion_id find_fusion(const struct remat_fuser *f, const struct remat_fuse_node *node)
{
    remat_fusion_id best = REMAT_NO_FUSION;
    for (uint32_t i = 0; i < node->input_count; i++) {
        remat_fusion_id fusion = input_fusion(f, node, i);
        if (!remat_is_none(fusion.i) && (remat_is_none(best.i) || fusion.i > best.i) &&
            can_join(f, fusion, node))
            best = fusion;
    }
    return best;
}

static bool reads_root(const struct remat_fuser *f, const struct remat_fusion *fusion,
                       remat_value root)
{
    for (remat_node m = fusion->first; !remat_is_none(m.i); m = f->next[m.i])
        for (uint32_t i = 0; i < node_of(f, m)->input_count; i++)
            if (source_of(f, node_of(f, m), i)->root.i == root.i)
                return true;
    return false;
}

/* A column reduction of a value that the latest column kernel of the same scope reads anyway. */
static remat_fusion_id find_sibling(const struct remat_fuser *f, remat_node n)
{
    const struct remat_fuse_node *node = node_of(f, n);
    if (!has(node, REMAT_FACT_COLUMN_REDUCE))
        return REMAT_NO_FUSION;
    for (size_t back = 1; back <= 8 && back <= f->fusions.count; back++) {
        remat_fusion_id id = {(uint32_t)(f->fusions.count - back)};
        const struct remat_fusion *fusion = &f->fusions.items[id.i];
        if (fusion->node_count > 0 && fusion->kind == REMAT_FUSION_COLUMN &&
            f->graph->nodes[fusion->first.i].scope.i == f->graph->nodes[n.i].scope.i &&
            reads_root(f, fusion, source_of(f, node, 0)->root) && can_join(f, id, node))
            return id;
    }
    return REMAT_NO_FUSION;
}

static uint8_t kind_of(const struct remat_fuse_node *node)
{
    if (has(node, REMAT_FACT_BUILTIN))
        return REMAT_FUSION_BUILTIN;
    if (has(node, REMAT_FACT_ROW_REDUCE))
        return REMAT_FUSION_ROW;
    return has(node, REMAT_FACT_COLUMN_REDUCE) ? REMAT_FUSION_COLUMN : REMAT_FUSION_POINTWISE;
}

static remat_fusion_id open_fusion(struct remat_fuser *f, const struct remat_fuse_node *node)
{
    struct remat_fusion fusion = {
        .kind = kind_of(node), .phase = node->phase, .space = node->space};
    REMAT_PUSH(f->arena, &f->fusions, fusion);
    return (remat_fusion_id){(uint32_t)f->fusions.count - 1};
}

/* Merges two lists in graph order; returns the last node. */
static remat_node merge_lists(struct remat_fuser *f, remat_node a, remat_node b, remat_node *first)
{
    remat_node last = REMAT_NO_NODE, *link = first;
    while (!remat_is_none(a.i) || !remat_is_none(b.i)) {
        bool from_a = a.i < b.i; /* none is the greatest */
        last = *link = from_a ? a : b;
        *(from_a ? &a : &b) = f->next[last.i];
        link = &f->next[last.i];
    }
    return last;
}

static void set_fusion(struct remat_fuser *f, remat_node n, remat_fusion_id fusion)
{
    f->values[node_of(f, n)->output.i].fusion = fusion;
    for (uint32_t o = 1; o < node_of(f, n)->output_count; o++)
        f->values[f->graph->nodes[n.i].outputs[o].i].fusion = fusion;
}

/* Moves the nodes of `from` into `to`. */
static void merge(struct remat_fuser *f, remat_fusion_id from, remat_fusion_id to)
{
    struct remat_fusion *source = &f->fusions.items[from.i], *target = &f->fusions.items[to.i];
    for (remat_node n = source->first; !remat_is_none(n.i); n = f->next[n.i])
        set_fusion(f, n, to);
    target->last = merge_lists(f, source->first, target->first, &target->first);
    target->node_count += source->node_count;
    if (target->kind == REMAT_FUSION_POINTWISE)
        target->kind = source->kind;
    source->node_count = 0;
    source->first = source->last = REMAT_NO_NODE;
}

/* The other kernels that compute inputs of the node and that it could have joined become one with
 * its own: neither has been read from outside, so no cycle can arise. */
static void merge_producers(struct remat_fuser *f, const struct remat_fuse_node *node,
                            remat_fusion_id id)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        remat_fusion_id other = input_fusion(f, node, i);
        if (remat_is_none(other.i) || other.i == id.i || !can_join(f, other, node))
            continue;
        const struct remat_fusion *a = &f->fusions.items[other.i], *b = &f->fusions.items[id.i];
        bool mixed = (a->kind == REMAT_FUSION_COLUMN) != (b->kind == REMAT_FUSION_COLUMN);
        if (!mixed && remat_shape_equal(a->space, b->space) && has_room(f, a, b->node_count + 1))
            merge(f, other, id);
    }
}

static void append(struct remat_fuser *f, remat_node n, remat_fusion_id id)
{
    struct remat_fusion *fusion = &f->fusions.items[id.i];
    if (fusion->kind == REMAT_FUSION_POINTWISE)
        fusion->kind = kind_of(node_of(f, n));
    *(fusion->node_count++ ? &f->next[fusion->last.i] : &fusion->first) = n;
    fusion->last = n;
    f->next[n.i] = REMAT_NO_NODE;
    set_fusion(f, n, id);
}

static void consume(struct remat_fuser *f, remat_fusion_id fusion, remat_fusion_id own)
{
    if (!remat_is_none(fusion.i) && fusion.i != own.i)
        f->fusions.items[fusion.i].consumed = true;
}

/* Readers of a value run before the node that updates it in place, as if that read from them. */
static void mark_consumed(struct remat_fuser *f, const struct remat_fuse_node *node,
                          remat_fusion_id own)
{
    uint32_t updated = has(node, REMAT_FACT_IN_PLACE) ? node->output_count : 0;
    for (uint32_t i = 0; i < node->input_count; i++)
        consume(f, source_fusion(f, node, i), own);
    for (uint32_t i = 0; i < updated; i++) {
        uint32_t root = source_of(f, node, i)->root.i;
        for (uint32_t r = f->readers.begin[root]; r < f->readers.begin[root + 1]; r++)
            consume(f, fusion_of(f, node_of(f, f->readers.nodes[r])->output), own);
    }
}

static void place_node(struct remat_fuser *f, remat_node n)
{
    const struct remat_fuse_node *node = node_of(f, n);
    remat_fusion_id id = REMAT_NO_FUSION;
    if (!has(node, REMAT_FACT_BUILTIN)) {
        id = find_fusion(f, node);
        if (remat_is_none(id.i))
            id = find_sibling(f, n);
        else
            merge_producers(f, node, id);
    }
    if (remat_is_none(id.i))
        id = open_fusion(f, node);
    append(f, n, id);
    mark_consumed(f, node, id);
}

static void place_nodes(struct remat_fuser *f)
{
    f->fusions.count = 0;
    for (remat_node n = {0}; n.i < f->graph->node_count; n.i++) {
        if (!f->sources.absorbed[n.i])
            place_node(f, n);
    }
}

/* A column reduction may have stayed out of one. */
static bool is_full(const struct remat_fuser *f)
{
    for (size_t g = 0; g < f->fusions.count; g++)
        if (f->fusions.items[g].node_count >= REMAT_FUSED_NODES_MAX)
            return true;
    return false;
}

/* Once more, within the fusions that there are. */
static void divide(struct remat_fuser *f)
{
    REMAT_NEW(f->arena, f->within, f->graph->node_count);
    for (remat_fusion_id g = {0}; g.i < f->fusions.count; g.i++)
        for (remat_node n = f->fusions.items[g.i].first; !remat_is_none(n.i); n = f->next[n.i])
            f->within[n.i] = g;
    for (uint32_t v = 0; v < f->graph->value_count; v++)
        f->values[v].fusion = REMAT_NO_FUSION;
    place_nodes(f);
}

/* Values that the node's fusion reads from another. */
static void store_inputs(struct remat_fuser *f, const struct remat_fuse_node *node,
                         remat_fusion_id fusion)
{
    uint32_t reads = node->facts & REMAT_FUSE_COLUMN ? 0 : node->input_count; /* its shape alone */
    for (uint32_t i = 0; i < reads; i++) {
        remat_value root = source_of(f, node, i)->root;
        if (!remat_is_none(root.i) && fusion_of(f, root).i != fusion.i)
            f->stored[root.i] = 1;
    }
}

/* --- the whole --- */

/* Drops the fusions that merging has emptied and renumbers in order of last nodes. */
static void compact(struct remat_fuser *f)
{
    struct remat_fusions ordered = {0};
    for (remat_node n = {0}; n.i < f->graph->node_count; n.i++) {
        remat_fusion_id fusion = fusion_of(f, node_of(f, n)->output);
        if (!remat_is_none(fusion.i) && f->fusions.items[fusion.i].last.i == n.i)
            REMAT_PUSH(f->arena, &ordered, f->fusions.items[fusion.i]);
    }
    for (remat_kernel_id k = {0}; k.i < ordered.count; k.i++)
        for (remat_node n = ordered.items[k.i].first; !remat_is_none(n.i); n = f->next[n.i])
            f->kernel_of[n.i] = k;
    f->fusions = ordered;
}

static void find_stored(struct remat_fuser *f)
{
    for (remat_node n = {0}; n.i < f->graph->node_count; n.i++) {
        const struct remat_fuse_node *node = node_of(f, n);
        remat_fusion_id fusion = fusion_of(f, node->output);
        if (!remat_is_none(fusion.i))
            store_inputs(f, node, fusion);
    }
}

static void count_all_reads(struct remat_fuser *f)
{
    for (remat_node n = {0}; n.i < f->graph->node_count; n.i++) {
        const struct remat_fuse_node *node = node_of(f, n);
        bool loads = f->sources.absorbed[n.i] && has(node, REMAT_FUSE_CAST);
        for (uint32_t i = 0; i < node->input_count && !loads; i++) {
            const struct remat_source *source = source_of(f, node, i);
            if (!source->viewed && !remat_is_none(source->root.i))
                f->values[source->root.i].reads++;
        }
    }
}

static void collect(struct remat_fuser *f)
{
    remat_find_sources(f->arena, f->graph, &f->sources);
    f->readers = remat_find_readers(f->arena, f->graph, f->sources.of);
    count_all_reads(f);
    place_nodes(f);
    if (is_full(f))
        divide(f);
    compact(f);
    find_stored(f);
}

static void list_facts(struct remat_fuser *f)
{
    const struct remat_graph *g = f->graph;
    REMAT_NEW(f->arena, f->facts, g->node_count);
    REMAT_NEW_UNINITIALIZED(f->arena, f->values, g->value_count);
    for (uint32_t n = 0; n < g->node_count; n++) {
        const struct remat_node_info *node = &g->nodes[n];
        f->facts[n] = (struct remat_fuse_node){
            .facts = facts_of(node),
            .space = remat_fuse_space(g, node),
            .output = node->outputs[0],
            .input_count = node->input_count,
            .inputs = node->inputs,
            .output_count = node->output_count,
            .phase = node->phase == REMAT_PHASE_LOSS ? REMAT_PHASE_FORWARD : node->phase};
    }
    for (remat_value v = {0}; v.i < g->value_count; v.i++)
        f->values[v.i] = (struct remat_fuse_value){.fusion = REMAT_NO_FUSION};
}

static void store(struct remat_fuser *f, remat_value value)
{
    f->stored[remat_storage_root(f->graph, value).i] = 1;
}

/* Values that outlive the step's commands: outputs, states, gradients. */
static void store_lasting(struct remat_fuser *f)
{
    const struct remat_graph *g = f->graph;
    for (uint32_t o = 0; o < g->output_count; o++)
        store(f, g->outputs[o]);
    for (uint32_t u = 0; u < g->update_count; u++)
        store(f, g->updates[u].value);
    for (remat_value v = {0}; v.i < g->value_count; v.i++)
        if (g->values[v.i].role == REMAT_ROLE_GRADIENT)
            store(f, v);
}

void remat_fuse_collect(struct remat_fuser *f)
{
    const struct remat_graph *graph = f->graph;
    REMAT_NEW(f->arena, f->stored, graph->value_count);
    REMAT_NEW_UNINITIALIZED(f->arena, f->next, graph->node_count);
    REMAT_NEW_UNINITIALIZED(f->arena, f->kernel_of, graph->node_count);
    memset(f->kernel_of, 0xff, graph->node_count * sizeof *f->kernel_of);
    list_facts(f);
    collect(f);
    store_lasting(f);
}
