/* Two nodes are in one kernel only if the rules of fuse.h let them whatever clones there are: over
 * index spaces that fit, connected by reads, and the later one before anything reads the earlier
 * one that cannot be in the same kernel. Parts are the connected components of the programs whose
 * nodes may meet. However a decision divides and joins them, all kernels of a part cost together at
 * least what one kernel of all of them would. Column reductions share kernels only with nodes that
 * are read for them alone (private ones), so they are parts of their own; what private nodes save
 * by moving to other kernels is a minimum cut. */
#include "parts.h"

#include "flow.h"
#include "fuse_facts.h"

#include <math.h>

struct entry { /* of an operand of a part: values by where their views begin, as in price.c */
    uint64_t offset;
    uint64_t bytes;
    uint32_t value, next;
};

/* Of nodes of kernel programs of the backward pass. A cast that rounds column sums is with them. */
enum kind { KIND_NONE, KIND_PRIVATE, KIND_ORDINARY, KIND_COLUMN, KIND_COUNT };

#define NOT_POINTWISE (REMAT_FACT_ROW_REDUCE | REMAT_FACT_COLUMN_REDUCE)
#define HELD_MAX      8
#define VARIOUS       (REMAT_NONE - 1)

struct partition {
    struct remat_arena *arena;
    const struct remat_graph *graph;
    const struct remat_kernel_list *kernels;
    const struct remat_price *prices;
    const struct remat_border_graph *border;
    const struct remat_device_description *floor;
    struct remat_fuse_facts facts;
    uint32_t space_count;
    uint8_t *fits;   /* by two spaces: nodes over them may be in one kernel */
    uint32_t *until; /* by node: the first that cannot be in any kernel with it and what follows */
    uint32_t *cluster;            /* by node: union-find over reads within kernels */
    uint32_t *column_cluster;     /* the same within kernels with column reductions */
    uint32_t *next;               /* by node: the next of the cluster */
    bool *private;                /* by node: read for column reductions alone */
    uint8_t *kind;                /* by node: enum kind */
    uint32_t *part;               /* by node: union-find */
    bool *needed;                 /* by value: read or kept outside of its part */
    uint32_t *only;               /* by value: see find_only */
    uint32_t *first_reader;       /* by item: a part that reads it */
    bool *joined;                 /* by kernel: it may be one kernel with a clone */
    uint32_t *first_of, *next_of; /* nodes of a part */
    uint32_t *seen, *read_in;     /* by kernel, by value: the last part that was looked at */
    struct entries {
        struct entry *items;
        size_t count, capacity;
    } entries;
    bool pure;             /* all nodes of its kernels are ordinary ones */
    uint32_t *first_entry; /* by value: of the part that is looked at */
    struct remat_parts *out;
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

static uint32_t kernel_of(const struct partition *p, uint32_t node)
{
    return remat_is_none(node) ? REMAT_NONE : p->kernels->kernel_of_node[node];
}

static bool is_program(const struct partition *p, uint32_t kernel)
{
    return !remat_is_none(kernel) && p->kernels->kernels[kernel].kind == REMAT_KERNEL_program;
}

static bool is_late(const struct partition *p, uint32_t kernel)
{
    return is_program(p, kernel) && p->kernels->kernels[kernel].phase == REMAT_PHASE_BACKWARD;
}

static bool has(const struct partition *p, uint32_t node, uint32_t fact)
{
    return remat_op_has(p->graph->nodes[node].op, fact);
}

/* --- what fits --- */

static bool is_row_of(const struct remat_shape *shape, const struct remat_shape *space)
{
    return shape->rank == space->rank && shape->dims[shape->rank - 1] == 1 &&
           memcmp(shape->dims, space->dims, (shape->rank - 1) * sizeof *shape->dims) == 0;
}

/* Nodes of one space, and those over its rows where something is reduced along them. */
static remat_status find_fits(struct partition *p)
{
    remat_status st = REMAT_OK;
    bool *reduced;
    const struct remat_graph *g = p->graph;
    for (uint32_t n = 0; n < g->node_count; n++)
        if (p->facts.nodes[n].space >= p->space_count)
            p->space_count = p->facts.nodes[n].space + 1;
    REMAT_NEW(p->arena, reduced, p->space_count);
    REMAT_NEW(p->arena, p->fits, (size_t)p->space_count * p->space_count);
    for (uint32_t n = 0; n < g->node_count; n++)
        reduced[p->facts.nodes[n].space] |=
            has(p, n, REMAT_FACT_ROW_REDUCE) && g->nodes[n].phase != REMAT_PHASE_OPTIMIZER;
    for (uint32_t a = 0; a < p->space_count; a++)
        for (uint32_t b = 0; b < p->space_count; b++)
            if (a == b || (reduced[b] && is_row_of(p->facts.spaces[a], p->facts.spaces[b])))
                p->fits[(size_t)a * p->space_count + b] = p->fits[(size_t)b * p->space_count + a] =
                    1;
fail:
    return st;
}

static bool may_fit(const struct partition *p, uint32_t a, uint32_t b)
{
    return p->fits[(size_t)p->facts.nodes[a].space * p->space_count + p->facts.nodes[b].space];
}

/* --- reads --- */

struct read {
    uint32_t root, producer; /* the node, in a kernel, that computes it; REMAT_NONE: none does */
    bool inside;             /* it may be read inside of a kernel */
};

/* What node z reads as input v: loads make casts and what fuse puts into every kernel. */
static struct read read_of(const struct partition *p, uint32_t z, uint32_t v)
{
    const struct remat_graph *g = p->graph;
    struct read read = {.inside = is_program(p, kernel_of(p, z))};
    for (;;) {
        uint32_t n = g->values[v].node;
        read.root = p->border->facts.root[v];
        read.producer = REMAT_NONE;
        if (remat_is_none(n))
            break;
        read.producer = n;
        if (!remat_is_none(kernel_of(p, n)))
            break;
        if (has(p, n, REMAT_FACT_VIEW))
            read.inside = false;
        else if (g->nodes[n].op != REMAT_OP_cast)
            return (struct read){.root = REMAT_NONE, .producer = REMAT_NONE};
        v = g->nodes[n].inputs[0].i;
    }
    if (remat_is_none(read.producer))
        read.inside = false;
    else {
        const struct remat_fused_kernel *writer = &p->kernels->kernels[kernel_of(p, read.producer)];
        bool rounds =
            has(p, read.producer, REMAT_FACT_COLUMN_REDUCE) && g->nodes[z].op == REMAT_OP_cast;
        read.inside = read.inside && writer->kind == REMAT_KERNEL_program &&
                      (rounds || may_fit(p, read.producer, z));
    }
    return read;
}

static bool rounds_columns(const struct partition *p, uint32_t n)
{
    const struct remat_node_info *node = &p->graph->nodes[n];
    uint32_t from = node->input_count ? p->graph->values[node->inputs[0].i].node : REMAT_NONE;
    return node->op == REMAT_OP_cast && from + 1 == n && !remat_is_none(from) &&
           has(p, from, REMAT_FACT_COLUMN_REDUCE) && kernel_of(p, from) == kernel_of(p, n);
}

/* A column reduction, or the cast behind one that its kernel takes in. */
static bool goes_with_columns(const struct partition *p, uint32_t n)
{
    return has(p, n, REMAT_FACT_COLUMN_REDUCE) || rounds_columns(p, n);
}

/* From the last node to the first. Of the forward pass there may be a clone. */
static void visit(struct partition *p, uint32_t z)
{
    const struct remat_graph *g = p->graph;
    const struct remat_node_info *node = &g->nodes[z];
    bool early = node->phase == REMAT_PHASE_FORWARD || node->phase == REMAT_PHASE_LOSS;
    for (uint32_t i = 0; !remat_is_none(kernel_of(p, z)) && i < node->input_count; i++) {
        struct read read = read_of(p, z, node->inputs[i].i);
        if (remat_is_none(read.producer))
            continue;
        uint8_t phase = g->nodes[read.producer].phase;
        bool inside =
            read.inside && (phase == node->phase || early ||
                            (phase != REMAT_PHASE_BACKWARD && node->phase == REMAT_PHASE_BACKWARD));
        /* ordinary nodes are in no kernel with column reductions */
        uint32_t at = inside && !has(p, z, REMAT_FACT_COLUMN_REDUCE) ? p->until[z] : z;
        if (at < p->until[read.producer])
            p->until[read.producer] = at;
        if (inside && !goes_with_columns(p, z) && !goes_with_columns(p, read.producer))
            unite(p->cluster, read.producer, z);
        if (!inside || !(has(p, z, REMAT_FACT_COLUMN_REDUCE) || p->private[z]))
            p->private[read.producer] = false;
    }
}

static bool is_kept(const struct partition *p, uint32_t n)
{
    const struct remat_node_info *node = &p->graph->nodes[n];
    bool kept = false;
    for (uint32_t o = 0; o < node->output_count; o++)
        kept |= p->graph->values[node->outputs[o].i].role != REMAT_ROLE_ACTIVATION;
    return kept;
}

struct chains {
    uint32_t *length; /* by node: of the chain that ends with it; 0: none does */
    uint32_t *chain;  /* by node: union-find */
    bool *read;       /* by chain: a node that is not in it reads one of it */
};

/* Node z, the next one in graph order, reads a chain that nothing has read, over its own space. */
static bool is_held(const struct partition *p, const struct chains *c, uint32_t z, struct read read)
{
    uint32_t from = read.producer;
    return read.inside && c->length[from] > 0 && !c->read[find(c->chain, from)] &&
           kernel_of(p, from) == kernel_of(p, z) &&
           p->facts.nodes[z].space == p->facts.nodes[from].space;
}

/* Joins node z to the chains that it reads, or ends those. */
static void follow_chains(struct partition *p, struct chains *c, uint32_t z)
{
    const struct remat_node_info *node = &p->graph->nodes[z];
    bool pointwise = is_late(p, kernel_of(p, z)) && !has(p, z, NOT_POINTWISE);
    bool chained = pointwise, bound = false;
    uint32_t length = 1;
    for (uint32_t i = 0; i < node->input_count; i++) {
        struct read read = read_of(p, z, node->inputs[i].i);
        if (remat_is_none(read.producer))
            continue;
        bool held = is_held(p, c, z, read);
        chained = chained && (held || !read.inside);
        pointwise = pointwise && (read.inside || !is_late(p, kernel_of(p, read.producer)));
        length += held ? c->length[read.producer] : 0;
        bound |= held && !p->private[read.producer];
    }
    if (bound && pointwise)
        p->private[z] = false;
    chained = chained && pointwise && length <= HELD_MAX;
    c->length[z] = chained ? length : 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        struct read read = read_of(p, z, node->inputs[i].i);
        if (remat_is_none(read.producer))
            continue;
        c->read[find(c->chain, read.producer)] |= !chained || !is_held(p, c, z, read);
        if (chained && read.inside)
            unite(c->chain, read.producer, z);
    }
}

