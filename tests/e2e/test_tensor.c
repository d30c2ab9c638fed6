/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor and sequence parallel in one process: loss and gradients are those of one rank as far as
 * sums in another order allow, dropout masks equal; all plans of a mesh have the same bits; planned
 * memory is used memory; what a transfer brings, and which ids are a rank's, matters. With ZeRO all
 * that is trained has the bits of the same mesh without. e2e-tensor [small | sequence | zero [all]]
 */
#include "passes.h"
#include "ranks.h"

#include <float.h>
#include <math.h>

struct model {
    const char *preset;
    uint32_t heads, kv_heads, vocab, seq;
    bool written_out;
    double dropout, clip_norm;
    remat_dtype dtype;
    bool sequence; /* parallel */
    bool stated;   /* of GPT-2: layouts that no rule finds */
};

static const struct model models[] = {
    {"gpt2-tiny", 4, 0, 259, 8, false, 0.1, 0, REMAT_F32, false, false},
    {"llama-tiny", 4, 2, 260, 8, false, 0.1, 0, REMAT_F32, false, false},
    {"bert-tiny", 4, 0, 259, 8, false, 0.1, 0.5, REMAT_F32, false, false},
    {"encdec-tiny", 4, 0, 259, 8, false, 0.1, 0, REMAT_F32, false, false},
    {"llama-tiny", 8, 4, 259, 8, true, 0.1, 0, REMAT_F32, false, false},
};
/* Unfinished sums of more than 64 KiB are exchanged. */
static const struct model longer = {"gpt2-tiny", 4, 0,         260,   96,   false,
                                    0.1,         0, REMAT_F32, false, false};

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
        graph->values[v].stated = rows[k].layout;
    }
}

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
    graph->sequence_parallel = model->sequence && tp > 1;
    if (model->stated && tp > 1)
        state_layouts(graph);
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
static void keep(void *user, const char *name, remat_element element, const void *data,
                 uint64_t bytes)
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

static void release(struct gradients *g)
{
    for (uint32_t k = 0; k < g->count; k++)
        free(g->items[k].data);
}

