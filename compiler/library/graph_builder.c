/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs that a host adds to. What is added is checked so far that nothing is out of range; the
 * verifier of all graphs does the rest at the end. */
#include "library.h"

#include "constant.h"
#include "graph_lex.h"
#include "ops.h"
#include "range.h"

#include <math.h>

struct addition { /* arguments of a guarded call */
    remat_graph_builder *to;
    const char *name;
    const remat_value_spec *value;
    const remat_node_spec *node;
    const void *data;
    size_t bytes;
    uint32_t id, second, *out;
    int64_t number, *out_number;
};

static remat_status invalid_node(remat_graph_builder *g, const remat_node_spec *node,
                                 const char *what, const char *value)
{
    const char *name = node->output_count ? node->outputs[0].name : NULL;
    return remat_error(g->handle.ctx, REMAT_ERROR_INVALID, "node \"%.200s\": %s \"%.200s\"",
                       name ? name : "", what, value ? value : "");
}

/* --- ids --- */

/* Of values: the graph's tag above the index. With one context 255 graphs in turn have another one
 * each; REMAT_ABSENT is no id. */
enum { INDEX_BITS = 24, TAGS = 255 };
#define VALUES_MAX (UINT32_C(1) << INDEX_BITS)

static uint32_t id_of(const remat_graph_builder *g, uint32_t index)
{
    return g->tag << INDEX_BITS | index;
}

/* NULL: it is one of the graph's values. */
static const char *find_id_fault(const remat_graph_builder *g, uint32_t id)
{
    if (id >> INDEX_BITS == g->tag)
        return id % VALUES_MAX < g->graph->value_count ? NULL : "no value so far";
    return id >> INDEX_BITS < TAGS ? "a value of another graph" : "no value";
}

static remat_value value_of(uint32_t id)
{
    return (remat_value){id % VALUES_MAX};
}

static remat_status check_room(const remat_graph_builder *g, uint32_t count)
{
    if (count <= VALUES_MAX - g->graph->value_count)
        return REMAT_OK;
    return remat_error(g->handle.ctx, REMAT_ERROR_INVALID, "graph \"%.200s\": more than %u values",
                       g->graph->name, VALUES_MAX);
}

/* --- a graph --- */

static remat_status begin(void *user)
{
    struct addition *a = user;
    struct remat_arena *arena = &a->to->handle.arena;
    a->to->label = remat_string(arena, a->name, strlen(a->name));
    a->to->graph = remat_graph_create(arena, a->to->label);
    return REMAT_OK;
}

remat_status remat_graph_builder_create(remat_context *ctx, const char *name,
                                        remat_graph_builder **out)
{
    remat_graph_builder *g = *out = remat_handle_open(ctx, "graph", sizeof *g);
    if (!g)
        return REMAT_ERROR_MEMORY;
    struct addition a = {.to = g, .name = name};
    g->tag = ctx->graph_count++ % TAGS;
    remat_status st = remat_guard(ctx, begin, &a);
    if (st != REMAT_OK)
        remat_graph_builder_destroy(out);
    return st;
}

void remat_graph_builder_destroy(remat_graph_builder **graph)
{
    remat_handle_close(*graph);
    *graph = NULL;
}

static remat_status check_open(const remat_graph_builder *g)
{
    REMAT_CHECK(remat_handle_check(NULL, g, "graph"));
    return g->finished
               ? remat_error(g->handle.ctx, REMAT_ERROR_USAGE,
                             "graph \"%.200s\" is finished and takes nothing more", g->graph->name)
               : REMAT_OK;
}

/* --- values --- */

/* The k-th of an array, whose elements are as long as the host's are. */
static remat_value_spec value_at(const remat_value_spec *values, uint32_t k)
{
    remat_value_spec out;
    remat_handle_take((const char *)values + k * values->struct_size, sizeof out, &out);
    return out;
}

static uint8_t find_role(const char *name)
{
    uint8_t role = 0;
    while (role < REMAT_ROLE_COUNT && strcmp(remat_lex_role(role), name) != 0)
        role++;
    return role;
}

