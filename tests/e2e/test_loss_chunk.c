/* SPDX-License-Identifier: Apache-2.0 */
/* The loss in chunks of rows against the loss at once: each row has the same bits, so has the loss,
 * in eval too, and so have all gradients but those of the head's weight and bias, which are sums
 * over rows; in one chunk they as well. The logits never exist whole. Bits and peak under every
 * plan.
 *
 * Head's gradients differ by how sums are rounded. A rounding of a sum s is at most u |s|, u =
 * 2^-24 in fp32 and 2^-8 in bf16 (8 bits of significand), and for what lies anywhere between two
 * numbers at most u |s| / sqrt 3 root mean square. n roundings of either sign of sums no larger
 * than s add up to sqrt n of that, in the Euclidean norm of thousands of elements almost surely, so
 * the limit is u sqrt n |s|, sqrt 3 of the largest that is expected. In fp32 a sum is rounded after
 * each row, of both: n is twice the rows. A bf16 gradient is summed in fp32 and rounded once, in
 * chunks after each chunk. Tied, the gradient of the embedding is added to either: 2 more. Of the
 * weight, |s| is the largest of the sums after each chunk, which the trace has, and the gradient;
 * of the bias, sqrt 2: the mean of rows p - e, p probabilities, e a unit vector. A chunk that is
 * left out is a sixteenth of the rows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "borrowed_plan.h"
#include "check_model.h"

#define GRADIENTS_MAX 128

struct gradient {
    const char *name;
    float *data;
    uint64_t count;
};
struct result {
    float loss, evaluated;
    uint64_t head_count; /* elements of the head's weight */
    double most;         /* the largest norm of the weight's gradient after each chunk */
    uint32_t count;
    struct gradient gradients[GRADIENTS_MAX];
};

static bool is_narrow(const remat_trace_value *v)
{
    return v->element == REMAT_ELEMENT_BF16;
}

static uint64_t count_of(const remat_trace_value *v)
{
    return v->bytes / (is_narrow(v) ? 2 : 4);
}

static float element(const remat_trace_value *v, uint64_t e)
{
    uint32_t bits = is_narrow(v) ? (uint32_t)((const uint16_t *)v->data)[e] << 16
                                 : ((const uint32_t *)v->data)[e];
    float number;
    memcpy(&number, &bits, sizeof bits);
    return number;
}

static void keep_gradient(struct result *result, const remat_trace_value *v)
{
    uint32_t g = 0;
    while (g < result->count && strcmp(result->gradients[g].name, v->name) != 0)
        g++;
    result->count += g == result->count;
    struct gradient *to = &result->gradients[g];
    *to =
        (struct gradient){v->name, realloc(to->data, count_of(v) * sizeof *to->data), count_of(v)};
    for (uint64_t e = 0; e < to->count; e++)
        to->data[e] = element(v, e);
}

/* Of loss and head only sums of the weight's gradient are as large as the weight. */
static void keep_sum(struct result *result, const remat_trace_value *v)
{
    double square = 0;
    for (uint64_t e = 0; e < result->head_count; e++)
        square += (double)element(v, e) * (double)element(v, e);
    result->most = fmax(result->most, sqrt(square));
}

static int record(void *user, const remat_trace_event *event)
{
    struct result *result = user;
    for (uint32_t i = 0; i < event->value_count; i++) {
        const remat_trace_value *v = &event->values[i];
        if (v->role == REMAT_TENSOR_GRADIENT)
            keep_gradient(result, v);
        else if (strncmp(v->name, "loss.", 5) == 0 && count_of(v) == result->head_count)
            keep_sum(result, v);
    }
    return 0;
}

struct subject {
    remat_context *ctx;
    struct remat_graph *graph;
    int64_t rows;
    uint32_t seed; /* of the data */
};

/* Of the loss: logits, targets. */
static const struct remat_node_info *loss_of(const struct remat_graph *graph)
{
    return &graph->nodes[graph->values[graph->outputs[0].i].node.i];
}

/* Of the logits: x, the head's weight and perhaps its bias. */
static const struct remat_node_info *head_of(const struct remat_graph *graph)
{
    return &graph->nodes[graph->values[loss_of(graph)->inputs[0].i].node.i];
}

/* Those of a step, but for the targets: every fifth or so is ignored. */
static void write_inputs(const struct subject *s, remat_session *session, const remat_plan *plan)
{
    remat_tensor_info info = {.struct_size = sizeof info};
    int32_t ids[8192], spare = (int32_t)remat_node_int(loss_of(s->graph), "ignore_index", 0);
    harness_write_inputs(s->ctx, session, plan, s->seed, 0);
    remat_plan_get_tensor(plan, remat_plan_find_tensor(plan, "targets"), &info);
    for (uint64_t i = 0; i < info.bytes / 4; i++) {
        ids[i] = (int32_t)(remat_hash(&(uint64_t){i + 10000}, 8, 7 + s->seed) % 251);
        ids[i] = ids[i] % 5 == 0 ? spare : ids[i];
    }
    MUST_OK(s->ctx, remat_session_write(session, "targets", ids, info.bytes));
}

