/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of every differentiable op against central finite differences in float64; the list
 * below must name each row of the op table that has a derivative. Then the same gradients after all
 * passes, which must be equal, and of the expanded composite. */
#include "builder.h"
#include "ops.h"
#include "reference.h"
#include "workbench.h"

#include <math.h>

static const struct {
    const char *op, *inputs, *attributes;
} cases[] = {
    {"add", "2,3 3", ""},
    {"add", "2,1,3 4,1", ""},
    {"add", "- 2,3", ""},
    {"sub", "2,3,4 3,1", ""},
    {"sub", "5 -", ""},
    {"mul", "2,3 2,3", ""},
    {"mul", "2,3,2,2 3,1,2", ""},
    {"mul", "1,3 2,1", ""},
    {"div", "2,3 +3", ""},
    {"div", "3 +2,3", ""},
    {"maximum", "2,3 1,3", ""},
    {"maximum", "7 7", ""},
    {"minimum", "2,3 2,1", ""},
    {"minimum", "7 7", ""},
    {"equal", "2,3 i2,1<3", ""},
    {"less", "2,3 3", ""},
    {"select", "=2,3 3 2,1", ""},
    {"select", "2,3 2,3 2,3", ""},
    {"neg", "2,3", ""},
    {"exp", "2,3", ""},
    {"log", "+2,3", ""},
    {"sqrt", "+4", ""},
    {"rsqrt", "+2,3", ""},
    {"tanh", "2,3", ""},
    {"erf", "3,2", ""},
    {"sigmoid", "2,3", ""},
    {"column", "2,3", ""},
    {"row_sum", "5", ""},
    {"row_sum", "2,3,4", ""},
    {"column_sum", "2,3,4", ""},
    {"column_sum", "4", ""},
    {"reshape", "2,6", "shape=3,2,2"},
    {"reshape", "-", "shape=1,1"},
    {"slice", "2,5,3", "axis=1 begin=1 end=4"},
    {"slice", "5", "axis=0 begin=4 end=5"},
    {"transpose", "2,3,4", "permutation=2,0,1"},
    {"transpose", "2,3", "permutation=1,0"},
    {"pad", "2,3", "axis=1 begin=1 length=5"},
    {"pad", "2,3", "axis=0 begin=0 length=3"},
    {"concat", "2,3 2,1 2,2", "axis=1"},
    {"concat", "2,3", "axis=0"},
    {"matmul", "2,3 3,4", ""},
    {"matmul", "3,2 3,4", "transpose_a=1"},
    {"matmul", "2,3 4,3", "transpose_b=1"},
    {"matmul", "3,2 4,3", "transpose_a=1 transpose_b=1"},
    {"matmul", "2,2,2,3 2,2,3,2", "transpose_b=0"},
    {"matmul", "2,3,2 2,2,3", "transpose_a=1 transpose_b=1"},
    {"matmul", "2,2,3,2,4 2,2,1,5,4", "transpose_b=1"},
    {"matmul", "1,2,3 4,3,2", ""},
    {"linear", "2,3 3,4 4", ""},
    {"linear", "2,2,3 3,4", ""},
    {"linear", "3 4,3 4", "transpose_weight=1"},
    {"linear", "2,2,2,3 4,3", "transpose_weight=1"},
    {"attention", "2,3,2,4 2,3,2,4 2,3,2,4", "scale=0.5 causal=1"},
    {"attention", "1,2,4,3 1,5,2,3 1,5,2,3", "scale=0.7 causal=1"},
    {"attention", "1,4,3,2 1,3,1,2 1,3,1,2", "scale=0.7"},
    {"attention", "2,5,2,4 2,5,1,4 2,5,1,4 _ i2,5<2 i2,5<2", "scale=0.5 causal=1"},
    {"attention", "2,4,2,4 2,5,2,4 2,5,2,4 _ _ i2,5<2", "scale=0.5"},
    {"attention", "2,4,2,4 2,5,2,4 2,5,2,4 _ i2,4<2", "scale=0.5"},
    {"attention", "2,4,2,3 2,5,2,3 2,5,2,3 i4<9 _ i2,5<2", "scale=0.5 p=0.4 site=3"},
    {"embedding", "5,3 i2,4<5", ""},
    {"embedding", "5,3 i-<5", ""},
    {"layer_norm", "2,3,5 5 5", ""},
    {"layer_norm", "4 4 4", "epsilon=0.1"},
    {"layer_norm", "2,3,5 5", ""},
    {"gelu", "3,4", "approximate=1"},
    {"gelu", "3,4", "approximate=0"},
    {"relu", "3,4", ""},
    {"conv2d", "2,3,4,6 5,3,2,3 5", ""},
    {"conv2d", "1,2,3,4 2,2,1,4", ""},
    {"softplus", "3,4", ""},
    {"expm1", "3,4", ""},
    {"layer_norm", "2,3,5", ""},
    {"layer_norm", "2,3,5 _ 5", ""},
    {"rms_norm", "2,3,5", ""},
    {"cross_entropy", "2,3,5 i2,3<5", ""},
    {"cross_entropy", "5 i-<5", ""},
    {"cross_entropy", "2,3,5 i2,3<5", "ignore_index=2"},
    {"cross_entropy", "2,3,5 i2,3<5", "ignore_index=-100"},
    {"cross_entropy", "2,3,5 i2,3<5 =1", "ignore_index=2"},
    {"cross_entropy", "2,3,5 i2,3<4", "classes=4"},
    {"cross_entropy", "2,3,5 i2,3<3", "ignore_index=2 classes=3"},
    {"linear_cross_entropy", "2,3,4 4,5 i2,3<5", ""},
    {"linear_cross_entropy", "7,3 3,5 i7<4 5", "ignore_index=2 rows=3 classes=4"},
    {"linear_cross_entropy", "2,3,4 5,4 i2,3<5 5", "transpose_weight=1 rows=2"},
    {"linear_cross_entropy", "7,3 3,5 i7<5 5", "ignore_index=2 rows=3"},
    {"linear_cross_entropy", "7,3 3,5 i7<5 _ =1", "ignore_index=2 rows=3"},
    {"mean", "2,3,5", ""},
    {"mean", "-", ""},
    {"rms_norm", "2,3,5 5", ""},
    {"rms_norm", "4 4", "epsilon=0.1"},
    {"rope", "2,3,2,4 =3,2,2,2", ""},
    {"rope", "1,2,3,2 =2,2,2,1", "inverse=1"},
    {"rope", "2,3,2,4 =5,2,2,2 i2,3<5", ""},
    {"softmax", "2,3,5", ""},
    {"softmax", "4", ""},
    {"mask_causal", "2,3,5 =3", "scale=0.7"},
    {"mask_causal", "3,5 =3", "scale=1.0"},
    {"scale", "2,3", "scale=3.5"},
    {"silu", "3,4", ""},
    {"swiglu", "3,4 3,4", ""},
    {"random", "i4<9", "shape=2,3 site=7"},
    {"dropout", "3,4,5 i4<9", "p=0.3 site=7"},
    {"dropout", "- i4<9", "p=0.0 site=1"},
    {"attention", "2,3,2,4 2,3,2,4 2,3,2,4 i4<9", "scale=0.5 causal=1 p=0.4 site=3"},
    {"cast", "b2,3", "dtype=1"},
    {"cast", "2,3", "dtype=3"},
    /* bf16, unrounded in the reference */
    {"add", "b2,1,3 b4,1", ""},
    {"sub", "b2,1,3 b4,1", ""},
    {"mul", "b2,3,2 b3,1", ""},
    {"div", "b2,3 b+3", ""},
    {"maximum", "b2,3 b1,3", ""},
    {"minimum", "b2,3 b1,3", ""},
    {"equal", "b2,3 b3", ""},
    {"less", "b2,3 i3<2", ""},
    {"select", "=2,3 b3 b2,1", ""},
    {"neg", "b2,3", ""},
    {"exp", "b2,3", ""},
    {"log", "b+2,3", ""},
    {"sqrt", "b+4", ""},
    {"rsqrt", "b+2,3", ""},
    {"tanh", "b2,3", ""},
    {"erf", "b3,2", ""},
    {"sigmoid", "b2,3", ""},
    {"column", "b2,3", ""},
    {"conv2d", "b2,1,4,2 b3,1,2,2 b3", ""},
    {"softplus", "b3,4", ""},
    {"expm1", "b3,4", ""},
    {"layer_norm", "b2,3,5", ""},
    {"matmul", "b2,3 b4,3", "transpose_b=1"},
    {"linear", "b2,3 b3,4 b4", ""},
    {"linear", "b2,2,3 b4,3", "transpose_weight=1"},
    {"attention", "b2,3,2,4 b2,3,1,4 b2,3,1,4", "scale=0.5 causal=1"},
    {"embedding", "b5,3 i2,4<5", ""},
    {"layer_norm", "b2,3,5 b5 b5", ""},
    {"layer_norm", "b2,3,5 b5", ""},
    {"rms_norm", "b2,3,5 b5", ""},
    {"gelu", "b3,4", "approximate=1"},
    {"mean", "b3,4", ""},
    {"relu", "b3,4", ""},
    {"silu", "b3,4", ""},
    {"swiglu", "b3,4 b3,4", ""},
    {"softmax", "b3,4", ""},
    {"mask_causal", "b2,3,5 =3", "scale=0.7"},
    {"scale", "b3,4", "scale=0.7"},
    {"rope", "b2,3,2,4 =3,2,2,2", ""},
    {"dropout", "b3,4 i4<9", "p=0.3 site=7"},
    {"cross_entropy", "b2,3,5 i2,3<5", "ignore_index=2"},
    {"linear_cross_entropy", "b2,3,4 b5,4 i2,3<5 b5", "transpose_weight=1 rows=4"},
};
#define CASE_COUNT (sizeof cases / sizeof cases[0])

