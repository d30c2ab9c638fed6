/* SPDX-License-Identifier: Apache-2.0 */
/* expand(composite) against the composite's own float64 reference; the list must name every
 * composite row. Names, groups, scopes and instances of what comes out. */
#include "ops.h"
#include "reference.h"
#include "workbench.h"

#include <math.h>

static const struct {
    const char *op, *inputs, *attributes;
} cases[] = {
    {"linear", "2,3 3,4 4", ""},
    {"linear", "2,2,3 4,3", "transpose_weight=1"},
    {"linear", "2,3 3,4", ""},
    {"linear", "3 3,4 4", ""},
    {"layer_norm", "2,3,5 5 5", ""},
    {"layer_norm", "7 7 7", "epsilon=0.5"},
    {"layer_norm", "2,3,5 5", ""},
    {"gelu", "4,5", "approximate=1"},
    {"gelu", "4,5", ""},
    {"gelu", "-", "approximate=1"},
    {"relu", "4,5", ""},
    {"conv2d", "2,3,4,6 5,3,2,3 5", ""},
    {"conv2d", "b1,2,3,4 b2,2,1,4", ""},
    {"softplus", "4,5", ""},
    {"softplus", "b4,5", ""},
    {"expm1", "4,5", ""},
    {"expm1", "b4,5", ""},
    {"cross_entropy", "2,3,5 i2,3<5", ""},
    {"cross_entropy", "5 i-<5", ""},
    {"cross_entropy", "2,3,5 i2,3<5", "ignore_index=2"},
    {"cross_entropy", "2,5 i2<1", "ignore_index=0"},
    {"cross_entropy", "2,3,5 i2,3<50", ""},
    {"cross_entropy", "2,3,5 i2,3<5 =1", ""},
    {"cross_entropy", "2,3,5 i2,3<5 =1", "ignore_index=2"},
    {"cross_entropy", "2,5 i2<1 =1", "ignore_index=0"},
    {"cross_entropy", "2,3,5 i2,3<50", "ignore_index=2"},
    {"cross_entropy", "2,3,5 i2,3<4", "classes=4"},
    {"cross_entropy", "2,3,5 i2,3<50", "classes=1 ignore_index=2"},
    {"linear_cross_entropy", "2,3,4 4,5 i2,3<5", ""},
    {"linear_cross_entropy", "2,3,4 5,4 i2,3<5 5", "transpose_weight=1 rows=2 classes=3"},
    {"linear_cross_entropy", "2,3,4 5,4 i2,3<5 5", "transpose_weight=1 rows=2"},
    {"linear_cross_entropy", "7,3 3,5 i7<5 5", "ignore_index=2 rows=3"},
    {"linear_cross_entropy", "7,3 3,5 i7<50 5", "ignore_index=2 rows=3"},
    {"linear_cross_entropy", "7,3 3,5 i7<5 5 =1", "ignore_index=2 rows=3"},
    {"linear_cross_entropy", "7,3 3,5 i7<5 _ =1", "rows=3"},
    {"linear_cross_entropy", "2,3 5,3 i2<1", "transpose_weight=1 ignore_index=0 rows=1"},
    {"mean", "2,3,5", ""},
    {"mean", "7", ""},
    {"mean", "-", ""},
    {"mean", "b2,3", ""},
    {"layer_norm", "2,3,5", ""},
    {"layer_norm", "2,3,5 _ 5", ""},
    {"rms_norm", "2,3,5", ""},
    {"rms_norm", "2,3,5 5", ""},
    {"rms_norm", "7 7", "epsilon=0.5"},
    {"rms_norm", "b7 b7", "epsilon=0.5"},
    {"rope", "2,3,2,4 =3,2,2,2", ""},
    {"rope", "b2,3,2,4 =3,2,2,2", "inverse=1"},
    {"rope", "2,3,2,4 =5,2,2,2 i2,3<5", ""},
    {"rope", "b2,3,2,4 =2,2,2,2 i2,3<2", "inverse=1"},
    {"softmax", "2,3,5", ""},
    {"mask_causal", "2,3,3 =3", "scale=0.5"},
    {"mask_causal", "2,5 =2", "scale=1.0"},
    {"scale", "2,5", "scale=0.5"},
    {"silu", "4,5", ""},
    {"swiglu", "4,5 4,5", ""},
    {"dropout", "4,5 i4<9", "p=0.25 site=3"},
    {"dropout", "b4,5 i4<9", "p=0.25 site=3"},
    {"layer_norm", "b2,3,5 b5 b5", ""},
    {"linear", "b2,3 b3,4 b4", ""},
    {"gelu", "b4,5", ""},
    {"sgd", "2,3 2,3 1", "weight_decay=0.1"},
    {"sgd", "- - 1", "weight_decay=0.0"},
    {"adamw", "2,3 2,3 +2,3 2,3 +4", "beta1=0.9 beta2=0.95 epsilon=0.00000001"},
    {"adamw", "- - + - +4", "beta1=0.9 beta2=0.95 epsilon=0.00000001"},
    {"sgd", "b2,3 2,3 1", "weight_decay=0.1"},
    {"adamw", "b2,3 2,3 +2,3 2,3 +4", "beta1=0.9 beta2=0.95 epsilon=0.00000001 no_decay=1"},
    {"adamw", "2,3 b2,3 b+2,3 2,3 +4", "beta1=0.9 beta2=0.95 epsilon=0.00000001"},
    {"sgd", "2,3 2,3 1 i1<1", "weight_decay=0.1"},
    {"sgd", "b2,3 2,3 1 i1<1", "weight_decay=0.1"},
    {"adamw", "b2,3 b2,3 b+2,3 2,3 +4 i1<1", "beta1=0.9 beta2=0.95 epsilon=0.00000001"},
    {"adamw", "2,3 2,3 +2,3 2,3 +4 i1<1", "beta1=0.9 beta2=0.95 epsilon=0.00000001"},
};
#define CASE_COUNT (sizeof cases / sizeof cases[0])

