/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates are settled from the last one back, so that all reads of one are known when it comes:
 * those of kernels themselves and those of what they inline. A kernel may inline a value where the
 * nodes that make it fit its index space, the rules of fusion and its limit of nodes, together with
 * all that it inlines already; so every subset is legal. All readers inline a value where that
 * takes less than a rerun, but for what layers pass on, else none. */
#include "settle.h"

#include "fusions.h"
#include "kernel_body.h"
#include "stacks.h"

#include <math.h>

struct candidate_reader {
    remat_kernel_id kernel;
    bool direct; /* all of its reads are */
    bool own;    /* nodes of the kernel itself read it, not only what it inlines */
};
struct readers REMAT_LIST(struct candidate_reader);

struct settler {
    struct remat_arena *arena, *scratch, *once; /* of the result; until the end; of one price */
    struct remat_settled *out;
    struct remat_device_description device;
    struct readers *readers; /* by value */
    uint32_t *node_count;    /* by kernel, with all that it inlines */
    bool *runs_again; /* by kernel: for a candidate that a kernel of the backward pass loads */
    struct remat_load *loads; /* by kernel */
    bool *passed_on;          /* by value: a bottleneck of repeated layers */
};

static void find_kernels(struct remat_arena *arena, struct remat_settled *out)
{
    REMAT_NEW_UNINITIALIZED(arena, out->kernel_of, out->graph->node_count);
    memset(out->kernel_of, 0xff, out->graph->node_count * sizeof *out->kernel_of);
    for (remat_kernel_id k = {0}; k.i < out->kernels->count; k.i++)
        for (uint32_t n = 0; n < out->kernels->kernels[k.i].node_count; n++)
            out->kernel_of[out->kernels->kernels[k.i].nodes[n].i] = k;
}

/* --- state --- */

/* Visits nodes in graph order, so that inputs are classified first. A value derived from a
 * kernel-internal value that cannot be recomputed cannot be recomputed either. */
static void find_standing(struct settler *s)
{
    const struct remat_decision *pinned = s->out->pinned;
    struct remat_settled *out = s->out;
    const struct remat_graph *g = out->graph;
    for (uint32_t k = 0; k < out->kernels->count; k++)
        for (uint32_t o = 0; o < out->kernels->kernels[k].operand_count; o++)
            if (out->kernels->kernels[k].operands[o].access & REMAT_ACCESS_WRITE)
                out->written[out->kernels->kernels[k].operands[o].value.i] = true;
    for (uint32_t n = 0; n < g->node_count; n++) {
        bool once = false;
        remat_kernel_id kernel = out->kernel_of[n];
        if (remat_is_none(kernel.i) || remat_op_has(g->nodes[n].op, REMAT_FACT_VIEW))
            continue;
        for (uint32_t i = 0; i < remat_op_reads(&g->nodes[n]); i++) {
            remat_value root = remat_settled_source(out, g->nodes[n].inputs[i]).root;
            once |= !remat_is_none(root.i) && !remat_is_none(remat_producer(g, root).i) &&
                    !out->written[root.i] && out->state[root.i] == REMAT_VALUE_FIXED;
        }
        for (uint32_t o = 0; o < g->nodes[n].output_count && !once; o++) {
            remat_value v = g->nodes[n].outputs[o];
            bool saved =
                pinned && pinned->reasons[v.i] && pinned->actions[v.i] == REMAT_ACTION_SAVE;
            if (out->facts.recomputable[v.i])
                out->state[v.i] =
                    out->written[v.i] || saved ? REMAT_VALUE_CANDIDATE : REMAT_VALUE_INTERNAL;
        }
    }
}

static void list_own(struct settler *s)
{
    struct remat_settled *out = s->out;
    for (uint32_t n = 0; n < out->graph->node_count; n++)
        for (uint32_t o = 0; o < out->graph->nodes[n].output_count; o++) {
            remat_value v = out->graph->nodes[n].outputs[o];
            if (!remat_is_candidate(out, v))
                continue;
            struct remat_roots *own = &out->own[out->kernel_of[n].i];
            out->place[v.i] = (uint8_t)own->count;
            REMAT_PUSH(s->arena, own, v);
        }
}

/* --- slices --- */

