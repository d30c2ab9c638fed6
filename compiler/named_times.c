/* One walk from the last node to the first: what is computed again is a forward node of which a
 * value that is not saved is read by the backward pass or by another one that is computed again, in
 * the last round that reader and value have in common. */
#include "named_times.h"

#include "ops.h"

struct builder {
    struct remat_arena *arena;
    const struct remat_graph *graph;
    const struct remat_facts *facts;
    const struct remat_kernel_list *kernels;
    struct remat_named_times *out;
    uint32_t *position; /* by node of the graph: in out->nodes */
    uint32_t root_count;
};

static bool is_early(const struct remat_node_info *node)
{
    return node->phase == REMAT_PHASE_FORWARD || node->phase == REMAT_PHASE_LOSS;
}

/* Loads read what they widen. */
static uint32_t read_root(const struct builder *b, uint32_t v)
{
    uint32_t node = b->graph->values[v].node;
    bool loaded = !remat_is_none(node) && remat_is_none(b->kernels->kernel_of_node[node]) &&
                  b->graph->nodes[node].op == REMAT_OP_cast;
    return b->facts->root[loaded ? b->graph->nodes[node].inputs[0].i : v];
}

static void add_node(struct builder *b, const struct remat_node_info *node)
{
    struct remat_named_times *out = b->out;
    struct remat_named_node *named = &out->nodes[out->node_count++];
    named->input_begin = b->root_count;
    for (uint32_t i = 0; i < remat_op_reads(node); i++)
        out->roots[b->root_count++] = read_root(b, node->inputs[i].i);
    named->input_end = named->output_begin = b->root_count;
    for (uint32_t o = 0; o < node->output_count; o++)
        out->roots[b->root_count++] = node->outputs[o].i;
    named->output_end = b->root_count;
}

static remat_status add_late(struct builder *b)
{
    remat_status st = REMAT_OK;
    REMAT_NEW(b->arena, b->out->late, b->graph->value_count);
    for (uint32_t v = 0; v < b->graph->value_count; v++) {
        uint32_t root = read_root(b, v);
        if (b->facts->needed[v] && b->facts->forward[v] && b->facts->forward[root])
            b->out->late[b->out->late_count++] = root;
    }
fail:
    return st;
}

static remat_status add_nodes(struct builder *b)
{
    remat_status st = REMAT_OK;
    size_t roots = 0;
    for (uint32_t n = 0; n < b->graph->node_count; n++)
        roots += b->graph->nodes[n].input_count + b->graph->nodes[n].output_count;
    REMAT_NEW(b->arena, b->out->nodes, b->graph->node_count);
    REMAT_NEW(b->arena, b->out->roots, roots);
    REMAT_NEW(b->arena, b->position, b->graph->node_count);
    for (uint32_t n = b->graph->node_count; n-- > 0;) {
        const struct remat_node_info *node = &b->graph->nodes[n];
        b->position[n] = REMAT_NONE;
        if (!is_early(node) || remat_op_has(node->op, REMAT_FACT_VIEW))
            continue;
        b->position[n] = b->out->node_count;
        add_node(b, node);
    }
fail:
    return st;
}

static remat_status add_kernels(struct builder *b, const struct remat_kernel_list *kernels,
                                const struct remat_price *prices)
{
    remat_status st = REMAT_OK;
    REMAT_NEW(b->arena, b->out->kernels, kernels->count);
    for (uint32_t k = 0; k < kernels->count; k++) {
        const struct remat_fused_kernel *kernel = &kernels->kernels[k];
        uint32_t cost_class = remat_cost_class_of(kernel->kind);
        b->out->plain.ns[cost_class] += prices[k].ns;
        if (kernel->kind != REMAT_KERNEL_program && !remat_is_none(b->position[kernel->nodes[0].i]))
            b->out->kernels[b->out->kernel_count++] = (struct remat_named_kernel){
                b->position[kernel->nodes[0].i], cost_class, prices[k].ns};
    }
fail:
    return st;
}