/* The gradient of that name; elements of padding, behind `elements`, must be 0. */
static const float *find(const struct gradients *g, const char *name, uint64_t elements)
{
    uint32_t k = 0;
    while (k < g->count && strcmp(g->items[k].name, name) != 0)
        k++;
    MUST(k < g->count && g->items[k].elements >= elements, "%s: none, or too small", name);
    for (uint64_t i = elements; i < g->items[k].elements; i++)
        CHECK(g->items[k].data[i] == 0, "%s: padding %llu", name, (unsigned long long)i);
    return g->items[k].data;
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
                                   uint32_t microbatches, const struct ranks_tap *tap,
                                   struct gradients *out)
{
    const struct remat_policy_settings none = {0};
    const struct ranks_settings settings = {.steps = 1, .keep = keep, .keep_user = out, .tap = tap};
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
static uint32_t count_apart(const struct model *model, const struct gradients *one,
                            const struct gradients *other, const struct gradients *divided,
                            const char **first)
{
    float rounding = model->dtype == REMAT_BF16 ? 0x1p-8f : FLT_EPSILON;
    uint32_t count = 0;
    for (uint32_t k = 0; k < one->count; k++) {
        const char *name = one->items[k].name;
        uint64_t elements = one->items[k].elements;
        const float *g = one->items[k].data;
        float noise = distance(g, find(other, name, elements), elements);
        float apart = distance(g, find(divided, name, elements), elements);
        if (!(apart <= 4 * noise + 16 * rounding * largest(g, elements)) && count++ == 0)
            *first = name;
    }
    return count;
}

/* A logit is below 1/2 here: in bf16 its rounding is at most 2^-10, which changes a token's loss by
 * at most 2^-9. */
static void test_against_one(remat_context *ctx, const struct model *model, uint32_t dp,
                             uint32_t tp, uint32_t microbatches)
{
    struct gradients one = {0}, other = {0}, divided = {0};
    struct model in_other_order = *model;
    struct remat_arena arena;
    const char *first = "none";
    in_other_order.written_out = !model->written_out;
    remat_arena_init(&arena, ctx);
    struct ranks_result a = run_one(ctx, &arena, model, 1, 1, 1, NULL, &one);
    (void)run_one(ctx, &arena, &in_other_order, 1, 1, 1, NULL, &other);
    struct ranks_result b = run_one(ctx, &arena, model, dp, tp, microbatches, NULL, &divided);
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
    release(&one);
    release(&other);
    release(&divided);
    remat_arena_release(&arena);
}

/* --- a graph with its backward pass --- */

/* As autodiff made it, and of primitive ops: the bits of the graph without. No dropout, which an
 * evaluation cannot take out of primitive ops. */
static void test_joint(remat_context *ctx, const struct model *model, uint32_t tp)
{
    const struct remat_policy_settings none = {0};
    struct ranks_result results[3][RANKS_MAX];
    struct remat_arena arena;
    struct remat_program *program;
    remat_arena_init(&arena, ctx);
    struct model plain = *model;
    plain.dropout = 0;
    struct remat_graph *graph = make(ctx, &arena, &plain, 1, tp, 1);
    for (uint32_t form = 0; form < 3; form++) {
        const struct remat_mesh mesh = graph->mesh;
        if (form > 0)
            MUST_OK(ctx,
                    (form == 1 ? remat_pass_autodiff : remat_pass_expand)(&arena, graph, &graph));
        graph->mesh = mesh;
        MUST_OK(ctx, harness_compile(ctx, &arena, graph, &none, 0, &program));
        ranks_run(ctx, program, &(struct ranks_settings){.steps = 2}, results[form]);
        CHECK(ranks_equal(&results[0][0], &results[form][tp - 1], 2), "%s: form %u: %s",
              model->preset, form, results[form][tp - 1].message);
    }
    remat_arena_release(&arena);
}

/* --- every plan of a mesh --- */

static void test_plans(remat_context *ctx, const struct model *model, uint32_t dp, uint32_t tp)
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    ranks_check_graph(ctx, &arena, make(ctx, &arena, model, dp, tp, 1), NULL);
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

static void test_faults(remat_context *ctx, bool sequence)
{
    const struct model model = {"gpt2-tiny", 4, 0,         260,      8,    false,
                                0.1,         0, REMAT_F32, sequence, false};
    const struct ranks_tap swapped = {swap_parts, NULL}, repeated = {repeat_part, NULL};
    struct gradients one = {0}, good = {0}, bad = {0}, worse = {0};
    struct remat_arena arena;
    const char *first;
    remat_arena_init(&arena, ctx);
    (void)run_one(ctx, &arena, &model, 1, 1, 1, NULL, &one);
    struct ranks_result right = run_one(ctx, &arena, &model, 1, 4, 1, NULL, &good);
    struct ranks_result wrong = run_one(ctx, &arena, &model, 1, 4, 1, &swapped, &bad);
    CHECK(!ranks_equal(&right, &wrong, 1), "not noticed: parts in another order");
    (void)run_one(ctx, &arena, &model, 1, 4, 1, &repeated, &worse);
    CHECK(count_apart(&model, &one, &one, &worse, &first) > one.count / 2,
          "not noticed: a part twice");
    release(&one);
    release(&good);
    release(&bad);
    release(&worse);
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
    const struct model heads = {"gpt2-tiny", 3, 0, 260, 8, false, 0, 0, REMAT_F32, false, false};
    const struct model keys = {"llama-tiny", 4, 2, 260, 8, false, 0, 0, REMAT_F32, false, false};
    const struct model five = {"gpt2-tiny", 4, 0, 260, 8, false, 0, 0, REMAT_F32, false, false};
    refuse(ctx, &heads, 1, 2, REMAT_ERROR_INVALID,
           "value \"h.0.attn.q\": dimension 2, of 3, is not divisible by 2 ranks along tp");
    refuse(ctx, &keys, 1, 4, REMAT_ERROR_INVALID,
           "value \"model.layers.0.attn.k.heads\": dimension 2, of 2, is not divisible by 4 ranks "
           "along tp");
    refuse(ctx, &five, 1, 5, REMAT_ERROR_INVALID,
           "of 144 in blocks of 48, is not divisible by 5 ranks along tp");
}

/* Nobody pads a vocabulary in a backward pass. */
static void test_joint_refusal(remat_context *ctx)
{
    const struct remat_policy_settings none = {0};
    const struct model odd = {"gpt2-tiny", 4, 0, 259, 8, false, 0, 0, REMAT_F32, false, false};
    struct remat_arena arena;
    struct remat_program *program;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = make(ctx, &arena, &odd, 1, 2, 1);
    const struct remat_mesh mesh = graph->mesh;
    MUST_OK(ctx, remat_pass_autodiff(&arena, graph, &graph));
    graph->mesh = mesh;
    CHECK_STATUS(ctx, harness_compile(ctx, &arena, graph, &none, 0, &program), REMAT_ERROR_INVALID,
                 "value \"wte.weight\": dimension 0, of 259, is not divisible by 2 ranks along tp: "
                 "remat-graph --make-vocab-size-divisible-by pads it");
    remat_arena_release(&arena);
}

/* --- sequence parallel --- */

static bool is_weight_within_layers(const char *name)
{
    return strstr(name, ".weight.grad") && (strstr(name, ".attn.c_") || strstr(name, ".mlp.c_"));
}

/* Sums are the same, whether they are gathered at once or later, so the loss and gradients of what
 * ranks divide have the bits that they have without; those of norms add tokens in another order. */
static void test_same_sums(remat_context *ctx, const struct model *model, uint32_t tp)
{
    struct gradients with = {0}, without = {0};
    struct model plain = *model;
    struct remat_arena arena;
    uint32_t equal = 0, different = 0;
    plain.sequence = false;
    remat_arena_init(&arena, ctx);
    struct ranks_result a = run_one(ctx, &arena, model, 1, tp, 1, NULL, &with);
    struct ranks_result b = run_one(ctx, &arena, &plain, 1, tp, 1, NULL, &without);
    CHECK(a.loss[0] == b.loss[0], "tp=%u: loss %.9g, without %.9g", tp, (double)a.loss[0],
          (double)b.loss[0]);
    CHECK(a.sent_bytes != b.sent_bytes, "tp=%u: the same transfers", tp);
    for (uint32_t k = 0; k < with.count; k++) {
        const char *name = with.items[k].name;
        uint64_t elements = with.items[k].elements;
        bool same = distance(with.items[k].data, find(&without, name, elements), elements) == 0;
        CHECK(same || !is_weight_within_layers(name), "tp=%u: %s", tp, name);
        *(same ? &equal : &different) += 1;
    }
    CHECK(equal >= 8 && different > 0, "%u gradients are equal, %u are not", equal, different);
    release(&with);
    release(&without);
    remat_arena_release(&arena);
}

static void test_sequence_refusals(remat_context *ctx)
{
    const struct remat_policy_settings none = {0};
    const struct model odd = {"gpt2-tiny", 4, 0, 260, 7, false, 0, 0, REMAT_F32, true, false};
    struct remat_arena arena;
    struct remat_program *program;
    refuse(ctx, &odd, 4, 2, REMAT_ERROR_INVALID,
           "value \"tokens\": dimensions 0 and 1, of 1 and 7, are a number of tokens that is not "
           "divisible by 2 ranks along tp, as --sequence-parallel needs it");
    remat_arena_init(&arena, ctx);
    struct remat_graph *unmarked = make(ctx, &arena, &odd, 4, 2, 1);
    for (uint32_t v = 0; v < unmarked->value_count; v++)
        unmarked->values[v].batched = false;
    unmarked->mesh = (struct remat_mesh){1, {{"tp", 2}}};
    CHECK_STATUS(
        ctx, harness_compile(ctx, &arena, unmarked, &none, 0, &program), REMAT_ERROR_INVALID,
        "--sequence-parallel: no sum over the 2 ranks along tp has a number of tokens that "
        "they divide");
    struct remat_graph *graph = make(ctx, &arena, &odd, 2, 1, 1);
    graph->sequence_parallel = true;
    CHECK_STATUS(ctx, harness_compile(ctx, &arena, graph, &none, 0, &program), REMAT_ERROR_USAGE,
                 "--sequence-parallel divides tokens among ranks: it needs --mesh tp=N, N from 2");
    remat_arena_release(&arena);
}

/* Four ranks have halves of two sequences, two have whole ones. */
static void test_sequence(remat_context *ctx)
{
    struct model model, wide = longer;
    wide.sequence = true;
    for (uint32_t m = 0; m < 10; m++) {
        model = models[m % 5];
        model.sequence = true;
        model.dtype = m < 5 ? REMAT_F32 : REMAT_BF16;
        test_against_one(ctx, &model, 2, 2, 1);
        test_against_one(ctx, &model, 1, model.kv_heads == 2 ? 2 : 4, 2);
    }
    model = models[0];
    model.sequence = true;
    test_same_sums(ctx, &model, 2);
    model.stated = true;
    test_against_one(ctx, &model, 1, 2, 1);
    test_same_sums(ctx, &wide, 4);
    test_plans(ctx, &wide, 1, 2);
    test_joint(ctx, &wide, 4);
    model = models[1];
    model.sequence = true;
    test_joint(ctx, &model, 2);
    test_faults(ctx, true);
    test_sequence_refusals(ctx);
}

/* --- ZeRO --- */

enum { STEPS = 3 };

/* Everything is saved, with 1 nothing within layers, and with 3 no gathered parameter. */
static struct remat_program *compile_zero(remat_context *ctx, struct remat_arena *arena,
                                          struct remat_graph *graph, uint32_t zero)
{
    static const char *const gathered[] = {"*.gathered"};
    const struct remat_policy_settings policy = {
        .ac_mode = zero == 1 ? "full" : NULL, .recompute_count = zero == 3, .recompute = gathered};
    struct remat_program *program;
    graph->zero = zero;
    MUST_OK(ctx, harness_compile(ctx, arena, graph, &policy, 0, &program));
    return program;
}

static const struct remat_program_value *find_tensor(const struct remat_program *program,
                                                     const char *name)
{
    uint32_t t = 0;
    while (t < program->tensor_count && strcmp(program->tensors[t].name, name) != 0)
        t++;
    MUST(t < program->tensor_count, "%s", name);
    return &program->values[program->tensors[t].value];
}

/* Ranks along "dp" keep equal parts of states, and with 3 of parameters, and the rest as it was. */
static void check_kept(const struct model *model, const struct remat_program *whole,
                       const struct remat_program *divided, uint32_t dp, uint32_t zero)
{
    uint32_t count = 0, twice = 0;
    CHECK(whole->tensor_count == divided->tensor_count, "%s: other tensors", model->preset);
    for (uint32_t t = 0; t < whole->tensor_count; t++) {
        const struct remat_program_value *a = &whole->values[whole->tensors[t].value];
        const struct remat_program_value *b = find_tensor(divided, whole->tensors[t].name);
        uint64_t elements = a->bytes / remat_dtype_bytes((remat_dtype)a->dtype);
        bool divides = elements % dp == 0 && (a->role == REMAT_ROLE_OPTIMIZER_STATE ||
                                              (zero == 3 && a->role == REMAT_ROLE_PARAMETER));
        CHECK(b->bytes * (divides ? dp : 1) == a->bytes,
              "%s zero %u: \"%s\" has %llu bytes of %llu", model->preset, zero, a->name,
              (unsigned long long)b->bytes, (unsigned long long)a->bytes);
        count += divides;
        twice += divides && a->whole_rank;
    }
    CHECK(count > twice && twice > 4, "%s zero %u: %u in parts, %u twice", model->preset, zero,
          count, twice);
}

static void test_zero(remat_context *ctx, const struct model *model, uint32_t dp, uint32_t tp,
                      uint32_t microbatches)
{
    const struct ranks_settings settings = {.steps = STEPS, .paint = true};
    struct ranks_result whole[RANKS_MAX], parts[RANKS_MAX];
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = make(ctx, &arena, model, dp, tp, microbatches);
    const struct remat_program *zero0 = compile_zero(ctx, &arena, graph, 0);
    ranks_run(ctx, (struct remat_program *)zero0, &settings, whole);
    for (uint32_t zero = 1; zero <= 3; zero += 2) {
        struct remat_program *program = compile_zero(ctx, &arena, graph, zero);
        ranks_run(ctx, program, &settings, parts);
        for (uint32_t r = 0; r < dp * tp; r++)
            CHECK(ranks_equal(&whole[0], &parts[r], STEPS) &&
                      parts[r].touched_bytes == program->touched_bytes,
                  "%s dp=%u tp=%u zero %u: rank %u: %s", model->preset, dp, tp, zero, r,
                  parts[r].message);
        CHECK(parts[0].sent_bytes == remat_program_communication(program).sent_bytes,
              "%s zero %u: %llu bytes are sent", model->preset, zero,
              (unsigned long long)parts[0].sent_bytes);
        check_kept(model, zero0, program, dp, zero);
    }
    remat_arena_release(&arena);
}

/* In double, from the gradients: a square goes through at most 300 roundings, 70 (rule 3 of
 * docs/numerics.md, of 4096 elements) for a row, as many over rows, one for each of at most 128
 * gradients, and 7 for each of two gathers; the root halves that, and the factor takes 3 more. */
static double factor_of(const struct gradients *g, double limit)
{
    double squares = 0;
    for (uint32_t k = 0; k < g->count; k++)
        for (uint64_t i = 0; i < g->items[k].elements; i++)
            squares += (double)g->items[k].data[i] * (double)g->items[k].data[i];
    return fmin(1, limit / (sqrt(squares) + 1e-6));
}

static void test_zero_clipping(remat_context *ctx, const struct model *model, uint32_t dp,
                               uint32_t tp)
{
    struct gradients g = {0};
    const struct ranks_settings settings = {.steps = STEPS, .keep = keep, .keep_user = &g},
                                first = {.steps = 1, .keep = keep, .keep_user = &g};
    struct ranks_result whole[RANKS_MAX], parts[RANKS_MAX];
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = make(ctx, &arena, model, dp, tp, 1);
    ranks_run(ctx, compile_zero(ctx, &arena, graph, 0), &settings, whole);
    for (uint32_t zero = 1; zero <= 3; zero += 2) {
        struct remat_program *program = compile_zero(ctx, &arena, graph, zero);
        ranks_run(ctx, program, &first, parts);
        double exact = factor_of(&g, model->clip_norm), factor = (double)parts[0].factor;
        CHECK(factor > 0 && factor < 1 && fabs(factor - exact) <= 153 * 0x1p-24 * exact,
              "%s zero %u: factor %.9g, exactly %.9g", model->preset, zero, factor, exact);
        ranks_run(ctx, program, &settings, parts);
        CHECK(whole[0].loss[0] == parts[0].loss[0] &&
                  whole[0].gradients[0] == parts[0].gradients[0],
              "%s zero %u: the first step is another", model->preset, zero);
        for (uint32_t r = 0; r < dp * tp; r++)
            CHECK(parts[r].factor == parts[0].factor && ranks_equal(&parts[0], &parts[r], STEPS),
                  "%s zero %u: rank %u", model->preset, zero, r);
    }
    release(&g);
    remat_arena_release(&arena);
}

/* Every state that is drawn, as on the first rank along "dp". */
static void forget_blocks(struct remat_program *program)
{
    for (uint32_t c = 0; c < program->command_count; c++) {
        struct remat_command *command = &program->commands[c];
        if (program->kernels[command->kernel].kind == REMAT_KERNEL_fill_normal_part &&
            command->operand_end - command->operand_begin == 3)
            command->operand_end--;
    }
}

/* Of an updated parameter, which two ranks gather. */
static void swap_halves(void *user, const remat_transfer *t, bool exchange, uint32_t rank)
{
    (void)user, (void)rank;
    char *to = t->to, byte;
    for (uint64_t i = 0; i < t->part_bytes && !exchange && strstr(t->name, ".gathered"); i++) {
        byte = to[i];
        to[i] = to[t->part_bytes + i];
        to[t->part_bytes + i] = byte;
    }
}

static void test_zero_faults(remat_context *ctx)
{
    const struct ranks_tap tap = {swap_halves, NULL};
    struct model model = models[0];
    struct ranks_result good[RANKS_MAX], bad[RANKS_MAX];
    struct remat_arena arena;
    model.dtype = REMAT_BF16; /* there are masters */
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = make(ctx, &arena, &model, 2, 2, 1);
    struct remat_program *program = compile_zero(ctx, &arena, graph, 1);
    ranks_run(ctx, program, &(struct ranks_settings){.steps = 2}, good);
    ranks_run(ctx, program, &(struct ranks_settings){.steps = 2, .late = true}, bad);
    CHECK(ranks_equal(&good[0], &bad[0], 2) && bad[0].late_count > 0, "late: %u transfers",
          bad[0].late_count);
    ranks_run(ctx, program, &(struct ranks_settings){.steps = 2, .tap = &tap}, bad);
    CHECK(!ranks_equal(&good[0], &bad[0], 2), "not noticed: blocks in another order");
    forget_blocks(program);
    ranks_run(ctx, program, &(struct ranks_settings){.steps = 2}, bad);
    CHECK(!ranks_equal(&good[0], &bad[0], 2), "not noticed: masters as on the first rank");
    remat_arena_release(&arena);
}

static void test_zero_plans(remat_context *ctx, struct model model, uint32_t zero)
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = make(ctx, &arena, &model, 2, 2, 1);
    graph->zero = zero;
    ranks_check_graph(ctx, &arena, graph, NULL);
    remat_arena_release(&arena);
}