static remat_value sum_all(struct workbench *w, remat_value x)
{
    int64_t n = remat_shape_elements(&w->graph->values[x.i].shape);
    x = remat_build_reshape(&w->b, x, (int64_t[]){1, n}, 2);
    x = remat_build1(&w->b, REMAT_OP_row_sum, x);
    return remat_build_reshape(&w->b, x, NULL, 0);
}

static remat_value weighted_sum(struct workbench *w, remat_value x, const char *name)
{
    struct remat_value_info info = w->graph->values[x.i];
    x = remat_build_cast(&w->b, x, REMAT_F32);
    info = (struct remat_value_info){.name = name,
                                     .shape = info.shape,
                                     .dtype = REMAT_F32,
                                     .role = REMAT_ROLE_INPUT,
                                     .node = REMAT_NO_NODE};
    remat_value weight = REMAT_NO_VALUE;
    weight = remat_graph_add_value(&w->arena, w->graph, &info);
    return sum_all(w, remat_build2(&w->b, REMAT_OP_mul, x, weight));
}

/* The loss: y weighted, plus every parameter weighted, so that each has a gradient and a sum. */
static void add_loss(struct workbench *w, remat_value y)
{
    uint32_t inputs = w->graph->value_count;
    remat_value loss = weighted_sum(w, y, "weight");
    for (uint32_t v = 0; v < inputs; v++)
        if (w->graph->values[v].trainable) {
            const char *name = remat_arena_format(&w->arena, "weight%u", v);
            remat_value term = weighted_sum(w, (remat_value){v}, name);
            loss = remat_build2(&w->b, REMAT_OP_add, loss, term);
        }
    workbench_output(w, loss);
}

