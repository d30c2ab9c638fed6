/* SPDX-License-Identifier: Apache-2.0 */
/* One step in microbatches: a rank's one after the other, ranks at the same time. Rank r has
 * microbatches r M to r M + M - 1. Gradients and outputs are averaged over all of them, or summed:
 * added up in a state over a rank's M, then over the ranks.
 *
 * The session writes the number of the microbatch and the rank's coordinate into tensors, so
 * commands never change. A microbatch's rows come first and stand for the inputs; each gradient and
 * each output is followed by its average. Microbatch 0 sets an accumulator, so nothing has to clear
 * it.
 *
 * Over ranks a tensor is exchanged, so that each rank has its part of all ranks' tensors, added by
 * a kernel in rank order, and gathered; an output of one element is gathered first. With ZeRO a
 * gradient that the ranks divide is left in parts: the pass optimizer gathers parameters. With
 * ZeRO-3 accumulators are parts too: each microbatch's gradients are added up over the ranks first,
 * then over the microbatches. */
#include "builder.h"
#include "mesh.h"
#include "rebuild.h"

/* Of an average over all microbatches what one of them adds is a share; of a sum it is all.
 * "Average" is said of both. */

enum { PIECES_MAX = 16 }; /* as many as concat joins */

struct batch_divider {
    struct remat_rebuild r;
    struct remat_builder b;
    const struct remat_pass_settings *settings;
    int64_t microbatches, ranks, all; /* of a rank; the ranks; the product */
    remat_value number, first;        /* of the microbatch; first: 1 in microbatch 0, else 0 */
    remat_value place;                /* its number among all */
    double share;                     /* of what one adds in the average; 1 of a sum */
    bool scaled;                      /* what is averaged has been: it is a share of the average */
    bool *averaged, *sums;            /* by old value: a gradient or an output; it is summed */
    remat_value *means;               /* by old value, where there is one microbatch */
};

static const char *suffixed(struct batch_divider *d, const char *name, const char *suffix)
{
    return REMAT_FORMAT(d->r.arena, "%s.%s", name, suffix);
}

static void add_update(struct batch_divider *d, remat_value state, remat_value value)
{
    d->r.to->updates[d->r.to->update_count++] = (struct remat_update){state, value};
}

/* --- before the nodes --- */

static void add_number(struct batch_divider *d)
{
    struct remat_builder *b = &d->b;
    d->number = remat_add_input(b, REMAT_NUMBER_NAME, REMAT_I32, (struct remat_shape){1, {1}},
                                REMAT_ROLE_STEP_STATE);
    d->r.to->values[d->number.i].initializer = REMAT_INIT_NONE;
    b->prefix = REMAT_NUMBER_NAME;
    b->name = "microbatch.first";
    d->first = remat_build2(b, REMAT_OP_equal, d->number, remat_build_constant(b, 0));
}

static void add_place(struct batch_divider *d)
{
    const struct remat_attribute count = remat_attribute_int("count", d->microbatches);
    if (d->microbatches > 1)
        add_number(d);
    d->place = d->number;
    if (d->ranks == 1)
        return;
    d->place = remat_build_coordinate(&d->b, "dp");
    if (d->settings->zero) /* initial values of parts depend on it: the session writes it before */
        d->r.to->values[d->place.i].initializer = REMAT_INIT_NONE;
    if (d->microbatches == 1)
        return;
    const remat_value inputs[] = {d->place, d->number};
    d->b.name = "microbatch.part";
    d->place = remat_build(&d->b, REMAT_OP_part_number, inputs, 2, &count, 1, NULL);
}

/* The input gets the whole batch; what reads it reads the microbatch's rows. */
static remat_status divide(struct batch_divider *d, remat_value v)
{
    struct remat_value_info *whole = &d->r.to->values[d->r.values[v.i].i];
    const struct remat_attribute count = remat_attribute_int("count", d->all);
    const remat_value inputs[] = {d->r.values[v.i], d->place};
    int64_t *batch = &whole->shape.dims[0];
    if (whole->shape.rank == 0 || __builtin_mul_overflow(*batch, d->all, batch))
        return remat_error(d->r.arena->ctx, REMAT_ERROR_INVALID,
                           "input \"%s\": no batch of %lld microbatches", whole->name,
                           (long long)d->all);
    d->b.name = suffixed(d, whole->name, "part");
    d->r.values[v.i] = remat_build(&d->b, REMAT_OP_batch_slice, inputs, 2, &count, 1, NULL);
    return REMAT_OK;
}

