/* SPDX-License-Identifier: Apache-2.0 */
#include "ingest.h"

#include "constant.h"
#include "ops.h"
#include "range.h"
#include "reader.h"

#include <math.h>

#define SCOPES_MAX     16384u
#define ATTRIBUTES_MAX 32u

struct ingest {
    struct remat_reader reader;
    struct remat_fb_graph_Graph root;
    struct remat_graph *graph;
    uint16_t *ops;          /* by the file's opcode index */
    remat_scope_id *scopes; /* by the file's scope index */
    remat_node n;           /* being read */
    struct remat_fb_graph_Node node;
};

/* Where a message is about: `FILE: values[17] "NAME": `, `FILE: nodes[17] "NAME" (op): `. */
#define INVALID(in, ...)        remat_error((in)->reader.ctx, REMAT_ERROR_INVALID, __VA_ARGS__)
#define VALUE                   "%s: values[%u] \"%.200s\": "
#define AT_VALUE(in, v, called) (in)->reader.name, (v).i, called
#define NODE                    "%s: nodes[%u] \"%.200s\" (%s): "
#define AT_NODE(in)             (in)->reader.name, (in)->n.i, node_name(in), op_name(in)

/* --- tables that nodes refer to --- */

static remat_status read_opcodes(struct ingest *in)
{
    struct remat_reader *r = &in->reader;
    REMAT_CHECK(remat_reader_claim(r, in->root.opcodes.count, REMAT_READER_TABLE_BYTES));
    REMAT_NEW(r->arena, in->ops, in->root.opcodes.count);
    for (uint32_t i = 0; i < in->root.opcodes.count; i++) {
        struct remat_fb_graph_OpCode from;
        const char *name;
        remat_fb_read_graph_OpCode(in->root.opcodes, i, &from);
        REMAT_CHECK(remat_reader_text(r, from.name, "opcodes", i, &name));
        if (!remat_op_find(name, strlen(name), &in->ops[i]))
            return INVALID(in, "%s: opcodes[%u]: unknown op \"%.200s\"", r->name, i, name);
        if (from.version != 1)
            return INVALID(in, "%s: opcodes[%u] \"%s\": version %u; this compiler knows version 1",
                           r->name, i, name, from.version);
    }
    return REMAT_OK;
}

static remat_status read_scopes(struct ingest *in)
{
    struct remat_reader *r = &in->reader;
    uint32_t count = in->root.scopes.count;
    if (count > SCOPES_MAX)
        return INVALID(in, "%s: %u scopes, the limit is %u", r->name, count, SCOPES_MAX);
    REMAT_CHECK(remat_reader_claim(r, count, REMAT_READER_TABLE_BYTES));
    REMAT_NEW(r->arena, in->scopes, count);
    for (uint32_t i = 0; i < count; i++) {
        struct remat_fb_graph_Scope from;
        const char *path;
        remat_fb_read_graph_Scope(in->root.scopes, i, &from);
        REMAT_CHECK(remat_reader_text(r, from.path, "scopes", i, &path));
        in->scopes[i] = remat_graph_scope(r->arena, in->graph, path);
    }
    return REMAT_OK;
}

static remat_status read_symbols(struct ingest *in)
{
    struct remat_reader *r = &in->reader;
    REMAT_CHECK(remat_reader_claim(r, in->root.symbols.count, REMAT_READER_TABLE_BYTES));
    for (uint32_t i = 0; i < in->root.symbols.count; i++) {
        struct remat_fb_graph_Symbol from;
        const char *name;
        remat_fb_read_graph_Symbol(in->root.symbols, i, &from);
        REMAT_CHECK(remat_reader_text(r, from.name, "symbols", i, &name));
        REMAT_CHECK(remat_reader_prefix(
            r, remat_graph_add_symbol(r->ctx, r->arena, in->graph, name, from.value)));
    }
    return REMAT_OK;
}

