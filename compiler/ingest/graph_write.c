/* SPDX-License-Identifier: Apache-2.0 */
#include "ingest.h"

#include "ops.h"
#include "writer.h"

#define COPY_TEXT(field) REMAT_TRY(remat_writer_text(w, from->field, &in.field))

/* The opcodes that the graph uses, in the order of the op table; index[op] is theirs. */
static remat_status write_opcodes(struct remat_writer *w, const struct remat_graph *graph,
                                  int32_t index[REMAT_OP_COUNT], struct remat_fb_tables *out)
{
    remat_status st = REMAT_OK;
    bool used[REMAT_OP_COUNT] = {false};
    uint32_t *ids;
    uint32_t count = 0;
    REMAT_TRY_NEW(w->scratch, ids, REMAT_OP_COUNT);
    for (uint32_t n = 0; n < graph->node_count; n++)
        used[graph->nodes[n].op] = used[graph->nodes[n].origin] = true;
    for (uint16_t op = 0; op < REMAT_OP_COUNT; op++) {
        struct remat_fb_graph_OpCode in = {.version = 1};
        index[op] = -1;
        if (!used[op])
            continue;
        REMAT_TRY(remat_writer_text(w, remat_op_info(op)->name, &in.name));
        index[op] = (int32_t)count;
        ids[count++] = remat_fb_write_graph_OpCode(w->builder, &in);
    }
    *out = (struct remat_fb_tables){ids, count};
fail:
    return st;
}

REMAT_WRITE_TABLES(graph_Symbol, struct remat_graph, struct remat_symbol, symbols, symbol_count, {
    in.value = from->value;
    COPY_TEXT(name);
})

struct scope_table { /* in the order in which nodes use them, the top level first */
    struct remat_scope *scopes;
    uint32_t scope_count;
    uint32_t *index; /* by the graph's number: the file's */
};

static void number_scope(const struct remat_graph *graph, uint32_t scope, struct scope_table *out)
{
    if (!remat_is_none(out->index[scope]))
        return;
    out->index[scope] = out->scope_count;
    out->scopes[out->scope_count++] = graph->scopes[scope];
}

static remat_status order_scopes(struct remat_writer *w, const struct remat_graph *graph,
                                 struct scope_table *out)
{
    remat_status st = REMAT_OK;
    *out = (struct scope_table){0};
    REMAT_TRY_NEW(w->scratch, out->scopes, graph->scope_count);
    REMAT_TRY_NEW(w->scratch, out->index, graph->scope_count);
    memset(out->index, 0xff, graph->scope_count * sizeof *out->index);
    number_scope(graph, REMAT_TOP.i, out);
    for (uint32_t n = 0; n < graph->node_count; n++)
        number_scope(graph, graph->nodes[n].scope.i, out);
    for (uint32_t s = 0; s < graph->scope_count; s++)
        number_scope(graph, s, out);
fail:
    return st;
}

REMAT_WRITE_TABLES(graph_Scope, struct scope_table, struct remat_scope, scopes, scope_count,
                   { COPY_TEXT(path); })

REMAT_WRITE_TABLES(graph_Value, struct remat_graph, struct remat_value_info, values, value_count, {
    in.dtype = (uint8_t)from->dtype;
    in.role = from->role;
    in.pin = from->pin;
    in.shape = (struct remat_fb_array){from->shape.dims, from->shape.rank};
    in.initializer = from->initializer;
    in.trainable = from->trainable;
    in.init_mean = from->init_mean;
    in.init_std = from->init_std;
    in.no_decay = from->no_decay;
    in.unpadded_rows = from->unpadded_rows;
    if (from->data)
        in.data = (struct remat_fb_array){from->data, (uint32_t)remat_value_bytes(from)};
    in.layout_dimension = from->stated ? from->stated->dimension : 0;
    in.layout_blocks = from->stated ? from->stated->blocks : 0;
    REMAT_TRY(remat_writer_text(w, from->stated ? from->stated->axis : NULL, &in.layout_axis));
    COPY_TEXT(name);
})

REMAT_WRITE_TABLES(graph_Attribute, struct remat_node_info, struct remat_attribute, attributes,
                   attribute_count, {
                       in.kind = from->kind;
                       if (from->kind == REMAT_ATTRIBUTE_INT)
                           in.i = from->i;
                       else if (from->kind == REMAT_ATTRIBUTE_FLOAT)
                           in.f = from->f;
                       else
                           in.ints = (struct remat_fb_array){from->ints, from->count};
                       COPY_TEXT(key);
                   })

struct node_table { /* nodes, and what number the file gives each op and scope */
    const struct remat_node_info *nodes;
    uint32_t node_count;
    const int32_t *index;
    const uint32_t *scopes;
};

