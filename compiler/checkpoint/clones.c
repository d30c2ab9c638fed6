/* SPDX-License-Identifier: Apache-2.0 */
/* The given graph is extended once by all clones. A run is a kernel of the backward pass or the
 * rerun of a forward one in a round; each clone belongs to one. A decision says which clones are
 * read: the extended graph itself never changes. */
#include "clones.h"

#include "clone_round.h"
#include "rebuild.h"

struct clone {
    remat_run run;
    remat_node clone;
};

struct extension {
    struct remat_arena *arena, *scratch;
    struct remat_graph *g;
    const struct remat_settled *s;
    uint32_t absorbed_begin;                   /* the run of absorbed nodes, then one by round */
    struct REMAT_LIST(remat_run) runs_in, run; /* by node */
    struct REMAT_LIST(remat_node) original;    /* by node */
    struct REMAT_LIST(uint32_t) first_slot;    /* by node */
    struct clone_list REMAT_LIST(struct clone) * clones; /* by node of the given graph; few */
    struct REMAT_LIST(struct remat_clone_slot) slots;
};

/* --- clones --- */

/* The kernel that makes a value takes what puts it away along; its own nodes come before. */
static void place_keeps(struct extension *x)
{
    const struct remat_graph *given = x->s->graph, *g = x->g;
    for (remat_node n = {given->node_count}; n.i < x->s->keeps.graph->node_count; n.i++) {
        remat_value original = g->values[g->nodes[n.i].outputs[0].i].original;
        remat_kernel_id kernel = remat_settled_writer(x->s, original);
        const struct remat_kernel_info *writer = remat_kernel_at(x->s->kernels, kernel);
        bool forward = remat_in_forward_pass(g->nodes[n.i].phase);
        remat_kernel_id own = x->s->keeps.kernel_of[n.i - given->node_count];
        REMAT_PUSH(x->scratch, &x->runs_in,
                   (remat_is_none(own.i) ? (remat_run){REMAT_NONE} : remat_run_of_keep(x->s, own)));
        REMAT_PUSH(x->scratch, &x->run,
                   (forward ? remat_run_of(x->s, kernel, 0) : (remat_run){x->absorbed_begin}));
        REMAT_PUSH(x->scratch, &x->original, writer->nodes[writer->node_count - 1]);
    }
}

/* The rerun of a node in a round. */
static remat_run rerun_of(const struct extension *x, remat_node n, uint32_t round)
{
    remat_run producer = x->run.items[n.i];
    return producer.i == x->absorbed_begin
               ? (remat_run){producer.i + round}
               : remat_run_of(x->s, remat_run_kernel(x->s, producer), round);
}

/* The clone of a node in a run, none where there is none. */
static remat_node find_clone(const struct extension *x, remat_node n, remat_run run)
{
    const struct clone_list *list = &x->clones[n.i];
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].run.i == run.i)
            return list->items[i].clone;
    return REMAT_NO_NODE;
}

static remat_node add_clone(struct extension *x, remat_node n, remat_run run, uint32_t instance)
{
    struct remat_graph *g = x->g;
    struct remat_node_info clone = g->nodes[n.i];
    remat_value *outputs;
    REMAT_NEW(x->arena, outputs, clone.output_count);
    for (uint32_t o = 0; o < clone.output_count; o++) {
        struct remat_value_info value = g->values[clone.outputs[o].i];
        outputs[o] = remat_graph_add_value(x->arena, g, &value);
    }
    clone.outputs = outputs;
    clone.phase = REMAT_PHASE_BACKWARD;
    clone.instance = instance;
    remat_node out = remat_graph_append_node(x->arena, g, &clone);
    bool absorbed = remat_is_none(x->runs_in.items[n.i].i);
    REMAT_PUSH(x->scratch, &x->runs_in, (absorbed ? (remat_run){REMAT_NONE} : run));
    REMAT_PUSH(x->scratch, &x->run, run);
    REMAT_PUSH(x->scratch, &x->original, n);
    REMAT_PUSH(x->scratch, &x->clones[n.i], ((struct clone){run, out}));
    return out;
}

