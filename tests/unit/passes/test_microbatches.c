/* SPDX-License-Identifier: Apache-2.0 */
/* A step divided into microbatches and the update, evaluated in float64: after N microbatches and
 * the update, loss, gradients, parameters and states are those of the step at once, whatever the
 * accumulators held before. */
#include "ops.h"
#include "passes.h"
#include "reference.h"
#include "workbench.h"

#include <math.h>

#define BATCH 6

/* Scalar, vector and matrix parameters; the table's gradient has two parts. */
static void build(struct workbench *w, int64_t batch, uint8_t optimizer)
{
    char text[32];
    snprintf(text, sizeof text, "i%d,3<7", (int)batch);
    remat_value ids = workbench_input(w, "ids", text), targets = workbench_input(w, "to", text);
    remat_value table = workbench_input(w, "wte", "7,4"), scale = workbench_input(w, "s", "");
    remat_value weight = workbench_input(w, "w", "4,4"), bias = workbench_input(w, "b", "4");
    w->graph->values[ids.i].batched = w->graph->values[targets.i].batched = true;
    remat_value h = workbench_node(w, "embedding", (remat_value[]){table, ids}, 2, "", NULL);
    h = workbench_node(w, "linear", (remat_value[]){h, weight, bias}, 3, "", NULL);
    h = workbench_node(w, "mul", (remat_value[]){h, scale}, 2, "", NULL);
    h = workbench_node(w, "linear", (remat_value[]){h, table}, 2, "transpose_weight=1", NULL);
    w->b.name = "loss";
    w->b.phase = REMAT_PHASE_LOSS;
    remat_value loss = workbench_node(w, "cross_entropy", (remat_value[]){h, targets}, 2, "", NULL);
    w->graph->values[loss.i].role = REMAT_ROLE_OUTPUT;
    workbench_output(w, loss);
    w->graph->optimizer =
        (struct remat_optimizer){optimizer, {{0.9, 0.95, 1e-8, 0.1, 0.5}}, false, false};
}

/* The joint graph after all passes. */
static struct remat_graph *prepare(struct workbench *w, uint32_t microbatches)
{
    remat_status st = REMAT_OK;
    struct remat_graph *g = w->graph;
    w->passes.microbatches = microbatches;
    REMAT_TRY(remat_pass_autodiff(&w->arena, g, &w->passes, &g));
    REMAT_TRY(remat_pass_microbatches(&w->arena, g, &w->passes, &g));
    REMAT_TRY(remat_graph_verify(w->ctx, g));
    REMAT_TRY(remat_pass_optimizer(&w->arena, g, &w->passes, &g));
    REMAT_TRY(remat_pass_eliminate_common(&w->arena, g, &w->passes, &g));
    REMAT_TRY(remat_pass_expand(&w->arena, g, &w->passes, &g));
    REMAT_TRY(remat_pass_fold(&w->arena, g, &w->passes, &g));
    REMAT_TRY(remat_pass_eliminate_dead(&w->arena, g, &w->passes, &g));
    REMAT_TRY(remat_graph_verify(w->ctx, g));
    return g;
fail:
    CHECK(false, "passes: %s", remat_context_message(w->ctx));
    return NULL;
}

/* New versions take the places of the old ones. */
static void run(struct workbench *w, const struct remat_graph *graph, double **values)
{
    CHECK(reference_evaluate(&w->arena, graph, values), "evaluation");
    for (uint32_t u = 0; u < graph->update_count; u++) {
        double *to = values[graph->updates[u].state.i];
        const double *from = values[graph->updates[u].value.i];
        int64_t n = remat_shape_elements(&graph->values[graph->updates[u].state.i].shape);
        memcpy(to, from, (size_t)n * sizeof *to);
    }
}

/* Inputs of equal name are one tensor. */
static void carry(const struct remat_graph *from, double **values, const struct remat_graph *to,
                  double **others)
{
    for (uint32_t v = 0; v < from->value_count; v++) {
        if (!remat_is_none(from->values[v].node.i))
            continue;
        remat_value same = workbench_find(to, from->values[v].name);
        if (!remat_is_none(same.i) && remat_is_none(to->values[same.i].node.i))
            others[same.i] = values[v];
    }
}

