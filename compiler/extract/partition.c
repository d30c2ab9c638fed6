/* Two nodes are in one kernel only if the rules of fuse.h let them whatever clones there are: over
 * index spaces that fit, connected by reads, and the later one before anything reads the earlier
 * one that cannot be in the same kernel. Parts are the connected components of the programs whose
 * nodes may meet. Column reductions share kernels only with nodes that are read for them alone
 * (private ones), so they are parts of their own. */
#include "partition.h"

#define NOT_POINTWISE (REMAT_FACT_ROW_REDUCE | REMAT_FACT_COLUMN_REDUCE)
#define HELD_MAX      8

struct meeting {
    struct remat_arena *arena;
    const struct remat_reads *reads;
    uint32_t *until; /* by node: the first that cannot be in any kernel with it and what follows */
    uint32_t *cluster;           /* by node: union-find over reads within kernels */
    uint32_t *column_cluster;    /* the same within kernels with column reductions */
    bool *private;               /* by node: read for column reductions alone */
    struct remat_partition *out; /* its parts: union-find */
};

static uint32_t find(uint32_t *set, uint32_t i)
{
    while (set[i] != i)
        i = set[i] = set[set[i]];
    return i;
}

static void unite(uint32_t *set, uint32_t a, uint32_t b)
{
    set[find(set, a)] = find(set, b);
}

static uint32_t kernel_of(const struct meeting *m, uint32_t node)
{
    return m->reads->kernels->kernel_of_node[node];
}

static bool is_late(const struct meeting *m, uint32_t kernel)
{
    return remat_is_late_program(m->reads, kernel);
}

static bool has(const struct meeting *m, uint32_t node, uint32_t fact)
{
    return remat_op_has(m->reads->graph->nodes[node].op, fact);
}

/* --- reads --- */

static bool rounds_columns(const struct meeting *m, uint32_t n)
{
    const struct remat_node_info *node = &m->reads->graph->nodes[n];
    uint32_t from =
        node->input_count ? m->reads->graph->values[node->inputs[0].i].node : REMAT_NONE;
    return node->op == REMAT_OP_cast && from + 1 == n && !remat_is_none(from) &&
           has(m, from, REMAT_FACT_COLUMN_REDUCE) && kernel_of(m, from) == kernel_of(m, n);
}

/* A column reduction, or the cast behind one that its kernel takes in. */
static bool goes_with_columns(const struct meeting *m, uint32_t n)
{
    return has(m, n, REMAT_FACT_COLUMN_REDUCE) || rounds_columns(m, n);
}

/* From the last node to the first. Of the forward pass there may be a clone. */
static void visit(struct meeting *m, uint32_t z)
{
    const struct remat_graph *g = m->reads->graph;
    const struct remat_node_info *node = &g->nodes[z];
    bool early = node->phase == REMAT_PHASE_FORWARD || node->phase == REMAT_PHASE_LOSS;
    for (uint32_t i = 0; !remat_is_none(kernel_of(m, z)) && i < node->input_count; i++) {
        struct remat_read read = remat_read_of(m->reads, z, i);
        if (remat_is_none(read.producer))
            continue;
        uint8_t phase = g->nodes[read.producer].phase;
        bool inside =
            read.inside && (phase == node->phase || early ||
                            (phase != REMAT_PHASE_BACKWARD && node->phase == REMAT_PHASE_BACKWARD));
        /* ordinary nodes are in no kernel with column reductions, whichever comes first */
        bool apart = has(m, z, REMAT_FACT_COLUMN_REDUCE) ||
                     (goes_with_columns(m, read.producer) && !goes_with_columns(m, z));
        uint32_t at = inside && !apart ? m->until[z] : z;
        if (at < m->until[read.producer])
            m->until[read.producer] = at;
        if (inside && !goes_with_columns(m, z) && !goes_with_columns(m, read.producer))
            unite(m->cluster, read.producer, z);
        if (!inside || !(has(m, z, REMAT_FACT_COLUMN_REDUCE) || m->private[z]))
            m->private[read.producer] = false;
    }
}

static bool is_kept(const struct meeting *m, uint32_t n)
{
    const struct remat_node_info *node = &m->reads->graph->nodes[n];
    bool kept = false;
    for (uint32_t o = 0; o < node->output_count; o++)
        kept |= m->reads->graph->values[node->outputs[o].i].role != REMAT_ROLE_ACTIVATION;
    return kept;
}

