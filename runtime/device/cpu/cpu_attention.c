/* SPDX-License-Identifier: Apache-2.0 */
/* Attention on small serial sgemms. The unit of work is a score block: 64 queries of one head
 * against the keys [begin,end), whole rows up to 4096 keys, in the scratch after the sgemm's.
 *
 * Forward: one item per (head, query block). Backward has two forms with the same bits, because
 * every element sums the same products in the same order: either one item per key/value head does
 * dQ, dK and dV, or, where that leaves threads idle, one pass of items (head, query block) does dQ
 * and another of items (key/value head, 256 keys) does dK and dV, recomputing the scores. */
#include "cpu_attention.h"

#include "cpu_math.h"
#include "cpu_sgemm.h"

#include <assert.h>
#include <math.h>

#define QUERY_BLOCK   CPU_ATTENTION_QUERY_BLOCK
#define KEY_BLOCK     CPU_ATTENTION_KEY_BLOCK
#define ROUNDED_BLOCK 3840             /* ten blocks of the sgemm, and room for sums in f32 */
#define KEY_SLICE     256              /* keys of an item of the dK, dV pass */
#define SCORE_STRIDE  (KEY_BLOCK + 16) /* no power of two: rows lie in different cache sets */
#define SCORE_FLOATS  (QUERY_BLOCK * SCORE_STRIDE)

_Static_assert(CPU_SGEMM_SCRATCH_BYTES + 2 * SCORE_FLOATS * sizeof(float) <= CPU_SCRATCH_BYTES,
               "two score blocks fit the scratch");
_Static_assert(CPU_SGEMM_SCRATCH_BYTES % 64 == 0, "score blocks are aligned");
_Static_assert(2 * QUERY_BLOCK * (ROUNDED_BLOCK + 16) + QUERY_BLOCK * CPU_ATTENTION_ROUNDED_DIM <=
                       2 * SCORE_FLOATS &&
                   2 * QUERY_BLOCK * (KEY_SLICE + 16) +
                           (QUERY_BLOCK + 2 * KEY_SLICE) * CPU_ATTENTION_ROUNDED_DIM <=
                       2 * SCORE_FLOATS,
               "rounded: score blocks and sums fit the scratch");

/* Score blocks have rows of score_stride. After two of them lie, where tensors are rounded, the
 * rows of results that are being summed in f32: of O or dQ, then of dK, then of dV. */
struct attention_run {
    const struct cpu_functions *functions;
    const struct cpu_attention *attention;
    const struct cpu_attention_gradient *gradient;
    float *const *scratch;
    int64_t key_block, score_stride;
};

static struct attention_run make_run(const struct cpu_functions *functions,
                                     const struct cpu_attention *attention,
                                     const struct cpu_attention_gradient *gradient,
                                     float *const *scratch)
{
    struct attention_run run = {functions, attention, gradient, scratch, KEY_BLOCK, SCORE_STRIDE};
    int64_t keys = attention->shape.kv_length;
    if (remat_dtype_is_rounded(attention->type)) {
        run.key_block = ROUNDED_BLOCK;
        run.score_stride = (keys < ROUNDED_BLOCK ? (keys + 63) / 64 * 64 : ROUNDED_BLOCK) + 16;
    }
    return run;
}

static float *scores_of(const struct attention_run *run, int worker)
{
    return run->scratch[worker] + CPU_SGEMM_SCRATCH_BYTES / sizeof(float);
}

static float *sums_of(const struct attention_run *run, int worker)
{
    return scores_of(run, worker) + 2 * QUERY_BLOCK * run->score_stride;
}

static int64_t clamp64(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : remat_min64(x, high);
}

static void *at(const struct attention_run *run, const struct cpu_heads *x, int64_t batch,
                int64_t time, int64_t head)
{
    return cpu_element_at(x->data, run->attention->type,
                          batch * x->batch + time * x->time + head * x->head);
}

/* Rows of a result while they are summed: the tensor's own, or where it is rounded rows of f32
 * aside. */
