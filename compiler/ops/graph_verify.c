/* SPDX-License-Identifier: Apache-2.0 */
/* The semantic check of a whole graph, in one pass over the nodes. Besides structure and inference
 * it follows versions: once a node has updated a value in place, nobody may read the old one.
 * Nobody else may read a value that a node accumulates onto, as kernels and recomputation know no
 * order between the two. A flag has no versions, so nobody may read it but those that set it. */

#include "constant.h"
#include "family.h"
#include "index.h"
#include "kernel.h"
#include "range.h"

#include <math.h>

struct verifier {
    remat_context *ctx;
    const struct remat_graph *graph;
    struct remat_arena *scratch;
    remat_node *producer;              /* of each value: the node seen so far that computes it */
    remat_node *superseded;            /* of each storage root: the node that updated it in place */
    remat_node *reader;                /* of each storage root: the last node that read it so far */
    uint8_t *uses;                     /* of each storage root: READ, FLAGGED */
    struct remat_value_info *inferred; /* of the node in hand: its outputs */
    bool foreign;                      /* the graph has foreign nodes */
};
enum { READ = 1, FLAGGED = 2 };

static const char *node_name(const struct verifier *v, remat_node n)
{
    const struct remat_node_info *node = &v->graph->nodes[n.i];
    if (node->output_count == 0 || node->outputs[0].i >= v->graph->value_count)
        return "";
    return v->graph->values[node->outputs[0].i].name;
}

/* The message so far, with the node before it. */
static remat_status locate(struct verifier *v, remat_node n)
{
    const struct remat_node_info *node = &v->graph->nodes[n.i];
    const char *op = node->op < REMAT_OP_COUNT ? remat_op_info(node->op)->name : "?";
    return INVALID(v->ctx, "node \"%.200s\" (%s): %.700s", node_name(v, n), op, v->ctx->message);
}

/* --- values --- */

/* NULL: none. */
static const char *find_padding_fault(const struct remat_value_info *value)
{
    const struct remat_shape *whole = value->part ? &value->part->whole : &value->shape;
    if (value->role != REMAT_ROLE_PARAMETER && value->role != REMAT_ROLE_OPTIMIZER_STATE)
        return "unpadded rows, but no parameter or state";
    if (value->unpadded_rows < 1 || whole->rank == 0 || value->unpadded_rows >= whole->dims[0])
        return "unpadded rows must be fewer than axis 0 has, and at least 1";
    if (value->initializer == REMAT_INIT_CONSTANT && value->init_mean != 0)
        return "unpadded rows, but a constant that is not 0";
    return NULL;
}

/* NULL: none. */
static const char *find_layout_fault(const struct remat_value_info *value)
{
    const struct remat_stated *stated = value->stated;
    if (!stated)
        return NULL;
    if (!stated->axis)
        return "a layout without an axis";
    if (strcmp(stated->axis, "tp") != 0)
        return "a layout along an unknown axis (accepted: tp)";
    if (stated->blocks < 0)
        return "the blocks of its layout are out of range";
    if (stated->blocks == 0 && stated->dimension)
        return "a whole layout that has a dimension";
    if (stated->blocks && stated->dimension >= value->shape.rank)
        return "its layout splits a dimension that it does not have";
    return NULL;
}

