/* SPDX-License-Identifier: Apache-2.0 */
/* A step in N microbatches against the same step at once: in the forward pass every token has the
 * same bits, dropout's masks included, because no row knows of the others; loss and gradients,
 * whose sums run in another order, agree to rounding, and so do parameters after steps with
 * clipping. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "borrowed_plan.h"
#include "graph_text.h"
#include "harness.h"
#include "ops.h"

#define BATCH 4
#define STEPS 2

/* --- what the forward pass computes, by name --- */

struct recorded {
    const char *name;
    char *data;
    uint64_t bytes;
};
struct recording {
    struct recorded *values;
    uint32_t count;
};

static struct recorded *find(struct recording *recording, const char *name)
{
    for (uint32_t i = 0; i < recording->count; i++)
        if (strcmp(recording->values[i].name, name) == 0)
            return &recording->values[i];
    recording->values =
        realloc(recording->values, (recording->count + 1) * sizeof *recording->values);
    recording->values[recording->count] = (struct recorded){.name = name};
    return &recording->values[recording->count++];
}

static int record_forward(void *user, const remat_trace_event *event)
{
    for (uint32_t i = 0; i < event->value_count; i++) {
        const remat_trace_value *v = &event->values[i];
        if (strcmp(event->phase, "forward") != 0 || v->role != REMAT_TENSOR_ACTIVATION)
            continue;
        struct recorded *r = find(user, v->name);
        r->data = realloc(r->data, r->bytes + v->bytes);
        memcpy(r->data + r->bytes, v->data, v->bytes);
        r->bytes += v->bytes;
    }
    return 0;
}

static void release(struct recording *recording)
{
    for (uint32_t i = 0; i < recording->count; i++)
        free(recording->values[i].data);
    free(recording->values);
}

/* --- a run --- */

struct result {
    struct recording forward;
    float loss[STEPS];
    struct recording gradients, parameters; /* of the last step, after it */
};

static int record_all(void *user, const remat_trace_event *event)
{
    struct result *result = user;
    for (uint32_t i = 0; i < event->value_count; i++) {
        const remat_trace_value *v = &event->values[i];
        if (v->role != REMAT_TENSOR_GRADIENT)
            continue;
        struct recorded *r = find(&result->gradients, v->name); /* the last one counts */
        r->data = realloc(r->data, v->bytes);
        memcpy(r->data, v->data, v->bytes);
        r->bytes = v->bytes;
    }
    return record_forward(&result->forward, event);
}

static void check_batch(const remat_plan *plan)
{
    static const char *const names[] = {"tokens", "targets", "source"};
    for (uint32_t n = 0; n < 3; n++) {
        remat_tensor_info info = {.struct_size = sizeof info};
        if (remat_plan_get_tensor(plan, remat_plan_find_tensor(plan, names[n]), &info))
            CHECK(info.shape[0] == BATCH, "\"%s\" has a batch of %lld", names[n],
                  (long long)info.shape[0]);
    }
}

static void read_parameters(remat_context *ctx, remat_session *session, const remat_plan *plan,
                            struct result *result)
{
    for (uint32_t t = 0; t < remat_plan_tensor_count(plan); t++) {
        remat_tensor_info info = {.struct_size = sizeof info};
        remat_plan_get_tensor(plan, t, &info);
        if (info.role != REMAT_TENSOR_PARAMETER)
            continue;
        struct recorded *r = find(&result->parameters, info.name);
        r->bytes = info.bytes;
        r->data = malloc(info.bytes);
        MUST_OK(ctx, remat_session_read(session, info.name, r->data, info.bytes));
    }
}

