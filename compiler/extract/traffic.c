#include "traffic.h"

#include "ops.h"

bool remat_is_early(const struct remat_fused_kernel *kernel)
{
    return kernel->phase == REMAT_PHASE_FORWARD || kernel->phase == REMAT_PHASE_LOSS;
}

uint32_t remat_traffic_writer(const struct remat_traffic_table *t, uint32_t root)
{
    uint32_t node = t->graph->values[root].node;
    return remat_is_none(node) ? REMAT_NONE : t->kernels->kernel_of_node[node];
}

static bool is_program(const struct remat_traffic_table *t, uint32_t kernel)
{
    return t->kernels->kernels[kernel].kind == REMAT_KERNEL_program;
}

bool remat_traffic_programmed(const struct remat_traffic_table *t, uint32_t root)
{
    return is_program(t, remat_traffic_writer(t, root));
}

uint32_t remat_traffic_first_late(const struct remat_traffic_table *t, uint32_t root)
{
    uint32_t first = REMAT_NONE;
    for (uint32_t r = t->reader_begin[root]; r < t->reader_begin[root + 1]; r++) {
        uint32_t k = t->readers[r];
        if (!remat_is_early(&t->kernels->kernels[k]) && is_program(t, k) &&
            t->first_node[k] < first)
            first = t->first_node[k];
    }
    return first;
}

static bool has_node(const struct remat_traffic_table *t, uint32_t kernel, uint32_t fact)
{
    const struct remat_fused_kernel *k = &t->kernels->kernels[kernel];
    for (uint32_t n = 0; n < k->node_count; n++)
        if (remat_op_has(t->graph->nodes[k->nodes[n].i].op, fact))
            return true;
    return false;
}

/* For each root that a kernel reads, once: counts, or records by `readers`. */
static void visit_reads(const struct remat_traffic_table *t, uint32_t *last, uint32_t *at,
                        uint32_t *readers)
{
    for (uint32_t k = 0; k < t->kernels->count; k++)
        for (uint32_t o = 0; o < t->kernels->kernels[k].operand_count; o++) {
            const struct remat_kernel_operand *operand = &t->kernels->kernels[k].operands[o];
            if (operand->access == REMAT_ACCESS_WRITE)
                continue;
            uint32_t root =
                operand->access == REMAT_ACCESS_UPDATE ? operand->previous.i : operand->value.i;
            if (last[root] == k + 1)
                continue;
            last[root] = k + 1;
            if (readers)
                readers[at[root]] = k;
            at[root]++;
        }
}

static remat_status find_readers(struct remat_arena *arena, struct remat_traffic_table *t)
{
    remat_status st = REMAT_OK;
    uint32_t count = t->graph->value_count, *last, *at;
    REMAT_NEW(arena, last, count);
    REMAT_NEW(arena, at, count + 1);
    REMAT_NEW(arena, t->reader_begin, count + 1);
    visit_reads(t, last, at, NULL);
    for (uint32_t v = 0; v < count; v++)
        t->reader_begin[v + 1] = t->reader_begin[v] + at[v];
    REMAT_NEW(arena, t->readers, t->reader_begin[count]);
    memset(last, 0, count * sizeof *last);
    memcpy(at, t->reader_begin, (count + 1) * sizeof *at);
    visit_reads(t, last, at, t->readers);
fail:
    return st;
}

/* The first node outside that reads what a node of the kernel computes. */
static void find_closed(struct remat_traffic_table *t)
{
    const struct remat_graph *g = t->graph;
    for (uint32_t n = 0; n < g->node_count; n++) {
        uint32_t kernel = t->kernels->kernel_of_node[n];
        for (uint32_t i = 0; i < g->nodes[n].input_count; i++) {
            uint32_t producer = g->values[t->facts->root[g->nodes[n].inputs[i].i]].node;
            uint32_t writer =
                remat_is_none(producer) ? REMAT_NONE : t->kernels->kernel_of_node[producer];
            if (!remat_is_none(kernel) && !remat_is_none(writer) && writer != kernel &&
                n < t->closed[writer])
                t->closed[writer] = n;
        }
    }
}