static struct result run(const struct subject *s, struct remat_program *program)
{
    struct result result = {.head_count = (uint64_t)remat_shape_elements(
                                &s->graph->values[head_of(s->graph)->inputs[1].i].shape)};
    struct remat_plan plan = borrowed_plan(program);
    remat_session *session = harness_open(s->ctx, &plan, 2);
    write_inputs(s, session, &plan);
    MUST_OK(s->ctx, remat_session_run(session, "eval"));
    MUST_OK(s->ctx, remat_session_read(session, "loss", &result.evaluated, sizeof(float)));
    remat_session_set_trace(session, record, &result);
    MUST_OK(s->ctx, remat_session_run(session, "train"));
    MUST_OK(s->ctx, remat_session_read(session, "loss", &result.loss, sizeof(float)));
    remat_session_destroy(&session);
    return result;
}

static void release(struct result *result)
{
    for (uint32_t g = 0; g < result->count; g++)
        free(result->gradients[g].data);
}

/* Which input of the head a gradient is of: 1 its weight, 2 its bias, 0 none of them. */
static uint32_t find_input(const struct remat_graph *graph, const char *gradient)
{
    const struct remat_node_info *head = head_of(graph);
    for (uint32_t k = 1; k < head->input_count; k++) {
        const char *name = graph->values[head->inputs[k].i].name;
        size_t length = strlen(name);
        if (strncmp(gradient, name, length) == 0 && strcmp(gradient + length, ".grad") == 0)
            return k;
    }
    return 0;
}

/* How far two gradients of the head's input may be apart, by norm. */
static double limit_of(const struct subject *s, uint32_t input, double norm, double most,
                       uint32_t chunks)
{
    bool narrow = s->graph->values[head_of(s->graph)->inputs[input].i].dtype == REMAT_BF16;
    double roundings = narrow ? (input == 1 ? 1 + chunks : 2) : 2 * (double)s->rows;
    double sum = input == 1 ? fmax(norm, most) : sqrt(2);
    return ldexp(sqrt(roundings + 2) * sum, narrow ? -8 : -24);
}

static void compare_gradient(const struct subject *s, const char *name, const struct gradient *x,
                             const struct gradient *y, double most, uint32_t chunks, double *share)
{
    double square = 0, apart = 0;
    for (uint64_t e = 0; e < x->count; e++) {
        double difference = (double)x->data[e] - (double)y->data[e];
        square += (double)x->data[e] * (double)x->data[e];
        apart += difference * difference;
    }
    uint32_t input = chunks > 1 ? find_input(s->graph, x->name) : 0;
    double limit = input ? limit_of(s, input, sqrt(square), most, chunks) : 0;
    bool same = memcmp(x->data, y->data, x->count * sizeof *x->data) == 0;
    CHECK(square > 0 && (input ? sqrt(apart) <= limit : same),
          "%s, seed %u: %s is off by %.3g of %.3g, limit %.3g", name, s->seed, x->name, sqrt(apart),
          sqrt(square), limit);
    if (input)
        *share = fmax(*share, sqrt(apart) / limit);
}

static void compare(const struct subject *s, const char *name, const struct result *whole,
                    const struct result *parts, uint32_t chunks)
{
    double share = 0; /* of the limit */
    CHECK(memcmp(&whole->loss, &parts->loss, 4) == 0, "%s: loss %.9g, at once %.9g", name,
          (double)parts->loss, (double)whole->loss);
    CHECK(memcmp(&whole->evaluated, &parts->evaluated, 4) == 0, "%s: eval %.9g", name,
          (double)parts->evaluated);
    CHECK(whole->count == parts->count && whole->count > 1, "%s: %u gradients", name, parts->count);
    for (uint32_t g = 0; g < whole->count; g++) {
        const struct gradient *x = &whole->gradients[g], *y = parts->gradients;
        while (strcmp(x->name, y->name) != 0)
            y++;
        compare_gradient(s, name, x, y, parts->most, chunks, &share);
    }
    printf("%-36s %3u gradients, those of the head off by %.2f of the limit\n", name, whole->count,
           share);
}

static struct remat_program *compile(remat_context *ctx, struct remat_arena *arena,
                                     struct remat_graph *graph, uint32_t rows)
{
    const struct remat_policy_settings none = {.ac_mode = "none"};
    struct remat_program *program;
    const struct remat_pass_settings passes = {.loss_chunk = rows};
    MUST_OK(ctx, harness_compile(ctx, arena, graph, &passes, &none, 0, &program));
    return program;
}