struct score_rows {
    float *data;
    int64_t stride;
};

static struct score_rows rows_of(const struct attention_run *run, const struct cpu_heads *x,
                                 int64_t batch, int64_t time, int64_t head, float *aside)
{
    if (!remat_dtype_is_rounded(run->attention->type))
        return (struct score_rows){at(run, x, batch, time, head), x->time};
    return (struct score_rows){aside, run->attention->shape.head_dim};
}

static void store_rows(const struct attention_run *run, const struct score_rows *rows,
                       const struct cpu_heads *x, int64_t batch, int64_t begin, int64_t end,
                       int64_t head)
{
    if (!remat_dtype_is_rounded(run->attention->type))
        return;
    for (int64_t i = begin; i < end; i++)
        run->functions->narrow[run->attention->type](at(run, x, batch, i, head),
                                                     rows->data + (i - begin) * rows->stride,
                                                     run->attention->shape.head_dim);
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
                            remat_min64(begin + QUERY_BLOCK, shape->query_length)};
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

/* --- segments --- */

static bool sees(const struct cpu_attention *a, int64_t batch, int64_t query, int64_t key)
{
    const struct cpu_attention_shape *shape = &a->shape;
    int32_t own = a->query_segments ? a->query_segments[batch * shape->query_length + query] : 0;
    int32_t other = a->key_segments ? a->key_segments[batch * shape->kv_length + key] : 0;
    return own == other && other >= 0;
}

static bool has_segments(const struct cpu_attention *a)
{
    return a->query_segments || a->key_segments;
}

/* How many of the keys from `begin` to `end` query number `row` of q has to look at: up to the last
 * that it may see, none where it sees none of these. */
static int64_t keys_valid(const struct attention_run *run, const struct queries *q, int64_t row,
                          int64_t begin, int64_t end)
{
    const struct cpu_attention *a = run->attention;
    int64_t valid = clamp64(keys_seen(&a->shape, q->begin + row) - begin, 0, end - begin);
    if (!has_segments(a))
        return valid;
    for (int64_t j = 0; j < valid; j++)
        if (sees(a, q->batch, q->begin + row, begin + j))
            return valid;
    return 0;
}

/* x[j] becomes `hidden` for each of the keys from `begin` on that the query does not see. */
static void hide(const struct attention_run *run, const struct queries *q, int64_t row,
                 int64_t begin, int64_t valid, float *x, float hidden)
{
    const struct cpu_attention *a = run->attention;
    for (int64_t j = 0; j < valid && has_segments(a); j++)
        if (!sees(a, q->batch, q->begin + row, begin + j))
            x[j] = hidden;
}

/* --- the products of a score block --- */

/* scores[i][j] = x_i . y_j over head_dim, for the queries' rows of x and the keys [begin,end) */
static void score_product(const struct attention_run *run, const struct queries *q,
                          const struct cpu_heads *x, const struct cpu_heads *y, int64_t begin,
                          int64_t end, float *scores, float *scratch)
{
    struct cpu_matmul mm = {.m = q->end - q->begin,
                            .n = end - begin,
                            .k = run->attention->shape.head_dim,
                            .a = at(run, x, q->batch, q->begin, q->head),
                            .a_row = x->time,
                            .a_column = 1,
                            .a_type = run->attention->type,
                            .b = at(run, y, q->batch, begin, q->kv_head),
                            .b_row = 1,
                            .b_column = y->time,
                            .b_type = run->attention->type,
                            .c = scores,
                            .c_type = REMAT_F32,
                            .ldc = run->score_stride};
    cpu_sgemm_serial(run->functions, &mm, scratch);
}