static remat_status check_value(struct verifier *v, remat_value x)
{
    const struct remat_value_info *value = &v->graph->values[x.i];
    const char *fault = NULL;
    if (!value->name || !*value->name)
        return INVALID(v->ctx, "value %u has no name", x.i);
    if (!remat_dtype_name(value->dtype))
        fault = "unknown type";
    else if (value->role >= REMAT_ROLE_COUNT)
        fault = "unknown role";
    else if (value->pin > REMAT_PIN_RECOMPUTE)
        fault = "unknown pin";
    else if (value->initializer > REMAT_INIT_NORMAL)
        fault = "unknown initializer";
    else if (value->shape.rank > REMAT_RANK_MAX)
        fault = "too many axes";
    else if (remat_dtype_row(value->dtype)->is_foreign && !v->foreign)
        fault = "its type is one of foreign nodes, and the graph has none";
    for (uint32_t d = 0; !fault && d < value->shape.rank; d++)
        if (value->shape.dims[d] <= 0)
            fault = "an axis is empty";
    if (!fault && !remat_shape_fits(&value->shape, value->dtype))
        fault = "the shape is too large";
    if (!fault &&
        !(fabs(value->init_mean) <= REMAT_FLOAT_MAX && fabs(value->init_std) <= REMAT_FLOAT_MAX))
        fault = "an initial value is beyond 1e30";
    if (!fault && value->trainable &&
        (value->role != REMAT_ROLE_PARAMETER || !remat_dtype_is_computed(value->dtype)))
        fault = "trainable, but no f32 or bf16 parameter";
    if (!fault && value->unpadded_rows)
        fault = find_padding_fault(value);
    if (!fault && value->no_decay && value->role != REMAT_ROLE_PARAMETER)
        fault = "no_decay, but no parameter";
    if (!fault)
        fault = find_layout_fault(value);
    if (!fault && value->data)
        fault = remat_constant_find_fault(value, remat_value_bytes(value));
    if (fault)
        return INVALID(v->ctx, "value \"%.200s\": %s", value->name, fault);
    return REMAT_OK;
}

static remat_status check_names(struct verifier *v)
{
    const struct remat_value_info *values = v->graph->values;
    struct remat_index names = {0};
    for (remat_value x = {0}, other; x.i < v->graph->value_count; x.i++) {
        if (remat_instance(v->graph, x) > 0)
            continue;
        uint64_t hash = remat_hash_string(values[x.i].name, 0);
        for (size_t at = 0; (other.i = remat_index_find(&names, hash, &at)) != REMAT_NONE;)
            if (strcmp(values[other.i].name, values[x.i].name) == 0)
                return INVALID(v->ctx, "two values are named \"%.200s\"", values[x.i].name);
        remat_index_add(v->scratch, &names, hash, x.i);
    }
    return REMAT_OK;
}

static remat_status check_constants(struct verifier *v)
{
    uint64_t all_bytes = 0;
    for (remat_value x = {0}; x.i < v->graph->value_count; x.i++) {
        const struct remat_value_info *value = &v->graph->values[x.i];
        uint64_t bytes = value->data ? remat_value_bytes(value) : 0;
        all_bytes += bytes;
        if (all_bytes > REMAT_CONSTANTS_BYTES_MAX)
            return INVALID(v->ctx,
                           "value \"%.200s\": %llu bytes of data, %llu with the constants before "
                           "it; accepted: %llu together",
                           value->name, (ull)bytes, (ull)all_bytes, (ull)REMAT_CONSTANTS_BYTES_MAX);
    }
    return REMAT_OK;
}

static remat_status check_optimizer(struct verifier *v)
{
    struct remat_optimizer_fault fault;
    if (!remat_optimizer_find_fault(&v->graph->optimizer, &fault))
        return REMAT_OK;
    return INVALID(v->ctx, "optimizer: %s is %.15g, expected %s", fault.range.key, fault.number,
                   remat_range_text(&fault.range).text);
}

/* --- nodes --- */

static bool is_defined(const struct verifier *v, remat_value x)
{
    return x.i < v->graph->value_count &&
           (remat_is_none(remat_producer(v->graph, x).i) || !remat_is_none(v->producer[x.i].i));
}

static remat_status check_inputs(struct verifier *v, const struct remat_node_info *node)
{
    const struct remat_graph *graph = v->graph;
    for (uint32_t k = 0; k < node->input_count; k++) {
        remat_value x = node->inputs[k];
        if (x.i >= graph->value_count)
            return INVALID(v->ctx, "input %u is no value", k);
        if (!is_defined(v, x))
            return INVALID(v->ctx, "input %u (\"%.200s\") is computed later or not at all", k,
                           graph->values[x.i].name);
        remat_node newer = v->superseded[remat_storage_root(graph, x).i];
        if (!remat_is_none(newer.i))
            return INVALID(v->ctx, "input %u (\"%.200s\") has been updated in place by \"%.200s\"",
                           k, graph->values[x.i].name, node_name(v, newer));
    }
    return REMAT_OK;
}

