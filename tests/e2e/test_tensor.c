/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor parallel in one process: loss and gradients are those of one rank as far as sums in
 * another order allow, dropout masks equal; all plans of a mesh have the same bits; planned memory
 * is used memory; what a transfer brings, and which ids are a rank's, matters. e2e-tensor [small]
 */
#include "borrowed_plan.h"
#include "plans.h"
#include "ranks.h"

#include <float.h>
#include <math.h>

struct model {
    const char *preset;
    uint32_t heads, kv_heads, vocab, seq;
    bool written_out;
    double dropout, clip_norm;
    remat_dtype dtype;
};

static struct remat_graph *make(remat_context *ctx, struct remat_arena *arena,
                                const struct model *model, uint32_t dp, uint32_t tp,
                                uint32_t microbatches)
{
    const struct remat_model_settings sizes = {.layers = 2,
                                               .width = 48,
                                               .heads = model->heads,
                                               .kv_heads = model->kv_heads,
                                               .hidden = 40,
                                               .vocab = model->vocab,
                                               .seq = model->seq,
                                               .batch = 4 / (dp * microbatches),
                                               .dropout = model->dropout,
                                               .dtype = model->dtype,
                                               .written_out = model->written_out,
                                               .optimizer = {.clip_norm = model->clip_norm}};
    struct remat_graph *graph = harness_model(ctx, arena, model->preset, sizes);
    graph->microbatches = microbatches;
    if (dp > 1)
        graph->mesh.axes[graph->mesh.axis_count++] = (struct remat_mesh_size){"dp", dp};
    if (tp > 1)
        graph->mesh.axes[graph->mesh.axis_count++] = (struct remat_mesh_size){"tp", tp};
    return graph;
}

/* --- against one rank --- */

enum { TENSORS_MAX = 128 };

struct gradients {
    uint32_t count;
    struct {
        const char *name;
        uint64_t elements;
        float *data;
    } items[TENSORS_MAX];
};

/* The last version of each, in f32. */
static void keep(void *user, const char *name, const void *data, uint64_t bytes)
{
    struct gradients *g = user;
    uint32_t k = 0;
    while (k < g->count && strcmp(g->items[k].name, name) != 0)
        k++;
    MUST(k < TENSORS_MAX);
    if (k == g->count)
        g->count++;
    else
        free(g->items[k].data);
    g->items[k].name = name;
    g->items[k].elements = bytes / sizeof(float);
    g->items[k].data = malloc(bytes);
    MUST(g->items[k].data);
    memcpy(g->items[k].data, data, bytes);
}

static void release(struct gradients *g)
{
    for (uint32_t k = 0; k < g->count; k++)
        free(g->items[k].data);
}

static const float *find(const struct gradients *g, const char *name, uint64_t elements)
{
    for (uint32_t k = 0; k < g->count; k++)
        if (strcmp(g->items[k].name, name) == 0) {
            MUST(g->items[k].elements == elements, "%s: another size", name);
            return g->items[k].data;
        }
    MUST(false, "no %s", name);
    return NULL;
}

static float distance(const float *a, const float *b, uint64_t count)
{
    float most = 0;
    for (uint64_t i = 0; i < count; i++)
        most = fmaxf(most, fabsf(a[i] - b[i]));
    return most;
}

static float largest(const float *a, uint64_t count)
{
    float most = 0;
    for (uint64_t i = 0; i < count; i++)
        most = fmaxf(most, fabsf(a[i]));
    return most;
}

static struct ranks_result run_one(remat_context *ctx, struct remat_arena *arena,
                                   const struct model *model, uint32_t dp, uint32_t tp,
                                   uint32_t microbatches, struct gradients *out)
{
    const struct remat_policy_settings none = {0};
    const struct ranks_settings settings = {.steps = 1, .keep = keep, .keep_user = out};
    struct ranks_result results[RANKS_MAX];
    struct remat_program *program;
    struct remat_graph *graph = make(ctx, arena, model, dp, tp, microbatches);
    MUST_OK(ctx, harness_compile(ctx, arena, graph, &none, 0, &program));
    ranks_run(ctx, program, &settings, results);
    for (uint32_t r = 0; r < dp * tp; r++)
        CHECK(results[r].status == REMAT_OK && results[r].loss[0] == results[0].loss[0] &&
                  results[r].gradients[0] == results[0].gradients[0] &&
                  results[r].states == results[0].states,
              "%s dp=%u tp=%u: rank %u differs: %s", model->preset, dp, tp, r, results[r].message);
    return results[0];
}

