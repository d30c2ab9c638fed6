/* SPDX-License-Identifier: Apache-2.0 */
/* Which gradients and states training appends, and what it refuses. */
#include "ops.h"
#include "tied.h"
#include "view.h"

/* The dtype of a state; REMAT_I32: there is none. */
static remat_dtype dtype_of(const struct remat_graph *graph, const char *state)
{
    remat_value found = workbench_find(graph, state);
    return remat_is_none(found.i) ? REMAT_I32 : graph->values[found.i].dtype;
}

/* A bf16 and an f32 parameter, of which one decays. */
static void check_states(void)
{
    for (int form = 0; form < 4; form++) {
        struct workbench w;
        struct remat_graph *joint, *graph;
        remat_value in[2], x[2];
        bool no_master = form & 1, bf16_moments = form & 2;
        workbench_open(&w);
        workbench_inputs(&w, "b2,3 2,3", in);
        w.graph->values[in[1].i].no_decay = true;
        const struct remat_attribute wide = remat_attribute_int("dtype", REMAT_F32);
        x[0] = remat_build(&w.b, REMAT_OP_cast, in, 1, &wide, 1, NULL);
        x[0] = workbench_node(&w, "mul", (remat_value[]){x[0], in[1]}, 2, "", NULL);
        x[0] = workbench_node(&w, "row_sum", x, 1, "", NULL);
        x[0] = workbench_node(&w, "column_sum", x, 1, "", NULL);
        workbench_output(&w, x[0]);
        w.graph->optimizer = (struct remat_optimizer){
            REMAT_OPTIMIZER_ADAMW, {{0.9, 0.95, 1e-8, 0.1, 0}}, no_master, bf16_moments};
        RUN(&w, autodiff, w.graph, &joint);
        RUN(&w, optimizer, joint, &graph);
        remat_dtype moments = bf16_moments ? REMAT_BF16 : REMAT_F32;
        CHECK(dtype_of(graph, "x0.master") == (no_master ? REMAT_I32 : REMAT_F32) &&
                  dtype_of(graph, "x1.master") == REMAT_I32,
              "form %d: masters", form);
        CHECK(dtype_of(graph, "x0.m") == moments && dtype_of(graph, "x0.v") == moments &&
                  dtype_of(graph, "x1.m") == moments && dtype_of(graph, "x1.v") == moments,
              "form %d: moments", form);
        CHECK(graph->update_count == 7u + !no_master, "form %d: %u updates", form,
              graph->update_count);
        uint32_t decays = node_of(graph, no_master ? "x0.next" : "x0.master.next");
        uint32_t plain = node_of(graph, "x1.next");
        CHECK(remat_node_int(&graph->nodes[decays], "no_decay", 0) == 0 &&
                  remat_node_int(&graph->nodes[plain], "no_decay", 0) == 1,
              "form %d: decay", form);
    done:
        workbench_close(&w);
    }
}

static void check_errors(void)
{
    struct workbench w;
    struct remat_graph *graph;
    remat_value in[2];
    workbench_open(&w);
    workbench_inputs(&w, "4 4", in);
    remat_value top = workbench_node(&w, "row_max", in, 1, "", NULL);
    workbench_output(&w, in[0]);
    CHECK(remat_pass_autodiff(&w.arena, w.graph, &w.passes, &graph) == REMAT_ERROR_INVALID &&
              strcmp(remat_context_message(w.ctx), "the loss \"x0\" is not one f32 element") == 0,
          "%s", remat_context_message(w.ctx));
    workbench_output(&w, top);
    CHECK(remat_pass_autodiff(&w.arena, w.graph, &w.passes, &graph) == REMAT_ERROR_INVALID &&
              strcmp(remat_context_message(w.ctx),
                     "node \"t.row_max_0\": row_max has no derivative") == 0,
          "%s", remat_context_message(w.ctx));
    workbench_output(&w, workbench_node(&w, "row_sum", in, 1, "", NULL));
    CHECK(remat_pass_autodiff(&w.arena, w.graph, &w.passes, &graph) == REMAT_ERROR_INVALID &&
              strcmp(remat_context_message(w.ctx),
                     "parameter \"x1\": the loss does not depend on it") == 0,
          "%s", remat_context_message(w.ctx));
    remat_value norm[2];
    workbench_node(&w, "rms_norm", in, 2, "", norm);
    workbench_output(&w, norm[1]);
    CHECK(remat_pass_autodiff(&w.arena, w.graph, &w.passes, &graph) == REMAT_ERROR_INVALID &&
              strcmp(remat_context_message(w.ctx),
                     "node \"t.rms_norm_2\" (rms_norm): no derivative by output 1 "
                     "(\"t.rms_norm_2.1\")") == 0,
          "%s", remat_context_message(w.ctx));
    workbench_close(&w);
}

