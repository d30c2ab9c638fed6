/* SPDX-License-Identifier: Apache-2.0 */
/* Divides what layers compute among the ranks along "tp" (layout.h says how), and inserts the
 * transfers that bring values from the layout in which they are computed to those in which they are
 * read. A node becomes itself on this rank's part of its operands. */
#include "builder.h"
#include "divider.h"
#include "rebuild.h"

/* The attributes that name lengths, of this rank's part. */
static const struct remat_attribute *attributes_here(struct divider *d,
                                                     const struct remat_node_info *node)
{
    struct remat_attribute *out =
        remat_copy(d->r.arena, node->attributes, node->attribute_count, sizeof *node->attributes);
    remat_value y = node->outputs[0];
    struct remat_layout layout = d->layouts.made[y.i];
    struct remat_shape *shape = remat_array(d->r.arena, 1, sizeof *shape);
    struct remat_place place;
    if (!remat_layout_place(&d->r.from->values[y.i].shape, layout, d->ranks, &place))
        return out;
    *shape = remat_divide_shape(d, y);
    bool cut = remat_node_int(node, "axis", -1) == place.axis;
    for (uint32_t k = 0; k < node->attribute_count; k++) {
        const char *key = out[k].key;
        bool is_length =
            strcmp(key, "begin") == 0 || strcmp(key, "end") == 0 || strcmp(key, "length") == 0;
        if (strcmp(key, "shape") == 0)
            out[k].ints = shape->dims;
        else if ((is_length && cut) || (strcmp(key, "rows") == 0 && place.axis == 0))
            out[k].i /= d->ranks;
    }
    return out;
}

/* The node as it is, on other operands. */
static void copy_node(struct divider *d, const struct remat_node_info *old, remat_value *inputs)
{
    struct remat_node_info node = *old;
    remat_value *outputs;
    REMAT_NEW(d->r.arena, outputs, old->output_count);
    for (uint32_t k = 0; k < old->output_count; k++) {
        struct remat_value_info info = d->r.from->values[old->outputs[k].i];
        info.shape = remat_divide_shape(d, old->outputs[k]);
        outputs[k] = remat_graph_add_value(d->r.arena, d->r.to, &info);
        d->r.values[old->outputs[k].i] = outputs[k];
    }
    node.inputs = inputs;
    node.outputs = outputs;
    node.attributes = attributes_here(d, old);
    node.origin_group = remat_rebuild_group(&d->r, old->origin_group);
    remat_graph_append_node(d->r.arena, d->r.to, &node);
}

/* 1 for the rows of other ranks' ids, else 0, in f32, with a last axis of length 1. */
static remat_value others(struct divider *d, remat_value ids, int64_t count)
{
    struct remat_builder *b = &d->b;
    struct remat_shape shape = b->graph->values[ids.i].shape;
    remat_value first = remat_divide_first_of(d, count);
    remat_value last =
        remat_build2(b, REMAT_OP_add, first, remat_build_constant(b, (double)(count - 1)));
    shape.dims[shape.rank++] = 1;
    ids = remat_build_reshape(b, ids, shape.dims, shape.rank);
    return remat_build2(b, REMAT_OP_maximum, remat_build2(b, REMAT_OP_less, ids, first),
                        remat_build2(b, REMAT_OP_less, last, ids));
}

static remat_value without_others(struct divider *d, remat_value x, remat_value ids, int64_t count)
{
    struct remat_builder *b = &d->b;
    remat_value zero = remat_build_constant(b, 0), wide = remat_build_cast(b, x, REMAT_F32);
    return remat_build_like(b, remat_build3(b, REMAT_OP_select, others(d, ids, count), zero, wide),
                            x);
}

static remat_value own_ids(struct divider *d, remat_value ids, int64_t rows)
{
    const struct remat_attribute count = remat_attribute_int("count", rows);
    const remat_value inputs[] = {ids, remat_divide_coordinate(d)};
    return remat_build(&d->b, REMAT_OP_own_ids, inputs, 2, &count, 1, NULL);
}

static bool splits_rows(const struct divider *d, remat_value table, struct remat_layout layout)
{
    struct remat_place place;
    return remat_layout_place(&d->r.from->values[table.i].shape, layout, d->ranks, &place) &&
           place.axis == 0;
}

/* Rows that other ranks have are 0, so that all ranks' results add up. */
static void look_up(struct divider *d, const struct remat_node_info *node, remat_value *inputs)
{
    remat_value ids = inputs[1], y = node->outputs[0];
    int64_t rows = d->b.graph->values[inputs[0].i].shape.dims[0];
    d->b.prefix = REMAT_FORMAT(d->r.arena, "%s.own", d->r.from->values[y.i].name);
    d->b.counter = 0;
    inputs[1] = own_ids(d, ids, rows);
    remat_value found = remat_build(&d->b, REMAT_OP_embedding, inputs, 2, NULL, 0, NULL);
    remat_divide_stand_for(d, y, without_others(d, found, ids, rows));
}

