/* SPDX-License-Identifier: Apache-2.0 */
/* Round trip of a graph; the reader against files that are something else and graphs that are
 * wrong, which are written by hand through the schemas' write half. */
#include "builder.h"
#include "check.h"
#include "ingest.h"
#include "ops.h"
#include "sample_graph.h"

#include <writer.h>

static remat_context *ctx;

/* --- round trip --- */

static void compare_values(const struct remat_graph *p, const struct remat_graph *q)
{
    CHECK(p->value_count == q->value_count, "%u values", q->value_count);
    for (uint32_t i = 0; i < p->value_count && i < q->value_count; i++) {
        const struct remat_value_info *a = &p->values[i], *b = &q->values[i];
        CHECK(strcmp(a->name, b->name) == 0, "%u: name %s", i, b->name);
        CHECK(remat_shape_equal(&a->shape, &b->shape) && a->dtype == b->dtype, "%s: shape",
              a->name);
        CHECK(a->role == b->role && a->pin == b->pin && a->trainable == b->trainable &&
                  a->no_decay == b->no_decay && a->unpadded_rows == b->unpadded_rows,
              "%s", a->name);
        CHECK(!a->stated == !b->stated, "%s: layout", a->name);
        CHECK(!a->stated || !b->stated ||
                  (a->stated->blocks == b->stated->blocks &&
                   a->stated->dimension == b->stated->dimension &&
                   strcmp(a->stated->axis, b->stated->axis) == 0),
              "%s: layout", a->name);
        CHECK(a->initializer == b->initializer && a->init_mean == b->init_mean &&
                  a->init_std == b->init_std,
              "%s: initializer", a->name);
        CHECK(!a->data == !b->data, "%s: data", a->name);
        CHECK(!a->data || !b->data || memcmp(a->data, b->data, remat_value_bytes(a)) == 0,
              "%s: data", a->name);
        CHECK(a->node.i == b->node.i && a->result == b->result, "%s: producer", a->name);
    }
}

static void compare_attributes(const struct remat_node_info *a, const struct remat_node_info *b)
{
    CHECK(a->attribute_count == b->attribute_count, "attributes");
    for (uint32_t k = 0; k < a->attribute_count && k < b->attribute_count; k++) {
        const struct remat_attribute *x = &a->attributes[k], *y = &b->attributes[k];
        CHECK(strcmp(x->key, y->key) == 0 && x->kind == y->kind && x->i == y->i && x->f == y->f &&
                  x->count == y->count,
              "%s", x->key);
        for (uint32_t j = 0; j < x->count && j < y->count; j++)
            CHECK(x->ints[j] == y->ints[j], "%s[%u]", x->key, j);
    }
}

static void compare_nodes(const struct remat_graph *p, const struct remat_graph *q)
{
    CHECK(p->node_count == q->node_count, "%u nodes", q->node_count);
    for (uint32_t n = 0; n < p->node_count && n < q->node_count; n++) {
        const struct remat_node_info *a = &p->nodes[n], *b = &q->nodes[n];
        CHECK(a->op == b->op && a->origin == b->origin && a->origin_group == b->origin_group,
              "%u: op", n);
        CHECK(a->phase == b->phase && a->instance == b->instance, "%u: phase", n);
        CHECK(strcmp(p->scopes[a->scope.i].path, q->scopes[b->scope.i].path) == 0, "%u: scope", n);
        CHECK(a->input_count == b->input_count && a->output_count == b->output_count, "%u", n);
        CHECK(a->absent == b->absent, "%u", n);
        CHECK(memcmp(a->inputs, b->inputs, a->input_count * sizeof *a->inputs) == 0, "%u", n);
        CHECK(memcmp(a->outputs, b->outputs, a->output_count * sizeof *a->outputs) == 0, "%u", n);
        compare_attributes(a, b);
    }
}

