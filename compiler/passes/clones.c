/* The given graph is extended once by all clones. A decision sets the inputs that may read a clone;
 * a walk over the nodes in order puts each clone, depth first, before the first node that reads it,
 * and a walk back drops what nobody needs. Both cost a few operations for each node. */
#include "clones.h"

static bool is_forward(const struct remat_node_info *node)
{
    return node->phase == REMAT_PHASE_FORWARD || node->phase == REMAT_PHASE_LOSS;
}

/* --- extending the graph --- */

enum use { USE_SHARED, USE_FUSED };
enum { USES = USE_FUSED + 1, COPIES_MAX = USES * REMAT_ROUNDS_MAX };

/* Copies of a node in order of their instances: by round, in a round by use. */
static enum use use_of(uint32_t copy)
{
    return copy % USES;
}

struct extension {
    struct remat_arena *arena;
    struct remat_clones *c;
    uint32_t *clone_of[COPIES_MAX]; /* by copy and value of the given graph */
    uint32_t *deciding; /* by value of the given graph: the one whose action counts for it */
    size_t slot_capacity;
};

static remat_status find_roots(struct extension *x)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = x->c->graph;
    REMAT_NEW(x->arena, x->c->root, g->value_count);
    for (uint32_t v = 0; v < g->value_count; v++)
        x->c->root[v] = v;
    for (uint32_t n = 0; n < g->node_count; n++)
        for (uint32_t o = 0;
             remat_op_has(g->nodes[n].op, REMAT_FACT_VIEW) && o < g->nodes[n].output_count; o++)
            x->c->root[g->nodes[n].outputs[o].i] = x->c->root[g->nodes[n].inputs[0].i];
fail:
    return st;
}

/* What loads widen is not in memory, but what it is widened of: unless a view or a named kernel
 * reads it, that decides. */
static remat_status find_deciding(struct extension *x)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = x->c->graph;
    bool *stored;
    REMAT_NEW(x->arena, stored, g->value_count);
    REMAT_NEW(x->arena, x->deciding, g->value_count);
    for (uint32_t n = g->node_count; n-- > 0;)
        for (uint32_t i = 0; i < g->nodes[n].input_count; i++)
            stored[g->nodes[n].inputs[i].i] |=
                remat_op_has(g->nodes[n].op, REMAT_FACT_VIEW | REMAT_FACT_NAMED);
    for (uint32_t v = 0; v < g->value_count; v++) {
        bool loaded = remat_is_widening(g, (remat_value){v}) && !stored[v] &&
                      g->values[v].role == REMAT_ROLE_ACTIVATION;
        x->deciding[v] = x->c->root[loaded ? g->nodes[g->values[v].node].inputs[0].i : v];
    }
fail:
    return st;
}

static bool has_clone(const struct remat_clones *c, const struct remat_node_info *node,
                      enum use use)
{
    uint32_t producer = c->graph->values[c->root[node->outputs[0].i]].node;
    if (remat_is_none(producer) || !is_forward(&c->graph->nodes[producer]))
        return false;
    return use == USE_SHARED || !remat_op_has(c->graph->nodes[producer].op, REMAT_FACT_NAMED);
}

/* A copy of the graph with room for its clones. */
static remat_status extend(struct extension *x, const struct remat_graph *graph)
{
    remat_status st = REMAT_OK;
    size_t values = graph->value_count, nodes = graph->node_count;
    REMAT_NEW(x->arena, x->c->graph, 1);
    *x->c->graph = *graph;
    REMAT_TRY(find_roots(x));
    REMAT_TRY(find_deciding(x));
    for (uint32_t copy = 0; copy < USES * x->c->rounds; copy++)
        for (uint32_t n = 0; n < graph->node_count; n++)
            if (has_clone(x->c, &graph->nodes[n], use_of(copy))) {
                values += graph->nodes[n].output_count;
                nodes++;
            }
    x->c->graph->value_capacity = x->c->graph->node_capacity = 0;
    REMAT_TRY(remat_graph_reserve(x->arena, x->c->graph, values, nodes));
fail:
    return st;
}

static remat_status add_clone(struct extension *x, uint32_t n, uint32_t copy)
{
    remat_status st = REMAT_OK;
    struct remat_graph *g = x->c->graph;
    struct remat_node_info clone = g->nodes[n];
    remat_value *outputs;
    REMAT_NEW(x->arena, outputs, clone.output_count);
    for (uint32_t o = 0; o < clone.output_count; o++) {
        struct remat_value_info value = g->values[clone.outputs[o].i];
        REMAT_TRY(remat_graph_add_value(x->arena, g, &value, &outputs[o]));
        x->clone_of[copy][clone.outputs[o].i] = outputs[o].i;
    }
    clone.outputs = outputs;
    clone.phase = REMAT_PHASE_BACKWARD;
    clone.instance = 1 + copy;
    REMAT_TRY(remat_graph_append_node(x->arena, g, &clone, NULL));
fail:
    return st;
}

