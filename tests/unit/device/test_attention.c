/* SPDX-License-Identifier: Apache-2.0 */
/* Attention forward and backward, f32 and bf16, with and without dropout: against float64, and the
 * same bits over threads, instruction sets and strides; its mask against a fused kernel's. */
#include "cpu_attention.h"
#include "cpu_test.h"
#include "cpu_tile.h"
#include "philox.h"

#include <math.h>

/* Dense [batch, time, head, dim] operands and results of one problem, as f32 whatever the type. */
struct problem {
    struct cpu_attention_shape shape;
    remat_dtype type;
    struct cpu_dropout dropout;
    int64_t q_floats, k_floats, lse_floats;
    float *q, *k, *v, *dout;
    int segments;                           /* enum segments */
    int32_t *query_segments, *key_segments; /* NULL: absent */
};

/* All the same; one side alone, with some that are negative, and queries that see nothing; both,
 * packed. */
enum segments { NO_SEGMENTS, EQUAL, QUERIES, KEYS, PACKED, SEGMENT_KINDS };

/* Runs of equal numbers, at most `run` long. */
static int32_t *make_segments(struct test *test, int64_t batch, int64_t length, int kind)
{
    int32_t *x = test_memory((size_t)(batch * length) * sizeof *x);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0, number = 0; i < length; i++) {
            bool next = i > 0 && test_random(test) % 10 == 0;
            number += next;
            x[b * length + i] = kind == EQUAL    ? 3
                                : kind == PACKED ? (int32_t)number
                                                 : (int32_t)(number % 3) - 1;
        }
    return x;
}

static bool sees(const struct problem *p, int64_t b, int64_t i, int64_t j)
{
    int32_t query = p->query_segments ? p->query_segments[b * p->shape.query_length + i] : 0;
    int32_t key = p->key_segments ? p->key_segments[b * p->shape.kv_length + j] : 0;
    return query == key && key >= 0;
}

struct results {
    float *out, *lse, *dq, *dk, *dv;
};

static float *make_operand(struct test *test, remat_dtype type, int64_t count, float factor)
{
    float *x = test_floats(test, count);
    for (int64_t i = 0; i < count; i++)
        x[i] = type == REMAT_F32 ? factor * x[i] : test_widen(test_narrow(factor * x[i]));
    return x;
}

static void make_problem(struct test *test, struct problem *p)
{
    const struct cpu_attention_shape *s = &p->shape;
    p->lse_floats = s->batch * s->query_heads * s->query_length;
    p->q_floats = p->lse_floats * s->head_dim;
    p->k_floats = s->batch * s->kv_heads * s->kv_length * s->head_dim;
    p->q = make_operand(test, p->type, p->q_floats, 4);
    p->k = make_operand(test, p->type, p->k_floats, 1);
    p->v = make_operand(test, p->type, p->k_floats, 1);
    p->dout = make_operand(test, p->type, p->q_floats, 1);
    if (p->segments && p->segments != KEYS)
        p->query_segments = make_segments(test, s->batch, s->query_length, p->segments);
    if (p->segments && p->segments != QUERIES)
        p->key_segments = make_segments(test, s->batch, s->kv_length, p->segments);
}

static void free_problem(struct problem *p)
{
    free(p->q);
    free(p->k);
    free(p->v);
    free(p->dout);
    free(p->query_segments);
    free(p->key_segments);
    p->query_segments = p->key_segments = NULL;
}

static struct results make_results(const struct problem *p)
{
    size_t q_bytes = (size_t)p->q_floats * sizeof(float);
    size_t k_bytes = (size_t)p->k_floats * sizeof(float);
    return (struct results){test_memory(q_bytes),
                            test_memory((size_t)p->lse_floats * sizeof(float)),
                            test_memory(q_bytes), test_memory(k_bytes), test_memory(k_bytes)};
}

static void free_results(struct results *r)
{
    free(r->out);
    free(r->lse);
    free(r->dq);
    free(r->dk);
    free(r->dv);
}

/* --- the reference --- */

struct reference {
    double *out, *lse, *dq, *dk, *dv;
    const float *rounded_out; /* which the gradient reads */
};

static double dot(const float *x, const float *y, int64_t count)
{
    double sum = 0;
    for (int64_t d = 0; d < count; d++)
        sum += (double)x[d] * y[d];
    return sum;
}

