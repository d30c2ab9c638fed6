/* The loss in chunks of rows against the loss at once: each row has the same bits, so has the loss,
 * in eval too, and so have all gradients but those of the head's weight and bias, which are sums
 * over rows; in one chunk they as well. The logits never exist whole. Bits and peak under every
 * plan. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"

#define GRADIENTS_MAX 128

struct gradient {
    const char *name;
    float *data;
    uint64_t count;
};
struct result {
    float loss, evaluated;
    uint32_t count;
    struct gradient gradients[GRADIENTS_MAX];
};

static int record(void *user, const remat_trace_event *event)
{
    struct result *result = user;
    for (uint32_t i = 0; i < event->value_count; i++) {
        const remat_trace_value *v = &event->values[i];
        if (v->role != REMAT_TENSOR_GRADIENT)
            continue;
        uint32_t g = 0;
        while (g < result->count && strcmp(result->gradients[g].name, v->name) != 0)
            g++;
        result->count += g == result->count;
        struct gradient *to = &result->gradients[g];
        bool narrow = v->element == REMAT_ELEMENT_BF16;
        *to = (struct gradient){v->name, realloc(to->data, 2 * v->bytes),
                                v->bytes / (narrow ? 2 : 4)};
        for (uint64_t e = 0; e < to->count; e++) {
            uint32_t bits = narrow ? (uint32_t)((const uint16_t *)v->data)[e] << 16
                                   : ((const uint32_t *)v->data)[e];
            memcpy(&to->data[e], &bits, sizeof bits);
        }
    }
    return 0;
}

/* The first step's, but for the targets: every fifth or so is `spare`. */
static void write_inputs(remat_context *ctx, remat_session *session, const remat_plan *plan,
                         int32_t spare)
{
    remat_tensor_info info = {.struct_size = sizeof info};
    int32_t ids[8192];
    harness_write_inputs(ctx, session, plan, 0, 0);
    remat_plan_get_tensor(plan, remat_plan_find_tensor(plan, "targets"), &info);
    for (uint64_t i = 0; i < info.bytes / 4; i++) {
        ids[i] = (int32_t)(remat_hash(&(uint64_t){i + 10000}, 8, 7) % 251);
        ids[i] = ids[i] % 5 == 0 ? spare : ids[i];
    }
    MUST(ctx, remat_session_write(session, "targets", ids, info.bytes));
}

static struct result run(remat_context *ctx, struct remat_program *program, int32_t spare)
{
    struct result result = {0};
    struct remat_plan plan = remat_plan_borrow(program);
    remat_session *session = harness_open(ctx, &plan, 2);
    write_inputs(ctx, session, &plan, spare);
    MUST(ctx, remat_session_run(session, "eval"));
    MUST(ctx, remat_session_read(session, "loss", &result.evaluated, sizeof(float)));
    remat_session_set_trace(session, record, &result);
    MUST(ctx, remat_session_run(session, "train"));
    MUST(ctx, remat_session_read(session, "loss", &result.loss, sizeof(float)));
    remat_session_destroy(&session);
    return result;
}

static void release(struct result *result)
{
    for (uint32_t g = 0; g < result->count; g++)
        free(result->gradients[g].data);
}

/* Whether the gradient is of what the linear before the loss multiplies with or adds. */
static bool is_of_head(const struct remat_graph *graph, const char *gradient)
{
    const struct remat_node_info *loss = &graph->nodes[graph->values[graph->outputs[0].i].node];
    const struct remat_node_info *linear = &graph->nodes[graph->values[loss->inputs[0].i].node];
    for (uint32_t k = 1; k < linear->input_count; k++) {
        const char *name = graph->values[linear->inputs[k].i].name;
        size_t length = strlen(name);
        if (strncmp(gradient, name, length) == 0 && strcmp(gradient + length, ".grad") == 0)
            return true;
    }
    return false;
}

