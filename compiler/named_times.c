/* One walk from the last node to the first: what is computed again is a forward node of which a
 * value that is not saved is read by the backward pass or by another one that is computed again, in
 * the last round that reader and value have in common. */
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

static uint8_t bit_of(uint32_t round)
{
    return (uint8_t)(1u << (round - 1));
}

remat_status remat_named_times_rounds(const struct remat_named_times *named,
                                      struct remat_arena *arena,
                                      const struct remat_decision *decision, uint8_t **out)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = named->graph;
    uint8_t *rounds;
    REMAT_NEW(arena, rounds, g->value_count);
    *out = rounds;
    for (uint32_t n = g->node_count; n-- > 0;) {
        const struct remat_node_info *node = &g->nodes[n];
        bool early = node->phase == REMAT_PHASE_FORWARD || node->phase == REMAT_PHASE_LOSS;
        uint8_t runs = early ? 0 : bit_of(REMAT_ROUNDS_MAX); /* reads what the last round makes */
        if (remat_op_has(node->op, REMAT_FACT_VIEW))
            continue;
        for (uint32_t o = 0; o < node->output_count; o++)
            runs |= rounds[node->outputs[o].i] & (uint8_t)~REMAT_ROUND_SAVED;
        for (uint32_t i = 0; i < node->input_count; i++) {
            uint32_t root = named->facts->root[node->inputs[i].i];
            uint32_t times = remat_action_times(decision->actions[root]);
            if (early && runs && times == 0)
                rounds[root] |= REMAT_ROUND_SAVED;
            for (uint32_t round = 1; round <= REMAT_ROUNDS_MAX && times > 0; round++)
                if (runs & bit_of(round))
                    rounds[root] |= bit_of(round < times ? round : times);
        }
    }
fail:
    return st;
}

/* How often a named kernel runs again. */
static uint32_t runs_of(const struct remat_named_times *named, const uint8_t *rounds, uint32_t k)
{
    const struct remat_fused_kernel *kernel = &named->kernels->kernels[k];
    const struct remat_node_info *node = &named->graph->nodes[kernel->nodes[0].i];
    uint32_t count = 0;
    uint8_t runs = 0;
    for (uint32_t o = 0; kernel->kind != REMAT_KERNEL_program && o < node->output_count; o++)
        runs |= rounds[node->outputs[o].i];
    for (uint32_t round = 1; round <= REMAT_ROUNDS_MAX; round++)
        count += (runs & bit_of(round)) > 0;
    return count;
}

struct remat_class_times remat_named_times_of(const struct remat_named_times *named,
                                              const uint8_t *rounds)
{
    struct remat_class_times times = named->plain;
    for (uint32_t k = 0; k < named->kernels->count; k++)
        times.ns[remat_cost_class_of(named->kernels->kernels[k].kind)] +=
            runs_of(named, rounds, k) * named->prices[k].ns;
    times.ns[REMAT_COST_REST] = 0;
    return times;
}

uint64_t remat_named_times_twice(const struct remat_named_times *named, const uint8_t *rounds)
{
    uint64_t ns = 0;
    for (uint32_t k = 0; k < named->kernels->count; k++)
        ns += runs_of(named, rounds, k) > 1 ? named->prices[k].ns : 0;
    return ns;
}
