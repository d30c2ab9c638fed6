/* Attention forward and backward against float64, and the same bits over threads, instruction sets
 * and strides. */
#include "check.h"
#include "cpu_attention.h"

#include <math.h>

/* Dense [batch, time, head, dim] operands and results of one problem. */
struct problem {
    struct cpu_attention_shape shape;
    int64_t q_floats, k_floats, lse_floats;
    float *q, *k, *v, *dout;
};

struct results {
    float *out, *lse, *dq, *dk, *dv;
};

static void make_problem(struct test *test, struct problem *p)
{
    const struct cpu_attention_shape *s = &p->shape;
    p->lse_floats = s->batch * s->query_heads * s->query_length;
    p->q_floats = p->lse_floats * s->head_dim;
    p->k_floats = s->batch * s->kv_heads * s->kv_length * s->head_dim;
    p->q = test_floats(test, p->q_floats);
    p->k = test_floats(test, p->k_floats);
    p->v = test_floats(test, p->k_floats);
    p->dout = test_floats(test, p->q_floats);
    for (int64_t i = 0; i < p->q_floats; i++)
        p->q[i] *= 4;
}

static void free_problem(struct problem *p)
{
    free(p->q);
    free(p->k);
    free(p->v);
    free(p->dout);
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
};

static double dot(const float *x, const float *y, int64_t count)
{
    double sum = 0;
    for (int64_t d = 0; d < count; d++)
        sum += (double)x[d] * y[d];
    return sum;
}

static void reference_row(const struct problem *p, const struct reference *r, int64_t b, int64_t i,
                          int64_t h, double *prob)
{
    const struct cpu_attention_shape *s = &p->shape;
    int64_t dim = s->head_dim, kv_head = h / (s->query_heads / s->kv_heads);
    int64_t row = ((b * s->query_length + i) * s->query_heads + h) * dim;
    int64_t step = s->kv_heads * dim, key = (b * s->kv_length * s->kv_heads + kv_head) * dim;
    int64_t seen = s->causal ? i + 1 + s->kv_length - s->query_length : s->kv_length;
    double maximum = -INFINITY, sum = 0, delta = 0;
    for (int64_t j = 0; j < seen; j++) {
        prob[j] = s->scale * dot(p->q + row, p->k + key + j * step, dim);
        maximum = fmax(maximum, prob[j]);
    }
    for (int64_t j = 0; j < seen; j++)
        sum += exp(prob[j] - maximum);
    r->lse[(b * s->query_heads + h) * s->query_length + i] =
        seen > 0 ? maximum + log(sum) : -INFINITY;
    for (int64_t j = 0; j < seen; j++) {
        prob[j] = exp(prob[j] - maximum) / sum;
        delta += prob[j] * dot(p->dout + row, p->v + key + j * step, dim);
        for (int64_t d = 0; d < dim; d++)
            r->out[row + d] += prob[j] * p->v[key + j * step + d];
    }
    for (int64_t j = 0; j < seen; j++) {
        int64_t at = key + j * step;
        double ds = prob[j] * (dot(p->dout + row, p->v + at, dim) - delta) * s->scale;
        for (int64_t d = 0; d < dim; d++) {
            r->dq[row + d] += ds * p->k[at + d];
            r->dk[at + d] += ds * p->q[row + d];
            r->dv[at + d] += prob[j] * p->dout[row + d];
        }
    }
}

static double *zeros(int64_t count)
{
    double *x = test_memory((size_t)count * sizeof *x);
    memset(x, 0, (size_t)count * sizeof *x);
    return x;
}

static double error_of(const float *x, const double *exact, int64_t count)
{
    double worst = 0;
    for (int64_t i = 0; i < count; i++) {
        if (x[i] == exact[i]) /* infinities too */
            continue;
        if (!isfinite(x[i]))
            return INFINITY;
        worst = fmax(worst, fabs(x[i] - exact[i]));
    }
    return worst;
}

