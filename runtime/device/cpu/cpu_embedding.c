/* Embedding rows. Gather splits over tokens; scatter-add gives each item a range of columns and
 * walks all tokens in order, so no element is shared. */
#include "cpu_embedding.h"

#define GATHER_TOKENS   16
#define SCATTER_COLUMNS 64
#define ZERO_FLOATS     (64 << 10)

struct run {
    const float *from; /* the table, or the gradient */
    const int32_t *ids;
    int64_t count, width;
    float *to;
    int64_t to_floats;
};

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

int64_t cpu_embedding_check(const int32_t *ids, int64_t count, int64_t rows)
{
    for (int64_t t = 0; t < count; t++)
        if (ids[t] < 0 || ids[t] >= rows)
            return t;
    return CPU_IDS_VALID;
}

static void gather_item(void *arg, int64_t item, int worker)
{
    (void)worker;
    const struct run *run = arg;
    int64_t end = min64((item + 1) * GATHER_TOKENS, run->count);
    for (int64_t t = item * GATHER_TOKENS; t < end; t++)
        memcpy(run->to + t * run->width, run->from + run->ids[t] * run->width,
               (size_t)run->width * sizeof(float));
}

int64_t cpu_embedding_gather(struct cpu_pool *pool, const float *table, int64_t rows, int64_t width,
                             const int32_t *ids, int64_t count, float *out)
{
    int64_t bad = cpu_embedding_check(ids, count, rows);
    if (bad != CPU_IDS_VALID)
        return bad;
    struct run run = {.from = table, .ids = ids, .count = count, .width = width, .to = out};
    cpu_pool_run(pool, ceil_div(count, GATHER_TOKENS), gather_item, &run);
    return CPU_IDS_VALID;
}

static void zero_item(void *arg, int64_t item, int worker)
{
    (void)worker;
    const struct run *run = arg;
    int64_t begin = item * ZERO_FLOATS, end = min64(begin + ZERO_FLOATS, run->to_floats);
    memset(run->to + begin, 0, (size_t)(end - begin) * sizeof(float));
}

static void scatter_item(void *arg, int64_t item, int worker)
{
    (void)worker;
    const struct run *run = arg;
    int64_t begin = item * SCATTER_COLUMNS, columns = min64(run->width - begin, SCATTER_COLUMNS);
    for (int64_t t = 0; t < run->count; t++) {
        float *restrict to = run->to + run->ids[t] * run->width + begin;
        const float *restrict from = run->from + t * run->width + begin;
        for (int64_t j = 0; j < columns; j++)
            to[j] += from[j];
    }
}

int64_t cpu_embedding_scatter_add(struct cpu_pool *pool, const float *gradient, const int32_t *ids,
                                  int64_t count, float *table, int64_t rows, int64_t width,
                                  bool accumulate)
{
    int64_t bad = cpu_embedding_check(ids, count, rows);
    if (bad != CPU_IDS_VALID)
        return bad;
    struct run run = {gradient, ids, count, width, table, rows * width};
    if (!accumulate)
        cpu_pool_run(pool, ceil_div(run.to_floats, ZERO_FLOATS), zero_item, &run);
    cpu_pool_run(pool, ceil_div(width, SCATTER_COLUMNS), scatter_item, &run);
    return CPU_IDS_VALID;
}
