/* Attention on small serial sgemms. The unit of work is a score block: 64 queries of one head
 * against the keys [begin,end), whole rows up to 4096 keys, in the scratch behind the sgemm's.
 *
 * Forward: one item per (head, query block). Backward has two forms with the same bits, because
 * every element sums the same products in the same order: either one item per key/value head does
 * dQ, dK and dV, or, where that leaves threads idle, one pass of items (head, query block) does dQ
 * and another of items (key/value head, 256 keys) does dK and dV, recomputing the scores. */
#include "cpu_attention.h"

#include "cpu_math.h"
#include "cpu_sgemm.h"

#define QUERY_BLOCK  CPU_ATTENTION_QUERY_BLOCK
#define KEY_BLOCK    CPU_ATTENTION_KEY_BLOCK
#define KEY_SLICE    256              /* keys of an item of the dK, dV pass */
#define SCORE_STRIDE (KEY_BLOCK + 16) /* no power of two: rows lie in different cache sets */
#define SCORE_FLOATS (QUERY_BLOCK * SCORE_STRIDE)

_Static_assert(CPU_SGEMM_SCRATCH_BYTES + 2 * SCORE_FLOATS * sizeof(float) <= CPU_SCRATCH_BYTES,
               "two score blocks fit the scratch");
_Static_assert(CPU_SGEMM_SCRATCH_BYTES % 64 == 0, "score blocks are aligned");

struct run {
    const struct cpu_functions *functions;
    const struct cpu_attention *attention;
    const struct cpu_attention_gradient *gradient;
    float *const *scratch;
};

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t clamp64(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : min64(x, high);
}

static float *at(const struct cpu_heads *x, int64_t batch, int64_t time, int64_t head)
{
    return x->data + batch * x->batch + time * x->time + head * x->head;
}

/* Queries [begin,end) of one head, and where to find its keys. */
struct queries {
    int64_t batch, head, kv_head, begin, end;
};

static int64_t query_blocks(const struct cpu_attention_shape *shape)
{
    return (shape->query_length + QUERY_BLOCK - 1) / QUERY_BLOCK;
}

static struct queries queries_of(const struct cpu_attention_shape *shape, int64_t batch,
                                 int64_t head, int64_t block)
{
    int64_t begin = block * QUERY_BLOCK;
    return (struct queries){batch, head, head / (shape->query_heads / shape->kv_heads), begin,
                            min64(begin + QUERY_BLOCK, shape->query_length)};
}

/* Items number (batch, head, block) with the last blocks first: they see the most keys. */
static struct queries queries_of_item(const struct cpu_attention_shape *shape, int64_t item)
{
    int64_t heads = shape->batch * shape->query_heads;
    int64_t batch = item % heads / shape->query_heads, head = item % shape->query_heads;
    return queries_of(shape, batch, head, query_blocks(shape) - 1 - item / heads);
}

/* How many of the keys [0,...) query `i` sees. */
static int64_t keys_seen(const struct cpu_attention_shape *shape, int64_t i)
{
    if (!shape->causal)
        return shape->kv_length;
    return clamp64(i + 1 + shape->kv_length - shape->query_length, 0, shape->kv_length);
}

/* --- the products of a score block --- */

/* scores[i][j] = x_i . y_j over head_dim, for the queries' rows of x and the keys [begin,end) */
static void score_product(const struct run *run, const struct queries *q, const struct cpu_heads *x,
                          const struct cpu_heads *y, int64_t begin, int64_t end, float *scores,
                          float *scratch)
{
    struct cpu_matmul mm = {.m = q->end - q->begin,
                            .n = end - begin,
                            .k = run->attention->shape.head_dim,
                            .a = at(x, q->batch, q->begin, q->head),
                            .a_row = x->time,
                            .a_column = 1,
                            .b = at(y, q->batch, begin, q->kv_head),
                            .b_row = 1,
                            .b_column = y->time,
                            .c = scores,
                            .ldc = SCORE_STRIDE};
    cpu_sgemm_serial(run->functions, &mm, scratch);
}

/* The queries' rows of z (+)= scores y, over the keys [begin,end) */
static void query_product(const struct run *run, const struct queries *q, const float *scores,
                          const struct cpu_heads *y, int64_t begin, int64_t end,
                          const struct cpu_heads *z, bool accumulate, float *scratch)
{
    struct cpu_matmul mm = {.m = q->end - q->begin,
                            .n = run->attention->shape.head_dim,
                            .k = end - begin,
                            .a = scores,
                            .a_row = SCORE_STRIDE,
                            .a_column = 1,
                            .b = at(y, q->batch, begin, q->kv_head),
                            .b_row = y->time,
                            .b_column = 1,
                            .c = at(z, q->batch, q->begin, q->head),
                            .ldc = z->time,
                            .accumulate = accumulate};
    cpu_sgemm_serial(run->functions, &mm, scratch);
}