static remat_status check_value(remat_graph_builder *g, const remat_value_spec *v)
{
    static const char *const pins[] = {NULL, "save", "recompute"};
    remat_dtype dtype;
    const char *fault = NULL;
    if (!v->name || !*v->name)
        return remat_error(g->handle.ctx, REMAT_ERROR_INVALID, "value %u has no name",
                           g->graph->value_count);
    if (!v->dtype || !remat_dtype_parse(v->dtype, strlen(v->dtype), &dtype))
        fault = "its dtype is unknown";
    else if (v->rank > REMAT_VALUE_RANK_MAX)
        fault = "it has too many axes";
    else if (v->role && find_role(v->role) == REMAT_ROLE_COUNT)
        fault = "its role is unknown";
    else if (v->initializer && strcmp(v->initializer, "constant") != 0 &&
             strcmp(v->initializer, "normal") != 0)
        fault = "its initializer is neither \"constant\" nor \"normal\"";
    else if (v->pin && strcmp(v->pin, pins[REMAT_PIN_SAVE]) != 0 &&
             strcmp(v->pin, pins[REMAT_PIN_RECOMPUTE]) != 0)
        fault = "its pin is neither \"save\" nor \"recompute\"";
    return fault ? remat_error(g->handle.ctx, REMAT_ERROR_INVALID, "value \"%.200s\": %s", v->name,
                               fault)
                 : REMAT_OK;
}

/* Of a checked value. */
static remat_value add_value(remat_graph_builder *g, const remat_value_spec *v, uint8_t role)
{
    struct remat_stated *stated;
    struct remat_value_info info = {.name =
                                        remat_string(&g->handle.arena, v->name, strlen(v->name)),
                                    .role = v->role ? find_role(v->role) : role,
                                    .trainable = v->trainable,
                                    .no_decay = v->no_decay,
                                    .init_mean = v->init_mean,
                                    .init_std = v->init_std,
                                    .unpadded_rows = v->unpadded_rows,
                                    .node = REMAT_NO_NODE};
    (void)remat_dtype_parse(v->dtype, strlen(v->dtype), &info.dtype);
    info.shape.rank = v->rank;
    memcpy(info.shape.dims, v->shape, v->rank * sizeof *v->shape);
    if (v->pin)
        info.pin = *v->pin == 's' ? REMAT_PIN_SAVE : REMAT_PIN_RECOMPUTE;
    if (v->initializer)
        info.initializer = *v->initializer == 'c' ? REMAT_INIT_CONSTANT : REMAT_INIT_NORMAL;
    if (v->layout_axis) {
        REMAT_NEW(&g->handle.arena, stated, 1);
        *stated = (struct remat_stated){
            .axis = remat_string(&g->handle.arena, v->layout_axis, strlen(v->layout_axis)),
            .blocks = v->layout_blocks,
            .dimension = v->layout_dimension};
        info.stated = stated;
    }
    return remat_graph_add_value(&g->handle.arena, g->graph, &info);
}

static remat_status add_input(void *user)
{
    struct addition *a = user;
    remat_value v = add_value(a->to, a->value, REMAT_ROLE_INPUT);
    *a->out = id_of(a->to, v.i);
    return REMAT_OK;
}

remat_status remat_graph_builder_add_input(remat_graph_builder *graph,
                                           const remat_value_spec *value, uint32_t *out_value)
{
    remat_value_spec taken = value_at(value, 0);
    struct addition a = {.to = graph, .value = &taken, .out = out_value};
    REMAT_CHECK(check_open(graph));
    REMAT_CHECK(check_room(graph, 1));
    REMAT_CHECK(check_value(graph, &taken));
    return remat_guard(graph->handle.ctx, add_input, &a);
}

