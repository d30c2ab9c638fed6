/* SPDX-License-Identifier: Apache-2.0 */
/* One walk over the nodes, in order: each has a rule (batch_rules.def). Which entry an element is
 * of is one number, since entries alternate regularly: element i, in row-major order, is of entry
 * i / run mod batch. So a reshape keeps the run, and other ops ask in which axis the entries lie,
 * and how many indices of it are next to each other of one entry. */
#include "analysis.h"

#include "ops.h"

struct batch_finder {
    const struct remat_graph *graph;
    int64_t batch;                  /* of the inputs; at least 2 where there are entries */
    struct remat_batch_fact *facts; /* by value */
    const struct remat_node_info *node;
    remat_node at;
};

/* Where the entries of a value lie: the indices of an axis, `inner` of each entry in turn. */
struct batch_place {
    uint32_t axis; /* REMAT_NONE: in more than one */
    int64_t inner;
};

typedef struct remat_batch_fact fact;

static const struct remat_shape *shape_of(const struct batch_finder *f, remat_value v)
{
    return &f->graph->values[v.i].shape;
}

static const struct remat_shape *in_shape(const struct batch_finder *f, uint32_t k)
{
    return shape_of(f, f->node->inputs[k]);
}

static fact in(const struct batch_finder *f, uint32_t k)
{
    return f->facts[f->node->inputs[k].i];
}

static fact of_kind(uint8_t kind)
{
    return (fact){.kind = kind, .mixed = REMAT_NO_NODE};
}

static fact entries(int64_t run)
{
    return (fact){.kind = REMAT_BATCH_ENTRIES, .run = run, .mixed = REMAT_NO_NODE};
}

static fact mixed(const struct batch_finder *f)
{
    return (fact){.kind = REMAT_BATCH_MIXED, .mixed = f->at};
}

static bool is(const struct batch_finder *f, uint32_t k, uint8_t kind)
{
    return in(f, k).kind == kind;
}

static bool adds_up(fact x)
{
    return x.kind == REMAT_BATCH_SUM || x.kind == REMAT_BATCH_MEAN;
}

/* Elements from one index of an axis to the next. */
static int64_t stride_of(const struct remat_shape *shape, uint32_t axis)
{
    int64_t stride = 1;
    for (uint32_t d = axis + 1; d < shape->rank; d++)
        stride *= shape->dims[d];
    return stride;
}

static struct batch_place place_of(const struct batch_finder *f, const struct remat_shape *shape,
                                   int64_t run)
{
    for (uint32_t d = 0; d < shape->rank && run; d++) { /* no run: no entries */
        int64_t stride = stride_of(shape, d);
        if (run % stride || run >= stride * shape->dims[d])
            continue;
        int64_t inner = run / stride;
        return (struct batch_place){shape->dims[d] % (inner * f->batch) ? REMAT_NONE : d, inner};
    }
    return (struct batch_place){REMAT_NONE, 0};
}

static struct batch_place in_place(const struct batch_finder *f, uint32_t k)
{
    return place_of(f, in_shape(f, k), in(f, k).run);
}

static fact entries_at(const struct remat_shape *shape, uint32_t axis, int64_t inner)
{
    return entries(inner * stride_of(shape, axis));
}

/* Operands from the second on are the same whatever the batch. */
static bool others_are_of_none(const struct batch_finder *f)
{
    for (uint32_t k = 1; k < f->node->input_count; k++)
        if (!is(f, k, REMAT_BATCH_NONE))
            return false;
    return true;
}

/* --- rules: of a node with an operand that depends on the batch, the fact of its result `out` ---
 */

static fact none(const struct batch_finder *f, const struct remat_shape *out)
{
    (void)out;
    return mixed(f);
}

/* Of one operand: where its entries lie in the result that it is broadcast to. */
static fact broadcast(const struct batch_finder *f, uint32_t k, const struct remat_shape *out)
{
    const struct remat_shape *shape = in_shape(f, k);
    if (remat_shape_equal(shape, out))
        return in(f, k);
    struct batch_place place = in_place(f, k);
    if (place.axis == REMAT_NONE)
        return mixed(f);
    uint32_t axis = place.axis + out->rank - shape->rank;
    return out->dims[axis] == shape->dims[place.axis] ? entries_at(out, axis, place.inner)
                                                      : mixed(f);
}