/* The random state as the host wrote it, but for the last word. */
static void count_random(struct batch_divider *d, remat_value v)
{
    const struct remat_attribute box[] = {remat_attribute_int("axis", 0),
                                          remat_attribute_int("begin", 0),
                                          remat_attribute_int("end", 3)};
    const struct remat_attribute axis = remat_attribute_int("axis", 0);
    const char *name = d->r.from->values[v.i].name;
    remat_value rows[] = {remat_build(&d->b, REMAT_OP_slice, &d->r.values[v.i], 1, box, 3, NULL),
                          d->place};
    d->b.name = suffixed(d, name, "part");
    d->r.values[v.i] = remat_build(&d->b, REMAT_OP_concat, rows, 2, &axis, 1, NULL);
}

/* The input that a random state has its first words of. */
static remat_value find_state(const struct remat_graph *graph, remat_value state)
{
    const struct remat_node_info *node = remat_producer_info(graph, state);
    while (node && (node->op == REMAT_OP_concat ||
                    (node->op == REMAT_OP_slice && remat_node_int(node, "begin", 0) == 0))) {
        state = node->inputs[0];
        node = remat_producer_info(graph, state);
    }
    return state;
}

/* The input that is the state of a node's random numbers; REMAT_NONE: it draws none. */
static uint32_t find_rng(const struct remat_node_info *node)
{
    if (!remat_op_has(node->op, REMAT_FACT_RANDOM))
        return REMAT_NONE;
    bool named = remat_op_find_operand(node->op, "rng", strlen("rng")) != REMAT_NONE;
    return named ? remat_node_operand(node, "rng") : node->input_count - 1;
}

/* random[v]: some node takes input v as the state of its random numbers. */
static void find_random(const struct remat_graph *graph, bool *random)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const struct remat_node_info *node = &graph->nodes[n];
        uint32_t rng = find_rng(node);
        if (remat_is_none(rng))
            continue;
        remat_value last = find_state(graph, node->inputs[rng]);
        const struct remat_value_info *info = &graph->values[last.i];
        bool is_state = info->shape.rank == 1 && info->shape.dims[0] == 4;
        random[last.i] |= is_state && info->dtype == REMAT_I32 && remat_is_none(info->node.i);
    }
}

static remat_status divide_inputs(struct batch_divider *d)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *from = d->r.from;
    bool *random;
    REMAT_NEW(d->r.arena, random, from->value_count);
    find_random(from, random);
    for (remat_value v = {0}; v.i < from->value_count && st == REMAT_OK; v.i++)
        if (random[v.i])
            count_random(d, v);
        else if (remat_is_none(from->values[v.i].node.i) && from->values[v.i].batched)
            st = divide(d, v);
    return st;
}

/* --- states --- */

static remat_value add_state(struct batch_divider *d, const struct remat_value_info *of,
                             const char *name, uint8_t role)
{
    return remat_add_input(&d->b, name, REMAT_F32, of->shape, role);
}

static remat_value assign(struct batch_divider *d, remat_value state, remat_value value,
                          const char *name)
{
    uint8_t role = d->r.to->values[state.i].role;
    d->b.name = suffixed(d, name, "next");
    remat_value next = remat_build2(&d->b, REMAT_OP_assign, state, value);
    d->r.to->values[next.i].role = role;
    add_update(d, state, next);
    return next;
}

/* --- counts of the whole batch --- */

/* The whole input, of all microbatches, or slices of it. */
static remat_value build_ids(struct batch_divider *d, const struct remat_graph *graph,
                             remat_value ids)
{
    const struct remat_node_info *node = remat_producer_info(graph, ids);
    if (node)
        return remat_build_slice(&d->b, build_ids(d, graph, node->inputs[0]),
                                 (uint32_t)remat_node_int(node, "axis", 0),
                                 remat_node_int(node, "begin", 0), remat_node_int(node, "end", 0));
    remat_value input = {0};
    while (!remat_is_none(d->r.to->values[input.i].node.i) ||
           strcmp(d->r.to->values[input.i].name, graph->values[ids.i].name) != 0)
        input.i++;
    return input;
}