/* A view may be cloned, and a cast that loads do, of what may be. */
static bool is_cloned(const struct extension *x, remat_node n)
{
    const struct remat_node_info *node = &x->g->nodes[n.i];
    bool view = remat_op_has(node->op, REMAT_FACT_VIEW);
    if (!view && !remat_in_forward_pass(node->phase))
        return false;
    if (!view && !remat_is_none(x->s->kernel_of[n.i].i)) {
        bool any = false;
        for (uint32_t o = 0; o < node->output_count; o++)
            any |= x->s->state[node->outputs[o].i] != REMAT_VALUE_FIXED;
        return any;
    }
    remat_value root = remat_settled_source(x->s, node->outputs[0]).root;
    return !remat_is_none(root.i) && x->s->state[root.i] != REMAT_VALUE_FIXED;
}

/* A cast that loads do stays with what it casts, if that is in one kernel with its readers. */
static remat_run run_of(const struct extension *x, remat_node n)
{
    const struct remat_graph *g = x->g;
    const struct remat_node_info *node = &g->nodes[n.i];
    const remat_run absorbed = {x->absorbed_begin};
    if (!remat_is_none(x->runs_in.items[n.i].i))
        return x->runs_in.items[n.i];
    if (remat_op_has(node->op, REMAT_FACT_VIEW) || node->input_count == 0)
        return absorbed;
    remat_node producer = remat_producer(g, node->inputs[0]);
    bool near = !remat_is_none(producer.i) && remat_in_forward_pass(node->phase) ==
                                                  remat_in_forward_pass(g->nodes[producer.i].phase);
    return near ? x->run.items[producer.i] : absorbed;
}

static void add_reruns(struct extension *x)
{
    for (remat_node n = {0}; n.i < x->s->graph->node_count; n.i++) {
        REMAT_PUSH(x->scratch, &x->runs_in, (remat_run){x->s->kernel_of[n.i].i});
        REMAT_PUSH(x->scratch, &x->run, run_of(x, n));
        REMAT_PUSH(x->scratch, &x->original, n);
    }
    place_keeps(x);
    for (uint32_t r = 1; r <= REMAT_ROUNDS_MAX; r++)
        for (remat_node n = {0}; n.i < x->s->graph->node_count; n.i++)
            if (is_cloned(x, n))
                add_clone(x, n, rerun_of(x, n, r), remat_clone_instance(r, false));
}

/* --- slots --- */

/* The output of its node's clone that stands for a value. */
static remat_value output_of(const struct extension *x, remat_node clone, remat_value value)
{
    const struct remat_graph *g = x->g;
    return g->nodes[clone.i].outputs[g->values[value.i].result];
}

static remat_value in_round(const struct extension *x, remat_value value, uint32_t round)
{
    remat_node n = remat_producer(x->g, value);
    return output_of(x, find_clone(x, n, rerun_of(x, n, round)), value);
}

/* The value in a run that makes it for itself: its clone's. */
static remat_value own_value(struct extension *x, remat_run run, remat_value value)
{
    remat_node n = remat_producer(x->g, value), clone = find_clone(x, n, run);
    uint32_t round = remat_run_round(x->s, run);
    if (remat_is_none(clone.i))
        clone = add_clone(x, n, run, remat_clone_instance(round ? round : REMAT_ROUNDS_MAX, true));
    return output_of(x, clone, value);
}

/* What stands for a value, the root or made of it by views and casts, where the root is saved:
 * itself in place, where `keep` is NULL. */
static remat_value of_kept(const struct extension *x, const struct remat_keep *keep,
                           remat_value value)
{
    remat_node n = remat_producer(x->g, value);
    if (!keep)
        return value;
    if (value.i == keep->value.i)
        return keep->whole;
    remat_node clone = find_clone(x, n, rerun_of(x, n, 1));
    return remat_is_none(clone.i) ? value : output_of(x, clone, value);
}

