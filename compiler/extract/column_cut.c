/* Private nodes may run in the kernel of the column reductions that they are read for or in any
 * other; then their result is written and read. What the reductions read at least is a minimum cut
 * between what private nodes read and the reductions. */
#include "partition.h"

#define VARIOUS (REMAT_NONE - 1)

enum { SOURCE, SINK, FIRST };

/* By value: the part of the column reductions that all nodes read it for which are private or
 * reduce columns. */
static remat_status find_only(struct remat_column_cut *c)
{
    remat_status st = REMAT_OK;
    const struct remat_partition *p = c->partition;
    const struct remat_graph *g = p->reads.graph;
    uint32_t *goal; /* by private node: such a part, VARIOUS: several */
    REMAT_NEW(c->arena, goal, g->node_count);
    REMAT_NEW(c->arena, c->only, g->value_count);
    memset(goal, 0xff, g->node_count * sizeof *goal);
    memset(c->only, 0xff, g->value_count * sizeof *c->only);
    for (uint32_t z = g->node_count; z-- > 0;) {
        if (p->kind[z] != REMAT_NODE_PRIVATE && p->kind[z] != REMAT_NODE_COLUMN)
            continue;
        uint32_t at = p->kind[z] == REMAT_NODE_COLUMN ? p->part[z] : goal[z];
        for (uint32_t i = 0; i < g->nodes[z].input_count; i++) {
            struct remat_read read = remat_read_of(&p->reads, z, i);
            if (remat_is_none(read.root))
                continue;
            bool private =
                !remat_is_none(read.producer) && p->kind[read.producer] == REMAT_NODE_PRIVATE;
            uint32_t *only = private ? &goal[read.producer] : &c->only[read.root];
            *only = remat_is_none(*only) || *only == at ? at : VARIOUS;
        }
    }
fail:
    return st;
}

remat_status remat_column_cut_create(struct remat_column_cut *cut)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = cut->partition->reads.graph;
    REMAT_NEW(cut->arena, cut->of_node, g->node_count);
    REMAT_NEW(cut->arena, cut->of_value, g->value_count);
    memset(cut->of_node, 0xff, g->node_count * sizeof *cut->of_node);
    memset(cut->of_value, 0xff, g->value_count * sizeof *cut->of_value);
    REMAT_TRY(find_only(cut));
fail:
    return st;
}

static remat_status add_arc(struct remat_column_cut *c, uint32_t from, uint32_t to,
                            int64_t capacity, uint32_t item)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(remat_flow_add(&c->flow, from, to, capacity, NULL));
    REMAT_PUSH(c->arena, &c->arcs, ((struct remat_column_arc){capacity, item}));
fail:
    return st;
}

/* A value that columns or their private nodes read. One that is written for them alone costs that,
 * too. */
static remat_status add_value(struct remat_column_cut *c, const struct remat_read *read,
                              uint32_t to)
{
    remat_status st = REMAT_OK;
    const struct remat_partition *p = c->partition;
    if (remat_is_none(c->of_value[read->root])) {
        bool ordinary =
            !remat_is_none(read->producer) && p->kind[read->producer] == REMAT_NODE_ORDINARY;
        bool writes = ordinary && !c->needed[read->root] && c->only[read->root] == c->part;
        uint64_t bytes = remat_part_read_bytes(c->operands, read->root);
        if (bytes == 0 && ordinary)
            bytes = remat_value_bytes(&p->reads.graph->values[read->root]);
        c->of_value[read->root] = c->count++;
        REMAT_PUSH(c->arena, &c->values, read->root);
        REMAT_TRY(add_arc(c, SOURCE, c->of_value[read->root],
                          (int64_t)bytes * (writes ? c->times : 1), c->item_of[read->root]));
    }
    REMAT_TRY(add_arc(c, c->of_value[read->root], to, REMAT_FLOW_UNBOUNDED, REMAT_NONE));
fail:
    return st;
}