/* How far gradients of one rank are apart where attention's sums are taken in another order tells
 * how far those in yet another order may be: four times as far, and 16 roundings of the largest
 * element. A key's bias, whose gradient is 0 but for rounding, has no other scale. */
static void test_against_one(remat_context *ctx, const struct model *model, uint32_t dp,
                             uint32_t tp, uint32_t microbatches)
{
    struct gradients one = {0}, other = {0}, divided = {0};
    struct model in_other_order = *model;
    struct remat_arena arena;
    in_other_order.written_out = !model->written_out;
    remat_arena_init(&arena, ctx);
    struct ranks_result a = run_one(ctx, &arena, model, 1, 1, 1, &one);
    (void)run_one(ctx, &arena, &in_other_order, 1, 1, 1, &other);
    struct ranks_result b = run_one(ctx, &arena, model, dp, tp, microbatches, &divided);
    CHECK(fabsf(a.loss[0] - b.loss[0]) <= 8 * FLT_EPSILON * a.loss[0] &&
              fabsf(a.evaluated - b.evaluated) <= 1e-3f * a.evaluated,
          "%s dp=%u tp=%u: loss %.9g, of one rank %.9g; then %.9g and %.9g", model->preset, dp, tp,
          (double)b.loss[0], (double)a.loss[0], (double)b.evaluated, (double)a.evaluated);
    CHECK(one.count > 4 && one.count == divided.count, "%u and %u gradients", one.count,
          divided.count);
    for (uint32_t k = 0; k < one.count; k++) {
        const char *name = one.items[k].name;
        uint64_t elements = one.items[k].elements;
        const float *g = one.items[k].data;
        float noise = distance(g, find(&other, name, elements), elements);
        float limit = 4 * noise + 16 * FLT_EPSILON * largest(g, elements);
        float apart = distance(g, find(&divided, name, elements), elements);
        CHECK(apart <= limit, "%s dp=%u tp=%u: %s is %g apart, limit %g", model->preset, dp, tp,
              name, (double)apart, (double)limit);
    }
    release(&one);
    release(&other);
    release(&divided);
    remat_arena_release(&arena);
}

/* --- every plan of a mesh --- */