/* 0 or 1 / (1 - p), word by word from philox. */
static double mask_of(const struct problem *p, int64_t b, int64_t i, int64_t h, int64_t j)
{
    const struct cpu_attention_shape *s = &p->shape;
    const struct cpu_dropout *dropout = &p->dropout;
    if (dropout->p == 0)
        return 1;
    uint64_t entry = (uint64_t)(b + dropout->microbatch * s->batch);
    uint64_t index = ((entry * (uint64_t)s->query_heads + (uint64_t)h) * (uint64_t)s->query_length +
                      (uint64_t)i) *
                         (uint64_t)s->kv_length +
                     (uint64_t)j;
    uint32_t counter[4] = {(uint32_t)(index / 4), (uint32_t)(index / 4 >> 32), dropout->site,
                           dropout->step};
    uint32_t key[2] = {(uint32_t)dropout->seed, (uint32_t)(dropout->seed >> 32)}, words[4];
    philox(counter, key, words);
    return (float)(words[index % 4] >> 8) / 16777216.0f < dropout->p ? 0 : 1 / (1 - dropout->p);
}

static void reference_row(const struct problem *p, const struct reference *r, int64_t b, int64_t i,
                          int64_t h, double *prob)
{
    const struct cpu_attention_shape *s = &p->shape;
    int64_t dim = s->head_dim, kv_head = h / (s->query_heads / s->kv_heads);
    int64_t row = ((b * s->query_length + i) * s->query_heads + h) * dim;
    int64_t step = s->kv_heads * dim, key = (b * s->kv_length * s->kv_heads + kv_head) * dim;
    int64_t seen = s->causal ? i + 1 + s->kv_length - s->query_length : s->kv_length;
    double maximum = -INFINITY, sum = 0, delta;
    for (int64_t j = 0; j < seen; j++) {
        prob[j] = -INFINITY;
        if (sees(p, b, i, j))
            prob[j] = s->scale * dot(p->q + row, p->k + key + j * step, dim);
        maximum = fmax(maximum, prob[j]);
    }
    for (int64_t j = 0; j < seen; j++)
        sum += sees(p, b, i, j) ? exp(prob[j] - maximum) : 0;
    r->lse[(b * s->query_heads + h) * s->query_length + i] =
        sum > 0 ? maximum + log(sum) : -INFINITY;
    if (sum == 0)
        return;
    for (int64_t j = 0; j < seen; j++) {
        prob[j] = exp(prob[j] - maximum) / sum;
        double kept = prob[j] * mask_of(p, b, i, h, j);
        for (int64_t d = 0; d < dim; d++)
            r->out[row + d] += kept * p->v[key + j * step + d];
    }
    delta = dot(p->dout + row, r->rounded_out + row, dim);
    for (int64_t j = 0; j < seen; j++) {
        int64_t at = key + j * step;
        double mask = mask_of(p, b, i, h, j);
        double ds = prob[j] * (mask * dot(p->dout + row, p->v + at, dim) - delta) * s->scale;
        for (int64_t d = 0; d < dim; d++) {
            r->dq[row + d] += ds * p->k[at + d];
            r->dk[at + d] += ds * p->q[row + d];
            r->dv[at + d] += prob[j] * mask * p->dout[row + d];
        }
    }
}

static double *zeros(int64_t count)
{
    double *x = test_memory((size_t)count * sizeof *x);
    memset(x, 0, (size_t)count * sizeof *x);
    return x;
}

/* The largest absolute error; `rounding` of a value's magnitude is forgiven. */
static double error_of(const float *x, const double *exact, int64_t count, double rounding)
{
    double worst = 0;
    for (int64_t i = 0; i < count; i++) {
        if (x[i] == exact[i]) /* infinities too */
            continue;
        if (!isfinite(x[i]))
            return INFINITY;
        worst = fmax(worst, fabs(x[i] - exact[i]) - rounding * fabs(exact[i]));
    }
    return worst;
}