static void test_round_trip(struct remat_arena *arena)
{
    struct remat_graph *p = sample_graph(arena), *q = NULL;
    const void *data = NULL, *again = NULL;
    size_t bytes = 0, bytes_again = 0;
    remat_status st = remat_graph_write(ctx, p, arena, &data, &bytes);
    if (st != REMAT_OK)
        CHECK(false, "write: %s", remat_context_message(ctx));
    if (st == REMAT_OK && (st = remat_graph_read(ctx, "m", data, bytes, arena, &q)) != REMAT_OK)
        CHECK(false, "read: %s", remat_context_message(ctx));
    if (st != REMAT_OK)
        return;
    compare_values(p, q);
    compare_nodes(p, q);
    CHECK(strcmp(p->name, q->name) == 0 && q->output_count == 1, "name, outputs");
    CHECK(strcmp(p->config, q->config) == 0 && *q->config, "config");
    CHECK(strcmp(p->plan_only, q->plan_only) == 0 && *q->plan_only, "plan_only");
    CHECK(p->outputs[0].i == q->outputs[0].i, "outputs");
    CHECK(q->optimizer.kind == p->optimizer.kind && p->optimizer.beta1 == q->optimizer.beta1 &&
              p->optimizer.beta2 == q->optimizer.beta2 &&
              p->optimizer.epsilon == q->optimizer.epsilon &&
              p->optimizer.weight_decay == q->optimizer.weight_decay &&
              p->optimizer.clip_norm == q->optimizer.clip_norm && q->optimizer.no_master &&
              q->optimizer.bf16_moments,
          "optimizer");
    CHECK(remat_graph_hash(p) == remat_graph_hash(q), "hash");
    CHECK(remat_graph_layers(q) == 4, "layers");
    st = remat_graph_write(ctx, q, arena, &again, &bytes_again);
    CHECK(st == REMAT_OK && bytes == bytes_again && memcmp(data, again, bytes) == 0,
          "same graph, same bytes");
    /* flatc writes FlatBuffers without our header: accepted for graphs */
    st = remat_graph_read(ctx, "m", (const char *)data + REMAT_CONTAINER_BYTES,
                          bytes - REMAT_CONTAINER_BYTES, arena, &q);
    CHECK(st == REMAT_OK && remat_graph_hash(p) == remat_graph_hash(q), "bare FlatBuffer");
}

/* --- symbols --- */

static void expect_unbound(struct remat_arena *arena, struct remat_graph *graph, const char *symbol,
                           int64_t value, remat_status expected, const char *message)
{
    struct remat_graph *bound;
    remat_status st = remat_graph_set_symbol(ctx, graph, symbol, value);
    st = st == REMAT_OK ? remat_graph_bind(ctx, arena, graph, &bound) : st;
    CHECK(st == expected && strcmp(remat_context_message(ctx), message) == 0,
          "%s = %lld: expected \"%s\", got %d \"%s\"", symbol, (long long)value, message, st,
          remat_context_message(ctx));
}

static const struct remat_value_info *find_value(const struct remat_graph *graph, const char *name)
{
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (strcmp(graph->values[v].name, name) == 0)
            return &graph->values[v];
    return NULL;
}

/* What binding leaves, figure by figure: batch = 3, seq = 9, pairs = 4. */
static void check_bound(const struct remat_graph *graph)
{
    static const struct {
        const char *name;
        struct remat_shape shape;
        bool batched;
    } rows[] = {
        {"tokens", {2, {3, 9}}, true},
        {"targets", {2, {3, 9}}, true},
        {"row", {1, {4}}, false},
        {"table", {2, {16, 8}}, false},
        {"token", {3, {3, 9, 8}}, false},
        {"position", {2, {9, 8}}, false},
        {"pairs", {4, {3, 9, 2, 4}}, false},
        {"lse", {3, {3, 9, 1}}, false},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const struct remat_value_info *value = find_value(graph, rows[k].name);
        CHECK(value && remat_shape_equal(&value->shape, &rows[k].shape), "%s: shape", rows[k].name);
        CHECK(value && value->batched == rows[k].batched, "%s: batched", rows[k].name);
    }
    const struct remat_node_info *slice = &graph->nodes[find_value(graph, "position")->node.i];
    const struct remat_node_info *reshape = &graph->nodes[find_value(graph, "pairs")->node.i];
    const struct remat_node_info *loss = &graph->nodes[find_value(graph, "loss")->node.i];
    const int64_t *dims = remat_node_attribute(reshape, "shape")->ints;
    CHECK(remat_node_int(slice, "end", 0) == 9, "end");
    CHECK(dims[0] == 3 && dims[1] == 9 && dims[2] == 2 && dims[3] == 4, "shape");
    CHECK(remat_node_int(loss, "ignore_index", 0) == -100, "a negative number is no symbol");
    CHECK(graph->symbol_count == 0, "symbols");
}