/* The slice that makes `roots`. Visits a kernel's nodes in reverse, so that readers come first. */
static struct remat_slice find_slice(const struct remat_settled *settled, struct remat_arena *arena,
                                     const remat_value *roots, uint32_t count, bool again)
{
    const struct remat_graph *g = settled->graph;
    remat_kernel_id writer = remat_settled_writer(settled, roots[0]);
    const struct remat_kernel_info *kernel = remat_kernel_at(settled->kernels, writer);
    struct REMAT_LIST(struct remat_slice_read) reads = {0};
    bool *needed; /* by node of the kernel */
    remat_node *nodes;
    uint32_t begin = kernel->node_count;
    REMAT_NEW(arena, needed, kernel->node_count);
    REMAT_NEW(arena, nodes, kernel->node_count);
    for (uint32_t k = kernel->node_count; k-- > 0;) {
        const struct remat_node_info *node = &g->nodes[kernel->nodes[k].i];
        for (uint32_t r = 0; r < count; r++)
            needed[k] |= remat_producer(g, roots[r]).i == kernel->nodes[k].i;
        if (!needed[k])
            continue;
        nodes[--begin] = kernel->nodes[k];
        for (uint32_t i = 0; i < remat_op_reads(node); i++) {
            struct remat_source source = remat_settled_source(settled, node->inputs[i]);
            if (remat_is_none(source.root.i))
                continue;
            bool made = again ? settled->state[source.root.i] == REMAT_VALUE_INTERNAL
                              : remat_settled_writer(settled, source.root).i == writer.i;
            for (uint32_t m = 0; made && m < k; m++)
                needed[m] |= kernel->nodes[m].i == remat_producer(g, source.root).i;
            size_t r = 0;
            while (!made && r < reads.count && reads.items[r].root.i != source.root.i)
                r++;
            if (!made && r == reads.count)
                REMAT_PUSH(arena, &reads, ((struct remat_slice_read){source.root, true}));
            if (!made)
                reads.items[r].direct &= !source.viewed;
        }
    }
    return (struct remat_slice){.node_count = kernel->node_count - begin,
                                .read_count = (uint32_t)reads.count,
                                .nodes = nodes + begin,
                                .reads = reads.items};
}

/* By node of the slice: true if it makes one of `roots`. */
static bool *find_stored(const struct remat_settled *settled, struct remat_arena *arena,
                         const struct remat_slice *slice, const remat_value *roots, uint32_t count)
{
    bool *out;
    REMAT_NEW(arena, out, slice->node_count);
    for (uint32_t n = 0; n < slice->node_count; n++)
        for (uint32_t r = 0; r < count; r++)
            out[n] |= remat_producer(settled->graph, roots[r]).i == slice->nodes[n].i;
    return out;
}

struct remat_load remat_settled_load(struct remat_arena *scratch, const struct remat_settled *s,
                                     const remat_value *roots, uint32_t count, bool again,
                                     const struct remat_device_description *device)
{
    assert(count > 0);
    remat_kernel_id kernel = remat_settled_writer(s, roots[0]);
    const struct remat_kernel_info *whole = remat_kernel_at(s->kernels, kernel);
    struct remat_slice slice = find_slice(s, scratch, roots, count, again);
    const bool *stored = find_stored(s, scratch, &slice, roots, count);
    struct remat_kernel_info made = remat_kernel_part(scratch, s->graph, &s->kernel_of->i, whole,
                                                      slice.nodes, slice.node_count, stored);
    made.phase = again ? (uint8_t)REMAT_PHASE_BACKWARD : made.phase;
    const struct remat_kernel_info *host = again ? remat_settled_host(s, kernel) : NULL;
    return remat_price_load_beside(s->graph, &made, host, device);
}

/* --- row statistics --- */

/* One element for each row of a kernel with rows, which reduces them. */
static bool is_statistic(const struct settler *s, const struct remat_kernel_info *kernel,
                         remat_value v)
{
    const struct remat_shape *space = &kernel->space;
    const struct remat_shape *shape = &s->out->graph->values[v.i].shape;
    return s->out->state[v.i] == REMAT_VALUE_INTERNAL && kernel->kind == REMAT_KERNEL_fused &&
           space->rank == shape->rank && space->dims[space->rank - 1] > 1 &&
           shape->dims[space->rank - 1] == 1 &&
           memcmp(shape->dims, space->dims, (space->rank - 1) * sizeof *shape->dims) == 0;
}

/* To save statistics spares their rows' reductions wherever what is made of them runs again: what
 * candidates are made of become candidates, too. */