/* A number that stands for a symbol which is not there. */
static bool is_no_symbol(const struct ingest *in, int64_t number)
{
    return remat_is_symbol(number) && remat_symbol_index(number) >= in->graph->symbol_count;
}

static remat_status read_shape(struct ingest *in, remat_value value, const char *name,
                               struct remat_fb_array dims, uint64_t element_bytes,
                               struct remat_shape *out)
{
    struct remat_reader *r = &in->reader;
    uint64_t bytes = element_bytes;
    if (dims.count > REMAT_RANK_MAX)
        return INVALID(in, VALUE "%u axes, the limit is %d", AT_VALUE(in, value, name), dims.count,
                       REMAT_RANK_MAX);
    out->rank = dims.count;
    for (uint32_t d = 0; d < dims.count; d++) {
        int64_t dim = out->dims[d] = remat_fb_i64(dims, d);
        if (is_no_symbol(in, dim))
            return INVALID(in, VALUE "axis %u: symbol %u is out of range (%u symbols)",
                           AT_VALUE(in, value, name), d, remat_symbol_index(dim),
                           in->graph->symbol_count);
        if (remat_is_symbol(dim))
            continue;
        if (dim <= 0)
            return INVALID(in, VALUE "axis %u has length %lld", AT_VALUE(in, value, name), d,
                           (long long)dim);
        if (!remat_mul_u64(bytes, (uint64_t)dim, &bytes) || bytes > INT64_MAX)
            return INVALID(in, VALUE "its shape has more than 2^63 bytes",
                           AT_VALUE(in, value, name));
    }
    return remat_reader_claim(r, dims.count, sizeof(int64_t));
}

/* --- values --- */

static remat_status read_layout(struct ingest *in, remat_value v,
                                const struct remat_fb_graph_Value *from,
                                const struct remat_stated **out)
{
    struct remat_stated *stated;
    REMAT_NEW(in->reader.arena, stated, 1);
    *out = stated;
    stated->blocks = from->layout_blocks;
    stated->dimension = from->layout_dimension;
    return from->layout_axis.length
               ? remat_reader_text(&in->reader, from->layout_axis, "values", v.i, &stated->axis)
               : REMAT_OK;
}

/* Stays where it is in the file's copy. */
static remat_status read_data(struct ingest *in, remat_value v, struct remat_fb_array data,
                              struct remat_value_info *out)
{
    if (!data.count)
        return REMAT_OK;
    REMAT_CHECK(remat_reader_claim(&in->reader, data.count, 1));
    out->data = data.data;
    const char *fault = remat_constant_find_fault(out, data.count);
    return fault ? INVALID(in, VALUE "%s", AT_VALUE(in, v, out->name), fault) : REMAT_OK;
}

static remat_status read_value(struct ingest *in, remat_value v)
{
    struct remat_reader *r = &in->reader;
    struct remat_fb_graph_Value from;
    remat_fb_read_graph_Value(in->root.values, v.i, &from);
    struct remat_value_info info = {.dtype = (remat_dtype)from.dtype,
                                    .role = from.role,
                                    .pin = from.pin,
                                    .initializer = from.initializer,
                                    .trainable = from.trainable,
                                    .no_decay = from.no_decay,
                                    .init_mean = from.init_mean + 0.0, /* no negative zero */
                                    .init_std = from.init_std + 0.0,
                                    .unpadded_rows = from.unpadded_rows,
                                    .node = REMAT_NO_NODE};
    REMAT_CHECK(remat_reader_text(r, from.name, "values", v.i, &info.name));
    if (from.layout_axis.length || from.layout_blocks || from.layout_dimension)
        REMAT_CHECK(read_layout(in, v, &from, &info.stated));
    if (!*info.name)
        return INVALID(in, "%s: values[%u]: it has no name", r->name, v.i);
    const struct {
        const char *what;
        uint32_t number;
        bool known;
    } fields[] = {{"dtype", from.dtype, remat_dtype_name(info.dtype)},
                  {"role", from.role, from.role < REMAT_ROLE_COUNT},
                  {"pin", from.pin, from.pin <= REMAT_PIN_RECOMPUTE},
                  {"initializer", from.initializer, from.initializer <= REMAT_INIT_NORMAL}};
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
        if (!fields[f].known)
            return INVALID(in, VALUE "unknown %s %u", AT_VALUE(in, v, info.name), fields[f].what,
                           fields[f].number);
    if (!isfinite(from.init_mean) || !isfinite(from.init_std))
        return INVALID(in, VALUE "an initial value is not finite", AT_VALUE(in, v, info.name));
    REMAT_CHECK(
        read_shape(in, v, info.name, from.shape, remat_dtype_bytes(info.dtype), &info.shape));
    REMAT_CHECK(read_data(in, v, from.data, &info));
    remat_graph_add_value(r->arena, in->graph, &info);
    return REMAT_OK;
}

