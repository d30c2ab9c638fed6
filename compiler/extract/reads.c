/* Two nodes may be in one kernel if they are over one index space, or over the rows of one along
 * which something is reduced, and the kernels that hold them when everything is saved are
 * programs. A cast behind a column reduction rounds what that adds up, in its kernel. */
#include "partition.h"

static uint32_t kernel_of(const struct remat_reads *r, uint32_t node)
{
    return remat_is_none(node) ? REMAT_NONE : r->kernels->kernel_of_node[node];
}

static bool is_program(const struct remat_reads *r, uint32_t kernel)
{
    return !remat_is_none(kernel) && r->kernels->kernels[kernel].kind == REMAT_KERNEL_program;
}

bool remat_is_late_program(const struct remat_reads *r, uint32_t kernel)
{
    return is_program(r, kernel) && r->kernels->kernels[kernel].phase == REMAT_PHASE_BACKWARD;
}

static bool is_row_of(const struct remat_shape *shape, const struct remat_shape *space)
{
    return shape->rank == space->rank && shape->dims[shape->rank - 1] == 1 &&
           memcmp(shape->dims, space->dims, (shape->rank - 1) * sizeof *shape->dims) == 0;
}

/* Nodes of one space, and those over its rows where something is reduced along them. */
static remat_status find_fits(struct remat_arena *arena, struct remat_reads *r)
{
    remat_status st = REMAT_OK;
    bool *reduced;
    const struct remat_graph *g = r->graph;
    for (uint32_t n = 0; n < g->node_count; n++)
        if (r->facts.nodes[n].space >= r->space_count)
            r->space_count = r->facts.nodes[n].space + 1;
    REMAT_NEW(arena, reduced, r->space_count);
    REMAT_NEW(arena, r->fits, (size_t)r->space_count * r->space_count);
    for (uint32_t n = 0; n < g->node_count; n++)
        reduced[r->facts.nodes[n].space] |= remat_op_has(g->nodes[n].op, REMAT_FACT_ROW_REDUCE) &&
                                            g->nodes[n].phase != REMAT_PHASE_OPTIMIZER;
    for (uint32_t a = 0; a < r->space_count; a++)
        for (uint32_t b = 0; b < r->space_count; b++)
            if (a == b || (reduced[b] && is_row_of(r->facts.spaces[a], r->facts.spaces[b])))
                r->fits[(size_t)a * r->space_count + b] = r->fits[(size_t)b * r->space_count + a] =
                    1;
fail:
    return st;
}

bool remat_may_fit(const struct remat_reads *r, uint32_t a, uint32_t b)
{
    return r->fits[(size_t)r->facts.nodes[a].space * r->space_count + r->facts.nodes[b].space];
}

struct remat_read remat_read_of(const struct remat_reads *r, uint32_t z, uint32_t i)
{
    const struct remat_graph *g = r->graph;
    uint32_t v = g->nodes[z].inputs[i].i;
    struct remat_read read = {.inside = is_program(r, kernel_of(r, z))};
    for (;;) {
        uint32_t n = g->values[v].node;
        read.root = r->root[v];
        read.producer = REMAT_NONE;
        if (remat_is_none(n))
            break;
        read.producer = n;
        if (!remat_is_none(kernel_of(r, n)))
            break;
        if (remat_op_has(g->nodes[n].op, REMAT_FACT_VIEW))
            read.inside = false;
        else if (g->nodes[n].op != REMAT_OP_cast)
            return (struct remat_read){.root = REMAT_NONE, .producer = REMAT_NONE};
        v = g->nodes[n].inputs[0].i;
    }
    if (remat_is_none(read.producer))
        read.inside = false;
    else {
        const struct remat_fused_kernel *writer = &r->kernels->kernels[kernel_of(r, read.producer)];
        bool rounds = remat_op_has(g->nodes[read.producer].op, REMAT_FACT_COLUMN_REDUCE) &&
                      g->nodes[z].op == REMAT_OP_cast;
        read.inside = read.inside && writer->kind == REMAT_KERNEL_program &&
                      (rounds || remat_may_fit(r, read.producer, z));
    }
    return read;
}

remat_status remat_reads_create(struct remat_arena *arena, struct remat_reads *reads)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(remat_fuse_facts_create(arena, reads->graph, &reads->facts));
    REMAT_TRY(find_fits(arena, reads));
fail:
    return st;
}