static void add_statistics(struct settler *s)
{
    struct remat_settled *out = s->out;
    struct remat_roots found = {0};
    for (remat_value v = {0}; v.i < out->graph->value_count; v.i++) {
        if (!remat_is_candidate(out, v))
            continue;
        struct remat_slice slice = find_slice(out, s->once, &v, 1, true);
        const struct remat_kernel_info *kernel =
            remat_kernel_at(out->kernels, remat_settled_writer(out, v));
        for (uint32_t n = 0; n < slice.node_count; n++) {
            const struct remat_node_info *node = &out->graph->nodes[slice.nodes[n].i];
            for (uint32_t o = 0; o < node->output_count; o++)
                if (is_statistic(s, kernel, node->outputs[o]))
                    REMAT_PUSH(s->scratch, &found, node->outputs[o]);
        }
        remat_arena_reset(s->once);
    }
    for (size_t i = 0; i < found.count; i++)
        out->state[found.items[i].i] = REMAT_VALUE_CANDIDATE;
}

/* --- whether a kernel can make a value for itself --- */

static bool reduces(const struct settler *s, const remat_node *nodes, uint32_t count, uint32_t fact)
{
    for (uint32_t n = 0; n < count; n++)
        if (remat_op_has(s->out->graph->nodes[nodes[n].i].op, fact))
            return true;
    return false;
}

static bool fits_space(const struct settler *s, remat_kernel_id kernel,
                       const struct remat_slice *slice)
{
    const struct remat_kernel_info *at = remat_kernel_at(s->out->kernels, kernel);
    bool columns = reduces(s, at->nodes, at->node_count, REMAT_FACT_COLUMN_REDUCE);
    bool rows = reduces(s, slice->nodes, slice->node_count, REMAT_FACT_ROW_REDUCE) ||
                reduces(s, at->nodes, at->node_count, REMAT_FACT_ROW_REDUCE);
    for (uint32_t k = 0; k < slice->node_count; k++) {
        const struct remat_node_info *node = &s->out->graph->nodes[slice->nodes[k].i];
        if (remat_op_has(node->op, REMAT_FACT_COLUMN_REDUCE | REMAT_FACT_BUILTIN) ||
            !remat_fuse_fits(s->out->graph, node, &at->space, rows, columns))
            return false;
    }
    return true;
}

static bool may_inline(const struct settler *s, const struct candidate_reader *reader,
                       const struct remat_slice *slice)
{
    const struct remat_kernel_info *kernel = remat_kernel_at(s->out->kernels, reader->kernel);
    return kernel->kind == REMAT_KERNEL_fused && kernel->phase != REMAT_PHASE_OPTIMIZER &&
           reader->direct &&
           s->node_count[reader->kernel.i] + slice->node_count <= REMAT_FUSED_NODES_MAX &&
           fits_space(s, reader->kernel, slice);
}

/* --- whether it should --- */

static double bytes_ns(const struct settler *s, remat_value root)
{
    return (double)remat_value_bytes(&s->out->graph->values[root.i]) /
           s->device.memory_bytes_per_ns;
}

/* The kernel's additional time when it makes the value instead of loading it. */
static double extra_ns(const struct settler *s, const struct candidate_reader *reader,
                       remat_value root, const struct remat_slice *slice, double compute_ns)
{
    struct remat_load load = s->loads[reader->kernel.i];
    double memory_ns = load.memory_ns - (reader->own ? bytes_ns(s, root) : 0);
    if (!reader->own)
        load.memory_ns += bytes_ns(s, root);
    for (uint32_t r = 0; r < slice->read_count; r++)
        if (!remat_kernel_reads(remat_kernel_at(s->out->kernels, reader->kernel),
                                slice->reads[r].root))
            memory_ns += bytes_ns(s, slice->reads[r].root);
    return fmax(load.compute_ns + compute_ns, memory_ns) - fmax(load.compute_ns, load.memory_ns);
}

static void add_reader(struct settler *s, remat_value root, struct candidate_reader reader)
{
    struct readers *list = &s->readers[root.i];
    for (size_t r = 0; r < list->count; r++)
        if (list->items[r].kernel.i == reader.kernel.i) {
            list->items[r].direct &= reader.direct;
            list->items[r].own |= reader.own;
            return;
        }
    REMAT_PUSH(s->scratch, list, reader);
}

