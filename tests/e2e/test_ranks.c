/* SPDX-License-Identifier: Apache-2.0 */
/* Data parallel in one process: dp=N has the bits of N microbatches on one rank, whatever is
 * recomputed; with microbatches of its own it sums on two levels, also with ZeRO-3; planned memory
 * is used memory and planned bytes are sent bytes; what goes wrong in a rank ends all. e2e-ranks
 * [small | all]        all: every plan of every model and mesh */
#include "borrowed_plan.h"
#include "plans.h"
#include "tensor_checks.h"

#include <float.h>
#include <math.h>

#define STEPS 10

/* --- bytes --- */

/* A gradient travels in its own dtype, the sum over microbatches in f32, and both come back in f32;
 * the loss is one element. */
static uint64_t formula(const struct remat_program *program, uint32_t ranks, uint32_t rank,
                        bool accumulates)
{
    uint64_t bytes = 4 * (ranks - 1); /* the loss */
    for (uint32_t t = 0; t < program->tensor_count; t++) {
        const struct remat_program_value *v = &program->values[program->tensors[t].value];
        if (v->role != REMAT_ROLE_PARAMETER)
            continue;
        uint64_t width = remat_dtype_bytes((remat_dtype)v->dtype), count = v->bytes / width;
        uint64_t share = (count + ranks - 1) / ranks, before = rank * share;
        uint64_t mine = before >= count ? 0 : count - before < share ? count - before : share;
        bytes += (count - mine) * (accumulates ? 4 : width) + (ranks - 1) * mine * 4;
    }
    return bytes;
}

static void check_bytes(const char *name, const struct remat_program *program,
                        const struct ranks_result *results, uint32_t ranks, bool accumulates)
{
    for (uint32_t r = 0; r < ranks; r++) {
        uint64_t expected = formula(program, ranks, r, accumulates);
        CHECK(results[r].sent_bytes == expected, "%s: rank %u sends %llu of %llu", name, r,
              (unsigned long long)results[r].sent_bytes, (unsigned long long)expected);
    }
    struct remat_communication planned = remat_program_communication(program);
    CHECK(planned.sent_bytes == results[0].sent_bytes, "%s: the plan says %llu", name,
          (unsigned long long)planned.sent_bytes);
}

/* --- one level --- */

static void test_model(remat_context *ctx, const struct ranks_model *model, uint32_t ranks)
{
    const struct ranks_settings settings = {.steps = STEPS};
    struct ranks_result one, results[RANKS_MAX];
    struct remat_arena arena;
    char name[80];
    ranks_describe(name, model, ranks);
    remat_arena_init(&arena, ctx);
    struct remat_program *whole = ranks_compile(ctx, &arena, model, 1, ranks, 8);
    struct remat_program *parted = ranks_compile(ctx, &arena, model, ranks, 1, 8);
    ranks_run(ctx, whole, &settings, &one);
    ranks_run(ctx, parted, &settings, results);
    CHECK(one.gradient_count > 4 && isfinite(one.loss[STEPS - 1]) && one.loss[1] != one.loss[0],
          "%s: %u gradients", name, one.gradient_count);
    for (uint32_t r = 0; r < ranks; r++)
        CHECK(ranks_equal(&one, &results[r], STEPS),
              "%s: rank %u: loss %.9g, of %u microbatches %.9g; %s", name, r,
              (double)results[r].loss[0], ranks, (double)one.loss[0], results[r].message);
    check_bytes(name, parted, results, ranks, false);
    remat_arena_release(&arena);
}

/* --- every plan of a mesh --- */

static void test_plans(remat_context *ctx, const struct ranks_model *model, uint32_t ranks)
{
    ranks_check_plans(ctx, model, ranks, NULL);
}

/* --- two levels --- */

#define TRANSFERS_MAX 512

/* What the exchanges of a first step were given. */
struct captured {
    uint32_t count[RANKS_MAX];
    struct {
        char name[96]; /* of the tensor that is averaged */
        void *data;
    } items[RANKS_MAX][TRANSFERS_MAX];
};

