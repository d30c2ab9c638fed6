/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts go forward through the graph, backward pass included: from the layouts of its inputs,
 * the rule of a node's op says in which layout it reads each, and in which its results are. A
 * parameter has the layout that its first reader asks for. Where the graph states none, only two
 * ops begin to split: embedding, the rows of its table; and matmul, the columns of a parameter
 * whose product lies within what layers pass on to each other, or is logits. All else follows: a
 * product over split columns is unfinished, and is finished where an op is not linear: whole or,
 * with sequence parallelism, split over tokens. A split over tokens gives way to any other one. */
#include "layout_finder.h"

#include "rebuild.h"

/* Layers pass on bottlenecks: values that every path from an input to the loss goes through. */
static void find_bottlenecks(struct layout_finder *f)
{
    const struct remat_graph *graph = f->graph;
    struct remat_tree ways;
    remat_value loss =
        graph->output_count ? remat_first_result(graph, graph->outputs[0]) : REMAT_NO_VALUE;
    remat_find_post_dominators(f->arena, graph, loss, &ways);
    REMAT_NEW(f->arena, f->bottleneck, graph->node_count);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        remat_value at = {ways.parent[v]};
        if (graph->values[v].role != REMAT_ROLE_INPUT)
            continue;
        for (; !remat_is_none(at.i) && !f->bottleneck[remat_producer(graph, at).i];
             at.i = ways.parent[at.i])
            f->bottleneck[remat_producer(graph, at).i] = true;
    }
}

static bool is_open(const struct remat_value_info *info)
{
    return remat_is_none(info->node.i) && remat_dtype_is_float(info->dtype) &&
           (info->role == REMAT_ROLE_PARAMETER || info->role == REMAT_ROLE_OPTIMIZER_STATE ||
            info->role == REMAT_ROLE_GRADIENT);
}

static remat_status (*const rules[])(struct layout_finder *, const struct layout_rule *) = {
#define REMAT_LAYOUT_RULE(name) [REMAT_RULE_##name] = remat_layout_rule_##name,
#include "layout_rules.def"
#undef REMAT_LAYOUT_RULE
};

/* An open parameter becomes what its first reader, or a view, wants, if it can be. */
static remat_status resolve(struct layout_finder *f, remat_value v, struct remat_layout want)
{
    const struct remat_value_info *info = &f->graph->values[f->root[v.i].i];
    struct remat_place place;
    struct remat_layout *layout = layout_of(f, v);
    if (layout->kind != REMAT_LAYOUT_OPEN)
        return REMAT_OK;
    if (want.kind == REMAT_LAYOUT_SPLIT &&
        !remat_layout_place(&info->shape, want, f->ranks, &place))
        return remat_layout_refuse(f, f->root[v.i], info->shape.rank - 1);
    *layout = want.kind == REMAT_LAYOUT_COPIES ? whole : want;
    return REMAT_OK;
}

static bool equal(struct remat_layout a, struct remat_layout b)
{
    return a.kind == b.kind && a.run == b.run;
}

/* A view or cast of a parameter that is open, or was until the graph stated its layout, is the
 * same; the graph may state it of the view. */
static remat_status follow_root(struct layout_finder *f, const struct remat_node_info *node,
                                bool *out)
{
    *out = false;
    if (node->op != REMAT_OP_reshape && node->op != REMAT_OP_cast)
        return REMAT_OK;
    remat_value root = f->root[node->inputs[0].i], y = node->outputs[0];
    bool was_open = is_open(&f->graph->values[root.i]) && is_stated(f, root);
    struct remat_layout stated = f->stated[y.i];
    stated.tokens = false;
    *out = was_open || f->layouts->of[root.i].kind == REMAT_LAYOUT_OPEN;
    if (!*out)
        return REMAT_OK;
    f->root[y.i] = root;
    if (!is_stated(f, y))
        return REMAT_OK;
    REMAT_CHECK(resolve(f, y, stated));
    return equal(f->layouts->of[root.i], stated)
               ? REMAT_OK
               : remat_layout_contradict(f, y, f->layouts->of[root.i], root);
}

/* Another operand that a node reads split, else its result. */
static remat_value find_other(const struct layout_rule *r, remat_value v)
{
    for (uint32_t k = 0; k < r->node->input_count; k++)
        if (r->node->inputs[k].i != v.i && r->want[k].kind == REMAT_LAYOUT_SPLIT)
            return r->node->inputs[k];
    return r->node->outputs[0];
}

static remat_status resolve_input(struct layout_finder *f, const struct layout_rule *r, uint32_t k)
{
    remat_value v = r->node->inputs[k], root = f->root[v.i];
    if (remat_is_none(remat_producer(f->graph, root).i) && !f->read[root.i])
        REMAT_CHECK(remat_layout_check_stated(f, root, r->want[k], find_other(r, v)));
    f->read[root.i] = true;
    return resolve(f, v, r->want[k]);
}

