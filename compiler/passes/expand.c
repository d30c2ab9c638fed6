/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces every composite node by primitive ones, and one of rounded operands by casts around one
 * in f32. They keep its scope, phase and instance, name it as their origin and share one group; its
 * values keep their names, those inside are named after the first of them. That may be the gradient
 * of another node's result, whose derivative's values have its name, too: of a gradient they are
 * named after the op as well. */
#include "builder.h"
#include "rebuild.h"

#include <assert.h>

#define OUTPUTS_MAX          8
#define POINTWISE_INPUTS_MAX 3

/* Of what takes the node's place. */
static struct remat_builder builder_of(struct remat_rebuild *r, const struct remat_node_info *node,
                                       const char *prefix)
{
    return (struct remat_builder){.arena = r->arena,
                                  .graph = r->to,
                                  .scope = node->scope,
                                  .phase = node->phase,
                                  .instance = node->instance,
                                  .keep_origin = true,
                                  .origin = node->origin,
                                  .origin_group = r->to->node_count,
                                  .prefix = prefix};
}

static void expand_node(struct remat_rebuild *r, remat_node n)
{
    const struct remat_node_info *node = &r->from->nodes[n.i];
    remat_value outputs[OUTPUTS_MAX];
    remat_value *inputs = remat_rebuild_inputs(r, node);
    const uint32_t first = r->to->value_count;
    (void)first;
    const char *name = r->from->values[node->outputs[0].i].name;
    if (node->phase == REMAT_PHASE_BACKWARD)
        name = REMAT_FORMAT(r->arena, "%s.%s", name, remat_op_info(node->op)->name);
    struct remat_builder b = builder_of(r, node, name);
    remat_op_info(node->op)->expand(&b, node, inputs, outputs);
    for (uint32_t k = 0; k < node->output_count; k++) {
        assert(outputs[k].i >= first && remat_type_equal(&r->to->values[outputs[k].i],
                                                         &r->from->values[node->outputs[k].i]));
        remat_rebuild_replace(r, node->outputs[k], outputs[k]);
    }
}

/* A pointwise node that computes with rounded operands, as its kernel does not. */
static bool is_rounded(const struct remat_graph *graph, const struct remat_node_info *node)
{
    bool rounded = false;
    if (!remat_op_has(node->op, REMAT_FACT_POINTWISE) || node->op == REMAT_OP_add ||
        node->op == REMAT_OP_cast || remat_op_has(node->op, REMAT_FACT_IN_PLACE) ||
        remat_op_has(node->op, REMAT_FACT_FOREIGN))
        return false;
    for (uint32_t k = 0; k < remat_op_reads(node); k++)
        rounded |= remat_dtype_is_rounded(graph->values[node->inputs[k].i].dtype);
    return rounded;
}

static void widen_node(struct remat_rebuild *r, remat_node n)
{
    const struct remat_node_info *node = &r->from->nodes[n.i];
    remat_value inputs[POINTWISE_INPUTS_MAX], output = node->outputs[0];
    struct remat_builder b = builder_of(r, node, r->from->values[output.i].name);
    assert(node->input_count <= POINTWISE_INPUTS_MAX);
    for (uint32_t k = 0; k < node->input_count; k++) {
        remat_value input = r->values[node->inputs[k].i];
        bool rounded = remat_dtype_is_rounded(r->to->values[input.i].dtype);
        inputs[k] = rounded ? remat_build_cast(&b, input, REMAT_F32) : input;
    }
    remat_value wide = remat_build(&b, node->op, inputs, node->input_count, node->attributes,
                                   node->attribute_count, NULL);
    remat_rebuild_replace(r, output, remat_build_cast(&b, wide, r->from->values[output.i].dtype));
}

REMAT_PASS(expand)
{
    struct remat_rebuild r = remat_rebuild_begin(arena, graph, 3);
    for (remat_node n = {0}; n.i < graph->node_count; n.i++)
        if (remat_op_has(graph->nodes[n.i].op, REMAT_FACT_COMPOSITE))
            expand_node(&r, n);
        else if (is_rounded(graph, &graph->nodes[n.i]))
            widen_node(&r, n);
        else
            remat_rebuild_copy(&r, n);
    *out = remat_rebuild_finish(&r);
    return REMAT_OK;
}
