/* SPDX-License-Identifier: Apache-2.0 */
/* A value says which one of the decided graph it is, or is a clone of. */
#include "decisions.h"

#include "ops.h"

static bool is_forward(const struct remat_graph *g, remat_value v)
{
    const struct remat_node_info *node = remat_producer_info(g, v);
    return node && node->instance == 0 && remat_is_early(node->phase) && !g->values[v.i].sliced;
}

/* A forward value and its clones. */
struct fate {
    bool read_late;     /* the value itself, by the backward pass or later */
    uint32_t rounds;    /* the last one (checkpoint/clones.h) that makes a clone; 0: none does */
    bool sliced;        /* it is saved as a shard */
    bool rewritten;     /* a clone of that round owns bytes */
    uint64_t clones_ns; /* of the kernels that write clones */
    uint32_t read_end;  /* position after the last kernel that reads it or a clone */
};

REMAT_INDEX(layer_id); /* of all stacks' layers, from 1 on; 0: outside of them */

struct joiner {
    const struct remat_lowering *in;
    const struct remat_part *part;
    remat_kernel_id *kernel_of; /* by node; none of views, and casts that loads do */
    uint32_t *position;         /* by kernel */
    struct fate *fates;         /* by value of the decided graph */
    uint32_t *op_index; /* by node: of the op of the input graph that it comes from, in its layer */
    bool *leaves;       /* by value: the forward pass reads it outside its layer */
};

/* The i-th node that runs. */
static remat_node node_at(const struct joiner *j, size_t i)
{
    return j->part->arranged->nodes.items[i];
}

/* The time of the clone's kernel, shared among the clones that it writes. */
static uint64_t clone_ns(const struct joiner *j, remat_value clone)
{
    const struct remat_arrangement *in = j->part->arranged;
    remat_kernel_id k = j->kernel_of[remat_producer(in->graph, clone).i];
    const struct remat_fused_kernel *kernel = remat_kernel_at(&in->kernels, k);
    uint64_t written = 0;
    for (uint32_t o = 0; o < kernel->operand_count; o++)
        written += kernel->operands[o].access == REMAT_ACCESS_WRITE;
    return in->prices[k.i].ns / (written ? written : 1);
}