/* Nodes of a chain are one kernel whatever there is beside: each reads nothing that may be in its
 * kernel but others of the chain, and nothing else has read those. So when the next one comes, they
 * are all that is in their kernel, which is open, and it joins. What joins a node that is not
 * private is not, either. */
static remat_status hold_nodes(struct partition *p)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = p->graph;
    struct chains c;
    REMAT_NEW(p->arena, c.length, g->node_count);
    REMAT_NEW(p->arena, c.chain, g->node_count);
    REMAT_NEW(p->arena, c.read, g->node_count);
    for (uint32_t z = 0; z < g->node_count; z++) {
        c.chain[z] = z;
        if (!remat_is_none(kernel_of(p, z)))
            follow_chains(p, &c, z);
    }
    for (uint32_t z = g->node_count; z-- > 0;)
        for (uint32_t i = 0; !remat_is_none(kernel_of(p, z)) && !p->private[z] &&
                             !has(p, z, REMAT_FACT_COLUMN_REDUCE) && i < g->nodes[z].input_count;
             i++) {
            struct read read = read_of(p, z, g->nodes[z].inputs[i].i);
            if (!remat_is_none(read.producer))
                p->private[read.producer] = false;
        }
fail:
    return st;
}

static remat_status find_reads(struct partition *p)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = p->graph;
    REMAT_NEW(p->arena, p->until, g->node_count);
    REMAT_NEW(p->arena, p->cluster, g->node_count);
    REMAT_NEW(p->arena, p->private, g->node_count);
    for (uint32_t n = 0; n < g->node_count; n++) {
        p->until[n] = REMAT_NONE;
        p->cluster[n] = n;
        p->private[n] = is_late(p, kernel_of(p, n)) && !is_kept(p, n) && !has(p, n, NOT_POINTWISE);
    }
    for (uint32_t n = g->node_count; n-- > 0;)
        visit(p, n);
    REMAT_TRY(hold_nodes(p));
    for (uint32_t k = 0; k < p->kernels->count; k++)
        for (uint32_t n = 1; is_late(p, k) && n < p->kernels->kernels[k].node_count; n++)
            unite(p->cluster, p->kernels->kernels[k].nodes[0].i, p->kernels->kernels[k].nodes[n].i);