/* What node z reads: private nodes before it are followed. */
static remat_status add_reads(struct remat_column_cut *c, uint32_t z, uint32_t to)
{
    remat_status st = REMAT_OK;
    const struct remat_partition *p = c->partition;
    const struct remat_node_info *node = &p->reads.graph->nodes[z];
    for (uint32_t i = 0; i < node->input_count; i++) {
        struct remat_read read = remat_read_of(&p->reads, z, i);
        if (remat_is_none(read.root))
            continue;
        uint32_t from = read.producer;
        if (remat_is_none(from) || p->kind[from] != REMAT_NODE_PRIVATE) {
            REMAT_TRY(add_value(c, &read, to));
            continue;
        }
        if (remat_is_none(c->of_node[from])) {
            c->of_node[from] = c->count;
            c->count += 2;
            REMAT_PUSH(c->arena, &c->nodes, from);
            int64_t bytes = (int64_t)remat_value_bytes(&p->reads.graph->values[read.root]);
            REMAT_TRY(
                add_arc(c, c->of_node[from], c->of_node[from] + 1, c->times * bytes, REMAT_NONE));
        }
        REMAT_TRY(add_arc(c, c->of_node[from] + 1, to, REMAT_FLOW_UNBOUNDED, REMAT_NONE));
    }
fail:
    return st;
}

/* Where items could cost twice their bytes and would still be read, private nodes read them in
 * kernels of their own, or save as much as it takes to write them for that. */
static remat_status find_items(struct remat_column_cut *c, int64_t flow)
{
    remat_status st = REMAT_OK;
    int64_t more = 0, items = 0;
    for (size_t a = 0; a < c->arcs.count; a++) {
        bool item = !remat_is_none(c->arcs.items[a].item);
        items += item ? c->arcs.items[a].capacity : 0;
        remat_flow_set(&c->flow, (uint32_t)(2 * a), c->arcs.items[a].capacity * (item ? 2 : 1));
    }
    c->items.count = 0;
    if (items == 0)
        return REMAT_OK;
    REMAT_TRY(remat_flow_run(&c->flow, SOURCE, SINK, &more));
    for (size_t a = 0; a < c->arcs.count && more == flow + items; a++)
        if (!remat_is_none(c->arcs.items[a].item))
            REMAT_PUSH(c->arena, &c->items, c->arcs.items[a].item);
fail:
    return st;
}

remat_status remat_column_cut_find(struct remat_column_cut *c, uint32_t part, bool hides,
                                   uint64_t *out_bytes)
{
    remat_status st = REMAT_OK;
    const struct remat_partition *p = c->partition;
    int64_t flow;
    c->count = FIRST;
    c->part = part;
    c->times = hides ? 1 : 2;
    c->nodes.count = c->values.count = c->arcs.count = 0;
    REMAT_TRY(remat_flow_create(c->arena, 0, &c->flow));
    for (uint32_t n = p->first_of[part]; !remat_is_none(n); n = p->next_of[n])
        if (remat_op_has(p->reads.graph->nodes[n].op, REMAT_FACT_COLUMN_REDUCE))
            REMAT_TRY(add_reads(c, n, SINK));
    for (size_t i = 0; i < c->nodes.count; i++)
        REMAT_TRY(add_reads(c, c->nodes.items[i], c->of_node[c->nodes.items[i]]));
    c->flow.node_count = c->count;
    REMAT_TRY(remat_flow_run(&c->flow, SOURCE, SINK, &flow));
    *out_bytes = (uint64_t)flow;
    REMAT_TRY(find_items(c, flow));
    for (size_t i = 0; i < c->nodes.count; i++)
        c->of_node[c->nodes.items[i]] = REMAT_NONE;
    for (size_t i = 0; i < c->values.count; i++)
        c->of_value[c->values.items[i]] = REMAT_NONE;
fail:
    return st;
}