static void check_values(const struct problem *p, const struct results *x)
{
    const struct cpu_attention_shape *s = &p->shape;
    struct reference r = {zeros(p->q_floats), zeros(p->lse_floats), zeros(p->q_floats),
                          zeros(p->k_floats), zeros(p->k_floats),   x->out};
    double *row = zeros(s->kv_length);
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t i = 0; i < s->query_length; i++)
            for (int64_t h = 0; h < s->query_heads; h++)
                reference_row(p, &r, b, i, h, row);
    /* bf16: half an ulp of the result */
    double rounding = p->type == REMAT_F32 ? 0 : 0x1p-8;
    double bound = p->type == REMAT_F32 ? 2e-5 : 2e-4;
    double errors[] = {
        error_of(x->out, r.out, p->q_floats, rounding), error_of(x->lse, r.lse, p->lse_floats, 0),
        error_of(x->dq, r.dq, p->q_floats, rounding), error_of(x->dk, r.dk, p->k_floats, rounding),
        error_of(x->dv, r.dv, p->k_floats, rounding)};
    const double bounds[] = {bound, 2e-5, bound, bound, bound};
    static const char *const names[] = {"out", "lse", "dq", "dk", "dv"};
    for (int i = 0; i < 5; i++)
        CHECK(errors[i] < bounds[i], "%s off by %g (%lld queries, %lld keys, type %d, p %g)",
              names[i], errors[i], (long long)s->query_length, (long long)s->kv_length,
              (int)p->type, (double)p->dropout.p);
    free(r.out);
    free(r.lse);
    free(r.dq);
    free(r.dk);
    free(r.dv);
    free(row);
}

/* --- running in several layouts --- */

static struct cpu_heads dense(void *data, int64_t time, int64_t heads, int64_t dim)
{
    return (struct cpu_heads){data, time * heads * dim, heads * dim, dim};
}

static struct cpu_heads heads_first(void *data, int64_t time, int64_t heads, int64_t dim)
{
    return (struct cpu_heads){data, time * heads * dim, dim, time * dim};
}

typedef struct cpu_heads layout_of(void *data, int64_t time, int64_t heads, int64_t dim);

/* Copies between dense memory of f32 and the layout. */
static void copy(const struct cpu_heads *x, float *data, const struct problem *p, int64_t time,
                 int64_t heads, bool to_dense)
{
    const struct cpu_attention_shape *s = &p->shape;
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t t = 0; t < time; t++)
            for (int64_t h = 0; h < heads; h++)
                for (int64_t d = 0; d < s->head_dim; d++) {
                    int64_t there = b * x->batch + t * x->time + h * x->head + d;
                    float *here = data + ((b * time + t) * heads + h) * s->head_dim + d;
                    if (to_dense)
                        *here = test_load(x->data, p->type, there);
                    else
                        test_store(x->data, p->type, there, *here);
                }
}

static void run(const struct problem *p, struct test_pools *pools,
                const struct cpu_functions *functions, int threads, layout_of *layout,
                const struct results *results)
{
    const struct cpu_attention_shape *s = &p->shape;
    int64_t tq = s->query_length, tk = s->kv_length, hq = s->query_heads, hk = s->kv_heads;
    size_t bytes = (size_t)(4 * (p->q_floats + p->k_floats) * remat_dtype_bytes(p->type));
    char *memory = test_memory(bytes), *next = memory;
    memset(memory, 0xff, bytes);
    struct cpu_heads x[8]; /* q out dout dq, k v dk dv */
    for (int i = 0; i < 8; i++) {
        x[i] = layout(next, i < 4 ? tq : tk, i < 4 ? hq : hk, s->head_dim);
        next += (i < 4 ? p->q_floats : p->k_floats) * remat_dtype_bytes(p->type);
    }
    copy(&x[0], p->q, p, tq, hq, false);
    copy(&x[2], p->dout, p, tq, hq, false);
    copy(&x[4], p->k, p, tk, hk, false);
    copy(&x[5], p->v, p, tk, hk, false);
    struct cpu_attention attention = {
        *s,         p->type,           x[0],           x[4], x[5], x[1], results->lse,
        p->dropout, p->query_segments, p->key_segments};
    struct cpu_attention_gradient gradient = {x[2], x[3], x[6], x[7]};
    cpu_attention_forward(pools->pool[threads], functions, &attention, pools->scratch);
    cpu_attention_backward(pools->pool[threads], functions, &attention, &gradient, pools->scratch);
    copy(&x[1], results->out, p, tq, hq, true);
    copy(&x[3], results->dq, p, tq, hq, true);
    copy(&x[6], results->dk, p, tk, hk, true);
    copy(&x[7], results->dv, p, tk, hk, true);
    free(memory);
}