/* dout of other ranks' ids is added as 0. */
static void scatter(struct divider *d, const struct remat_node_info *node, remat_value *inputs)
{
    uint32_t k = node->op == REMAT_OP_embedding_accumulate;
    struct remat_shape table = remat_divide_shape(d, node->outputs[0]);
    d->b.prefix = REMAT_FORMAT(d->r.arena, "%s.own", d->r.from->values[node->outputs[0].i].name);
    d->b.counter = 0;
    remat_value ids = inputs[k + 1];
    inputs[k + 1] = own_ids(d, ids, table.dims[0]);
    inputs[k] = without_others(d, inputs[k], ids, table.dims[0]);
    copy_node(d, node, inputs);
}

/* Columns of this rank begin where those of the ranks before it end. */
static void count_columns(struct divider *d, const struct remat_node_info *node,
                          remat_value *inputs)
{
    remat_value y = node->outputs[0];
    const struct remat_shape *shape = &d->r.from->values[y.i].shape;
    struct remat_layout layout = d->layouts.made[y.i];
    struct remat_place place;
    if (!remat_layout_place(shape, layout, d->ranks, &place) || place.axis + 1 < shape->rank) {
        copy_node(d, node, inputs);
        return;
    }
    d->b.prefix = REMAT_FORMAT(d->r.arena, "%s.own", d->r.from->values[y.i].name);
    d->b.counter = 0;
    remat_value first = remat_divide_first_of(d, place.width);
    remat_value column = remat_build1(&d->b, REMAT_OP_column, inputs[0]);
    remat_divide_stand_for(d, y, remat_build2(&d->b, REMAT_OP_add, column, first));
}

/* Attention with dropout, in parts. */
static bool drops_heads(const struct divider *d, const struct remat_node_info *node)
{
    bool attends = node->op == REMAT_OP_attention || node->op == REMAT_OP_attention_backward;
    return attends && remat_node_number(node, "p") != 0 &&
           d->layouts.made[node->outputs[0].i].kind == REMAT_LAYOUT_SPLIT;
}

/* Where a result is not read as its node makes it: a gradient has its parameter's layout, and
 * others may have one that the graph states. */
static void convert_result(struct divider *d, remat_value old)
{
    struct remat_layout made = d->layouts.made[old.i], wanted = d->layouts.of[old.i];
    const struct remat_value_info *info = &d->r.from->values[old.i];
    bool is_gradient = info->role == REMAT_ROLE_GRADIENT;
    remat_value x = d->r.values[old.i];
    if (remat_divide_equal(made, wanted))
        return;
    struct remat_value_info *term = &d->r.to->values[x.i];
    term->name = REMAT_FORMAT(d->r.arena, "%s.%s", info->name, is_gradient ? "term" : "made");
    term->role = REMAT_ROLE_ACTIVATION;
    term->pin = REMAT_PIN_NONE;
    if (remat_divide_is_pooled(d, old, made)) {
        remat_divide_pool(d, old, x);
        return;
    }
    d->layouts.of[old.i] = made;
    x = remat_divide_read(d, old, wanted);
    d->layouts.of[old.i] = wanted;
    if (is_gradient && remat_op_has(remat_producer_info(d->r.to, x)->op, REMAT_FACT_VIEW))
        x = remat_divide_concat(d, &x, 1); /* a command writes it */
    d->r.to->values[x.i].name = info->name;
    d->r.to->values[x.i].role = info->role;
    d->r.to->values[x.i].pin = info->pin;
    d->r.values[old.i] = x;
}

static void divide_node(struct divider *d, remat_node n)
{
    const struct remat_node_info *node = &d->r.from->nodes[n.i];
    const struct remat_layout *wanted = d->layouts.wanted[n.i];
    remat_value *inputs = remat_array(d->r.arena, node->input_count, sizeof *inputs);
    const struct remat_shape here = remat_divide_shape(d, node->outputs[0]);
    bool reads_table = node->op == REMAT_OP_embedding;
    bool adds_rows =
        node->op == REMAT_OP_embedding_backward || node->op == REMAT_OP_embedding_accumulate;
    d->b.scope = node->scope;
    d->b.phase = node->phase;
    if (node->op == REMAT_OP_cast &&
        remat_divide_is_pooled(d, node->outputs[0], d->layouts.of[node->inputs[0].i])) {
        remat_divide_pool(d, node->outputs[0],
                          d->r.values[node->inputs[0].i]); /* rounded when it is a sum */
        return;
    }
    for (uint32_t k = 0; k < node->input_count; k++) {
        inputs[k] = remat_divide_read(d, node->inputs[k], wanted[k]);
        if (wanted[k].kind == REMAT_LAYOUT_COPIES)
            inputs[k] = remat_build_reshape(&d->b, inputs[k], here.dims, here.rank);
    }
    if (reads_table && splits_rows(d, node->inputs[0], wanted[0]))
        look_up(d, node, inputs);
    else if (adds_rows && splits_rows(d, node->outputs[0], d->layouts.made[node->outputs[0].i]))
        scatter(d, node, inputs);
    else if (drops_heads(d, node))
        remat_divide_attention(d, node, inputs);
    else if (node->op == REMAT_OP_column)
        count_columns(d, node, inputs);
    else if (node->op == REMAT_OP_random &&
             d->layouts.made[node->outputs[0].i].kind != REMAT_LAYOUT_WHOLE)
        remat_divide_random(d, node, inputs[0]);
    else
        copy_node(d, node, inputs);
    for (uint32_t k = 0; k < node->output_count; k++)
        convert_result(d, node->outputs[k]);
}