static void compare(const struct remat_graph *a, double **x, const struct remat_graph *b,
                    double **y, const char *name)
{
    remat_value i = workbench_find(a, name), j = workbench_find(b, name);
    CHECK(!remat_is_none(i.i) && !remat_is_none(j.i), "\"%s\" is missing", name);
    if (remat_is_none(i.i) || remat_is_none(j.i))
        return;
    int64_t n = remat_shape_elements(&a->values[i.i].shape);
    CHECK(n == remat_shape_elements(&b->values[j.i].shape), "\"%s\": shape", name);
    for (int64_t k = 0; k < n; k++)
        CHECK(fabs(x[i.i][k] - y[j.i][k]) <= 1e-12 * (1 + fabs(x[i.i][k])),
              "\"%s\"[%d]: %.17g at once, %.17g in parts", name, (int)k, x[i.i][k], y[j.i][k]);
}

static bool has_phase(const struct remat_graph *graph, uint8_t phase)
{
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].phase == phase)
            return true;
    return false;
}

static void check_step(uint32_t microbatches, uint8_t optimizer)
{
    struct workbench whole, part;
    struct remat_graph *once, *joint, *microbatch, *update;
    workbench_open(&whole);
    workbench_open(&part);
    build(&whole, BATCH, optimizer);
    build(&part, BATCH / microbatches, optimizer);
    once = prepare(&whole, 1);
    joint = prepare(&part, microbatches);
    if (!once || !joint)
        return;
    microbatch = remat_split(&part.arena, joint, REMAT_SPLIT_MICROBATCH);
    update = remat_split(&part.arena, joint, REMAT_SPLIT_UPDATE);
    bool split = remat_graph_verify(part.ctx, microbatch) == REMAT_OK &&
                 remat_graph_verify(part.ctx, update) == REMAT_OK;
    if (!CHECK(split, "split: %s", remat_context_message(part.ctx)))
        return;
    CHECK(!has_phase(microbatch, REMAT_PHASE_OPTIMIZER), "an update in the microbatch");
    CHECK(!has_phase(update, REMAT_PHASE_FORWARD) && !has_phase(update, REMAT_PHASE_BACKWARD),
          "the update computes gradients");
    double **x = workbench_random(&whole, once), **y = workbench_random(&part, microbatch);
    double **z = workbench_random(&part, update);
    carry(microbatch, y, update, z);
    double *number = y[workbench_find(microbatch, "microbatch").i];
    reference_evaluate(&whole.arena, once, x);
    for (*number = 0; *number < microbatches; ++*number)
        run(&part, microbatch, y);
    compare(once, x, microbatch, y, "loss");
    static const char *const parameters[] = {"wte", "w", "b", "s"};
    char name[16];
    for (int p = 0; p < 4; p++) {
        snprintf(name, sizeof name, "%s.grad", parameters[p]);
        compare(once, x, microbatch, y, name);
    }
    run(&part, update, z);
    for (uint32_t u = 0; u < once->update_count; u++)
        memcpy(x[once->updates[u].state.i], x[once->updates[u].value.i],
               (size_t)remat_shape_elements(&once->values[once->updates[u].state.i].shape) *
                   sizeof(double));
    for (uint32_t u = 0; u < once->update_count; u++)
        compare(once, x, update, z, once->values[once->updates[u].state.i].name);
    CHECK(once->update_count == update->update_count && update->update_count >= 4, "updates");
    workbench_close(&whole);
    workbench_close(&part);
}

/* --- what has no microbatches --- */

static void expect(struct workbench *w, struct remat_graph *graph, const char *message)
{
    struct remat_graph *result;
    w->passes.microbatches = 2;
    CHECK_STATUS(w->ctx, remat_pass_microbatches(&w->arena, graph, &w->passes, &result),
                 REMAT_ERROR_INVALID, message);
}

static void check_errors(void)
{
    struct workbench w;
    struct remat_graph *joint;
    workbench_open(&w);
    build(&w, 2, REMAT_OPTIMIZER_SGD);
    joint = prepare(&w, 1);
    expect(&w, joint, "the graph updates \"w\": a step that updates by itself");
    w.graph->outputs[0] = workbench_find(w.graph, "wte");
    expect(&w, w.graph, "output \"wte\" is not one computed f32 element");
    w.graph->output_count = 0;
    w.graph->values[workbench_find(w.graph, "ids").i].shape.dims[0] = INT64_MAX;
    expect(&w, w.graph, "input \"ids\": no batch of 2 microbatches");
    workbench_close(&w);
}

int main(void)
{
    check_step(2, REMAT_OPTIMIZER_SGD);
    check_step(3, REMAT_OPTIMIZER_ADAMW);
    check_step(6, REMAT_OPTIMIZER_ADAMW);
    check_errors();
    return check_exit();
}
