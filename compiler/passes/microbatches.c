/* SPDX-License-Identifier: Apache-2.0 */
/* One step as several microbatches, whose gradients are averaged.
 *
 * The index of the microbatch is a state that the graph counts itself, so its commands never
 * change. Parts of the batch come first and stand for the inputs; each gradient and each output is
 * followed by its accumulation. Microbatch 0 sets an accumulator, so nothing has to clear it. */
#include "rebuild.h"

struct divider {
    struct remat_rebuild r;
    struct remat_builder b;
    int64_t count;
    remat_value index, first; /* first: 1 in microbatch 0, else 0 */
    bool *accumulated;        /* by old value: a gradient or an output */
};

static const char *suffixed(struct divider *d, const char *name, const char *suffix)
{
    return REMAT_FORMAT(d->r.arena, "%s.%s", name, suffix);
}

static void add_update(struct divider *d, remat_value state, remat_value value)
{
    d->r.to->updates[d->r.to->update_count++] = (struct remat_update){state, value};
}

/* --- before the nodes --- */

static void add_index(struct divider *d)
{
    struct remat_builder *b = &d->b;
    d->index = remat_add_input(b, "microbatch", REMAT_I32, (struct remat_shape){1, {1}},
                               REMAT_ROLE_OPTIMIZER_STATE);
    b->prefix = "microbatch";
    b->name = "microbatch.first";
    d->first = remat_build2(b, REMAT_OP_equal, d->index, remat_build_constant(b, 0));
}

/* The input gets the whole batch; what reads it reads its part. */
static remat_status divide(struct divider *d, uint32_t v)
{
    struct remat_value_info *whole = &d->r.to->values[d->r.values[v].i];
    const struct remat_attribute count = remat_attribute_int("count", d->count);
    const remat_value inputs[] = {d->r.values[v], d->index};
    int64_t *batch = &whole->shape.dims[0];
    if (whole->shape.rank == 0 || __builtin_mul_overflow(*batch, d->count, batch))
        return remat_error(d->r.arena->ctx, REMAT_ERROR_INVALID,
                           "input \"%s\": no batch of %lld microbatches", whole->name,
                           (long long)d->count);
    d->b.name = suffixed(d, whole->name, "part");
    d->r.values[v] = remat_build(&d->b, REMAT_OP_batch_slice, inputs, 2, &count, 1, NULL);
    return REMAT_OK;
}

/* The random state as the host wrote it, but for the last word. */
static void count_random(struct divider *d, uint32_t v)
{
    const struct remat_attribute box[] = {remat_attribute_int("axis", 0),
                                          remat_attribute_int("begin", 0),
                                          remat_attribute_int("end", 3)};
    const struct remat_attribute axis = remat_attribute_int("axis", 0);
    const char *name = d->r.from->values[v].name;
    remat_value parts[] = {remat_build(&d->b, REMAT_OP_slice, &d->r.values[v], 1, box, 3, NULL),
                           d->index};
    d->b.name = suffixed(d, name, "part");
    d->r.values[v] = remat_build(&d->b, REMAT_OP_concat, parts, 2, &axis, 1, NULL);
}

/* random[v]: some node takes input v as the state of its random numbers, its last operand. */
static void find_random(const struct remat_graph *graph, bool *random)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[n];
        if (!remat_op_has(node->op, REMAT_FACT_RANDOM) || node->input_count == 0)
            continue;
        remat_value last = node->inputs[node->input_count - 1];
        const struct remat_value_info *info = &graph->values[last.i];
        random[last.i] |= info->dtype == REMAT_I32 && remat_is_none(info->node);
    }
}

static remat_status divide_inputs(struct divider *d)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *from = d->r.from;
    bool *random;
    REMAT_NEW(d->r.arena, random, from->value_count);
    find_random(from, random);
    for (uint32_t v = 0; v < from->value_count && st == REMAT_OK; v++)
        if (random[v])
            count_random(d, v);
        else if (remat_is_none(from->values[v].node) && from->values[v].batched)
            st = divide(d, v);
    return st;
}

/* --- after a node --- */