fail:
    return st;
}

/* --- parts --- */

static void find_kinds(struct partition *p)
{
    for (uint32_t n = 0; n < p->graph->node_count; n++)
        p->kind[n] = !is_late(p, kernel_of(p, n)) ? KIND_NONE
                     : goes_with_columns(p, n)    ? KIND_COLUMN
                     : p->private[n]              ? KIND_PRIVATE
                                                  : KIND_ORDINARY;
}

/* Nodes of one kind that are one kernel when everything is saved. */
static void unite_kernels(struct partition *p)
{
    for (uint32_t k = 0; k < p->kernels->count; k++) {
        uint32_t first[KIND_COUNT] = {REMAT_NONE, REMAT_NONE, REMAT_NONE, REMAT_NONE};
        for (uint32_t i = 0; is_late(p, k) && i < p->kernels->kernels[k].node_count; i++) {
            uint32_t n = p->kernels->kernels[k].nodes[i].i;
            uint32_t *same = &first[p->kind[n]];
            *same = remat_is_none(*same) ? n : *same;
            if (p->kind[n] != KIND_PRIVATE)
                unite(p->part, n, *same);
        }
    }
}

static remat_status meet_nodes(struct partition *p)
{
    remat_status st = REMAT_OK;
    uint32_t count = p->graph->node_count, *head;
    REMAT_NEW(p->arena, head, count);
    REMAT_NEW(p->arena, p->next, count);
    memset(head, 0xff, count * sizeof *head);
    for (uint32_t n = count; n-- > 0;)
        if (p->kind[n] == KIND_ORDINARY) {
            uint32_t c = find(p->cluster, n);
            p->next[n] = head[c];
            head[c] = n;
        }
    for (uint32_t x = 0; x < count; x++)
        for (uint32_t y = p->kind[x] == KIND_ORDINARY ? p->next[x] : REMAT_NONE;
             !remat_is_none(y) && y < p->until[x]; y = p->next[y])
            if (may_fit(p, x, y))
                unite(p->part, x, y);
fail:
    return st;
}

