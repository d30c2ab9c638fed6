/* SPDX-License-Identifier: Apache-2.0 */
/* Times single kernels on the CPU device, through the compiler and a real session: each case is a
 * small graph in text form, whose interesting node has the scope "case". Prints one JSON object a
 * line: name, threads, the fewest nanoseconds of all steps for the commands of a phase, GFLOP/s and
 * GB/s of distinct operands.
 *
 *     bench_kernels [--threads N] [--seconds S] [--batch N] [--seq N] [--small]
 *
 * Names and shapes are those of tests/peers/bench_torch.py. Other commands of the step touch other
 * memory in between, so small operands are less warm than in a loop over one kernel. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "borrowed_plan.h"
#include "graph_text.h"
#include "harness.h"

#define STEPS_AT_LEAST 3

struct settings {
    uint32_t threads;
    double seconds; /* for each case */
    int64_t batch, seq;
    bool small;
};

enum part { FORWARD, BACKWARD, OPTIMIZER, PART_COUNT };

/* Of the commands of one step in scope "case", by part. */
struct sums {
    uint64_t ns[PART_COUNT], flops[PART_COUNT], bytes[PART_COUNT];
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int add_command(void *user, const remat_trace_event *event)
{
    struct sums *sums = user;
    enum part part = strcmp(event->phase, "optimizer") == 0  ? OPTIMIZER
                     : strcmp(event->phase, "backward") == 0 ? BACKWARD
                                                             : FORWARD;
    if (strcmp(event->scope, "case") != 0)
        return 0;
    sums->ns[part] += event->duration_ns;
    sums->flops[part] += event->flops;
    sums->bytes[part] += event->moved_bytes;
    return 0;
}

/* Valid values everywhere: ids below 200, floats between -1 and 1. */
static void write_inputs(remat_context *ctx, remat_session *session, const remat_plan *plan)
{
    for (uint32_t t = 0; t < remat_plan_tensor_count(plan); t++) {
        remat_tensor_info info = {.struct_size = sizeof info};
        remat_plan_get_tensor(plan, t, &info);
        if (info.role != REMAT_TENSOR_INPUT)
            continue;
        int32_t *data = malloc(info.bytes);
        MUST(data, "%s", info.name);
        for (uint64_t i = 0; i < info.bytes / 4; i++) {
            uint32_t random = (uint32_t)(i * 2654435761u) >> 8;
            float number = (float)(int32_t)(random % 2001) / 1000 - 1;
            data[i] = (int32_t)(random % 199 + 1);
            if (info.element == REMAT_ELEMENT_F32)
                memcpy(&data[i], &number, sizeof number);
        }
        MUST_OK(ctx, remat_session_write(session, info.name, data, info.bytes));
        free(data);
    }
}

/* A graph without parameters has nothing to train. */
static const char *entry_of(const remat_plan *plan)
{
    for (uint32_t i = 0; i < remat_plan_entry_count(plan); i++)
        if (strcmp(remat_plan_entry_name(plan, i), "train") == 0)
            return "train";
    return "eval";
}

static struct sums time_steps(remat_context *ctx, struct remat_program *program,
                              const struct settings *s)
{
    struct sums best = {{UINT64_MAX, UINT64_MAX, UINT64_MAX}, {0}, {0}}, sums;
    struct remat_plan plan = borrowed_plan(program);
    remat_session_params params;
    remat_session *session;
    remat_session_params_init(&params);
    params.threads = s->threads;
    MUST_OK(ctx, remat_session_create(ctx, &plan, &params, &session));
    remat_session_set_trace(session, add_command, &sums);
    MUST_OK(ctx, remat_session_run(session, "init"));
    write_inputs(ctx, session, &plan);
    double end = now() + s->seconds;
    for (int step = 0; step < STEPS_AT_LEAST || now() < end; step++) {
        sums = (struct sums){0};
        MUST_OK(ctx, remat_session_run(session, entry_of(&plan)));
        for (int part = 0; part < PART_COUNT; part++)
            if (sums.ns[part] < best.ns[part])
                best.ns[part] = sums.ns[part];
        memcpy(best.flops, sums.flops, sizeof best.flops);
        memcpy(best.bytes, sums.bytes, sizeof best.bytes);
    }
    remat_session_destroy(&session);
    return best;
}

static struct sums time_graph(const char *text, const struct settings *s)
{
    const struct remat_policy_settings none = {0};
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    struct remat_graph *graph;
    struct remat_program *program;
    remat_arena_init(&arena, ctx);
    MUST_OK(ctx, remat_graph_parse(ctx, "bench", text, strlen(text), &arena, &graph));
    MUST_OK(ctx, harness_compile(ctx, &arena, graph, NULL, &none, 0, &program));
    struct sums sums = time_steps(ctx, program, s);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return sums;
}

static void print(const char *name, const char *facts, uint64_t ns, uint64_t flops, uint64_t bytes,
                  const struct settings *s)
{
    printf("{\"name\": \"%s\", \"threads\": %" PRIu32 ", \"min_ns\": %" PRIu64
           ", \"gflops\": %.1f, \"gbytes_per_s\": %.1f%s}\n",
           name, s->threads, ns, (double)flops / (double)ns, (double)bytes / (double)ns, facts);
    fflush(stdout);
}

#define OPTIMIZER_LINE                                                                             \
    "optimizer adamw { beta1 = 0.9, beta2 = 0.999, epsilon = 1e-08, weight_decay = 0.01 }\n"

/* C[m, n] = A B; a T in `layout` is an operand that is stored the other way round. */
static void bench_sgemm(const char *layout, int64_t m, int64_t n, int64_t k,
                        const struct settings *s)
{
    char text[1024], facts[128];
    bool ta = layout[0] == 'T', tb = layout[1] == 'T';
    snprintf(text, sizeof text,
             "graph \"sgemm\"\ninput %%a : f32[%" PRId64 ",%" PRId64 "]\ninput %%b : f32[%" PRId64
             ",%" PRId64 "]\n%%y : f32[%" PRId64 ",%" PRId64
             "] = matmul %%a %%b { transpose_a = %d, transpose_b = %d } phase forward "
             "scope \"case\"\n%%r : f32[%" PRId64 ",1] = row_max %%y phase loss\n"
             "%%l : f32[1] = column_sum %%r phase loss\n"
             "%%loss : f32[] output = reshape %%l { shape = [] } phase loss\noutput %%loss\n",
             ta ? k : m, ta ? m : k, tb ? n : k, tb ? k : n, m, n, ta, tb, m);
    snprintf(facts, sizeof facts,
             ", \"layout\": \"%s\", \"m\": %" PRId64 ", \"n\": %" PRId64 ", \"k\": %" PRId64,
             layout, m, n, k);
    struct sums sums = time_graph(text, s);
    print("sgemm", facts, sums.ns[FORWARD], sums.flops[FORWARD], sums.bytes[FORWARD], s);
}

/* `declarations`: parameters and inputs; `node`: the node of %y, of `elements` elements. The loss
 * is sum(y * up), over other rows and columns than y's, so that y is written by its own kernel and
 * its gradient read from memory. */
static struct sums time_node(const char *declarations, const char *node, int64_t elements,
                             const struct settings *s)
{
    char text[2048];
    snprintf(text, sizeof text,
             "graph \"case\"\n" OPTIMIZER_LINE "%sinput %%up : f32[1,%" PRId64
             "]\ninput %%scale : f32[]\n%s phase forward scope \"case\"\n%%flat : f32[1,%" PRId64
             "] = reshape %%y { shape = [1,%" PRId64 "] } phase loss\n%%m : f32[1,%" PRId64
             "] = mul %%flat %%up phase loss\n%%s : f32[1,1] = row_sum %%m phase loss\n"
             "%%t : f32[] = reshape %%s { shape = [] } phase loss\n"
             "%%loss : f32[] output = mul %%t %%scale phase loss\noutput %%loss\n",
             declarations, elements, node, elements, elements, elements);
    return time_graph(text, s);
}

static void print_both(const char *name, const struct sums *sums, const struct settings *s)
{
    char both[64], forward[64];
    snprintf(forward, sizeof forward, "%s_forward", name);
    snprintf(both, sizeof both, "%s_forward_backward", name);
    print(forward, "", sums->ns[FORWARD], sums->flops[FORWARD], sums->bytes[FORWARD], s);
    print(both, "", sums->ns[FORWARD] + sums->ns[BACKWARD],
          sums->flops[FORWARD] + sums->flops[BACKWARD],
          sums->bytes[FORWARD] + sums->bytes[BACKWARD], s);
}

static void bench_attention(int64_t heads, const struct settings *s)
{
    char declarations[512], node[512], shape[64];
    snprintf(shape, sizeof shape, "f32[%" PRId64 ",%" PRId64 ",%" PRId64 ",64]", s->batch, s->seq,
             heads);
    snprintf(declarations, sizeof declarations,
             "parameter %%q : %s = normal(0.0, 1.0)\nparameter %%k : %s = normal(0.0, 1.0)\n"
             "parameter %%v : %s = normal(0.0, 1.0)\n",
             shape, shape, shape);
    snprintf(node, sizeof node,
             "%%y : %s, %%lse : f32[%" PRId64 ",%" PRId64 ",%" PRId64
             "] = attention %%q %%k %%v { scale = 0.125, causal = 1 }",
             shape, s->batch, heads, s->seq);
    struct sums sums = time_node(declarations, node, s->batch * s->seq * heads * 64, s);
    print_both("attention", &sums, s);
}

static void bench_gelu(int64_t rows, int64_t width, const struct settings *s)
{
    char declarations[256], node[256];
    snprintf(declarations, sizeof declarations,
             "parameter %%x : f32[%" PRId64 ",%" PRId64 "] = normal(0.0, 1.0)\n", rows, width);
    snprintf(node, sizeof node, "%%y : f32[%" PRId64 ",%" PRId64 "] = gelu %%x { approximate = 1 }",
             rows, width);
    struct sums sums = time_node(declarations, node, rows * width, s);
    print_both("gelu", &sums, s);
}

static void bench_dropout(int64_t rows, int64_t width, const struct settings *s)
{
    char declarations[256], node[256];
    snprintf(declarations, sizeof declarations,
             "parameter %%x : f32[%" PRId64 ",%" PRId64 "] = normal(0.0, 1.0)\n"
             "input %%rng : i32[4]\n",
             rows, width);
    snprintf(node, sizeof node,
             "%%y : f32[%" PRId64 ",%" PRId64 "] = dropout %%x %%rng { p = 0.1, site = 1 }", rows,
             width);
    struct sums sums = time_node(declarations, node, rows * width, s);
    print_both("dropout", &sums, s);
}

static void bench_layer_norm(int64_t rows, int64_t width, const struct settings *s)
{
    char declarations[512], node[512];
    snprintf(declarations, sizeof declarations,
             "parameter %%x : f32[%" PRId64 ",%" PRId64 "] = normal(0.0, 1.0)\n"
             "parameter %%g : f32[%" PRId64 "] = constant(1.0)\n"
             "parameter %%b : f32[%" PRId64 "] = constant(0.0)\n",
             rows, width, width, width);
    snprintf(node, sizeof node,
             "%%y : f32[%" PRId64 ",%" PRId64 "], %%mean : f32[%" PRId64
             ",1], %%rstd : f32[%" PRId64 ",1] = layer_norm %%x %%g %%b { epsilon = 1e-05 }",
             rows, width, rows, rows);
    struct sums sums = time_node(declarations, node, rows * width, s);
    print_both("layer_norm", &sums, s);
}

static void bench_embedding(int64_t vocab, int64_t width, const struct settings *s)
{
    char declarations[256], node[256];
    int64_t rows = s->batch * s->seq;
    snprintf(declarations, sizeof declarations,
             "parameter %%table : f32[%" PRId64 ",%" PRId64 "] = normal(0.0, 1.0)\n"
             "input %%ids : i32[%" PRId64 "]\n",
             vocab, width, rows);
    snprintf(node, sizeof node, "%%y : f32[%" PRId64 ",%" PRId64 "] = embedding %%table %%ids",
             rows, width);
    struct sums sums = time_node(declarations, node, rows * width, s);
    print_both("embedding", &sums, s);
}

static void bench_cross_entropy(int64_t rows, int64_t vocab, const struct settings *s)
{
    char text[1024];
    snprintf(text, sizeof text,
             "graph \"case\"\n" OPTIMIZER_LINE "parameter %%x : f32[%" PRId64 ",%" PRId64
             "] = normal(0.0, 1.0)\ninput %%targets : i32[%" PRId64
             "]\n%%loss : f32[] output, %%lse : f32[%" PRId64
             ",1] = cross_entropy %%x %%targets phase loss scope \"case\"\noutput %%loss\n",
             rows, vocab, rows, rows);
    struct sums sums = time_graph(text, s);
    print_both("cross_entropy", &sums, s);
}

static void bench_adamw(int64_t side, const struct settings *s)
{
    char declarations[256], node[256], facts[64];
    snprintf(declarations, sizeof declarations,
             "parameter %%x : f32[%" PRId64 ",%" PRId64 "] = normal(0.0, 1.0)\n", side, side);
    snprintf(node, sizeof node, "%%y : f32[%" PRId64 ",%" PRId64 "] = neg %%x", side, side);
    snprintf(facts, sizeof facts, ", \"elements\": %" PRId64, side * side);
    struct sums sums = time_node(declarations, node, side * side, s);
    print("adamw", facts, sums.ns[OPTIMIZER], sums.flops[OPTIMIZER], sums.bytes[OPTIMIZER], s);
}

/* The shapes of GPT-2 124M's step with batch 1, seq 256, and two that are not. */
static void bench_gemms(const struct settings *s)
{
    static const struct {
        const char *layout;
        int64_t m, n, k;
    } shapes[] = {{"NN", 256, 2304, 768},  {"NN", 256, 768, 3072},  {"NT", 256, 50257, 768},
                  {"NN", 256, 768, 50257}, {"TN", 768, 3072, 256},  {"TN", 50257, 768, 256},
                  {"NN", 2048, 3072, 768}, {"NN", 1023, 3071, 769}, {"NN", 64, 96, 48},
                  {"TN", 33, 65, 129}};
    size_t first = s->small ? 8 : 0, end = s->small ? 10 : 8;
    for (size_t i = first; i < end; i++)
        bench_sgemm(shapes[i].layout, shapes[i].m, shapes[i].n, shapes[i].k, s);
}

static struct settings read_settings(int argc, char **argv)
{
    struct settings s = {.threads = 1, .seconds = 1, .batch = 1, .seq = 256};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(name, "--small") == 0) {
            s.small = true;
            continue;
        }
        if (strcmp(name, "--threads") == 0)
            s.threads = (uint32_t)atoi(value);
        else if (strcmp(name, "--seconds") == 0)
            s.seconds = atof(value);
        else if (strcmp(name, "--batch") == 0)
            s.batch = atoll(value);
        else if (strcmp(name, "--seq") == 0)
            s.seq = atoll(value);
        else
            MUST(false, "unknown option %s", name);
        i++;
    }
    MUST(s.threads >= 1 && s.batch >= 1 && s.seq >= 1, "a number is missing or not positive");
    return s;
}

int main(int argc, char **argv)
{
    struct settings s = read_settings(argc, argv);
    int64_t rows = s.batch * s.seq, width = s.small ? 64 : 768, vocab = s.small ? 257 : 50257;
    bench_gemms(&s);
    bench_attention(width / 64, &s);
    bench_gelu(rows, 4 * width, &s);
    bench_dropout(rows, 4 * width, &s);
    bench_layer_norm(rows, width, &s);
    bench_cross_entropy(rows, vocab, &s);
    bench_embedding(vocab, width, &s);
    bench_adamw(s.small ? 100 : 5000, &s);
    return 0;
}
