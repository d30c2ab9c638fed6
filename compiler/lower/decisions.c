/* Clones have the name of their original, so the two are joined by name. */
#include "decisions.h"

#include <stdlib.h>

#include "ops.h"

struct clone {
    const char *name;
    uint32_t value;
};

static int compare_clones(const void *a, const void *b)
{
    return strcmp(((const struct clone *)a)->name, ((const struct clone *)b)->name);
}

static bool is_clone(const struct remat_graph *g, uint32_t v)
{
    return !remat_is_none(g->values[v].node) && g->nodes[g->values[v].node].instance > 0;
}

static bool is_forward(const struct remat_graph *g, uint32_t v)
{
    if (remat_is_none(g->values[v].node) || is_clone(g, v))
        return false;
    uint8_t phase = g->nodes[g->values[v].node].phase;
    return phase == REMAT_PHASE_FORWARD || phase == REMAT_PHASE_LOSS;
}

/* read_late[v]: root v is read by a node of the backward pass or later. */
static void find_late_reads(const struct remat_graph *g, uint8_t *read_late)
{
    for (uint32_t n = 0; n < g->node_count; n++) {
        uint8_t phase = g->nodes[n].phase;
        if (phase == REMAT_PHASE_FORWARD || phase == REMAT_PHASE_LOSS ||
            remat_op_has(g->nodes[n].op, REMAT_FACT_VIEW))
            continue;
        for (uint32_t i = 0; i < g->nodes[n].input_count; i++)
            read_late[remat_storage_root(g, g->nodes[n].inputs[i]).i] = 1;
    }
}

/* The time of the clone's kernel, shared among the clones that it writes. */
static uint64_t clone_ns(const struct remat_lowering *in, uint32_t clone)
{
    uint32_t k = in->kernels->kernel_of_node[in->graph->values[clone].node];
    const struct remat_fused_kernel *kernel = &in->kernels->kernels[k];
    uint64_t written = 0;
    for (uint32_t o = 0; o < kernel->operand_count; o++)
        written += kernel->operands[o].access == REMAT_ACCESS_WRITE;
    return in->prices[k].ns / (written ? written : 1);
}

static remat_status add_layers(struct remat_arena *arena, struct remat_program *out)
{
    remat_status st = REMAT_OK;
    REMAT_NEW(arena, out->recomputed_layers, out->layer_count + 1);
    for (uint32_t layer = 0; layer < out->layer_count; layer++)
        for (uint32_t d = 0; d < out->decision_count; d++)
            if (out->decisions[d].action == REMAT_ACTION_RECOMPUTE &&
                out->decisions[d].layer == (int32_t)layer) {
                out->recomputed_layers[out->recomputed_layer_count++] = layer;
                break;
            }
fail:
    return st;
}

remat_status remat_lower_decisions(remat_context *ctx, struct remat_arena *arena,
                                   const struct remat_lowering *lowering,
                                   const char *const *root_name, struct remat_program *out)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = lowering->graph;
    struct clone *clones;
    uint8_t *read_late;
    size_t clone_count = 0;
    (void)ctx;
    REMAT_NEW(arena, clones, g->value_count);
    REMAT_NEW(arena, read_late, g->value_count);
    REMAT_NEW(arena, out->decisions, g->value_count);
    find_late_reads(g, read_late);
    for (uint32_t v = 0; v < g->value_count; v++)
        if (is_clone(g, v) && !remat_is_none(lowering->lifespans->buffer_of[v]))
            clones[clone_count++] = (struct clone){g->values[v].name, v};
    qsort(clones, clone_count, sizeof *clones, compare_clones);
    for (uint32_t v = 0; v < g->value_count; v++) {
        if (!is_forward(g, v) || remat_storage_root(g, (remat_value){v}).i != v)
            continue;
        struct clone key = {g->values[v].name, 0};
        const struct clone *clone =
            bsearch(&key, clones, clone_count, sizeof *clones, compare_clones);
        if (!clone && !(read_late[v] && !remat_is_none(lowering->lifespans->buffer_of[v])))
            continue;
        const struct remat_scope *scope = &g->scopes[g->nodes[g->values[v].node].scope];
        bool pinned = g->values[v].pin != REMAT_PIN_NONE;
        out->decisions[out->decision_count++] = (struct remat_decision_record){
            .name = root_name[v],
            .scope = scope->path,
            .layer = scope->layer,
            .action = clone ? REMAT_ACTION_RECOMPUTE : REMAT_ACTION_SAVE,
            .reason = pinned  ? "pin"
                      : clone ? "policy"
                              : "default",
            .bytes = remat_value_bytes(&g->values[v]),
            .recompute_ns = clone ? clone_ns(lowering, clone->value) : 0,
        };
    }
    out->layer_count = remat_graph_layers(g);
    REMAT_TRY(add_layers(arena, out));
fail:
    return st;
}
