/* SPDX-License-Identifier: Apache-2.0 */
#include "sample_graph.h"

#include "builder.h"

#include <graph_text.h>
#include <ops.h>

static remat_value given(struct remat_builder *b, const char *name, uint8_t role, remat_dtype dtype,
                         uint32_t rank, int64_t d0, int64_t d1)
{
    bool parameter = role == REMAT_ROLE_PARAMETER;
    struct remat_value_info info = {
        .name = name,
        .shape = {rank, {d0, d1}},
        .dtype = dtype,
        .role = role,
        .initializer = parameter ? REMAT_INIT_NORMAL : REMAT_INIT_NONE,
        .trainable = parameter,
        .no_decay = parameter && rank == 1,
        .unpadded_rows = parameter && rank == 1,
        .init_mean = parameter ? 0.25 : 0,
        .init_std = parameter ? 0.02 : 0,
        .node = REMAT_NO_NODE,
    };
    return remat_graph_add_value(b->arena, b->graph, &info);
}

static remat_value view(struct remat_builder *b, remat_value x)
{
    struct remat_attribute slice[] = {remat_attribute_int("axis", 1),
                                      remat_attribute_int("begin", 2),
                                      remat_attribute_int("end", 6)};
    static const int64_t order[] = {1, 0};
    struct remat_attribute transpose = {
        .key = "permutation", .kind = REMAT_ATTRIBUTE_INTS, .count = 2, .ints = order};
    x = remat_build(b, REMAT_OP_slice, &x, 1, slice, 3, NULL);
    x = remat_build(b, REMAT_OP_transpose, &x, 1, &transpose, 1, NULL);
    return remat_build(b, REMAT_OP_transpose, &x, 1, &transpose, 1, NULL);
}

static remat_value layer(struct remat_builder *b, remat_value x)
{
    remat_value w = given(b, "w", REMAT_ROLE_PARAMETER, REMAT_F32, 2, 4, 8);
    remat_value bias = given(b, "bias", REMAT_ROLE_PARAMETER, REMAT_F32, 1, 8, 0);
    remat_value gamma = given(b, "gamma", REMAT_ROLE_PARAMETER, REMAT_F32, 1, 4, 0);
    remat_value beta = given(b, "beta", REMAT_ROLE_PARAMETER, REMAT_F32, 1, 4, 0);
    struct remat_attribute epsilon = remat_attribute_float("epsilon", 1e-5);
    remat_value norm[3] = {REMAT_NO_VALUE, REMAT_NO_VALUE, REMAT_NO_VALUE};
    remat_build(b, REMAT_OP_layer_norm, (remat_value[]){x, gamma, beta}, 3, &epsilon, 1, norm);
    remat_value y =
        remat_build(b, REMAT_OP_linear, (remat_value[]){norm[0], w, bias}, 3, NULL, 0, NULL);
    y = remat_build1(b, REMAT_OP_gelu, y);
    y = view(b, y);
    return remat_build2(b, REMAT_OP_add, x, y);
}

struct remat_graph *sample_graph(struct remat_arena *arena)
{
    struct remat_graph *graph = remat_graph_create(arena, "sample");
    graph->config = "{\"model_type\":\"none\"}";
    graph->plan_only = "rope_type is \"yarn\"";
    struct remat_builder b = {.arena = arena, .graph = graph};
    remat_value x = given(&b, "x", REMAT_ROLE_INPUT, REMAT_F32, 2, 2, 4);
    remat_value targets = given(&b, "targets", REMAT_ROLE_INPUT, REMAT_I32, 1, 2, 0);
    b.scope = remat_graph_scope(arena, graph, "layers.3/mlp");
    remat_value y = layer(&b, x);
    b.scope = REMAT_TOP;
    b.phase = REMAT_PHASE_LOSS;
    remat_value loss[2] = {REMAT_NO_VALUE, REMAT_NO_VALUE};
    remat_build(&b, REMAT_OP_cross_entropy, (remat_value[]){y, targets}, 2, NULL, 0, loss);
    graph->outputs = remat_copy(arena, loss, 1, sizeof loss[0]);
    graph->output_count = 1;
    graph->values[loss[0].i].role = REMAT_ROLE_OUTPUT;
    graph->values[y.i].pin = REMAT_PIN_SAVE;
    static const struct remat_stated split = {"tp", 2, 1}, whole = {"tp", 0, 0};
    graph->values[y.i].stated = &split;
    graph->values[x.i].stated = &whole;
    graph->optimizer =
        (struct remat_optimizer){REMAT_OPTIMIZER_ADAMW, {{0.9, 0.95, 1e-8, 0.1, 0.5}}, true, true};
    return graph;
}

/* Symbols in shapes, in an integer and in a list; one without a value. */
remat_status sample_symbolic(remat_context *ctx, struct remat_arena *arena,
                             struct remat_graph **out)
{
    static const char text[] =
        "graph \"symbolic\"\n"
        "symbol batch\n"
        "symbol seq = 6\n"
        "symbol pairs = 4\n"
        "input %tokens : i32[batch,seq]\n"
        "input %targets : i32[batch,seq]\n"
        "input %row : f32[pairs]\n"
        "constant %shift : f32[8] = [0.0, -0.0, -inf, 1e-45, 3.4028235e+38, 0.1, 16777216.0, "
        "-2.5]\n"
        "constant %same : i32[2,2] = [-2147483648, 2147483647, 0, 7]\n"
        "parameter %table : f32[16,8] = normal(0.0, 0.02)\n"
        "parameter %positions : f32[9,8] = normal(0.0, 0.02)\n"
        "%token : f32[batch,seq,8] = embedding %table %tokens phase forward\n"
        "%position : f32[seq,8] = slice %positions { axis = 0, begin = 0, end = seq } phase "
        "forward\n"
        "%shifted : f32[seq,8] = maximum %position %shift phase forward\n"
        "%sum : f32[batch,seq,8] = add %token %shifted phase forward\n"
        "%pairs : f32[batch,seq,2,pairs] = reshape %sum { shape = [batch, seq, 2, pairs] } phase "
        "forward\n"
        "%scaled : f32[batch,seq,2,pairs] = mul %pairs %row phase forward\n"
        "%seen : f32[batch,seq,2,pairs], %seen.1 : f32[batch,2,seq] = attention %scaled %scaled "
        "%scaled key_segments = %tokens { scale = 0.5 } phase forward\n"
        "%logits : f32[batch,seq,8] = reshape %seen { shape = [batch, seq, 8] } phase forward\n"
        "%loss : f32[] output, %lse : f32[batch,seq,1] = cross_entropy %logits %targets "
        "{ ignore_index = -100 } phase loss\n"
        "output %loss\n";
    return remat_graph_parse(ctx, "symbolic", text, sizeof text - 1, arena, out);
}