/* f32 [1]: row by row, then of the rows, so that a GPU counts rows at the same time. */
static remat_value build_count(struct batch_divider *d, const struct remat_counted *counted)
{
    struct remat_builder *b = &d->b;
    remat_value ids = build_ids(d, counted->graph, counted->ids), one = remat_build_constant(b, 1);
    remat_value ignored = remat_build_constant(b, (double)counted->ignored);
    remat_value zero = remat_build_constant(b, 0);
    ignored = remat_build2(b, REMAT_OP_equal, ids, ignored);
    remat_value each = remat_build3(b, REMAT_OP_select, ignored, zero, one);
    remat_value rows = remat_build1(b, REMAT_OP_row_sum, each);
    int64_t count = remat_shape_elements(&d->r.to->values[rows.i].shape);
    rows = remat_build_reshape(b, rows, (int64_t[]){1, count}, 2);
    return remat_build_reshape(b, remat_build1(b, REMAT_OP_row_sum, rows), (int64_t[]){1}, 1);
}

/* With several microbatches in a state, which is complete before the first of them. */
static void add_counts(struct batch_divider *d)
{
    const struct remat_graph *from = d->r.from;
    for (remat_value v = {0}; v.i < from->value_count; v.i++) {
        const struct remat_value_info *info = &from->values[v.i];
        if (!info->counted)
            continue;
        d->b.prefix = info->name;
        d->b.counter = 0;
        remat_value count = build_count(d, info->counted);
        if (d->microbatches > 1) {
            remat_value state = add_state(d, info, info->name, REMAT_ROLE_STEP_STATE);
            d->r.to->values[state.i].ahead = true;
            count = assign(d, state, count, info->name);
        }
        d->r.values[v.i] = count;
    }
}

/* --- after a node --- */

/* A microbatch's share of the average. */
static remat_value scale(struct batch_divider *d, remat_value one)
{
    struct remat_builder *b = &d->b;
    if (d->scaled)
        return one;
    one = remat_build_cast(b, one, REMAT_F32);
    if (d->share == 1)
        return one;
    return remat_build2(b, REMAT_OP_mul, one, remat_build_constant(b, d->share));
}

/* The sum over the microbatches, in a state. */
static remat_value accumulate(struct batch_divider *d, remat_value state, remat_value one,
                              const char *name)
{
    struct remat_builder *b = &d->b;
    remat_value first = d->first;
    if (d->r.to->values[state.i].shape.rank == 0)
        first = remat_build_reshape(b, first, NULL, 0);
    remat_value sum = remat_build2(b, REMAT_OP_add, state, one);
    return assign(d, state, remat_build3(b, REMAT_OP_select, first, one, sum), name);
}

/* Adds the rows of [ranks, ..], each in `shape`, in their order. */
static remat_value add_rows(struct batch_divider *d, remat_value rows,
                            const struct remat_shape *shape)
{
    struct remat_builder *b = &d->b;
    remat_value sum = REMAT_NO_VALUE;
    for (int64_t q = 0; q < d->ranks; q++) {
        remat_value row = remat_build_row(b, rows, q);
        row = remat_build_reshape(b, row, shape->dims, shape->rank);
        row = scale(d, row);
        sum = q == 0 ? row : remat_build2(b, REMAT_OP_add, sum, row);
    }
    return sum;
}

/* Over the ranks, of one element. */
static remat_value average_output(struct batch_divider *d, remat_value own,
                                  const struct remat_shape *shape)
{
    const struct remat_shape all = {1, {d->ranks}};
    own = remat_build_reshape(&d->b, own, (int64_t[]){1}, 1);
    return add_rows(d, remat_build_gather(&d->b, "dp", own, &all), shape);
}

/* The sums of a tensor's parts [ranks, c], in pieces [ranks, rows]: what one of them receives is no
 * longer needed when the next one is exchanged. */
static remat_value add_pieces(struct batch_divider *d, remat_value parts, int64_t share,
                              int64_t length)
{
    remat_value sums[PIECES_MAX];
    uint32_t count = 0;
    const struct remat_attribute axis = remat_attribute_int("axis", 0);
    parts = remat_build_reshape(&d->b, parts, (int64_t[]){d->ranks, share}, 2);
    for (int64_t begin = 0; begin < share; begin += length) {
        int64_t end = begin + length < share ? begin + length : share;
        const struct remat_shape shape = {1, {end - begin}};
        remat_value piece = remat_build_slice(&d->b, parts, 1, begin, end);
        piece = remat_build_exchange(&d->b, "dp", piece);
        sums[count++] = add_rows(d, piece, &shape);
    }
    return remat_build(&d->b, REMAT_OP_concat, sums, count, &axis, 1, NULL);
}