/* What a joint graph calls a gradient has to be one. */
static void check_gradients(void)
{
    static const char *const texts[] = {"2,3", "i3<2"};
    for (size_t k = 0; k < 2; k++) {
        struct workbench w;
        struct remat_graph *graph;
        remat_value x, gradient;
        workbench_open(&w);
        workbench_input(&w, "p", "3");
        x = workbench_input(&w, "x", texts[k]);
        gradient = workbench_node(&w, "concat", &x, 1, "axis=0", NULL);
        w.graph->values[gradient.i].name = "p.grad";
        w.graph->values[gradient.i].role = REMAT_ROLE_GRADIENT;
        w.graph->optimizer = (struct remat_optimizer){.kind = REMAT_OPTIMIZER_SGD};
        CHECK(remat_pass_optimizer(&w.arena, w.graph, &w.passes, &graph) == REMAT_ERROR_INVALID &&
                  strcmp(remat_context_message(w.ctx),
                         "gradient \"p.grad\" and its parameter are not floats of one shape") == 0,
              "%s", remat_context_message(w.ctx));
        w.passes.microbatches = 2;
        remat_status st = remat_pass_microbatches(&w.arena, w.graph, &w.passes, &graph);
        CHECK(k == 0 ? st == REMAT_OK
                     : strcmp(remat_context_message(w.ctx),
                              "gradient \"p.grad\" is i32, which has no average") == 0,
              "%s", remat_context_message(w.ctx));
        workbench_close(&w);
    }
}

/* With the seed's reshape the gradient has more views in a chain than a value may have: it is
 * copied on the way. */
static void check_chain(void)
{
    struct workbench w;
    struct remat_graph *joint;
    workbench_open(&w);
    remat_value x = workbench_input(&w, "p", "1");
    for (uint32_t k = 0; k < REMAT_VIEW_CHAIN_MAX; k++)
        x = workbench_node(&w, "transpose", &x, 1, "permutation=0", NULL);
    workbench_output(&w, x);
    RUN(&w, autodiff, w.graph, &joint);
    CHECK(workbench_count(joint, REMAT_OP_concat) == 1, "no copy");
done:
    workbench_close(&w);
}

/* Gradients that are another value's, or views, become values of their own. */
static void check_own_gradients(void)
{
    struct workbench w;
    struct remat_graph *graph;
    remat_value in[3];
    workbench_open(&w);
    workbench_inputs(&w, "1 1 1,1", in);
    remat_value x = workbench_node(&w, "add", in, 2, "", NULL);
    remat_value y = workbench_node(&w, "reshape", in + 2, 1, "shape=1", NULL);
    x = workbench_node(&w, "add", (remat_value[]){x, y}, 2, "", NULL);
    workbench_output(&w, workbench_node(&w, "gelu", &x, 1, "", NULL));
    RUN(&w, autodiff, w.graph, &graph);
    for (uint32_t v = 0; v < 3; v++) {
        const char *name = remat_arena_format(&w.arena, "x%u.grad", v);
        remat_value g = workbench_find(graph, name);
        CHECK(!remat_is_none(g.i) && graph->values[g.i].role == REMAT_ROLE_GRADIENT &&
                  remat_storage_root(graph, g).i == g.i,
              "%s is no value of its own", name);
    }
done:
    workbench_close(&w);
}

int main(void)
{
    check_states();
    check_errors();
    check_gradients();
    check_chain();
    check_own_gradients();
    return check_exit();
}
