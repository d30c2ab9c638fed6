/* SPDX-License-Identifier: Apache-2.0 */
/* The semantic check of a whole graph, in one pass over the nodes. Besides structure and inference
 * it follows versions: once a node has updated a value in place, nobody may read the old one. A
 * flag has no versions, so nobody may read it but those that set it. */
#include "graph_verify.h"

#include "family.h"
#include "index.h"
#include "optimizer.h"

#include <math.h>

struct verifier {
    remat_context *ctx;
    const struct remat_graph *graph;
    struct remat_arena *scratch;
    uint32_t *producer;   /* of each value: the node seen so far that computes it */
    uint32_t *superseded; /* of each storage root: the node that updated it in place */
    uint8_t *uses;        /* of each storage root: READ, FLAGGED */
};
enum { READ = 1, FLAGGED = 2 };

static const char *node_name(const struct verifier *v, uint32_t n)
{
    const struct remat_node_info *node = &v->graph->nodes[n];
    if (node->output_count == 0 || node->outputs[0].i >= v->graph->value_count)
        return "";
    return v->graph->values[node->outputs[0].i].name;
}

/* The message so far, with the node before it. */
static remat_status locate(struct verifier *v, uint32_t n)
{
    const struct remat_node_info *node = &v->graph->nodes[n];
    const char *op = node->op < REMAT_OP_COUNT ? remat_op_info(node->op)->name : "?";
    return INVALID(v->ctx, "node \"%.200s\" (%s): %.700s", node_name(v, n), op, v->ctx->message);
}

/* --- values --- */

static remat_status check_value(struct verifier *v, uint32_t i)
{
    const struct remat_value_info *value = &v->graph->values[i];
    const char *fault = NULL;
    if (!value->name || !*value->name)
        return INVALID(v->ctx, "value %u has no name", i);
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
    for (uint32_t d = 0; !fault && d < value->shape.rank; d++)
        if (value->shape.dims[d] <= 0)
            fault = "an axis is empty";
    if (!fault && !remat_shape_fits(&value->shape, value->dtype))
        fault = "the shape is too large";
    if (!fault &&
        !(fabs(value->init_mean) <= REMAT_FLOAT_MAX && fabs(value->init_std) <= REMAT_FLOAT_MAX))
        fault = "an initial value is beyond 1e30";
    if (!fault && value->trainable &&
        (value->role != REMAT_ROLE_PARAMETER ||
         (value->dtype != REMAT_F32 && value->dtype != REMAT_BF16)))
        fault = "trainable, but no f32 or bf16 parameter";
    if (fault)
        return INVALID(v->ctx, "value \"%.200s\": %s", value->name, fault);
    return REMAT_OK;
}

static bool is_clone(const struct remat_graph *graph, const struct remat_value_info *value)
{
    return value->node != REMAT_NONE && graph->nodes[value->node].instance > 0;
}

static remat_status check_names(struct verifier *v)
{
    const struct remat_value_info *values = v->graph->values;
    struct remat_index names = {0};
    for (uint32_t i = 0, other; i < v->graph->value_count; i++) {
        if (is_clone(v->graph, &values[i]))
            continue;
        uint64_t hash = remat_hash_string(values[i].name, 0);
        for (size_t at = 0; (other = remat_index_find(&names, hash, &at)) != REMAT_NONE;)
            if (strcmp(values[other].name, values[i].name) == 0)
                return INVALID(v->ctx, "two values are named \"%.200s\"", values[i].name);
        remat_index_add(v->scratch, &names, hash, i);
    }
    return REMAT_OK;
}

/* --- nodes --- */

static remat_status check_inputs(struct verifier *v, uint32_t n)
{
    const struct remat_graph *graph = v->graph;
    const struct remat_node_info *node = &graph->nodes[n];
    for (uint32_t k = 0; k < node->input_count; k++) {
        uint32_t i = node->inputs[k].i;
        if (i >= graph->value_count)
            return INVALID(v->ctx, "input %u is no value", k);
        if (graph->values[i].node != REMAT_NONE && v->producer[i] == REMAT_NONE)
            return INVALID(v->ctx, "input %u (\"%.200s\") is computed later or not at all", k,
                           graph->values[i].name);
        uint32_t newer = v->superseded[remat_storage_root(graph, node->inputs[k]).i];
        if (newer != REMAT_NONE)
            return INVALID(v->ctx, "input %u (\"%.200s\") has been updated in place by \"%.200s\"",
                           k, graph->values[i].name, node_name(v, newer));
    }
    return REMAT_OK;
}

static remat_status check_flags(struct verifier *v, uint32_t n)
{
    const struct remat_graph *graph = v->graph;
    const struct remat_node_info *node = &graph->nodes[n];
    for (uint32_t k = 0; k < remat_op_reads(node); k++) {
        uint32_t root = remat_storage_root(graph, node->inputs[k]).i;
        uint32_t producer = graph->values[root].node;
        bool flag = k == remat_op_flag(node);
        v->uses[root] |= flag ? FLAGGED : READ;
        if (flag && !remat_is_none(producer) &&
            !remat_op_has(graph->nodes[producer].op, REMAT_FACT_IN_PLACE))
            return INVALID(v->ctx,
                           "input %u (\"%.200s\") is a flag, which is a graph input or an "
                           "update of one",
                           k, graph->values[root].name);
        if (v->uses[root] == (READ | FLAGGED))
            return INVALID(v->ctx,
                           "input %u (\"%.200s\") is a flag, which is read by nothing but "
                           "what sets it",
                           k, graph->values[root].name);
    }
    return REMAT_OK;
}