/* This rank's part of the sum over the ranks. */
static remat_value add_parts(struct batch_divider *d, remat_value own, int64_t elements)
{
    const struct remat_shape share = {1, {(elements - 1) / d->ranks + 1}};
    uint64_t limit_bytes =
        d->settings->exchange_bytes ? d->settings->exchange_bytes : REMAT_EXCHANGE_BYTES;
    uint64_t bytes = remat_dtype_bytes(d->r.to->values[own.i].dtype) * (uint64_t)elements;
    uint64_t pieces = (bytes - 1) / limit_bytes + 1;
    pieces = pieces < PIECES_MAX ? pieces : PIECES_MAX;
    if (pieces > 1 && elements % d->ranks == 0 && share.dims[0] >= (int64_t)pieces)
        return add_pieces(d, own, share.dims[0], (share.dims[0] - 1) / (int64_t)pieces + 1);
    return add_rows(d, remat_build_exchange(&d->b, "dp", own), &share);
}

static remat_value average_gradient(struct batch_divider *d, remat_value own,
                                    const struct remat_value_info *of)
{
    int64_t elements = remat_shape_elements(&of->shape);
    own = remat_build_reshape(&d->b, own, &elements, 1);
    remat_value sum = add_parts(d, own, elements);
    const struct remat_rank_part *block =
        d->settings->zero ? remat_make_block(&d->b, "dp", of) : NULL;
    if (block) {
        d->r.to->values[sum.i].part = block;
        return sum;
    }
    d->b.name = of->name;
    return remat_build_gather(&d->b, "dp", sum, &of->shape);
}

/* With several ranks accumulators are a rank's own, and only the average has name and role. */
static remat_value average_microbatches(struct batch_divider *d, remat_value one,
                                        const struct remat_value_info *of)
{
    const char *name = d->ranks > 1 ? suffixed(d, of->name, "local") : of->name;
    uint8_t role = d->ranks > 1 ? REMAT_ROLE_STEP_STATE : of->role;
    remat_value state = add_state(d, of, name, role);
    d->r.to->values[state.i].part = of->part;
    one = scale(d, one);
    d->scaled = true;
    return accumulate(d, state, one, name);
}

/* After the last microbatch. */
static remat_value average_ranks(struct batch_divider *d, remat_value own,
                                 const struct remat_value_info *of)
{
    if (of->role == REMAT_ROLE_GRADIENT || d->microbatches > 1)
        d->b.phase = REMAT_PHASE_OPTIMIZER;
    remat_value mean = of->role == REMAT_ROLE_GRADIENT ? average_gradient(d, own, of)
                                                       : average_output(d, own, &of->shape);
    if (of->role != REMAT_ROLE_GRADIENT && d->microbatches > 1)
        return assign(d, add_state(d, of, of->name, of->role), mean, of->name);
    d->r.to->values[mean.i].name = of->name;
    d->r.to->values[mean.i].role = of->role;
    return mean;
}

/* Whether each rank accumulates a part of this gradient. */
static bool divides_accumulator(struct batch_divider *d, const struct remat_value_info *of)
{
    return d->microbatches > 1 && d->settings->zero == 3 && of->role == REMAT_ROLE_GRADIENT &&
           remat_make_block(&d->b, "dp", of);
}

/* This rank's part: over the ranks in each microbatch, then over the microbatches. */
static remat_value average_part(struct batch_divider *d, remat_value own,
                                const struct remat_value_info *of)
{
    struct remat_graph *to = d->r.to;
    d->b.phase = REMAT_PHASE_OPTIMIZER;
    remat_value sum = average_gradient(d, own, of);
    struct remat_value_info block = to->values[sum.i];
    remat_value state = add_state(d, &block, of->name, of->role);
    remat_value next = accumulate(d, state, sum, of->name);
    to->values[state.i].part = to->values[next.i].part = block.part;
    return next;
}

/* The average takes over name and role of what it is of. */
static void average(struct batch_divider *d, remat_value old)
{
    const struct remat_value_info info = d->r.from->values[old.i];
    remat_value mean = d->r.values[old.i];
    d->share = d->sums[old.i] ? 1 : 1.0 / (double)d->all;
    d->b.scope = d->r.from->nodes[info.node.i].scope;
    d->b.phase = d->r.from->nodes[info.node.i].phase;
    d->b.prefix = suffixed(d, info.name, "mean");
    d->b.counter = 0;
    d->r.to->values[mean.i].name = suffixed(d, info.name, "part");
    d->r.to->values[mean.i].role = REMAT_ROLE_ACTIVATION;
    d->scaled = false;
    if (divides_accumulator(d, &info)) {
        d->means[old.i] = average_part(d, mean, &info);
        return;
    }
    if (d->microbatches > 1)
        mean = average_microbatches(d, mean, &info);
    if (d->ranks > 1)
        mean = average_ranks(d, mean, &info);
    if (!d->r.to->values[mean.i].part)
        d->r.to->values[mean.i].part = info.part;
    d->means[old.i] = mean;
}

