/* SPDX-License-Identifier: Apache-2.0 */
/* A hash over what a graph computes. Ops enter by name, so it outlives changes of the op table. */
#include "ops.h"

static uint64_t hash_u64(uint64_t h, uint64_t word)
{
    return remat_hash(&word, sizeof word, h);
}

static uint64_t hash_double(uint64_t h, double number)
{
    return remat_hash(&number, sizeof number, h);
}

static uint64_t hash_ids(uint64_t h, const remat_value *ids, uint32_t count)
{
    h = hash_u64(h, count);
    return remat_hash(ids, count * sizeof *ids, h);
}

static uint64_t hash_value(uint64_t h, const struct remat_value_info *value)
{
    h = hash_u64(h, value->shape.rank);
    h = remat_hash(value->shape.dims, value->shape.rank * sizeof value->shape.dims[0], h);
    h = hash_u64(h, value->dtype);
    h = hash_u64(h, value->role);
    h = hash_u64(h, value->trainable | (uint64_t)value->no_decay << 1);
    h = hash_u64(h, value->initializer);
    h = hash_double(h, value->init_mean);
    h = hash_double(h, value->init_std);
    h = value->data ? remat_hash(value->data, remat_value_bytes(value), h) : h;
    return value->unpadded_rows ? hash_u64(h, (uint64_t)value->unpadded_rows) : h;
}

uint64_t remat_attribute_hash(uint64_t h, const struct remat_attribute *attribute)
{
    h = remat_hash_string(attribute->key, h);
    h = hash_u64(h, attribute->kind);
    switch (attribute->kind) {
    case REMAT_ATTRIBUTE_INT:
        return hash_u64(h, (uint64_t)attribute->i);
    case REMAT_ATTRIBUTE_FLOAT:
        return hash_double(h, attribute->f);
    default:
        h = hash_u64(h, attribute->count);
        return remat_hash(attribute->ints, attribute->count * sizeof attribute->ints[0], h);
    }
}

bool remat_attribute_equal(const struct remat_attribute *a, const struct remat_attribute *b)
{
    if (strcmp(a->key, b->key) != 0 || a->kind != b->kind)
        return false;
    if (a->kind == REMAT_ATTRIBUTE_INT)
        return a->i == b->i;
    if (a->kind == REMAT_ATTRIBUTE_FLOAT)
        return memcmp(&a->f, &b->f, sizeof a->f) == 0; /* NOLINT(*-memory-comparison): its bits */
    return a->count == b->count && memcmp(a->ints, b->ints, a->count * sizeof *a->ints) == 0;
}

static uint64_t hash_node(uint64_t h, const struct remat_graph *graph,
                          const struct remat_node_info *node)
{
    h = remat_hash_string(remat_op_info(node->op)->name, h);
    h = hash_u64(h, node->phase);
    h = hash_u64(h, node->instance);
    h = remat_hash_string(graph->scopes[node->scope.i].path, h);
    h = hash_ids(h, node->inputs, node->input_count);
    h = hash_ids(h, node->outputs, node->output_count);
    if (node->absent)
        h = hash_u64(h, node->absent);
    h = hash_u64(h, node->attribute_count);
    for (uint32_t a = 0; a < node->attribute_count; a++)
        h = remat_attribute_hash(h, &node->attributes[a]);
    return h;
}

uint64_t remat_graph_hash(const struct remat_graph *graph)
{
    const struct remat_optimizer *optimizer = &graph->optimizer;
    uint64_t h = hash_u64(0, optimizer->kind | (uint64_t)optimizer->no_master << 8 |
                                 (uint64_t)optimizer->bf16_moments << 9);
    if (optimizer->kind != REMAT_OPTIMIZER_NONE)
        for (uint32_t k = 0; k < REMAT_OPTIMIZER_SETTINGS; k++)
            h = hash_double(h, optimizer->settings[k]);
    h = hash_u64(h, graph->value_count);
    for (uint32_t v = 0; v < graph->value_count; v++)
        h = hash_value(h, &graph->values[v]);
    h = hash_u64(h, graph->node_count);
    for (uint32_t n = 0; n < graph->node_count; n++)
        h = hash_node(h, graph, &graph->nodes[n]);
    h = hash_ids(h, graph->outputs, graph->output_count);
    h = hash_u64(h, graph->update_count);
    for (uint32_t u = 0; u < graph->update_count; u++)
        h = hash_u64(hash_u64(h, graph->updates[u].state.i), graph->updates[u].value.i);
    return h;
}