/* The rerun that kernels of the graph read. */
static uint32_t last_round(uint32_t action)
{
    return remat_action_times(action) == 1 ? 1 : REMAT_ROUNDS_MAX;
}

/* What a node of the run reads where `v` is its input, by the action on the root. */
static remat_value read_in_run(struct extension *x, remat_run run, remat_value v, uint32_t action)
{
    struct remat_source source = remat_settled_source(x->s, v);
    uint32_t round = remat_run_round(x->s, run), times = remat_action_times(action);
    if (remat_is_none(source.root.i) || x->s->state[source.root.i] == REMAT_VALUE_FIXED)
        return v;
    const struct remat_node_info *node = &x->g->nodes[remat_producer(x->g, v).i];
    bool candidate = remat_is_candidate(x->s, source.root), inlined = x->s->inlined[source.root.i];
    bool cast = source.cast && !remat_in_forward_pass(node->phase) &&
                !remat_op_has(node->op, REMAT_FACT_VIEW); /* which reads a clone itself */
    if (!candidate || (inlined && times > 0))
        return own_value(x, run, v);
    if (cast && !inlined)
        return v;
    if (times == 0)
        return of_kept(x, remat_keeps_find(&x->s->keeps, source.root, action), v);
    return in_round(x, v, times > 1 && round ? round : last_round(action));
}

/* The same for a node of no kernel. A clone reads that of its run or its round; of others casts
 * alone read clones, those of the last round. */
static remat_value read_absorbed(struct extension *x, remat_node n, remat_value v, uint32_t action)
{
    const struct remat_node_info *node = &x->g->nodes[n.i];
    bool given = n.i < x->s->graph->node_count; /* with any instance, of an earlier compilation */
    uint32_t round = given ? 0 : remat_clone_round(node->instance);
    remat_run run = x->run.items[n.i];
    remat_value root = remat_settled_source(x->s, v).root;
    bool candidate = !remat_is_none(root.i) && remat_is_candidate(x->s, root);
    const struct remat_keep *keep = candidate ? remat_keeps_find(&x->s->keeps, root, action) : NULL;
    if (run.i < x->absorbed_begin)
        return keep ? of_kept(x, keep, v) : own_value(x, run, v);
    if (!candidate || (!round && remat_op_has(node->op, REMAT_FACT_VIEW)))
        return v;
    if (keep || (!round && remat_action_times(action) == 0))
        return of_kept(x, keep, v);
    return in_round(x, v, round ? round : last_round(action));
}

/* Of the input of a column index only the shape counts: the value of the forward pass that the
 * backward pass casts has it too, and is there whatever is decided. */
static remat_value shape_source(const struct remat_graph *g, remat_value like)
{
    remat_node node = remat_producer(g, like);
    if (remat_is_none(node.i) || remat_in_forward_pass(g->nodes[node.i].phase) ||
        g->nodes[node.i].op != REMAT_OP_cast)
        return like;
    return shape_source(g, g->nodes[node.i].inputs[0]);
}