/* What may be in kernels with column reductions: of the forward pass what no other node of the
 * backward pass reads, since all reads of a clone there would be in the kernel. */
static remat_status connect_columns(struct partition *p)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = p->graph;
    bool *outside;
    REMAT_NEW(p->arena, outside, g->node_count);
    REMAT_NEW(p->arena, p->column_cluster, g->node_count);
    for (uint32_t z = g->node_count; z-- > 0;) {
        p->column_cluster[z] = z;
        outside[z] |= p->kind[z] == KIND_ORDINARY;
        for (uint32_t i = 0; p->kind[z] != KIND_NONE && i < g->nodes[z].input_count; i++) {
            struct read read = read_of(p, z, g->nodes[z].inputs[i].i);
            if (!remat_is_none(read.producer))
                outside[read.producer] |= !read.inside || p->kind[z] == KIND_ORDINARY;
        }
    }
    for (uint32_t z = 0; z < g->node_count; z++)
        for (uint32_t i = 0; !outside[z] && i < g->nodes[z].input_count; i++) {
            struct read read = read_of(p, z, g->nodes[z].inputs[i].i);
            if (read.inside && !outside[read.producer])
                unite(p->column_cluster, read.producer, z);
        }
fail:
    return st;
}

/* Of column reductions over one space those meet that may be connected, or that read the same. */
static bool may_share(const struct partition *p, uint32_t a, uint32_t b)
{
    const struct remat_graph *g = p->graph;
    return p->facts.nodes[a].space == p->facts.nodes[b].space &&
           (find(p->column_cluster, a) == find(p->column_cluster, b) ||
            p->border->facts.root[g->nodes[a].inputs[0].i] ==
                p->border->facts.root[g->nodes[b].inputs[0].i]);
}

static remat_status meet_columns(struct partition *p)
{
    remat_status st = REMAT_OK;
    struct {
        uint32_t *items;
        size_t count, capacity;
    } list = {0};
    REMAT_TRY(connect_columns(p));
    for (uint32_t n = 0; n < p->graph->node_count; n++) {
        if (p->kind[n] != KIND_COLUMN || !has(p, n, REMAT_FACT_COLUMN_REDUCE))
            continue;
        for (size_t i = 0; i < list.count; i++)
            if (may_share(p, list.items[i], n))
                unite(p->part, list.items[i], n);
        REMAT_PUSH(p->arena, &list, n);
    }
fail:
    return st;
}

/* --- what parts take --- */

/* What is kept, or read in another part. What private nodes read is no more than they may save
 * (find_column_reads). */
