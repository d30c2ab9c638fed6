/* SPDX-License-Identifier: Apache-2.0 */
/* Policy + pins -> decision.
 *
 * A policy divides the forward nodes into units that are replayed on their own: k layers, or one
 * module of one layer. The values of a unit are recomputed, except those that nodes outside it
 * read. */

#include "analysis.h"
#include "keep.h"
#include "module.h"
#include "ops.h"
#include "policy.h"
#include "rules.h"

#include <assert.h>

REMAT_INDEX(unit_id);

struct remat_policy_facts {
    const struct remat_graph *graph;
    struct remat_facts facts;
    const bool *legal[REMAT_ACTION_COUNT]; /* by value: it may be kept so; NULL: none may */
    struct remat_layer_numbers layers;
    uint32_t forward_count;
    const struct remat_node_info **forward; /* of the forward pass and the loss, no views */
    uint32_t gathered_count;
    remat_value *gathered; /* results of collectives in layers: recomputed by every policy */
    uint32_t made_count;
    struct made { /* a value that forward nodes compute */
        remat_value value;
        remat_scope_id scope;
        bool kept; /* saved by every policy: an output, or not recomputable */
    } * made;
    uint32_t edge_count;
    struct scope_edge { /* a forward node reads a root that a node of another scope writes */
        remat_value root;
        remat_scope_id from, to;
        bool input; /* a layer's input from its own stack: Megatron-LM divides no other */
    } * edges;
    uint32_t leaving_count;
    remat_value *leaving; /* values that nodes outside their composite read */
    struct remat_pins pins;
    uint32_t pinned_count;
    remat_value *pinned; /* with a pin, in the graph or from the settings */
};

struct decider {
    const struct remat_policy_facts *shared;
    struct remat_arena *arena;
    const struct remat_graph *graph;
    const struct remat_policy *policy;
    unit_id *unit; /* by scope; none: the policy recomputes nothing there */
    bool *discard; /* by scope: the outputs of the unit are recomputed as well */
    bool *outside; /* by root: read by a forward or loss node of another unit */
};

/* --- units --- */

static void find_units(struct decider *d)
{
    const struct remat_policy *policy = d->policy;
    const struct remat_layer_numbers *layers = &d->shared->layers;
    bool all = policy->stacks == REMAT_STACKS_TOGETHER;
    uint32_t mask = policy->modules ? remat_module_mask(policy->modules) : 0;
    REMAT_NEW(d->arena, d->unit, d->graph->scope_count);
    REMAT_NEW(d->arena, d->discard, d->graph->scope_count);
    for (uint32_t s = 0; s < d->graph->scope_count; s++) {
        const struct remat_scope *scope = &d->graph->scopes[s];
        uint32_t number = all ? layers->number[s] : (uint32_t)scope->layer;
        d->unit[s].i = REMAT_NONE;
        if (scope->layer < 0 || number >= policy->layer_count || !policy->recomputed[number])
            continue;
        unit_id layer = {layers->stack[s].i * policy->layer_count + number / policy->unit_layers};
        if (policy->granularity != REMAT_POLICY_SELECTIVE) {
            d->unit[s] = layer;
            continue;
        }
        uint32_t modules = mask & remat_modules_of(scope);
        if (modules) {
            uint32_t first = (uint32_t)__builtin_ctz(modules);
            d->unit[s].i = layer.i * REMAT_MODULE_COUNT + first;
            d->discard[s] = remat_modules[first].discards_output;
        }
    }
}

static void find_outside(struct decider *d)
{
    REMAT_NEW(d->arena, d->outside, d->graph->value_count);
    for (uint32_t c = 0; c < d->shared->edge_count; c++) {
        const struct scope_edge *edge = &d->shared->edges[c];
        if (d->unit[edge->from.i].i != d->unit[edge->to.i].i)
            d->outside[edge->root.i] = true;
    }
}

/* --- the policy --- */

static void act(struct remat_decision *out, remat_value v, uint8_t action, const char *reason)
{
    out->actions[v.i] = action;
    if (out->reasons)
        out->reasons[v.i] = reason;
}