static remat_status read_values(struct ingest *in)
{
    REMAT_CHECK(remat_reader_claim(&in->reader, in->root.values.count, REMAT_READER_TABLE_BYTES));
    for (remat_value v = {0}; v.i < in->root.values.count; v.i++)
        REMAT_CHECK(read_value(in, v));
    return REMAT_OK;
}

/* --- nodes --- */

/* The first output, where it is a valid one. */
static const char *node_name(const struct ingest *in)
{
    struct remat_fb_array outputs = in->node.outputs;
    uint32_t first = outputs.count ? (uint32_t)remat_fb_i32(outputs, 0) : REMAT_NONE;
    return first < in->graph->value_count ? in->graph->values[first].name : "";
}

static const char *op_name(const struct ingest *in)
{
    bool known = in->node.op >= 0 && (uint32_t)in->node.op < in->root.opcodes.count;
    return known ? remat_op_info(in->ops[in->node.op])->name : "?";
}

static remat_status no_symbol(struct ingest *in, const char *key, int64_t number)
{
    return INVALID(in, NODE "attribute \"%.100s\": symbol %u is out of range (%u symbols)",
                   AT_NODE(in), key, remat_symbol_index(number), in->graph->symbol_count);
}

static remat_status read_attributes(struct ingest *in, struct remat_attribute **out)
{
    struct remat_reader *r = &in->reader;
    REMAT_CHECK(remat_reader_claim(r, in->node.attributes.count, REMAT_READER_TABLE_BYTES));
    REMAT_NEW(r->arena, *out, in->node.attributes.count);
    for (uint32_t a = 0; a < in->node.attributes.count; a++) {
        struct remat_fb_graph_Attribute from;
        struct remat_attribute *to = &(*out)[a];
        int64_t *ints;
        remat_fb_read_graph_Attribute(in->node.attributes, a, &from);
        REMAT_CHECK(remat_reader_text(r, from.key, "nodes", in->n.i, &to->key));
        if (from.kind > REMAT_ATTRIBUTE_INTS)
            return INVALID(in, NODE "attribute \"%.100s\": unknown kind %u", AT_NODE(in), to->key,
                           from.kind);
        for (uint32_t b = 0; b < a; b++)
            if (strcmp((*out)[b].key, to->key) == 0)
                return INVALID(in, NODE "attribute \"%.100s\" is given twice", AT_NODE(in),
                               to->key);
        to->kind = from.kind;
        to->i = from.kind == REMAT_ATTRIBUTE_INT ? from.i : 0;
        to->f = from.kind == REMAT_ATTRIBUTE_FLOAT ? from.f : 0;
        if (is_no_symbol(in, to->i))
            return no_symbol(in, to->key, to->i);
        if (from.kind != REMAT_ATTRIBUTE_INTS)
            continue;
        REMAT_CHECK(remat_reader_claim(r, from.ints.count, sizeof *ints));
        REMAT_NEW(r->arena, ints, from.ints.count);
        for (uint32_t k = 0; k < from.ints.count; k++) {
            ints[k] = remat_fb_i64(from.ints, k);
            if (is_no_symbol(in, ints[k]))
                return no_symbol(in, to->key, ints[k]);
        }
        to->ints = ints;
        to->count = from.ints.count;
    }
    return REMAT_OK;
}

