/* However a decision divides and joins the kernels of a part, all of them cost together at least
 * what one kernel of all of the part would: a launch, and the longer one of its arithmetic and of
 * what it reads from outside and writes for outside. */
#include "parts.h"

#include "amounts.h"

#include "partition.h"

#include <math.h>

struct pricing {
    struct remat_arena *arena;
    const struct remat_price *prices;
    const struct remat_border_graph *border;
    const struct remat_device_description *floor;
    struct remat_partition partition;
    struct remat_part_operands operands;
    struct remat_column_cut cut;
    bool *needed;           /* by value: read or kept outside of its part */
    bool *joined;           /* by kernel: it may be one kernel with a clone */
    uint32_t *closed;       /* by node: by then its kernel is closed, REMAT_NONE: not known */
    uint32_t *first_reader; /* by item: a part that reads it */
    uint32_t *read_in;      /* by value: the last part that was looked at */
    struct remat_parts *out;
};

/* --- who reads what --- */

/* What is kept, or read in another part. What private nodes read is no more than they may save
 * (column_cut.c). */
static remat_status find_needed(struct pricing *w)
{
    remat_status st = REMAT_OK;
    const struct remat_partition *p = &w->partition;
    const struct remat_graph *g = p->reads.graph;
    REMAT_NEW(w->arena, w->needed, g->value_count);
    for (uint32_t v = 0; v < g->value_count; v++)
        w->needed[p->reads.root[v]] |=
            g->values[v].role == REMAT_ROLE_GRADIENT || w->border->facts.output[v];
    for (uint32_t u = 0; u < g->update_count; u++)
        w->needed[p->reads.root[g->updates[u].value.i]] = true;
    for (uint32_t z = 0; z < g->node_count; z++)
        for (uint32_t i = 0; p->kind[z] != REMAT_NODE_PRIVATE && i < g->nodes[z].input_count; i++) {
            struct remat_read read = remat_read_of(&p->reads, z, i);
            if (!remat_is_none(p->reads.kernels->kernel_of_node[z]) &&
                !remat_is_none(read.producer) && p->kind[read.producer] != REMAT_NODE_NONE &&
                p->part[z] != p->part[read.producer])
                w->needed[read.root] = true;
        }
fail:
    return st;
}

static void note_reader(struct pricing *w, uint32_t item, uint32_t part)
{
    uint32_t *first = &w->first_reader[item];
    w->out->readers[item].apart |= !remat_is_none(*first) && *first != part;
    *first = part;
}

/* A reader that cannot be in the kernel closes it; one that can is there, or closes it, too. */
static remat_status find_closed(struct pricing *w)
{
    remat_status st = REMAT_OK;
    const struct remat_partition *p = &w->partition;
    const struct remat_graph *g = p->reads.graph;
    REMAT_NEW(w->arena, w->closed, g->node_count);
    memset(w->closed, 0xff, g->node_count * sizeof *w->closed);
    for (uint32_t z = g->node_count; z-- > 0;)
        for (uint32_t i = 0; i < g->nodes[z].input_count; i++) {
            struct remat_read read = remat_read_of(&p->reads, z, i);
            bool stays = read.inside && p->kind[z] != REMAT_NODE_NONE;
            uint32_t closed = stays ? w->closed[z] : z;
            bool runs = !remat_is_none(p->reads.kernels->kernel_of_node[z]);
            if (runs && !remat_is_none(read.producer) && closed < w->closed[read.producer])
                w->closed[read.producer] = closed;
        }
fail:
    return st;
}

static void note_closed(struct remat_part_readers *readers, uint32_t closed)
{
    readers->closed = closed < readers->closed ? closed : readers->closed;
}

static remat_status find_readers(struct pricing *w)
{
    remat_status st = REMAT_OK;
    const struct remat_partition *p = &w->partition;
    const struct remat_graph *g = p->reads.graph;
    REMAT_NEW(w->arena, w->joined, p->reads.kernels->count);
    REMAT_NEW(w->arena, w->first_reader, w->border->item_count);
    memset(w->first_reader, 0xff, w->border->item_count * sizeof *w->first_reader);
    for (uint32_t i = 0; i < w->border->item_count; i++)
        w->out->readers[i].closed = REMAT_NONE;
    for (uint32_t z = 0; z < g->node_count; z++)
        for (uint32_t i = 0; p->kind[z] != REMAT_NODE_NONE && i < g->nodes[z].input_count; i++) {
            struct remat_read read = remat_read_of(&p->reads, z, i);
            uint32_t item = remat_is_none(read.root) ? REMAT_NONE : w->border->item_of[read.root];
            if (remat_is_none(item))
                continue;
            struct remat_part_readers *readers = &w->out->readers[item];
            if (read.inside && !readers->joins)
                readers->first_node = z;
            readers->joins |= read.inside;
            readers->apart |= !read.inside;
            note_closed(readers, read.inside ? w->closed[z] : z);
            w->joined[p->reads.kernels->kernel_of_node[z]] |= read.inside;
            if (p->kind[z] != REMAT_NODE_PRIVATE)
                note_reader(w, item, p->part[z]);
        }
fail:
    return st;
}

/* --- what parts take --- */