static void recompute_units(struct decider *d, struct remat_decision *out)
{
    for (uint32_t k = 0; k < d->shared->made_count; k++) {
        const struct made *made = &d->shared->made[k];
        uint32_t v = made->value.i, s = made->scope.i;
        if (remat_is_none(d->unit[s].i))
            continue;
        bool kept = made->kept || (d->outside[v] && !d->discard[s]);
        act(out, made->value, kept ? REMAT_ACTION_SAVE : REMAT_ACTION_RECOMPUTE, "policy");
    }
}

/* --- inputs of units, kept by kernels --- */

/* Each input that only one unit reads. */
static void keep_inputs(struct decider *d, struct remat_decision *out)
{
    const struct remat_facts *facts = &d->shared->facts;
    const bool *may = d->shared->legal[d->policy->inputs];
    struct readers {  /* of a value: units other than its own */
        bool any;     /* there is one */
        unit_id only; /* none: no unit, or several */
    } * readers;
    REMAT_NEW(d->arena, readers, d->graph->value_count);
    for (uint32_t c = 0; c < d->shared->edge_count; c++) {
        const struct scope_edge *edge = &d->shared->edges[c];
        unit_id from = d->unit[edge->from.i], to = d->unit[edge->to.i];
        if (edge->input && from.i == to.i)
            continue;
        struct readers *r = &readers[edge->root.i];
        bool same = edge->input && (!r->any || r->only.i == to.i);
        r->only.i = same ? to.i : REMAT_NONE;
        r->any = true;
    }
    for (uint32_t c = 0; c < d->shared->edge_count; c++) {
        remat_value v = d->shared->edges[c].root;
        const struct remat_node_info *node = remat_producer_info(d->graph, v);
        bool one = readers[v.i].any && !remat_is_none(readers[v.i].only.i);
        if (!one || out->actions[v.i] != REMAT_ACTION_SAVE || facts->output[v.i])
            continue;
        bool gathered = node->op == REMAT_OP_gather && facts->recomputable[v.i];
        if (gathered) /* from its part */
            out->actions[facts->root[node->inputs[0].i].i] = REMAT_ACTION_SAVE;
        else if (!may || !may[v.i] || !facts->recomputable[v.i])
            continue;
        act(out, v, gathered ? REMAT_ACTION_RECOMPUTE : d->policy->inputs, "policy");
    }
}

/* --- OPS: the outputs of some ops stay saved --- */

static bool is_matmul(uint16_t op)
{
    return op == REMAT_OP_matmul || op == REMAT_OP_linear;
}

static void mark_listed_ops(const char *list, bool saved[REMAT_OP_COUNT])
{
    struct remat_word word;
    uint16_t op;
    memset(saved, 0, REMAT_OP_COUNT * sizeof *saved);
    for (op = 0; !list && op < REMAT_OP_COUNT; op++)
        saved[op] = remat_op_has(op, REMAT_FACT_COMPUTE_HEAVY);
    while (remat_list_next(&list, &word))
        if (remat_op_find(word.text, (size_t)word.length, &op))
            saved[op] = true;
}

/* A number common to the nodes of one composite; their own id where the graph says nothing usable.
 */
static uint32_t instance_of(const struct remat_graph *graph, const struct remat_node_info *node)
{
    return node->origin_group < graph->node_count ? node->origin_group
                                                  : (uint32_t)(node - graph->nodes);
}

/* By instance: its outputs are saved. By default every second matmul of a layer is not. */
static void find_saved_instances(struct decider *d, bool *saved_instance)
{
    bool saved_op[REMAT_OP_COUNT], *seen;
    uint32_t *matmuls;
    REMAT_NEW(d->arena, seen, d->graph->node_count);
    REMAT_NEW(d->arena, matmuls, (size_t)d->shared->layers.stack_count * d->policy->layer_count);
    mark_listed_ops(d->policy->save_ops, saved_op);
    for (uint32_t k = 0; k < d->shared->forward_count; k++) {
        const struct remat_node_info *node = d->shared->forward[k];
        unit_id layer = d->unit[node->scope.i];
        uint32_t instance = instance_of(d->graph, node);
        if (node->phase != REMAT_PHASE_FORWARD || remat_is_none(layer.i) || seen[instance])
            continue;
        seen[instance] = true;
        bool second = is_matmul(node->origin) && ++matmuls[layer.i] % 2 == 0;
        saved_instance[instance] = saved_op[node->origin] && (d->policy->save_ops || !second);
    }
}