static remat_status find_nodes(struct remat_arena *arena, struct remat_traffic_table *t)
{
    remat_status st = REMAT_OK;
    uint32_t count = t->kernels->count;
    REMAT_NEW(arena, t->first_node, count);
    REMAT_NEW(arena, t->last_node, count);
    REMAT_NEW(arena, t->closed, count);
    for (uint32_t k = 0; k < count; k++) {
        const struct remat_fused_kernel *kernel = &t->kernels->kernels[k];
        t->first_node[k] = kernel->nodes[0].i;
        t->last_node[k] = kernel->nodes[kernel->node_count - 1].i;
        t->closed[k] = REMAT_NONE;
    }
    find_closed(t);
fail:
    return st;
}

remat_status remat_traffic_create(struct remat_arena *arena, const struct remat_graph *graph,
                                  const struct remat_kernel_list *kernels,
                                  const struct remat_facts *facts, struct remat_traffic_table *out)
{
    remat_status st = REMAT_OK;
    *out = (struct remat_traffic_table){.graph = graph, .kernels = kernels, .facts = facts};
    REMAT_TRY(find_readers(arena, out));
    REMAT_TRY(find_nodes(arena, out));
fail:
    return st;
}

static bool is_row_of(const struct remat_shape *shape, const struct remat_shape *space)
{
    return shape->rank == space->rank && shape->rank > 0 && shape->dims[shape->rank - 1] == 1 &&
           memcmp(shape->dims, space->dims, (shape->rank - 1) * sizeof *shape->dims) == 0;
}

bool remat_traffic_fits(const struct remat_traffic_table *t, uint32_t root, uint32_t reader)
{
    const struct remat_shape *shape = &t->graph->values[root].shape;
    const struct remat_shape *space = &t->kernels->kernels[reader].space;
    uint32_t writer = remat_traffic_writer(t, root);
    return remat_shape_equal(space, &t->kernels->kernels[writer].space) ||
           remat_shape_equal(space, shape) ||
           (is_row_of(shape, space) && has_node(t, reader, REMAT_FACT_ROW_REDUCE));
}

struct remat_traffic remat_traffic_of(const struct remat_traffic_table *t, uint32_t root)
{
    struct remat_traffic out = {.forced = t->facts->output[root],
                                .first_named = REMAT_NONE,
                                .first_joined = REMAT_NONE,
                                .first_program = REMAT_NONE,
                                .first_own = REMAT_NONE};
    uint32_t closed = REMAT_NONE, own_closed = REMAT_NONE, late = 0, late_programs = 0;
    for (uint32_t r = t->reader_begin[root]; r < t->reader_begin[root + 1]; r++) {
        const struct remat_fused_kernel *reader = &t->kernels->kernels[t->readers[r]];
        late += !remat_is_early(reader);
        late_programs += !remat_is_early(reader) && reader->kind == REMAT_KERNEL_program;
    }
    for (uint32_t r = t->reader_begin[root]; r < t->reader_begin[root + 1]; r++) {
        uint32_t reader = t->readers[r], ends = t->last_node[reader];
        if (remat_is_early(&t->kernels->kernels[reader])) {
            out.forced = true;
            continue;
        }
        if (t->kernels->kernels[reader].kind != REMAT_KERNEL_program) {
            out.first_named = out.named++ ? out.first_named : reader;
        } else {
            bool columns = has_node(t, reader, REMAT_FACT_COLUMN_REDUCE);
            bool fits = remat_traffic_fits(t, root, reader);
            bool joins = fits && t->first_node[reader] < closed && (!columns || late == 1);
            bool own =
                fits && t->first_node[reader] < own_closed && (!columns || late_programs == 1);
            if (joins)
                out.first_joined = out.joined++ ? out.first_joined : reader;
            out.apart += !joins;
            if (own && !joins)
                out.first_own = out.own++ ? out.first_own : reader;
            if (joins || own)
                ends = t->closed[reader];
            own_closed = ends < own_closed ? ends : own_closed;
            ends = joins ? ends : t->last_node[reader];
            if (remat_is_none(out.first_program))
                out.first_program = reader;
        }
        closed = ends < closed ? ends : closed;
    }
    return out;
}

bool remat_traffic_may_merge(const struct remat_traffic_table *t, uint32_t first, uint32_t second)
{
    return remat_shape_equal(&t->kernels->kernels[first].space,
                             &t->kernels->kernels[second].space) &&
           t->first_node[second] < t->closed[first] &&
           !has_node(t, first, REMAT_FACT_COLUMN_REDUCE) &&
           !has_node(t, second, REMAT_FACT_COLUMN_REDUCE);
}