static remat_status check_outputs(struct verifier *v, uint32_t n)
{
    const struct remat_graph *graph = v->graph;
    const struct remat_node_info *node = &graph->nodes[n];
    for (uint32_t k = 0; k < node->output_count; k++) {
        uint32_t i = node->outputs[k].i;
        if (i >= graph->value_count)
            return INVALID(v->ctx, "output %u is no value", k);
        if (graph->values[i].node != n || graph->values[i].result != k ||
            v->producer[i] != REMAT_NONE)
            return INVALID(v->ctx, "output %u (\"%.200s\") belongs to another node", k,
                           graph->values[i].name);
        v->producer[i] = n;
    }
    return REMAT_OK;
}

static remat_status check_inferred(struct verifier *v, uint32_t n)
{
    const struct remat_graph *graph = v->graph;
    const struct remat_node_info *node = &graph->nodes[n];
    struct remat_value_info *inferred;
    REMAT_NEW(v->scratch, inferred, node->output_count);
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

static remat_status check_node(struct verifier *v, uint32_t n)
{
    const struct remat_node_info *node = &v->graph->nodes[n];
    if (node->scope >= v->graph->scope_count)
        return INVALID(v->ctx, "unknown scope");
    if (node->phase >= REMAT_PHASE_COUNT)
        return INVALID(v->ctx, "unknown phase");
    if (node->op >= REMAT_OP_COUNT || node->origin >= REMAT_OP_COUNT)
        return INVALID(v->ctx, "unknown op");
    REMAT_CHECK(check_inputs(v, n));
    REMAT_CHECK(check_flags(v, n));
    REMAT_CHECK(check_outputs(v, n));
    REMAT_CHECK(check_inferred(v, n));
    if (remat_op_has(node->op, REMAT_FACT_IN_PLACE))
        for (uint32_t k = 0; k < node->output_count; k++) {
            uint32_t root = remat_storage_root(v->graph, node->inputs[k]).i;
            if (v->superseded[root] != REMAT_NONE)
                return INVALID(v->ctx, "input %u is updated twice", k);
            v->superseded[root] = n;
        }
    return REMAT_OK;
}

/* --- graph --- */

static bool is_defined(const struct verifier *v, remat_value value)
{
    return value.i < v->graph->value_count &&
           (v->graph->values[value.i].node == REMAT_NONE || v->producer[value.i] != REMAT_NONE);
}

static remat_status check_results(struct verifier *v)
{
    const struct remat_graph *graph = v->graph;
    for (uint32_t i = 0; i < graph->value_count; i++)
        if (!is_defined(v, (remat_value){i}))
            return INVALID(v->ctx, "value \"%.200s\" names a producer that does not compute it",
                           graph->values[i].name);
    for (uint32_t k = 0; k < graph->output_count; k++)
        if (!is_defined(v, graph->outputs[k]))
            return INVALID(v->ctx, "graph output %u is no value", k);
    for (uint32_t k = 0; k < graph->update_count; k++) {
        struct remat_update update = graph->updates[k];
        if (!is_defined(v, update.state) || !is_defined(v, update.value))
            return INVALID(v->ctx, "update %u names no value", k);
        const struct remat_value_info *state = &graph->values[update.state.i];
        const struct remat_value_info *value = &graph->values[update.value.i];
        if (state->node != REMAT_NONE || value->node == REMAT_NONE ||
            !remat_type_equal(state, value))
            return INVALID(v->ctx,
                           "update of \"%.200s\" by \"%.200s\": expected a graph input and a "
                           "computed value of the same type and shape",
                           state->name, value->name);
    }
    return REMAT_OK;
}

static remat_status verify(struct verifier *v)
{
    const struct remat_graph *graph = v->graph;
    if (graph->symbol_count)
        return INVALID(v->ctx, "the symbol \"%s\" is not bound", graph->symbols[0].name);
    REMAT_NEW(v->scratch, v->producer, graph->value_count);
    REMAT_NEW(v->scratch, v->superseded, graph->value_count);
    REMAT_NEW(v->scratch, v->uses, graph->value_count);
    for (uint32_t i = 0; i < graph->value_count; i++) {
        v->producer[i] = v->superseded[i] = REMAT_NONE;
        REMAT_CHECK(check_value(v, i));
        if (graph->values[i].node != REMAT_NONE && graph->values[i].node >= graph->node_count)
            return INVALID(v->ctx, "value \"%.200s\" names no node", graph->values[i].name);
    }
    REMAT_CHECK(check_names(v));
    for (uint32_t n = 0; n < graph->node_count; n++)
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