struct chains {
    uint32_t *length; /* by node: of the chain that ends with it; 0: none does */
    uint32_t *chain;  /* by node: union-find */
    bool *read;       /* by chain: a node that is not in it reads one of it */
};

/* Node z, the next one in graph order, reads a chain that nothing has read, over its own space. */
static bool is_held(const struct meeting *m, const struct chains *c, uint32_t z,
                    struct remat_read read)
{
    uint32_t from = read.producer;
    return read.inside && c->length[from] > 0 && !c->read[find(c->chain, from)] &&
           kernel_of(m, from) == kernel_of(m, z) &&
           m->reads->facts.nodes[z].space == m->reads->facts.nodes[from].space;
}

/* Joins node z to the chains that it reads, or ends those. */
static void follow_chains(struct meeting *m, struct chains *c, uint32_t z)
{
    const struct remat_node_info *node = &m->reads->graph->nodes[z];
    bool pointwise = is_late(m, kernel_of(m, z)) && !has(m, z, NOT_POINTWISE);
    bool chained = pointwise, bound = false;
    uint32_t length = 1;
    for (uint32_t i = 0; i < node->input_count; i++) {
        struct remat_read read = remat_read_of(m->reads, z, i);
        if (remat_is_none(read.producer))
            continue;
        bool held = is_held(m, c, z, read);
        chained = chained && (held || !read.inside);
        pointwise = pointwise && (read.inside || !is_late(m, kernel_of(m, read.producer)));
        length += held ? c->length[read.producer] : 0;
        bound |= held && !m->private[read.producer];
    }
    if (bound && pointwise)
        m->private[z] = false;
    chained = chained && pointwise && length <= HELD_MAX;
    c->length[z] = chained ? length : 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        struct remat_read read = remat_read_of(m->reads, z, i);
        if (remat_is_none(read.producer))
            continue;
        c->read[find(c->chain, read.producer)] |= !chained || !is_held(m, c, z, read);
        if (chained && read.inside)
            unite(c->chain, read.producer, z);
    }
}

/* Nodes of a chain are one kernel whatever there is beside: each reads nothing that may be in its
 * kernel but others of the chain, and nothing else has read those. So when the next one comes, they
 * are all that is in their kernel, which is open, and it joins. What joins a node that is not
 * private is not, either. */
static remat_status hold_nodes(struct meeting *m)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = m->reads->graph;
    struct chains c;
    REMAT_NEW(m->arena, c.length, g->node_count);
    REMAT_NEW(m->arena, c.chain, g->node_count);
    REMAT_NEW(m->arena, c.read, g->node_count);
    for (uint32_t z = 0; z < g->node_count; z++) {
        c.chain[z] = z;
        if (!remat_is_none(kernel_of(m, z)))
            follow_chains(m, &c, z);
    }
fail:
    return st;
}

/* Nor is what such a node reads. */
static void release_reads(struct meeting *m)
{
    const struct remat_graph *g = m->reads->graph;
    for (uint32_t z = g->node_count; z-- > 0;) {
        bool alone = m->private[z] || has(m, z, REMAT_FACT_COLUMN_REDUCE);
        for (uint32_t i = 0;
             !remat_is_none(kernel_of(m, z)) && !alone && i < g->nodes[z].input_count; i++) {
            struct remat_read read = remat_read_of(m->reads, z, i);
            if (!remat_is_none(read.producer))
                m->private[read.producer] = false;
        }
    }
}

static remat_status find_reads(struct meeting *m)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = m->reads->graph;
    REMAT_NEW(m->arena, m->until, g->node_count);
    REMAT_NEW(m->arena, m->cluster, g->node_count);
    REMAT_NEW(m->arena, m->private, g->node_count);
    for (uint32_t n = 0; n < g->node_count; n++) {
        m->until[n] = REMAT_NONE;
        m->cluster[n] = n;
        m->private[n] = is_late(m, kernel_of(m, n)) && !is_kept(m, n) && !has(m, n, NOT_POINTWISE);
    }
    for (uint32_t n = g->node_count; n-- > 0;)
        visit(m, n);
    REMAT_TRY(hold_nodes(m));
    release_reads(m);
    for (uint32_t k = 0; k < m->reads->kernels->count; k++) {
        const struct remat_fused_kernel *kernel = &m->reads->kernels->kernels[k];
        for (uint32_t n = 1; is_late(m, k) && n < kernel->node_count; n++)
            unite(m->cluster, kernel->nodes[0].i, kernel->nodes[n].i);
    }
