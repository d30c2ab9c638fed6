/* SPDX-License-Identifier: Apache-2.0 */
/* The ids that an input accepts follow from those who read it, directly or through views. They come
 * after it in the order of nodes, so one pass from the last node to the first finds all of them.
 *
 * tokens [B, T + 1] that are ids but for the last column, and targets but for the first, accept
 * what the ids or the targets do. The same tokens read as a whole by both accept what both do. */
#include "ops.h"
#include "rebuild.h"

struct index_readers {
    struct remat_indices whole; /* accepted by all that read the whole value; bound 0: none does */
    struct remat_indices parts; /* accepted by one of those that read a part; bound 0: none does */
    bool others;                /* to whom the elements are something else */
};

static bool is_below(int32_t element, uint32_t bound)
{
    return element >= 0 && (uint32_t)element < bound;
}

static bool accepts(struct remat_indices indices, int32_t element)
{
    return is_below(element, indices.bound) || element == indices.ignored;
}

static struct remat_indices both(struct remat_indices a, struct remat_indices b)
{
    struct remat_indices out = {.bound = a.bound < b.bound ? a.bound : b.bound};
    if (!is_below(a.ignored, out.bound) && accepts(b, a.ignored))
        out.ignored = a.ignored;
    if (!is_below(b.ignored, out.bound) && accepts(a, b.ignored))
        out.ignored = b.ignored;
    return out;
}

/* Bound 0: more than a bound and one ignored element can say. */
static struct remat_indices either(struct remat_indices a, struct remat_indices b)
{
    bool different = a.bound != b.bound || (a.ignored && b.ignored && a.ignored != b.ignored);
    return different ? (struct remat_indices){0}
                     : (struct remat_indices){a.bound, a.ignored ? a.ignored : b.ignored};
}

static void add_reader(struct index_readers *readers, struct remat_indices accepted, bool part)
{
    struct remat_indices *of = part ? &readers->parts : &readers->whole;
    if (of->bound && accepted.bound)
        accepted = part ? either(*of, accepted) : both(*of, accepted);
    *of = accepted;
    readers->others |= accepted.bound == 0;
}

static struct remat_indices accepted_by(const struct index_readers *readers)
{
    if (readers->others)
        return (struct remat_indices){0};
    if (readers->whole.bound && readers->parts.bound)
        return both(readers->whole, readers->parts);
    return readers->whole.bound ? readers->whole : readers->parts;
}

static void find_readers(struct remat_arena *arena, const struct remat_graph *graph,
                         struct index_readers *readers)
{
    bool *needed = remat_find_kept(arena, graph);
    for (uint32_t o = 0; o < graph->output_count; o++)
        add_reader(&readers[graph->outputs[o].i], (struct remat_indices){0}, false);
    for (uint32_t u = 0; u < graph->update_count; u++)
        add_reader(&readers[graph->updates[u].value.i], (struct remat_indices){0}, false);
    for (uint32_t n = graph->node_count; n-- > 0;) {
        const struct remat_node_info *node = &graph->nodes[n];
        bool view = remat_op_has(node->op, REMAT_FACT_VIEW), part = node->op == REMAT_OP_slice;
        uint32_t count = remat_is_needed(graph, node, needed) ? node->input_count : 0;
        for (uint32_t k = 0; k < count; k++) {
            needed[node->inputs[k].i] = true;
            add_reader(&readers[node->inputs[k].i],
                       view ? accepted_by(&readers[node->outputs[0].i])
                            : remat_op_indices(graph, node, k),
                       part);
        }
    }
}

/* A bound of 0 accepts all. */
static remat_status check_data(remat_context *ctx, const struct remat_value_info *constant,
                               struct remat_indices accepted)
{
    int64_t count = accepted.bound ? remat_shape_elements(&constant->shape) : 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t element;
        memcpy(&element, (const char *)constant->data + (size_t)i * sizeof element, sizeof element);
        if (!accepts(accepted, element))
            return remat_error(ctx, REMAT_ERROR_INVALID,
                               "constant \"%.200s\": element %lld is %ld, but is used as an index; "
                               "accepted: 0 to %ld",
                               constant->name, (long long)i, (long)element,
                               (long)accepted.bound - 1);
    }
    return REMAT_OK;
}

REMAT_PASS(indices)
{
    struct index_readers *readers;
    *out = remat_graph_copy(arena, graph, 1);
    REMAT_NEW(arena, readers, graph->value_count);
    find_readers(arena, graph, readers);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        struct remat_value_info *info = &(*out)->values[v];
        if (!remat_is_none(info->node.i) || info->dtype != REMAT_I32)
            continue;
        if (info->role == REMAT_ROLE_INPUT)
            info->indices = accepted_by(&readers[v]);
        else if (info->data)
            REMAT_CHECK(check_data(arena->ctx, info, accepted_by(&readers[v])));
    }
    return REMAT_OK;
}
