/* SPDX-License-Identifier: Apache-2.0 */
/* Each pass after the other: what autodiff orders and names, what the optimizer appends, what
 * common, dead, folded and deferred nodes are and are not; and any allocation fails. */
#include "graph_text.h"
#include "ops.h"
#include "reference.h"
#include "tied.h"

#include <math.h>
#include <stdlib.h>

static const struct remat_pass_settings undivided;

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
    check_folded(folded);
    compare_values(&w, trained, folded);
    RUN(&w, eliminate_dead, expanded, &alive);
    CHECK(alive->update_count == 10 && alive->node_count < expanded->node_count, "dead nodes");
    RUN(&w, fold, alive, &again);
    CHECK(remat_graph_hash(again) == remat_graph_hash(folded), "fold drops dead nodes");
    RUN(&w, eliminate_dead, folded, &again);
    CHECK(remat_graph_hash(again) == remat_graph_hash(folded), "fold drops all dead nodes");
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
    for (uint32_t n = 0; n < w.graph->node_count; n++)             /* none is dead */
        if (w.graph->nodes[n].op == REMAT_OP_add || w.graph->nodes[n].op == REMAT_OP_neg)
            w.graph->values[w.graph->nodes[n].outputs[0].i].role = REMAT_ROLE_GRADIENT;
    RUN(&w, fold, w.graph, &graph);
    CHECK(remat_graph_hash(graph) == remat_graph_hash(w.graph), "folded what must stay");
done:
    workbench_close(&w);
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
    REMAT_TRY(remat_pass_autodiff(remat_scratch_open(ctx), p->graph, &undivided, &next));
    REMAT_TRY(remat_pass_optimizer(remat_scratch_open(ctx), next, &undivided, &next));
    REMAT_TRY(remat_pass_expand(remat_scratch_open(ctx), next, &undivided, &next));
    REMAT_TRY(remat_pass_fold(remat_scratch_open(ctx), next, &undivided, &next));
    REMAT_TRY(remat_pass_eliminate_dead(remat_scratch_open(ctx), next, &undivided, &next));
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
    check_rotated_norm();
    check_common();
    check_unfolded();
    check_defer();
    return check_exit();
}