/* An added constant that equals an earlier one is taken back. */
static remat_status add_constant(void *user)
{
    struct addition *a = user;
    remat_graph_builder *g = a->to;
    remat_value v = add_value(g, a->value, REMAT_ROLE_CONSTANT);
    struct remat_value_info *info = &g->graph->values[v.i];
    info->data = remat_copy(&g->handle.arena, a->data, a->bytes, 1);
    const char *fault = remat_constant_find_fault(info, a->bytes);
    remat_value first = v;
    if (!fault)
        first = remat_constant_find_or_add(&g->handle.arena, g->graph, &g->constants, v);
    if (fault || first.i != v.i)
        g->graph->value_count--;
    *a->out = id_of(g, first.i);
    return fault ? remat_error(g->handle.ctx, REMAT_ERROR_INVALID, "value \"%.200s\": %s",
                               a->value->name, fault)
                 : REMAT_OK;
}

remat_status remat_graph_builder_add_constant(remat_graph_builder *graph,
                                              const remat_value_spec *value, const void *data,
                                              size_t bytes, uint32_t *out_value)
{
    remat_value_spec taken = value_at(value, 0);
    struct addition a = {
        .to = graph, .value = &taken, .data = data, .bytes = bytes, .out = out_value};
    REMAT_CHECK(check_open(graph));
    REMAT_CHECK(check_room(graph, 1));
    REMAT_CHECK(check_value(graph, &taken));
    if (!data || !bytes)
        return remat_error(graph->handle.ctx, REMAT_ERROR_INVALID, "value \"%.200s\": no data",
                           taken.name);
    return remat_guard(graph->handle.ctx, add_constant, &a);
}

/* --- nodes --- */

static remat_status read_attribute(remat_graph_builder *g, const remat_node_spec *node,
                                   const remat_attribute_spec *from, struct remat_attribute *to)
{
    if (!from->key)
        return invalid_node(g, node, "no key of attribute", NULL);
    const char *key = remat_string(&g->handle.arena, from->key, strlen(from->key));
    *to = (struct remat_attribute){.key = key, .kind = remat_range_of(key).kind, .f = from->number};
    if (from->integers && to->kind == REMAT_ATTRIBUTE_INT && from->integer_count == 1) {
        to->i = *from->integers;
    } else if (from->integers || to->kind == REMAT_ATTRIBUTE_INTS) {
        to->kind = REMAT_ATTRIBUTE_INTS;
        to->ints =
            remat_copy(&g->handle.arena, from->integers, from->integer_count, sizeof(int64_t));
        to->count = from->integer_count;
    } else if (to->kind == REMAT_ATTRIBUTE_INT) {
        if (!(fabs(from->number) < 0x1p53) || from->number != floor(from->number))
            return invalid_node(g, node, "no integer is its attribute", from->key);
        to->i = (int64_t)from->number;
    }
    return REMAT_OK;
}

static remat_status read_phase(remat_graph_builder *g, const remat_node_spec *node, uint8_t *out)
{
    for (*out = 0; *out < REMAT_PHASE_INIT; ++*out)
        if (node->phase && strcmp(node->phase, remat_phase_name(*out)) == 0)
            return REMAT_OK;
    return invalid_node(g, node, "unknown phase", node->phase);
}

static remat_status check_node(remat_graph_builder *g, const remat_node_spec *node)
{
    const char *name = node->output_count ? node->outputs[0].name : NULL;
    REMAT_CHECK(check_room(g, node->output_count));
    for (uint32_t k = 0; k < node->input_count; k++) {
        const char *fault = find_id_fault(g, node->inputs[k]);
        if (fault && node->inputs[k] != REMAT_ABSENT)
            return remat_error(g->handle.ctx, REMAT_ERROR_INVALID,
                               "node \"%.200s\": input %u is %s", name ? name : "", k, fault);
    }
    for (uint32_t k = 0; k < node->output_count; k++) {
        remat_value_spec value = value_at(node->outputs, k);
        REMAT_CHECK(check_value(g, &value));
    }
    return node->output_count ? REMAT_OK : invalid_node(g, node, "no output of op", node->op);
}