static double loss_of(struct workbench *w, const struct remat_graph *graph, double **values)
{
    if (!reference_evaluate(&w->arena, graph, values))
        return NAN;
    return values[graph->outputs[0].i][0];
}

static const double *gradient_of(struct workbench *w, const struct remat_graph *graph,
                                 double **values, const char *name)
{
    remat_value g = workbench_find(graph, remat_arena_format(&w->arena, "%s.grad", name));
    return remat_is_none(g.i) ? NULL : values[g.i];
}

static void compare_differences(struct workbench *w, const struct remat_graph *graph, size_t c)
{
    double **values = workbench_random(w, graph), **nearby = workbench_random(w, w->graph);
    CHECK(!isnan(loss_of(w, graph, values)), "%s: no reference", cases[c].op);
    for (uint32_t v = 0; v < w->graph->value_count; v++) {
        if (!w->graph->values[v].trainable)
            continue;
        const double *gradient = gradient_of(w, graph, values, w->graph->values[v].name);
        CHECK(gradient, "%s: no gradient %u", cases[c].op, v);
        int64_t n = remat_shape_elements(&w->graph->values[v].shape);
        for (int64_t i = 0; gradient && i < n; i++) {
            double x = nearby[v][i], h = 1e-5;
            nearby[v][i] = x + h;
            double above = loss_of(w, w->graph, nearby);
            nearby[v][i] = x - h;
            double below = loss_of(w, w->graph, nearby);
            nearby[v][i] = x;
            double expected = (above - below) / (2 * h);
            CHECK(fabs(gradient[i] - expected) <= 1e-6 * fmax(1, fabs(expected)),
                  "%s(%s; %s): gradient of x%u[%d] is %.10g, difference %.10g", cases[c].op,
                  cases[c].inputs, cases[c].attributes, v, (int)i, gradient[i], expected);
        }
    }
}