static void inline_in(struct settler *s, remat_kernel_id kernel, remat_value root,
                      const struct remat_slice *slice)
{
    REMAT_PUSH(s->arena, &s->out->inlines[kernel.i], root);
    s->node_count[kernel.i] += slice->node_count;
    for (uint32_t r = 0; r < slice->read_count; r++)
        add_reader(s, slice->reads[r].root,
                   (struct candidate_reader){kernel, slice->reads[r].direct, false});
}

/* True if another value of its kernel is made of it. */
static bool is_inside(const struct settler *s, remat_kernel_id writer, remat_value root)
{
    const struct remat_roots *own = &s->out->own[writer.i];
    for (size_t i = 0; i < own->count; i++) {
        const struct remat_slice *slice = &s->out->slices[own->items[i].i];
        for (uint32_t r = 0; r < slice->read_count; r++)
            if (slice->reads[r].root.i == root.i)
                return true;
    }
    return false;
}

/* A value that one layer passes to the next is not inlined: a recomputed unit of layers would have
 * to hold its inputs instead. */
static bool is_held_for_less(const struct settler *s, remat_value root,
                             const struct remat_slice *slice)
{
    const struct remat_graph *g = s->out->graph;
    uint64_t bytes = 0;
    for (uint32_t r = 0; r < slice->read_count; r++)
        if (remat_is_candidate(s->out, slice->reads[r].root))
            bytes += remat_storage_bytes(&g->values[slice->reads[r].root.i]);
    return s->passed_on[root.i] && bytes / 2 >= remat_storage_bytes(&g->values[root.i]);
}

/* A rerun that makes nothing else; in its host what that reads is there. */
static double alone_ns(const struct settler *s, remat_kernel_id writer, remat_value root,
                       const struct remat_slice *slice, double compute_ns)
{
    const struct remat_kernel_info *host = remat_settled_host(s->out, writer);
    double memory_ns = bytes_ns(s, root), launch_ns = s->device.launch_ns;
    for (uint32_t r = 0; r < slice->read_count; r++) {
        if (host && remat_kernel_reads(host, slice->reads[r].root))
            launch_ns = 0;
        else
            memory_ns += bytes_ns(s, slice->reads[r].root);
    }
    return launch_ns + fmax(compute_ns, memory_ns);
}

static void settle(struct settler *s, remat_value root)
{
    const struct readers *list = &s->readers[root.i];
    remat_kernel_id writer = remat_settled_writer(s->out, root);
    const struct remat_slice *slice = &s->out->slices[root.i];
    double rerun_ns, all_ns = 0;
    bool all = true;
    if (remat_kernel_at(s->out->kernels, writer)->kind != REMAT_KERNEL_fused)
        return;
    double compute_ns = remat_settled_load(s->once, s->out, &root, 1, true, &s->device).compute_ns;
    remat_arena_reset(s->once);
    rerun_ns =
        s->runs_again[writer.i] ? bytes_ns(s, root) : alone_ns(s, writer, root, slice, compute_ns);
    for (size_t r = 0; r < list->count; r++) {
        const struct candidate_reader *reader = &list->items[r];
        double extra = extra_ns(s, reader, root, slice, compute_ns);
        bool rerun =
            remat_kernel_in_forward_pass(s->out->kernels, reader->kernel); /* of the reader */
        if (reader->kernel.i == writer.i)
            continue;
        all &= may_inline(s, reader, slice) && (!rerun || extra <= rerun_ns);
        all_ns += rerun ? 0 : extra;
    }
    all &= all_ns < rerun_ns && list->count > 0 && !is_held_for_less(s, root, slice);
    s->out->inlined[root.i] = all;
    bool by_reruns = false;
    for (size_t r = 0; r < list->count; r++) {
        const struct candidate_reader *reader = &list->items[r];
        bool rerun = remat_kernel_in_forward_pass(s->out->kernels, reader->kernel);
        by_reruns |= rerun && reader->own;
        if (all && reader->kernel.i != writer.i) {
            inline_in(s, reader->kernel, root, slice);
        } else if (reader->own && !rerun) {
            s->runs_again[writer.i] = true;
            s->out->reads[root.i] |= REMAT_READ_LOADED;
        }
    }
    if (!all && by_reruns && !is_inside(s, writer, root)) /* else a rerun may make it for itself */
        s->out->reads[root.i] |= REMAT_READ_LOADED;
}

/* --- settling --- */