/* An operand of no batch has one element along the axis of the entries. */
static bool repeats(const struct batch_finder *f, uint32_t k, const struct remat_shape *out,
                    int64_t run)
{
    const struct remat_shape *shape = in_shape(f, k);
    struct batch_place place = place_of(f, out, run);
    if (remat_shape_elements(shape) == 1)
        return true;
    if (place.axis == REMAT_NONE)
        return false;
    uint32_t lead = out->rank - shape->rank;
    return place.axis < lead || shape->dims[place.axis - lead] == 1;
}

static fact each(const struct batch_finder *f, const struct remat_shape *out)
{
    int64_t run = 0;
    for (uint32_t k = 0; k < f->node->input_count; k++) {
        if (is(f, k, REMAT_BATCH_NONE))
            continue;
        fact x = is(f, k, REMAT_BATCH_ENTRIES) ? broadcast(f, k, out) : mixed(f);
        if (x.kind == REMAT_BATCH_MIXED || (run && x.run != run))
            return mixed(f);
        run = x.run;
    }
    for (uint32_t k = 0; k < f->node->input_count; k++)
        if (is(f, k, REMAT_BATCH_NONE) && !repeats(f, k, out, run))
            return mixed(f);
    return entries(run);
}

static fact linear(const struct batch_finder *f, const struct remat_shape *out)
{
    return adds_up(in(f, 0)) ? of_kind(in(f, 0).kind) : each(f, out);
}

/* A mean and what is of no batch add up to a mean; a sum would have that once for each part. */
static fact sum(const struct batch_finder *f, const struct remat_shape *out)
{
    fact x = in(f, 0), y = in(f, 1);
    if (x.kind == y.kind && adds_up(x))
        return x;
    if ((x.kind == REMAT_BATCH_MEAN && y.kind == REMAT_BATCH_NONE) ||
        (y.kind == REMAT_BATCH_MEAN && x.kind == REMAT_BATCH_NONE))
        return of_kind(REMAT_BATCH_MEAN);
    return each(f, out);
}

static fact quotient(const struct batch_finder *f, const struct remat_shape *out)
{
    return is(f, 1, REMAT_BATCH_NONE) ? linear(f, out) : each(f, out);
}

static fact product(const struct batch_finder *f, const struct remat_shape *out)
{
    if (is(f, 0, REMAT_BATCH_NONE) && adds_up(in(f, 1)))
        return of_kind(in(f, 1).kind);
    return quotient(f, out);
}

/* The last k axes are mixed; in another result their lengths may differ. */
static fact leading(const struct batch_finder *f, const struct remat_shape *out, uint32_t k)
{
    const struct remat_shape *x = in_shape(f, 0);
    if (!is(f, 0, REMAT_BATCH_ENTRIES) || !others_are_of_none(f))
        return mixed(f);
    if (k == 0)
        return in(f, 0);
    struct batch_place place = in_place(f, 0);
    return place.axis != REMAT_NONE && place.axis + k < x->rank
               ? entries_at(out, place.axis, place.inner)
               : mixed(f);
}

#define LAST(k)                                                                                    \
    static fact last_##k(const struct batch_finder *f, const struct remat_shape *out)              \
    {                                                                                              \
        return leading(f, out, k);                                                                 \
    }
LAST(0)
LAST(1)
LAST(2)
LAST(3)

/* Over the last axis, or over all others. */
static fact reduce(const struct batch_finder *f, const struct remat_shape *out, bool last)
{
    const struct remat_shape *x = in_shape(f, 0);
    if (adds_up(in(f, 0)))
        return in(f, 0);
    struct batch_place place = in_place(f, 0);
    if (!is(f, 0, REMAT_BATCH_ENTRIES) || place.axis == REMAT_NONE)
        return mixed(f);
    if ((place.axis + 1 == x->rank) == last)
        return of_kind(REMAT_BATCH_SUM);
    return last ? entries_at(out, place.axis, place.inner) : entries(place.inner);
}

static fact row_sum(const struct batch_finder *f, const struct remat_shape *out)
{
    return reduce(f, out, true);
}

static fact column_sum(const struct batch_finder *f, const struct remat_shape *out)
{
    return reduce(f, out, false);
}

static fact reshape(const struct batch_finder *f, const struct remat_shape *out)
{
    (void)out;
    return in(f, 0);
}

/* Not along the axis of the entries. */
static fact box(const struct batch_finder *f, const struct remat_shape *out)
{
    if (adds_up(in(f, 0)))
        return in(f, 0);
    struct batch_place place = in_place(f, 0);
    if (!is(f, 0, REMAT_BATCH_ENTRIES) || place.axis == REMAT_NONE ||
        out->dims[place.axis] != in_shape(f, 0)->dims[place.axis])
        return mixed(f);
    return entries_at(out, place.axis, place.inner);
}