/* The queries' rows z (+)= scores y, over the keys [begin,end) */
static void query_product(const struct attention_run *run, const struct queries *q,
                          const float *scores, const struct cpu_heads *y, int64_t begin,
                          int64_t end, const struct score_rows *z, bool accumulate, float *scratch)
{
    struct cpu_matmul mm = {.m = q->end - q->begin,
                            .n = run->attention->shape.head_dim,
                            .k = end - begin,
                            .a = scores,
                            .a_type = REMAT_F32,
                            .a_row = run->score_stride,
                            .a_column = 1,
                            .b = at(run, y, q->batch, begin, q->kv_head),
                            .b_row = y->time,
                            .b_column = 1,
                            .b_type = run->attention->type,
                            .c = z->data,
                            .c_type = REMAT_F32,
                            .ldc = z->stride,
                            .accumulate = accumulate};
    cpu_sgemm_serial(run->functions, &mm, scratch);
}

/* `keys` rows z, one per key, (+)= scores^T x, over the queries */
static void key_product(const struct attention_run *run, const struct queries *q,
                        const float *scores, const struct cpu_heads *x, int64_t keys,
                        const struct score_rows *z, bool accumulate, float *scratch)
{
    struct cpu_matmul mm = {.m = keys,
                            .n = run->attention->shape.head_dim,
                            .k = q->end - q->begin,
                            .a = scores,
                            .a_type = REMAT_F32,
                            .a_row = 1,
                            .a_column = run->score_stride,
                            .b = at(run, x, q->batch, q->begin, q->head),
                            .b_row = x->time,
                            .b_column = 1,
                            .b_type = run->attention->type,
                            .c = z->data,
                            .c_type = REMAT_F32,
                            .ldc = z->stride,
                            .accumulate = accumulate};
    cpu_sgemm_serial(run->functions, &mm, scratch);
}

/* --- dropout --- */

/* The random numbers of query number `row` and the keys [begin, begin + count). */
static void draw(const struct attention_run *run, const struct queries *q, int64_t row,
                 int64_t begin, int64_t count, float *uniforms)
{
    const struct cpu_attention_shape *shape = &run->attention->shape;
    const struct cpu_dropout *dropout = &run->attention->dropout;
    uint64_t entry = (uint64_t)q->batch + dropout->microbatch * (uint64_t)shape->batch;
    uint64_t query =
        (entry * (uint64_t)shape->query_heads + (uint64_t)q->head) * (uint64_t)shape->query_length +
        (uint64_t)(q->begin + row);
    uint64_t index = query * (uint64_t)shape->kv_length + (uint64_t)begin;
    run->functions->uniforms(uniforms, index, count, dropout->site | (uint64_t)dropout->step << 32,
                             dropout->seed);
}

static void drop(const struct attention_run *run, float *row, const float *uniforms, int64_t count)
{
    const struct cpu_dropout *dropout = &run->attention->dropout;
    run->functions->dropout_row(row, uniforms, count, dropout->p, dropout->factor);
}

/* --- forward --- */

static void scale_row(float *row, int64_t count, float factor)
{
    for (int64_t d = 0; d < count; d++)
        row[d] *= factor;
}

/* Turns the scores of keys [begin,end) into exponentials, and rescales what came before. */
static void softmax_block(const struct attention_run *run, const struct queries *q, int64_t begin,
                          int64_t end, float *scores, const struct score_rows *out, float *maximum,
                          float *sum)
{
    const struct cpu_attention *attention = run->attention;
    float uniforms[KEY_BLOCK];
    for (int64_t i = 0; i < q->end - q->begin; i++) {
        int64_t valid = keys_valid(run, q, i, begin, end);
        float before = maximum[i], *row = scores + i * run->score_stride;
        hide(run, q, i, begin, valid, row, -copysignf(INFINITY, attention->shape.scale));
        float added = run->functions->softmax_row(row, valid, end - begin, attention->shape.scale,
                                                  &maximum[i]);
        if (begin == 0) {
            sum[i] = added;
        } else if (valid > 0) {
            float factor = cpu_exp(before - maximum[i]);
            sum[i] = sum[i] * factor + added;
            scale_row(out->data + i * out->stride, attention->shape.head_dim, factor);
        }
        if (attention->dropout.p > 0 && valid > 0) {
            draw(run, q, i, begin, valid, uniforms);
            drop(run, row, uniforms, valid);
        }
    }
}