static void add_slots(struct extension *x, remat_node n)
{
    struct remat_node_info *node = &x->g->nodes[n.i];
    remat_run run = x->run.items[n.i];
    uint32_t count = remat_op_reads(node);
    bool absorbed = remat_is_none(x->runs_in.items[n.i].i);
    REMAT_PUSH(x->scratch, &x->first_slot, (uint32_t)x->slots.count);
    bool keeps = n.i >= x->s->graph->node_count && n.i < x->s->keeps.graph->node_count;
    if (keeps || remat_in_forward_pass(node->phase) ||
        (absorbed && run.i < x->absorbed_begin && n.i < x->s->graph->node_count))
        return;
    remat_value *inputs = remat_copy(x->arena, node->inputs, node->input_count, sizeof *inputs);
    node->inputs = inputs;
    if (node->op == REMAT_OP_column)
        inputs[0] = shape_source(x->g, inputs[0]);
    for (uint32_t i = 0; i < count; i++) { /* which may move *node */
        struct remat_clone_slot slot = {.input = i,
                                        .root = remat_settled_source(x->s, inputs[i]).root};
        bool varies = false;
        for (uint32_t a = 0; a < REMAT_ACTION_COUNT; a++) {
            slot.reads[a] =
                absorbed ? read_absorbed(x, n, inputs[i], a) : read_in_run(x, run, inputs[i], a);
            varies |= slot.reads[a].i != slot.reads[REMAT_ACTION_SAVE].i;
        }
        inputs[i] = slot.reads[REMAT_ACTION_SAVE];
        if (varies)
            REMAT_PUSH(x->scratch, &x->slots, slot);
    }
}

/* --- all clones --- */

/* Lists the nodes of each run in graph order. */
static void list_runs(const struct extension *x, struct remat_clones *c)
{
    uint32_t count = x->g->node_count, *order, *keys, *places;
    c->run = remat_copy(x->arena, x->run.items, count, sizeof *c->run);
    c->runs_in = remat_copy(x->arena, x->runs_in.items, count, sizeof *c->runs_in);
    remat_group_by_key(x->scratch, (const uint32_t *)x->original.items, count,
                       x->s->graph->node_count, &order);
    REMAT_NEW(x->scratch, keys, count);
    for (uint32_t i = 0; i < count; i++)
        keys[i] = c->run[order[i]].i;
    c->run_begin = remat_group_by_key(x->arena, keys, count,
                                      x->absorbed_begin + 1 + REMAT_ROUNDS_MAX, &places);
    REMAT_NEW(x->arena, c->run_nodes, count);
    for (uint32_t i = 0; i < count; i++)
        c->run_nodes[i].i = order[places[i]];
}

/* Of the given graph and ways to keep, with room for reruns, and mostly for what is inlined. */
static struct remat_graph *begin_graph(struct remat_arena *arena, const struct remat_settled *s)
{
    const struct remat_graph *given = s->graph;
    struct remat_graph *out = remat_copy(arena, s->keeps.graph, 1, sizeof *out);
    out->value_capacity = out->node_capacity = 0;
    remat_graph_reserve(arena, out,
                        REMAT_ROUNDS_MAX * (size_t)given->value_count + out->value_count,
                        REMAT_ROUNDS_MAX * (size_t)given->node_count + out->node_count);
    for (remat_value v = {0}; v.i < given->value_count; v.i++) /* which clones take over */
        out->values[v.i].original = v;
    return out;
}

void remat_clones_create(struct remat_arena *arena, const struct remat_settled *settled,
                         struct remat_clones *out)
{
    assert(settled->kernels->count <= settled->graph->node_count);
    struct extension x = {.arena = arena,
                          .scratch = remat_scratch_open(arena->ctx),
                          .g = begin_graph(arena, settled),
                          .s = settled,
                          .absorbed_begin = remat_run_end(settled).i};
    *out = (struct remat_clones){.graph = x.g, .settled = settled};
    REMAT_NEW(x.scratch, x.clones, settled->graph->node_count);
    add_reruns(&x);
    for (remat_node n = {0}; n.i < x.g->node_count; n.i++) /* which adds clones */
        add_slots(&x, n);
    REMAT_PUSH(x.scratch, &x.first_slot, (uint32_t)x.slots.count);
    out->first_slot =
        remat_copy(arena, x.first_slot.items, x.g->node_count + 1, sizeof *out->first_slot);
    out->slots = remat_copy(arena, x.slots.items, x.slots.count, sizeof *out->slots);
    list_runs(&x, out);
    remat_scratch_close(x.scratch);
}

/* --- the clones under a decision --- */

