/* SPDX-License-Identifier: Apache-2.0 */
/* A candidate is given its pitch, and loses it again to the first reader, writer or view that
 * cannot have it. */
#include "passes.h"

#include "ops.h"
#include "view.h"

#define PITCH_ELEMENTS 64
#define ALIGNED_BYTES  16
#define MOST_ADDED     16 /* at most one part in so many */

/* 0 for rows that stay next to each other. */
static int64_t choose_pitch(const struct remat_value_info *value)
{
    const struct remat_shape *shape = &value->shape;
    if (shape->rank < 2 || remat_is_none(value->node.i) || value->role != REMAT_ROLE_ACTIVATION)
        return 0;
    int64_t columns = shape->dims[shape->rank - 1];
    int64_t pitch = (columns + PITCH_ELEMENTS - 1) / PITCH_ELEMENTS * PITCH_ELEMENTS;
    bool aligned = columns * remat_dtype_bytes(value->dtype) % ALIGNED_BYTES == 0;
    bool many = remat_shape_elements(shape) > columns;
    return !aligned && many && (pitch - columns) * MOST_ADDED <= columns ? pitch : 0;
}

static bool takes_strides(uint16_t op)
{
    return op == REMAT_OP_matmul ||
           !remat_op_has(op, REMAT_FACT_BUILTIN | REMAT_FACT_COMPOSITE | REMAT_FACT_IN_PLACE);
}

static struct remat_value_info *root_of(const struct remat_graph *graph, remat_value value)
{
    return &graph->values[remat_storage_root(graph, value).i];
}

/* Candidates: roots that a matmul reads or writes, and what is computed from them element by
 * element: a fused kernel's vectors are as wide as the least aligned row. */
static void give(struct remat_graph *graph)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[n];
        bool matmul = node->op == REMAT_OP_matmul, follows = false;
        for (uint32_t i = 0; i < node->input_count; i++) {
            struct remat_value_info *root = root_of(graph, node->inputs[i]);
            if (matmul)
                root->pitch = choose_pitch(root);
            follows |= root->pitch != 0 && remat_op_has(node->op, REMAT_FACT_POINTWISE);
        }
        if (matmul || follows) {
            struct remat_value_info *root = root_of(graph, node->outputs[0]);
            root->pitch = choose_pitch(root);
        }
    }
}

static void drop_pitch(struct remat_graph *graph, remat_value value)
{
    root_of(graph, value)->pitch = 0;
}

static void drop_pitch_of_others(struct remat_graph *graph)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[n];
        bool view = remat_op_has(node->op, REMAT_FACT_VIEW);
        if (view ? remat_is_none(remat_view_of(graph, node->outputs[0]).root.i)
                 : !takes_strides(node->op)) {
            for (uint32_t i = 0; i < node->input_count; i++)
                drop_pitch(graph, node->inputs[i]);
            for (uint32_t o = 0; o < node->output_count; o++)
                drop_pitch(graph, node->outputs[o]);
        }
    }
    for (remat_value v = {0}; v.i < graph->value_count; v.i++)
        if (graph->values[v.i].role != REMAT_ROLE_ACTIVATION)
            drop_pitch(graph, v);
    for (uint32_t o = 0; o < graph->output_count; o++)
        drop_pitch(graph, graph->outputs[o]);
    for (uint32_t u = 0; u < graph->update_count; u++)
        drop_pitch(graph, graph->updates[u].value);
}

void remat_pitch(struct remat_graph *graph)
{
    give(graph);
    drop_pitch_of_others(graph);
}