/* Divides by the sums and stores O and LSE. */
static void finish_rows(const struct attention_run *run, const struct queries *q,
                        const struct score_rows *out, const float *maximum, const float *sum)
{
    const struct cpu_attention *attention = run->attention;
    const struct cpu_attention_shape *shape = &attention->shape;
    float *lse =
        attention->lse + (q->batch * shape->query_heads + q->head) * shape->query_length + q->begin;
    for (int64_t i = 0; i < q->end - q->begin; i++) {
        bool any = keys_seen(shape, q->begin + i) > 0 && !(has_segments(attention) && sum[i] == 0);
        scale_row(out->data + i * out->stride, shape->head_dim, any ? 1.0f / sum[i] : 0.0f);
        lse[i] = any ? maximum[i] + cpu_log(sum[i]) : -__builtin_inff();
    }
    store_rows(run, out, &attention->out, q->batch, q->begin, q->end, q->head);
}

static void forward_item(void *arg, int64_t item, int worker)
{
    const struct attention_run *run = arg;
    const struct cpu_attention *attention = run->attention;
    struct queries q = queries_of_item(&attention->shape, item);
    float *scratch = run->scratch[worker], *scores = scores_of(run, worker);
    struct score_rows out =
        rows_of(run, &attention->out, q.batch, q.begin, q.head, sums_of(run, worker));
    float maximum[QUERY_BLOCK], sum[QUERY_BLOCK];
    for (int i = 0; i < QUERY_BLOCK; i++) {
        maximum[i] = -__builtin_inff();
        sum[i] = 0.0f;
    }
    int64_t seen = keys_seen(&attention->shape, q.end - 1), begin = 0;
    do { /* once also when no key is seen: that stores zeros */
        int64_t end = remat_min64(begin + run->key_block, seen);
        score_product(run, &q, &attention->q, &attention->k, begin, end, scores, scratch);
        softmax_block(run, &q, begin, end, scores, &out, maximum, sum);
        query_product(run, &q, scores, &attention->v, begin, end, &out, begin > 0, scratch);
        begin = end;
    } while (begin < seen);
    finish_rows(run, &q, &out, maximum, sum);
}

void cpu_attention_forward(struct cpu_pool *pool, const struct cpu_functions *functions,
                           const struct cpu_attention *attention, float *const *scratch)
{
    assert(attention->shape.query_heads % attention->shape.kv_heads == 0);
    const struct cpu_attention_shape *shape = &attention->shape;
    struct attention_run run = make_run(functions, attention, NULL, scratch);
    cpu_pool_run(pool, shape->batch * shape->query_heads * query_blocks(shape), forward_item, &run);
}

/* --- backward --- */

/* dout . out of query number `row` */
static float delta_of(const struct attention_run *run, const struct queries *q, int64_t row)
{
    const struct cpu_attention *attention = run->attention;
    int64_t dim = attention->shape.head_dim;
    const void *x = at(run, &run->gradient->dout, q->batch, q->begin + row, q->head);
    const void *y = at(run, &attention->out, q->batch, q->begin + row, q->head);
    if (!remat_dtype_is_rounded(attention->type))
        return run->functions->dot_row(x, y, dim);
    float wide[2][CPU_ATTENTION_ROUNDED_DIM];
    run->functions->widen[attention->type](wide[0], x, dim);
    run->functions->widen[attention->type](wide[1], y, dim);
    return run->functions->dot_row(wide[0], wide[1], dim);
}

/* Fills p with the probabilities (after dropout) and ds with the gradients of Q K^T, for keys
 * [begin,end). */