/* Rows [begin,end) of z, one per key, (+)= scores^T x, over the queries */
static void key_product(const struct run *run, const struct queries *q, const float *scores,
                        const struct cpu_heads *x, int64_t begin, int64_t end,
                        const struct cpu_heads *z, bool accumulate, float *scratch)
{
    struct cpu_matmul mm = {.m = end - begin,
                            .n = run->attention->shape.head_dim,
                            .k = q->end - q->begin,
                            .a = scores,
                            .a_row = 1,
                            .a_column = SCORE_STRIDE,
                            .b = at(x, q->batch, q->begin, q->head),
                            .b_row = x->time,
                            .b_column = 1,
                            .c = at(z, q->batch, begin, q->kv_head),
                            .ldc = z->time,
                            .accumulate = accumulate};
    cpu_sgemm_serial(run->functions, &mm, scratch);
}

/* --- forward --- */

static void scale_row(float *row, int64_t count, float factor)
{
    for (int64_t d = 0; d < count; d++)
        row[d] *= factor;
}

/* Turns the scores of keys [begin,end) into exponentials, and rescales what came before. */
static void softmax_block(const struct run *run, const struct queries *q, int64_t begin,
                          int64_t end, float *scores, float *maximum, float *sum)
{
    const struct cpu_attention *attention = run->attention;
    for (int64_t i = 0; i < q->end - q->begin; i++) {
        int64_t valid = clamp64(keys_seen(&attention->shape, q->begin + i) - begin, 0, end - begin);
        float before = maximum[i];
        float added = run->functions->softmax_row(scores + i * SCORE_STRIDE, valid, end - begin,
                                                  attention->shape.scale, &maximum[i]);
        if (begin == 0) {
            sum[i] = added;
        } else if (valid > 0) {
            float factor = cpu_exp(before - maximum[i]);
            sum[i] = sum[i] * factor + added;
            scale_row(at(&attention->out, q->batch, q->begin + i, q->head),
                      attention->shape.head_dim, factor);
        }
    }
}

/* Divides by the sums and stores LSE. */
static void finish_rows(const struct run *run, const struct queries *q, const float *maximum,
                        const float *sum)
{
    const struct cpu_attention *attention = run->attention;
    const struct cpu_attention_shape *shape = &attention->shape;
    float *lse =
        attention->lse + (q->batch * shape->query_heads + q->head) * shape->query_length + q->begin;
    for (int64_t i = 0; i < q->end - q->begin; i++) {
        bool any = keys_seen(shape, q->begin + i) > 0;
        scale_row(at(&attention->out, q->batch, q->begin + i, q->head), shape->head_dim,
                  any ? 1.0f / sum[i] : 0.0f);
        lse[i] = any ? maximum[i] + cpu_log(sum[i]) : -__builtin_inff();
    }
}

static void forward_item(void *arg, int64_t item, int worker)
{
    const struct run *run = arg;
    const struct cpu_attention *attention = run->attention;
    struct queries q = queries_of_item(&attention->shape, item);
    float *scratch = run->scratch[worker];
    float *scores = scratch + CPU_SGEMM_SCRATCH_BYTES / sizeof(float);
    float maximum[QUERY_BLOCK], sum[QUERY_BLOCK];
    for (int i = 0; i < QUERY_BLOCK; i++) {
        maximum[i] = -__builtin_inff();
        sum[i] = 0.0f;
    }
    int64_t seen = keys_seen(&attention->shape, q.end - 1), begin = 0;
    do { /* once also when no key is seen: that stores zeros */
        int64_t end = min64(begin + KEY_BLOCK, seen);
        score_product(run, &q, &attention->q, &attention->k, begin, end, scores, scratch);
        softmax_block(run, &q, begin, end, scores, maximum, sum);
        query_product(run, &q, scores, &attention->v, begin, end, &attention->out, begin > 0,
                      scratch);
        begin = end;
    } while (begin < seen);
    finish_rows(run, &q, maximum, sum);
}

void cpu_attention_forward(struct cpu_pool *pool, const struct cpu_functions *functions,
                           const struct cpu_attention *attention, float *const *scratch)
{
    const struct cpu_attention_shape *shape = &attention->shape;
    struct run run = {functions, attention, NULL, scratch};
    cpu_pool_run(pool, shape->batch * shape->query_heads * query_blocks(shape), forward_item, &run);
}

/* --- backward --- */

/* Fills p with the probabilities and ds with the gradients of Q K^T, for keys [begin,end). */
static void gradient_block(const struct run *run, const struct queries *q, int64_t begin,
                           int64_t end, float *p, float *ds, float *scratch)
{
    const struct cpu_attention *attention = run->attention;
    const struct cpu_attention_shape *shape = &attention->shape;
    const struct cpu_heads *dout = &run->gradient->dout;
    const float *lse =
        attention->lse + (q->batch * shape->query_heads + q->head) * shape->query_length + q->begin;
    score_product(run, q, &attention->q, &attention->k, begin, end, p, scratch);
    score_product(run, q, dout, &attention->v, begin, end, ds, scratch);
    for (int64_t i = 0; i < q->end - q->begin; i++) {
        int64_t valid = clamp64(keys_seen(shape, q->begin + i) - begin, 0, end - begin);
        float delta = run->functions->dot_row(at(dout, q->batch, q->begin + i, q->head),
                                              at(&attention->out, q->batch, q->begin + i, q->head),
                                              shape->head_dim);
        run->functions->softmax_gradient_row(p + i * SCORE_STRIDE, ds + i * SCORE_STRIDE, valid,
                                             end - begin, shape->scale, lse[i], delta);
    }
}