static void find_readers(struct settler *s)
{
    const struct remat_graph *g = s->out->graph;
    for (uint32_t k = 0; k < s->out->kernels->count; k++) {
        const struct remat_kernel_info *kernel = &s->out->kernels->kernels[k];
        s->node_count[k] = kernel->node_count;
        s->loads[k] = remat_price_load(g, kernel, &s->device);
        for (uint32_t n = 0; n < kernel->node_count; n++) {
            const struct remat_node_info *node = &g->nodes[kernel->nodes[n].i];
            for (uint32_t i = 0; i < remat_op_reads(node); i++) {
                struct remat_source source = remat_settled_source(s->out, node->inputs[i]);
                remat_value root = source.root;
                if (remat_is_none(root.i) || remat_settled_writer(s->out, root).i == k)
                    continue;
                if (!remat_in_forward_pass(kernel->phase))
                    s->out->reads[root.i] |= REMAT_READ_LATE;
                else
                    s->out->reads[root.i] |= REMAT_READ_EARLY;
                if (remat_is_candidate(s->out, root))
                    add_reader(s, root, (struct candidate_reader){{k}, !source.viewed, true});
            }
        }
    }
}

static bool *list_candidates(const struct settler *s)
{
    bool *out;
    REMAT_NEW(s->scratch, out, s->out->graph->value_count);
    for (remat_value v = {0}; v.i < s->out->graph->value_count; v.i++)
        out[v.i] = remat_is_candidate(s->out, v);
    return out;
}

static void find_passed_on(struct settler *s, const bool *candidates)
{
    struct remat_stacks stacks;
    remat_stacks_find(s->scratch, s->out->graph, candidates, &stacks);
    for (uint32_t k = 0; k < stacks.count; k++)
        for (uint32_t span = 0; span < stacks.stacks[k].length; span++)
            s->passed_on[stacks.stacks[k].bottlenecks[span].i] = true;
}

void remat_settle(struct remat_arena *arena, const struct remat_graph *graph,
                  const struct remat_kernel_list *kernels,
                  const struct remat_device_description *device,
                  const struct remat_decision *pinned, struct remat_settled *out)
{
    assert(!pinned || pinned->value_count == graph->value_count);
    struct settler s = {.arena = arena,
                        .scratch = remat_scratch_open(arena->ctx),
                        .once = remat_scratch_open(arena->ctx),
                        .out = out,
                        .device = *device};
    *out = (struct remat_settled){.graph = graph, .kernels = kernels, .pinned = pinned};
    remat_facts_create(arena, graph, &out->facts);
    remat_find_sources(arena, graph, &out->sources);
    REMAT_NEW(arena, out->state, graph->value_count);
    REMAT_NEW(arena, out->written, graph->value_count);
    REMAT_NEW(arena, out->reads, graph->value_count);
    REMAT_NEW(arena, out->place, graph->value_count);
    REMAT_NEW(arena, out->inlined, graph->value_count);
    REMAT_NEW(arena, out->slices, graph->value_count);
    REMAT_NEW(arena, out->own, kernels->count);
    REMAT_NEW(arena, out->inlines, kernels->count);
    REMAT_NEW(s.scratch, s.readers, graph->value_count);
    REMAT_NEW(s.scratch, s.node_count, kernels->count);
    REMAT_NEW(s.scratch, s.loads, kernels->count);
    REMAT_NEW(s.scratch, s.runs_again, kernels->count);
    REMAT_NEW(s.scratch, s.passed_on, graph->value_count);
    find_kernels(arena, out);
    find_standing(&s);
    if (!remat_is_none(remat_find_foreign(graph).i)) {
        add_statistics(&s);
        out->host = remat_hosts_find(arena, out);
    }
    list_own(&s);
    for (remat_value v = {0}; v.i < graph->value_count; v.i++)
        if (remat_is_candidate(out, v))
            out->slices[v.i] = find_slice(out, arena, &v, 1, true);
    find_readers(&s);
    const bool *candidates = list_candidates(&s);
    find_passed_on(&s, candidates);
    for (uint32_t n = graph->node_count; n-- > 0;)
        for (uint32_t o = 0; o < graph->nodes[n].output_count; o++)
            if (remat_is_candidate(out, graph->nodes[n].outputs[o]))
                settle(&s, graph->nodes[n].outputs[o]);
    out->keeps = remat_keeps_create(arena, s.once, graph, candidates, device);
    remat_scratch_close(s.once);
    remat_scratch_close(s.scratch);
}