static remat_status check_flags(struct verifier *v, const struct remat_node_info *node)
{
    const struct remat_graph *graph = v->graph;
    for (uint32_t k = 0; k < remat_op_reads(node); k++) {
        remat_value root = remat_storage_root(graph, node->inputs[k]);
        const struct remat_node_info *producer = remat_producer_info(graph, root);
        bool flag = k == remat_op_flag(node);
        v->uses[root.i] |= flag ? FLAGGED : READ;
        if (flag && producer && !remat_op_has(producer->op, REMAT_FACT_IN_PLACE))
            return INVALID(v->ctx,
                           "input %u (\"%.200s\") is a flag, which is a graph input or an "
                           "update of one",
                           k, graph->values[root.i].name);
        if (v->uses[root.i] == (READ | FLAGGED))
            return INVALID(v->ctx,
                           "input %u (\"%.200s\") is a flag, which is read by nothing but "
                           "what sets it",
                           k, graph->values[root.i].name);
    }
    return REMAT_OK;
}

static remat_status check_outputs(struct verifier *v, remat_node n)
{
    const struct remat_graph *graph = v->graph;
    const struct remat_node_info *node = &graph->nodes[n.i];
    for (uint32_t k = 0; k < node->output_count; k++) {
        remat_value x = node->outputs[k];
        if (x.i >= graph->value_count)
            return INVALID(v->ctx, "output %u is no value", k);
        if (remat_producer(graph, x).i != n.i || graph->values[x.i].result != k ||
            !remat_is_none(v->producer[x.i].i))
            return INVALID(v->ctx, "output %u (\"%.200s\") belongs to another node", k,
                           graph->values[x.i].name);
        v->producer[x.i] = n;
    }
    return REMAT_OK;
}

static remat_status check_inferred(struct verifier *v, const struct remat_node_info *node)
{
    const struct remat_graph *graph = v->graph;
    struct remat_value_info *inferred = v->inferred;
    memset(inferred, 0, node->output_count * sizeof *inferred);
    REMAT_CHECK(remat_op_infer(v->ctx, graph, node, inferred));
    for (uint32_t k = 0; k < node->output_count; k++) {
        const struct remat_value_info *value = &graph->values[node->outputs[k].i];
        if (remat_type_equal(value, &inferred[k]))
            continue;
        return INVALID(v->ctx, "output %u is %s %s, expected %s %s", k,
                       remat_dtype_name(value->dtype), SHAPE_TEXT(&value->shape),
                       remat_dtype_name(inferred[k].dtype), SHAPE_TEXT(&inferred[k].shape));
    }
    return REMAT_OK;
}

/* All elements of the root, in its order. */
static bool is_whole(const struct remat_graph *graph, remat_value x, remat_value root)
{
    const struct remat_value_info *values = graph->values;
    struct remat_view view = remat_view_of(graph, x);
    return x.i == root.i || (remat_shape_elements(&values[x.i].shape) ==
                                 remat_shape_elements(&values[root.i].shape) &&
                             remat_layout_has('d', view.rank, view.shape, view.strides));
}

/* A graph input that is the same after the step. */
static bool is_constant(const struct remat_graph *graph, remat_value root)
{
    for (uint32_t k = 0; k < graph->update_count; k++)
        if (graph->updates[k].state.i == root.i)
            return false;
    return remat_is_none(remat_producer(graph, root).i);
}