/* --- the whole --- */

/* Of a value that the host gives whole, but that the graph states as split. */
static void take_part(struct divider *d, remat_value old)
{
    struct remat_layout wanted = d->layouts.of[old.i];
    d->layouts.of[old.i] = d->layouts.made[old.i];
    d->r.values[old.i] = remat_divide_read(d, old, wanted);
    d->layouts.of[old.i] = wanted;
}

/* Parameters, values that are named after them, and inputs. */
static void divide_inputs(struct divider *d)
{
    const struct remat_graph *from = d->r.from;
    for (remat_value v = {0}; v.i < from->value_count; v.i++) {
        struct remat_layout layout = d->layouts.of[v.i];
        if (!remat_is_none(from->values[v.i].node.i) || layout.kind != REMAT_LAYOUT_SPLIT)
            continue;
        if (d->layouts.made[v.i].kind != REMAT_LAYOUT_SPLIT) {
            take_part(d, v);
            continue;
        }
        (void)remat_divide_coordinate(d); /* initial values need it */
        struct remat_value_info *here = &d->r.to->values[d->r.values[v.i].i];
        here->shape = remat_layout_shape(&here->shape, layout, d->ranks);
    }
}

static void mark_parts(struct divider *d)
{
    for (uint32_t v = 0; v < d->r.from->value_count; v++)
        if (d->layouts.of[v].kind == REMAT_LAYOUT_SPLIT)
            remat_divide_mark_part(d, (remat_value){v}, d->layouts.of[v], d->r.values[v]);
}

/* Outputs are whole, new versions of states as these are. */
static void finish_outputs(struct divider *d)
{
    const struct remat_layout whole = {.kind = REMAT_LAYOUT_WHOLE};
    const struct remat_graph *from = d->r.from;
    for (uint32_t o = 0; o < from->output_count; o++) {
        remat_value old = from->outputs[o], x = d->r.values[old.i];
        if (remat_divide_equal(d->layouts.of[old.i], whole))
            continue;
        d->b.scope = remat_producer_info(from, old)->scope;
        d->b.phase = remat_producer_info(from, old)->phase;
        d->r.to->values[x.i].name = REMAT_FORMAT(d->r.arena, "%s.term", from->values[old.i].name);
        d->r.to->values[x.i].role = REMAT_ROLE_ACTIVATION;
        x = remat_divide_read(d, old, whole);
        d->r.to->values[x.i].name = from->values[old.i].name;
        d->r.to->values[x.i].role = from->values[old.i].role;
        d->r.values[old.i] = x;
    }
}

static bool states_any(const struct remat_graph *graph)
{
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (graph->values[v].stated)
            return true;
    return false;
}

/* What the graph states has been done, or is for another mesh. */
static remat_status finish(struct remat_graph *graph, struct remat_graph **out)
{
    for (uint32_t v = 0; v < graph->value_count; v++)
        graph->values[v].stated = NULL;
    *out = graph;
    return REMAT_OK;
}

REMAT_PASS(tensor_parallel)
{
    struct divider d = {.ranks = remat_mesh_size(&graph->mesh, REMAT_DIVIDE_AXIS)};
    if (!remat_graph_is_undivided(graph, REMAT_DIVIDE_AXIS))
        return states_any(graph) ? finish(remat_graph_copy(arena, graph, 1), out)
                                 : remat_pass_nothing(graph, out);
    if (graph->update_count)
        return remat_error(arena->ctx, REMAT_ERROR_INVALID,
                           "the graph updates \"%s\": a step that updates by itself is not divided "
                           "along " REMAT_DIVIDE_AXIS,
                           graph->values[graph->updates[0].state.i].name);
    REMAT_CHECK(remat_layouts_find(arena, graph, REMAT_DIVIDE_AXIS, settings->sequence_parallel,
                                   &d.layouts));
    d.r = remat_rebuild_begin(arena, graph, 1);
    d.b = (struct remat_builder){.arena = arena, .graph = d.r.to};
    d.coordinate = d.number = d.rng = REMAT_NO_VALUE;
    memset(d.entries, 0xff, sizeof d.entries);
    d.uses = remat_count_uses(arena, graph);
    REMAT_NEW(arena, d.parts, graph->value_count);
    REMAT_NEW(arena, d.readings, graph->value_count);
    divide_inputs(&d);
    for (remat_node n = {0}; n.i < graph->node_count; n.i++)
        divide_node(&d, n);
    remat_divide_empty_pool(&d);
    mark_parts(&d);
    finish_outputs(&d);
    return finish(remat_rebuild_finish(&d.r), out);
}