static bool is_chosen(const struct plan_request *request, uint32_t *budgets)
{
    static const char *const names[] = {"none", "uniform 1", "block 1", "selective core_attn"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (strcmp(request->name, names[k]) == 0)
            return true;
    return request->budget_bytes && ++*budgets % 4 == 1;
}

static void test_plans(remat_context *ctx, const struct model *model, uint32_t dp, uint32_t tp)
{
    const struct ranks_settings settings = {.steps = 2, .paint = true};
    struct ranks_result first = {0}, results[RANKS_MAX];
    struct plan_request requests[PLAN_REQUESTS_MAX];
    struct remat_arena arena;
    uint32_t compared = 0, budgets = 0, recomputing = 0;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = make(ctx, &arena, model, dp, tp, 1);
    uint32_t count = plan_requests(ctx, &arena, graph, requests);
    for (uint32_t k = 0; k < count; k++) {
        if (!is_chosen(&requests[k], &budgets))
            continue;
        struct remat_program *program = plan_compile(ctx, &arena, graph, &requests[k]);
        ranks_run(ctx, program, &settings, results);
        first = compared++ == 0 ? results[0] : first;
        recomputing += remat_program_recomputed(program) > 0;
        for (uint32_t r = 0; r < dp * tp; r++)
            CHECK(ranks_equal(&first, &results[r], 2) &&
                      results[r].touched_bytes == program->touched_bytes,
                  "%s: %s: rank %u has other bits, or touched %llu bytes of %llu; %s",
                  model->preset, requests[k].name, r, (unsigned long long)results[r].touched_bytes,
                  (unsigned long long)program->touched_bytes, results[r].message);
    }
    CHECK(compared == 7 && recomputing >= 4, "%u plans, %u recompute", compared, recomputing);
    remat_arena_release(&arena);
}

/* --- planted faults --- */

/* Of four parts the first and the third swapped: sums of them have another order. */
static void swap_parts(void *user, const remat_transfer *t, bool exchange, uint32_t rank)
{
    (void)user, (void)exchange, (void)rank;
    char *to = t->to, byte;
    for (uint64_t i = 0; i < t->part_bytes; i++) {
        byte = to[i];
        to[i] = to[2 * t->part_bytes + i];
        to[2 * t->part_bytes + i] = byte;
    }
}

static void test_faults(remat_context *ctx)
{
    const struct model model = {"gpt2-tiny", 4, 0, 260, 8, false, 0.1, 0, REMAT_F32};
    const struct ranks_tap swapped = {swap_parts, NULL};
    const struct remat_policy_settings none = {0};
    struct ranks_result good[RANKS_MAX], bad[RANKS_MAX];
    struct remat_arena arena;
    struct remat_program *program;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = make(ctx, &arena, &model, 1, 4, 1);
    MUST_OK(ctx, harness_compile(ctx, &arena, graph, &none, 0, &program));
    ranks_run(ctx, program, &(struct ranks_settings){.steps = 1}, good);
    ranks_run(ctx, program, &(struct ranks_settings){.steps = 1, .tap = &swapped}, bad);
    CHECK(good[0].status == REMAT_OK && !ranks_equal(&good[0], &bad[0], 1),
          "not noticed: parts in another order");
    remat_arena_release(&arena);
}

/* --- refusals --- */

static void refuse(remat_context *ctx, const struct model *model, uint32_t dp, uint32_t tp,
                   remat_status status, const char *message)
{
    const struct remat_policy_settings none = {0};
    struct remat_arena arena;
    struct remat_program *program;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = make(ctx, &arena, model, dp, tp, 1);
    CHECK_STATUS(ctx, harness_compile(ctx, &arena, graph, &none, 0, &program), status, message);
    remat_arena_release(&arena);
}

static void test_refusals(remat_context *ctx)
{
    const struct model heads = {"gpt2-tiny", 3, 0, 260, 8, false, 0, 0, REMAT_F32};
    const struct model keys = {"llama-tiny", 4, 2, 260, 8, false, 0, 0, REMAT_F32};
    const struct model five = {"gpt2-tiny", 4, 0, 260, 8, false, 0, 0, REMAT_F32};
    refuse(ctx, &heads, 1, 2, REMAT_ERROR_USAGE,
           "value \"h.0.attn.q\": dimension 2, of 3, is not divisible by 2 ranks along tp");
    refuse(ctx, &keys, 1, 4, REMAT_ERROR_USAGE,
           "value \"model.layers.0.attn.k.heads\": dimension 2, of 2, is not divisible by 4 ranks "
           "along tp");
    refuse(ctx, &five, 1, 5, REMAT_ERROR_USAGE, "is not divisible by 5 ranks along tp");
}

/* --- */

int main(int argc, char **argv)
{
    static const struct model models[] = {
        {"gpt2-tiny", 4, 0, 260, 8, false, 0.1, 0, REMAT_F32},
        {"llama-tiny", 4, 2, 260, 8, false, 0.1, 0, REMAT_F32},
        {"bert-tiny", 4, 0, 260, 8, false, 0.1, 0.5, REMAT_F32},
        {"encdec-tiny", 4, 0, 259, 8, false, 0.1, 0, REMAT_F32},
        {"llama-tiny", 8, 4, 259, 8, true, 0.1, 0, REMAT_F32},
    };
    /* Unfinished sums of more than 64 KiB are exchanged. */
    static const struct model longer = {"gpt2-tiny", 4, 0, 260, 96, false, 0.1, 0, REMAT_F32};
    bool small = argc > 1 && strcmp(argv[1], "small") == 0;
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    for (uint32_t m = 0; m < (small ? 1 : 5); m++) {
        test_against_one(ctx, &models[m], 1, 2, 1);
        if (small)
            continue;
        test_against_one(ctx, &models[m], 2, 2, 1);
        if (models[m].kv_heads != 2)
            test_against_one(ctx, &models[m], 1, 4, 1);
    }
    if (!small) {
        test_against_one(ctx, &longer, 1, 4, 1);
        test_against_one(ctx, &models[0], 1, 2, 2);
        test_against_one(ctx, &models[2], 2, 2, 2);
        test_plans(ctx, &models[0], 1, 2);
        test_plans(ctx, &models[1], 2, 2);
        test_faults(ctx);
        test_refusals(ctx);
    }
    remat_context_destroy(&ctx);
    return check_exit();
}