static uint64_t hash_of(const struct problem *p, const struct results *r)
{
    uint64_t hash = remat_hash(r->lse, (size_t)p->lse_floats * sizeof(float), 0);
    hash = remat_hash(r->out, (size_t)p->q_floats * sizeof(float), hash);
    hash = remat_hash(r->dq, (size_t)p->q_floats * sizeof(float), hash);
    hash = remat_hash(r->dk, (size_t)p->k_floats * sizeof(float), hash);
    return remat_hash(r->dv, (size_t)p->k_floats * sizeof(float), hash);
}

static void check_problem(struct test *test, struct test_pools *pools, struct problem *p)
{
    static int number;
    number++;
    const struct cpu_attention_shape *shape = &p->shape;
    make_problem(test, p);
    struct results results = make_results(p);
    run(p, pools, cpu_functions_best(), 1, dense, &results);
    check_values(p, &results);
    uint64_t expected = hash_of(p, &results);
    FOR_EACH_ISA(functions)
    for (int threads = 1; threads <= TEST_THREADS; threads++) {
        if (!test_is_tried(functions, threads, number))
            continue;
        run(p, pools, functions, threads, threads == 2 ? heads_first : dense, &results);
        CHECK(hash_of(p, &results) == expected,
              "%lld queries, %lld keys, type %d, p %g: other bits on %s, %d threads",
              (long long)shape->query_length, (long long)shape->kv_length, (int)p->type,
              (double)p->dropout.p, functions->name, threads);
    }
    free_results(&results);
    free_problem(p);
}

/* Segments of every kind; where all are equal the bits are those of attention without them. */
static void check_segments(struct test *test, struct test_pools *pools, struct problem *p)
{
    for (p->segments = EQUAL; p->segments < SEGMENT_KINDS; p->segments++)
        check_problem(test, pools, p);
    p->segments = EQUAL;
    make_problem(test, p);
    struct results results = make_results(p);
    run(p, pools, cpu_functions_best(), 2, dense, &results);
    uint64_t equal = hash_of(p, &results);
    free(p->query_segments);
    free(p->key_segments);
    p->query_segments = p->key_segments = NULL;
    run(p, pools, cpu_functions_best(), 2, dense, &results);
    CHECK(hash_of(p, &results) == equal, "equal segments change bits");
    free_results(&results);
    free_problem(p);
}

/* With V the unit matrix O is P times the mask: zero where a fused kernel over [B, H, Tq, Tk]
 * with the same site and random state draws less than p. */
enum { B = 3, H = 2, TQ = 35, TK = 70, MASK = B * H * TQ * TK };
static const uint32_t random_state[4] = {5, 6, 7, 2}; /* seed, seed, step, microbatch */
#define SITE 1234

static void draw_by_program(struct test *test, struct test_pools *pools, float *uniforms)
{
    const struct remat_instruction instructions[] = {
        {.opcode = REMAT_INSTRUCTION_random, .immediate = SITE, .args = {65535, 65535, 65535}},
        {.opcode = REMAT_INSTRUCTION_store, .operand = 1, .args = {0, 65535, 65535}},
    };
    const struct remat_kernel_body kernel = {2, instructions, 2};
    const int64_t space[4] = {B, H, TQ, TK};
    struct remat_operand operands[2] = {
        {.value = 0, .dtype = REMAT_I32, .rank = 1, .shape = {4}, .strides = {1}},
        {.value = 1, .dtype = REMAT_F32, .rank = 4, .shape = {B, H, TQ, TK}},
    };
    for (int k = 4, stride = 1; k-- > 0; stride *= (int)space[k])
        operands[1].strides[k] = stride;
    struct remat_program_value values[2] = {{.buffer = 0}, {.buffer = 1}};
    struct remat_buffer buffers[2] = {{.bytes = 16}, {.offset_bytes = 64}};
    struct remat_program program = {.values = values, .buffers = buffers};
    struct cpu_tile_source source = {"mask", &kernel, operands, 2, 4, space, false};
    struct cpu_tile_options options = {.isa = cpu_functions_best()->isa, .threads = 2};
    struct remat_arena arena;
    remat_arena_init(&arena, test->ctx);
    struct cpu_tile *tile;
    MUST_OK(test->ctx, cpu_tile_prepare(test->ctx, &program, &source, &options, &arena, &tile));
    uint64_t stride = remat_align_up(cpu_tile_scratch_bytes(tile), 64);
    char *scratch = test_memory(2 * stride), *memory = test_memory(64 + MASK * sizeof(float));
    memcpy(memory, random_state, sizeof random_state);
    cpu_tile_run(tile, pools->pool[2], memory, scratch, stride);
    memcpy(uniforms, memory + 64, MASK * sizeof *uniforms);
    free(scratch);
    free(memory);
    remat_arena_release(&arena);
}

