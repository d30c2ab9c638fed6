/* SPDX-License-Identifier: Apache-2.0 */
/* How a value is kept is the decision's; the rest follows from the evaluated kernels in the order
 * in which they run: clones say how a value is recomputed, and nodes what is read. The decision
 * does not say that: a rerun may also make what is saved, and what is no candidate. */
#include "lower.h"

#include "analysis.h"
#include "clone_round.h"
#include "ops.h"

struct outcome {        /* of a value of the decided graph */
    bool read_late;     /* the value itself, by the backward pass or later */
    uint32_t rounds;    /* the last one (checkpoint/clones.h) that makes a clone; 0: none does */
    bool rewritten;     /* a clone of that round owns bytes */
    uint64_t clones_ns; /* of the kernels that write clones, or keep it and get it */
    uint32_t read_end;  /* position after the last kernel that reads it or a clone */
};

struct recorder {
    const struct remat_lowering *in;
    const struct remat_arrangement *list; /* of the decided segment */
    uint32_t runs;                        /* of that, in a step */
    struct outcome *outcomes;             /* by value of the decided graph */
    uint32_t *position; /* by node: of its kernel; REMAT_NONE: it is absorbed, or does not run */
    uint32_t *op_index; /* by node: of the op of the input graph that it comes from, in its layer */
    bool *leaves;       /* by value: the forward pass reads it outside its layer */
};