/* A clone reads what was cloned for the same use; of the others named kernels share. */
static bool reads_fused(const struct remat_node_info *node)
{
    return node->instance ? use_of(node->instance - 1) == USE_FUSED
                          : !remat_op_has(node->op, REMAT_FACT_NAMED);
}

/* What a node reads of a value that `round` makes. */
static uint32_t find_clone(const struct extension *x, const struct remat_node_info *node,
                           uint32_t value, uint32_t round, enum use use)
{
    bool is_clone = node >= x->c->graph->nodes + x->c->node_count;
    uint32_t last = is_clone ? remat_clone_round(node->instance) - 1 : x->c->rounds - 1;
    uint32_t copy = USES * (round < last ? round : last);
    uint32_t fused = x->clone_of[copy + USE_FUSED][value];
    bool shares = use == USE_SHARED || remat_is_none(fused) || !reads_fused(node);
    return shares ? x->clone_of[copy + USE_SHARED][value] : fused;
}

static struct remat_clone_slot make_slot(const struct extension *x,
                                         const struct remat_node_info *node, remat_value *input)
{
    uint32_t v = input->i;
    return (struct remat_clone_slot){
        .input = input,
        .root = x->deciding[v],
        .reads = {[REMAT_ACTION_SAVE] = v,
                  [REMAT_ACTION_RECOMPUTE] = find_clone(x, node, v, 0, USE_SHARED),
                  [REMAT_ACTION_FUSED] = find_clone(x, node, v, 0, USE_FUSED),
                  [REMAT_ACTION_NESTED] = find_clone(x, node, v, 1, USE_SHARED),
                  [REMAT_ACTION_NESTED_FUSED] = find_clone(x, node, v, 1, USE_FUSED)}};
}

/* The inputs of a node that may read clones become its own. */
static remat_status add_slots(struct extension *x, uint32_t n)
{
    remat_status st = REMAT_OK;
    struct remat_clones *c = x->c;
    struct remat_node_info *node = &c->graph->nodes[n];
    remat_value *inputs = NULL;
    struct {
        struct remat_clone_slot *items;
        size_t count, capacity;
    } list = {c->slots, c->slot_count, x->slot_capacity};
    c->nodes[n].first_slot = c->slot_count;
    for (uint32_t i = 0; i < remat_op_reads(node) && !is_forward(node); i++) {
        if (remat_is_none(x->clone_of[USE_SHARED][node->inputs[i].i]))
            continue;
        if (!inputs) {
            REMAT_NEW(x->arena, inputs, node->input_count);
            memcpy(inputs, node->inputs, node->input_count * sizeof *inputs);
            node->inputs = inputs;
        }
        REMAT_PUSH(x->arena, &list, make_slot(x, node, &inputs[i]));
    }
    c->nodes[n].inputs = node->inputs;
    c->nodes[n].input_count = node->input_count;
    c->slots = list.items;
    c->slot_count = (uint32_t)list.count;
    x->slot_capacity = list.capacity;
fail:
    return st;
}

/* --- the tail --- */

/* Whether tail nodes may read it: what is given, or a gradient, which is stored whoever reads it
 * unless it is a constant. */
static bool is_settled(const struct extension *x, remat_value v)
{
    const struct remat_graph *g = x->c->graph;
    uint32_t producer = g->values[x->c->root[v.i]].node;
    if (remat_is_none(producer))
        return true;
    uint16_t op = g->nodes[producer].op;
    return g->values[v.i].role == REMAT_ROLE_GRADIENT &&
           remat_is_none(x->clone_of[USE_SHARED][v.i]) && !remat_is_widening(g, v) &&
           op != REMAT_OP_constant && op != REMAT_OP_column;
}

static uint32_t find_tail(const struct extension *x)
{
    const struct remat_graph *g = x->c->graph;
    uint32_t tail = x->c->node_count, first = 0;
    while (tail > 0 && g->nodes[tail - 1].phase == REMAT_PHASE_OPTIMIZER)
        tail--;
    while (first < tail && g->nodes[first].phase != REMAT_PHASE_OPTIMIZER)
        first++;
    for (uint32_t n = tail; n < x->c->node_count; n++)
        for (uint32_t i = 0; i < g->nodes[n].input_count; i++) {
            remat_value v = g->nodes[n].inputs[i];
            uint32_t node = g->values[v.i].node;
            if ((remat_is_none(node) || node < tail) && !is_settled(x, v))
                return x->c->node_count;
        }
    return first < tail ? x->c->node_count : tail;
}