static void test_model(remat_context *ctx, const char *preset, struct remat_model_settings sizes,
                       uint32_t seed)
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    const int64_t rows = (int64_t)sizes.batch * (int64_t)sizes.seq;
    struct subject s = {ctx, harness_model(ctx, &arena, preset, sizes), rows, seed};
    struct remat_program *program = compile(ctx, &arena, s.graph, 0);
    uint64_t numerics_hash = program->numerics_hash;
    struct result whole = run(&s, program);
    const int64_t sizes_of_chunks[] = {rows, rows / 2 - 1, rows / 16 + 1};
    for (uint32_t c = 0; c < sizeof sizes_of_chunks / sizeof *sizes_of_chunks; c++) {
        int64_t size = sizes_of_chunks[c];
        char name[64];
        snprintf(name, sizeof name, "%s%s, %lld rows of %lld", preset,
                 sizes.dtype == REMAT_BF16 ? " bf16" : "", (long long)size, (long long)rows);
        program = compile(ctx, &arena, s.graph, (uint32_t)size);
        CHECK(program->numerics_hash != numerics_hash, "%s: numerics_hash", name);
        struct result result = run(&s, program);
        compare(&s, name, &whole, &result, (uint32_t)((rows - 1) / size + 1));
        release(&result);
    }
    release(&whole);
    remat_arena_release(&arena);
}

/* 256 rows of 4000 logits outweigh all else. */
static void test_peak(remat_context *ctx)
{
    const uint32_t rows = 256, classes = 4000, width = 16, chunk = 16;
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = harness_model(
        ctx, &arena, "gpt2-tiny",
        (struct remat_model_settings){
            .layers = 1, .width = width, .heads = 2, .batch = 4, .seq = 64, .vocab = classes});
    uint64_t whole = compile(ctx, &arena, graph, 0)->peak_bytes;
    uint64_t chunked = compile(ctx, &arena, graph, chunk)->peak_bytes;
    uint64_t spared = (uint64_t)(rows - chunk) * classes * sizeof(float);
    uint64_t dx = (uint64_t)rows * width * sizeof(float); /* its parts, beside what they become */
    printf("live peak %llu at once, %llu in chunks, of %llu spared logits\n",
           (unsigned long long)whole, (unsigned long long)chunked, (unsigned long long)spared);
    CHECK(whole + 2 * dx >= chunked + spared, "the peak falls by %lld, the logits by %llu",
          (long long)(whole - chunked), (unsigned long long)spared);
    remat_arena_release(&arena);
}

static void test_plans(remat_context *ctx, const char *preset, struct remat_model_settings sizes,
                       uint32_t microbatches)
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = harness_model(ctx, &arena, preset, sizes);
    const struct remat_pass_settings passes = {.microbatches = microbatches, .loss_chunk = 11};
    struct plan_set plans = plans_make(ctx, &arena, graph, &passes);
    struct check_model model = {preset, &plans, NULL, false, false};
    check_bits(ctx, &model, 4, 2);
    check_peak(ctx, &model);
    remat_arena_release(&arena);
}

#define SMALL                                                                                      \
    .layers = 3, .width = 36, .heads = 3, .vocab = 257, .context = 24, .batch = 3, .seq = 21,      \
    .dropout = 0.1

static void test_models(remat_context *ctx, uint32_t seed)
{
    test_model(ctx, "gpt2-tiny", (struct remat_model_settings){SMALL}, seed);
    test_model(ctx, "gpt2-tiny", (struct remat_model_settings){SMALL, .dtype = REMAT_BF16}, seed);
    test_model(ctx, "llama-tiny",
               (struct remat_model_settings){SMALL, .kv_heads = 3, .hidden = 100}, seed);
    test_model(ctx, "llama-tiny",
               (struct remat_model_settings){SMALL, .kv_heads = 3, .dtype = REMAT_BF16}, seed);
    test_model(ctx, "bert-tiny", (struct remat_model_settings){SMALL}, seed);
    test_model(ctx, "bert-tiny", (struct remat_model_settings){SMALL, .dtype = REMAT_BF16}, seed);
    test_model(ctx, "encdec-tiny", (struct remat_model_settings){SMALL, .source_seq = 17}, seed);
}

/* Argument: how many seeds of data, 2 without it. */
int main(int argc, char **argv)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    uint32_t seeds = argc > 1 ? (uint32_t)atoi(argv[1]) : 2;
    for (uint32_t seed = 0; seed < seeds; seed++)
        test_models(ctx, seed);
    test_peak(ctx);
    test_plans(ctx, "llama-tiny",
               (struct remat_model_settings){SMALL, .kv_heads = 3, .dtype = REMAT_BF16}, 2);
    test_plans(ctx, "bert-tiny", (struct remat_model_settings){SMALL}, 1);
    remat_context_destroy(&ctx);
    return check_exit();
}