/* What one kernel of all of the part would write and, of ordinary nodes, read. */
static void sum_up(struct pricing *w, uint32_t part, uint64_t *written, uint64_t *read)
{
    const struct remat_partition *p = &w->partition;
    const struct remat_graph *g = p->reads.graph;
    *written = *read = 0;
    for (uint32_t n = p->first_of[part]; !remat_is_none(n); n = p->next_of[n]) {
        const struct remat_node_info *node = &g->nodes[n];
        for (uint32_t o = 0; o < node->output_count; o++)
            if (w->needed[node->outputs[o].i])
                *written += remat_value_bytes(&g->values[node->outputs[o].i]);
        for (uint32_t i = 0; i < node->input_count; i++) {
            struct remat_read from = remat_read_of(&p->reads, n, i);
            if (remat_is_none(from.root) || w->read_in[from.root] == part ||
                (!remat_is_none(from.producer) && p->part[from.producer] == part))
                continue;
            w->read_in[from.root] = part;
            *read += remat_part_read_bytes(&w->operands, from.root);
        }
    }
}

/* Of the part's kernels that have no private nodes, whose arithmetic may be elsewhere. */
static double arithmetic_ns(struct pricing *w, uint32_t part)
{
    const struct remat_partition *p = &w->partition;
    const struct remat_kernel_list *kernels = p->reads.kernels;
    double ns = 0;
    for (uint32_t n = p->first_of[part]; !remat_is_none(n); n = p->next_of[n]) {
        const struct remat_fused_kernel *kernel = &kernels->kernels[kernels->kernel_of_node[n]];
        bool ordinary = kernel->nodes[0].i == n;
        for (uint32_t i = 0; ordinary && i < kernel->node_count; i++)
            ordinary = p->kind[kernel->nodes[i].i] == REMAT_NODE_ORDINARY;
        if (ordinary)
            ns += (double)remat_price_kernel(p->reads.graph, kernel, w->floor).flops /
                  w->floor->pointwise_flops_per_ns;
    }
    return ns;
}

/* The kernel that the part is in every plan, REMAT_NONE: there is none. */
static uint32_t settled_kernel(const struct pricing *w, uint32_t part)
{
    const struct remat_partition *p = &w->partition;
    const struct remat_kernel_list *kernels = p->reads.kernels;
    uint32_t kernel = kernels->kernel_of_node[p->first_of[part]], nodes = 0;
    for (uint32_t n = p->first_of[part]; !remat_is_none(n); n = p->next_of[n], nodes++)
        if (kernels->kernel_of_node[n] != kernel)
            return REMAT_NONE;
    bool whole = nodes == kernels->kernels[kernel].node_count;
    return whole && !w->joined[kernel] ? kernel : REMAT_NONE;
}

/* What the kernel writes is in its price, for column reductions, too. */
static void settle(struct pricing *w, const struct remat_fused_kernel *kernel)
{
    for (uint32_t o = 0; o < kernel->operand_count; o++)
        w->needed[kernel->operands[o].value.i] |= kernel->operands[o].access == REMAT_ACCESS_WRITE;
}

/* Adds what the part takes at least. */
static remat_status price_part(struct pricing *w, uint32_t part)
{
    remat_status st = REMAT_OK;
    uint64_t written, read;
    bool columns = w->partition.kind[part] == REMAT_NODE_COLUMN;
    double compute_ns = columns ? 0 : arithmetic_ns(w, part);
    REMAT_TRY(remat_part_operands_take(&w->operands, part));
    sum_up(w, part, &written, &read);
    if (columns) {
        REMAT_TRY(remat_column_cut_find(&w->cut, part, w->out->slack_ns > 0, &read));
        for (size_t i = 0; i < w->cut.items.count; i++)
            note_reader(w, w->cut.items.items[i], part);
    }
    double traffic_ns = (double)(written + read) / w->floor->memory_bytes_per_ns;
    uint32_t settled = settled_kernel(w, part);
    uint64_t ns = remat_ns_ceil(w->floor->launch_ns + fmax(compute_ns, traffic_ns));
    w->out->least_ns =
        remat_ns_add(w->out->least_ns, remat_is_none(settled) ? ns : w->prices[settled].ns);
    if (!remat_is_none(settled))
        settle(w, &w->partition.reads.kernels->kernels[settled]);
    if (!columns)
        w->out->slack_ns = fmax(w->out->slack_ns, compute_ns - traffic_ns);
fail:
    return st;
}

/* Those of column reductions last: what arithmetic may hide is known then. */
static remat_status price_parts(struct pricing *w)
{
    remat_status st = REMAT_OK;
    const struct remat_partition *p = &w->partition;
    uint32_t values = p->reads.graph->value_count;
    REMAT_NEW(w->arena, w->read_in, values);
    memset(w->read_in, 0xff, values * sizeof *w->read_in);
    REMAT_TRY(remat_part_operands_create(w->arena, p, &w->operands));
    w->cut = (struct remat_column_cut){.arena = w->arena,
                                       .partition = p,
                                       .operands = &w->operands,
                                       .item_of = w->border->item_of,
                                       .needed = w->needed};
    REMAT_TRY(remat_column_cut_create(&w->cut));
    for (enum remat_node_kind kind = REMAT_NODE_ORDINARY; kind <= REMAT_NODE_COLUMN; kind++)
        for (uint32_t n = 0; n < p->reads.graph->node_count; n++)
            if (p->kind[n] == kind && p->part[n] == n)
                REMAT_TRY(price_part(w, n));
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
    struct pricing w = {
        .arena = arena, .prices = prices, .border = border, .floor = floor, .out = out};
    *out = (struct remat_parts){0};
    REMAT_NEW(arena, out->readers, border->item_count);
    REMAT_TRY(remat_partition_create(arena, graph, kernels, border->facts.root, &w.partition));
    REMAT_TRY(find_needed(&w));
    REMAT_TRY(find_closed(&w));
    REMAT_TRY(find_readers(&w));
    REMAT_TRY(price_parts(&w));
fail:
    return st;
}