/* The accumulator holds what the last command that wrote the gradient wrote. */
static void check_accumulators(remat_context *ctx, remat_session *session, const remat_plan *plan,
                               struct result *result, int32_t microbatches)
{
    for (uint32_t g = 0; g < result->gradients.count; g++) {
        struct recorded *r = &result->gradients.values[g];
        char *data = malloc(r->bytes);
        MUST_OK(ctx, remat_session_read(session, r->name, data, r->bytes));
        CHECK(memcmp(data, r->data, r->bytes) == 0, "\"%s\" is not its accumulator", r->name);
        free(data);
    }
    int32_t index = -1;
    MUST_OK(ctx, remat_session_read(session, "microbatch", &index, 4));
    CHECK(index == microbatches - 1, "the update reads no number, and the last was %d", index);
    CHECK(plan->program->entry_count == 3, "entry points");
}

static struct result run(remat_context *ctx, struct remat_program *program, uint32_t microbatches)
{
    struct result result = {0};
    struct remat_plan plan = borrowed_plan(program);
    remat_session *session = harness_open(ctx, &plan, 2);
    check_batch(&plan);
    for (uint32_t step = 0; step < STEPS; step++) {
        harness_write_inputs(ctx, session, &plan, step, 1e-2f);
        remat_session_set_trace(session, step == 0 ? record_all : NULL, &result);
        MUST_OK(ctx, remat_session_run(session, "train"));
        MUST_OK(ctx, remat_session_read(session, "loss", &result.loss[step], 4));
        if (step == 0 && microbatches > 1)
            check_accumulators(ctx, session, &plan, &result, (int32_t)microbatches);
    }
    read_parameters(ctx, session, &plan, &result);
    remat_session_destroy(&session);
    return result;
}

/* --- comparison --- */

static void compare_forward(const char *name, struct result *whole, struct result *parts)
{
    uint32_t compared = 0;
    for (uint32_t i = 0; i < whole->forward.count; i++) {
        const struct recorded *a = &whole->forward.values[i];
        const struct recorded *b = find(&parts->forward, a->name);
        if (a->bytes != b->bytes)
            continue; /* not of the batch: made anew in each microbatch */
        CHECK(memcmp(a->data, b->data, a->bytes) == 0, "%s: \"%s\" has other bits", name, a->name);
        compared++;
    }
    CHECK(compared > 12 && compared + 3 >= whole->forward.count, "%s: %u of %u values compared",
          name, compared, whole->forward.count);
}

static double largest(const struct recorded *r)
{
    double most = 0;
    for (uint64_t i = 0; i < r->bytes / 4; i++)
        most = fmax(most, fabs((double)((const float *)(const void *)r->data)[i]));
    return most;
}

/* Each element within `limit` of the largest of its tensor; those below 1e-3 of the model's largest
 * are held against that: a key's bias has no gradient but rounding. */
static void compare_tensors(const char *name, struct recording *whole, struct recording *parts,
                            double limit)
{
    double most = 0;
    CHECK(whole->count == parts->count && whole->count > 4, "%s: %u and %u tensors", name,
          whole->count, parts->count);
    for (uint32_t t = 0; t < whole->count; t++)
        most = fmax(most, largest(&whole->values[t]));
    for (uint32_t t = 0; t < whole->count; t++) {
        const struct recorded *a = &whole->values[t], *b = find(parts, a->name);
        double allowed = limit * fmax(largest(a), 1e-3 * most), worst = 0;
        CHECK(a->bytes == b->bytes, "%s: \"%s\" has another size", name, a->name);
        for (uint64_t i = 0; i < a->bytes / 4 && a->bytes == b->bytes; i++)
            worst = fmax(worst, fabs((double)((const float *)(const void *)a->data)[i] -
                                     (double)((const float *)(const void *)b->data)[i]));
        CHECK(worst <= allowed, "%s: \"%s\" differs by %g, allowed is %g", name, a->name, worst,
              allowed);
    }
}

static struct remat_program *compile(remat_context *ctx, struct remat_arena *arena,
                                     const char *preset, struct remat_model_settings sizes,
                                     uint32_t microbatches)
{
    const struct remat_policy_settings none = {0};
    struct remat_program *program;
    sizes.batch = BATCH / microbatches;
    struct remat_graph *graph = harness_model(ctx, arena, preset, sizes);
    const struct remat_pass_settings passes = {.microbatches = microbatches};
    MUST_OK(ctx, harness_compile(ctx, arena, graph, &passes, &none, 0, &program));
    return program;
}