static float widen(uint16_t bits)
{
    uint32_t word = (uint32_t)bits << 16;
    float out;
    memcpy(&out, &word, sizeof out);
    return out;
}

static void capture(void *user, const remat_transfer *t, bool exchange, uint32_t rank)
{
    struct captured *c = user;
    const char *name = t->name, *end = strstr(name, ".mean");
    if (!exchange || c->count[rank] == TRANSFERS_MAX)
        return;
    uint32_t k = c->count[rank]++;
    size_t length = end ? (size_t)(end - name) : strlen(name);
    snprintf(c->items[rank][k].name, sizeof c->items[rank][k].name, "%.*s", (int)length, name);
    c->items[rank][k].data = malloc(t->whole_bytes);
    memcpy(c->items[rank][k].data, t->from, t->whole_bytes);
}

static const void *find_captured(const struct captured *c, uint32_t rank, const char *name)
{
    for (uint32_t k = 0; k < c->count[rank]; k++)
        if (strcmp(c->items[rank][k].name, name) == 0)
            return c->items[rank][k].data;
    return NULL;
}

static void release_captured(struct captured *c)
{
    for (uint32_t r = 0; r < RANKS_MAX; r++)
        for (uint32_t k = 0; k < c->count[r]; k++)
            free(c->items[r][k].data);
    free(c);
}

/* Steps run with subnormals flushed to zero. */
static float flush(float x)
{
    return fabsf(x) < FLT_MIN ? copysignf(0, x) : x;
}

/* On 4 ranks of 2 microbatches, from what 8 ranks exchange, to the bit:
 * (((p0 + p1) + (p2 + p3)) + (p4 + p5)) + (p6 + p7), or, of a rank's part of an accumulator,
 * (((p0 + p2) + p4) + p6) + (((p1 + p3) + p5) + p7); and how far from one chain. */
enum { RANKS = 4, MICROBATCHES = 2, PARTS = RANKS * MICROBATCHES };

static float add_levels(const float p[PARTS], bool ranks_first)
{
    uint32_t inner = ranks_first ? RANKS : MICROBATCHES, step = ranks_first ? MICROBATCHES : 1;
    float sum = 0;
    for (uint32_t o = 0; o < PARTS / inner; o++) {
        uint32_t first = ranks_first ? o : o * MICROBATCHES;
        float level = p[first];
        for (uint32_t k = 1; k < inner; k++)
            level = flush(level + p[first + k * step]);
        sum = o ? flush(sum + level) : level;
    }
    return sum;
}

/* BERT's loss is over the count of the whole batch: its gradients add up, others are averaged. */
static float divisor(const struct ranks_model *model)
{
    return strcmp(model->preset, "bert-tiny") == 0 ? 1 : PARTS;
}

static void check_gradient(const struct captured *parts, const char *name, const float *got,
                           uint64_t elements, bool ranks_first, const struct ranks_model *model)
{
    uint64_t wrong = 0, far = 0;
    const void *given[PARTS];
    for (uint32_t q = 0; q < PARTS; q++) {
        given[q] = find_captured(parts, q, name);
        MUST(given[q], "%s is not exchanged", name);
    }
    for (uint64_t i = 0; i < elements; i++) {
        float p[PARTS], size = 0, chain = 0;
        for (uint32_t q = 0; q < PARTS; q++) {
            float part = model->dtype == REMAT_BF16 ? widen(((const uint16_t *)given[q])[i])
                                                    : ((const float *)given[q])[i];
            p[q] = flush(flush(part) / divisor(model));
            size += fabsf(p[q]);
            chain = q ? flush(chain + p[q]) : p[q];
        }
        float levels = add_levels(p, ranks_first);
        wrong += memcmp(&levels, &got[i], sizeof levels) != 0;
        far += fabsf(chain - got[i]) > 2 * (PARTS - 1) * FLT_EPSILON / 2 * size;
    }
    CHECK(wrong == 0 && far == 0, "%s: of %llu elements %llu have other bits, %llu are far", name,
          (unsigned long long)elements, (unsigned long long)wrong, (unsigned long long)far);
}