static remat_status add_node(void *user)
{
    struct addition *a = user;
    remat_graph_builder *g = a->to;
    const remat_node_spec *from = a->node;
    struct remat_node_info info = {.origin_group = REMAT_NONE,
                                   .output_count = from->output_count,
                                   .attribute_count = from->attribute_count};
    struct remat_attribute *attributes;
    remat_value *inputs, *outputs;
    if (!from->op || !remat_op_find(from->op, strlen(from->op), &info.op))
        return invalid_node(g, from, "unknown op", from->op);
    REMAT_CHECK(read_phase(g, from, &info.phase));
    REMAT_NEW(&g->handle.arena, attributes, from->attribute_count);
    for (uint32_t k = 0; k < from->attribute_count; k++)
        REMAT_CHECK(read_attribute(
            g, from,
            (const void *)((const char *)from->attributes + k * from->attributes->struct_size),
            &attributes[k]));
    REMAT_NEW(&g->handle.arena, inputs, from->input_count);
    REMAT_NEW(&g->handle.arena, outputs, from->output_count);
    info.scope = remat_graph_scope(&g->handle.arena, g->graph, from->scope ? from->scope : "");
    info.input_count = 0;
    for (uint32_t k = 0, absent = 0; k < from->input_count; k++)
        if (from->inputs[k] == REMAT_ABSENT) {
            absent |= k < 32 ? 1u << k : 0;
        } else {
            info.absent = absent;
            inputs[info.input_count++] = value_of(from->inputs[k]);
        }
    for (uint32_t k = 0; k < from->output_count; k++) {
        remat_value_spec value = value_at(from->outputs, k);
        outputs[k] = add_value(g, &value, REMAT_ROLE_ACTIVATION);
    }
    info.inputs = inputs;
    info.outputs = outputs;
    info.attributes = attributes;
    *a->out = id_of(g, outputs[0].i);
    remat_graph_append_node(&g->handle.arena, g->graph, &info);
    return REMAT_OK;
}

remat_status remat_graph_builder_add_node(remat_graph_builder *graph, const remat_node_spec *node,
                                          uint32_t *out_value)
{
    struct addition a = {.to = graph, .node = node, .out = out_value};
    REMAT_CHECK(check_open(graph));
    REMAT_CHECK(check_node(graph, node));
    return remat_guard(graph->handle.ctx, add_node, &a);
}

/* --- what is about the whole graph --- */

static remat_status add_symbol(void *user)
{
    struct addition *a = user;
    struct remat_arena *arena = &a->to->handle.arena;
    struct remat_graph *graph = a->to->graph;
    REMAT_CHECK(remat_graph_add_symbol(a->to->handle.ctx, arena, graph,
                                       remat_string(arena, a->name, strlen(a->name)), a->number));
    *a->out_number = REMAT_SYMBOL(graph->symbol_count - 1);
    return REMAT_OK;
}

remat_status remat_graph_builder_add_symbol(remat_graph_builder *graph, const char *name,
                                            int64_t value, int64_t *out_length)
{
    struct addition a = {.to = graph, .name = name, .number = value, .out_number = out_length};
    REMAT_CHECK(check_open(graph));
    return remat_guard(graph->handle.ctx, add_symbol, &a);
}

static remat_status add_update(void *user)
{
    struct addition *a = user;
    REMAT_PUSH(&a->to->handle.arena, &a->to->updates,
               ((struct remat_update){value_of(a->id), value_of(a->second)}));
    return REMAT_OK;
}

remat_status remat_graph_builder_add_update(remat_graph_builder *graph, uint32_t state,
                                            uint32_t value)
{
    struct addition a = {.to = graph, .id = state, .second = value};
    REMAT_CHECK(check_open(graph));
    const char *fault = find_id_fault(graph, state);
    if (fault)
        return remat_error(graph->handle.ctx, REMAT_ERROR_INVALID, "update: the state is %s",
                           fault);
    fault = find_id_fault(graph, value);
    if (fault)
        return remat_error(graph->handle.ctx, REMAT_ERROR_INVALID, "update: the new version is %s",
                           fault);
    return remat_guard(graph->handle.ctx, add_update, &a);
}