static void divide_nodes(struct batch_divider *d)
{
    const struct remat_graph *from = d->r.from;
    for (remat_node n = {0}; n.i < from->node_count; n.i++) {
        const struct remat_node_info *node = &from->nodes[n.i];
        remat_rebuild_copy(&d->r, n);
        for (uint32_t k = 0; k < node->output_count; k++)
            if (d->averaged[node->outputs[k].i])
                average(d, node->outputs[k]);
    }
}

/* --- the whole --- */

static remat_status find_averaged(struct batch_divider *d)
{
    const struct remat_graph *from = d->r.from;
    uint32_t count = 0;
    REMAT_NEW(d->r.arena, d->means, from->value_count);
    if (from->update_count)
        return remat_error(
            d->r.arena->ctx, REMAT_ERROR_INVALID,
            "the graph updates \"%s\": a step that updates by itself has no microbatches",
            from->values[from->updates[0].state.i].name);
    REMAT_NEW(d->r.arena, d->averaged, from->value_count);
    REMAT_NEW(d->r.arena, d->sums, from->value_count);
    for (uint32_t o = 0; o < from->output_count; o++) {
        const struct remat_value_info *info = &from->values[from->outputs[o].i];
        if (info->dtype != REMAT_F32 || remat_shape_elements(&info->shape) != 1 ||
            remat_is_none(info->node.i))
            return remat_error(
                d->r.arena->ctx, REMAT_ERROR_INVALID,
                "output \"%s\" is not one computed f32 element, which microbatches average",
                info->name);
        d->averaged[from->outputs[o].i] = true;
        d->sums[from->outputs[o].i] = from->summed && from->summed[o];
    }
    bool sums = from->summed && from->output_count && from->summed[0]; /* and so do gradients */
    for (uint32_t v = 0; v < from->value_count; v++) {
        bool gradient = from->values[v].role == REMAT_ROLE_GRADIENT;
        d->averaged[v] |= gradient;
        d->sums[v] |= gradient && sums;
        count += d->averaged[v] || from->values[v].counted;
        if (d->averaged[v] && !remat_dtype_is_float(from->values[v].dtype))
            return remat_error(d->r.arena->ctx, REMAT_ERROR_INVALID,
                               "gradient \"%s\" is i32, which has no average",
                               from->values[v].name);
    }
    REMAT_NEW(d->r.arena, d->r.to->updates, count);
    return REMAT_OK;
}

/* With one microbatch outputs stay outputs. */
static void set_outputs(struct batch_divider *d)
{
    const struct remat_graph *from = d->r.from;
    d->r.to->output_count = from->output_count;
    REMAT_NEW(d->r.arena, d->r.to->outputs, from->output_count);
    for (uint32_t o = 0; o < from->output_count; o++)
        d->r.to->outputs[o] = d->means[from->outputs[o].i];
}

REMAT_PASS(microbatches)
{
    struct batch_divider d = {.settings = settings,
                              .microbatches =
                                  settings->microbatches > 1 ? settings->microbatches : 1,
                              .ranks = remat_mesh_size(&graph->mesh, "dp")};
    d.all = d.microbatches * d.ranks;
    if (d.all < 2 || graph->node_count == 0)
        return remat_pass_nothing(graph, out);
    bool *counts;
    REMAT_NEW(arena, counts, graph->value_count);
    for (uint32_t v = 0; v < graph->value_count; v++)
        counts[v] = graph->values[v].counted != NULL;
    d.r = remat_rebuild_begin_without(arena, graph, 2, counts);
    d.r.to->summed = NULL;
    d.b = (struct remat_builder){.arena = arena, .graph = d.r.to, .phase = REMAT_PHASE_FORWARD};
    REMAT_CHECK(find_averaged(&d));
    add_place(&d);
    REMAT_CHECK(divide_inputs(&d));
    add_counts(&d);
    divide_nodes(&d);
    if (d.microbatches == 1)
        set_outputs(&d);
    *out = d.r.to;
    return REMAT_OK;
}