static void save_op_outputs(struct decider *d, struct remat_decision *out)
{
    const struct remat_policy_facts *shared = d->shared;
    bool *saved_instance;
    REMAT_NEW(d->arena, saved_instance, d->graph->node_count);
    find_saved_instances(d, saved_instance);
    for (uint32_t k = 0; k < shared->leaving_count; k++) {
        remat_value v = shared->leaving[k];
        if (saved_instance[instance_of(d->graph, remat_producer_info(d->graph, v))])
            out->actions[v.i] = REMAT_ACTION_SAVE;
    }
}

/* --- parameters in parts: every policy that recomputes gathers those of layers again --- */

static void regather(struct decider *d, struct remat_decision *out)
{
    for (uint32_t k = 0; k < d->shared->gathered_count; k++)
        act(out, d->shared->gathered[k], REMAT_ACTION_RECOMPUTE, "policy");
}

/* --- pins --- */

static void apply_pin(struct decider *d, const struct remat_pin_match *match, remat_value v,
                      uint8_t action, struct remat_decision *out)
{
    const char *reason = "pin in the graph";
    if (match && out->reasons)
        reason = REMAT_FORMAT(d->arena, "pin %s %s", match->setting, match->glob);
    act(out, v, action, reason);
}

/* Those in the graph first: the command line overrides them. */
static void apply_pins(struct decider *d, struct remat_decision *out)
{
    const struct remat_pins *pins = &d->shared->pins;
    for (uint32_t k = 0; k < d->shared->pinned_count; k++) {
        remat_value v = d->shared->pinned[k], root = d->shared->facts.root[v.i];
        uint8_t pin = d->graph->values[v.i].pin;
        if (pin == REMAT_PIN_SAVE && d->shared->facts.forward[root.i])
            apply_pin(d, NULL, root, REMAT_ACTION_SAVE, out);
        else if (pin == REMAT_PIN_RECOMPUTE && d->shared->facts.recomputable[root.i])
            apply_pin(d, NULL, root, REMAT_ACTION_RECOMPUTE, out);
    }
    for (uint32_t k = 0; k < d->shared->pinned_count; k++) {
        remat_value v = d->shared->pinned[k];
        if (pins->save[v.i])
            apply_pin(d, pins->save[v.i], v, REMAT_ACTION_SAVE, out);
        if (pins->recompute[v.i])
            apply_pin(d, pins->recompute[v.i], v, REMAT_ACTION_RECOMPUTE, out);
    }
}

/* --- what the report should say --- */

struct savings {
    uint64_t saved;   /* bytes of the module that the backward pass reads and that are recomputed */
    uint64_t forward; /* bytes of all forward values in layers that the backward pass reads */
    bool fused;       /* a fused attention computes the module */
};

static struct savings measure_core_attn(const struct decider *d,
                                        const struct remat_decision *decision)
{
    struct savings s = {0};
    for (remat_value v = {0}; v.i < d->graph->value_count; v.i++) {
        if (!d->shared->facts.forward[v.i] || !d->shared->facts.needed[v.i])
            continue;
        const struct remat_node_info *node = remat_producer_info(d->graph, v);
        const struct remat_scope *scope = &d->graph->scopes[node->scope.i];
        uint64_t bytes = remat_value_bytes(&d->graph->values[v.i]);
        if (scope->layer < 0)
            continue;
        s.forward += bytes;
        if (!(remat_modules_of(scope) >> REMAT_MODULE_CORE_ATTN & 1))
            continue;
        s.fused |= node->op == REMAT_OP_attention;
        if (decision->actions[v.i] == REMAT_ACTION_RECOMPUTE)
            s.saved += bytes;
    }
    return s;
}