static remat_status resolve_output(struct layout_finder *f, const struct layout_rule *r, uint32_t k)
{
    remat_value v = r->node->outputs[k], parameter = f->parameters[v.i];
    struct remat_layout *of = &f->layouts->of[v.i];
    f->layouts->made[v.i] = *of = r->out[k];
    if (!remat_is_none(parameter.i)) {
        *of = *layout_of(f, parameter);
        if (is_stated(f, v) && !equal(*of, f->stated[v.i]))
            return remat_layout_contradict(f, v, *of, parameter);
    } else if (is_stated(f, v) && !equal(*of, f->stated[v.i])) {
        *of = f->stated[v.i];
        return remat_layout_check_stated(f, v, r->out[k], find_other(r, v));
    }
    return REMAT_OK;
}

static remat_status visit(struct layout_finder *f, remat_node n)
{
    const struct remat_node_info *node = &f->graph->nodes[n.i];
    struct remat_layout *out, *want;
    bool follows;
    REMAT_NEW(f->arena, out, node->output_count);
    REMAT_NEW(f->arena, want, node->input_count);
    f->layouts->wanted[n.i] = want;
    REMAT_CHECK(follow_root(f, node, &follows));
    if (follows)
        return REMAT_OK;
    const struct layout_rule rule = {node, want, out};
    for (uint32_t k = 0; k < node->input_count; k++)
        want[k] = whole;
    for (uint32_t k = 0; k < node->output_count; k++)
        out[k] = whole;
    REMAT_CHECK(rules[remat_op_info(node->op)->layout](f, &rule));
    for (uint32_t k = 0; k < node->input_count; k++)
        REMAT_CHECK(resolve_input(f, &rule, k));
    for (uint32_t k = 0; k < node->output_count; k++)
        REMAT_CHECK(resolve_output(f, &rule, k));
    return REMAT_OK;
}

/* Makes whole what is still open: parameters, and readers' layouts of them. */
static remat_status close_all(struct layout_finder *f)
{
    struct remat_place place;
    for (uint32_t v = 0; v < f->graph->value_count; v++)
        if (f->layouts->of[f->root[v].i].kind == REMAT_LAYOUT_OPEN)
            f->layouts->of[f->root[v].i] = whole;
    for (remat_value v = {0}; v.i < f->graph->value_count; v.i++) {
        struct remat_layout layout = f->layouts->of[f->root[v.i].i];
        if (f->root[v.i].i == v.i)
            continue;
        if (layout.kind == REMAT_LAYOUT_SPLIT &&
            !remat_layout_place(shape_of(f, v), layout, f->ranks, &place))
            return remat_layout_refuse(f, v, shape_of(f, v)->rank ? shape_of(f, v)->rank - 1 : 0);
        f->layouts->of[v.i] = f->layouts->made[v.i] = layout;
    }
    for (uint32_t n = 0; n < f->graph->node_count; n++)
        for (uint32_t k = 0; k < f->graph->nodes[n].input_count; k++)
            if (f->layouts->wanted[n][k].kind == REMAT_LAYOUT_OPEN)
                f->layouts->wanted[n][k] = f->layouts->of[f->graph->nodes[n].inputs[k].i];
    return REMAT_OK;
}

remat_status remat_layouts_find(struct remat_arena *arena, const struct remat_graph *graph,
                                const char *axis, bool sequence_parallel, struct remat_layouts *out)
{
    struct layout_finder f = {.arena = arena,
                              .graph = graph,
                              .layouts = out,
                              .axis = axis,
                              .sequence_parallel = sequence_parallel};
    f.ranks = remat_mesh_size(&graph->mesh, axis);
    f.uses = remat_count_uses(arena, graph);
    f.parameters = remat_gradients_find(arena, graph);
    REMAT_NEW(arena, f.root, graph->value_count);
    REMAT_NEW(arena, f.walk_of, graph->value_count);
    REMAT_NEW(arena, out->of, graph->value_count);
    REMAT_NEW(arena, out->made, graph->value_count);
    REMAT_NEW(arena, out->wanted, graph->node_count);
    REMAT_CHECK(remat_layout_check_tokens(&f));
    REMAT_CHECK(remat_layout_read_stated(&f));
    f.readers = remat_find_readers(arena, graph, NULL);
    find_bottlenecks(&f);
    for (remat_value v = {0}; v.i < graph->value_count; v.i++) {
        f.root[v.i] = v;
        out->of[v.i] = is_stated(&f, v)               ? f.stated[v.i]
                       : is_open(&graph->values[v.i]) ? (struct remat_layout){0}
                                                      : whole;
        out->made[v.i] = whole;
    }
    for (uint32_t o = 0; o < graph->output_count; o++)
        if (remat_is_none(remat_producer(graph, graph->outputs[o]).i))
            out->of[graph->outputs[o].i] = whole;
    for (remat_node n = {0}; n.i < graph->node_count; n.i++)
        REMAT_CHECK(visit(&f, n));
    if (sequence_parallel && !f.scatters)
        return remat_error(arena->ctx, REMAT_ERROR_INVALID,
                           "--sequence-parallel: no sum over the %lld ranks along %s has a number "
                           "of tokens that they divide",
                           (long long)f.ranks, axis);
    REMAT_CHECK(close_all(&f));
    for (remat_node n = {graph->node_count}; n.i-- > 0;)
        remat_layout_narrow(&f, n);
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (is_open(&graph->values[v]))
            out->made[v] = out->of[v];
    return REMAT_OK;
}