static void test_symbols(struct remat_arena *arena)
{
    struct remat_graph *p = NULL, *q = NULL, *bound = NULL;
    const void *data = NULL, *again = NULL;
    size_t bytes = 0, bytes_again = 0;
    remat_status st = sample_symbolic(ctx, arena, &p);
    st = st == REMAT_OK ? remat_graph_write(ctx, p, arena, &data, &bytes) : st;
    st = st == REMAT_OK ? remat_graph_read(ctx, "m", data, bytes, arena, &q) : st;
    st = st == REMAT_OK ? remat_graph_write(ctx, q, arena, &again, &bytes_again) : st;
    if (!CHECK_OK(ctx, st))
        return;
    compare_values(p, q);
    compare_nodes(p, q);
    CHECK(bytes == bytes_again && memcmp(data, again, bytes) == 0, "same graph, same bytes");
    CHECK(q->symbol_count == 3 && strcmp(q->symbols[1].name, "seq") == 0 &&
              q->symbols[0].value == 0 && q->symbols[1].value == 6 && q->symbols[2].value == 4,
          "symbols");
    CHECK(remat_graph_verify(ctx, q) == REMAT_ERROR_INVALID &&
              strcmp(remat_context_message(ctx), "the symbol \"batch\" is not bound") == 0,
          "%s", remat_context_message(ctx));

    expect_unbound(arena, q, "seq", 9, REMAT_ERROR_USAGE,
                   "value \"tokens\": axis 0 is the symbol \"batch\", which has no value (--bind "
                   "batch=N gives it one)");
    expect_unbound(arena, q, "sequence", 9, REMAT_ERROR_USAGE,
                   "the graph has no symbol \"sequence\" (accepted: batch, seq, pairs)");
    expect_unbound(arena, q, "batch", 0, REMAT_ERROR_USAGE,
                   "symbol \"batch\": 0 is out of range (accepted: 1 to 2147483647)");
    expect_unbound(arena, q, "batch", INT64_MIN, REMAT_ERROR_USAGE,
                   "symbol \"batch\": -9223372036854775808 is out of range (accepted: 1 to "
                   "2147483647)");
    expect_unbound(arena, q, "batch", 2147483648, REMAT_ERROR_USAGE,
                   "symbol \"batch\": 2147483648 is out of range (accepted: 1 to 2147483647)");
    CHECK_OK(ctx, remat_graph_set_symbol(ctx, q, "batch", 3));
    CHECK_OK(ctx, remat_graph_bind(ctx, arena, q, &bound));
    if (bound)
        check_bound(bound);
    CHECK(remat_graph_write(ctx, bound, arena, &data, &bytes) == REMAT_OK &&
              remat_graph_read(ctx, "m", data, bytes, arena, &p) == REMAT_OK &&
              remat_graph_hash(p) == remat_graph_hash(bound),
          "a bound graph is a graph");
    expect_unbound(arena, q, "seq", 10, REMAT_ERROR_INVALID,
                   "node \"position\" (slice): range [0, 10) of an axis of length 9 (batch = 3, "
                   "seq = 10, pairs = 4)");
    expect_unbound(arena, q, "seq", 2147483647, REMAT_ERROR_INVALID,
                   "node \"position\" (slice): range [0, 2147483647) of an axis of length 9 (batch "
                   "= 3, seq = 2147483647, pairs = 4)");
}

/* Larger than the writer's first block many times over. */
static void test_large(struct remat_arena *arena)
{
    struct remat_graph *p = remat_graph_create(arena, "large"), *q = NULL;
    struct remat_builder b = {.arena = arena, .graph = p};
    struct remat_value_info input = {.name = "x",
                                     .shape = {2, {64, 64}},
                                     .dtype = REMAT_F32,
                                     .role = REMAT_ROLE_INPUT,
                                     .node = REMAT_NO_NODE};
    remat_status st;
    const void *data = NULL;
    size_t bytes = 0;
    remat_value x = remat_graph_add_value(arena, p, &input);
    for (uint32_t n = 0; n < 20000; n++)
        x = remat_build1(&b, REMAT_OP_neg, x);
    p->outputs = remat_arena_array(arena, 1, sizeof *p->outputs);
    p->outputs[p->output_count++] = x;
    st = remat_graph_write(ctx, p, arena, &data, &bytes);
    CHECK_OK(ctx, st, "write");
    if (st == REMAT_OK && (st = remat_graph_read(ctx, "m", data, bytes, arena, &q)) != REMAT_OK)
        CHECK(false, "read: %s", remat_context_message(ctx));
    CHECK(st == REMAT_OK && remat_graph_hash(p) == remat_graph_hash(q), "hash");
    printf("20000 nodes: %zu bytes\n", bytes);
}