static remat_status check_updates(struct verifier *v, remat_node n)
{
    const struct remat_node_info *node = &v->graph->nodes[n.i];
    bool accumulates =
        remat_op_has(node->op, REMAT_FACT_IN_PLACE) && !remat_op_has(node->op, REMAT_FACT_STATEFUL);
    for (uint32_t k = 0; k < node->output_count; k++) {
        const char *name = v->graph->values[node->inputs[k].i].name;
        remat_value root = remat_storage_root(v->graph, node->inputs[k]);
        if (!is_whole(v->graph, node->inputs[k], root))
            return INVALID(v->ctx,
                           "input %u (\"%.200s\") is updated in place, but is a part or a "
                           "transpose of \"%.200s\"",
                           k, name, v->graph->values[root.i].name);
        if (v->graph->values[root.i].data)
            return INVALID(v->ctx, "input %u (\"%.200s\") is updated in place, but is a constant",
                           k, name);
        if (!remat_is_none(v->superseded[root.i].i))
            return INVALID(v->ctx, "input %u is updated twice", k);
        if (accumulates && !remat_is_none(v->reader[root.i].i))
            return INVALID(v->ctx,
                           "input %u (\"%.200s\") is updated in place, but \"%.200s\" reads it "
                           "too",
                           k, name, node_name(v, v->reader[root.i]));
        if (accumulates && is_constant(v->graph, root))
            return INVALID(
                v->ctx,
                "input %u (\"%.200s\") is updated in place, but is a graph input without "
                "an update: add to a computed value",
                k, name);
        v->superseded[root.i] = n;
    }
    return REMAT_OK;
}

/* The passes follow one another. Views, and ops that take a shape alone, read nothing. */
static remat_status check_phases(struct verifier *v, const struct remat_node_info *node)
{
    if (!remat_in_forward_pass(node->phase) || remat_op_has(node->op, REMAT_FACT_VIEW))
        return REMAT_OK;
    for (uint32_t k = 0; k < remat_op_reads(node); k++) {
        remat_value root = remat_storage_root(v->graph, node->inputs[k]);
        const struct remat_node_info *maker = remat_producer_info(v->graph, root);
        if (maker && !remat_in_forward_pass(maker->phase))
            return INVALID(v->ctx, "it is of the forward pass, and input %u (\"%.200s\") is not", k,
                           v->graph->values[node->inputs[k].i].name);
    }
    return REMAT_OK;
}

static remat_status check_node(struct verifier *v, remat_node n)
{
    const struct remat_node_info *node = &v->graph->nodes[n.i];
    if (node->scope.i >= v->graph->scope_count)
        return INVALID(v->ctx, "unknown scope");
    if (node->phase >= REMAT_PHASE_COUNT)
        return INVALID(v->ctx, "unknown phase");
    if (node->op >= REMAT_OP_COUNT || node->origin >= REMAT_OP_COUNT)
        return INVALID(v->ctx, "unknown op");
    if (v->foreign &&
        remat_op_has(node->op, REMAT_FACT_COMPOSITE | REMAT_FACT_IN_PLACE | REMAT_FACT_COLLECTIVE))
        return INVALID(v->ctx, "a composite op, an update or a transfer in a graph with foreign "
                               "nodes");
    REMAT_CHECK(check_inputs(v, node));
    REMAT_CHECK(check_phases(v, node));
    REMAT_CHECK(check_flags(v, node));
    REMAT_CHECK(check_outputs(v, n));
    REMAT_CHECK(check_inferred(v, node));
    bool in_place = remat_op_has(node->op, REMAT_FACT_IN_PLACE);
    for (uint32_t k = in_place ? node->output_count : 0; k < remat_op_reads(node); k++)
        if (!remat_op_has(node->op, REMAT_FACT_VIEW))
            v->reader[remat_storage_root(v->graph, node->inputs[k]).i] = n;
    return in_place ? check_updates(v, n) : REMAT_OK;
}

/* --- graph --- */

static bool is_output(const struct remat_graph *graph, remat_value x)
{
    for (uint32_t k = 0; k < graph->output_count; k++)
        if (graph->outputs[k].i == x.i)
            return true;
    return false;
}

/* Of what a node computes. The others are roles of graph inputs, and of their new versions. */
static remat_status check_role(struct verifier *v, remat_value x)
{
    const struct remat_value_info *value = &v->graph->values[x.i];
    remat_value state = remat_state_of(v->graph, x);
    if (value->role == REMAT_ROLE_ACTIVATION || value->role == REMAT_ROLE_GRADIENT ||
        (state.i != x.i && value->role == v->graph->values[state.i].role))
        return REMAT_OK;
    if (value->role != REMAT_ROLE_OUTPUT)
        return INVALID(v->ctx,
                       "value \"%.200s\": a node computes it, and its role is one of graph inputs "
                       "(accepted: activation, gradient, output)",
                       value->name);
    if (!is_output(v->graph, x))
        return INVALID(v->ctx, "value \"%.200s\": its role is output, but it is no graph output",
                       value->name);
    return REMAT_OK;
}