remat_status remat_graph_builder_set_optimizer(remat_graph_builder *graph,
                                               const remat_optimizer_spec *optimizer)
{
    remat_optimizer_spec from;
    uint8_t kind = REMAT_OPTIMIZER_NONE;
    REMAT_CHECK(check_open(graph));
    remat_handle_take(optimizer, sizeof from, &from);
    while (kind <= REMAT_OPTIMIZER_SGD &&
           !(from.kind && strcmp(from.kind, remat_optimizer_name(kind)) == 0))
        kind++;
    if (kind > REMAT_OPTIMIZER_SGD)
        return remat_error(graph->handle.ctx, REMAT_ERROR_INVALID,
                           "optimizer '%.200s' is unknown (accepted: none, adamw, sgd)",
                           from.kind ? from.kind : "");
    graph->graph->optimizer = (struct remat_optimizer){.kind = kind,
                                                       .beta1 = from.beta1,
                                                       .beta2 = from.beta2,
                                                       .epsilon = from.epsilon,
                                                       .weight_decay = from.weight_decay,
                                                       .clip_norm = from.clip_norm,
                                                       .no_master = from.no_master,
                                                       .bf16_moments = from.bf16_moments};
    return REMAT_OK;
}

struct description { /* arguments of a guarded call */
    remat_graph_builder *to;
    const char *config, *plan_only;
};

static remat_status describe(void *user)
{
    const struct description *d = user;
    struct remat_arena *arena = &d->to->handle.arena;
    struct remat_graph *graph = d->to->graph;
    graph->config = d->config ? remat_string(arena, d->config, strlen(d->config)) : NULL;
    graph->plan_only =
        d->plan_only ? remat_string(arena, d->plan_only, strlen(d->plan_only)) : NULL;
    return REMAT_OK;
}

remat_status remat_graph_builder_describe(remat_graph_builder *graph, const char *config,
                                          const char *plan_only)
{
    struct description d = {graph, config, plan_only};
    REMAT_CHECK(check_open(graph));
    return remat_guard(graph->handle.ctx, describe, &d);
}

/* --- the end --- */

static remat_status add_output(void *user)
{
    struct addition *a = user;
    REMAT_PUSH(&a->to->handle.arena, &a->to->outputs, value_of(a->id));
    return REMAT_OK;
}

remat_status remat_graph_builder_add_output(remat_graph_builder *graph, uint32_t value)
{
    struct addition a = {.to = graph, .id = value};
    REMAT_CHECK(check_open(graph));
    const char *fault = find_id_fault(graph, value);
    if (fault)
        return remat_error(graph->handle.ctx, REMAT_ERROR_INVALID, "the output is %s", fault);
    return remat_guard(graph->handle.ctx, add_output, &a);
}

static remat_status finish(void *user)
{
    struct addition *a = user;
    struct remat_graph *graph = a->to->graph;
    graph->outputs = a->to->outputs.items;
    graph->output_count = (uint32_t)a->to->outputs.count;
    graph->updates = a->to->updates.items;
    graph->update_count = (uint32_t)a->to->updates.count;
    return remat_graph_verify_symbolic(a->to->handle.ctx, graph);
}

remat_status remat_graph_builder_finish(remat_graph_builder *graph)
{
    struct addition a = {.to = graph};
    REMAT_CHECK(check_open(graph));
    REMAT_CHECK(remat_guard(graph->handle.ctx, finish, &a));
    graph->finished = true;
    return REMAT_OK;
}

remat_status remat_check_finished(remat_context *ctx, const remat_graph_builder *graph)
{
    REMAT_CHECK(remat_handle_check(ctx, graph, "graph"));
    return graph->finished ? REMAT_OK
                           : remat_error(ctx, REMAT_ERROR_USAGE, "graph \"%.200s\" is not finished",
                                         graph->graph->name);
}