static remat_status find_needed(struct partition *p)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = p->graph;
    REMAT_NEW(p->arena, p->needed, g->value_count);
    for (uint32_t v = 0; v < g->value_count; v++)
        p->needed[p->border->facts.root[v]] |=
            g->values[v].role == REMAT_ROLE_GRADIENT || p->border->facts.output[v];
    for (uint32_t u = 0; u < g->update_count; u++)
        p->needed[p->border->facts.root[g->updates[u].value.i]] = true;
    for (uint32_t z = 0; z < g->node_count; z++)
        for (uint32_t i = 0; p->kind[z] != KIND_PRIVATE && i < g->nodes[z].input_count; i++) {
            struct read read = read_of(p, z, g->nodes[z].inputs[i].i);
            if (!remat_is_none(kernel_of(p, z)) && !remat_is_none(read.producer) &&
                is_late(p, kernel_of(p, read.producer)) &&
                (p->kind[z] == KIND_NONE || find(p->part, z) != find(p->part, read.producer)))
                p->needed[read.root] = true;
        }
fail:
    return st;
}

static remat_status add_operand(struct partition *p, const struct remat_fused_kernel *kernel,
                                uint32_t operand)
{
    remat_status st = REMAT_OK;
    const struct remat_kernel_operand *o = &kernel->operands[operand];
    uint64_t bytes = remat_price_operand_bytes(p->graph, kernel, operand);
    uint32_t e = p->first_entry[o->value.i];
    while (!remat_is_none(e) && p->entries.items[e].offset != o->view->offset_elements)
        e = p->entries.items[e].next;
    if (remat_is_none(e)) {
        struct entry entry = {.offset = o->view->offset_elements,
                              .value = o->value.i,
                              .next = p->first_entry[o->value.i]};
        e = p->first_entry[o->value.i] = (uint32_t)p->entries.count;
        REMAT_PUSH(p->arena, &p->entries, entry);
    }
    if (bytes > p->entries.items[e].bytes)
        p->entries.items[e].bytes = bytes;
fail:
    return st;
}

/* Operands of all kernels that nodes of the part are in when everything is saved. */
static remat_status add_operands(struct partition *p, uint32_t part)
{
    remat_status st = REMAT_OK;
    p->entries.count = 0;
    p->pure = true;
    for (uint32_t n = p->first_of[part]; !remat_is_none(n); n = p->next_of[n]) {
        uint32_t k = kernel_of(p, n);
        if (p->seen[k] == part)
            continue;
        p->seen[k] = part;
        for (uint32_t i = 0; i < p->kernels->kernels[k].node_count; i++)
            p->pure &= p->kind[p->kernels->kernels[k].nodes[i].i] == KIND_ORDINARY;
        for (uint32_t o = 0; o < p->kernels->kernels[k].operand_count; o++)
            REMAT_TRY(add_operand(p, &p->kernels->kernels[k], o));
    }
fail:
    return st;
}

/* What the part reads of a value: of what is read from several elements on, the least where it is
 * not known by which nodes. */
static uint64_t read_bytes(const struct partition *p, uint32_t value)
{
    uint64_t least = 0, sum = 0;
    for (uint32_t e = p->first_entry[value]; !remat_is_none(e); e = p->entries.items[e].next) {
        uint64_t bytes = p->entries.items[e].bytes;
        sum += bytes;
        least = least == 0 || bytes < least ? bytes : least;
    }
    return p->pure ? sum : least;
}

/* What one kernel of all of the part would write and, of ordinary nodes, read. */
static void sum_up(struct partition *p, uint32_t part, uint64_t *written, uint64_t *read)
{
    const struct remat_graph *g = p->graph;
    *written = *read = 0;
    for (uint32_t n = p->first_of[part]; !remat_is_none(n); n = p->next_of[n]) {
        const struct remat_node_info *node = &g->nodes[n];
        for (uint32_t o = 0; o < node->output_count; o++)
            if (p->needed[node->outputs[o].i])
                *written += remat_value_bytes(&g->values[node->outputs[o].i]);
        for (uint32_t i = 0; i < node->input_count; i++) {
            struct read from = read_of(p, n, node->inputs[i].i);
            if (remat_is_none(from.root) || p->read_in[from.root] == part ||
                (!remat_is_none(from.producer) && is_late(p, kernel_of(p, from.producer)) &&
                 find(p->part, from.producer) == part))
                continue;
            p->read_in[from.root] = part;
            *read += read_bytes(p, from.root);
        }
    }
}

struct network {
    struct remat_flow flow;
    struct {
        struct arc {
            int64_t capacity;
            uint32_t item; /* REMAT_NONE: it is none */
        } * items;
        size_t count, capacity;
    } arcs; /* those of flow, without the reverse ones */
    uint32_t count, part;
    int64_t times;                /* that a private value outside of kernels with columns counts */
    uint32_t *of_node, *of_value; /* REMAT_NONE: none */
    struct id_list {
        uint32_t *items;
        size_t count, capacity;
    } nodes, values;
};

enum { SOURCE, SINK, FIRST };