static void note_fused_attention(struct decider *d, const struct remat_decision *decision,
                                 struct remat_notes *notes)
{
    if (d->policy->granularity != REMAT_POLICY_SELECTIVE ||
        !(remat_module_mask(d->policy->modules) >> REMAT_MODULE_CORE_ATTN & 1))
        return;
    struct savings s = measure_core_attn(d, decision);
    if (!s.fused || s.saved > s.forward / 50)
        return;
    const char *note = REMAT_FORMAT(
        d->arena,
        "selective core_attn saves %llu B of %llu B of activations in layers: attention is fused, "
        "its "
        "scores are never stored, and its context stays saved for the projection that reads it",
        (unsigned long long)s.saved, (unsigned long long)s.forward);
    REMAT_PUSH(d->arena, notes, note);
}

/* --- facts that all policies share --- */

static void find_pinned(struct remat_arena *arena, struct remat_policy_facts *shared)
{
    const struct remat_graph *graph = shared->graph;
    REMAT_NEW(arena, shared->pinned, graph->value_count);
    for (remat_value v = {0}; v.i < graph->value_count; v.i++)
        if (graph->values[v.i].pin != REMAT_PIN_NONE || shared->pins.save[v.i] ||
            shared->pins.recompute[v.i])
            shared->pinned[shared->pinned_count++] = v;
}

static void find_forward(struct remat_arena *arena, struct remat_policy_facts *shared)
{
    const struct remat_graph *graph = shared->graph;
    const struct remat_facts *facts = &shared->facts;
    REMAT_NEW(arena, shared->forward, graph->node_count);
    REMAT_NEW(arena, shared->made, graph->value_count);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[n];
        if (!remat_in_forward_pass(node->phase) || remat_op_has(node->op, REMAT_FACT_VIEW))
            continue;
        shared->forward[shared->forward_count++] = node;
        for (uint32_t o = 0; o < node->output_count; o++) {
            remat_value v = node->outputs[o];
            bool kept = facts->output[v.i] || !facts->recomputable[v.i];
            if (facts->forward[v.i])
                shared->made[shared->made_count++] = (struct made){v, node->scope, kept};
        }
    }
}

static void find_gathered(struct remat_arena *arena, struct remat_policy_facts *shared)
{
    const struct remat_facts *facts = &shared->facts;
    REMAT_NEW(arena, shared->gathered, shared->forward_count);
    for (uint32_t k = 0; k < shared->forward_count; k++) {
        const struct remat_node_info *node = shared->forward[k];
        remat_value v = node->outputs[0];
        if (remat_op_has(node->op, REMAT_FACT_COLLECTIVE) && facts->recomputable[v.i] &&
            !facts->output[v.i] && shared->graph->scopes[node->scope.i].layer >= 0)
            shared->gathered[shared->gathered_count++] = v;
    }
}

/* By value: depends on a parameter, so it is no mask and no table of positions. */
static bool *find_hidden(struct remat_arena *arena, const struct remat_graph *graph)
{
    bool *out;
    REMAT_NEW(arena, out, graph->value_count);
    for (uint32_t v = 0; v < graph->value_count; v++)
        out[v] = graph->values[v].role == REMAT_ROLE_PARAMETER;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        bool any = false;
        for (uint32_t i = 0; i < graph->nodes[n].input_count; i++)
            any |= out[graph->nodes[n].inputs[i].i];
        for (uint32_t o = 0; o < graph->nodes[n].output_count; o++)
            out[graph->nodes[n].outputs[o].i] = any;
    }
    return out;
}

static void find_crossings(struct remat_arena *arena, struct remat_policy_facts *shared)
{
    const struct remat_graph *graph = shared->graph;
    struct REMAT_LIST(struct scope_edge) list = {0};
    const bool *hidden = find_hidden(arena, graph);
    for (uint32_t k = 0; k < shared->forward_count; k++) {
        const struct remat_node_info *node = shared->forward[k];
        for (uint32_t i = 0; i < node->input_count; i++) {
            remat_value root = shared->facts.root[node->inputs[i].i];
            const struct remat_node_info *source = remat_producer_info(graph, root);
            if (!source || source->scope.i == node->scope.i)
                continue;
            remat_scope_id from = source->scope, to = node->scope;
            bool one_stack = graph->scopes[from.i].layer < 0 ||
                             shared->layers.stack[from.i].i == shared->layers.stack[to.i].i;
            REMAT_PUSH(arena, &list,
                       ((struct scope_edge){root, from, to, hidden[root.i] && one_stack}));
        }
    }
    shared->edges = list.items;
    shared->edge_count = (uint32_t)list.count;
}