static void check_values(struct test *test, const struct problem *p, const struct results *x)
{
    const struct cpu_attention_shape *s = &p->shape;
    struct reference r = {zeros(p->q_floats), zeros(p->lse_floats), zeros(p->q_floats),
                          zeros(p->k_floats), zeros(p->k_floats)};
    double *row = zeros(s->kv_length);
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t i = 0; i < s->query_length; i++)
            for (int64_t h = 0; h < s->query_heads; h++)
                reference_row(p, &r, b, i, h, row);
    double errors[] = {error_of(x->out, r.out, p->q_floats), error_of(x->lse, r.lse, p->lse_floats),
                       error_of(x->dq, r.dq, p->q_floats), error_of(x->dk, r.dk, p->k_floats),
                       error_of(x->dv, r.dv, p->k_floats)};
    static const char *const names[] = {"out", "lse", "dq", "dk", "dv"};
    for (int i = 0; i < 5; i++)
        CHECK(test, errors[i] < 2e-5, "%s off by %g (%lld queries, %lld keys)", names[i], errors[i],
              (long long)s->query_length, (long long)s->kv_length);
    free(r.out);
    free(r.lse);
    free(r.dq);
    free(r.dk);
    free(r.dv);
    free(row);
}

/* --- running in several layouts --- */

static struct cpu_heads dense(float *data, int64_t time, int64_t heads, int64_t dim)
{
    return (struct cpu_heads){data, time * heads * dim, heads * dim, dim};
}

static struct cpu_heads heads_first(float *data, int64_t time, int64_t heads, int64_t dim)
{
    return (struct cpu_heads){data, time * heads * dim, dim, time * dim};
}

typedef struct cpu_heads layout_of(float *data, int64_t time, int64_t heads, int64_t dim);

/* Copies between dense memory and the layout. */
static void copy(const struct cpu_heads *x, float *data, const struct cpu_attention_shape *s,
                 int64_t time, int64_t heads, bool to_dense)
{
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t t = 0; t < time; t++)
            for (int64_t h = 0; h < heads; h++) {
                float *there = x->data + b * x->batch + t * x->time + h * x->head;
                float *here = data + ((b * time + t) * heads + h) * s->head_dim;
                memcpy(to_dense ? here : there, to_dense ? there : here,
                       (size_t)s->head_dim * sizeof *here);
            }
}

static void run(const struct problem *p, struct test_pools *pools,
                const struct cpu_functions *functions, int threads, layout_of *layout,
                const struct results *results)
{
    const struct cpu_attention_shape *s = &p->shape;
    int64_t tq = s->query_length, tk = s->kv_length, hq = s->query_heads, hk = s->kv_heads;
    int64_t floats = 4 * p->q_floats + 4 * p->k_floats;
    float *memory = test_memory((size_t)floats * sizeof *memory), *next = memory;
    memset(memory, 0xff, (size_t)floats * sizeof *memory);
    struct cpu_heads x[8]; /* q out dout dq, k v dk dv */
    for (int i = 0; i < 8; i++) {
        x[i] = layout(next, i < 4 ? tq : tk, i < 4 ? hq : hk, s->head_dim);
        next += i < 4 ? p->q_floats : p->k_floats;
    }
    copy(&x[0], p->q, s, tq, hq, false);
    copy(&x[2], p->dout, s, tq, hq, false);
    copy(&x[4], p->k, s, tk, hk, false);
    copy(&x[5], p->v, s, tk, hk, false);
    struct cpu_attention attention = {*s, x[0], x[4], x[5], x[1], results->lse};
    struct cpu_attention_gradient gradient = {x[2], x[3], x[6], x[7]};
    cpu_attention_forward(pools->pool[threads], functions, &attention, pools->scratch);
    cpu_attention_backward(pools->pool[threads], functions, &attention, &gradient, pools->scratch);
    copy(&x[1], results->out, s, tq, hq, true);
    copy(&x[3], results->dq, s, tq, hq, true);
    copy(&x[6], results->dk, s, tk, hk, true);
    copy(&x[7], results->dv, s, tk, hk, true);
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

static void check_shape(struct test *test, struct test_pools *pools,
                        const struct cpu_attention_shape *shape)
{
    struct problem p = {.shape = *shape};
    make_problem(test, &p);
    struct results results = make_results(&p);
    run(&p, pools, cpu_functions_best(), 1, dense, &results);
    check_values(test, &p, &results);
    uint64_t expected = hash_of(&p, &results);
    FOR_EACH_ISA(functions)
    for (int threads = 1; threads <= TEST_THREADS; threads++) {
        run(&p, pools, functions, threads, threads == 2 ? heads_first : dense, &results);
        CHECK(test, hash_of(&p, &results) == expected,
              "%lld queries, %lld keys: other bits on %s, %d threads",
              (long long)shape->query_length, (long long)shape->kv_length, functions->name,
              threads);
    }
    free_results(&results);
    free_problem(&p);
}

int main(void)
{
    struct test test = test_begin("attention");
    struct test_pools pools;
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
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_shape(&test, &pools, &shapes[i]);
    test_pools_destroy(&pools);
    return test_end(&test);
}