/* What the node reads. */
static const remat_value *inputs_under(struct remat_arena *arena, const struct remat_clones *c,
                                       const struct remat_decision *decision, remat_node n)
{
    const struct remat_node_info *node = &c->graph->nodes[n.i];
    if (c->first_slot[n.i] == c->first_slot[n.i + 1])
        return node->inputs;
    remat_value *inputs = remat_copy(arena, node->inputs, node->input_count, sizeof *inputs);
    for (uint32_t s = c->first_slot[n.i]; s < c->first_slot[n.i + 1]; s++)
        inputs[c->slots[s].input] = c->slots[s].reads[decision->actions[c->slots[s].root.i]];
    return inputs;
}

/* True for a node in no kernel (analysis.h). */
static bool is_absorbed(const struct remat_clones *c, remat_node n)
{
    return remat_is_none(c->runs_in[n.i].i);
}

struct wirer {
    struct remat_arena *arena;
    const struct remat_clones *clones;
    const struct remat_decision *decision;
    remat_run run;
    remat_value *own; /* by value of the clones' graph: that of the run's */
    struct remat_graph *graph;
    struct remat_roots values; /* by value of the run's graph: the clones' */
};

static remat_value add_value(struct wirer *w, remat_value v)
{
    struct remat_value_info value = w->clones->graph->values[v.i];
    value.node = REMAT_NO_NODE;
    w->own[v.i] = remat_graph_add_value(w->arena, w->graph, &value);
    REMAT_PUSH(w->arena, &w->values, v);
    return w->own[v.i];
}

static void add_node(struct wirer *w, remat_node n);

static remat_value wire_value(struct wirer *w, remat_value v)
{
    const struct remat_clones *c = w->clones;
    remat_node n = remat_producer(c->graph, v);
    if (!remat_is_none(w->own[v.i].i))
        return w->own[v.i];
    if (remat_is_none(n.i) || (c->run[n.i].i != w->run.i && !is_absorbed(c, n) &&
                               !remat_is_made_by_readers(&c->graph->nodes[n.i])))
        return add_value(w, v);
    add_node(w, n);
    return w->own[v.i];
}

/* A constant or column of another run needs no inputs. */
static void add_node(struct wirer *w, remat_node n)
{
    const struct remat_clones *c = w->clones;
    struct remat_node_info node = c->graph->nodes[n.i];
    const remat_value *reads = inputs_under(w->arena, c, w->decision, n);
    remat_value *inputs, *outputs;
    if (c->run[n.i].i != w->run.i && !is_absorbed(c, n))
        node.input_count = 0;
    REMAT_NEW_UNINITIALIZED(w->arena, inputs, node.input_count);
    REMAT_NEW_UNINITIALIZED(w->arena, outputs, node.output_count);
    for (uint32_t i = 0; i < node.input_count; i++)
        inputs[i] = wire_value(w, reads[i]);
    for (uint32_t o = 0; o < node.output_count; o++)
        outputs[o] = add_value(w, node.outputs[o]);
    node.inputs = inputs;
    node.outputs = outputs;
    remat_graph_append_node(w->arena, w->graph, &node);
}

/* Of what a node of the run's graph reads, itself or by way of absorbed ones. */
static void list_before(const struct wirer *w, struct remat_arena *arena,
                        const struct remat_node_info *node, struct remat_runs *out)
{
    const struct remat_clones *c = w->clones;
    for (uint32_t i = 0; i < node->input_count; i++) {
        remat_node maker = remat_producer(c->graph, w->values.items[node->inputs[i].i]);
        if (remat_is_none(maker.i) || c->run[maker.i].i == w->run.i)
            continue;
        if (is_absorbed(c, maker)) /* of a rerun's run too: it may read what is kept */
            list_before(w, arena, remat_producer_info(w->graph, node->inputs[i]), out);
        else if (c->runs_in[maker.i].i >= c->settled->kernels->count)
            REMAT_PUSH(arena, out, c->runs_in[maker.i]);
    }
}

