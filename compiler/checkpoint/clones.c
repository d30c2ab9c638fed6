/* SPDX-License-Identifier: Apache-2.0 */
/* The given graph is extended once by all clones. A site is a kernel of the backward pass or the
 * rerun of a forward one in a round; each clone belongs to one. A decision sets the inputs that may
 * read a clone; a walk from what is kept marks what is needed, and a walk over the kernels in order
 * puts each rerun, depth first, before the first kernel that reads it. Both cost a few operations
 * for each node. */
#include "clones.h"

#include "ops.h"
#include "rebuild.h"

#include <stdlib.h>

struct extension {
    struct remat_arena *arena;
    struct remat_clones *c;
    const struct remat_settled *s;
    uint32_t *rerun_of[REMAT_ROUNDS_MAX]; /* by node of the given graph; REMAT_NONE: no clone */
    struct id_list {
        uint32_t *items;
        size_t count, capacity;
    } site, original; /* by node */
    struct own_list {
        struct own_clone {
            uint32_t original, clone;
        } * items;
        size_t count, capacity;
    } * own; /* by site: what it makes for itself beside a rerun's clones; few */
    struct {
        struct remat_clone_slot *items;
        size_t count, capacity;
    } slots;
    struct id_list first_slot;
};

/* --- sites --- */

static uint32_t kernel_count(const struct extension *x)
{
    return x->s->kernels->count;
}

static uint32_t rerun_site(const struct extension *x, uint32_t kernel, uint32_t round)
{
    return round * kernel_count(x) + kernel;
}

static uint32_t kernel_of_site(const struct extension *x, uint32_t site)
{
    return site % kernel_count(x);
}

/* Of a site that is a rerun, else 0. */
static uint32_t round_of_site(const struct extension *x, uint32_t site)
{
    return site / kernel_count(x);
}

/* --- clones --- */

static uint32_t add_clone(struct extension *x, uint32_t n, uint32_t site, uint32_t instance)
{
    struct remat_graph *g = x->c->graph;
    struct remat_node_info clone = g->nodes[n];
    uint32_t out = g->node_count;
    remat_value *outputs;
    REMAT_NEW(x->arena, outputs, clone.output_count);
    for (uint32_t o = 0; o < clone.output_count; o++) {
        struct remat_value_info value = g->values[clone.outputs[o].i];
        outputs[o] = remat_graph_add_value(x->arena, g, &value);
    }
    clone.inputs = remat_copy(x->arena, clone.inputs, clone.input_count, sizeof *clone.inputs);
    clone.outputs = outputs;
    clone.phase = REMAT_PHASE_BACKWARD;
    clone.instance = instance;
    if (!remat_is_none(clone.kernel))
        clone.kernel = site;
    remat_graph_append_node(x->arena, g, &clone);
    REMAT_PUSH(x->arena, &x->site, site);
    REMAT_PUSH(x->arena, &x->original, n);
    return out;
}

/* The clone of a forward node in a site that makes it for itself. */
static uint32_t own_clone(struct extension *x, uint32_t site, uint32_t n)
{
    uint32_t round = round_of_site(x, site), last = round ? round : x->c->rounds;
    uint32_t rerun = round ? x->rerun_of[round - 1][n] : REMAT_NONE;
    struct own_list *own = &x->own[site];
    if (!remat_is_none(rerun) && x->site.items[rerun] == site)
        return rerun;
    for (size_t i = 0; i < own->count; i++)
        if (own->items[i].original == n)
            return own->items[i].clone;
    uint32_t clone = add_clone(x, n, site, 2 * last);
    REMAT_PUSH(x->arena, own, ((struct own_clone){n, clone}));
    return clone;
}