static remat_status check_results(struct verifier *v)
{
    const struct remat_graph *graph = v->graph;
    for (remat_value x = {0}; x.i < graph->value_count; x.i++)
        if (!is_defined(v, x))
            return INVALID(v->ctx, "value \"%.200s\" names a producer that does not compute it",
                           graph->values[x.i].name);
    for (uint32_t k = 0; k < graph->output_count; k++)
        if (!is_defined(v, graph->outputs[k]))
            return INVALID(v->ctx, "graph output %u is no value", k);
    for (remat_value x = {0}; x.i < graph->value_count; x.i++)
        if (!remat_is_none(remat_producer(graph, x).i))
            REMAT_CHECK(check_role(v, x));
    for (uint32_t k = 0; k < graph->update_count; k++) {
        struct remat_update update = graph->updates[k];
        if (!is_defined(v, update.state) || !is_defined(v, update.value))
            return INVALID(v->ctx, "update %u names no value", k);
        const struct remat_value_info *state = &graph->values[update.state.i];
        const struct remat_value_info *value = &graph->values[update.value.i];
        if (!remat_is_none(state->node.i) || remat_is_none(value->node.i) ||
            !remat_type_equal(state, value))
            return INVALID(v->ctx,
                           "update of \"%.200s\" by \"%.200s\": expected a graph input and a "
                           "computed value of the same type and shape",
                           state->name, value->name);
        if (remat_state_of(graph, update.value).i != update.state.i ||
            !remat_is_none(v->superseded[update.value.i].i))
            return INVALID(v->ctx,
                           "update of \"%.200s\" by \"%.200s\": expected its newest version, which "
                           "an op in place, such as assign, makes of it",
                           state->name, value->name);
    }
    return REMAT_OK;
}

static remat_status verify(struct verifier *v)
{
    const struct remat_graph *graph = v->graph;
    uint32_t most_outputs = 0;
    if (graph->symbol_count)
        return INVALID(v->ctx, "the symbol \"%s\" is not bound", graph->symbols[0].name);
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].output_count > most_outputs)
            most_outputs = graph->nodes[n].output_count;
    v->foreign = !remat_is_none(remat_find_foreign(graph).i);
    REMAT_NEW(v->scratch, v->inferred, most_outputs);
    REMAT_NEW_UNINITIALIZED(v->scratch, v->producer, graph->value_count);
    REMAT_NEW_UNINITIALIZED(v->scratch, v->superseded, graph->value_count);
    REMAT_NEW_UNINITIALIZED(v->scratch, v->reader, graph->value_count);
    REMAT_NEW(v->scratch, v->uses, graph->value_count);
    for (remat_value x = {0}; x.i < graph->value_count; x.i++) {
        remat_node producer = remat_producer(graph, x);
        v->producer[x.i] = v->superseded[x.i] = v->reader[x.i] = REMAT_NO_NODE;
        REMAT_CHECK(check_value(v, x));
        if (!remat_is_none(producer.i) && producer.i >= graph->node_count)
            return INVALID(v->ctx, "value \"%.200s\" names no node", graph->values[x.i].name);
    }
    REMAT_CHECK(check_names(v));
    REMAT_CHECK(check_constants(v));
    REMAT_CHECK(check_optimizer(v));
    for (remat_node n = {0}; n.i < graph->node_count; n.i++)
        if (check_node(v, n) != REMAT_OK)
            return locate(v, n);
    return check_results(v);
}

remat_status remat_graph_verify(remat_context *ctx, const struct remat_graph *graph)
{
    struct verifier v = {.ctx = ctx, .graph = graph};
    v.scratch = remat_scratch_open(ctx);
    remat_status st = verify(&v);
    remat_scratch_close(v.scratch);
    return st;
}