enum { WRITE_QUERIES = 1, WRITE_KEYS = 2 };

/* What the queries contribute through the keys [begin,end), which lie in one block of keys. */
static void backward_block(const struct run *run, const struct queries *q, int64_t begin,
                           int64_t end, unsigned write, bool accumulate_keys, float *scratch)
{
    const struct cpu_attention *attention = run->attention;
    const struct cpu_attention_gradient *gradient = run->gradient;
    float *p = scratch + CPU_SGEMM_SCRATCH_BYTES / sizeof(float), *ds = p + SCORE_FLOATS;
    gradient_block(run, q, begin, end, p, ds, scratch);
    if (write & WRITE_QUERIES)
        query_product(run, q, ds, &attention->k, begin, end, &gradient->dq, begin > 0, scratch);
    if (write & WRITE_KEYS) {
        key_product(run, q, p, &gradient->dout, begin, end, &gradient->dv, accumulate_keys,
                    scratch);
        key_product(run, q, ds, &attention->q, begin, end, &gradient->dk, accumulate_keys, scratch);
    }
}

/* All of one head's keys, for one block of its queries. */
static void backward_queries(const struct run *run, const struct queries *q, unsigned write,
                             bool accumulate_keys, float *scratch)
{
    int64_t seen = keys_seen(&run->attention->shape, q->end - 1), begin = 0;
    do {
        int64_t end = min64(begin + KEY_BLOCK, seen);
        backward_block(run, q, begin, end, write, accumulate_keys, scratch);
        begin = end;
    } while (begin < seen);
}

static void dq_item(void *arg, int64_t item, int worker)
{
    const struct run *run = arg;
    struct queries q = queries_of_item(&run->attention->shape, item);
    backward_queries(run, &q, WRITE_QUERIES, false, run->scratch[worker]);
}

/* The block of queries that is number `step` in the order in which a key/value head sums. */
static struct queries queries_of_step(const struct cpu_attention_shape *shape, int64_t kv_head,
                                      int64_t step)
{
    int64_t blocks = query_blocks(shape), group = shape->query_heads / shape->kv_heads;
    return queries_of(shape, kv_head / shape->kv_heads,
                      kv_head % shape->kv_heads * group + step / blocks,
                      blocks - 1 - step % blocks);
}

static int64_t steps_of(const struct cpu_attention_shape *shape)
{
    return query_blocks(shape) * (shape->query_heads / shape->kv_heads);
}

static void kv_head_item(void *arg, int64_t item, int worker)
{
    const struct run *run = arg;
    const struct cpu_attention_shape *shape = &run->attention->shape;
    for (int64_t step = 0; step < steps_of(shape); step++) {
        struct queries q = queries_of_step(shape, item, step);
        backward_queries(run, &q, WRITE_QUERIES | WRITE_KEYS, step > 0, run->scratch[worker]);
    }
}

static int64_t key_slices(const struct cpu_attention_shape *shape)
{
    return (shape->kv_length + KEY_SLICE - 1) / KEY_SLICE;
}

static void key_slice_item(void *arg, int64_t item, int worker)
{
    const struct run *run = arg;
    const struct cpu_attention_shape *shape = &run->attention->shape;
    int64_t kv_heads = shape->batch * shape->kv_heads, begin = item / kv_heads * KEY_SLICE;
    for (int64_t step = 0; step < steps_of(shape); step++) {
        struct queries q = queries_of_step(shape, item % kv_heads, step);
        int64_t end = min64(begin + KEY_SLICE, keys_seen(shape, q.end - 1));
        if (begin < end)
            backward_block(run, &q, begin, end, WRITE_KEYS, step > 0, run->scratch[worker]);
    }
}

/* The two-pass form does 7 products for 5. */
static bool one_pass_is_faster(const struct cpu_attention_shape *shape, int threads)
{
    int64_t items = shape->batch * shape->kv_heads;
    int64_t rounds = (items + threads - 1) / threads;
    return 5 * rounds * threads <= 7 * items;
}

void cpu_attention_backward(struct cpu_pool *pool, const struct cpu_functions *functions,
                            const struct cpu_attention *attention,
                            const struct cpu_attention_gradient *gradient, float *const *scratch)
{
    const struct cpu_attention_shape *shape = &attention->shape;
    struct run run = {functions, attention, gradient, scratch};
    int64_t kv_heads = shape->batch * shape->kv_heads;
    if (one_pass_is_faster(shape, cpu_pool_threads(pool))) {
        cpu_pool_run(pool, kv_heads, kv_head_item, &run);
        return;
    }
    cpu_pool_run(pool, shape->batch * shape->query_heads * query_blocks(shape), dq_item, &run);
    cpu_pool_run(pool, kv_heads * key_slices(shape), key_slice_item, &run);
}
