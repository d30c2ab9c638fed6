/* SPDX-License-Identifier: Apache-2.0 */
/* The first appearance of a name stands for all. */
#include "persistent.h"

#include "ops.h"

remat_tensor_id remat_persistent_find(const struct remat_persistent *persistent, const char *name)
{
    remat_tensor_id found;
    uint64_t hash = remat_hash_string(name, 0);
    for (size_t at = 0;
         (found.i = remat_index_find(&persistent->by_name, hash, &at)) != REMAT_NONE;)
        if (strcmp(persistent->items[found.i].info->name, name) == 0)
            break;
    return found;
}

static void add(struct remat_arena *arena, struct remat_persistent *out,
                const struct remat_value_info *info)
{
    remat_tensor_id known = remat_persistent_find(out, info->name);
    uint64_t bytes = remat_value_bytes(info);
    if (!remat_is_none(known.i)) {
        assert(remat_type_equal(out->items[known.i].info, info));
        return;
    }
    remat_index_add(arena, &out->by_name, remat_hash_string(info->name, 0), (uint32_t)out->count);
    REMAT_PUSH(arena, out, ((struct remat_persistent_tensor){info, out->total_bytes, bytes}));
    out->total_bytes += remat_aligned_bytes(bytes);
}

static uint64_t workspace_needed(const struct remat_graph *graph)
{
    uint64_t most = 0;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[n];
        uint32_t kind = remat_op_info(node->op)->executor;
        if (!remat_op_has(node->op, REMAT_FACT_BUILTIN) || !remat_kernel_workspace(kind).lists)
            continue;
        struct remat_workspace workspace = remat_kernel_workspace(kind);
        uint32_t state = remat_op_has(node->op, REMAT_FACT_IN_PLACE); /* which comes first */
        remat_value value = node->inputs[workspace.operand + state];
        int64_t elements = remat_shape_elements(&graph->values[value.i].shape);
        remat_keep_most(&most,
                        workspace.lists * remat_workspace_list_bytes(kind, (uint64_t)elements));
    }
    return most;
}

struct remat_persistent remat_persistent_collect(struct remat_arena *arena,
                                                 const struct remat_graph *const *graphs,
                                                 uint32_t graph_count, uint64_t workspace_bytes)
{
    assert(graph_count > 0);
    struct remat_persistent out = {.workspace_bytes = workspace_bytes};
    for (uint32_t g = 0; g < graph_count; g++) {
        const struct remat_graph *graph = graphs[g];
        uint64_t needed_bytes = workspace_bytes ? workspace_needed(graph) : 0;
        if (needed_bytes > out.workspace_bytes)
            out.workspace_bytes = needed_bytes;
        for (uint32_t v = 0; v < graph->value_count; v++)
            if (remat_is_none(graph->values[v].node.i))
                add(arena, &out, &graph->values[v]);
        for (uint32_t o = 0; o < graph->output_count; o++)
            add(arena, &out, &graph->values[graph->outputs[o].i]);
    }
    out.workspace_bytes = remat_aligned_bytes(out.workspace_bytes);
    out.total_bytes += out.workspace_bytes;
    return out;
}

remat_tensor_id *remat_persistent_inputs(struct remat_arena *arena,
                                         const struct remat_persistent *persistent,
                                         const struct remat_graph *graph)
{
    remat_tensor_id *out;
    REMAT_NEW(arena, out, graph->value_count);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        bool input = remat_is_none(graph->values[v].node.i);
        out[v] = input ? remat_persistent_find(persistent, graph->values[v].name) : REMAT_NO_TENSOR;
        assert(!input || !remat_is_none(out[v].i));
    }
    return out;
}