_Static_assert(sizeof(remat_value) == sizeof(int32_t), "ids are written as they are");
REMAT_WRITE_TABLES(graph_Node, struct node_table, struct remat_node_info, nodes, node_count, {
    in.op = whole->index[from->op];
    in.inputs = (struct remat_fb_array){from->inputs, from->input_count};
    in.outputs = (struct remat_fb_array){from->outputs, from->output_count};
    in.scope = (int32_t)whole->scopes[from->scope.i];
    in.phase = from->phase;
    in.origin = from->origin == from->op ? -1 : whole->index[from->origin];
    in.origin_group = from->origin_group == i ? -1 : (int32_t)from->origin_group;
    in.instance = from->instance;
    in.absent = from->absent;
    REMAT_TRY(write_attributes(w, from, &in.attributes));
})

static remat_status write_updates(struct remat_writer *w, const struct remat_graph *graph,
                                  struct remat_fb_array *out)
{
    remat_status st = REMAT_OK;
    struct remat_fb_update *updates;
    REMAT_TRY_NEW(w->scratch, updates, graph->update_count);
    for (uint32_t i = 0; i < graph->update_count; i++)
        updates[i] = (struct remat_fb_update){(int32_t)graph->updates[i].state.i,
                                              (int32_t)graph->updates[i].value.i};
    *out = (struct remat_fb_array){updates, graph->update_count};
fail:
    return st;
}

static remat_status write_optimizer(struct remat_writer *w, const struct remat_optimizer *from,
                                    struct remat_fb_tables *out)
{
    remat_status st = REMAT_OK;
    uint32_t *ids;
    struct remat_fb_graph_Optimizer in = {.kind = from->kind,
                                          .beta1 = from->beta1,
                                          .beta2 = from->beta2,
                                          .epsilon = from->epsilon,
                                          .weight_decay = from->weight_decay,
                                          .clip_norm = from->clip_norm,
                                          .no_master = from->no_master,
                                          .bf16_moments = from->bf16_moments};
    REMAT_TRY_NEW(w->scratch, ids, 1);
    ids[0] = remat_fb_write_graph_Optimizer(w->builder, &in);
    *out = (struct remat_fb_tables){ids, 1};
fail:
    return st;
}

/* What a reader must know of. */
static uint64_t features(const struct remat_graph *graph)
{
    uint64_t out = remat_plan_only_feature(graph->plan_only);
    for (uint32_t n = 0; n < graph->node_count; n++)
        out |= graph->nodes[n].absent ? REMAT_FEATURE_ABSENT : 0;
    for (uint32_t v = 0; v < graph->value_count; v++)
        out |= graph->values[v].data ? REMAT_FEATURE_CONSTANTS : 0;
    return out;
}

static remat_status write_graph(struct remat_writer *w, const void *what,
                                enum remat_fb_result *result, const void **data, size_t *bytes)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *graph = what;
    int32_t index[REMAT_OP_COUNT];
    struct scope_table scopes;
    struct remat_fb_graph_Graph in = {.format_version = REMAT_FORMAT_VERSION,
                                      .min_reader_version = REMAT_FORMAT_VERSION,
                                      .required_features = features(graph),
                                      .outputs = {graph->outputs, graph->output_count}};
    REMAT_TRY(remat_writer_text(w, "remat", &in.producer));
    REMAT_TRY(remat_writer_text(w, graph->name, &in.name));
    REMAT_TRY(remat_writer_text(w, graph->config, &in.config));
    REMAT_TRY(remat_writer_text(w, graph->plan_only, &in.plan_only));
    REMAT_TRY(write_opcodes(w, graph, index, &in.opcodes));
    REMAT_TRY(write_symbols(w, graph, &in.symbols));
    REMAT_TRY(order_scopes(w, graph, &scopes));
    REMAT_TRY(write_scopes(w, &scopes, &in.scopes));
    REMAT_TRY(write_values(w, graph, &in.values));
    const struct node_table nodes = {graph->nodes, graph->node_count, index, scopes.index};
    REMAT_TRY(write_nodes(w, &nodes, &in.nodes));
    REMAT_TRY(write_updates(w, graph, &in.updates));
    if (graph->optimizer.kind != REMAT_OPTIMIZER_NONE)
        REMAT_TRY(write_optimizer(w, &graph->optimizer, &in.optimizers));
    *result =
        remat_fb_finish_graph(w->builder, remat_fb_write_graph_Graph(w->builder, &in), data, bytes);
fail:
    return st;
}

remat_status remat_graph_write(remat_context *ctx, const struct remat_graph *graph,
                               struct remat_arena *arena, const void **out_data, size_t *out_bytes)
{
    remat_status st = remat_graph_verify_symbolic(ctx, graph); /* can be read again */
    if (st != REMAT_OK)
        return st;
    return remat_writer_run(ctx, REMAT_GRAPH_IDENTIFIER, write_graph, graph, arena, out_data,
                            out_bytes);
}
