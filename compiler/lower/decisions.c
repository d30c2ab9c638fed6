/* Clones and decided values have the names of their originals, so the three are joined by name. */
#include "decisions.h"

#include <stdlib.h>

#include "ops.h"

struct named { /* a value by name */
    const char *name;
    uint32_t value;
};

static int compare_named(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

/* The value of that name in a sorted list, REMAT_NONE when there is none. */
static uint32_t find_named(const struct named *list, size_t count, const char *name)
{
    struct named key = {name, 0};
    const struct named *found = bsearch(&key, list, count, sizeof *list, compare_named);
    return found ? found->value : REMAT_NONE;
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
static uint64_t clone_ns(const struct remat_part *in, uint32_t clone)
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

struct joiner {
    struct remat_arena *arena;
    const struct remat_lowering *in;
    struct named *clones;  /* that own bytes */
    struct named *reasons; /* values of the decided graph about which something was said */
    size_t clone_count, reason_count;
    uint8_t *read_late;
};

static remat_status join(struct joiner *j)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = j->in->parts[0].graph, *decided = j->in->decided;
    REMAT_NEW(j->arena, j->clones, g->value_count);
    REMAT_NEW(j->arena, j->reasons, decided->value_count);
    REMAT_NEW(j->arena, j->read_late, g->value_count);
    for (uint32_t v = 0; v < g->value_count; v++)
        if (is_clone(g, v) && !remat_is_none(j->in->parts[0].lifespans->buffer_of[v]))
            j->clones[j->clone_count++] = (struct named){g->values[v].name, v};
    for (uint32_t v = 0; v < decided->value_count; v++)
        if (j->in->decision->reasons[v])
            j->reasons[j->reason_count++] = (struct named){decided->values[v].name, v};
    qsort(j->clones, j->clone_count, sizeof *j->clones, compare_named);
    qsort(j->reasons, j->reason_count, sizeof *j->reasons, compare_named);
    find_late_reads(g, j->read_late);
fail:
    return st;
}

static struct remat_decision_record record(const struct joiner *j, uint32_t v, uint32_t clone,
                                           const char *name)
{
    const struct remat_graph *g = j->in->parts[0].graph;
    const struct remat_scope *scope = &g->scopes[g->nodes[g->values[v].node].scope];
    uint32_t said = find_named(j->reasons, j->reason_count, g->values[v].name);
    bool recomputed = !remat_is_none(clone);
    return (struct remat_decision_record){
        .name = name,
        .scope = scope->path,
        .layer = scope->layer,
        .action = recomputed ? REMAT_ACTION_RECOMPUTE : REMAT_ACTION_SAVE,
        .reason = remat_is_none(said) ? "default" : j->in->decision->reasons[said],
        .bytes = remat_value_bytes(&g->values[v]),
        .recompute_ns = recomputed ? clone_ns(&j->in->parts[0], clone) * j->in->parts[0].times : 0,
    };
}

remat_status remat_lower_decisions(struct remat_arena *arena, const struct remat_lowering *lowering,
                                   const char *const *root_name, struct remat_program *out)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = lowering->parts[0].graph;
    struct joiner j = {.arena = arena, .in = lowering};
    REMAT_TRY(join(&j));
    REMAT_NEW(arena, out->decisions, g->value_count);
    for (uint32_t v = 0; v < g->value_count; v++) {
        if (!is_forward(g, v) || remat_storage_root(g, (remat_value){v}).i != v)
            continue;
        uint32_t clone = find_named(j.clones, j.clone_count, g->values[v].name);
        bool saved = j.read_late[v] && !remat_is_none(lowering->parts[0].lifespans->buffer_of[v]);
        if (!remat_is_none(clone) || saved)
            out->decisions[out->decision_count++] = record(&j, v, clone, root_name[v]);
    }
    out->layer_count = remat_graph_layers(g);
    REMAT_TRY(add_layers(arena, out));
fail:
    return st;
}