/* A view may be cloned, and a cast that loads do, of what may be. */
static bool is_cloned(const struct extension *x, uint32_t n)
{
    const struct remat_node_info *node = &x->c->graph->nodes[n];
    bool view = remat_op_has(node->op, REMAT_FACT_VIEW);
    if (!view && !remat_is_early(node->phase))
        return false;
    if (!view && !remat_is_none(node->kernel)) {
        bool any = false;
        for (uint32_t o = 0; o < node->output_count; o++)
            any |= x->s->standing[node->outputs[o].i] != REMAT_STANDING_FIXED;
        return any;
    }
    struct remat_trace trace = remat_settled_trace(x->s, node->outputs[0]);
    return !remat_is_none(trace.root) && x->s->standing[trace.root] != REMAT_STANDING_FIXED;
}

/* A cast that loads do stays with what it casts, if that is in one kernel with its readers. */
static uint32_t home_of(const struct extension *x, uint32_t n)
{
    const struct remat_node_info *node = &x->c->graph->nodes[n];
    uint32_t producer;
    if (!remat_is_none(node->kernel))
        return node->kernel;
    if (remat_op_has(node->op, REMAT_FACT_VIEW) || node->input_count == 0)
        return REMAT_NONE;
    producer = x->c->graph->values[node->inputs[0].i].node;
    if (remat_is_none(producer) ||
        remat_is_early(node->phase) != remat_is_early(x->c->graph->nodes[producer].phase))
        return REMAT_NONE;
    return x->site.items[producer];
}

static void add_reruns(struct extension *x)
{
    for (uint32_t n = 0; n < x->c->node_count; n++) {
        REMAT_PUSH(x->arena, &x->site, home_of(x, n));
        REMAT_PUSH(x->arena, &x->original, n);
    }
    for (uint32_t r = 0; r < x->c->rounds; r++) {
        REMAT_NEW(x->arena, x->rerun_of[r], x->c->node_count);
        for (uint32_t n = 0; n < x->c->node_count; n++) {
            uint32_t home = x->site.items[n];
            x->rerun_of[r][n] = REMAT_NONE;
            if (is_cloned(x, n))
                x->rerun_of[r][n] = add_clone(
                    x, n, remat_is_none(home) ? REMAT_NONE : rerun_site(x, home, r + 1), 2 * r + 1);
        }
    }
}

/* --- who reads what --- */

/* What stands for a value among its node's clone's outputs. */
static uint32_t output_of(const struct extension *x, uint32_t clone, uint32_t value)
{
    const struct remat_graph *g = x->c->graph;
    return g->nodes[clone].outputs[g->values[value].result].i;
}

static uint32_t in_round(const struct extension *x, uint32_t value, uint32_t round)
{
    return output_of(x, x->rerun_of[round - 1][x->c->graph->values[value].node], value);
}

/* What an input reads. */
struct reading {
    uint32_t root, reads[REMAT_ROUNDS_MAX + 1]; /* as in remat_clone_slot */
    bool varies;                                /* false: reads[0], whatever is decided */
};

/* Of a node of the site. */
static struct reading resolve(struct extension *x, uint32_t site, remat_value v)
{
    const struct remat_graph *g = x->c->graph;
    struct remat_trace trace = remat_settled_trace(x->s, v);
    struct reading out = {.root = trace.root, .reads = {v.i}};
    uint32_t node = g->values[v.i].node, kernel = kernel_of_site(x, site);
    uint32_t round = round_of_site(x, site), last = round ? round : x->c->rounds;
    if (remat_is_none(trace.root) || x->s->standing[trace.root] == REMAT_STANDING_FIXED)
        return out;
    bool cast_later = trace.cast && !remat_is_early(g->nodes[node].phase) &&
                      !remat_op_has(g->nodes[node].op, REMAT_FACT_VIEW);
    uint32_t writer = g->nodes[g->values[trace.root].node].kernel;
    bool internal = !remat_is_candidate(x->s, trace.root);
    bool own = kernel == writer ? x->s->inlined_by_all[trace.root]
                                : remat_settled_inlines(x->s, kernel, trace.root);
    if (internal || own) {
        out.reads[internal ? 0 : 1] = out.reads[2] = output_of(x, own_clone(x, site, node), v.i);
        out.varies = !internal;
    } else if (!cast_later) {
        out.varies = true;
        out.reads[1] = in_round(x, v.i, 1);
        out.reads[2] = in_round(x, v.i, last);
    }
    return out;
}