struct remat_wired_run remat_wire_run(struct remat_arena *arena, struct remat_arena *scratch,
                                      const struct remat_clones *c,
                                      const struct remat_decision *decision, remat_run run,
                                      const struct remat_nodes *kept, remat_value *own)
{
    struct remat_wired_run out = {.graph = {.scopes = c->graph->scopes,
                                            .scope_count = c->graph->scope_count,
                                            .mesh = c->graph->mesh}};
    struct wirer w = {.arena = scratch,
                      .clones = c,
                      .decision = decision,
                      .run = run,
                      .own = own,
                      .graph = &out.graph};
    for (size_t k = 0; k < kept->count; k++)
        wire_value(&w, c->graph->nodes[kept->items[k].i].outputs[0]);
    for (uint32_t i = c->run_begin[run.i]; i < c->run_begin[run.i + 1]; i++) {
        remat_node n = c->run_nodes[i];
        remat_value v = own[c->graph->nodes[n.i].outputs[0].i];
        if (remat_is_none(v.i))
            continue;
        remat_node node = remat_producer(&out.graph, v);
        list_before(&w, arena, &out.graph.nodes[node.i], &out.before);
        if (is_absorbed(c, n))
            continue;
        REMAT_PUSH(scratch, &out.nodes, node);
        REMAT_PUSH(arena, &out.originals, n);
    }
    for (size_t v = 0; v < w.values.count; v++)
        own[w.values.items[v].i] = REMAT_NO_VALUE;
    out.values = w.values.items;
    return out;
}

struct node_lister {
    struct remat_arena *arena;
    const struct remat_clones *clones;
    const struct remat_decision *decision;
    struct remat_graph *graph;
    bool *listed; /* by node */
    struct remat_nodes *out;
};

/* After the absorbed nodes that it reads, if it is not there. */
static void list_node(struct node_lister *l, remat_node n)
{
    struct remat_node_info *node = &l->graph->nodes[n.i];
    if (l->listed[n.i])
        return;
    l->listed[n.i] = true;
    node->inputs = inputs_under(l->arena, l->clones, l->decision, n);
    for (uint32_t i = 0; i < node->input_count; i++) {
        remat_node maker = remat_producer(l->graph, node->inputs[i]);
        if (!remat_is_none(maker.i) && is_absorbed(l->clones, maker))
            list_node(l, maker);
    }
    REMAT_PUSH(l->arena, l->out, n);
}

struct remat_graph *remat_wire(struct remat_arena *arena, const struct remat_clones *clones,
                               const struct remat_decision *decision,
                               const struct remat_kernel_list *kernels, struct remat_nodes *out)
{
    assert(decision->value_count == clones->settled->graph->value_count);
    const struct remat_graph *given = clones->settled->graph;
    struct remat_graph *graph = remat_copy(arena, clones->graph, 1, sizeof *graph);
    graph->nodes = remat_copy(arena, graph->nodes, graph->node_count, sizeof *graph->nodes);
    struct node_lister l = {arena, clones, decision, graph, NULL, out};
    const bool *kept = remat_find_kept(arena, given);
    uint32_t last = remat_clone_instance(remat_decision_rounds(decision), true);
    *out = (struct remat_nodes){0};
    REMAT_NEW(arena, l.listed, graph->node_count);
    for (uint32_t k = 0; k < kernels->count; k++)
        for (uint32_t n = 0; n < kernels->kernels[k].node_count; n++)
            list_node(&l, kernels->kernels[k].nodes[n]);
    for (remat_value v = {0}; v.i < given->value_count; v.i++) {
        remat_node node = remat_producer(given, v);
        if (!remat_is_none(node.i) && (kept[v.i] || given->values[v.i].role == REMAT_ROLE_GRADIENT))
            list_node(&l, node);
    }
    for (size_t i = 0; i < out->count; i++) {
        struct remat_node_info *node = &graph->nodes[out->items[i].i];
        if (out->items[i].i >= given->node_count && node->instance > last)
            node->instance = last;
    }
    return graph;
}