static remat_status add_arc(struct partition *p, struct network *w, uint32_t from, uint32_t to,
                            int64_t capacity, uint32_t item)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(remat_flow_add(&w->flow, from, to, capacity, NULL));
    REMAT_PUSH(p->arena, &w->arcs, ((struct arc){capacity, item}));
fail:
    return st;
}

/* A value that columns or their private nodes read. One that is written for them alone costs that,
 * too. */
static remat_status add_value(struct partition *p, struct network *w, const struct read *read,
                              uint32_t to)
{
    remat_status st = REMAT_OK;
    if (remat_is_none(w->of_value[read->root])) {
        uint64_t bytes = read_bytes(p, read->root);
        bool writes = !remat_is_none(read->producer) && is_late(p, kernel_of(p, read->producer)) &&
                      p->kind[read->producer] == KIND_ORDINARY && !p->needed[read->root] &&
                      p->only[read->root] == w->part;
        if (bytes == 0 && !remat_is_none(read->producer))
            bytes = p->kind[read->producer] == KIND_ORDINARY
                        ? remat_value_bytes(&p->graph->values[read->root])
                        : 0;
        w->of_value[read->root] = w->count++;
        REMAT_PUSH(p->arena, &w->values, read->root);
        REMAT_TRY(add_arc(p, w, SOURCE, w->of_value[read->root],
                          (int64_t)bytes * (writes ? w->times : 1),
                          p->border->item_of[read->root]));
    }
    REMAT_TRY(add_arc(p, w, w->of_value[read->root], to, REMAT_FLOW_UNBOUNDED, REMAT_NONE));
fail:
    return st;
}

/* What node z reads: private nodes before it are followed. */
static remat_status add_reads(struct partition *p, struct network *w, uint32_t z, uint32_t to)
{
    remat_status st = REMAT_OK;
    const struct remat_node_info *node = &p->graph->nodes[z];
    for (uint32_t i = 0; i < node->input_count; i++) {
        struct read read = read_of(p, z, node->inputs[i].i);
        if (remat_is_none(read.root))
            continue;
        uint32_t from = read.producer;
        if (remat_is_none(from) || p->kind[from] != KIND_PRIVATE) {
            REMAT_TRY(add_value(p, w, &read, to));
            continue;
        }
        if (remat_is_none(w->of_node[from])) {
            w->of_node[from] = w->count;
            w->count += 2;
            REMAT_PUSH(p->arena, &w->nodes, from);
            REMAT_TRY(add_arc(p, w, w->of_node[from], w->of_node[from] + 1,
                              w->times * (int64_t)remat_value_bytes(&p->graph->values[read.root]),
                              REMAT_NONE));
        }
        REMAT_TRY(add_arc(p, w, w->of_node[from] + 1, to, REMAT_FLOW_UNBOUNDED, REMAT_NONE));
    }
fail:
    return st;
}

static void note_reader(struct partition *p, uint32_t item, uint32_t part)
{
    uint32_t *first = &p->first_reader[item];
    p->out->readers[item].apart |= !remat_is_none(*first) && *first != part;
    *first = part;
}

/* Where items could cost twice their bytes and would still be read, private nodes read them in
 * kernels of their own, or save as much as it takes to write them for that. */
static remat_status count_items(struct partition *p, struct network *w, int64_t flow)
{
    remat_status st = REMAT_OK;
    int64_t more = 0, items = 0;
    for (size_t a = 0; a < w->arcs.count; a++) {
        bool item = !remat_is_none(w->arcs.items[a].item);
        items += item ? w->arcs.items[a].capacity : 0;
        remat_flow_set(&w->flow, (uint32_t)(2 * a), w->arcs.items[a].capacity * (item ? 2 : 1));
    }
    if (items == 0)
        return REMAT_OK;
    REMAT_TRY(remat_flow_run(&w->flow, SOURCE, SINK, &more));
    for (size_t a = 0; a < w->arcs.count && more == flow + items; a++)
        if (!remat_is_none(w->arcs.items[a].item))
            note_reader(p, w->arcs.items[a].item, w->part);
fail:
    return st;
}

/* What kernels with column reductions read, and what others write for them alone, at least: to make
 * a private value outside costs a write, unless arithmetic hides it, and a read. */
