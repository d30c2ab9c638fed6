/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor_checks.h"

#include "passes.h"

#include <float.h>
#include <math.h>

const struct tensor_model tensor_models[5] = {
    {"gpt2-tiny", 4, 0, 259, 8, false, 0.1, 0, REMAT_F32, false, false, 4},
    {"llama-tiny", 4, 2, 260, 8, false, 0.1, 0, REMAT_F32, false, false, 4},
    {"bert-tiny", 4, 0, 259, 8, false, 0.1, 0.5, REMAT_F32, false, false, 4},
    {"encdec-tiny", 4, 0, 259, 8, false, 0.1, 0, REMAT_F32, false, false, 4},
    {"llama-tiny", 8, 4, 259, 8, true, 0.1, 0, REMAT_F32, false, false, 4},
};
const struct tensor_model tensor_longer = {"gpt2-tiny", 4, 0,         260,   96,    false,
                                           0.1,         0, REMAT_F32, false, false, 4};

static void state_layouts(const struct remat_graph *graph)
{
    static const struct {
        const char *name;
        struct remat_stated layout;
    } rows[] = {
        {"tokens", {"tp", 1, 0}},
        {"wte.weight", {"tp", 0, 0}},
        {"h.0.ln_1", {"tp", 1, 2}},
        {"h.0.attn.c_attn.weight", {"tp", 0, 0}},
        {"h.0.attn.core", {"tp", 1, 0}},
        {"h.0.mlp.act", {"tp", 0, 0}},
        {"h.1.attn.c_proj.weight", {"tp", 0, 0}},
        {"h.1.attn.residual", {"tp", 0, 0}},
        {"h.1.ln_2", {"tp", 1, 1}},
        {"h.1.mlp.c_fc.weight", {"tp", 1, 0}},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        uint32_t v = 0;
        while (v < graph->value_count && strcmp(graph->values[v].name, rows[k].name) != 0)
            v++;
        MUST(v < graph->value_count);
        graph->values[v].stated = &rows[k].layout;
    }
}

struct remat_graph *tensor_make(remat_context *ctx, struct remat_arena *arena,
                                const struct tensor_model *model, uint32_t dp, uint32_t tp,
                                uint32_t microbatches)
{
    const struct remat_model_settings sizes = {.layers = 2,
                                               .width = 48,
                                               .heads = model->heads,
                                               .kv_heads = model->kv_heads,
                                               .hidden = 40,
                                               .vocab = model->vocab,
                                               .seq = model->seq,
                                               .batch = model->sequences / (dp * microbatches),
                                               .dropout = model->dropout,
                                               .dtype = model->dtype,
                                               .written_out = model->written_out,
                                               .optimizer = {.clip_norm = model->clip_norm}};
    struct remat_graph *graph = harness_model(ctx, arena, model->preset, sizes);
    if (dp > 1)
        graph->mesh.axes[graph->mesh.axis_count++] = (struct remat_mesh_size){"dp", dp};
    if (tp > 1)
        graph->mesh.axes[graph->mesh.axis_count++] = (struct remat_mesh_size){"tp", tp};
    if (model->stated && tp > 1)
        state_layouts(graph);
    return graph;
}

struct remat_pass_settings tensor_passes(const struct tensor_model *model, uint32_t tp,
                                         uint32_t microbatches)
{
    return (struct remat_pass_settings){.microbatches = microbatches,
                                        .sequence_parallel = model->sequence && tp > 1};
}

/* The last version of each, in f32. */
void tensor_keep(void *user, const char *name, remat_element element, const void *data,
                 uint64_t bytes)
{
    struct tensor_gradients *g = user;
    uint32_t k = 0;
    while (k < g->count && strcmp(g->items[k].name, name) != 0)
        k++;
    MUST(k < TENSORS_MAX);
    if (k == g->count)
        g->count++;
    else
        free(g->items[k].data);
    g->items[k].name = name;
    uint64_t elements = bytes / (element == REMAT_ELEMENT_BF16 ? 2 : 4);
    g->items[k].elements = elements;
    g->items[k].data = malloc(elements * sizeof(float));
    MUST(g->items[k].data);
    for (uint64_t i = 0; i < elements; i++) {
        uint32_t bits = element == REMAT_ELEMENT_BF16 ? (uint32_t)((const uint16_t *)data)[i] << 16
                                                      : ((const uint32_t *)data)[i];
        memcpy(&g->items[k].data[i], &bits, sizeof bits);
    }
}