static void check_mask(struct test *test, struct test_pools *pools)
{
    float *uniforms = test_memory(MASK * sizeof *uniforms);
    draw_by_program(test, pools, uniforms);
    struct problem p = {.shape = {B, H, H, TQ, TK, TK, 0.125f, false},
                        .type = REMAT_F32,
                        .dropout = {0.3f, 1 / 0.7f, SITE, random_state[2], random_state[3],
                                    random_state[0] | (uint64_t)random_state[1] << 32}};
    make_problem(test, &p);
    for (int64_t i = 0; i < p.k_floats; i++)
        p.v[i] = i % TK == i / (H * TK) % TK;
    struct results results = make_results(&p);
    run(&p, pools, cpu_functions_best(), 2, dense, &results);
    int wrong = 0, dropped = 0;
    for (int e = 0; e < MASK; e++) {
        int b = e / (H * TQ * TK), h = e / (TQ * TK) % H, i = e / TK % TQ, j = e % TK;
        bool zero = results.out[((b * TQ + i) * H + h) * TK + j] == 0.0f;
        wrong += zero != (uniforms[e] < p.dropout.p);
        dropped += zero;
    }
    CHECK(wrong == 0, "the mask differs from a program's in %d places", wrong);
    CHECK(abs(dropped - MASK * 3 / 10) < 400, "%d of %d dropped", dropped, MASK);
    free_results(&results);
    free_problem(&p);
    free(uniforms);
}

/* With an argument one shape in three, for builds with sanitizers. */
int main(int argc, char **argv)
{
    struct test test = test_begin();
    struct test_pools pools;
    const size_t step = argc > 1 ? 3 : 1;
    (void)argv;
    test_pools_create(&test, &pools);
    static const struct cpu_attention_shape shapes[] = {
        /* batch, heads, kv heads, queries, keys, dim, scale, causal */
        {1, 1, 1, 1, 1, 1, 1.0f, true},        {2, 3, 3, 64, 64, 64, 0.125f, true},
        {2, 4, 2, 100, 100, 32, 0.17f, true},  {1, 6, 2, 193, 193, 40, 0.15f, true},
        {1, 3, 1, 70, 130, 20, 0.2f, true},    {1, 2, 2, 330, 70, 8, 0.3f, true},
        {1, 2, 1, 33, 1, 5, 1.0f, false},      {3, 5, 5, 65, 63, 17, 0.25f, false},
        {1, 2, 1, 70, 700, 16, -0.25f, false}, {1, 2, 1, 600, 600, 16, 0.25f, true},
        {1, 1, 1, 70, 4500, 16, 0.25f, false}, {1, 2, 1, 130, 4200, 12, 0.25f, true},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i += step)
        for (int kind = 0; kind < 4; kind++) {
            struct problem p = {.shape = shapes[i], .type = kind & 1 ? REMAT_BF16 : REMAT_F32};
            if (kind & 2)
                p.dropout = (struct cpu_dropout){0.1f, 1 / 0.9f, 77, 3, 2, 0x123456789abcdef0};
            check_problem(&test, &pools, &p);
            if ((kind == 1 || kind == 2) && shapes[i].kv_length > 60 && i % 5 != 1)
                check_segments(&test, &pools, &p);
        }
    struct problem wide = {.shape = {1, 1, 1, 70, 300, 512, 0.04f, false}, .type = REMAT_BF16};
    check_problem(&test, &pools, &wide);
    check_mask(&test, &pools);
    test_pools_destroy(&pools);
    return test_end(&test);
}