/* Bytes a parameter that live through the whole step, as Megatron counts them. */
static void check_static(const char *name, const struct remat_program *program, uint64_t expected)
{
    uint64_t parameters = 0, bytes = 0;
    for (uint32_t t = 0; t < program->tensor_count; t++) {
        const struct remat_program_value *v = &program->values[program->tensors[t].value];
        if (v->role == REMAT_ROLE_PARAMETER)
            parameters += v->bytes / remat_dtype_bytes((remat_dtype)v->dtype);
        if (v->role == REMAT_ROLE_PARAMETER || v->role == REMAT_ROLE_GRADIENT ||
            (v->role == REMAT_ROLE_OPTIMIZER_STATE && v->dtype == REMAT_F32))
            bytes += v->bytes;
    }
    CHECK(bytes == expected * parameters, "%s: %llu static bytes of %llu parameters", name,
          (unsigned long long)bytes, (unsigned long long)parameters);
}

/* In f32 only the order of sums differs: 4 entries of 21 tokens give sums of 84 rounded terms. In
 * bf16 each microbatch's gradient is rounded to 8 bits before it is added. */
static void test_model(remat_context *ctx, const char *preset, struct remat_model_settings sizes)
{
    struct remat_arena arena;
    bool narrow = sizes.dtype == REMAT_BF16, clips = sizes.optimizer.clip_norm > 0;
    remat_arena_init(&arena, ctx);
    struct remat_program *whole = compile(ctx, &arena, preset, sizes, 1);
    struct result once = run(ctx, whole, 1);
    for (uint32_t microbatches = 2; microbatches <= 4; microbatches *= 2) {
        char name[80];
        snprintf(name, sizeof name, "%s in %u", preset, microbatches);
        struct remat_program *program = compile(ctx, &arena, preset, sizes, microbatches);
        struct result parts = run(ctx, program, microbatches);
        CHECK(program->numerics_hash != whole->numerics_hash, "%s: numerics_hash", name);
        compare_forward(name, &once, &parts);
        if (!clips) /* which is SGD here */
            check_static(name, program, narrow ? 2 + 12 + 4 : 4 + 8 + 4);
        CHECK(fabsf(parts.loss[0] - once.loss[0]) <= 2e-6f * once.loss[0],
              "%s: loss %.9g, at once %.9g", name, (double)parts.loss[0], (double)once.loss[0]);
        if (!narrow)
            compare_tensors(name, &once.gradients, &parts.gradients, 1e-5);
        if (!narrow && clips) /* SGD: AdamW makes steps of noise */
            compare_tensors(name, &once.parameters, &parts.parameters, 1e-5);
        release(&parts.forward);
        release(&parts.gradients);
        release(&parts.parameters);
    }
    release(&once.forward);
    release(&once.gradients);
    release(&once.parameters);
    remat_arena_release(&arena);
}

/* A step that was broken off leaves the number of a microbatch there, and a host may write any;
 * the next step begins anew. */
static int stop_late(void *user, const remat_trace_event *event)
{
    uint32_t *microbatches_seen = user;
    return strncmp(event->name, "loss.mean", 9) == 0 && ++*microbatches_seen == 3;
}