/* --- what is no graph --- */

static void expect_error(struct remat_arena *arena, const void *data, size_t bytes,
                         const char *message)
{
    struct remat_graph *graph;
    remat_status st = remat_graph_read(ctx, "model.fbs", data, bytes, arena, &graph);
    CHECK(st == REMAT_ERROR_INVALID && strstr(remat_context_message(ctx), message) &&
              strncmp(remat_context_message(ctx), "model.fbs: ", 11) == 0,
          "expected \"%s\", got %d \"%s\"", message, st, remat_context_message(ctx));
}

static void test_foreign(struct remat_arena *arena)
{
    static const struct {
        const char *data;
        size_t bytes;
        const char *message;
    } files[] = {
        {"", 0, "the file is empty"},
        {"RMT", 3, "truncated: it has 3 bytes, the least are 8"},
        {"RMT\x89RMG1....", 12, "truncated: it has 12 bytes, its header alone needs 32"},
        {"RMT\x89RMP1....", 12, "this is a plan; expected a graph, as remat-graph writes it"},
        {"namespace remat.graph;\ntable Symbol {", 37, "a FlatBuffers schema, not a graph"},
        {"  {\"format_version\": 1}", 23, "this is JSON; convert it"},
        {"PK\3\4\0\0\0\0\0\0", 10, "zip archive"},
        {"\x14\0\0\0TFL3....", 12, "TensorFlow Lite"},
        {"\x14\0\0\0ET12....", 12, "ExecuTorch"},
        {"\x10\0\0\0\0\0\0\0{\"a\": {}}", 17, "safetensors"},
        {"\x08\x07\x12\x07pytorch", 11, "ONNX"},
        {"\0\1\2\3\4\5\6\7\0\0", 10, "not a graph"},
        {"\xff\xff\xff\x7fRMG1\0\0\0\0", 12, "malformed or truncated"},
    };
    for (size_t k = 0; k < sizeof files / sizeof *files; k++)
        expect_error(arena, files[k].data, files[k].bytes, files[k].message);
}

/* --- wrong graphs --- */

#define MOST 4

struct draft { /* x [rows, 4] -> gelu "y" [rows, 4] -> gelu "z" [2, 4], rows = 2 */
    struct remat_fb_graph_Graph graph;
    struct remat_fb_graph_OpCode opcode;
    struct remat_fb_graph_Value values[3];
    struct remat_fb_graph_Node nodes[2];
    struct remat_fb_graph_Attribute attribute;
    struct remat_fb_graph_Optimizer optimizer;
    const char *op, *names[3], *key, *scope, *symbols[2], *axis;
    int64_t symbol_values[2], ints[2];
    int64_t shapes[3][8];
    int32_t inputs[2][MOST], outputs[2][MOST], results[1];
    struct remat_fb_update updates[1];
    uint32_t attribute_count, optimizer_count;
};

static void fill_draft(struct draft *d)
{
    static const char *const names[3] = {"x", "y", "z"};
    *d = (struct draft){.graph = {.format_version = REMAT_FORMAT_VERSION,
                                  .min_reader_version = REMAT_FORMAT_VERSION},
                        .opcode = {.version = 1},
                        .op = "gelu",
                        .key = "approximate",
                        .scope = "",
                        .symbols = {"rows", "columns"},
                        .symbol_values = {2, 4},
                        .ints = {1, REMAT_SYMBOL(3)},
                        .optimizer_count = 1};
    for (int32_t v = 0; v < 3; v++) {
        d->values[v].dtype = REMAT_F32;
        d->names[v] = names[v];
        d->shapes[v][0] = 2;
        d->shapes[v][1] = 4;
        d->values[v].shape = (struct remat_fb_array){d->shapes[v], 2};
    }
    d->shapes[0][0] = d->shapes[1][0] = REMAT_SYMBOL(0);
    d->values[0].role = REMAT_ROLE_INPUT;
    for (int32_t n = 0; n < 2; n++) {
        d->inputs[n][0] = n;
        d->outputs[n][0] = n + 1;
        d->nodes[n] = (struct remat_fb_graph_Node){.inputs = {d->inputs[n], 1},
                                                   .outputs = {d->outputs[n], 1},
                                                   .origin = -1,
                                                   .origin_group = -1};
    }
    d->results[0] = 2;
    d->graph.outputs = (struct remat_fb_array){d->results, 1};
}