static void check_gradients(remat_context *ctx, struct ranks_model model, uint32_t zero,
                            const struct captured *parts)
{
    struct tensor_gradients kept = {0};
    const struct ranks_settings settings = {.steps = 1, .keep = tensor_keep, .keep_user = &kept};
    struct ranks_result results[RANKS_MAX];
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    model.zero = zero;
    ranks_run(ctx, ranks_compile(ctx, &arena, &model, RANKS, MICROBATCHES, 8), &settings, results);
    CHECK(kept.count > 4 && kept.count == results[0].gradient_count, "%u gradients of %u",
          kept.count, results[0].gradient_count);
    for (uint32_t k = 0; k < kept.count; k++)
        check_gradient(parts, kept.items[k].name, kept.items[k].data, kept.items[k].elements,
                       zero == 3 && kept.items[k].elements % RANKS == 0, &model);
    tensor_release(&kept);
    remat_arena_release(&arena);
}

static void test_levels(remat_context *ctx, const struct ranks_model *model)
{
    struct captured *parts = calloc(1, sizeof *parts);
    const struct ranks_tap tap = {capture, parts};
    struct ranks_result results[RANKS_MAX], again[RANKS_MAX], one;
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_program *eight = ranks_compile(ctx, &arena, model, PARTS, 1, 8);
    struct remat_program *two = ranks_compile(ctx, &arena, model, 2, 2, 8);
    struct remat_program *whole = ranks_compile(ctx, &arena, model, 1, 4, 8);
    ranks_run(ctx, eight, &(struct ranks_settings){.steps = 1, .tap = &tap}, results);
    check_gradients(ctx, *model, 0, parts);
    check_gradients(ctx, *model, 3, parts);
    ranks_run(ctx, two, &(struct ranks_settings){.steps = 4}, results);
    check_bytes("two levels", two, results, 2, true);
    ranks_run(ctx, two, &(struct ranks_settings){.steps = 4}, again);
    ranks_run(ctx, whole, &(struct ranks_settings){.steps = 4}, &one);
    for (uint32_t r = 0; r < 2; r++)
        CHECK(ranks_equal(&results[0], &again[r], 4),
              "%s: rank %u of the second run has other bits", model->preset, r);
    CHECK(fabsf(one.loss[0] - results[0].loss[0]) <= 3 * FLT_EPSILON * one.loss[0] &&
              fabsf(one.evaluated - results[0].evaluated) <= 1e-3f * one.evaluated,
          "%s: loss %.9g and %.9g, then %.9g and %.9g", model->preset, (double)one.loss[0],
          (double)results[0].loss[0], (double)one.evaluated, (double)results[0].evaluated);
    release_captured(parts);
    remat_arena_release(&arena);
}

/* --- evaluation alone --- */

static void test_evaluation(remat_context *ctx)
{
    static const struct {
        uint32_t ranks, microbatches;
    } ways[] = {{1, 4}, {4, 1}, {2, 2}};
    const struct ranks_model model = {.preset = "gpt2-tiny", .dtype = REMAT_F32};
    const struct remat_policy_settings none = {0};
    struct ranks_result results[3][RANKS_MAX];
    for (uint32_t k = 0; k < 3; k++) {
        struct remat_arena arena;
        struct remat_program *program;
        remat_arena_init(&arena, ctx);
        struct remat_graph *graph =
            ranks_graph(ctx, &arena, &model, ways[k].ranks, ways[k].microbatches, 8, true);
        const struct remat_pass_settings passes =
            ranks_passes(&model, ways[k].ranks, ways[k].microbatches);
        MUST_OK(ctx, harness_compile(ctx, &arena, graph, &passes, &none, 0, &program));
        ranks_run(ctx, program, &(struct ranks_settings){0}, results[k]);
        CHECK(program->base_step_ns == program->step_ns, "nothing is recomputed");
        for (uint32_t r = 1; r < ways[k].ranks; r++)
            CHECK(results[k][r].evaluated == results[k][0].evaluated, "rank %u", r);
        remat_arena_release(&arena);
    }
    float one = results[0][0].evaluated;
    CHECK(isfinite(one) && one > 1 && results[1][0].evaluated == one &&
              fabsf(results[2][0].evaluated - one) <= 3 * FLT_EPSILON * one,
          "%.9g, %.9g, %.9g", (double)one, (double)results[1][0].evaluated,
          (double)results[2][0].evaluated);
}

