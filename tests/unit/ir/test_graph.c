/* SPDX-License-Identifier: Apache-2.0 */
/* The graph: scopes, building, copying, attributes, hash. Ops are mere numbers here. */
#include "check.h"
#include "graph.h"
#include "ops.h"

static remat_context *ctx;

/* --- scopes --- */

static void test_scopes(struct remat_arena *arena)
{
    static const struct {
        const char *path, *stack;
        int32_t layer;
    } rows[] = {
        {"", NULL, -1},
        {"embed", NULL, -1},
        {"layers.0", "layers", 0},
        {"layers.3/attn/core", "layers", 3},
        {"encoder/layers.12/mlp", "encoder/layers", 12},
        {"a/h.2/experts.7/fc", "a/h", 2},
        {"a.b.4/x", "a.b", 4},
        {"h.007", "h", 7},
        {"h.99999", "h", 99999},
        {"h.100000", NULL, -1},
        {"h.99999999999999999999", NULL, -1},
        {"h.100000/e.1", "h.100000/e", 1},
        {"h.", NULL, -1},
        {".3", NULL, -1},
        {"3", NULL, -1},
        {"h3", NULL, -1},
        {"h.3a", NULL, -1},
        {"h.-3", NULL, -1},
        {"//h.1//", "//h", 1},
    };
    struct remat_graph *graph = remat_graph_create(arena, "scopes");
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        uint32_t id = remat_graph_scope(arena, graph, rows[k].path).i;
        const struct remat_scope *scope = &graph->scopes[id];
        CHECK(strcmp(scope->path, rows[k].path) == 0, "path of \"%s\"", rows[k].path);
        CHECK(scope->layer == rows[k].layer, "\"%s\": layer %d", rows[k].path, scope->layer);
        CHECK(!scope->stack == !rows[k].stack &&
                  (!scope->stack || strcmp(scope->stack, rows[k].stack) == 0),
              "\"%s\": stack \"%s\"", rows[k].path, scope->stack ? scope->stack : "none");
        CHECK(remat_graph_scope(arena, graph, rows[k].path).i == id, "\"%s\" twice", rows[k].path);
    }
    CHECK(graph->scope_count == sizeof rows / sizeof rows[0], "%u scopes", graph->scope_count);
    CHECK(remat_graph_layers(graph) == 0, "layers without nodes");
}

/* --- a small graph --- */

struct small { /* what the tests vary */
    const char *name, *scope;
    int64_t columns, unpadded_rows;
    remat_dtype dtype;
    uint8_t role, initializer, pin;
    bool trainable, no_decay;
    double init_std, epsilon;
    int64_t axis, last_int;
    uint16_t op;
    uint8_t phase;
    uint32_t instance;
    bool swapped, has_output, has_update;
    const struct remat_stated *stated;
    const void *data;
    struct remat_optimizer optimizer;
};

static const struct small original = {
    .name = "x",
    .scope = "h.1/fc",
    .columns = 3,
    .dtype = REMAT_F32,
    .role = REMAT_ROLE_PARAMETER,
    .initializer = REMAT_INIT_NORMAL,
    .trainable = true,
    .init_std = 0.02,
    .epsilon = 1e-5,
    .axis = 1,
    .last_int = 4,
    .op = 7,
    .has_output = true,
    .optimizer = {REMAT_OPTIMIZER_ADAMW, {{0.9, 0.999, 1e-8, 0.01, 0}}, false, false},
};

