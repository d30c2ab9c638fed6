/* SPDX-License-Identifier: Apache-2.0 */
/* Pads what ranks along "tp" divide by classes until it divides: tables of embeddings get rows, and
 * so do the weights and biases that make the logits of a cross entropy, which then has attribute
 * `classes`. Rows that a parameter had before are its unpadded ones. */
#include "passes.h"
#include "rebuild.h"

struct padder {
    struct remat_arena *arena;
    struct remat_graph *graph;
    int64_t ranks;
    bool *grows; /* by value: a parameter by axis 0, anything else by its last axis */
};

static struct remat_value_info *info_of(const struct padder *p, remat_value v)
{
    return &p->graph->values[v.i];
}

static bool is_parameter(const struct remat_value_info *info)
{
    return remat_is_none(info->node.i) && info->role == REMAT_ROLE_PARAMETER;
}

static int64_t *growing_length(struct remat_value_info *info)
{
    return &info->shape.dims[is_parameter(info) ? 0 : info->shape.rank - 1];
}

static remat_status refuse(const struct padder *p, remat_value v)
{
    struct remat_value_info *info = info_of(p, v);
    long long length = info->shape.rank ? *growing_length(info) : 1;
    return remat_error(p->arena->ctx, REMAT_ERROR_INVALID,
                       "value \"%.400s\": dimension %u, of %lld, is not divisible by %lld ranks "
                       "along tp, and its readers do not let it be padded here: remat-graph "
                       "--make-vocab-size-divisible-by %lld pads it",
                       info->name, is_parameter(info) ? 0 : info->shape.rank - 1, length,
                       (long long)p->ranks, (long long)p->ranks);
}

/* --- what grows --- */

/* Logits, and what they are made of. */
static remat_status mark(struct padder *p, remat_value v, int64_t classes)
{
    const struct remat_node_info *node = remat_producer_info(p->graph, v);
    struct remat_value_info *info = info_of(p, v);
    uint32_t first = node && node->op == REMAT_OP_linear ? 1 : 0;
    bool follows = node ? node->op == REMAT_OP_add || node->op == REMAT_OP_reshape ||
                              (first && remat_node_int(node, "transpose_weight", 0))
                        : is_parameter(info) &&
                              (info->initializer == REMAT_INIT_NORMAL || info->init_mean == 0);
    if (!follows || info->shape.rank == 0 || *growing_length(info) != classes)
        return refuse(p, v);
    p->grows[v.i] = true;
    for (uint32_t k = first; node && k < node->input_count; k++) {
        const struct remat_value_info *input = info_of(p, node->inputs[k]);
        if (node->op == REMAT_OP_add && is_parameter(input) && input->shape.rank != 1)
            return refuse(p, node->inputs[k]);
        REMAT_CHECK(mark(p, node->inputs[k], classes));
    }
    return REMAT_OK;
}

static remat_status mark_all(struct padder *p)
{
    for (uint32_t n = 0; n < p->graph->node_count; n++) {
        const struct remat_node_info *node = &p->graph->nodes[n];
        if (node->op != REMAT_OP_embedding && node->op != REMAT_OP_cross_entropy)
            continue;
        struct remat_value_info *info = info_of(p, node->inputs[0]);
        int64_t length = *growing_length(info);
        if (length % p->ranks && (node->op == REMAT_OP_cross_entropy || is_parameter(info)))
            REMAT_CHECK(mark(p, node->inputs[0], length));
    }
    return REMAT_OK;
}

/* Others would see that it has grown. */
static remat_status check_readers(struct padder *p)
{
    const struct remat_graph *graph = p->graph;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[n];
        bool takes = node->op == REMAT_OP_embedding || node->op == REMAT_OP_cross_entropy;
        for (uint32_t k = 0; k < node->input_count; k++)
            if (p->grows[node->inputs[k].i] && !p->grows[node->outputs[0].i] && !(takes && k == 0))
                return refuse(p, node->inputs[k]);
    }
    for (uint32_t o = 0; o < graph->output_count; o++)
        if (p->grows[graph->outputs[o].i])
            return refuse(p, graph->outputs[o]);
    return REMAT_OK;
}

/* --- growing --- */

static int64_t grown(const struct padder *p, int64_t length)
{
    return (length + p->ranks - 1) / p->ranks * p->ranks;
}

static void grow_value(const struct padder *p, struct remat_value_info *info)
{
    int64_t *length = growing_length(info);
    if (is_parameter(info) && !info->unpadded_rows)
        info->unpadded_rows = *length;
    *length = grown(p, *length);
}

/* Before its operands. */
static void grow_node(const struct padder *p, struct remat_node_info *node)
{
    struct remat_attribute *attributes =
        remat_array(p->arena, node->attribute_count + 1, sizeof *attributes);
    for (uint32_t k = 0; k < node->attribute_count; k++)
        attributes[k] = node->attributes[k];
    node->attributes = attributes;
    if (node->op == REMAT_OP_cross_entropy && !remat_node_attribute(node, "classes"))
        attributes[node->attribute_count++] =
            remat_attribute_int("classes", *growing_length(info_of(p, node->inputs[0])));
    for (uint32_t k = 0; k < node->attribute_count && node->op == REMAT_OP_reshape; k++) {
        int64_t *dims = remat_copy(p->arena, attributes[k].ints, attributes[k].count, sizeof *dims);
        dims[attributes[k].count - 1] = grown(p, dims[attributes[k].count - 1]);
        attributes[k].ints = dims;
    }
}

static bool is_joint(const struct remat_graph *graph)
{
    bool joint = graph->update_count > 0;
    for (uint32_t v = 0; v < graph->value_count; v++)
        joint |= graph->values[v].role == REMAT_ROLE_GRADIENT;
    return joint;
}

REMAT_PASS(pad_vocabulary)
{
    struct padder p = {.arena = arena, .ranks = remat_mesh_size(&graph->mesh, "tp")};
    if (is_joint(graph))
        return remat_pass_nothing(graph, out);
    *out = p.graph = remat_graph_copy(arena, graph, 1);
    REMAT_NEW(arena, p.grows, graph->value_count);
    REMAT_CHECK(mark_all(&p));
    REMAT_CHECK(check_readers(&p));
    for (uint32_t n = 0; n < graph->node_count; n++) {
        struct remat_node_info *node = &p.graph->nodes[n];
        bool ends = node->op == REMAT_OP_cross_entropy && p.grows[node->inputs[0].i];
        if (ends || p.grows[node->outputs[0].i])
            grow_node(&p, node);
    }
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (p.grows[v])
            grow_value(&p, &p.graph->values[v]);
    return REMAT_OK;
}