fail:
    return st;
}

/* --- parts --- */

static void find_kinds(struct meeting *m)
{
    for (uint32_t n = 0; n < m->reads->graph->node_count; n++)
        m->out->kind[n] = !is_late(m, kernel_of(m, n)) ? REMAT_NODE_NONE
                          : goes_with_columns(m, n)    ? REMAT_NODE_COLUMN
                          : m->private[n]              ? REMAT_NODE_PRIVATE
                                                       : REMAT_NODE_ORDINARY;
}

/* Nodes of one kind that are one kernel when everything is saved. */
static void unite_kernels(struct meeting *m)
{
    for (uint32_t k = 0; k < m->reads->kernels->count; k++) {
        uint32_t first[REMAT_NODE_KIND_COUNT] = {REMAT_NONE, REMAT_NONE, REMAT_NONE, REMAT_NONE};
        const struct remat_fused_kernel *kernel = &m->reads->kernels->kernels[k];
        for (uint32_t i = 0; is_late(m, k) && i < kernel->node_count; i++) {
            uint32_t n = kernel->nodes[i].i;
            uint32_t *same = &first[m->out->kind[n]];
            *same = remat_is_none(*same) ? n : *same;
            if (m->out->kind[n] != REMAT_NODE_PRIVATE)
                unite(m->out->part, n, *same);
        }
    }
}

struct node_lists { /* lists of nodes, linked by node */
    uint32_t *head, *next;
};

static remat_status lists_create(struct remat_arena *arena, uint32_t heads, uint32_t nodes,
                                 struct node_lists *out)
{
    remat_status st = REMAT_OK;
    REMAT_NEW(arena, out->head, heads);
    REMAT_NEW(arena, out->next, nodes);
    memset(out->head, 0xff, heads * sizeof *out->head);
fail:
    return st;
}

static void lists_push(struct node_lists *l, uint32_t head, uint32_t n)
{
    l->next[n] = l->head[head];
    l->head[head] = n;
}

static remat_status meet_nodes(struct meeting *m)
{
    remat_status st = REMAT_OK;
    uint32_t count = m->reads->graph->node_count;
    struct node_lists members; /* by cluster */
    REMAT_TRY(lists_create(m->arena, count, count, &members));
    for (uint32_t n = count; n-- > 0;)
        if (m->out->kind[n] == REMAT_NODE_ORDINARY)
            lists_push(&members, find(m->cluster, n), n);
    for (uint32_t x = 0; x < count; x++)
        for (uint32_t y = m->out->kind[x] == REMAT_NODE_ORDINARY ? members.next[x] : REMAT_NONE;
             !remat_is_none(y) && y < m->until[x]; y = members.next[y])
            if (remat_may_fit(m->reads, x, y))
                unite(m->out->part, x, y);
fail:
    return st;
}

/* What may be in kernels with column reductions: of the forward pass what no other node of the
 * backward pass reads, since all reads of a clone there would be in the kernel. */
static remat_status connect_columns(struct meeting *m)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = m->reads->graph;
    bool *outside;
    REMAT_NEW(m->arena, outside, g->node_count);
    REMAT_NEW(m->arena, m->column_cluster, g->node_count);
    for (uint32_t z = g->node_count; z-- > 0;) {
        m->column_cluster[z] = z;
        outside[z] |= m->out->kind[z] == REMAT_NODE_ORDINARY;
        for (uint32_t i = 0; m->out->kind[z] != REMAT_NODE_NONE && i < g->nodes[z].input_count;
             i++) {
            struct remat_read read = remat_read_of(m->reads, z, i);
            if (!remat_is_none(read.producer))
                outside[read.producer] |= !read.inside || m->out->kind[z] == REMAT_NODE_ORDINARY;
        }
    }
    for (uint32_t z = 0; z < g->node_count; z++)
        for (uint32_t i = 0; !outside[z] && i < g->nodes[z].input_count; i++) {
            struct remat_read read = remat_read_of(m->reads, z, i);
            if (read.inside && !outside[read.producer])
                unite(m->column_cluster, read.producer, z);
        }
fail:
    return st;
}