remat_status remat_named_times_create(struct remat_arena *arena, const struct remat_graph *graph,
                                      const struct remat_facts *facts,
                                      const struct remat_kernel_list *kernels,
                                      const struct remat_price *prices,
                                      struct remat_named_times *out)
{
    remat_status st = REMAT_OK;
    struct builder b = {
        .arena = arena, .graph = graph, .facts = facts, .kernels = kernels, .out = out};
    *out = (struct remat_named_times){.value_count = graph->value_count};
    REMAT_TRY(add_nodes(&b));
    REMAT_TRY(add_late(&b));
    REMAT_TRY(add_kernels(&b, kernels, prices));
fail:
    return st;
}

static uint8_t bit_of(uint32_t round)
{
    return (uint8_t)(1u << (round - 1));
}

/* Of a node's outputs. */
static uint8_t rounds_of(const struct remat_named_times *named, const uint8_t *rounds,
                         const struct remat_named_node *node)
{
    uint8_t all = 0;
    for (uint32_t o = node->output_begin; o < node->output_end; o++)
        all |= rounds[named->roots[o]];
    return all & (uint8_t)~REMAT_ROUND_SAVED;
}

/* What a value is computed in, that is read in `runs`. */
static uint8_t rounds_read(uint8_t runs, uint32_t times)
{
    uint8_t all = 0;
    if (times == 0)
        return REMAT_ROUND_SAVED;
    for (uint32_t round = 1; round <= REMAT_ROUNDS_MAX; round++)
        if (runs & bit_of(round))
            all |= bit_of(round < times ? round : times);
    return all;
}

remat_status remat_named_times_rounds(const struct remat_named_times *named,
                                      struct remat_arena *arena,
                                      const struct remat_decision *decision, uint8_t **out)
{
    remat_status st = REMAT_OK;
    uint8_t *rounds;
    REMAT_NEW(arena, rounds, named->value_count);
    *out = rounds;
    for (uint32_t l = 0; l < named->late_count; l++) { /* reads what the last round makes */
        uint32_t times = remat_action_times(decision->actions[named->late[l]]);
        if (times > 0)
            rounds[named->late[l]] = bit_of(times);
    }
    for (uint32_t n = 0; n < named->node_count; n++) {
        const struct remat_named_node *node = &named->nodes[n];
        uint8_t runs = rounds_of(named, rounds, node);
        for (uint32_t i = node->input_begin; runs && i < node->input_end; i++) {
            uint32_t root = named->roots[i];
            rounds[root] |= rounds_read(runs, remat_action_times(decision->actions[root]));
        }
    }
fail:
    return st;
}

/* How often a named kernel runs again. */
static uint32_t runs_of(const struct remat_named_times *named, const uint8_t *rounds, uint32_t k)
{
    uint32_t count = 0;
    uint8_t runs = rounds_of(named, rounds, &named->nodes[named->kernels[k].node]);
    for (uint32_t round = 1; round <= REMAT_ROUNDS_MAX; round++)
        count += (runs & bit_of(round)) > 0;
    return count;
}

struct remat_class_times remat_named_times_of(const struct remat_named_times *named,
                                              const uint8_t *rounds)
{
    struct remat_class_times times = named->plain;
    for (uint32_t k = 0; k < named->kernel_count; k++)
        times.ns[named->kernels[k].cost_class] += runs_of(named, rounds, k) * named->kernels[k].ns;
    times.ns[REMAT_COST_REST] = 0;
    return times;
}

uint64_t remat_named_times_twice(const struct remat_named_times *named, const uint8_t *rounds)
{
    uint64_t ns = 0;
    for (uint32_t k = 0; k < named->kernel_count; k++)
        ns += runs_of(named, rounds, k) > 1 ? named->kernels[k].ns : 0;
    return ns;
}