static struct remat_graph *make(struct remat_arena *arena, const struct small *s)
{
    struct remat_graph *graph = remat_graph_create(arena, s->name);
    struct remat_value_info source = {.name = s->name,
                                      .shape = {2, {2, s->columns}},
                                      .dtype = s->dtype,
                                      .role = s->role,
                                      .pin = s->pin,
                                      .trainable = s->trainable,
                                      .no_decay = s->no_decay,
                                      .unpadded_rows = s->unpadded_rows,
                                      .stated = s->stated,
                                      .data = s->data,
                                      .initializer = s->initializer,
                                      .init_std = s->init_std,
                                      .node = REMAT_NO_NODE};
    struct remat_value_info result = {
        .name = "y", .shape = {2, {2, 3}}, .dtype = REMAT_F32, .node = REMAT_NO_NODE};
    remat_value inputs[2], output;
    inputs[s->swapped] = remat_graph_add_value(arena, graph, &source);
    inputs[!s->swapped] = remat_graph_add_value(arena, graph, &source);
    output = remat_graph_add_value(arena, graph, &result);

    int64_t ints[] = {1, 2, s->last_int};
    struct remat_attribute attributes[] = {
        {.key = "axis", .kind = REMAT_ATTRIBUTE_INT, .i = s->axis},
        {.key = "epsilon", .kind = REMAT_ATTRIBUTE_FLOAT, .f = s->epsilon},
        {.key = "shape", .kind = REMAT_ATTRIBUTE_INTS, .count = 3, .ints = ints}};
    struct remat_node_info node = {.op = s->op,
                                   .origin_group = REMAT_NONE,
                                   .phase = s->phase,
                                   .instance = s->instance,
                                   .scope = remat_graph_scope(arena, graph, s->scope),
                                   .inputs = inputs,
                                   .input_count = 2,
                                   .outputs = &output,
                                   .output_count = 1,
                                   .attributes = attributes,
                                   .attribute_count = 3};
    remat_graph_add_node(arena, graph, &node);
    memset(ints, 0, sizeof ints); /* the graph has its own copies */
    memset(attributes, 0, sizeof attributes);

    graph->outputs = remat_arena_array(arena, 1, sizeof output);
    graph->updates = remat_arena_array(arena, 1, sizeof *graph->updates);
    graph->outputs[0] = output;
    graph->updates[0] = (struct remat_update){{0}, output};
    graph->output_count = s->has_output;
    graph->update_count = s->has_update;
    graph->optimizer = s->optimizer;
    return graph;
}

static void test_reading(struct remat_arena *arena)
{
    const struct remat_graph *graph = make(arena, &original);
    const struct remat_node_info *node = &graph->nodes[0];
    CHECK(node->origin == original.op && node->origin_group == 0, "origin of its own");
    CHECK(graph->values[2].node.i == 0 && graph->values[2].result == 0, "producer");
    CHECK(remat_is_none(graph->values[0].node.i), "graph input");
    CHECK(remat_node_int(node, "axis", 9) == 1, "axis");
    CHECK(remat_node_int(node, "absent", 9) == 9, "absent integer");
    CHECK(remat_node_int(node, "epsilon", 9) == 9, "an integer that is a float");
    CHECK(remat_node_float(node, "epsilon", 9) == 1e-5, "epsilon");
    CHECK(remat_node_float(node, "absent", 9) == 9, "absent float");
    const struct remat_attribute *shape = remat_node_attribute(node, "shape");
    CHECK(shape && shape->count == 3 && shape->ints[2] == 4, "shape");
    CHECK(remat_value_bytes(&graph->values[0]) == 24, "bytes");
    CHECK(remat_graph_layers(graph) == 2, "layers");

    struct remat_shape scalar = {0}, a = {2, {2, 3}}, b = {2, {2, 4}}, c = {1, {2}};
    CHECK(remat_shape_elements(&scalar) == 1 && remat_shape_elements(&b) == 8, "elements");
    CHECK(remat_shape_equal(&a, &a) && !remat_shape_equal(&a, &b) && !remat_shape_equal(&a, &c),
          "equal shapes");
}