static void test_all_zero(remat_context *ctx, bool all)
{
    for (uint32_t m = 0; m < (all ? 10 : 4); m++) {
        struct model model = models[m % 5];
        model.sequence = m % 3 > 0;
        model.dtype = m % 2 ? REMAT_BF16 : REMAT_F32;
        if (model.clip_norm > 0)
            test_zero_clipping(ctx, &model, 2, 2);
        model.clip_norm = 0;
        test_zero(ctx, &model, 2, 2, 1 + m % 3 / 2);
        if (all && model.kv_heads != 2)
            test_zero(ctx, &model, 2, 4, 1);
    }
    if (all) {
        test_zero_plans(ctx, models[0], 1);
        test_zero_plans(ctx, models[1], 3);
    }
    test_zero_faults(ctx);
}

/* --- */

int main(int argc, char **argv)
{
    bool small = argc > 1 && strcmp(argv[1], "small") == 0;
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    if (argc > 1 && strcmp(argv[1], "sequence") == 0) {
        test_sequence(ctx);
        remat_context_destroy(&ctx);
        return check_exit();
    }
    if (argc > 1 && strcmp(argv[1], "zero") == 0) {
        test_all_zero(ctx, argc > 2);
        remat_context_destroy(&ctx);
        return check_exit();
    }
    for (uint32_t m = 0; m < (small ? 1 : 10); m++) {
        struct model model = models[m % 5];
        model.dtype = m < 5 ? REMAT_F32 : REMAT_BF16;
        test_against_one(ctx, &model, 1, 2, 1);
        if (small)
            continue;
        test_against_one(ctx, &model, 2, 2, 1);
        if (model.kv_heads != 2)
            test_against_one(ctx, &model, 1, 4, 1);
    }
    struct model stated = models[0];
    stated.stated = true;
    test_against_one(ctx, &stated, 1, 2, 1);
    if (!small) {
        test_against_one(ctx, &stated, 2, 2, 1);
        test_against_one(ctx, &longer, 1, 4, 1);
        test_against_one(ctx, &models[0], 1, 2, 2);
        test_against_one(ctx, &models[2], 2, 2, 2);
        test_plans(ctx, &models[0], 1, 2);
        test_plans(ctx, &models[1], 2, 2);
        test_joint(ctx, &models[1], 2);
        test_joint(ctx, &longer, 4);
        test_faults(ctx, false);
        test_refusals(ctx);
        test_joint_refusal(ctx);
    }
    remat_context_destroy(&ctx);
    return check_exit();
}
