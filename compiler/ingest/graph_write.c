#include "ingest.h"

#include "ops.h"
#include "writer.h"

#define COPY_TEXT(text, field) REMAT_TRY(remat_writer_text(w, (text), &in.field))

/* The opcodes that the graph uses, in the order of the op table; index[op] is theirs. */
static remat_status write_opcodes(struct remat_writer *w, const struct remat_graph *graph,
                                  int32_t index[REMAT_OP_COUNT], struct remat_fb_tables *out)
{
    remat_status st = REMAT_OK;
    bool used[REMAT_OP_COUNT] = {false};
    uint32_t *ids;
    uint32_t count = 0;
    REMAT_NEW(w->scratch, ids, REMAT_OP_COUNT);
    for (uint32_t n = 0; n < graph->node_count; n++)
        used[graph->nodes[n].op] = used[graph->nodes[n].origin] = true;
    for (uint16_t op = 0; op < REMAT_OP_COUNT; op++) {
        struct remat_fb_graph_OpCode in = {.version = 1};
        index[op] = -1;
        if (!used[op])
            continue;
        COPY_TEXT(remat_op_info(op)->name, name);
        index[op] = (int32_t)count;
        ids[count++] = remat_fb_write_graph_OpCode(w->builder, &in);
    }
    *out = (struct remat_fb_tables){ids, count};
fail:
    return st;
}

static remat_status write_symbols(struct remat_writer *w, const struct remat_graph *graph,
                                  struct remat_fb_tables *out)
{
    remat_status st = REMAT_OK;
    uint32_t *ids;
    REMAT_NEW(w->scratch, ids, graph->symbol_count);
    for (uint32_t i = 0; i < graph->symbol_count; i++) {
        struct remat_fb_graph_Symbol in = {.value = graph->symbols[i].value};
        COPY_TEXT(graph->symbols[i].name, name);
        ids[i] = remat_fb_write_graph_Symbol(w->builder, &in);
    }
    *out = (struct remat_fb_tables){ids, graph->symbol_count};
fail:
    return st;
}

static remat_status write_scopes(struct remat_writer *w, const struct remat_graph *graph,
                                 struct remat_fb_tables *out)
{
    remat_status st = REMAT_OK;
    uint32_t *ids;
    REMAT_NEW(w->scratch, ids, graph->scope_count);
    for (uint32_t i = 0; i < graph->scope_count; i++) {
        struct remat_fb_graph_Scope in = {0};
        COPY_TEXT(graph->scopes[i].path, path);
        ids[i] = remat_fb_write_graph_Scope(w->builder, &in);
    }
    *out = (struct remat_fb_tables){ids, graph->scope_count};
fail:
    return st;
}

static remat_status write_values(struct remat_writer *w, const struct remat_graph *graph,
                                 struct remat_fb_tables *out)
{
    remat_status st = REMAT_OK;
    uint32_t *ids;
    REMAT_NEW(w->scratch, ids, graph->value_count);
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const struct remat_value_info *from = &graph->values[i];
        struct remat_fb_graph_Value in = {.dtype = (uint8_t)from->dtype,
                                          .role = from->role,
                                          .pin = from->pin,
                                          .shape = {from->shape.dims, from->shape.rank},
                                          .initializer = from->initializer,
                                          .trainable = from->trainable,
                                          .init_mean = from->init_mean,
                                          .init_std = from->init_std};
        COPY_TEXT(from->name, name);
        ids[i] = remat_fb_write_graph_Value(w->builder, &in);
    }
    *out = (struct remat_fb_tables){ids, graph->value_count};
fail:
    return st;
}

static remat_status write_attributes(struct remat_writer *w, const struct remat_node_info *node,
                                     struct remat_fb_tables *out)
{
    remat_status st = REMAT_OK;
    uint32_t *ids;
    REMAT_NEW(w->scratch, ids, node->attribute_count);
    for (uint32_t a = 0; a < node->attribute_count; a++) {
        const struct remat_attribute *from = &node->attributes[a];
        struct remat_fb_graph_Attribute in = {.kind = from->kind};
        if (from->kind == REMAT_ATTRIBUTE_INT)
            in.i = from->i;
        else if (from->kind == REMAT_ATTRIBUTE_FLOAT)
            in.f = from->f;
        else
            in.ints = (struct remat_fb_array){from->ints, from->count};
        COPY_TEXT(from->key, key);
        ids[a] = remat_fb_write_graph_Attribute(w->builder, &in);
    }
    *out = (struct remat_fb_tables){ids, node->attribute_count};
fail:
    return st;
}

static remat_status write_nodes(struct remat_writer *w, const struct remat_graph *graph,
                                const int32_t index[REMAT_OP_COUNT], struct remat_fb_tables *out)
{
    _Static_assert(sizeof(remat_value) == sizeof(int32_t), "ids are written as they are");
    remat_status st = REMAT_OK;
    uint32_t *ids;
    REMAT_NEW(w->scratch, ids, graph->node_count);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_node_info *from = &graph->nodes[n];
        struct remat_fb_graph_Node in = {
            .op = index[from->op],
            .inputs = {from->inputs, from->input_count},
            .outputs = {from->outputs, from->output_count},
            .scope = (int32_t)from->scope,
            .phase = from->phase,
            .origin = from->origin == from->op ? -1 : index[from->origin],
            .origin_group = from->origin_group == n ? -1 : (int32_t)from->origin_group,
            .instance = from->instance};
        REMAT_TRY(write_attributes(w, from, &in.attributes));
        ids[n] = remat_fb_write_graph_Node(w->builder, &in);
    }
    *out = (struct remat_fb_tables){ids, graph->node_count};
fail:
    return st;
}

static remat_status write_updates(struct remat_writer *w, const struct remat_graph *graph,
                                  struct remat_fb_array *out)
{
    remat_status st = REMAT_OK;
    struct remat_fb_update *updates;
    REMAT_NEW(w->scratch, updates, graph->update_count);
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
                                          .clip_norm = from->clip_norm};
    REMAT_NEW(w->scratch, ids, 1);
    ids[0] = remat_fb_write_graph_Optimizer(w->builder, &in);
    *out = (struct remat_fb_tables){ids, 1};
fail:
    return st;
}

static remat_status write_graph(struct remat_writer *w, const void *what,
                                enum remat_fb_result *result, const void **data, size_t *bytes)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *graph = what;
    int32_t index[REMAT_OP_COUNT];
    struct remat_fb_graph_Graph in = {.format_version = REMAT_FORMAT_VERSION,
                                      .min_reader_version = REMAT_FORMAT_VERSION,
                                      .outputs = {graph->outputs, graph->output_count}};
    COPY_TEXT("remat", producer);
    COPY_TEXT(graph->name, name);
    REMAT_TRY(write_opcodes(w, graph, index, &in.opcodes));
    REMAT_TRY(write_symbols(w, graph, &in.symbols));
    REMAT_TRY(write_scopes(w, graph, &in.scopes));
    REMAT_TRY(write_values(w, graph, &in.values));
    REMAT_TRY(write_nodes(w, graph, index, &in.nodes));
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