static remat_status write_draft(struct remat_writer *w, const void *what,
                                enum remat_fb_result *result, const void **data, size_t *bytes)
{
    remat_status st = REMAT_OK;
    struct draft d = *(const struct draft *)what;
    struct remat_fb_graph_Scope scope;
    uint32_t values[3], nodes[2], symbols[2], opcode, scopes, attribute, optimizer;
    REMAT_TRY(remat_writer_text(w, d.op, &d.opcode.name));
    REMAT_TRY(remat_writer_text(w, d.key, &d.attribute.key));
    REMAT_TRY(remat_writer_text(w, d.scope, &scope.path));
    REMAT_TRY(remat_writer_text(w, d.axis, &d.values[1].layout_axis));
    opcode = remat_fb_write_graph_OpCode(w->builder, &d.opcode);
    scopes = remat_fb_write_graph_Scope(w->builder, &scope);
    attribute = remat_fb_write_graph_Attribute(w->builder, &d.attribute);
    optimizer = remat_fb_write_graph_Optimizer(w->builder, &d.optimizer);
    uint32_t twice[] = {attribute, attribute};
    uint32_t optimizers[] = {optimizer, optimizer};
    for (int k = 0; k < 2; k++) {
        struct remat_fb_graph_Symbol symbol = {.value = d.symbol_values[k]};
        REMAT_TRY(remat_writer_text(w, d.symbols[k], &symbol.name));
        symbols[k] = remat_fb_write_graph_Symbol(w->builder, &symbol);
    }
    for (int v = 0; v < 3; v++) {
        const char *name = d.names[v]; /* some that the writer refuses */
        d.values[v].name.id = remat_fb_write_text(w->builder, name, strlen(name));
        values[v] = remat_fb_write_graph_Value(w->builder, &d.values[v]);
    }
    for (int n = 0; n < 2; n++) {
        d.nodes[n].attributes = (struct remat_fb_tables){twice, n ? d.attribute_count : 0};
        nodes[n] = remat_fb_write_graph_Node(w->builder, &d.nodes[n]);
    }
    d.graph.opcodes = (struct remat_fb_tables){&opcode, 1};
    d.graph.scopes = (struct remat_fb_tables){&scopes, 1};
    d.graph.symbols = (struct remat_fb_tables){symbols, 2};
    d.graph.values = (struct remat_fb_tables){values, 3};
    d.graph.nodes = (struct remat_fb_tables){nodes, 2};
    d.graph.optimizers = (struct remat_fb_tables){optimizers, d.optimizer_count};
    *result = remat_fb_finish_graph(w->builder, remat_fb_write_graph_Graph(w->builder, &d.graph),
                                    data, bytes);
fail:
    return st;
}

#define WRONG(name, statement, message)                                                            \
    static void name(struct draft *d)                                                              \
    {                                                                                              \
        statement;                                                                                 \
    }
#include "wrong_graphs.def"
#undef WRONG

static const struct {
    void (*plant)(struct draft *d);
    const char *message;
} wrong[] = {
#define WRONG(name, statement, message) {name, message},
#include "wrong_graphs.def"
#undef WRONG
};

static void test_wrong(struct remat_arena *arena)
{
    struct draft d;
    struct remat_graph *graph;
    const void *data = NULL;
    size_t bytes = 0;
    fill_draft(&d);
    remat_status st =
        remat_writer_run(ctx, REMAT_GRAPH_IDENTIFIER, write_draft, &d, arena, &data, &bytes);
    if (st == REMAT_OK)
        st = remat_graph_read(ctx, "model.fbs", data, bytes, arena, &graph);
    CHECK_OK(ctx, st, "the draft is right");
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        fill_draft(&d);
        wrong[k].plant(&d);
        st = remat_writer_run(ctx, REMAT_GRAPH_IDENTIFIER, write_draft, &d, arena, &data, &bytes);
        CHECK(st == REMAT_OK, "write");
        expect_error(arena, data, bytes, wrong[k].message);
    }
}

int main(void)
{
    struct remat_arena arena;
    MUST(ctx = remat_context_create(NULL, NULL));
    remat_arena_init(&arena, ctx);
    test_round_trip(&arena);
    test_symbols(&arena);
    test_large(&arena);
    test_foreign(&arena);
    test_wrong(&arena);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