static remat_status find_column_reads(struct partition *p, uint32_t part, struct network *w,
                                      uint64_t *out)
{
    remat_status st = REMAT_OK;
    int64_t flow;
    w->count = FIRST;
    w->part = part;
    w->times = p->out->slack_ns > 0 ? 1 : 2;
    w->nodes.count = w->values.count = w->arcs.count = 0;
    REMAT_TRY(remat_flow_create(p->arena, 0, &w->flow));
    for (uint32_t n = p->first_of[part]; !remat_is_none(n); n = p->next_of[n])
        if (has(p, n, REMAT_FACT_COLUMN_REDUCE))
            REMAT_TRY(add_reads(p, w, n, SINK));
    for (size_t i = 0; i < w->nodes.count; i++)
        REMAT_TRY(add_reads(p, w, w->nodes.items[i], w->of_node[w->nodes.items[i]]));
    w->flow.node_count = w->count;
    REMAT_TRY(remat_flow_run(&w->flow, SOURCE, SINK, &flow));
    *out = (uint64_t)flow;
    REMAT_TRY(count_items(p, w, flow));
    for (size_t i = 0; i < w->nodes.count; i++)
        w->of_node[w->nodes.items[i]] = REMAT_NONE;
    for (size_t i = 0; i < w->values.count; i++)
        w->of_value[w->values.items[i]] = REMAT_NONE;
fail:
    return st;
}

/* Of the part's kernels that have no private nodes, whose arithmetic may be elsewhere. */
static double arithmetic_ns(struct partition *p, uint32_t part)
{
    double ns = 0;
    for (uint32_t n = p->first_of[part]; !remat_is_none(n); n = p->next_of[n]) {
        const struct remat_fused_kernel *kernel = &p->kernels->kernels[kernel_of(p, n)];
        bool ordinary = kernel->nodes[0].i == n;
        for (uint32_t i = 0; ordinary && i < kernel->node_count; i++)
            ordinary = p->kind[kernel->nodes[i].i] == KIND_ORDINARY;
        if (ordinary)
            ns += (double)remat_price_kernel(p->graph, kernel, p->floor).flops /
                  p->floor->pointwise_flops_per_ns;
    }
    return ns;
}

/* The kernel that the part is in every plan, REMAT_NONE: there is none. */
static uint32_t settled_kernel(const struct partition *p, uint32_t part)
{
    uint32_t kernel = kernel_of(p, p->first_of[part]), nodes = 0;
    for (uint32_t n = p->first_of[part]; !remat_is_none(n); n = p->next_of[n], nodes++)
        if (kernel_of(p, n) != kernel)
            return REMAT_NONE;
    bool whole = nodes == p->kernels->kernels[kernel].node_count;
    return whole && !p->joined[kernel] ? kernel : REMAT_NONE;
}

/* Adds what the part takes at least. */
static remat_status price_part(struct partition *p, uint32_t part, struct network *w)
{
    remat_status st = REMAT_OK;
    uint64_t written, read;
    bool columns = p->kind[part] == KIND_COLUMN;
    double compute_ns = columns ? 0 : arithmetic_ns(p, part);
    REMAT_TRY(add_operands(p, part));
    sum_up(p, part, &written, &read);
    if (columns)
        REMAT_TRY(find_column_reads(p, part, w, &read));
    double traffic_ns = (double)(written + read) / p->floor->memory_bytes_per_ns;
    uint32_t settled = settled_kernel(p, part);
    uint64_t ns = (uint64_t)ceil(p->floor->launch_ns + fmax(compute_ns, traffic_ns));
    p->out->least_ns += remat_is_none(settled) ? ns : p->prices[settled].ns;
    if (!columns)
        p->out->slack_ns = fmax(p->out->slack_ns, compute_ns - traffic_ns);
    for (size_t e = 0; e < p->entries.count; e++)
        p->first_entry[p->entries.items[e].value] = REMAT_NONE;
fail:
    return st;
}

/* By value: the part of the column reductions that all nodes read it for which are private or
 * reduce columns. */
static remat_status find_only(struct partition *p)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = p->graph;
    uint32_t *goal; /* by private node: such a part, VARIOUS: several */
    REMAT_NEW(p->arena, goal, g->node_count);
    REMAT_NEW(p->arena, p->only, g->value_count);
    memset(goal, 0xff, g->node_count * sizeof *goal);
    memset(p->only, 0xff, g->value_count * sizeof *p->only);
    for (uint32_t z = g->node_count; z-- > 0;) {
        if (p->kind[z] != KIND_PRIVATE && p->kind[z] != KIND_COLUMN)
            continue;
        uint32_t at = p->kind[z] == KIND_COLUMN ? find(p->part, z) : goal[z];
        for (uint32_t i = 0; i < g->nodes[z].input_count; i++) {
            struct read read = read_of(p, z, g->nodes[z].inputs[i].i);
            if (remat_is_none(read.root))
                continue;
            uint32_t *only = !remat_is_none(read.producer) && p->kind[read.producer] == KIND_PRIVATE
                                 ? &goal[read.producer]
                                 : &p->only[read.root];
            *only = remat_is_none(*only) || *only == at ? at : VARIOUS;
        }
    }