static void gradient_block(const struct attention_run *run, const struct queries *q, int64_t begin,
                           int64_t end, float *p, float *ds, float *scratch)
{
    const struct cpu_attention *attention = run->attention;
    const struct cpu_attention_shape *shape = &attention->shape;
    const float *lse =
        attention->lse + (q->batch * shape->query_heads + q->head) * shape->query_length + q->begin;
    float uniforms[KEY_BLOCK];
    score_product(run, q, &attention->q, &attention->k, begin, end, p, scratch);
    score_product(run, q, &run->gradient->dout, &attention->v, begin, end, ds, scratch);
    for (int64_t i = 0; i < q->end - q->begin;
         i++, p += run->score_stride, ds += run->score_stride) {
        int64_t valid = keys_valid(run, q, i, begin, end);
        bool drops = attention->dropout.p > 0 && valid > 0;
        if (drops) {
            draw(run, q, i, begin, valid, uniforms);
            drop(run, ds, uniforms, valid);
        }
        run->functions->softmax_gradient_row(p, ds, valid, end - begin, shape->scale, lse[i],
                                             delta_of(run, q, i));
        if (drops)
            drop(run, p, uniforms, valid);
        hide(run, q, i, begin, valid, p, 0);
        hide(run, q, i, begin, valid, ds, 0);
    }
}

enum { WRITE_QUERIES = 1, WRITE_KEYS = 2 };

/* Where the gradients of some queries, and of the keys from first_key on, are summed. */
struct sums {
    struct score_rows dq, dk, dv;
    int64_t first_key;
};

static struct sums sums_of_keys(const struct attention_run *run, int64_t batch, int64_t kv_head,
                                int64_t begin, int64_t end, int worker)
{
    int64_t dim = run->attention->shape.head_dim;
    float *aside = sums_of(run, worker) + QUERY_BLOCK * dim;
    return (struct sums){
        .dk = rows_of(run, &run->gradient->dk, batch, begin, kv_head, aside),
        .dv = rows_of(run, &run->gradient->dv, batch, begin, kv_head, aside + (end - begin) * dim),
        .first_key = begin,
    };
}

static void store_keys(const struct attention_run *run, const struct sums *sums, int64_t batch,
                       int64_t kv_head, int64_t end)
{
    store_rows(run, &sums->dk, &run->gradient->dk, batch, sums->first_key, end, kv_head);
    store_rows(run, &sums->dv, &run->gradient->dv, batch, sums->first_key, end, kv_head);
}

/* What the queries contribute through the keys [begin,end), which lie in one block of keys. */
static void backward_block(const struct attention_run *run, const struct queries *q, int64_t begin,
                           int64_t end, unsigned write, const struct sums *sums,
                           bool accumulate_keys, int worker)
{
    const struct cpu_attention *attention = run->attention;
    float *scratch = run->scratch[worker], *p = scores_of(run, worker);
    float *ds = p + QUERY_BLOCK * run->score_stride;
    gradient_block(run, q, begin, end, p, ds, scratch);
    if (write & WRITE_QUERIES)
        query_product(run, q, ds, &attention->k, begin, end, &sums->dq, begin > 0, scratch);
    if (write & WRITE_KEYS) {
        struct score_rows dk = sums->dk, dv = sums->dv;
        dk.data += (begin - sums->first_key) * dk.stride;
        dv.data += (begin - sums->first_key) * dv.stride;
        key_product(run, q, p, &run->gradient->dout, end - begin, &dv, accumulate_keys, scratch);
        key_product(run, q, ds, &attention->q, end - begin, &dk, accumulate_keys, scratch);
    }
}

/* All of one head's keys, for one block of its queries. */
static void backward_queries(const struct attention_run *run, const struct queries *q,
                             unsigned write, struct sums *sums, bool accumulate_keys, int worker)
{
    const struct cpu_heads *dq = &run->gradient->dq;
    int64_t seen = keys_seen(&run->attention->shape, q->end - 1), begin = 0;
    sums->dq = rows_of(run, dq, q->batch, q->begin, q->head, sums_of(run, worker));
    do {
        int64_t end = remat_min64(begin + run->key_block, seen);
        backward_block(run, q, begin, end, write, sums, accumulate_keys, worker);
        begin = end;
    } while (begin < seen);
    store_rows(run, &sums->dq, dq, q->batch, q->begin, q->end, q->head);
}