static void compare(const char *name, const struct remat_graph *graph, const struct result *whole,
                    const struct result *chunks, bool one, double tolerance)
{
    uint32_t exact = 0, near = 0;
    harness_check(memcmp(&whole->loss, &chunks->loss, 4) == 0, "%s: loss %.9g, at once %.9g", name,
                  (double)chunks->loss, (double)whole->loss);
    harness_check(memcmp(&whole->evaluated, &chunks->evaluated, 4) == 0, "%s: eval %.9g", name,
                  (double)chunks->evaluated);
    harness_check(whole->count == chunks->count && whole->count > 1, "%s: %u gradients", name,
                  chunks->count);
    for (uint32_t g = 0; g < whole->count; g++) {
        const struct gradient *x = &whole->gradients[g], *y = chunks->gradients;
        double most = 0, difference = 0;
        while (strcmp(x->name, y->name) != 0)
            y++;
        for (uint64_t e = 0; e < x->count; e++) {
            most = fmax(most, fabs((double)x->data[e]));
            difference = fmax(difference, fabs((double)x->data[e] - (double)y->data[e]));
        }
        bool sums = is_of_head(graph, x->name) && !one;
        bool same = memcmp(x->data, y->data, x->count * sizeof(float)) == 0;
        harness_check(most > 0 && (sums ? difference <= tolerance * most : same),
                      "%s: %s is off by %.3g of %.3g", name, x->name, difference, most);
        exact += same;
        near += sums && !same;
    }
    printf("%-36s %3u gradients to the bit, %u to rounding\n", name, exact, near);
}

static struct remat_program *compile(remat_context *ctx, struct remat_arena *arena,
                                     struct remat_graph *graph, uint32_t rows)
{
    const struct remat_policy_settings none = {.ac_mode = "none"};
    struct remat_program *program;
    graph->loss_chunk = rows;
    MUST(ctx, harness_compile(ctx, arena, graph, &none, 0, 0, &program));
    return program;
}

static void test_model(remat_context *ctx, const char *preset, struct remat_model_settings sizes,
                       int64_t rows)
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = harness_model(ctx, &arena, preset, sizes);
    struct remat_program *program = compile(ctx, &arena, graph, 0);
    uint64_t numerics_hash = program->numerics_hash;
    const struct remat_node_info *loss = &graph->nodes[graph->values[graph->outputs[0].i].node];
    int32_t spare = (int32_t)remat_node_int(loss, "ignore_index", 0);
    struct result whole = run(ctx, program, spare);
    const int64_t chunks[] = {rows, rows / 2 - 1, rows / 16 + 1};
    for (uint32_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s, %lld rows of %lld", preset,
                 sizes.dtype == REMAT_BF16 ? " bf16" : "", (long long)chunks[c], (long long)rows);
        program = compile(ctx, &arena, graph, (uint32_t)chunks[c]);
        harness_check(program->numerics_hash != numerics_hash, "%s: numerics_hash", name);
        struct result result = run(ctx, program, spare);
        compare(name, graph, &whole, &result, c == 0, sizes.dtype == REMAT_BF16 ? 0.01 : 1e-5);
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
    harness_check(whole + 2 * dx >= chunked + spared, "the peak falls by %lld, the logits by %llu",
                  (long long)(whole - chunked), (unsigned long long)spared);
    remat_arena_release(&arena);
}

static void test_plans(remat_context *ctx, const char *preset, struct remat_model_settings sizes,
                       uint32_t microbatches)
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = harness_model(ctx, &arena, preset, sizes);
    graph->microbatches = microbatches;
    graph->loss_chunk = 11;
    struct check_model model = {preset, graph, NULL, false};
    check_bits(ctx, &model, 4, 2);
    check_peak(ctx, &model);
    remat_arena_release(&arena);
}

#define SMALL                                                                                      \
    .layers = 3, .width = 36, .heads = 3, .vocab = 257, .context = 24, .batch = 3, .seq = 21,      \
    .dropout = 0.1

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    test_model(ctx, "gpt2-tiny", (struct remat_model_settings){SMALL}, 63);
    test_model(ctx, "gpt2-tiny", (struct remat_model_settings){SMALL, .dtype = REMAT_BF16}, 63);
    test_model(ctx, "llama-tiny",
               (struct remat_model_settings){SMALL, .kv_heads = 3, .hidden = 100}, 63);
    test_model(ctx, "llama-tiny",
               (struct remat_model_settings){SMALL, .kv_heads = 3, .dtype = REMAT_BF16}, 63);
    test_model(ctx, "bert-tiny", (struct remat_model_settings){SMALL}, 63);
    test_model(ctx, "bert-tiny", (struct remat_model_settings){SMALL, .dtype = REMAT_BF16}, 63);
    test_model(ctx, "encdec-tiny", (struct remat_model_settings){SMALL, .source_seq = 17}, 63);
    test_peak(ctx);
    test_plans(ctx, "llama-tiny",
               (struct remat_model_settings){SMALL, .kv_heads = 3, .dtype = REMAT_BF16}, 2);
    test_plans(ctx, "bert-tiny", (struct remat_model_settings){SMALL}, 1);
    remat_context_destroy(&ctx);
    return harness_exit();
}
