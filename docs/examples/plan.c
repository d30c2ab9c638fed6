/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a small model, plans its training within a budget and writes both, from a program of one's
 * own, in C or C++: cc plan.c $(pkg-config --cflags --libs remat-compiler).
 * Usage: plan BUDGET GRAPH PLAN. */
#include <remat/compile.h>

#include <stdio.h>
#include <string.h>

enum { WIDTH = 16, VOCABULARY = 97, AXES = 3 };

struct model {
    remat_graph_builder *graph;
    int64_t batch, seq;
    remat_status st;
};

static remat_value_spec value(const char *name, const char *dtype, uint32_t rank, int64_t a,
                              int64_t b, int64_t c)
{
    const int64_t shape[AXES] = {a, b, c};
    remat_value_spec out;
    memset(&out, 0, sizeof out);
    out.struct_size = sizeof out;
    out.name = name;
    out.dtype = dtype;
    out.rank = rank;
    memcpy(out.shape, shape, rank * sizeof *shape);
    return out;
}

static uint32_t input(struct model *m, const char *name)
{
    const remat_value_spec spec = value(name, "i32", 2, m->batch, m->seq, 0);
    uint32_t id = 0;
    if (m->st == REMAT_OK)
        m->st = remat_graph_builder_add_input(m->graph, &spec, &id);
    return id;
}

static uint32_t parameter(struct model *m, const char *name, int64_t rows, int64_t columns)
{
    remat_value_spec spec = value(name, "f32", 2, rows, columns, 0);
    uint32_t id = 0;
    spec.role = "parameter";
    spec.initializer = "normal";
    spec.init_std = 0.02;
    spec.trainable = true;
    if (m->st == REMAT_OK)
        m->st = remat_graph_builder_add_input(m->graph, &spec, &id);
    return id;
}

/* Of two operands. */
static uint32_t node(struct model *m, const char *op, const char *phase, uint32_t a, uint32_t b,
                     const remat_value_spec *outputs, uint32_t output_count)
{
    const uint32_t inputs[2] = {a, b};
    uint32_t id = 0;
    remat_node_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.struct_size = sizeof spec;
    spec.op = op;
    spec.phase = phase;
    spec.scope = op;
    spec.input_count = 2;
    spec.inputs = inputs;
    spec.output_count = output_count;
    spec.outputs = outputs;
    if (m->st == REMAT_OK)
        m->st = remat_graph_builder_add_node(m->graph, &spec, &id);
    return id;
}

static remat_status build(struct model *m)
{
    remat_optimizer_spec adamw;
    memset(&adamw, 0, sizeof adamw);
    adamw.struct_size = sizeof adamw;
    adamw.kind = "adamw";
    adamw.beta1 = 0.9;
    adamw.beta2 = 0.999;
    adamw.epsilon = 1e-8;
    m->st = remat_graph_builder_add_symbol(m->graph, "batch", 4, &m->batch);
    if (m->st == REMAT_OK)
        m->st = remat_graph_builder_add_symbol(m->graph, "seq", 8, &m->seq);
    const uint32_t tokens = input(m, "tokens"), targets = input(m, "targets");
    const uint32_t table = parameter(m, "table", VOCABULARY, WIDTH);
    const uint32_t head = parameter(m, "head", WIDTH, VOCABULARY);
    const remat_value_spec embedded = value("embedded", "f32", 3, m->batch, m->seq, WIDTH);
    const remat_value_spec logits = value("logits", "f32", 3, m->batch, m->seq, VOCABULARY);
    remat_value_spec loss[2] = {value("loss", "f32", 0, 0, 0, 0),
                                value("log_sum", "f32", 3, m->batch, m->seq, 1)};
    loss[0].role = "output";
    const uint32_t x = node(m, "embedding", "forward", table, tokens, &embedded, 1);
    const uint32_t y = node(m, "linear", "forward", x, head, &logits, 1);
    const uint32_t z = node(m, "cross_entropy", "loss", y, targets, loss, 2);
    if (m->st == REMAT_OK)
        m->st = remat_graph_builder_add_output(m->graph, z);
    if (m->st == REMAT_OK)
        m->st = remat_graph_builder_set_optimizer(m->graph, &adamw);
    return m->st == REMAT_OK ? remat_graph_builder_finish(m->graph) : m->st;
}

static void print(void *user, const char *line, bool prose)
{
    (void)user;
    (void)prose;
    printf("%s\n", line);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: plan BUDGET GRAPH PLAN\n");
        return 2;
    }
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct model model;
    remat_compile_options *options = NULL;
    remat_compiled *compiled = NULL;
    remat_report_spec report;
    if (!ctx)
        return 1;
    memset(&model, 0, sizeof model);
    memset(&report, 0, sizeof report);
    report.struct_size = sizeof report;
    report.plan_path = argv[3];
    remat_status st = remat_graph_builder_create(ctx, "small", &model.graph);
    if (st == REMAT_OK)
        st = build(&model);
    if (st == REMAT_OK)
        st = remat_graph_builder_write(ctx, model.graph, argv[2]);
    if (st == REMAT_OK)
        st = remat_compile_options_create(ctx, &options);
    if (st == REMAT_OK)
        st = remat_compile_options_set(options, "budget", argv[1]);
    if (st == REMAT_OK)
        st = remat_compiled_create(ctx, model.graph, options, &compiled);
    if (st == REMAT_OK)
        st = remat_compiled_write(ctx, compiled, argv[3]);
    if (st == REMAT_OK)
        st = remat_compiled_report(ctx, compiled, &report, print, NULL);
    if (st != REMAT_OK)
        fprintf(stderr, "plan: %s\n", remat_context_message(ctx));
    remat_compiled_destroy(&compiled);
    remat_compile_options_destroy(&options);
    remat_graph_builder_destroy(&model.graph);
    remat_context_destroy(&ctx);
    return st;
}