static void dq_item(void *arg, int64_t item, int worker)
{
    const struct attention_run *run = arg;
    struct queries q = queries_of_item(&run->attention->shape, item);
    struct sums sums = {.first_key = 0};
    backward_queries(run, &q, WRITE_QUERIES, &sums, false, worker);
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
    const struct attention_run *run = arg;
    const struct cpu_attention_shape *shape = &run->attention->shape;
    int64_t batch = item / shape->kv_heads, kv_head = item % shape->kv_heads;
    struct sums sums = sums_of_keys(run, batch, kv_head, 0, shape->kv_length, worker);
    for (int64_t step = 0; step < steps_of(shape); step++) {
        struct queries q = queries_of_step(shape, item, step);
        backward_queries(run, &q, WRITE_QUERIES | WRITE_KEYS, &sums, step > 0, worker);
    }
    store_keys(run, &sums, batch, kv_head, shape->kv_length);
}

static int64_t key_slices(const struct cpu_attention_shape *shape)
{
    return (shape->kv_length + KEY_SLICE - 1) / KEY_SLICE;
}

static void key_slice_item(void *arg, int64_t item, int worker)
{
    const struct attention_run *run = arg;
    const struct cpu_attention_shape *shape = &run->attention->shape;
    int64_t heads = shape->batch * shape->kv_heads, begin = item / heads * KEY_SLICE;
    int64_t batch = item % heads / shape->kv_heads, kv_head = item % shape->kv_heads;
    int64_t slice_end = remat_min64(begin + KEY_SLICE, shape->kv_length);
    struct sums sums = sums_of_keys(run, batch, kv_head, begin, slice_end, worker);
    for (int64_t step = 0; step < steps_of(shape); step++) {
        struct queries q = queries_of_step(shape, item % heads, step);
        int64_t end = remat_min64(slice_end, keys_seen(shape, q.end - 1));
        if (begin < end)
            backward_block(run, &q, begin, end, WRITE_KEYS, &sums, step > 0, worker);
    }
    store_keys(run, &sums, batch, kv_head, slice_end);
}

/* The two-pass form does 7 products for 5. */
static bool one_pass_is_faster(const struct cpu_attention_shape *shape, int threads)
{
    int64_t items = shape->batch * shape->kv_heads;
    int64_t rounds = (items + threads - 1) / threads;
    return 5 * rounds * threads <= 7 * items;
}

/* Whether the sums of a whole head lie beside its scores. */
static bool one_pass_fits(const struct attention_run *run)
{
    const struct cpu_attention_shape *shape = &run->attention->shape;
    return !remat_dtype_is_rounded(run->attention->type) ||
           2 * QUERY_BLOCK * run->score_stride +
                   (QUERY_BLOCK + 2 * shape->kv_length) * shape->head_dim <=
               2 * SCORE_FLOATS;
}

void cpu_attention_backward(struct cpu_pool *pool, const struct cpu_functions *functions,
                            const struct cpu_attention *attention,
                            const struct cpu_attention_gradient *gradient, float *const *scratch)
{
    assert(attention->shape.query_heads % attention->shape.kv_heads == 0);
    const struct cpu_attention_shape *shape = &attention->shape;
    struct attention_run run = make_run(functions, attention, gradient, scratch);
    int64_t kv_heads = shape->batch * shape->kv_heads;
    if (one_pass_is_faster(shape, cpu_pool_threads(pool)) && one_pass_fits(&run)) {
        cpu_pool_run(pool, kv_heads, kv_head_item, &run);
        return;
    }
    cpu_pool_run(pool, shape->batch * shape->query_heads * query_blocks(shape), dq_item, &run);
    if (remat_dtype_is_rounded(attention->type))
        run.score_stride = KEY_SLICE + 16;
    cpu_pool_run(pool, kv_heads * key_slices(shape), key_slice_item, &run);
}