static fact transpose(const struct batch_finder *f, const struct remat_shape *out)
{
    const struct remat_attribute *permutation = remat_node_attribute(f->node, "permutation");
    if (adds_up(in(f, 0)))
        return in(f, 0);
    struct batch_place place = in_place(f, 0);
    for (uint32_t d = 0; d < out->rank && is(f, 0, REMAT_BATCH_ENTRIES); d++)
        if (permutation->ints[d] == (int64_t)place.axis)
            return entries_at(out, d, place.inner);
    return mixed(f);
}

/* Axes of equal number, `inner` indices of each entry. */
static fact alike(const struct batch_finder *f, const struct remat_shape *out, uint32_t begin,
                  uint32_t end)
{
    struct batch_place first = in_place(f, begin);
    for (uint32_t k = begin; k < end; k++) {
        struct batch_place place = in_place(f, k);
        if (!is(f, k, REMAT_BATCH_ENTRIES) || place.axis == REMAT_NONE ||
            place.axis != first.axis || place.inner != first.inner)
            return mixed(f);
    }
    return entries_at(out, first.axis, first.inner);
}

/* Of one operand it is a copy. */
static fact concat(const struct batch_finder *f, const struct remat_shape *out)
{
    if (f->node->input_count == 1)
        return in(f, 0);
    fact all = alike(f, out, 0, f->node->input_count);
    bool along = all.kind == REMAT_BATCH_ENTRIES &&
                 in_place(f, 0).axis == remat_node_int(f->node, "axis", 0);
    return along ? mixed(f) : all;
}

/* The entries of one factor are matrices, rows or columns of it, while the other is of no batch and
 * has no more than one matrix; or those of both are matrices. */
static fact matmul(const struct batch_finder *f, const struct remat_shape *out)
{
    static const char *const transposed[] = {"transpose_a", "transpose_b"};
    uint32_t rank = out->rank, k = is(f, 0, REMAT_BATCH_NONE);
    if (is(f, 0, REMAT_BATCH_ENTRIES) && is(f, 1, REMAT_BATCH_ENTRIES))
        return in_place(f, 0).axis + 2 < rank ? alike(f, out, 0, 2) : mixed(f);
    struct batch_place place = in_place(f, k);
    if (!is(f, k, REMAT_BATCH_ENTRIES) || !is(f, !k, REMAT_BATCH_NONE) || place.axis == REMAT_NONE)
        return mixed(f);
    if (place.axis + 2 < rank)
        return in_shape(f, !k)->dims[place.axis] == 1 ? entries_at(out, place.axis, place.inner)
                                                      : mixed(f);
    bool last = place.axis + 1 == rank, swapped = remat_node_int(f->node, transposed[k], 0) != 0;
    bool summed = (k == 0) == (last != swapped);
    return summed ? mixed(f) : entries_at(out, rank - 2 + k, place.inner);
}

static fact dense(const struct batch_finder *f, const struct remat_shape *out)
{
    return last_1(f, out);
}

static fact attention(const struct batch_finder *f, const struct remat_shape *out)
{
    uint32_t rng = remat_node_operand(f->node, "rng");
    if (in_place(f, 0).axis != 0)
        return mixed(f);
    if (remat_is_none(rng))
        return alike(f, out, 0, f->node->input_count);
    fact before = alike(f, out, 0, rng);
    bool after = rng + 1 == f->node->input_count ||
                 alike(f, out, rng + 1, f->node->input_count).kind == REMAT_BATCH_ENTRIES;
    return is(f, rng, REMAT_BATCH_NONE) && after ? before : mixed(f);
}

/* Of one table; entries have the axis 0 of both. */
static fact rope(const struct batch_finder *f, const struct remat_shape *out)
{
    uint32_t positions = remat_node_operand(f->node, "positions");
    fact x =
        is(f, 1, REMAT_BATCH_NONE) && in_place(f, 0).axis == 0 ? alike(f, out, 0, 1) : mixed(f);
    if (x.kind == REMAT_BATCH_MIXED || remat_is_none(positions))
        return x;
    struct batch_place place = in_place(f, positions);
    return is(f, positions, REMAT_BATCH_ENTRIES) && place.axis == 0 &&
                   place.inner == in_place(f, 0).inner
               ? x
               : mixed(f);
}

/* Rows of one table. */
static fact embedding(const struct batch_finder *f, const struct remat_shape *out)
{
    return is(f, 0, REMAT_BATCH_NONE) && is(f, 1, REMAT_BATCH_ENTRIES)
               ? entries(in(f, 1).run * out->dims[out->rank - 1])
               : mixed(f);
}