static void test_interrupted(remat_context *ctx)
{
    struct remat_arena arena;
    uint32_t seen = 0;
    int32_t number = -1;
    float loss[2];
    remat_arena_init(&arena, ctx);
    struct remat_program *program =
        compile(ctx, &arena, "gpt2-tiny", (struct remat_model_settings){.layers = 1, .seq = 8}, 4);
    struct remat_plan plan = borrowed_plan(program);
    remat_session *session = harness_open(ctx, &plan, 1);
    harness_write_inputs(ctx, session, &plan, 0, 1e-2f);
    MUST_OK(ctx, remat_session_run(session, "eval"));
    MUST_OK(ctx, remat_session_read(session, "loss", &loss[0], 4));
    remat_session_set_trace(session, stop_late, &seen);
    CHECK_STATUS(ctx, remat_session_run(session, "train"), REMAT_ERROR_OTHER, "",
                 "not interrupted");
    MUST_OK(ctx, remat_session_read(session, "microbatch", &number, 4));
    CHECK(number == 2, "interrupted in microbatch %d", number);
    number = 4;
    MUST_OK(ctx, remat_session_write(session, "microbatch", &number, 4));
    remat_session_set_trace(session, NULL, NULL);
    MUST_OK(ctx, remat_session_run(session, "train"));
    MUST_OK(ctx, remat_session_read(session, "loss", &loss[1], 4));
    CHECK(loss[0] == loss[1], "loss %.9g, after an interruption %.9g", (double)loss[0],
          (double)loss[1]);
    remat_session_destroy(&session);
    remat_arena_release(&arena);
}

/* A sum of shape [1, 1]; with one sequence a microbatch. */
static const char row_text[] = "graph \"row\"\n"
                               "symbol batch = 1\n"
                               "input %x : f32[batch,3]\n"
                               "parameter %w : f32[3,2] = constant(0.5)\n"
                               "%y : f32[batch,2] = linear %x %w phase forward\n"
                               "%rows : f32[batch,1] = row_sum %y phase loss\n"
                               "%row : f32[1,batch] = transpose %rows { permutation = [1, 0] } "
                               "phase loss\n"
                               "%loss : f32[1,1] = row_sum %row phase loss\n"
                               "output %loss\n";

static void test_row(remat_context *ctx)
{
    static const float x[2][3] = {{1, 2, 3}, {5, 8, 13}};
    struct remat_arena arena;
    struct remat_graph *symbolic, *graph;
    struct remat_program *program;
    struct remat_policy_settings none = {0};
    float loss = 0, gradient[3][2];
    remat_arena_init(&arena, ctx);
    MUST_OK(ctx, remat_graph_parse(ctx, "row", row_text, strlen(row_text), &arena, &symbolic));
    MUST_OK(ctx, remat_graph_bind(ctx, &arena, symbolic, &graph));
    const struct remat_pass_settings passes = {.microbatches = 2};
    MUST_OK(ctx, harness_compile(ctx, &arena, graph, &passes, &none, 0, &program));
    struct remat_plan plan = borrowed_plan(program);
    remat_session *session = harness_open(ctx, &plan, 1);
    MUST_OK(ctx, remat_session_write(session, "x", x, sizeof x));
    MUST_OK(ctx, remat_session_run(session, "train"));
    MUST_OK(ctx, remat_session_read(session, "loss", &loss, sizeof loss));
    MUST_OK(ctx, remat_session_read(session, "w.grad", gradient, sizeof gradient));
    CHECK(loss == 32, "the sum is %g", (double)loss); /* 6 + 26, all halves twice */
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t j = 0; j < 2; j++)
            CHECK(gradient[i][j] == x[0][i] + x[1][i], "gradient %u, %u: %g", i, j,
                  (double)gradient[i][j]);
    remat_session_destroy(&session);
    remat_arena_release(&arena);
}

#define SMALL                                                                                      \
    .layers = 2, .width = 36, .heads = 3, .vocab = 257, .context = 24, .seq = 21, .dropout = 0.1

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    test_model(ctx, "gpt2-tiny", (struct remat_model_settings){SMALL});
    test_model(ctx, "gpt2-tiny",
               (struct remat_model_settings){
                   SMALL, .written_out = true,
                   .optimizer = {.kind = REMAT_OPTIMIZER_SGD, .clip_norm = 0.1}});
    test_model(ctx, "llama-tiny",
               (struct remat_model_settings){SMALL, .kv_heads = 3, .hidden = 100});
    test_model(ctx, "bert-tiny", (struct remat_model_settings){SMALL, .dtype = REMAT_BF16});
    test_model(ctx, "encdec-tiny", (struct remat_model_settings){SMALL, .source_seq = 17});
    test_interrupted(ctx);
    test_row(ctx);
    remat_context_destroy(&ctx);
    return check_exit();
}