/* --- planted faults --- */

/* Rows of a receive buffer in the other order: the sum has another one. */
static void reverse_rows(void *user, const remat_transfer *t, bool exchange, uint32_t rank)
{
    (void)user, (void)rank;
    char *row = malloc(t->part_bytes), *to = t->to;
    for (uint32_t q = 0; exchange && q < t->size / 2; q++) {
        char *a = to + q * t->part_bytes, *b = to + (t->size - 1 - q) * t->part_bytes;
        memcpy(row, a, t->part_bytes);
        memcpy(a, b, t->part_bytes);
        memcpy(b, row, t->part_bytes);
    }
    free(row);
}

/* As if parts were one element shorter. */
static void shift_parts(void *user, const remat_transfer *t, bool exchange, uint32_t rank)
{
    (void)user, (void)rank;
    if (!exchange && t->whole_bytes > t->part_bytes + 4 && t->part_bytes > 4)
        memmove((char *)t->to + t->part_bytes - 4, (char *)t->to + t->part_bytes,
                t->whole_bytes - t->part_bytes);
}

static void test_faults(remat_context *ctx)
{
    const struct ranks_model model = {.preset = "gpt2-tiny", .dtype = REMAT_F32};
    const struct ranks_tap reversed = {reverse_rows, NULL}, shifted = {shift_parts, NULL};
    const struct {
        const char *name;
        struct ranks_settings settings;
    } faults[] = {
        {"the sum in another order", {.steps = 2, .tap = &reversed}},
        {"parts of another length", {.steps = 2, .tap = &shifted}},
        {"the part's number off by one", {.steps = 2, .shift = 1}},
    };
    struct ranks_result good[RANKS_MAX], bad[RANKS_MAX];
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_program *program = ranks_compile(ctx, &arena, &model, 4, 1, 8);
    ranks_run(ctx, program, &(struct ranks_settings){.steps = 2}, good);
    for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) {
        ranks_run(ctx, program, &faults[k].settings, bad);
        CHECK(!ranks_equal(&good[0], &bad[0], 2), "not noticed: %s", faults[k].name);
    }
    remat_arena_release(&arena);
}

/* --- failure --- */

static void expect_failure(remat_context *ctx, struct remat_program *program,
                           const struct ranks_settings *settings, const char *what,
                           remat_status status, const char *message)
{
    struct ranks_result results[RANKS_MAX];
    ranks_run(ctx, program, settings, results);
    for (uint32_t r = 0; r < remat_program_ranks(program) - settings->absent; r++) {
        bool first = r == 1 && settings->stopped_after; /* it has a message of its own */
        CHECK(results[r].status == status &&
                  strstr(results[r].message, first ? "stopped by the trace callback" : message),
              "%s: rank %u: %d %s", what, r, (int)results[r].status, results[r].message);
    }
}