/* Of the shape of its operand, and nothing of its elements. */
static fact column(const struct batch_finder *f, const struct remat_shape *out)
{
    struct batch_place place = in_place(f, 0);
    if (!is(f, 0, REMAT_BATCH_ENTRIES))
        return of_kind(REMAT_BATCH_NONE);
    return place.axis != REMAT_NONE && place.axis + 1 < out->rank ? in(f, 0) : mixed(f);
}

/* Numbers drawn for entries; fewer are of none. */
static fact drawn(const struct batch_finder *f, const struct remat_shape *out)
{
    if (!is(f, 0, REMAT_BATCH_NONE))
        return mixed(f);
    bool divided = f->batch && out->rank && out->dims[0] % f->batch == 0;
    return divided ? entries(remat_shape_elements(out) / f->batch) : of_kind(REMAT_BATCH_NONE);
}

static fact mean(const struct batch_finder *f, const struct remat_shape *out)
{
    (void)out;
    return adds_up(in(f, 0))               ? in(f, 0)
           : is(f, 0, REMAT_BATCH_ENTRIES) ? of_kind(REMAT_BATCH_MEAN)
                                           : mixed(f);
}

/* Also without a count, where some targets are ignored: the pass losses gives it that of the batch.
 */
static fact cross_entropy(const struct batch_finder *f, const struct remat_shape *out)
{
    uint32_t count = remat_node_operand(f->node, "count");
    fact rows = in(f, 1);
    int64_t classes = in_shape(f, 0)->dims[in_shape(f, 0)->rank - 1];
    if (!is(f, 0, REMAT_BATCH_ENTRIES) || rows.kind != REMAT_BATCH_ENTRIES ||
        in(f, 0).run != rows.run * classes ||
        (!remat_is_none(count) && !is(f, count, REMAT_BATCH_NONE)))
        return mixed(f);
    if (out == shape_of(f, f->node->outputs[1]))
        return rows;
    bool counts = !remat_is_none(count) || remat_node_attribute(f->node, "ignore_index");
    return of_kind(counts ? REMAT_BATCH_SUM : REMAT_BATCH_MEAN);
}

static fact (*const rules[])(const struct batch_finder *, const struct remat_shape *) = {
#define REMAT_BATCH_RULE(name) [REMAT_BATCH_RULE_##name] = (name),
#include "batch_rules.def"
#undef REMAT_BATCH_RULE
};

/* --- all nodes --- */

/* What an operand is that depends on the batch in a way that has no rule; else of kind NONE if no
 * operand depends on it. */
static fact of_operands(const struct batch_finder *f)
{
    fact out = of_kind(REMAT_BATCH_NONE);
    for (uint32_t k = 0; k < remat_op_reads(f->node); k++) {
        if (is(f, k, REMAT_BATCH_MIXED))
            return in(f, k);
        if (!is(f, k, REMAT_BATCH_NONE))
            out.kind = REMAT_BATCH_ENTRIES;
    }
    return out;
}

static void visit(struct batch_finder *f)
{
    fact operands = of_operands(f);
    const struct remat_op_info *op = remat_op_info(f->node->op);
    for (uint32_t o = 0; o < f->node->output_count; o++) {
        const struct remat_shape *out = shape_of(f, f->node->outputs[o]);
        fact *result = &f->facts[f->node->outputs[o].i];
        bool ruled = operands.kind == REMAT_BATCH_ENTRIES || op->batch == REMAT_BATCH_RULE_drawn ||
                     op->batch == REMAT_BATCH_RULE_column;
        *result = ruled ? rules[op->batch](f, out) : operands;
    }
}

struct remat_batch_fact *remat_find_batch(struct remat_arena *arena,
                                          const struct remat_graph *graph)
{
    struct batch_finder f = {.graph = graph->pair ? graph->pair : graph};
    REMAT_NEW(arena, f.facts, graph->value_count);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct remat_value_info *info = &f.graph->values[v];
        f.facts[v] = of_kind(REMAT_BATCH_NONE);
        if (!info->batched)
            continue;
        f.batch = info->shape.dims[0];
        f.facts[v] = entries(remat_shape_elements(&info->shape) / f.batch);
        if (f.batch == 1)
            f.facts[v].kind = REMAT_BATCH_MIXED;
    }
    for (remat_node n = {0}; n.i < graph->node_count; n.i++) {
        f.node = &f.graph->nodes[n.i];
        f.at = n;
        visit(&f);
    }
    return f.facts;
}