static remat_status read_ids(struct ingest *in, struct remat_fb_array ids, const char *what,
                             remat_value **out)
{
    REMAT_CHECK(remat_reader_claim(&in->reader, ids.count, sizeof(int32_t)));
    REMAT_NEW(in->reader.arena, *out, ids.count);
    for (uint32_t k = 0; k < ids.count; k++) {
        int32_t id = remat_fb_i32(ids, k);
        if (id < 0 || (uint32_t)id >= in->graph->value_count)
            return INVALID(in, NODE "%s value %d is out of range (%u values)", AT_NODE(in), what,
                           id, in->graph->value_count);
        (*out)[k].i = (uint32_t)id;
    }
    return REMAT_OK;
}

/* Each value is computed once. */
static remat_status check_outputs(struct ingest *in, const struct remat_node_info *info)
{
    const struct remat_graph *g = in->graph;
    for (uint32_t k = 0; k < info->output_count; k++) {
        remat_value v = info->outputs[k];
        if (!remat_is_none(g->values[v.i].node.i))
            return INVALID(
                in, NODE "output %u: \"%.200s\" (values[%u]) is computed by nodes[%u] already",
                AT_NODE(in), k, g->values[v.i].name, v.i, g->values[v.i].node.i);
        for (uint32_t j = 0; j < k; j++)
            if (info->outputs[j].i == v.i)
                return INVALID(in, NODE "outputs %u and %u are both \"%.200s\"", AT_NODE(in), j, k,
                               g->values[v.i].name);
    }
    return REMAT_OK;
}

static remat_status read_node_head(struct ingest *in, struct remat_node_info *out)
{
    const struct remat_fb_graph_Node *from = &in->node;
    uint32_t opcodes = in->root.opcodes.count, nodes = in->root.nodes.count;
    uint32_t scope = (uint32_t)from->scope;
    if (from->op < 0 || (uint32_t)from->op >= opcodes)
        return INVALID(in, NODE "opcode %d is out of range (%u opcodes)", AT_NODE(in), from->op,
                       opcodes);
    if (from->origin < -1 || (from->origin >= 0 && (uint32_t)from->origin >= opcodes))
        return INVALID(in, NODE "origin %d is out of range (%u opcodes)", AT_NODE(in), from->origin,
                       opcodes);
    if (from->origin_group < -1 ||
        (from->origin_group >= 0 && (uint32_t)from->origin_group >= nodes))
        return INVALID(in, NODE "origin_group %d is out of range (%u nodes)", AT_NODE(in),
                       from->origin_group, nodes);
    if (scope >= in->root.scopes.count && scope != 0)
        return INVALID(in, NODE "scope %d is out of range (%u scopes)", AT_NODE(in), from->scope,
                       in->root.scopes.count);
    if (from->attributes.count > ATTRIBUTES_MAX)
        return INVALID(in, NODE "%u attributes, the limit is %u", AT_NODE(in),
                       from->attributes.count, ATTRIBUTES_MAX);
    if (from->phase >= REMAT_PHASE_COUNT)
        return INVALID(in, NODE "unknown phase %u", AT_NODE(in), from->phase);
    *out = (struct remat_node_info){
        .op = in->ops[from->op],
        .origin = in->ops[from->origin < 0 ? from->op : from->origin],
        .phase = from->phase,
        .origin_group = from->origin_group < 0 ? in->n.i : (uint32_t)from->origin_group,
        .scope = in->root.scopes.count ? in->scopes[scope] : REMAT_TOP,
        .input_count = from->inputs.count,
        .output_count = from->outputs.count,
        .attribute_count = from->attributes.count,
        .instance = from->instance,
        .absent = from->absent};
    const struct remat_op_info *op = remat_op_info(out->op);
    if (out->input_count < op->inputs_min || out->input_count > op->inputs_max)
        return INVALID(in, NODE "%u inputs, expected %u to %u", AT_NODE(in), out->input_count,
                       op->inputs_min, op->inputs_max);
    if (op->outputs && out->output_count != op->outputs)
        return INVALID(in, NODE "%u outputs, expected %u", AT_NODE(in), out->output_count,
                       op->outputs);
    return REMAT_OK;
}

