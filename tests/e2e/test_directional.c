/* The derivative of the loss in a direction d, by finite differences at a fixed seed, against
 * gradient * d, with dropout: a mask that differs between forward and backward, or between two runs
 * of one seed and step, shows here. One tensor at a time; d is its gradient divided by its norm
 * |g|.
 *
 * With s(h) = (loss(w + h d) - loss(w - h d)) / 2 h, Richardson's (4 s(h / 2) - s(h)) / 3 leaves an
 * error of order h^4, where there are relus of order h (kinks), and rounding: the loss, an f32 of
 * size 6, is off by about 2^-24 of that, so s(h / 2) by that over h |g|: 2e-5 where h |g| is NUDGE,
 * 2e-3 where it is CHANGE. Measured: 5.4e-4 at most, with relus 1.5e-2.
 *
 * The mask of another site in the backward pass is wrong at a fifth of the elements. With this
 * mistake made by hand, for one site after the other, every site of GPT-2, Llama and BERT fails, by
 * 7e-3 to 0.2, and all of the encoder-decoder but two of eighteen. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"

#define BATCH      2
#define SEQ        24
#define DROPOUT    0.1
#define SPREAD     3.0f /* initial weights times this: else most gradients are next to nothing */
#define NUDGE      0.02 /* h |g|, the first-order change of the loss at h, where ... */
#define MOVE       0.02 /* ... elements are moved by this at most, root mean square */
#define CHANGE     2e-4 /* below it a tensor is left out: biases of keys (gradient 0) and queries */
#define LIMIT      2e-3
#define LIMIT_RELU 2e-2

struct tensor {
    const char *name;
    uint64_t count;
    float *weights, *direction, *moved;
    double norm; /* of the gradient */
};

struct subject {
    remat_context *ctx;
    remat_session *session;
    struct remat_plan plan;
    struct tensor *tensors;
    uint32_t count;
};

static void *allocate(uint64_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    if (!memory)
        harness_die("calloc", "out of memory");
    return memory;
}

/* "NAME.grad" of every parameter, into its direction. */
static int keep_gradients(void *user, const remat_trace_event *event)
{
    struct subject *s = user;
    for (uint32_t i = 0; i < event->value_count; i++) {
        const remat_trace_value *v = &event->values[i];
        for (uint32_t t = 0; v->role == REMAT_TENSOR_GRADIENT && t < s->count; t++) {
            struct tensor *tensor = &s->tensors[t];
            size_t length = strlen(tensor->name);
            if (strncmp(v->name, tensor->name, length) != 0 ||
                strcmp(v->name + length, ".grad") != 0 || v->bytes != tensor->count * sizeof(float))
                continue;
            memcpy(tensor->direction, v->data, v->bytes);
        }
    }
    return 0;
}

static double loss_now(struct subject *s)
{
    float loss;
    MUST(s->ctx, remat_session_run(s->session, "train"));
    MUST(s->ctx, remat_session_read(s->session, "loss", &loss, sizeof loss));
    return (double)loss;
}

static double loss_at(struct subject *s, struct tensor *t, double h)
{
    for (uint64_t i = 0; i < t->count; i++)
        t->moved[i] = (float)((double)t->weights[i] + h * (double)t->direction[i]);
    MUST(s->ctx, remat_session_write(s->session, t->name, t->moved, t->count * sizeof(float)));
    return loss_now(s);
}

static double slope(struct subject *s, struct tensor *t, double h)
{
    return (loss_at(s, t, h) - loss_at(s, t, -h)) / (2 * h);
}

static void take_weights(struct subject *s)
{
    uint32_t all = remat_plan_tensor_count(&s->plan);
    s->tensors = allocate(all, sizeof *s->tensors);
    for (uint32_t i = 0; i < all; i++) {
        remat_tensor_info info = {.struct_size = sizeof info};
        remat_plan_get_tensor(&s->plan, i, &info);
        if (info.role != REMAT_TENSOR_PARAMETER)
            continue;
        struct tensor *t = &s->tensors[s->count++];
        *t = (struct tensor){.name = info.name, .count = info.bytes / sizeof(float)};
        t->weights = allocate(t->count, sizeof(float));
        t->direction = allocate(t->count, sizeof(float));
        t->moved = allocate(t->count, sizeof(float));
        MUST(s->ctx, remat_session_read(s->session, t->name, t->weights, info.bytes));
        for (uint64_t k = 0; k < t->count && info.rank > 1; k++)
            t->weights[k] *= SPREAD;
    }
}