/* The accumulator takes over name and role of what it averages. */
static void accumulate(struct divider *d, remat_value old)
{
    struct remat_builder *b = &d->b;
    const struct remat_value_info info = d->r.from->values[old.i];
    remat_value part = d->r.values[old.i], first = d->first;
    b->scope = d->r.from->nodes[info.node].scope;
    b->phase = d->r.from->nodes[info.node].phase;
    b->prefix = suffixed(d, info.name, "mean");
    b->counter = 0;
    remat_value state = remat_add_input(b, info.name, REMAT_F32, info.shape, info.role);
    d->r.to->values[part.i].name = suffixed(d, info.name, "part");
    d->r.to->values[part.i].role = REMAT_ROLE_ACTIVATION;
    part = remat_build_cast(b, part, REMAT_F32);
    part = remat_build2(b, REMAT_OP_mul, part, remat_build_constant(b, 1.0 / (double)d->count));
    if (info.shape.rank == 0)
        first = remat_build_reshape(b, first, NULL, 0);
    remat_value sum = remat_build2(b, REMAT_OP_add, state, part);
    sum = remat_build3(b, REMAT_OP_select, first, part, sum);
    b->name = suffixed(d, info.name, "next");
    remat_value next = remat_build2(b, REMAT_OP_assign, state, sum);
    d->r.to->values[next.i].role = info.role;
    add_update(d, state, next);
}

static void divide_nodes(struct divider *d)
{
    const struct remat_graph *from = d->r.from;
    for (uint32_t n = 0; n < from->node_count; n++) {
        const struct remat_node_info *node = &from->nodes[n];
        remat_rebuild_copy(&d->r, n);
        for (uint32_t k = 0; k < node->output_count; k++)
            if (d->accumulated[node->outputs[k].i])
                accumulate(d, node->outputs[k]);
    }
}

/* --- the whole --- */

static remat_status find_accumulated(struct divider *d)
{
    const struct remat_graph *from = d->r.from;
    uint32_t count = 1; /* the index */
    if (from->update_count)
        return remat_error(
            d->r.arena->ctx, REMAT_ERROR_INVALID,
            "the graph updates \"%s\": a step that updates by itself has no microbatches",
            from->values[from->updates[0].state.i].name);
    REMAT_NEW(d->r.arena, d->accumulated, from->value_count);
    for (uint32_t o = 0; o < from->output_count; o++) {
        const struct remat_value_info *info = &from->values[from->outputs[o].i];
        if (info->dtype != REMAT_F32 || remat_shape_elements(&info->shape) != 1 ||
            remat_is_none(info->node))
            return remat_error(
                d->r.arena->ctx, REMAT_ERROR_INVALID,
                "output \"%s\" is not one computed f32 element, which microbatches average",
                info->name);
        d->accumulated[from->outputs[o].i] = true;
    }
    for (uint32_t v = 0; v < from->value_count; v++) {
        d->accumulated[v] |= from->values[v].role == REMAT_ROLE_GRADIENT;
        count += d->accumulated[v];
        if (d->accumulated[v] && from->values[v].dtype == REMAT_I32)
            return remat_error(d->r.arena->ctx, REMAT_ERROR_INVALID,
                               "gradient \"%s\" is i32, which has no average",
                               from->values[v].name);
    }
    REMAT_NEW(d->r.arena, d->r.to->updates, count);
    return REMAT_OK;
}

static void advance(struct divider *d)
{
    const struct remat_graph *from = d->r.from;
    const struct remat_attribute count = remat_attribute_int("count", d->count);
    d->b.scope = 0;
    d->b.phase = from->nodes[from->node_count - 1].phase;
    d->b.name = "microbatch.next";
    remat_value next = remat_build(&d->b, REMAT_OP_advance, &d->index, 1, &count, 1, NULL);
    d->r.to->values[next.i].role = REMAT_ROLE_OPTIMIZER_STATE;
    add_update(d, d->index, next);
}

REMAT_PASS(microbatches)
{
    struct divider d = {.count = graph->microbatches};
    if (graph->microbatches < 2 || graph->node_count == 0) {
        *out = remat_graph_copy(arena, graph);
        return REMAT_OK;
    }
    d.r = remat_rebuild_begin(arena, graph);
    d.b = (struct remat_builder){.arena = arena, .graph = d.r.to, .phase = REMAT_PHASE_FORWARD};
    REMAT_CHECK(find_accumulated(&d));
    add_index(&d);
    REMAT_CHECK(divide_inputs(&d));
    divide_nodes(&d);
    advance(&d);
    *out = d.r.to;
    return REMAT_OK;
}