void tensor_release(struct tensor_gradients *g)
{
    for (uint32_t k = 0; k < g->count; k++)
        free(g->items[k].data);
}

/* The gradient of that name; elements of padding, after `elements`, must be 0. */
const float *tensor_find(const struct tensor_gradients *g, const char *name, uint64_t elements)
{
    uint32_t k = 0;
    while (k < g->count && strcmp(g->items[k].name, name) != 0)
        k++;
    MUST(k < g->count && g->items[k].elements >= elements, "%s: none, or too small", name);
    for (uint64_t i = elements; i < g->items[k].elements; i++)
        CHECK(g->items[k].data[i] == 0, "%s: padding %llu", name, (unsigned long long)i);
    return g->items[k].data;
}

float tensor_distance(const float *a, const float *b, uint64_t count)
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

struct ranks_result tensor_run(remat_context *ctx, struct remat_arena *arena,
                               const struct tensor_model *model, uint32_t dp, uint32_t tp,
                               uint32_t microbatches, const struct ranks_tap *tap,
                               struct tensor_gradients *out)
{
    const struct remat_policy_settings none = {0};
    const struct ranks_settings settings = {
        .steps = 1, .keep = tensor_keep, .keep_user = out, .tap = tap};
    struct ranks_result results[RANKS_MAX];
    struct remat_program *program;
    struct remat_graph *graph = tensor_make(ctx, arena, model, dp, tp, microbatches);
    const struct remat_pass_settings passes = tensor_passes(model, tp, microbatches);
    MUST_OK(ctx, harness_compile(ctx, arena, graph, &passes, &none, 0, &program));
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
static uint32_t count_apart(const struct tensor_model *model, const struct tensor_gradients *one,
                            const struct tensor_gradients *other,
                            const struct tensor_gradients *divided, const char **first)
{
    float rounding = model->dtype == REMAT_BF16 ? 0x1p-8f : FLT_EPSILON;
    uint32_t count = 0;
    for (uint32_t k = 0; k < one->count; k++) {
        const char *name = one->items[k].name;
        uint64_t elements = one->items[k].elements;
        const float *g = one->items[k].data;
        float noise = tensor_distance(g, tensor_find(other, name, elements), elements);
        float apart = tensor_distance(g, tensor_find(divided, name, elements), elements);
        if (!(apart <= 4 * noise + 16 * rounding * largest(g, elements)) && count++ == 0)
            *first = name;
    }
    return count;
}

/* A logit is below 1/2 here: in bf16 its rounding is at most 2^-10, which changes a token's loss by
 * at most 2^-9. */
void tensor_check_against_one(remat_context *ctx, const struct tensor_model *model, uint32_t dp,
                              uint32_t tp, uint32_t microbatches)
{
    struct tensor_gradients one = {0}, other = {0}, divided = {0};
    struct tensor_model in_other_order = *model;
    struct remat_arena arena;
    const char *first = "none";
    in_other_order.written_out = !model->written_out;
    remat_arena_init(&arena, ctx);
    struct ranks_result a = tensor_run(ctx, &arena, model, 1, 1, 1, NULL, &one);
    (void)tensor_run(ctx, &arena, &in_other_order, 1, 1, 1, NULL, &other);
    struct ranks_result b = tensor_run(ctx, &arena, model, dp, tp, microbatches, NULL, &divided);
    float limit = model->dtype == REMAT_BF16 ? 0x1p-9f : 8 * FLT_EPSILON * a.loss[0];
    CHECK(fabsf(a.loss[0] - b.loss[0]) <= limit &&
              fabsf(a.evaluated - b.evaluated) <= 1e-3f * a.evaluated,
          "%s dp=%u tp=%u: loss %.9g, of one rank %.9g; then %.9g and %.9g", model->preset, dp, tp,
          (double)b.loss[0], (double)a.loss[0], (double)b.evaluated, (double)a.evaluated);
    CHECK(one.count > 4 && one.count == divided.count, "%u and %u gradients", one.count,
          divided.count);
    uint32_t count = count_apart(model, &one, &other, &divided, &first);
    CHECK(count == 0, "%s dtype %d dp=%u tp=%u: %u gradients are apart, first %s", model->preset,
          (int)model->dtype, dp, tp, count, first);
    tensor_release(&one);
    tensor_release(&other);
    tensor_release(&divided);
    remat_arena_release(&arena);
}

/* --- a graph with its backward pass --- */

/* As autodiff made it, and of primitive ops: the bits of the graph without. No dropout, which an
 * evaluation cannot take out of primitive ops. */
void tensor_check_joint(remat_context *ctx, const struct tensor_model *model, uint32_t tp)
{
    const struct remat_policy_settings none = {0};
    struct ranks_result results[3][RANKS_MAX];
    struct remat_arena arena;
    struct remat_program *program;
    remat_arena_init(&arena, ctx);
    struct tensor_model plain = *model;
    plain.dropout = 0;
    struct remat_graph *graph = tensor_make(ctx, &arena, &plain, 1, tp, 1);
    const struct remat_pass_settings passes = tensor_passes(&plain, tp, 1);
    for (uint32_t form = 0; form < 3; form++) {
        const struct remat_mesh mesh = graph->mesh;
        if (form > 0)
            MUST_OK(ctx, (form == 1 ? remat_pass_autodiff : remat_pass_expand)(&arena, graph,
                                                                               &passes, &graph));
        graph->mesh = mesh;
        MUST_OK(ctx, harness_compile(ctx, &arena, graph, &passes, &none, 0, &program));
        ranks_run(ctx, program, &(struct ranks_settings){.steps = 2}, results[form]);
        CHECK(ranks_equal(&results[0][0], &results[form][tp - 1], 2), "%s: form %u: %s",
              model->preset, form, results[form][tp - 1].message);
    }
    remat_arena_release(&arena);
}

/* --- every plan of a mesh --- */

void tensor_check_plans(remat_context *ctx, const struct tensor_model *model, uint32_t dp,
                        uint32_t tp)
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    const struct remat_pass_settings passes = tensor_passes(model, tp, 1);
    ranks_check_graph(ctx, &arena, tensor_make(ctx, &arena, model, dp, tp, 1), &passes, NULL);
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

/* The last part of the layer's first sum is the first one's. */
static void repeat_part(void *user, const remat_transfer *t, bool exchange, uint32_t rank)
{
    (void)user, (void)exchange, (void)rank;
    if (strncmp(t->name, "h.1.attn.proj", strlen("h.1.attn.proj")) == 0)
        memcpy((char *)t->to + 3 * t->part_bytes, t->to, t->part_bytes);
}

void tensor_check_faults(remat_context *ctx, bool sequence)
{
    const struct tensor_model model = {"gpt2-tiny", 4, 0,         260,      8,     false,
                                       0.1,         0, REMAT_F32, sequence, false, 4};
    const struct ranks_tap swapped = {swap_parts, NULL}, repeated = {repeat_part, NULL};
    struct tensor_gradients one = {0}, good = {0}, bad = {0}, worse = {0};
    struct remat_arena arena;
    const char *first;
    remat_arena_init(&arena, ctx);
    (void)tensor_run(ctx, &arena, &model, 1, 1, 1, NULL, &one);
    struct ranks_result right = tensor_run(ctx, &arena, &model, 1, 4, 1, NULL, &good);
    struct ranks_result wrong = tensor_run(ctx, &arena, &model, 1, 4, 1, &swapped, &bad);
    CHECK(!ranks_equal(&right, &wrong, 1), "not noticed: parts in another order");
    (void)tensor_run(ctx, &arena, &model, 1, 4, 1, &repeated, &worse);
    CHECK(count_apart(&model, &one, &one, &worse, &first) > one.count / 2,
          "not noticed: a part twice");
    tensor_release(&one);
    tensor_release(&good);
    tensor_release(&bad);
    tensor_release(&worse);
    remat_arena_release(&arena);
}

void tensor_refuse(remat_context *ctx, const struct tensor_model *model, uint32_t dp, uint32_t tp,
                   remat_status status, const char *message)
{
    const struct remat_policy_settings none = {0};
    struct remat_arena arena;
    struct remat_program *program;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = tensor_make(ctx, &arena, model, dp, tp, 1);
    const struct remat_pass_settings passes = tensor_passes(model, tp, 1);
    CHECK_STATUS(ctx, harness_compile(ctx, &arena, graph, &passes, &none, 0, &program), status,
                 message);
    remat_arena_release(&arena);
}