static void find_leaving(struct remat_arena *arena, struct remat_policy_facts *shared)
{
    const struct remat_graph *graph = shared->graph;
    bool *leaves;
    REMAT_NEW(arena, leaves, graph->value_count);
    REMAT_NEW(arena, shared->leaving, graph->value_count);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[n];
        if (remat_op_has(node->op, REMAT_FACT_VIEW))
            continue;
        for (uint32_t i = 0; i < node->input_count; i++) {
            remat_value root = shared->facts.root[node->inputs[i].i];
            if (!shared->facts.forward[root.i] || leaves[root.i] ||
                instance_of(graph, remat_producer_info(graph, root)) == instance_of(graph, node))
                continue;
            leaves[root.i] = true;
            shared->leaving[shared->leaving_count++] = root;
        }
    }
}

remat_status remat_policy_prepare(remat_context *ctx, struct remat_arena *arena,
                                  const struct remat_graph *graph,
                                  const struct remat_policy_settings *pins,
                                  struct remat_policy_facts **out)
{
    struct remat_policy_facts *shared;
    REMAT_NEW(arena, shared, 1);
    shared->graph = graph;
    remat_facts_create(arena, graph, &shared->facts);
    remat_keep_find_legal(arena, graph, shared->legal);
    remat_pins_match(arena, graph, &shared->facts, pins, &shared->pins);
    struct remat_rule_case c = {
        .arena = arena, .settings = pins, .graph = graph, .pins = &shared->pins};
    REMAT_CHECK(remat_rules_check(ctx, &c, REMAT_STAGE_PINS));
    remat_layers_number(arena, graph, &shared->layers);
    find_forward(arena, shared);
    find_gathered(arena, shared);
    find_crossings(arena, shared);
    find_leaving(arena, shared);
    find_pinned(arena, shared);
    *out = shared;
    return REMAT_OK;
}

bool remat_decision_has_pins(const struct remat_decision *decision)
{
    for (uint32_t v = 0; decision && v < decision->value_count; v++)
        if (decision->reasons[v] && strncmp(decision->reasons[v], "pin ", 4) == 0)
            return true;
    return false;
}

const struct remat_decision *remat_policy_pinned(const struct remat_policy_facts *shared,
                                                 struct remat_arena *arena)
{
    struct decider d = {.shared = shared, .arena = arena, .graph = shared->graph};
    struct remat_decision *out;
    REMAT_NEW(arena, out, 1);
    remat_decision_create(arena, shared->graph->value_count, out);
    apply_pins(&d, out);
    return out;
}

void remat_policy_decide(const struct remat_policy_facts *shared, struct remat_arena *arena,
                         const struct remat_policy *policy, struct remat_decision *out,
                         struct remat_notes *notes)
{
    assert(policy->name && shared->graph);
    struct decider d = {.shared = shared, .arena = arena, .graph = shared->graph, .policy = policy};
    *out = (struct remat_decision){.value_count = d.graph->value_count};
    REMAT_NEW(arena, out->actions, out->value_count);
    if (notes)
        REMAT_NEW(arena, out->reasons, out->value_count);
    if (policy->granularity != REMAT_POLICY_NONE) {
        find_units(&d);
        find_outside(&d);
        recompute_units(&d, out);
    }
    if (policy->granularity == REMAT_POLICY_OPS)
        save_op_outputs(&d, out);
    if (policy->inputs != REMAT_ACTION_SAVE)
        keep_inputs(&d, out);
    if (policy->granularity != REMAT_POLICY_NONE)
        regather(&d, out);
    apply_pins(&d, out);
    if (notes)
        note_fused_attention(&d, out, notes);
}