static remat_status read_node(struct ingest *in, remat_node n)
{
    struct remat_node_info info;
    remat_value *inputs, *outputs;
    struct remat_attribute *attributes;
    in->n = n;
    remat_fb_read_graph_Node(in->root.nodes, n.i, &in->node);
    REMAT_CHECK(read_node_head(in, &info));
    REMAT_CHECK(read_ids(in, in->node.inputs, "input", &inputs));
    REMAT_CHECK(read_ids(in, in->node.outputs, "output", &outputs));
    REMAT_CHECK(read_attributes(in, &attributes));
    info.inputs = inputs;
    info.outputs = outputs;
    info.attributes = attributes;
    REMAT_CHECK(check_outputs(in, &info));
    remat_graph_append_node(in->reader.arena, in->graph, &info);
    return REMAT_OK;
}

/* Inputs of a node are computed before it, or given from outside, and their role says as what. */
static remat_status check_inputs(struct ingest *in)
{
    const struct remat_graph *g = in->graph;
    for (remat_node n = {0}; n.i < g->node_count; n.i++)
        for (uint32_t k = 0; k < g->nodes[n.i].input_count; k++) {
            remat_value v = g->nodes[n.i].inputs[k];
            remat_node producer = remat_producer(g, v);
            if (remat_is_none(producer.i) || producer.i < n.i)
                continue;
            in->n = n;
            remat_fb_read_graph_Node(in->root.nodes, n.i, &in->node);
            return INVALID(in, NODE "input %u: \"%.200s\" (values[%u]) is computed later",
                           AT_NODE(in), k, g->values[v.i].name, v.i);
        }
    for (remat_value v = {0}; v.i < g->value_count; v.i++)
        if (remat_is_none(remat_producer(g, v).i) && g->values[v.i].role == REMAT_ROLE_ACTIVATION)
            return INVALID(in, VALUE "an activation that no node computes",
                           AT_VALUE(in, v, g->values[v.i].name));
    return REMAT_OK;
}

static remat_status read_nodes(struct ingest *in)
{
    REMAT_CHECK(remat_reader_claim(&in->reader, in->root.nodes.count, REMAT_READER_TABLE_BYTES));
    for (remat_node n = {0}; n.i < in->root.nodes.count; n.i++)
        REMAT_CHECK(read_node(in, n));
    return check_inputs(in);
}

/* --- results and optimizer --- */

static remat_status result_index(struct ingest *in, const char *table, uint32_t i, int32_t id,
                                 remat_value *out)
{
    if (id < 0 || (uint32_t)id >= in->graph->value_count)
        return INVALID(in, "%s: %s[%u]: value %d is out of range (%u values)", in->reader.name,
                       table, i, id, in->graph->value_count);
    out->i = (uint32_t)id;
    return REMAT_OK;
}