static bool has_scope(const struct meeting *m, const struct node_lists *members, uint32_t cluster,
                      uint32_t scope)
{
    uint32_t n = members->head[cluster];
    while (!remat_is_none(n) && m->reads->graph->nodes[n].scope != scope)
        n = members->next[n];
    return !remat_is_none(n);
}

/* A column reduction may join a kernel with others, which nothing has read yet, in which some node
 * reads what it reads, and the first one has its scope. */
static void join_cluster(struct meeting *m, const struct node_lists *members, uint32_t cluster,
                         uint32_t n)
{
    const struct remat_fuse_node *nodes = m->reads->facts.nodes;
    if (!has_scope(m, members, cluster, m->reads->graph->nodes[n].scope))
        return;
    for (uint32_t c = members->head[cluster]; !remat_is_none(c); c = members->next[c])
        if (m->out->kind[c] == REMAT_NODE_COLUMN && nodes[c].space == nodes[n].space && c < n &&
            n < m->until[c])
            unite(m->out->part, c, n);
}

/* Of column reductions over one space those meet one of which reads what a node in the kernel of
 * the other does: two are in one kernel by that alone (fuse_groups.c). */
static remat_status meet_columns(struct meeting *m)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = m->reads->graph;
    struct node_lists members, reductions; /* by cluster; by the root that they read */
    REMAT_TRY(connect_columns(m));
    REMAT_TRY(lists_create(m->arena, g->node_count, g->node_count, &members));
    REMAT_TRY(lists_create(m->arena, g->value_count, g->node_count, &reductions));
    for (uint32_t n = g->node_count; n-- > 0;) {
        bool reduces = m->out->kind[n] == REMAT_NODE_COLUMN && has(m, n, REMAT_FACT_COLUMN_REDUCE);
        uint32_t root = reduces ? remat_read_of(m->reads, n, 0).root : REMAT_NONE;
        lists_push(&members, find(m->column_cluster, n), n);
        if (!remat_is_none(root))
            lists_push(&reductions, root, n);
    }
    for (uint32_t z = 0; z < g->node_count; z++)
        for (uint32_t i = 0; i < g->nodes[z].input_count; i++) {
            bool late =
                m->out->kind[z] == REMAT_NODE_PRIVATE || m->out->kind[z] == REMAT_NODE_COLUMN;
            uint32_t root = late ? remat_read_of(m->reads, z, i).root : REMAT_NONE;
            uint32_t n = remat_is_none(root) ? REMAT_NONE : reductions.head[root];
            for (; !remat_is_none(n); n = reductions.next[n])
                join_cluster(m, &members, find(m->column_cluster, z), n);
        }
fail:
    return st;
}

static remat_status list_nodes(struct remat_arena *arena, struct remat_partition *p)
{
    remat_status st = REMAT_OK;
    uint32_t count = p->reads.graph->node_count;
    REMAT_NEW(arena, p->first_of, count);
    REMAT_NEW(arena, p->next_of, count);
    memset(p->first_of, 0xff, count * sizeof *p->first_of);
    for (uint32_t n = count; n-- > 0;) {
        p->part[n] = find(p->part, n);
        if (p->kind[n] != REMAT_NODE_ORDINARY && p->kind[n] != REMAT_NODE_COLUMN)
            continue;
        p->next_of[n] = p->first_of[p->part[n]];
        p->first_of[p->part[n]] = n;
    }
fail:
    return st;
}

remat_status remat_partition_create(struct remat_arena *arena, const struct remat_graph *graph,
                                    const struct remat_kernel_list *kernels, const uint32_t *root,
                                    struct remat_partition *out)
{
    remat_status st = REMAT_OK;
    struct meeting m = {.arena = arena, .reads = &out->reads, .out = out};
    *out = (struct remat_partition){.reads = {.graph = graph, .kernels = kernels, .root = root}};
    REMAT_TRY(remat_reads_create(arena, &out->reads));
    REMAT_NEW(arena, out->kind, graph->node_count);
    REMAT_NEW(arena, out->part, graph->node_count);
    for (uint32_t n = 0; n < graph->node_count; n++)
        out->part[n] = n;
    REMAT_TRY(find_reads(&m));
    find_kinds(&m);
    unite_kernels(&m);
    REMAT_TRY(meet_nodes(&m));
    REMAT_TRY(meet_columns(&m));
    REMAT_TRY(list_nodes(arena, out));
fail:
    return st;
}