static void test_failure(remat_context *ctx)
{
    const struct ranks_model model = {.preset = "gpt2-tiny", .dtype = REMAT_F32},
                             other = {.preset = "gpt2-tiny", .dtype = REMAT_BF16};
    const struct ranks_settings absent = {.steps = 1,
                                          .absent = 1,
                                          .timeout_ns = UINT64_C(2000000000)},
                                stopped = {.steps = 1, .stopped_after = 100};
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_program *program = ranks_compile(ctx, &arena, &model, 4, 1, 8);
    const struct ranks_settings odd = {.steps = 1,
                                       .odd = ranks_compile(ctx, &arena, &other, 4, 1, 8)};
    expect_failure(ctx, program, &absent, "a rank never comes", REMAT_ERROR_RANK_LOST,
                   " along dp (4 ranks); missing: rank 3");
    expect_failure(ctx, program, &stopped, "a rank stops", REMAT_ERROR_OTHER,
                   "rank 1 failed: stopped by the trace callback at command \"");
    expect_failure(ctx, program, &odd, "a rank has another plan", REMAT_ERROR_OTHER,
                   "ranks differ: ");
    remat_arena_release(&arena);
}

static void refuse(remat_context *ctx, const struct remat_plan *plan, const remat_engine *engine,
                   const char *message)
{
    remat_session_params params;
    remat_session *session;
    remat_session_params_init(&params);
    params.threads = 1;
    params.engine = engine;
    CHECK_STATUS(ctx, remat_session_create(ctx, plan, &params, &session), REMAT_ERROR_USAGE,
                 message);
}

static void test_refusals(remat_context *ctx)
{
    const struct ranks_model model = {.preset = "gpt2-tiny", .dtype = REMAT_F32};
    struct remat_arena arena;
    remat_engine engine;
    remat_local_ranks *local;
    remat_arena_init(&arena, ctx);
    struct remat_plan plan = borrowed_plan(ranks_compile(ctx, &arena, &model, 4, 1, 8));
    remat_plan_info info = {.struct_size = sizeof info};
    remat_plan_get_info(&plan, &info);
    CHECK(info.rank_count == 4, "%u ranks", info.rank_count);
    refuse(ctx, &plan, NULL, "the plan is for 4 ranks: a session of it needs an engine");
    MUST_OK(ctx, remat_local_create(ctx, 3, &local));
    remat_local_engine(local, 2, &engine);
    refuse(ctx, &plan, &engine, "the plan is for 4 ranks, the engine is of rank 2 of 3");
    engine.ranks = 4;
    engine.rank = 4;
    refuse(ctx, &plan, &engine, "the plan is for 4 ranks, the engine is of rank 4 of 4");
    engine.struct_size = 8;
    refuse(ctx, &plan, &engine, "an engine of 8 bytes");
    remat_local_destroy(&local);
    remat_arena_release(&arena);
}

/* --- */

static void test_all(remat_context *ctx, bool all_plans)
{
    static const char *const presets[] = {"gpt2-tiny", "llama-tiny", "bert-tiny", "encdec-tiny"};
    for (uint32_t p = 0; p < 4; p++)
        for (uint32_t k = 0; k < 2; k++) {
            const struct ranks_model model = {.preset = presets[p],
                                              .dtype = k ? REMAT_BF16 : REMAT_F32};
            for (uint32_t ranks = 2; ranks <= 8; ranks *= 2) {
                test_model(ctx, &model, ranks);
                if (all_plans)
                    test_plans(ctx, &model, ranks);
            }
            test_levels(ctx, &model);
        }
}

int main(int argc, char **argv)
{
    const struct ranks_model f32 = {.preset = "gpt2-tiny", .dtype = REMAT_F32},
                             bf16 = {.preset = "encdec-tiny", .dtype = REMAT_BF16};
    const struct ranks_model clipped = {
        .preset = "bert-tiny", .dtype = REMAT_BF16, .clip_norm = 0.5};
    bool small = argc > 1 && strcmp(argv[1], "small") == 0;
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    if (small) {
        test_model(ctx, &bf16, 4);
    } else {
        test_all(ctx, argc > 1 && strcmp(argv[1], "all") == 0);
        test_plans(ctx, &f32, 4);
        test_plans(ctx, &bf16, 2);
        test_evaluation(ctx);
        test_faults(ctx);
    }
    test_model(ctx, &clipped, 2);
    test_failure(ctx);
    test_refusals(ctx);
    remat_context_destroy(&ctx);
    return check_exit();
}