static void compare_outputs(struct workbench *w, const struct remat_graph *expanded, size_t c)
{
    double **x = workbench_random(w, w->graph), **y = workbench_random(w, expanded);
    bool evaluated =
        reference_evaluate(&w->arena, w->graph, x) && reference_evaluate(&w->arena, expanded, y);
    CHECK(evaluated, "%s: no reference", cases[c].op);
    for (uint32_t v = 0; evaluated && v < w->graph->value_count; v++) {
        const struct remat_value_info *value = &w->graph->values[v];
        remat_value same = workbench_find(expanded, value->name);
        CHECK(!remat_is_none(same.i), "%s: lost %s", cases[c].op, value->name);
        for (int64_t i = 0; !remat_is_none(same.i) && i < remat_shape_elements(&value->shape); i++)
            CHECK(x[v][i] == y[same.i][i] ||
                      fabs(x[v][i] - y[same.i][i]) <= 1e-12 * fmax(1, fabs(x[v][i])),
                  "%s(%s; %s): %s[%d] is %.17g, expected %.17g", cases[c].op, cases[c].inputs,
                  cases[c].attributes, value->name, (int)i, y[same.i][i], x[v][i]);
    }
}

static void check_nodes(struct workbench *w, const struct remat_graph *expanded, size_t c)
{
    uint16_t op = w->graph->nodes[0].op;
    for (uint32_t n = 0; n < expanded->node_count; n++) {
        const struct remat_node_info *node = &expanded->nodes[n];
        CHECK(!remat_op_has(node->op, REMAT_FACT_COMPOSITE), "%s is left", cases[c].op);
        CHECK(node->origin == op && node->origin_group == 0, "%s: origin", cases[c].op);
        CHECK(node->scope.i == 1 && node->phase == REMAT_PHASE_LOSS && node->instance == 3,
              "%s: scope, phase or instance", cases[c].op);
    }
}

/* The flag, input x`flag`, becomes 1 where the gradient, input x`gradient`, is not finite. */
static void check_flag(struct workbench *w, const struct remat_graph *expanded, size_t c,
                       uint32_t gradient, uint32_t flag)
{
    const double values[] = {1e300, INFINITY, -INFINITY, NAN};
    for (uint32_t k = 0; k < 4; k++) {
        double **x = workbench_random(w, expanded);
        x[gradient][5] = values[k];
        CHECK(reference_evaluate(&w->arena, expanded, x) && x[flag][0] == (k > 0),
              "%s(%s): flag %g for %g", cases[c].op, cases[c].inputs, x[flag][0], values[k]);
    }
}

static void run_case(size_t c)
{
    struct workbench w;
    remat_value inputs[8];
    struct remat_graph *expanded;
    workbench_open(&w);
    w.b.scope = remat_graph_scope(&w.arena, w.graph, "layers.0/mlp");
    w.b.phase = REMAT_PHASE_LOSS;
    w.b.instance = 3;
    uint32_t count = workbench_inputs(&w, cases[c].inputs, inputs);
    workbench_node(&w, cases[c].op, inputs, count, cases[c].attributes, NULL);
    bool built = w.status == REMAT_OK &&
                 remat_pass_expand(&w.arena, w.graph, &w.passes, &expanded) == REMAT_OK &&
                 remat_graph_verify(w.ctx, expanded) == REMAT_OK;
    if (CHECK(built, "%s: %s", cases[c].op, remat_context_message(w.ctx))) {
        compare_outputs(&w, expanded, c);
        check_nodes(&w, expanded, c);
        if (strstr(cases[c].inputs, "1 i1<1"))
            check_flag(&w, expanded, c, 1, 3);
        if (strstr(cases[c].inputs, "+4 i1<1"))
            check_flag(&w, expanded, c, 3, 5);
    }
    workbench_close(&w);
}

int main(void)
{
    for (uint16_t op = 0; op < REMAT_OP_COUNT; op++) {
        bool covered = !remat_op_has(op, REMAT_FACT_COMPOSITE);
        for (size_t c = 0; c < CASE_COUNT; c++)
            covered = covered || strcmp(cases[c].op, remat_op_info(op)->name) == 0;
        CHECK(covered, "%s is composite and has no case", remat_op_info(op)->name);
        CHECK(!remat_op_has(op, REMAT_FACT_COMPOSITE) == !remat_op_info(op)->expand,
              "%s: composite and expansion disagree", remat_op_info(op)->name);
    }
    for (size_t c = 0; c < CASE_COUNT; c++)
        run_case(c);
    return check_exit();
}