static remat_status find_producers(struct extension *x)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = x->c->graph;
    REMAT_NEW(x->arena, x->c->producer, g->value_count);
    for (uint32_t v = 0; v < g->value_count; v++)
        x->c->producer[v] = remat_is_none(g->values[v].node) ? g->node_count : g->values[v].node;
fail:
    return st;
}

static remat_status find_kept(struct extension *x)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = x->c->graph;
    REMAT_NEW(x->arena, x->c->kept, g->node_count + 1);
    for (uint32_t v = 0; v < g->value_count; v++)
        if (g->values[v].role == REMAT_ROLE_GRADIENT)
            x->c->kept[x->c->producer[v]] = 1;
    for (uint32_t o = 0; o < g->output_count; o++)
        x->c->kept[x->c->producer[g->outputs[o].i]] = 1;
    for (uint32_t u = 0; u < g->update_count; u++)
        x->c->kept[x->c->producer[g->updates[u].value.i]] = 1;
fail:
    return st;
}

remat_status remat_clones_create(struct remat_arena *arena, const struct remat_graph *graph,
                                 uint32_t rounds, struct remat_clones *out)
{
    remat_status st = REMAT_OK;
    struct extension x = {.arena = arena, .c = out};
    *out = (struct remat_clones){
        .node_count = graph->node_count, .value_count = graph->value_count, .rounds = rounds};
    REMAT_TRY(extend(&x, graph));
    for (uint32_t copy = 0; copy < USES * rounds; copy++) {
        REMAT_NEW(arena, x.clone_of[copy], graph->value_count);
        memset(x.clone_of[copy], 0xff, graph->value_count * sizeof *x.clone_of[copy]);
        for (uint32_t n = 0; n < graph->node_count; n++)
            if (has_clone(out, &graph->nodes[n], use_of(copy)))
                REMAT_TRY(add_clone(&x, n, copy));
    }
    REMAT_NEW(arena, out->nodes, out->graph->node_count + 1);
    for (uint32_t n = 0; n < out->graph->node_count; n++)
        REMAT_TRY(add_slots(&x, n));
    out->nodes[out->graph->node_count].first_slot = out->slot_count;
    out->tail = find_tail(&x);
    REMAT_TRY(find_producers(&x));
    REMAT_TRY(find_kept(&x));
fail:
    return st;
}

/* --- choosing --- */

struct chooser {
    const struct remat_clones *c;
    const uint8_t *actions;
    uint8_t *placed; /* by node */
    uint32_t *nodes;
    uint32_t count;
};

/* Sets the node's inputs; the node comes behind the clones that it reads. */
static void place(struct chooser *w, uint32_t n)
{
    const struct remat_clones *c = w->c;
    for (uint32_t s = c->nodes[n].first_slot; s < c->nodes[n + 1].first_slot; s++) {
        const struct remat_clone_slot *slot = &c->slots[s];
        slot->input->i = slot->reads[w->actions[slot->root]];
        if (slot->input->i == slot->reads[REMAT_ACTION_SAVE])
            continue;
        uint32_t clone = c->producer[slot->input->i];
        if (!w->placed[clone])
            place(w, clone);
    }
    w->placed[n] = 1;
    w->nodes[w->count++] = n;
}

/* Overwrites the list from its end; the nodes that are left lie at *begin and behind. */
static void drop_dead(struct chooser *w, uint8_t *needed, uint32_t *begin)
{
    const struct remat_clones *c = w->c;
    uint32_t kept = w->count;
    for (uint32_t k = w->count; k-- > 0;) {
        uint32_t n = w->nodes[k];
        if (!needed[n])
            continue;
        const struct remat_clone_node *node = &c->nodes[n];
        for (uint32_t i = 0; i < node->input_count; i++)
            needed[c->producer[node->inputs[i].i]] = 1;
        w->nodes[--kept] = n;
    }
    *begin = kept;
}

remat_status remat_clones_choose(struct remat_clones *clones, struct remat_arena *arena,
                                 const struct remat_decision *decision, uint32_t end,
                                 uint32_t *out_count, uint32_t **out_nodes)
{
    remat_status st = REMAT_OK;
    struct remat_graph *g = clones->graph;
    struct chooser w = {.c = clones, .actions = decision->actions};
    uint8_t *needed;
    uint32_t begin;
    REMAT_NEW(arena, w.placed, g->node_count);
    REMAT_NEW(arena, w.nodes, g->node_count);
    REMAT_NEW(arena, needed, g->node_count + 1);
    for (uint32_t n = 0; n < end; n++)
        if (clones->nodes[n].first_slot == clones->nodes[n + 1].first_slot)
            w.nodes[w.count++] = n;
        else
            place(&w, n);
    memcpy(needed, clones->kept, g->node_count);
    drop_dead(&w, needed, &begin);
    *out_nodes = w.nodes + begin;
    *out_count = w.count - begin;
fail:
    return st;
}