static uint32_t later(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static const struct remat_kernel_info *kernel_at(const struct recorder *r, uint32_t position)
{
    return remat_kernel_at(&r->list->kernels, r->list->order[position]);
}

/* It is no value of the decided graph, but made for one: a clone, or to keep it. */
static bool is_made(const struct recorder *r, remat_value v)
{
    return v.i >= r->in->decision->value_count;
}

static bool has_buffer(const struct recorder *r, remat_value v)
{
    return !remat_is_none(r->list->lifespans.buffer_of[v.i].i);
}

static struct outcome *outcome_of(const struct recorder *r, remat_value v)
{
    return &r->outcomes[r->list->graph->values[v.i].original.i];
}

/* A kernel's time is shared among the values that it writes. */
static void follow_writes(struct recorder *r, uint32_t at)
{
    const struct remat_kernel_info *kernel = kernel_at(r, at);
    uint64_t ns = r->list->prices[r->list->order[at].i].ns;
    uint32_t written = 0;
    for (uint32_t o = 0; o < kernel->operand_count; o++)
        written += kernel->operands[o].access == REMAT_ACCESS_WRITE;
    for (uint32_t o = 0; o < kernel->operand_count; o++)
        if (kernel->operands[o].access == REMAT_ACCESS_WRITE &&
            is_made(r, kernel->operands[o].value))
            outcome_of(r, kernel->operands[o].value)->clones_ns += ns / written;
}

static void follow_made(struct recorder *r, remat_value v)
{
    struct outcome *outcome = outcome_of(r, v);
    uint32_t round = remat_clone_round(remat_instance(r->list->graph, v));
    bool written = has_buffer(r, v);
    if (round >= outcome->rounds)
        outcome->rewritten = written || (round == outcome->rounds && outcome->rewritten);
    outcome->rounds = later(outcome->rounds, round);
}

/* What is absorbed runs in the kernels that read it: they read its inputs. */
static void follow_reads(struct recorder *r, uint32_t at, const struct remat_node_info *node)
{
    const struct remat_graph *g = r->list->graph;
    for (uint32_t i = 0; i < node->input_count; i++) {
        remat_value root = remat_storage_root(g, node->inputs[i]);
        remat_node maker = remat_producer(g, root);
        struct outcome *outcome = outcome_of(r, root);
        outcome->read_end = later(outcome->read_end, at + 1);
        outcome->read_late |= !remat_in_forward_pass(node->phase) && !is_made(r, root);
        if (!remat_is_none(maker.i) && remat_is_none(r->position[maker.i]))
            follow_reads(r, at, &g->nodes[maker.i]);
    }
}

static void follow_node(struct recorder *r, uint32_t at, const struct remat_node_info *node)
{
    for (uint32_t o = 0; o < node->output_count; o++)
        if (is_made(r, node->outputs[o]))
            follow_made(r, node->outputs[o]);
    follow_reads(r, at, node);
}

static void follow_kernels(struct remat_arena *scratch, struct recorder *r)
{
    uint32_t nodes = r->list->graph->node_count;
    REMAT_NEW(scratch, r->outcomes, r->in->decision->value_count);
    REMAT_NEW_UNINITIALIZED(scratch, r->position, nodes);
    memset(r->position, 0xff, nodes * sizeof *r->position);
    for (uint32_t at = 0; at < r->list->kernels.count; at++)
        for (uint32_t n = 0; n < kernel_at(r, at)->node_count; n++)
            r->position[kernel_at(r, at)->nodes[n].i] = at;
    for (uint32_t at = 0; at < r->list->kernels.count; at++) {
        follow_writes(r, at);
        for (uint32_t n = 0; n < kernel_at(r, at)->node_count; n++)
            follow_node(r, at, &r->list->graph->nodes[kernel_at(r, at)->nodes[n].i]);
    }
}

static void find_leaving(struct remat_arena *scratch, const struct remat_layer_numbers *layers,
                         struct recorder *r)
{
    const struct remat_graph *g = r->list->graph;
    REMAT_NEW(scratch, r->leaves, g->value_count);
    for (size_t n = 0; n < r->list->nodes.count; n++) {
        const struct remat_node_info *reader = &g->nodes[r->list->nodes.items[n].i];
        for (uint32_t i = 0; i < reader->input_count && remat_in_forward_pass(reader->phase); i++) {
            remat_value root = remat_storage_root(g, reader->inputs[i]);
            const struct remat_node_info *writer = remat_producer_info(g, root);
            r->leaves[root.i] |=
                writer && layers->number[writer->scope.i] != layers->number[reader->scope.i];
        }
    }
}

/* The nodes that an op was expanded into share its place. */
static void count_ops(struct remat_arena *scratch, const struct remat_layer_numbers *layers,
                      struct recorder *r)
{
    const struct remat_graph *g = r->list->graph;
    uint32_t *counts, *first; /* first: by group, 1 + the index of its first node */
    REMAT_NEW(scratch, counts, (size_t)(layers->count + 1) * REMAT_OP_COUNT);
    REMAT_NEW(scratch, first, g->node_count);
    REMAT_NEW(scratch, r->op_index, g->node_count);
    for (size_t i = 0; i < r->list->nodes.count; i++) {
        uint32_t n = r->list->nodes.items[i].i;
        const struct remat_node_info *node = &g->nodes[n];
        uint32_t group = node->origin_group < g->node_count ? node->origin_group : n;
        uint32_t layer = layers->number[node->scope.i];
        layer = remat_is_none(layer) ? layers->count : layer;
        if (node->phase != REMAT_PHASE_FORWARD || node->instance)
            continue;
        if (!first[group]) {
            first[group] = n + 1;
            r->op_index[n] = counts[(size_t)layer * REMAT_OP_COUNT + node->origin]++;
        }
        r->op_index[n] = r->op_index[first[group] - 1];
    }
}

/* A value of the forward pass, made by a kernel. */
static bool is_decided(const struct recorder *r, remat_value v)
{
    const struct remat_node_info *node = remat_producer_info(r->list->graph, v);
    const struct outcome *outcome = outcome_of(r, v);
    bool saved = outcome->read_late && has_buffer(r, v);
    if (node->instance > 0 || !remat_in_forward_pass(node->phase) || is_made(r, v))
        return false;
    return saved || outcome->clones_ns || outcome->rewritten ||
           (outcome->rounds && r->in->alternatives[v.i].written);
}

static uint8_t action_of(const struct outcome *outcome, uint8_t decided)
{
    if (outcome->rounds == 0)
        return REMAT_ACTION_SAVE;
    if (remat_keep_words[decided].done) /* by kernels */
        return decided;
    uint32_t action = outcome->rewritten ? REMAT_ACTION_RECOMPUTE : REMAT_ACTION_INLINE;
    return (uint8_t)(outcome->rounds > 1 ? remat_action_twice(action) : action);
}

static struct remat_decision_record record(const struct recorder *r, remat_value v,
                                           const char *name, remat_command_id first_command)
{
    const struct remat_value_info *info = &r->list->graph->values[v.i];
    const struct remat_node_info *node = remat_producer_info(r->list->graph, v);
    const struct remat_scope *scope = &r->list->graph->scopes[node->scope.i];
    const struct outcome *outcome = outcome_of(r, v);
    const struct remat_alternative *other = &r->in->alternatives[v.i];
    const char *reason = r->in->decision->reasons[v.i];
    uint32_t begin = first_command.i + r->position[info->node.i];
    struct remat_decision_record record = {
        .name = name,
        .scope = scope->path,
        .layer = scope->layer,
        .action = action_of(outcome, r->in->decision->actions[v.i]),
        .reason = reason ? reason : "default",
        .recomputable = other->recomputable,
        .recompute_extra_ns = other->recompute_extra_ns * r->runs,
        .bytes = remat_storage_bytes(info),
        .recompute_ns = outcome->clones_ns * r->runs,
        .op = remat_op_info(node->origin)->name,
        .op_index = r->op_index[info->node.i],
        .dtype = (uint8_t)info->dtype,
        .rank = (uint8_t)info->shape.rank,
        .leaves_layer = r->leaves[v.i],
        .saved_begin = begin,
        .saved_end = later(begin, first_command.i + outcome->read_end),
    };
    memcpy(record.shape, info->shape.dims, record.rank * sizeof *record.shape);
    return record;
}

static void add_layers(struct remat_arena *arena, struct remat_arena *scratch,
                       struct remat_program *out)
{
    bool *recomputed;
    REMAT_NEW(scratch, recomputed, out->layer_count);
    REMAT_NEW(arena, out->recomputed_layers, out->layer_count + 1);
    for (uint32_t d = 0; d < out->decision_count; d++)
        if (remat_action_times(out->decisions[d].action) > 0 && out->decisions[d].layer >= 0)
            recomputed[out->decisions[d].layer] = true;
    for (uint32_t layer = 0; layer < out->layer_count; layer++)
        if (recomputed[layer])
            out->recomputed_layers[out->recomputed_layer_count++] = layer;
}

void remat_lower_decisions(struct remat_arena *arena, struct remat_arena *scratch,
                           const struct remat_lowering *lowering, remat_command_id first_command,
                           const char *const *root_name, struct remat_program *out)
{
    const struct remat_arrangement *list = &remat_step_decided(lowering->step)->arranged;
    const struct remat_graph *g = list->graph;
    struct recorder r = {
        .in = lowering, .list = list, .runs = remat_step_microbatches(lowering->step)};
    struct REMAT_LIST(struct remat_decision_record) records = {0};
    struct REMAT_LIST(struct remat_keep_record) keeps = {0};
    struct remat_layer_numbers layers;
    follow_kernels(scratch, &r);
    remat_layers_number(scratch, g, &layers);
    count_ops(scratch, &layers, &r);
    find_leaving(scratch, &layers, &r);
    for (size_t n = 0; n < list->nodes.count; n++) {
        remat_node id = list->nodes.items[n];
        const struct remat_node_info *node = &g->nodes[id.i];
        for (uint32_t o = 0; o < node->output_count && !remat_is_none(r.position[id.i]); o++) {
            remat_value v = node->outputs[o];
            const struct remat_alternative *other = &lowering->alternatives[v.i];
            if (!is_decided(&r, v))
                continue;
            for (uint32_t w = 0; w < other->way_count; w++)
                REMAT_PUSH(arena, &keeps,
                           ((struct remat_keep_record){
                               (uint32_t)records.count, other->ways[w].action, other->ways[w].bytes,
                               (uint64_t)other->ways[w].ps / 1000 * r.runs}));
            REMAT_PUSH(arena, &records, record(&r, v, root_name[v.i], first_command));
        }
    }
    out->keeps = keeps.items;
    out->keep_count = (uint32_t)keeps.count;
    out->decisions = records.items;
    out->decision_count = (uint32_t)records.count;
    out->layer_count = remat_graph_layers(g);
    add_layers(arena, scratch, out);
}
