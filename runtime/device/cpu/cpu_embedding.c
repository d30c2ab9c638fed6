/* SPDX-License-Identifier: Apache-2.0 */
/* Embedding rows. Gather splits over tokens; scatter-add gives each item a range of columns (of a
 * rounded table: and of rows, whose sums lie in the scratch) and walks all tokens in order, so no
 * element is shared. */
#include "cpu_embedding.h"

#include "cpu_sgemm.h"

#define GATHER_TOKENS   16
#define SCATTER_COLUMNS 64
#define SCATTER_ROWS    8192 /* of sums of a rounded table */
#define ZERO_BYTES      (256 << 10)

_Static_assert(SCATTER_ROWS *SCATTER_COLUMNS * sizeof(float) + SCATTER_ROWS <= CPU_SCRATCH_BYTES,
               "the sums and their flags fit the scratch");

struct embedding_run {
    const struct cpu_functions *functions;
    const struct cpu_embedding *embedding;
    void *out;
    const void *gradient;
    remat_dtype gradient_type;
    bool accumulate;
    float *const *scratch;
};

/* The row of token t, or -1 where it has an id that is none. */
static int64_t row_of(const struct cpu_embedding *e, int64_t t)
{
    int64_t id = *(const volatile int32_t *)&e->ids[t]; /* what is checked is what is used */
    return id >= 0 && id < e->rows ? id : -1;
}

static int64_t first_bad(const struct cpu_embedding *e)
{
    for (int64_t t = 0; t < e->count; t++)
        if (row_of(e, t) < 0)
            return t;
    return CPU_IDS_VALID;
}

/* --- gather --- */

static void gather_item(void *arg, int64_t item, int worker)
{
    (void)worker;
    const struct embedding_run *run = arg;
    const struct cpu_embedding *e = run->embedding;
    int64_t end = remat_min64((item + 1) * GATHER_TOKENS, e->count);
    for (int64_t t = item * GATHER_TOKENS; t < end; t++) {
        int64_t row = row_of(e, t);
        if (row >= 0)
            memcpy(cpu_element_at(run->out, e->table_type, t * e->width),
                   cpu_element_at(e->table, e->table_type, row * e->width),
                   (size_t)(e->width * remat_dtype_bytes(e->table_type)));
    }
}

int64_t cpu_embedding_gather(struct cpu_pool *pool, const struct cpu_embedding *embedding,
                             void *out)
{
    int64_t bad = first_bad(embedding);
    if (bad != CPU_IDS_VALID)
        return bad;
    struct embedding_run run = {.embedding = embedding, .out = out};
    cpu_pool_run(pool, remat_divide_up(embedding->count, GATHER_TOKENS), gather_item, &run);
    return CPU_IDS_VALID;
}

/* --- scatter-add --- */

static void add_row(const struct embedding_run *run, float *restrict to, int64_t t, int64_t begin,
                    int64_t columns)
{
    const void *from =
        cpu_element_at(run->gradient, run->gradient_type, t * run->embedding->width + begin);
    const float *restrict row = from;
    float wide[SCATTER_COLUMNS];
    if (remat_dtype_is_rounded(run->gradient_type)) {
        run->functions->widen[run->gradient_type](wide, from, columns);
        row = wide;
    }
    for (int64_t j = 0; j < columns; j++)
        to[j] += row[j];
}

/* Into an f32 table. */
static void scatter_item(void *arg, int64_t item, int worker)
{
    (void)worker;
    const struct embedding_run *run = arg;
    const struct cpu_embedding *e = run->embedding;
    int64_t begin = item * SCATTER_COLUMNS,
            columns = remat_min64(e->width - begin, SCATTER_COLUMNS);
    for (int64_t t = 0; t < e->count; t++) {
        int64_t row = row_of(e, t);
        if (row >= 0)
            add_row(run, (float *)e->table + row * e->width + begin, t, begin, columns);
    }
}

static int64_t column_items(const struct cpu_embedding *e)
{
    return remat_divide_up(e->width, SCATTER_COLUMNS);
}

/* Into a rounded table: rows that no token has stay untouched. */
static void scatter_aside_item(void *arg, int64_t item, int worker)
{
    const struct embedding_run *run = arg;
    const struct cpu_embedding *e = run->embedding;
    int64_t first = item / column_items(e) * SCATTER_ROWS,
            rows = remat_min64(e->rows - first, SCATTER_ROWS);
    int64_t begin = item % column_items(e) * SCATTER_COLUMNS;
    int64_t columns = remat_min64(e->width - begin, SCATTER_COLUMNS);
    float *sums = run->scratch[worker];
    char *summed = (char *)(sums + SCATTER_ROWS * SCATTER_COLUMNS);
    remat_dtype type = e->table_type;
    void *table = cpu_element_at(e->table, type, first * e->width + begin);
    memset(summed, 0, (size_t)rows);
    for (int64_t t = 0; t < e->count; t++) {
        int64_t row = row_of(e, t) - first;
        if (row < 0 || row >= rows)
            continue;
        float *sum = sums + row * SCATTER_COLUMNS;
        if (!summed[row] && run->accumulate)
            run->functions->widen[type](sum, cpu_element_at(table, type, row * e->width), columns);
        else if (!summed[row])
            memset(sum, 0, SCATTER_COLUMNS * sizeof *sum);
        summed[row] = 1;
        add_row(run, sum, t, begin, columns);
    }
    for (int64_t row = 0; row < rows; row++)
        if (summed[row])
            run->functions->narrow[type](cpu_element_at(table, type, row * e->width),
                                         sums + row * SCATTER_COLUMNS, columns);
}

static int64_t table_bytes(const struct cpu_embedding *e)
{
    return e->rows * e->width * remat_dtype_bytes(e->table_type);
}

static void zero_item(void *arg, int64_t item, int worker)
{
    (void)worker;
    const struct embedding_run *run = arg;
    int64_t begin = item * ZERO_BYTES,
            end = remat_min64(begin + ZERO_BYTES, table_bytes(run->embedding));
    memset((char *)run->embedding->table + begin, 0, (size_t)(end - begin));
}

int64_t cpu_embedding_scatter_add(struct cpu_pool *pool, const struct cpu_functions *functions,
                                  const struct cpu_embedding *embedding, const void *gradient,
                                  remat_dtype gradient_type, bool accumulate, float *const *scratch)
{
    int64_t bad = first_bad(embedding);
    if (bad != CPU_IDS_VALID)
        return bad;
    struct embedding_run run = {functions,     embedding,  NULL,   gradient,
                                gradient_type, accumulate, scratch};
    if (!accumulate)
        cpu_pool_run(pool, remat_divide_up(table_bytes(embedding), ZERO_BYTES), zero_item, &run);
    if (remat_dtype_is_rounded(embedding->table_type))
        cpu_pool_run(pool, column_items(embedding) * remat_divide_up(embedding->rows, SCATTER_ROWS),
                     scatter_aside_item, &run);
    else
        cpu_pool_run(pool, column_items(embedding), scatter_item, &run);
    return CPU_IDS_VALID;
}