static void test_copy(struct remat_arena *arena)
{
    struct remat_arena other;
    struct remat_graph *graph = make(arena, &original);
    remat_arena_init(&other, ctx);
    struct remat_graph *copy = remat_graph_copy(&other, graph, 1);
    CHECK(remat_graph_hash(copy) == remat_graph_hash(graph), "a copy is equal");
    for (int k = 0; k < 100; k++) {
        remat_value value = remat_graph_add_value(&other, copy, &copy->values[0]);
        CHECK(value.i == 3u + (uint32_t)k, "id %u", value.i);
        CHECK(!remat_is_none(remat_graph_scope(&other, copy, k % 2 ? "new" : "h.1/fc").i), "scope");
    }
    copy->values[0].shape.dims[0] = 5;
    CHECK(graph->value_count == 3 && graph->scope_count == 2, "the original stays");
    CHECK(graph->values[0].shape.dims[0] == 2, "the original's values stay");
    remat_arena_release(&other);
}

/* --- hash --- */

#define DIFFERS(member, ...)                                                                       \
    do {                                                                                           \
        struct small s = original;                                                                 \
        s.member = __VA_ARGS__;                                                                    \
        CHECK(remat_graph_hash(make(arena, &s)) != hash, "hash does not see " #member);            \
    } while (0)
#define SAME(member, ...)                                                                          \
    do {                                                                                           \
        struct small s = original;                                                                 \
        s.member = __VA_ARGS__;                                                                    \
        CHECK(remat_graph_hash(make(arena, &s)) == hash, "hash sees " #member);                    \
    } while (0)

static void test_hash(struct remat_arena *arena)
{
    uint64_t hash = remat_graph_hash(make(arena, &original));
    SAME(op, 7);
    SAME(name, "renamed");
    SAME(pin, REMAT_PIN_SAVE);
    SAME(stated, &(const struct remat_stated){"tp", 1, 1});
    DIFFERS(scope, "h.1/act");
    DIFFERS(columns, 4);
    DIFFERS(dtype, REMAT_I32);
    DIFFERS(role, REMAT_ROLE_INPUT);
    DIFFERS(trainable, false);
    DIFFERS(no_decay, true);
    DIFFERS(unpadded_rows, 1);
    DIFFERS(initializer, REMAT_INIT_CONSTANT);
    DIFFERS(init_std, 0.03);
    DIFFERS(data, (const float[6]){1, 2, 3, 4, 5, 6});
    DIFFERS(epsilon, 1e-6);
    DIFFERS(axis, 0);
    DIFFERS(last_int, 5);
    DIFFERS(op, 8);
    DIFFERS(phase, REMAT_PHASE_LOSS);
    DIFFERS(instance, 1);
    DIFFERS(swapped, true);
    DIFFERS(has_output, false);
    DIFFERS(has_update, true);
    DIFFERS(optimizer.beta2, 0.95);
    DIFFERS(optimizer.kind, REMAT_OPTIMIZER_SGD);
    DIFFERS(optimizer.kind, REMAT_OPTIMIZER_NONE);
    DIFFERS(optimizer.clip_norm, 1);
    DIFFERS(optimizer.no_master, true);
    DIFFERS(optimizer.bf16_moments, true);
}

static void test_data(struct remat_arena *arena)
{
    struct small s = original;
    s.data = (const float[6]){1, 2, 3, 4, 5, 6};
    uint64_t hash = remat_graph_hash(make(arena, &s));
    s.data = (const float[6]){1, 2, 3, 4, 5, 6};
    CHECK(remat_graph_hash(make(arena, &s)) == hash, "the hash sees where data are");
    s.data = (const float[6]){1, 2, 3, 4, 5, 7};
    CHECK(remat_graph_hash(make(arena, &s)) != hash, "the hash does not see the last element");
}

int main(void)
{
    struct remat_arena arena;
    MUST(ctx = remat_context_create(NULL, NULL));
    remat_arena_init(&arena, ctx);
    test_scopes(&arena);
    test_reading(&arena);
    test_copy(&arena);
    test_hash(&arena);
    test_data(&arena);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