static void compare_gradients(struct workbench *w, const struct remat_graph *a,
                              const struct remat_graph *b, const char *what, size_t c)
{
    double **x = workbench_random(w, a), **y = workbench_random(w, b);
    loss_of(w, a, x);
    loss_of(w, b, y);
    for (uint32_t v = 0; v < a->value_count; v++) {
        if (a->values[v].role != REMAT_ROLE_GRADIENT)
            continue;
        remat_value other = workbench_find(b, a->values[v].name);
        CHECK(!remat_is_none(other.i) && b->values[other.i].role == REMAT_ROLE_GRADIENT,
              "%s %s: lost %s", cases[c].op, what, a->values[v].name);
        for (int64_t i = 0; i < remat_shape_elements(&a->values[v].shape); i++)
            CHECK(fabs(x[v][i] - y[other.i][i]) <= 1e-12 * fmax(1, fabs(x[v][i])),
                  "%s %s: %s[%d] is %.17g, expected %.17g", cases[c].op, what, a->values[v].name,
                  (int)i, y[other.i][i], x[v][i]);
    }
}

#define PASS(w, name, from, to)                                                                    \
    CHECK(remat_pass_##name(&(w)->arena, from, &(w)->passes, to) == REMAT_OK &&                    \
              remat_graph_verify((w)->ctx, *(to)) == REMAT_OK,                                     \
          "%s: %s: %s", cases[c].op, #name, remat_context_message((w)->ctx))

static void run_case(size_t c)
{
    struct workbench w;
    remat_value inputs[8];
    struct remat_graph *joint, *common, *expanded, *folded, *alive, *primitive, *derived;
    workbench_open(&w);
    uint32_t count = workbench_inputs(&w, cases[c].inputs, inputs);
    remat_value y = workbench_node(&w, cases[c].op, inputs, count, cases[c].attributes, NULL);
    if (strcmp(cases[c].op, "mask_causal") == 0) /* differences need what masked scores are for */
        y = workbench_node(&w, "softmax", &y, 1, "", NULL);
    add_loss(&w, y);
    if (!CHECK_OK(w.ctx, w.status, "%s", cases[c].op))
        goto done;
    int before = checks_failed();
    PASS(&w, autodiff, w.graph, &joint);
    if (checks_failed() > before)
        goto done;
    compare_differences(&w, joint, c);
    PASS(&w, eliminate_common, joint, &common);
    PASS(&w, expand, common, &expanded);
    PASS(&w, fold, expanded, &folded);
    PASS(&w, eliminate_dead, folded, &alive);
    if (checks_failed() == before)
        compare_gradients(&w, joint, alive, "after all passes", c);
    uint16_t op = 0;
    remat_op_find(cases[c].op, strlen(cases[c].op), &op);
    bool has_maximum = op == REMAT_OP_cross_entropy || op == REMAT_OP_linear_cross_entropy ||
                       op == REMAT_OP_softmax ||
                       op == REMAT_OP_mask_causal; /* row_max has no derivative */
    if (remat_op_has(op, REMAT_FACT_COMPOSITE) && !has_maximum) {
        PASS(&w, expand, w.graph, &primitive);
        PASS(&w, autodiff, primitive, &derived);
        if (checks_failed() == before)
            compare_gradients(&w, joint, derived, "derived after expansion", c);
    }
done:
    workbench_close(&w);
}

static void check_coverage(void)
{
    for (uint16_t op = 0; op < REMAT_OP_COUNT; op++) {
        bool covered = !remat_op_info(op)->derive;
        for (size_t c = 0; c < CASE_COUNT; c++)
            covered = covered || strcmp(cases[c].op, remat_op_info(op)->name) == 0;
        CHECK(covered, "%s has a derivative and no case", remat_op_info(op)->name);
    }
}

/* Sums of gradients whose elements are strided: the copy that reshaping them needs. */
static void check_strided(void)
{
    struct workbench w;
    remat_value in[3];
    struct remat_graph *joint = NULL;
    size_t c = 0;
    workbench_open(&w);
    workbench_inputs(&w, "2,3,4 3,1 4,3", in);
    remat_value x = workbench_node(&w, "add", in, 2, "", NULL);
    x = workbench_node(&w, "transpose", &x, 1, "permutation=0,2,1", NULL);
    x = workbench_node(&w, "mul", (remat_value[]){x, in[2]}, 2, "", NULL);
    x = workbench_node(&w, "transpose", &x, 1, "permutation=2,1,0", NULL);
    add_loss(&w, workbench_node(&w, "gelu", &x, 1, "", NULL));
    CHECK_OK(w.ctx, w.status, "strided");
    int before = checks_failed();
    PASS(&w, autodiff, w.graph, &joint);
    if (checks_failed() == before)
        compare_differences(&w, joint, c);
    workbench_close(&w);
}

int main(void)
{
    check_coverage();
    for (size_t c = 0; c < CASE_COUNT; c++)
        run_case(c);
    check_strided();
    return check_exit();
}
