/* One walk from the last node to the first: what is computed again is a forward node of which a
 * value that is not saved is read by the backward pass or by another one that is computed again. */
#include "named_times.h"

#include "ops.h"

void remat_named_times_init(struct remat_named_times *named, const struct remat_graph *graph,
                            const struct remat_facts *facts,
                            const struct remat_kernel_list *kernels,
                            const struct remat_price *prices)
{
    *named = (struct remat_named_times){graph, facts, kernels, prices, {{0}}};
    for (uint32_t k = 0; k < kernels->count; k++)
        named->plain.ns[remat_cost_class_of(kernels->kernels[k].kind)] += prices[k].ns;
}

/* again[v]: a root that is read and not saved. */
static void find_again(const struct remat_named_times *named, const struct remat_decision *decision,
                       bool *again)
{
    const struct remat_graph *g = named->graph;
    for (uint32_t n = g->node_count; n-- > 0;) {
        const struct remat_node_info *node = &g->nodes[n];
        bool runs = node->phase != REMAT_PHASE_FORWARD && node->phase != REMAT_PHASE_LOSS;
        if (remat_op_has(node->op, REMAT_FACT_VIEW))
            continue;
        for (uint32_t o = 0; o < node->output_count; o++)
            runs |= again[node->outputs[o].i];
        for (uint32_t i = 0; runs && i < node->input_count; i++) {
            uint32_t root = named->facts->root[node->inputs[i].i];
            again[root] = decision->actions[root] != REMAT_ACTION_SAVE;
        }
    }
}

remat_status remat_named_times_of(const struct remat_named_times *named,
                                  struct remat_arena *scratch,
                                  const struct remat_decision *decision,
                                  struct remat_class_times *out)
{
    remat_status st = REMAT_OK;
    bool *again;
    REMAT_NEW(scratch, again, named->graph->value_count);
    find_again(named, decision, again);
    *out = named->plain;
    for (uint32_t k = 0; k < named->kernels->count; k++) {
        const struct remat_fused_kernel *kernel = &named->kernels->kernels[k];
        const struct remat_node_info *node = &named->graph->nodes[kernel->nodes[0].i];
        bool runs = false;
        for (uint32_t o = 0; kernel->kind != REMAT_KERNEL_program && o < node->output_count; o++)
            runs |= again[node->outputs[o].i];
        out->ns[remat_cost_class_of(kernel->kind)] += runs ? named->prices[k].ns : 0;
    }
    out->ns[REMAT_COST_REST] = 0;
fail:
    return st;
}
