/* SPDX-License-Identifier: Apache-2.0 */
/* Each pass alone: what autodiff orders and names, what the optimizer appends, what common, dead
 * and folded nodes are and are not. */
#include "graph_parse.h"
#include "graph_print.h"
#include "graph_verify.h"
#include "hash.h"
#include "reference.h"
#include "view.h"
#include "workbench.h"

#include <math.h>
#include <stdlib.h>

#define RUN(w, name, from, to)                                                                     \
    do {                                                                                           \
        bool ran_ = remat_pass_##name(&(w)->arena, from, to) == REMAT_OK &&                        \
                    remat_graph_verify((w)->ctx, *(to)) == REMAT_OK;                               \
        CHECK(ran_, "%s: %s", #name, remat_context_message((w)->ctx));                             \
        if (!ran_)                                                                                 \
            goto done;                                                                             \
    } while (0)

/* A language model of one layer's shape: embedding, a linear, the tied head, cross entropy. */
static void build_tied(struct workbench *w)
{
    remat_value ids = workbench_input(w, "ids", "i2,3<7");
    remat_value table = workbench_input(w, "wte", "7,4");
    remat_value weight = workbench_input(w, "w", "4,12"), bias = workbench_input(w, "b", "12");
    remat_value h = workbench_node(w, "embedding", (remat_value[]){table, ids}, 2, "", NULL);
    w->b.scope = remat_graph_scope(&w->arena, w->graph, "layers.0");
    w->b.name = "qkv";
    remat_value qkv = workbench_node(w, "linear", (remat_value[]){h, weight, bias}, 3, "", NULL);
    remat_value heads[3];
    for (int k = 0; k < 3; k++) {
        const char *range =
            remat_arena_format(&w->arena, "axis=2 begin=%d end=%d", 4 * k, 4 * k + 4);
        heads[k] = workbench_node(w, "slice", &qkv, 1, range, NULL);
        heads[k] = workbench_node(w, "reshape", &heads[k], 1, "shape=2,3,2,2", NULL);
    }
    remat_value a = workbench_node(w, "attention", heads, 3, "scale=0.7 causal=1", NULL);
    a = workbench_node(w, "reshape", &a, 1, "shape=2,3,4", NULL);
    h = workbench_node(w, "add", (remat_value[]){h, a}, 2, "", NULL);
    w->b.scope = REMAT_TOP;
    h = workbench_node(w, "linear", (remat_value[]){h, table}, 2, "transpose_weight=1", NULL);
    workbench_output(w, workbench_node(w, "cross_entropy", (remat_value[]){h, ids}, 2, "", NULL));
    w->graph->optimizer =
        (struct remat_optimizer){REMAT_OPTIMIZER_ADAMW, {{0.9, 0.95, 1e-8, 0.1, 0}}, false, false};
}

static uint32_t node_of(const struct remat_graph *graph, const char *value)
{
    remat_value v = workbench_find(graph, value);
    return remat_is_none(v.i) ? REMAT_NONE : graph->values[v.i].node.i;
}

static void check_autodiff(const struct remat_graph *joint)
{
    uint32_t w_grad = node_of(joint, "w.grad"), b_grad = node_of(joint, "b.grad");
    remat_value table = workbench_find(joint, "wte.grad");
    CHECK(w_grad != REMAT_NONE && b_grad != REMAT_NONE && !remat_is_none(table.i),
          "gradients are named after parameters");
    if (w_grad == REMAT_NONE || remat_is_none(table.i))
        return;
    CHECK(strcmp(joint->scopes[joint->nodes[w_grad].scope.i].path, "layers.0") == 0 &&
              joint->nodes[w_grad].phase == REMAT_PHASE_BACKWARD,
          "scope and phase of a gradient");
    CHECK(joint->nodes[w_grad + 1].op == REMAT_OP_column_sum &&
              joint->nodes[w_grad + 2].op == REMAT_OP_matmul,
          "the weight's gradient comes before the input's");
    const struct remat_node_info *sum = &joint->nodes[joint->values[table.i].node.i];
    CHECK(sum->op == REMAT_OP_add &&
              joint->nodes[joint->values[sum->inputs[0].i].node.i].op == REMAT_OP_matmul &&
              joint->nodes[joint->values[sum->inputs[1].i].node.i].op ==
                  REMAT_OP_embedding_backward,
          "contributions of the last user come first");
    CHECK(workbench_count(joint, REMAT_OP_mul) == 1, "no products with one: %u",
          workbench_count(joint, REMAT_OP_mul));
}

static void check_optimizer(const struct remat_graph *graph)
{
    CHECK(graph->update_count == 10 && workbench_count(graph, REMAT_OP_adamw) == 3, "updates");
    remat_value state = workbench_find(graph, "wte.m"), step = workbench_find(graph, "step");
    CHECK(!remat_is_none(state.i) && !remat_is_none(step.i) &&
              graph->values[state.i].role == REMAT_ROLE_OPTIMIZER_STATE &&
              graph->values[state.i].initializer == REMAT_INIT_CONSTANT &&
              graph->values[step.i].dtype == REMAT_I32,
          "states and inputs");
    uint32_t node = node_of(graph, "w.next");
    CHECK(node != REMAT_NONE &&
              strcmp(graph->scopes[graph->nodes[node].scope.i].path, "layers.0") == 0 &&
              graph->nodes[node].phase == REMAT_PHASE_OPTIMIZER,
          "scope and phase of an update");
    remat_value flag = workbench_find(graph, "not_finite");
    CHECK(!remat_is_none(flag.i) && graph->values[flag.i].role == REMAT_ROLE_OUTPUT &&
              graph->nodes[node_of(graph, "not_finite.next")].phase == REMAT_PHASE_OPTIMIZER,
          "the flag of gradients that are not finite");
}

static void check_folded(const struct remat_graph *graph)
{
    remat_value table = workbench_find(graph, "wte.grad");
    CHECK(workbench_count(graph, REMAT_OP_embedding_backward) == 0 &&
              workbench_count(graph, REMAT_OP_embedding_accumulate) == 1 &&
              graph->nodes[graph->values[table.i].node.i].op == REMAT_OP_embedding_accumulate &&
              graph->values[table.i].role == REMAT_ROLE_GRADIENT,
          "the table's gradient accumulates and keeps name and role");
    uint32_t node = node_of(graph, "qkv.grad");
    CHECK(workbench_count(graph, REMAT_OP_pad) == 0 && node != REMAT_NONE &&
              graph->nodes[node].op == REMAT_OP_concat && graph->nodes[node].input_count == 3,
          "pads that tile an axis become one concat");
}

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

static void compare_values(struct workbench *w, const struct remat_graph *a,
                           const struct remat_graph *b)
{
    double **x = workbench_random(w, a), **y = workbench_random(w, b);
    CHECK(reference_evaluate(&w->arena, a, x) && reference_evaluate(&w->arena, b, y),
          "no reference");
    for (uint32_t v = 0; v < b->value_count; v++) {
        remat_value same = workbench_find(a, b->values[v].name);
        if (remat_is_none(same.i) ||
            !remat_shape_equal(&a->values[same.i].shape, &b->values[v].shape))
            continue;
        for (int64_t i = 0; i < remat_shape_elements(&b->values[v].shape); i++)
            CHECK(fabs(x[same.i][i] - y[v][i]) <= 1e-12 * fmax(1, fabs(y[v][i])), "%s[%d] differs",
                  b->values[v].name, (int)i);
    }
}

static void check_pipeline(void)
{
    struct workbench w;
    struct remat_graph *joint, *trained, *common, *expanded, *folded, *alive, *again;
    workbench_open(&w);
    build_tied(&w);
    CHECK_OK(w.ctx, w.status, "tied");
    RUN(&w, autodiff, w.graph, &joint);
    check_autodiff(joint);
    RUN(&w, autodiff, joint, &again);
    CHECK(remat_graph_hash(again) == remat_graph_hash(joint), "autodiff twice");
    RUN(&w, optimizer, joint, &trained);
    check_optimizer(trained);
    RUN(&w, optimizer, trained, &again);
    CHECK(remat_graph_hash(again) == remat_graph_hash(trained), "optimizer twice");
    RUN(&w, eliminate_common, trained, &common);
    RUN(&w, expand, common, &expanded);
    RUN(&w, fold, expanded, &folded);
    RUN(&w, eliminate_dead, folded, &alive);
    check_folded(alive);
    compare_values(&w, trained, alive);
    CHECK(alive->update_count == 10 && alive->node_count < folded->node_count, "dead nodes");
    RUN(&w, eliminate_dead, alive, &again);
    CHECK(remat_graph_hash(again) == remat_graph_hash(alive), "dead nodes twice");
done:
    workbench_close(&w);
}

/* What a rotation's derivative, a rotation, makes is the gradient of the norm's result, after which
 * the norm's derivative names its values too: all have names of their own. */
static void check_rotated_norm(void)
{
    struct workbench w;
    struct remat_graph *joint, *expanded;
    workbench_open(&w);
    remat_value ids = workbench_input(&w, "ids", "i2<4"), weight = workbench_input(&w, "w", "4");
    remat_value x = workbench_input(&w, "x", "1,2,1,4");
    w.b.name = "n";
    x = workbench_node(&w, "rms_norm", (remat_value[]){x, weight}, 2, "", NULL);
    remat_value table =
        workbench_node(&w, "rope_table", NULL, 0, "length=2 pairs=2 theta=100", NULL);
    x = workbench_node(&w, "rope", (remat_value[]){x, table}, 2, "", NULL);
    x = workbench_node(&w, "reshape", &x, 1, "shape=2,4", NULL);
    workbench_output(&w, workbench_node(&w, "cross_entropy", (remat_value[]){x, ids}, 2, "", NULL));
    CHECK_OK(w.ctx, w.status, "rotated norm");
    RUN(&w, autodiff, w.graph, &joint);
    CHECK(joint->nodes[node_of(joint, "n.grad")].op == REMAT_OP_rope, "whose gradient it is");
    RUN(&w, expand, joint, &expanded);
    compare_values(&w, joint, expanded);
done:
    workbench_close(&w);
}

static void check_common(void)
{
    struct workbench w;
    struct remat_graph *graph;
    remat_value in[2], x[6];
    workbench_open(&w);
    workbench_inputs(&w, "2,2 2,2", in);
    for (int k = 0; k < 2; k++)
        x[k] = workbench_node(&w, "matmul", in, 2, "", NULL);
    x[2] = workbench_node(&w, "matmul", in, 2, "transpose_a=1", NULL);
    w.b.instance = 1;
    x[3] = workbench_node(&w, "matmul", in, 2, "", NULL);
    w.b.instance = 0;
    w.b.scope = remat_graph_scope(&w.arena, w.graph, "layers.1");
    x[4] = workbench_node(&w, "matmul", in, 2, "", NULL);
    for (int k = 0; k < 2; k++)
        x[5] = workbench_node(&w, "add", x + k, 2, "", NULL);
    for (int k = 0; k < 2; k++)
        workbench_node(&w, "exp", in, 1, "", NULL);
    for (int k = 0; k < 2; k++)
        x[5] = workbench_node(&w, "reshape", in, 1, "shape=4", NULL);
    workbench_output(&w, x[5]);
    RUN(&w, eliminate_common, w.graph, &graph);
    CHECK(workbench_count(graph, REMAT_OP_matmul) == 4, "clones and other scopes stay: %u products",
          workbench_count(graph, REMAT_OP_matmul));
    CHECK(workbench_count(graph, REMAT_OP_exp) == 2, "pointwise nodes stay");
    CHECK(workbench_count(graph, REMAT_OP_reshape) == 2, "a graph output stays");
    CHECK(graph->nodes[4].inputs[0].i == graph->nodes[4].inputs[1].i, "readers follow");
done:
    workbench_close(&w);
}

/* Sums that look alike and must stay. */
static void check_unfolded(void)
{
    struct workbench w;
    struct remat_graph *graph;
    remat_value in[4], x, g;
    workbench_open(&w);
    workbench_inputs(&w, "5,3 2,3 i2<5 3,5", in);
    g = workbench_node(&w, "embedding_backward", in + 1, 2, "rows=5", NULL);
    workbench_node(&w, "add", (remat_value[]){in[0], g}, 2, "", NULL); /* a graph input */
    x = workbench_node(&w, "exp", in, 1, "", NULL);
    g = workbench_node(&w, "embedding_backward", in + 1, 2, "rows=5", NULL);
    workbench_node(&w, "add", (remat_value[]){x, g}, 2, "", NULL);
    workbench_node(&w, "neg", &x, 1, "", NULL); /* another reader */
    x = workbench_node(&w, "transpose", in + 3, 1, "permutation=1,0", NULL);
    g = workbench_node(&w, "embedding_backward", in + 1, 2, "rows=5", NULL);
    workbench_node(&w, "add", (remat_value[]){x, g}, 2, "", NULL); /* a view */
    x = workbench_node(&w, "pad", in, 1, "axis=0 begin=0 length=10", NULL);
    g = workbench_node(&w, "pad", in, 1, "axis=0 begin=4 length=10", NULL);
    workbench_node(&w, "add", (remat_value[]){x, g}, 2, "", NULL); /* they overlap */
    RUN(&w, fold, w.graph, &graph);
    CHECK(remat_graph_hash(graph) == remat_graph_hash(w.graph), "folded what must stay");
done:
    workbench_close(&w);
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
    CHECK(remat_pass_autodiff(&w.arena, w.graph, &graph) == REMAT_ERROR_INVALID &&
              strcmp(remat_context_message(w.ctx), "the loss \"x0\" is not one f32 element") == 0,
          "%s", remat_context_message(w.ctx));
    workbench_output(&w, top);
    CHECK(remat_pass_autodiff(&w.arena, w.graph, &graph) == REMAT_ERROR_INVALID &&
              strcmp(remat_context_message(w.ctx),
                     "node \"t.row_max_0\": row_max has no derivative") == 0,
          "%s", remat_context_message(w.ctx));
    workbench_output(&w, workbench_node(&w, "row_sum", in, 1, "", NULL));
    CHECK(remat_pass_autodiff(&w.arena, w.graph, &graph) == REMAT_ERROR_INVALID &&
              strcmp(remat_context_message(w.ctx),
                     "parameter \"x1\": the loss does not depend on it") == 0,
          "%s", remat_context_message(w.ctx));
    remat_value norm[2];
    workbench_node(&w, "rms_norm", in, 2, "", norm);
    workbench_output(&w, norm[1]);
    CHECK(remat_pass_autodiff(&w.arena, w.graph, &graph) == REMAT_ERROR_INVALID &&
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
        CHECK(remat_pass_optimizer(&w.arena, w.graph, &graph) == REMAT_ERROR_INVALID &&
                  strcmp(remat_context_message(w.ctx),
                         "gradient \"p.grad\" and its parameter are not floats of one shape") == 0,
              "%s", remat_context_message(w.ctx));
        w.graph->microbatches = 2;
        remat_status st = remat_pass_microbatches(&w.arena, w.graph, &graph);
        CHECK(k == 0 ? st == REMAT_OK
                     : strcmp(remat_context_message(w.ctx),
                              "gradient \"p.grad\" is i32, which has no average") == 0,
              "%s", remat_context_message(w.ctx));
        workbench_close(&w);
    }
}

/* Before and after. %a is read by both passes, %e by way of a view; %state is replaced; of
 * %column's operand only the shape is used; nothing reads the gradient. */
static const char *const late[] = {
    "graph \"late\"\n"
    "input %x : f32[4,4]\n"
    "parameter %w : f32[4,4] = normal(0.0, 0.02)\n"
    "state %state : f32[4,4] = constant(1.0)\n"
    "%a : f32[4,4] = tanh %x phase forward\n"
    "%e : f32[4,4] = exp %x phase forward\n"
    "%view : f32[4,4] = transpose %e { permutation = [1, 0] } phase forward\n"
    "%old : f32[4,4] = mul %state %a phase forward\n"
    "%new : f32[4,4] state = assign %state %x phase forward\n"
    "%shape : f32[4,4] = neg %a phase forward\n"
    "%column : f32[4,4] = column %shape phase forward\n"
    "%p : f32[4,4] = matmul %view %old phase forward\n"
    "%w.grad : f32[4,4] gradient = matmul %p %shape phase forward\n"
    "%loss : f32[4,4] output = mul %a %column phase loss\n"
    "%b.grad : f32[4,4] gradient = matmul %view %e phase backward\n"
    "output %loss\n"
    "update %state = %new\n",
    "%a : f32[4,4] = tanh %x phase forward\n"
    "%old : f32[4,4] = mul %state %a phase backward\n"
    "%new : f32[4,4] state = assign %state %x phase forward\n"
    "%shape : f32[4,4] = neg %a phase backward\n"
    "%column : f32[4,4] = column %shape phase forward\n"
    "%loss : f32[4,4] output = mul %a %column phase loss\n"
    "%e : f32[4,4] = exp %x phase backward\n"
    "%view : f32[4,4] = transpose %e { permutation = [1, 0] } phase backward\n"
    "%b.grad : f32[4,4] gradient = matmul %view %e phase backward\n"
    "%p : f32[4,4] = matmul %view %old phase backward\n"
    "%w.grad : f32[4,4] gradient = matmul %p %shape phase backward\n"};

static void check_defer(void)
{
    struct workbench w;
    struct remat_graph *joint, *graph, *again;
    workbench_open(&w);
    CHECK_OK(w.ctx, remat_graph_parse(w.ctx, "late", late[0], strlen(late[0]), &w.arena, &joint));
    RUN(&w, defer, joint, &graph);
    compare_values(&w, joint, graph);
    struct remat_text text = {.arena = &w.arena};
    remat_graph_print(graph, &text);
    remat_text_complete(&text);
    CHECK(strstr(text.items, late[1]), "%s", text.items);
    RUN(&w, defer, graph, &again);
    CHECK(remat_graph_hash(again) == remat_graph_hash(graph), "deferred twice");
done:
    workbench_close(&w);
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

/* The linear and the loss become one node. */
static void check_chunk_loss(void)
{
    struct workbench w;
    struct remat_graph *graph, *joint;
    remat_value in[3], x;
    workbench_open(&w);
    workbench_inputs(&w, "2000,4 9,4 i2000<9", in);
    x = workbench_node(&w, "linear", in, 2, "transpose_weight=1", NULL);
    x = workbench_node(&w, "cross_entropy", (remat_value[]){x, in[2]}, 2, "ignore_index=3", NULL);
    workbench_output(&w, x);
    RUN(&w, chunk_loss, w.graph, &graph);
    CHECK(remat_graph_hash(graph) == remat_graph_hash(w.graph), "no chunks were asked for");
    w.graph->loss_chunk = REMAT_LOSS_CHUNK_AUTO;
    RUN(&w, chunk_loss, w.graph, &graph);
    const struct remat_node_info *node = &graph->nodes[graph->values[graph->outputs[0].i].node.i];
    CHECK(graph->node_count == 1 && node->op == REMAT_OP_linear_cross_entropy &&
              remat_node_int(node, "rows", 0) == 1024 &&
              remat_node_int(node, "ignore_index", 0) == 3 &&
              remat_node_int(node, "transpose_weight", 0) == 1,
          "chunks of 1024 rows");
    RUN(&w, autodiff, graph, &joint);
    CHECK(joint->node_count == 2, "gradients are outputs, beside the seed: %u nodes",
          joint->node_count);
    workbench_node(&w, "neg", (remat_value[]){w.graph->nodes[0].outputs[0]}, 1, "", NULL);
    RUN(&w, chunk_loss, w.graph, &graph);
    CHECK(remat_graph_hash(graph) == remat_graph_hash(w.graph), "somebody else reads the logits");
    w.graph->loss_chunk = 500;
    CHECK_STATUS(w.ctx, remat_pass_chunk_loss(&w.arena, w.graph, &graph), REMAT_ERROR_INVALID,
                 "no chunks of rows");
done:
    workbench_close(&w);
}

/* The value of a product of [2,3,4] and [1, 4, columns], and what reads it. */
static int64_t pitch_of_product(struct workbench *w, int columns, const char *reader,
                                const char *attributes)
{
    struct remat_graph *graph;
    remat_value in[2];
    int64_t pitch = -1;
    workbench_open(w);
    workbench_inputs(w, remat_arena_format(&w->arena, "2,3,4 1,4,%d", columns), in);
    remat_value x = workbench_node(w, "matmul", in, 2, "", NULL), y = x;
    if (*reader)
        y = workbench_node(w, reader, &x, 1, attributes, NULL);
    workbench_output(w, *reader ? workbench_node(w, "neg", &y, 1, "", NULL) : x);
    RUN(w, pitch, w->graph, &graph);
    pitch = graph->values[x.i].pitch;
    bool follows = strcmp(reader, "neg") == 0; /* what is computed element by element does */
    CHECK(y.i == x.i || graph->values[y.i].pitch == (follows ? pitch : 0),
          "\"%s\" has a pitch of %lld", reader, (long long)graph->values[y.i].pitch);
    CHECK(remat_storage_bytes(&graph->values[x.i]) ==
              (uint64_t)((pitch ? pitch : columns) * 5 + columns) * sizeof(float),
          "storage of a pitch of %lld", (long long)pitch);
    CHECK(remat_value_bytes(&graph->values[x.i]) == (uint64_t)columns * 6 * sizeof(float),
          "bytes of the elements");
done:
    workbench_close(w);
    return pitch;
}

static void check_pitch(void)
{
    static const struct {
        int columns;
        const char *reader, *attributes;
        int64_t pitch;
    } rows[] = {
        {1031, "neg", "", 1088},
        {50257, "neg", "", 50304},
        {1028, "neg", "", 0},                            /* aligned */
        {1030, "neg", "", 1088},                         /* to 8 bytes only */
        {389, "neg", "", 0},                             /* would add 15 % */
        {1031, "", "", 0},                               /* the host reads it */
        {1031, "transpose", "permutation=2,0,1", 1088},  /* a view with strides */
        {1031, "slice", "axis=2 begin=5 end=400", 1088}, /* */
        {1031, "reshape", "shape=6,1031", 1088},         /* joins other axes */
        {1031, "reshape", "shape=2,3093", 0},            /* joins the last axis */
        {1022, "reshape", "shape=2,3,511,2", 1024},      /* splits it */
        {1031, "concat", "axis=0", 0},                   /* another kernel */
    };
    struct workbench w;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t pitch = pitch_of_product(&w, rows[i].columns, rows[i].reader, rows[i].attributes);
        CHECK(pitch == rows[i].pitch, "[.., %d] read by \"%s\": pitch %lld, expected %lld",
              rows[i].columns, rows[i].reader, (long long)pitch, (long long)rows[i].pitch);
    }
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

/* On four ranks the table and both other parameters are parts; of 5 columns nothing is. Each is
 * gathered once, right before its first reader, in the scope and phase of that. */
static void check_shard(void)
{
    struct workbench w;
    struct remat_graph *graph;
    workbench_open(&w);
    build_tied(&w);
    remat_value odd = workbench_input(&w, "odd", "5");
    workbench_output(&w, workbench_node(&w, "neg", &odd, 1, "", NULL));
    w.graph->mesh = (struct remat_mesh){1, {{"dp", 4}}};
    w.graph->zero = 1;
    RUN(&w, shard, w.graph, &graph);
    CHECK(remat_graph_hash(graph) == remat_graph_hash(w.graph), "--zero 1 divides no parameter");
    w.graph->zero = 3;
    RUN(&w, shard, w.graph, &graph);
    CHECK(workbench_count(graph, REMAT_OP_gather) == 3, "%u gathers",
          workbench_count(graph, REMAT_OP_gather));
    const struct {
        const char *name, *reader, *scope;
        int64_t elements;
    } parts[] = {{"wte", "embedding", "", 7},
                 {"w", "linear", "layers.0", 12},
                 {"b", "linear", "layers.0", 3}};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        remat_value part = workbench_find(graph, parts[k].name);
        const struct remat_value_info *info = &graph->values[part.i];
        uint32_t n = node_of(graph, remat_arena_format(&w.arena, "%s.gathered", parts[k].name));
        uint32_t reader = n + 1;
        while (graph->nodes[reader].op == REMAT_OP_gather)
            reader++;
        CHECK(info->shape.rank == 1 && info->shape.dims[0] == parts[k].elements && info->part &&
                  remat_shape_elements(&info->part->whole) == 4 * parts[k].elements &&
                  graph->nodes[n].inputs[0].i == part.i &&
                  graph->nodes[n].phase == REMAT_PHASE_FORWARD &&
                  strcmp(graph->scopes[graph->nodes[n].scope.i].path, parts[k].scope) == 0 &&
                  strcmp(remat_op_info(graph->nodes[reader].op)->name, parts[k].reader) == 0,
              "\"%s\" in parts", parts[k].name);
        for (uint32_t v = 0; v < graph->node_count; v++)
            for (uint32_t i = 0; i < graph->nodes[v].input_count; i++)
                CHECK(v == n || graph->nodes[v].inputs[i].i != part.i, "node %u reads the part", v);
    }
    CHECK(!graph->values[workbench_find(graph, "odd").i].part, "5 elements on 4 ranks");
done:
    workbench_close(&w);
}

/* --- the n-th allocation fails --- */

struct limited {
    int left;
};

static void *limited_reallocate(void *user, void *pointer, size_t bytes)
{
    struct limited *limited = user;
    if (bytes == 0) {
        free(pointer);
        return NULL;
    }
    return limited->left-- > 0 ? realloc(pointer, bytes) : NULL;
}

struct passed {
    remat_context *ctx;
    const struct remat_graph *graph;
};

static remat_status run_all(void *user)
{
    remat_status st = REMAT_OK;
    const struct passed *p = user;
    remat_context *ctx = p->ctx;
    struct remat_graph *next;
    REMAT_TRY(remat_pass_autodiff(remat_scratch_open(ctx), p->graph, &next));
    REMAT_TRY(remat_pass_optimizer(remat_scratch_open(ctx), next, &next));
    REMAT_TRY(remat_pass_expand(remat_scratch_open(ctx), next, &next));
    REMAT_TRY(remat_pass_fold(remat_scratch_open(ctx), next, &next));
    REMAT_TRY(remat_pass_eliminate_dead(remat_scratch_open(ctx), next, &next));
    REMAT_TRY(remat_graph_verify(ctx, next));
fail:
    return st; /* the guard closes the arenas */
}

static void check_memory(void)
{
    struct workbench w;
    workbench_open(&w);
    build_tied(&w);
    remat_status st = REMAT_ERROR_MEMORY;
    for (int n = 0; st == REMAT_ERROR_MEMORY && n < 1000; n++) {
        struct limited limited = {n + 1}; /* one for the context */
        const remat_allocator allocator = {limited_reallocate, &limited};
        remat_context *ctx = remat_context_create(&allocator, NULL);
        st = remat_guard(ctx, run_all, &(struct passed){ctx, w.graph});
        CHECK(st == REMAT_OK || st == REMAT_ERROR_MEMORY, "allocation %d: %s", n,
              remat_context_message(ctx));
        remat_context_destroy(&ctx);
    }
    CHECK(st == REMAT_OK, "never enough memory");
    workbench_close(&w);
}

int main(void)
{
    check_memory();
    check_pipeline();
    check_states();
    check_rotated_norm();
    check_common();
    check_unfolded();
    check_errors();
    check_gradients();
    check_defer();
    check_chain();
    check_own_gradients();
    check_shard();
    check_chunk_loss();
    check_pitch();
    return check_exit();
}