/* Of a view or a cast of a round: its own round's clone. Of a later cast: the last round's. */
static struct reading resolve_alone(struct extension *x, uint32_t n, remat_value v)
{
    const struct remat_node_info *node = &x->c->graph->nodes[n];
    struct reading out = {.root = remat_settled_trace(x->s, v).root, .reads = {v.i}};
    if (remat_is_none(out.root) || !remat_is_candidate(x->s, out.root))
        return out;
    if (node->instance) {
        out.reads[0] = in_round(x, v.i, remat_clone_round(node->instance));
    } else if (!remat_op_has(node->op, REMAT_FACT_VIEW)) {
        out.varies = true;
        out.reads[1] = in_round(x, v.i, 1);
        out.reads[2] = in_round(x, v.i, x->c->rounds);
    }
    return out;
}

/* Of the input of a column index only the shape counts: the value of the forward pass that the
 * backward pass casts has it too, and is there whatever is decided. */
static remat_value shape_source(const struct remat_graph *g, remat_value like)
{
    uint32_t node = g->values[like.i].node;
    if (remat_is_none(node) || remat_is_early(g->nodes[node].phase) ||
        g->nodes[node].op != REMAT_OP_cast)
        return like;
    return shape_source(g, g->nodes[node].inputs[0]);
}

static void add_slots(struct extension *x, uint32_t n)
{
    struct remat_graph *g = x->c->graph;
    uint32_t site = x->site.items[n], count = remat_op_reads(&g->nodes[n]);
    bool absorbed = remat_is_none(g->nodes[n].kernel), own = absorbed && !remat_is_none(site);
    REMAT_PUSH(x->arena, &x->first_slot, (uint32_t)x->slots.count);
    if (remat_is_early(g->nodes[n].phase) || (own && !g->nodes[n].instance))
        return;
    remat_value *inputs =
        remat_copy(x->arena, g->nodes[n].inputs, g->nodes[n].input_count, sizeof *inputs);
    g->nodes[n].inputs = inputs;
    if (g->nodes[n].op == REMAT_OP_column)
        inputs[0] = shape_source(g, inputs[0]);
    for (uint32_t i = 0; i < count; i++) {
        struct reading r;
        if (own) { /* of what its site makes for itself */
            uint32_t clone = own_clone(x, site, g->values[inputs[i].i].node);
            r = (struct reading){.reads = {output_of(x, clone, inputs[i].i)}};
        } else {
            r = absorbed ? resolve_alone(x, n, inputs[i]) : resolve(x, site, inputs[i]);
        }
        if (r.varies)
            REMAT_PUSH(x->arena, &x->slots,
                       ((struct remat_clone_slot){
                           &inputs[i], r.root, {r.reads[0], r.reads[1], r.reads[2]}, {0}}));
        else
            inputs[i].i = r.reads[0];
    }
}

/* --- the tail --- */

/* Whether tail nodes may read it: what is given, or a gradient, which is stored whoever reads it
 * unless it is a constant. */
static bool is_settled(const struct extension *x, remat_value v)
{
    const struct remat_graph *g = x->s->graph;
    uint32_t root = remat_storage_root(g, v).i, node = g->values[root].node;
    if (remat_is_none(node))
        return true;
    uint16_t op = g->nodes[node].op;
    return g->values[v.i].role == REMAT_ROLE_GRADIENT && !remat_is_early(g->nodes[node].phase) &&
           !remat_is_widening(g, v) && op != REMAT_OP_constant && op != REMAT_OP_column;
}