/* Makes directions of the gradients. */
static void normalise(struct tensor *t)
{
    double square = 0;
    for (uint64_t i = 0; i < t->count; i++)
        square += (double)t->direction[i] * (double)t->direction[i];
    t->norm = sqrt(square);
    for (uint64_t i = 0; i < t->count && t->norm > 0; i++)
        t->direction[i] = (float)((double)t->direction[i] / t->norm);
}

static bool is_bias_of_scores(const char *name)
{
    static const char *const modules[] = {"q_proj.bias", "k_proj.bias", "query.bias", "key.bias"};
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (strstr(name, modules[i]))
            return true;
    return false;
}

/* The relative error; 0 for a tensor that is left out. */
static double test_tensor(struct subject *s, struct tensor *t, double limit)
{
    double h = fmin(NUDGE / t->norm, MOVE * sqrt((double)t->count));
    bool left_out = !(h * t->norm >= CHANGE);
    harness_check(!left_out || is_bias_of_scores(t->name), "%s: gradient of norm %.3g", t->name,
                  t->norm);
    if (left_out)
        return 0;
    double measured = (4 * slope(s, t, h / 2) - slope(s, t, h)) / 3;
    double error = fabs(measured / t->norm - 1);
    loss_at(s, t, 0);
    harness_check(error <= limit, "%s: derivative %.8g, finite differences %.8g, relative %.1e",
                  t->name, t->norm, measured, error);
    return error;
}

static void release(struct subject *s)
{
    for (uint32_t t = 0; t < s->count; t++) {
        free(s->tensors[t].weights);
        free(s->tensors[t].direction);
        free(s->tensors[t].moved);
    }
    free(s->tensors);
    remat_session_destroy(&s->session);
}

static void test_model(remat_context *ctx, const char *preset, double limit, bool written_out)
{
    struct remat_arena arena;
    struct remat_program *program;
    struct subject s = {.ctx = ctx};
    remat_arena_init(&arena, ctx);
    const struct remat_graph *graph =
        harness_model(ctx, &arena, preset,
                      (struct remat_model_settings){.layers = 2,
                                                    .batch = BATCH,
                                                    .seq = SEQ,
                                                    .dropout = DROPOUT,
                                                    .written_out = written_out});
    MUST(ctx, harness_compile(ctx, &arena, graph,
                              &(struct remat_policy_settings){.ac_mode = "full"}, 0, 0, &program));
    s.plan = remat_plan_borrow(program);
    s.session = harness_open(ctx, &s.plan, 1);
    take_weights(&s);
    harness_write_inputs(ctx, s.session, &s.plan, 0, 0);
    if (remat_plan_find_tensor(&s.plan, "rng") != UINT32_MAX)
        MUST(ctx, remat_session_write(s.session, "rng", (int32_t[]){1, 0, 5, 0}, 16));
    remat_session_set_trace(s.session, keep_gradients, &s);
    for (uint32_t t = 0; t < s.count; t++)
        MUST(ctx, remat_session_write(s.session, s.tensors[t].name, s.tensors[t].weights,
                                      s.tensors[t].count * sizeof(float)));
    loss_now(&s);
    remat_session_set_trace(s.session, NULL, NULL);
    double worst = 0;
    for (uint32_t t = 0; t < s.count; t++) {
        normalise(&s.tensors[t]);
        worst = fmax(worst, test_tensor(&s, &s.tensors[t], limit));
    }
    printf("%-12s %-12s %u tensors, largest error %.1e\n", preset,
           written_out ? "written-out" : "fused", s.count, worst);
    release(&s);
    remat_arena_release(&arena);
}

int main(void)
{
    static const struct {
        const char *preset;
        double limit;
    } models[] = {{"gpt2-tiny", LIMIT},
                  {"llama-tiny", LIMIT},
                  {"bert-tiny", LIMIT},
                  {"encdec-tiny", LIMIT_RELU}};
    remat_context *ctx = remat_context_create(NULL, NULL);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (int written_out = 0; written_out < 2; written_out++)
            test_model(ctx, models[i].preset, models[i].limit, written_out);
    remat_context_destroy(&ctx);
    return harness_exit();
}