fail:
    return st;
}

/* Those of column reductions last: what arithmetic may hide is known then. */
static remat_status price_parts(struct partition *p)
{
    remat_status st = REMAT_OK;
    struct network w = {0};
    uint32_t count = p->graph->node_count, values = p->graph->value_count;
    REMAT_NEW(p->arena, w.of_node, count);
    REMAT_NEW(p->arena, w.of_value, values);
    REMAT_NEW(p->arena, p->read_in, values);
    REMAT_NEW(p->arena, p->seen, p->kernels->count);
    REMAT_NEW(p->arena, p->first_entry, values);
    REMAT_NEW(p->arena, p->first_of, count);
    REMAT_NEW(p->arena, p->next_of, count);
    memset(w.of_node, 0xff, count * sizeof *w.of_node);
    memset(w.of_value, 0xff, values * sizeof *w.of_value);
    memset(p->read_in, 0xff, values * sizeof *p->read_in);
    memset(p->seen, 0xff, p->kernels->count * sizeof *p->seen);
    memset(p->first_entry, 0xff, values * sizeof *p->first_entry);
    memset(p->first_of, 0xff, count * sizeof *p->first_of);
    for (uint32_t n = count; n-- > 0;)
        if (p->kind[n] == KIND_ORDINARY || p->kind[n] == KIND_COLUMN) {
            uint32_t part = find(p->part, n);
            p->next_of[n] = p->first_of[part];
            p->first_of[part] = n;
        }
    for (enum kind kind = KIND_ORDINARY; kind <= KIND_COLUMN; kind++)
        for (uint32_t n = 0; n < count; n++)
            if (p->kind[n] == kind && find(p->part, n) == n)
                REMAT_TRY(price_part(p, n, &w));
fail:
    return st;
}

/* --- who reads items --- */

static remat_status find_readers(struct partition *p)
{
    remat_status st = REMAT_OK;
    REMAT_NEW(p->arena, p->first_reader, p->border->item_count);
    memset(p->first_reader, 0xff, p->border->item_count * sizeof *p->first_reader);
    for (uint32_t z = 0; z < p->graph->node_count; z++)
        for (uint32_t i = 0; p->kind[z] != KIND_NONE && i < p->graph->nodes[z].input_count; i++) {
            struct read read = read_of(p, z, p->graph->nodes[z].inputs[i].i);
            uint32_t item = remat_is_none(read.root) ? REMAT_NONE : p->border->item_of[read.root];
            if (remat_is_none(item))
                continue;
            struct remat_part_readers *readers = &p->out->readers[item];
            if (read.inside && !readers->joins)
                readers->first_node = z;
            readers->joins |= read.inside;
            readers->apart |= !read.inside;
            p->joined[kernel_of(p, z)] |= read.inside;
            if (p->kind[z] == KIND_PRIVATE)
                continue;
            note_reader(p, item, find(p->part, z));
        }
fail:
    return st;
}

remat_status remat_parts_create(struct remat_arena *arena, const struct remat_graph *graph,
                                const struct remat_kernel_list *kernels,
                                const struct remat_price *prices,
                                const struct remat_border_graph *border,
                                const struct remat_device_description *floor,
                                struct remat_parts *out)
{
    remat_status st = REMAT_OK;
    struct partition p = {.arena = arena,
                          .graph = graph,
                          .kernels = kernels,
                          .prices = prices,
                          .border = border,
                          .floor = floor,
                          .out = out};
    *out = (struct remat_parts){0};
    REMAT_NEW(arena, out->readers, border->item_count);
    REMAT_NEW(arena, p.part, graph->node_count);
    REMAT_NEW(arena, p.kind, graph->node_count);
    REMAT_NEW(arena, p.joined, kernels->count);
    for (uint32_t n = 0; n < graph->node_count; n++)
        p.part[n] = n;
    REMAT_TRY(remat_fuse_facts_create(arena, graph, &p.facts));
    REMAT_TRY(find_fits(&p));
    REMAT_TRY(find_reads(&p));
    find_kinds(&p);
    unite_kernels(&p);
    REMAT_TRY(meet_nodes(&p));
    REMAT_TRY(meet_columns(&p));
    REMAT_TRY(find_needed(&p));
    REMAT_TRY(find_only(&p));
    REMAT_TRY(find_readers(&p));
    REMAT_TRY(price_parts(&p));
fail:
    return st;
}