static uint32_t find_tail(const struct extension *x)
{
    const struct remat_graph *g = x->s->graph;
    uint32_t tail = g->node_count, first = 0;
    while (tail > 0 && g->nodes[tail - 1].phase == REMAT_PHASE_OPTIMIZER)
        tail--;
    while (first < tail && g->nodes[first].phase != REMAT_PHASE_OPTIMIZER)
        first++;
    for (uint32_t n = tail; n < g->node_count; n++)
        for (uint32_t i = 0; i < g->nodes[n].input_count; i++) {
            remat_value v = g->nodes[n].inputs[i];
            uint32_t node = g->values[v.i].node;
            if ((remat_is_none(node) || node < tail) && !is_settled(x, v))
                return g->node_count;
        }
    return first < tail ? g->node_count : tail;
}

static uint32_t find_tail_kernel(const struct extension *x)
{
    uint32_t k = kernel_count(x);
    while (k > 0 && x->s->kernels->kernels[k - 1].nodes[0].i >= x->c->tail)
        k--;
    return k;
}

/* --- the whole --- */

static void find_kept(struct extension *x)
{
    const struct remat_graph *g = x->s->graph;
    struct id_list kept = {0};
    bool *seen;
    REMAT_NEW(x->arena, seen, g->value_count);
    for (uint32_t o = 0; o < g->output_count; o++)
        seen[g->outputs[o].i] = true;
    for (uint32_t u = 0; u < g->update_count; u++)
        seen[g->updates[u].value.i] = true;
    for (uint32_t v = 0; v < g->value_count; v++)
        if ((seen[v] || g->values[v].role == REMAT_ROLE_GRADIENT) &&
            !remat_is_none(g->values[v].node))
            REMAT_PUSH(x->arena, &kept, g->values[v].node);
    x->c->kept = kept.items;
    x->c->kept_count = (uint32_t)kept.count;
}

/* Who makes what each node reads. */
static void list_makers(struct extension *x)
{
    struct remat_clones *c = x->c;
    const struct remat_graph *g = c->graph;
    struct id_list makers = {0};
    REMAT_NEW(x->arena, c->first_maker, g->node_count + 1);
    for (uint32_t n = 0; n < g->node_count; n++) {
        uint32_t slot = c->first_slot[n];
        c->first_maker[n] = (uint32_t)makers.count;
        for (uint32_t i = 0; i < g->nodes[n].input_count; i++) {
            const remat_value *input = &g->nodes[n].inputs[i];
            if (slot < c->first_slot[n + 1] && c->slots[slot].input == input)
                slot++;
            else if (!remat_is_none(g->values[input->i].node))
                REMAT_PUSH(x->arena, &makers, g->values[input->i].node);
        }
    }
    c->first_maker[g->node_count] = (uint32_t)makers.count;
    c->makers = makers.items;
    for (uint32_t s = 0; s < c->slot_count; s++)
        for (uint32_t t = 0; t <= REMAT_ROUNDS_MAX; t++)
            c->slots[s].makers[t] = g->values[c->slots[s].reads[t]].node;
}

struct site_node {
    uint32_t site, original, node;
};