static remat_status read_results(struct ingest *in)
{
    struct remat_reader *r = &in->reader;
    struct remat_graph *g = in->graph;
    struct remat_fb_array outputs = in->root.outputs, updates = in->root.updates;
    REMAT_CHECK(remat_reader_claim(r, outputs.count, sizeof(int32_t)));
    REMAT_CHECK(remat_reader_claim(r, updates.count, sizeof(struct remat_fb_update)));
    REMAT_NEW(r->arena, g->outputs, outputs.count);
    REMAT_NEW(r->arena, g->updates, updates.count);
    g->output_count = outputs.count;
    g->update_count = updates.count;
    for (uint32_t i = 0; i < outputs.count; i++)
        REMAT_CHECK(result_index(in, "outputs", i, remat_fb_i32(outputs, i), &g->outputs[i]));
    for (uint32_t i = 0; i < updates.count; i++) {
        int32_t state = remat_fb_i32(updates, 2 * i), value = remat_fb_i32(updates, 2 * i + 1);
        REMAT_CHECK(result_index(in, "updates", i, state, &g->updates[i].state));
        REMAT_CHECK(result_index(in, "updates", i, value, &g->updates[i].value));
    }
    return REMAT_OK;
}

static remat_status read_optimizer(struct ingest *in)
{
    struct remat_fb_graph_Optimizer from;
    struct remat_optimizer_fault fault;
    if (in->root.optimizers.count == 0)
        return REMAT_OK;
    if (in->root.optimizers.count > 1)
        return INVALID(in, "%s: %u optimizers, at most one is possible", in->reader.name,
                       in->root.optimizers.count);
    remat_fb_read_graph_Optimizer(in->root.optimizers, 0, &from);
    if (from.kind > REMAT_OPTIMIZER_SGD)
        return INVALID(in, "%s: optimizers[0]: unknown kind %u", in->reader.name, from.kind);
    if (from.kind == 0)
        return REMAT_OK;
    in->graph->optimizer = (struct remat_optimizer){.kind = from.kind,
                                                    .beta1 = from.beta1 + 0.0,
                                                    .beta2 = from.beta2 + 0.0,
                                                    .epsilon = from.epsilon + 0.0,
                                                    .weight_decay = from.weight_decay + 0.0,
                                                    .clip_norm = from.clip_norm + 0.0,
                                                    .no_master = from.no_master,
                                                    .bf16_moments = from.bf16_moments};
    if (remat_optimizer_find_fault(&in->graph->optimizer, &fault))
        return INVALID(in, "%s: optimizers[0]: %s is %.15g, expected %s", in->reader.name,
                       fault.range.key, fault.number, remat_range_text(&fault.range).text);
    return REMAT_OK;
}

remat_status remat_graph_read(remat_context *ctx, const char *name, const void *data, size_t bytes,
                              struct remat_arena *arena, struct remat_graph **out)
{
    struct ingest in = {0};
    struct remat_reader *r = &in.reader;
    const char *graph_name;
    REMAT_CHECK(remat_reader_open(ctx, name, data, bytes, arena, REMAT_GRAPH_IDENTIFIER, r));
    REMAT_CHECK(remat_reader_result(r, remat_fb_open_graph(r->data, r->bytes, &in.root)));
    REMAT_CHECK(remat_reader_versions(r, in.root.producer, in.root.format_version,
                                      in.root.min_reader_version, in.root.required_features,
                                      REMAT_FEATURE_PLAN_ONLY | REMAT_FEATURE_ABSENT |
                                          REMAT_FEATURE_CONSTANTS));
    REMAT_CHECK(remat_reader_text(r, in.root.name, "name", 0, &graph_name));
    in.graph = remat_graph_create(arena, graph_name);
    REMAT_CHECK(remat_reader_text(r, in.root.config, "config", 0, &in.graph->config));
    REMAT_CHECK(remat_reader_text(r, in.root.plan_only, "plan_only", 0, &in.graph->plan_only));
    REMAT_CHECK(read_opcodes(&in));
    REMAT_CHECK(read_symbols(&in));
    REMAT_CHECK(read_scopes(&in));
    REMAT_CHECK(read_values(&in));
    REMAT_CHECK(read_nodes(&in));
    REMAT_CHECK(read_results(&in));
    REMAT_CHECK(read_optimizer(&in));
    REMAT_CHECK(remat_reader_prefix(r, remat_graph_verify_symbolic(ctx, in.graph)));
    *out = in.graph;
    return REMAT_OK;
}