static uint32_t later(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static struct fate *fate_of(const struct joiner *j, remat_value v)
{
    return &j->fates[j->part->arranged->graph->values[v.i].original.i];
}

static void follow_clone(struct joiner *j, remat_value v)
{
    const struct remat_graph *g = j->part->arranged->graph;
    uint32_t round = remat_clone_round(remat_instance(g, v));
    struct fate *fate = fate_of(j, v);
    if (g->values[v.i].sliced) {
        fate->sliced = true;
        fate->clones_ns += clone_ns(j, v);
    }
    if (round == 0)
        return;
    bool written = !remat_is_none(j->part->arranged->lifespans.buffer_of[v.i].i);
    if (round >= fate->rounds)
        fate->rewritten = written || (round == fate->rounds && fate->rewritten);
    fate->rounds = later(fate->rounds, round);
    fate->clones_ns += written ? clone_ns(j, v) : 0;
}

static void follow_clones(struct joiner *j)
{
    const struct remat_arrangement *in = j->part->arranged;
    for (size_t i = 0; i < in->nodes.count; i++) {
        const struct remat_node_info *node = &in->graph->nodes[node_at(j, i).i];
        for (uint32_t o = 0; o < node->output_count; o++)
            follow_clone(j, node->outputs[o]);
    }
}

/* A node without a kernel of its own, such as a cast, runs in the kernels that read it: they read
 * its inputs. Nodes in reverse meet readers first. */
static void follow_reads(struct joiner *j, uint32_t *read_end)
{
    const struct remat_graph *g = j->part->arranged->graph;
    for (size_t at = j->part->arranged->nodes.count; at-- > 0;) {
        const struct remat_node_info *node = &g->nodes[node_at(j, at).i];
        remat_kernel_id kernel = j->kernel_of[node_at(j, at).i];
        uint32_t end = 0;
        bool early = remat_is_early(node->phase);
        if (remat_op_has(node->op, REMAT_FACT_VIEW))
            continue;
        for (uint32_t o = 0; o < node->output_count && remat_is_none(kernel.i); o++)
            end = later(end, read_end[node->outputs[o].i]);
        if (!remat_is_none(kernel.i))
            end = j->position[kernel.i] + 1;
        for (uint32_t i = 0; i < node->input_count; i++) {
            remat_value root = remat_storage_root(g, node->inputs[i]);
            read_end[root.i] = later(read_end[root.i], end);
            fate_of(j, root)->read_late |= !early && remat_instance(g, root) == 0;
        }
    }
    for (remat_value v = {0}; v.i < g->value_count; v.i++) {
        struct fate *fate = fate_of(j, v);
        fate->read_end = later(fate->read_end, read_end[v.i]);
    }
}

static void join(struct remat_arena *scratch, struct joiner *j)
{
    const struct remat_graph *g = j->part->arranged->graph;
    uint32_t *read_end;
    REMAT_NEW(scratch, j->fates, j->in->decision->value_count);
    REMAT_NEW(scratch, read_end, g->value_count);
    REMAT_NEW(scratch, j->position, j->part->arranged->kernels.count);
    REMAT_ROOM(scratch, j->kernel_of, g->node_count);
    memset(j->kernel_of, 0xff, g->node_count * sizeof *j->kernel_of);
    for (uint32_t at = 0; at < j->part->arranged->kernels.count; at++) {
        remat_kernel_id k = j->part->arranged->order[at];
        const struct remat_fused_kernel *kernel = remat_kernel_at(&j->part->arranged->kernels, k);
        j->position[k.i] = at;
        for (uint32_t n = 0; n < kernel->node_count; n++)
            j->kernel_of[kernel->nodes[n].i] = k;
    }
    follow_clones(j);
    follow_reads(j, read_end);
}

/* By scope. Returns how many there are. */
static uint32_t number_layers(struct remat_arena *scratch, const struct remat_graph *g,
                              layer_id *out)
{
    uint32_t layers = remat_graph_layers(g), count = 0;
    const char **stacks;
    REMAT_NEW(scratch, stacks, g->scope_count);
    for (uint32_t s = 0; s < g->scope_count; s++) {
        const struct remat_scope *scope = &g->scopes[s];
        uint32_t stack = 0;
        if (scope->layer < 0 || (uint32_t)scope->layer >= layers)
            continue;
        while (stack < count && strcmp(stacks[stack], scope->stack) != 0)
            stack++;
        stacks[stack] = scope->stack;
        count += stack == count;
        out[s].i = 1 + stack * layers + (uint32_t)scope->layer;
    }
    return 1 + count * layers;
}

static void find_leaving(struct remat_arena *scratch, const layer_id *layer, struct joiner *j)
{
    const struct remat_graph *g = j->part->arranged->graph;
    REMAT_NEW(scratch, j->leaves, g->value_count);
    for (size_t n = 0; n < j->part->arranged->nodes.count; n++) {
        const struct remat_node_info *reader = &g->nodes[node_at(j, n).i];
        for (uint32_t i = 0; i < reader->input_count && remat_is_early(reader->phase); i++) {
            remat_value root = remat_storage_root(g, reader->inputs[i]);
            const struct remat_node_info *writer = remat_producer_info(g, root);
            j->leaves[root.i] |= writer && layer[writer->scope.i].i != layer[reader->scope.i].i;
        }
    }
}

/* The nodes that an op was expanded into share its place. There are `count` layers. */
static void count_ops(struct remat_arena *scratch, const layer_id *layer, uint32_t count,
                      struct joiner *j)
{
    const struct remat_graph *g = j->part->arranged->graph;
    uint32_t *counts, *first; /* first: by group, 1 + the index of its first node */
    REMAT_NEW(scratch, counts, (size_t)count * REMAT_OP_COUNT);
    REMAT_NEW(scratch, first, g->node_count);
    REMAT_NEW(scratch, j->op_index, g->node_count);
    for (size_t i = 0; i < j->part->arranged->nodes.count; i++) {
        uint32_t n = node_at(j, i).i;
        const struct remat_node_info *node = &g->nodes[n];
        uint32_t group = node->origin_group < g->node_count ? node->origin_group : n;
        if (node->phase != REMAT_PHASE_FORWARD || node->instance)
            continue;
        if (!first[group]) {
            first[group] = n + 1;
            j->op_index[n] =
                counts[(size_t)layer[node->scope.i].i * REMAT_OP_COUNT + node->origin]++;
        }
        j->op_index[n] = j->op_index[first[group] - 1];
    }
}

static bool is_decided(const struct joiner *j, remat_value v)
{
    remat_value original = j->part->arranged->graph->values[v.i].original;
    const struct fate *fate = &j->fates[original.i];
    bool saved = fate->read_late && !remat_is_none(j->part->arranged->lifespans.buffer_of[v.i].i);
    return saved || fate->clones_ns || fate->rewritten ||
           (fate->rounds && j->in->alternatives[original.i].written);
}

static uint8_t action_of(const struct fate *fate)
{
    if (fate->rounds == 0 || fate->sliced)
        return fate->sliced ? REMAT_ACTION_SHARD : REMAT_ACTION_SAVE;
    uint32_t action = fate->rewritten ? REMAT_ACTION_RECOMPUTE : REMAT_ACTION_INLINE;
    return (uint8_t)(fate->rounds > 1 ? remat_action_twice(action) : action);
}

static struct remat_decision_record record(const struct joiner *j, remat_value v, const char *name,
                                           remat_command_id first_command)
{
    const struct remat_graph *g = j->part->arranged->graph;
    remat_value original = g->values[v.i].original;
    remat_node node = remat_producer(g, v);
    const struct remat_scope *scope = &g->scopes[g->nodes[node.i].scope.i];
    const struct fate *fate = &j->fates[original.i];
    const struct remat_alternative *other = &j->in->alternatives[original.i];
    const char *reason = j->in->decision->reasons[original.i];
    remat_kernel_id written_by = j->kernel_of[node.i];
    struct remat_decision_record record = {
        .name = name,
        .scope = scope->path,
        .layer = scope->layer,
        .action = action_of(fate),
        .reason = reason ? reason : "default",
        .recomputable = other->recomputable,
        .recompute_extra_ns = other->recompute_extra_ns * j->part->times,
        .bytes = remat_storage_bytes(&g->values[v.i]),
        .recompute_ns = fate->clones_ns * j->part->times,
        .op = remat_op_info(g->nodes[node.i].origin)->name,
        .op_index = j->op_index[node.i],
        .dtype = (uint8_t)g->values[v.i].dtype,
        .rank = (uint8_t)g->values[v.i].shape.rank,
        .leaves_layer = j->leaves[v.i],
        .shard_bytes = other->shard_bytes,
        .shard_ns = other->shard_ns * j->part->times,
    };
    memcpy(record.shape, g->values[v.i].shape.dims, record.rank * sizeof *record.shape);
    if (!remat_is_none(written_by.i)) {
        record.saved_begin = first_command.i + j->position[written_by.i];
        record.saved_end = later(record.saved_begin, first_command.i + fate->read_end);
    }
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
    const struct remat_graph *g = lowering->parts[0].arranged->graph;
    struct joiner j = {.in = lowering, .part = &lowering->parts[0]};
    struct REMAT_LIST(struct remat_decision_record) records = {0};
    layer_id *layer;
    join(scratch, &j);
    REMAT_NEW(scratch, layer, g->scope_count);
    uint32_t layers = number_layers(scratch, g, layer);
    count_ops(scratch, layer, layers, &j);
    find_leaving(scratch, layer, &j);
    for (size_t i = 0; i < lowering->parts[0].arranged->nodes.count; i++) {
        const struct remat_node_info *node = &g->nodes[node_at(&j, i).i];
        for (uint32_t o = 0; o < node->output_count; o++)
            if (is_forward(g, node->outputs[o]) && is_decided(&j, node->outputs[o]) &&
                !remat_op_has(node->op, REMAT_FACT_VIEW))
                REMAT_PUSH(
                    arena, &records,
                    record(&j, node->outputs[o], root_name[node->outputs[o].i], first_command));
    }
    out->decisions = records.items;
    out->decision_count = (uint32_t)records.count;
    out->layer_count = remat_graph_layers(g);
    add_layers(arena, scratch, out);
}