static int compare_nodes(const void *a, const void *b)
{
    const struct site_node *x = a, *y = b;
    if (x->site != y->site)
        return x->site < y->site ? -1 : 1;
    if (x->original != y->original)
        return x->original < y->original ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static void list_sites(struct extension *x)
{
    struct remat_clones *c = x->c;
    struct site_node *list;
    uint32_t count = 0;
    REMAT_NEW(x->arena, list, c->graph->node_count);
    for (uint32_t n = 0; n < c->graph->node_count; n++)
        if (!remat_is_none(c->site[n]))
            list[count++] = (struct site_node){c->site[n], x->original.items[n], n};
    if (count)
        qsort(list, count, sizeof *list, compare_nodes);
    REMAT_NEW(x->arena, c->site_begin, c->site_count + 1);
    REMAT_NEW(x->arena, c->site_nodes, count);
    for (uint32_t i = 0; i < count; i++) {
        c->site_nodes[i] = list[i].node;
        c->site_begin[list[i].site + 1]++;
    }
    for (uint32_t s = 0; s < c->site_count; s++)
        c->site_begin[s + 1] += c->site_begin[s];
}

void remat_clones_create(struct remat_arena *arena, const struct remat_settled *settled,
                         uint32_t rounds, struct remat_clones *out)
{
    struct extension x = {.arena = arena, .c = out, .s = settled};
    const struct remat_graph *graph = settled->graph;
    *out = (struct remat_clones){.settled = settled,
                                 .node_count = graph->node_count,
                                 .value_count = graph->value_count,
                                 .rounds = rounds};
    REMAT_NEW(arena, out->graph, 1);
    *out->graph = *graph;
    out->graph->value_capacity = out->graph->node_capacity = 0;
    out->graph->has_kernels = true;
    remat_graph_reserve(arena, out->graph, (2 + rounds) * (size_t)graph->value_count,
                        (2 + rounds) * (size_t)graph->node_count);
    for (uint32_t n = 0; n < graph->node_count; n++)
        out->graph->nodes[n].kernel = settled->kernels->kernel_of_node[n];
    out->site_count = (1 + rounds) * kernel_count(&x);
    REMAT_NEW(arena, x.own, out->site_count);
    add_reruns(&x);
    for (uint32_t n = 0; n < out->graph->node_count; n++) /* which adds clones */
        add_slots(&x, n);
    REMAT_PUSH(arena, &x.first_slot, (uint32_t)x.slots.count);
    out->site = x.site.items;
    out->first_slot = x.first_slot.items;
    out->slots = x.slots.items;
    out->slot_count = (uint32_t)x.slots.count;
    list_makers(&x);
    out->tail = find_tail(&x);
    out->tail_kernel = find_tail_kernel(&x);
    list_sites(&x);
    find_kept(&x);
}

/* --- choosing --- */

struct chooser {
    const struct remat_clones *c;
    const uint8_t *actions;
    uint32_t end;
    uint8_t *needed; /* by node */
    uint8_t *placed; /* by node */
    uint32_t *nodes, *stack;
    uint32_t count;
    struct remat_arena *arena;
    struct {
        struct frame { /* a site, or a node in none */
            uint32_t site, node;
            uint32_t at;    /* of the site's nodes: the one whose inputs are placed */
            uint32_t input; /* the next one: slots, then makers */
        } * items;
        size_t count, capacity;
    } frames;
};

static void push_needed(struct chooser *w, uint32_t *count, uint32_t node)
{
    if (w->needed[node])
        return;
    w->needed[node] = 1;
    w->stack[(*count)++] = node;
}

static uint32_t times_of(const struct chooser *w, const struct remat_clone_slot *slot)
{
    return remat_action_times(w->actions[slot->root]);
}

/* Sets the inputs of all that is needed. */
static void mark_needed(struct chooser *w, uint32_t node)
{
    const struct remat_clones *c = w->c;
    uint32_t count = 0;
    if (node < w->end || node >= c->node_count)
        push_needed(w, &count, node);
    while (count > 0) {
        uint32_t n = w->stack[--count];
        for (uint32_t s = c->first_slot[n]; s < c->first_slot[n + 1]; s++) {
            uint32_t times = times_of(w, &c->slots[s]);
            c->slots[s].input->i = c->slots[s].reads[times];
            push_needed(w, &count, c->slots[s].makers[times]);
        }
        for (uint32_t m = c->first_maker[n]; m < c->first_maker[n + 1]; m++)
            push_needed(w, &count, c->makers[m]);
    }
}

static void place(struct chooser *w, uint32_t node)
{
    w->placed[node] = 1;
    w->nodes[w->count++] = node;
}

static void place_needed(struct chooser *w, uint32_t site)
{
    for (uint32_t i = w->c->site_begin[site]; i < w->c->site_begin[site + 1]; i++)
        if (w->needed[w->c->site_nodes[i]] && !w->placed[w->c->site_nodes[i]])
            place(w, w->c->site_nodes[i]);
}

static void enter(struct chooser *w, uint32_t site, uint32_t node)
{
    struct frame frame = {.site = site, .node = node};
    frame.at = remat_is_none(site) ? 0 : w->c->site_begin[site];
    REMAT_PUSH(w->arena, &w->frames, frame);
}

/* The next node that makes an input of what the frame places, REMAT_NONE: there is no other. */
static uint32_t next_maker(struct chooser *w, struct frame *f)
{
    const struct remat_clones *c = w->c;
    bool alone = remat_is_none(f->site);
    for (uint32_t end = alone ? 1 : c->site_begin[f->site + 1]; f->at < end; f->at++) {
        uint32_t n = alone ? f->node : c->site_nodes[f->at];
        uint32_t slots = c->first_slot[n + 1] - c->first_slot[n], i = f->input++;
        if (alone || w->needed[n]) {
            if (i < slots) {
                const struct remat_clone_slot *slot = &c->slots[c->first_slot[n] + i];
                return slot->makers[times_of(w, slot)];
            }
            if (i - slots < c->first_maker[n + 1] - c->first_maker[n])
                return c->makers[c->first_maker[n] + i - slots];
        }
        f->input = 0;
    }
    return REMAT_NONE;
}

/* A node, or of a site all that is needed, after what it reads. */
static void place_all(struct chooser *w, uint32_t site, uint32_t node)
{
    const struct remat_clones *c = w->c;
    enter(w, site, node);
    while (w->frames.count > 0) {
        struct frame *f = &w->frames.items[w->frames.count - 1];
        uint32_t maker = next_maker(w, f);
        if (!remat_is_none(maker)) {
            if (!w->placed[maker] && (remat_is_none(f->site) || c->site[maker] != f->site))
                enter(w, c->site[maker], maker);
            continue;
        }
        if (remat_is_none(f->site))
            place(w, f->node);
        else
            place_needed(w, f->site);
        w->frames.count--;
    }
}

void remat_clones_choose(struct remat_clones *clones, struct remat_arena *arena,
                         const struct remat_decision *decision, uint32_t end, uint32_t *out_count,
                         uint32_t **out_nodes)
{
    const struct remat_graph *g = clones->graph;
    struct chooser w = {.c = clones, .actions = decision->actions, .end = end, .arena = arena};
    REMAT_NEW(arena, w.needed, g->node_count);
    REMAT_NEW(arena, w.placed, g->node_count);
    REMAT_NEW(arena, w.nodes, g->node_count);
    REMAT_NEW(arena, w.stack, g->node_count);
    for (uint32_t k = 0; k < clones->kept_count; k++)
        mark_needed(&w, clones->kept[k]);
    for (uint32_t k = 0;
         k < (end == clones->node_count ? clones->settled->kernels->count : clones->tail_kernel);
         k++)
        place_all(&w, k, REMAT_NONE);
    for (uint32_t k = 0; k < clones->kept_count; k++)
        if (w.needed[clones->kept[k]] && !w.placed[clones->kept[k]])
            place_all(&w, clones->site[clones->kept[k]], clones->kept[k]);
    *out_nodes = w.nodes;
    *out_count = w.count;
}

struct remat_graph *remat_rewrite(struct remat_arena *arena, struct remat_clones *clones,
                                  const struct remat_decision *decision)
{
    uint32_t count, *nodes;
    remat_clones_choose(clones, arena, decision, clones->node_count, &count, &nodes);
    struct remat_rebuild r = remat_rebuild_begin(arena, clones->graph);
    for (uint32_t k = 0; k < count; k++)
        remat_rebuild_copy(&r, nodes[k]);
    struct remat_graph *out = remat_rebuild_finish(&r);
    out->has_kernels = true;
    return out;
}
