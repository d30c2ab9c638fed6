/* SPDX-License-Identifier: Apache-2.0 */
/* A view gets a copy for the nodes that cannot read it as it lies: built-in kernels take the
 * strides that their rows say, and a random state is read element by element. All of these nodes
 * share the copy, NAME.copy, made just before the first. */
#include "rebuild.h"
#include "view.h"

#include "kernel.h"

/* A letter of builtin_kernels.def. The first input of a node in place becomes a result, which is no
 * view (graph_verify.c). */
static char layout_of(const struct remat_graph *graph, const struct remat_node_info *node,
                      uint32_t input)
{
    uint32_t in_place = remat_op_has(node->op, REMAT_FACT_IN_PLACE);
    if (!remat_op_has(node->op, REMAT_FACT_BUILTIN))
        return node->op == REMAT_OP_random ? 'd' : 's';
    if (input < in_place)
        return 's';
    uint32_t after_results = input < remat_op_inputs_before_results(node) ? 0 : node->output_count;
    const struct remat_kernel_row *row = remat_kernel_row(remat_op_info(node->op)->executor);
    char layout = row->layouts[remat_kernel_row_letter(
        row, remat_op_kernel_absent(node), input - in_place + after_results,
        node->input_count - in_place + node->output_count)];
    /* Rows in an exchange are pieces for its ranks. */
    bool pieces = graph->values[node->inputs[input].i].shape.dims[0] ==
                  graph->values[node->outputs[0].i].shape.dims[0];
    if (layout == 'p' && !pieces)
        return 'd';
    return layout;
}

static bool is_taken(const struct remat_graph *graph, const struct remat_node_info *node,
                     uint32_t input)
{
    struct remat_view view = remat_view_of(graph, node->inputs[input]);
    return remat_layout_has(layout_of(graph, node, input), view.rank, view.shape, view.strides);
}

static remat_value copy_view(struct remat_rebuild *r, const struct remat_node_info *reader,
                             remat_value view)
{
    const char *name = r->from->values[view.i].name;
    struct remat_builder b = {.arena = r->arena,
                              .graph = r->to,
                              .scope = reader->scope,
                              .phase = reader->phase,
                              .name = REMAT_FORMAT(r->arena, "%s.copy", name)};
    const struct remat_attribute axis = remat_attribute_int("axis", 0);
    return remat_build(&b, REMAT_OP_concat, &r->values[view.i], 1, &axis, 1, NULL);
}

/* While the node is copied, a copy stands for the view. */
static void rebuild_node(struct remat_rebuild *r, remat_node n, remat_value *copies)
{
    const struct remat_node_info *node = &r->from->nodes[n.i];
    remat_value *before = remat_rebuild_inputs(r, node);
    for (uint32_t k = 0; k < node->input_count; k++) {
        remat_value v = node->inputs[k];
        if (is_taken(r->from, node, k))
            continue;
        if (remat_is_none(copies[v.i].i))
            copies[v.i] = copy_view(r, node, v);
        r->values[v.i] = copies[v.i];
    }
    remat_rebuild_copy(r, n);
    for (uint32_t k = 0; k < node->input_count; k++)
        r->values[node->inputs[k].i] = before[k];
}

static bool takes_all(const struct remat_graph *graph)
{
    for (uint32_t n = 0; n < graph->node_count; n++)
        for (uint32_t k = 0; k < graph->nodes[n].input_count; k++)
            if (!is_taken(graph, &graph->nodes[n], k))
                return false;
    return true;
}

REMAT_PASS(copy_views)
{
    if (takes_all(graph)) /* as nearly always */
        return remat_pass_nothing(graph, out);
    struct remat_rebuild r = remat_rebuild_begin(arena, graph, 1);
    remat_value *copies;
    REMAT_NEW(arena, copies, graph->value_count);
    for (remat_value v = {0}; v.i < graph->value_count; v.i++)
        copies[v.i] = REMAT_NO_VALUE;
    for (remat_node n = {0}; n.i < graph->node_count; n.i++)
        rebuild_node(&r, n, copies);
    *out = remat_rebuild_finish(&r);
    return REMAT_OK;
}
