/* SPDX-License-Identifier: Apache-2.0 */
/* Embedding gather and scatter-add in f32 and bf16: values, fixed order, out-of-range ids. */
#include "cpu_embedding.h"
#include "cpu_test.h"

enum { ROWS = 500, TOKENS = 1000, MANY_ROWS = 20000 };

static void check_gather(struct test_pools *pools, const struct cpu_embedding *embedding)
{
    remat_dtype type = embedding->table_type;
    size_t row = (size_t)(embedding->width * remat_dtype_bytes(type));
    void *out = test_memory(TOKENS * row);
    for (int threads = 1; threads <= TEST_THREADS; threads++) {
        memset(out, 0xff, TOKENS * row);
        int64_t bad = cpu_embedding_gather(pools->pool[threads], embedding, out);
        CHECK(bad == CPU_IDS_VALID, "gather refuses id %lld", (long long)bad);
        for (int64_t t = 0; t < TOKENS; t++)
            CHECK(
                memcmp(cpu_element_at(out, type, t * embedding->width),
                       cpu_element_at(embedding->table, type, embedding->ids[t] * embedding->width),
                       row) == 0,
                "gather: row %lld of width %lld", (long long)t, (long long)embedding->width);
    }
    free(out);
}

/* Sums in f32, in order of position, and one rounding at the end. */
static void reference(const struct cpu_embedding *e, const void *gradient, remat_dtype type,
                      bool accumulate, void *expected)
{
    float *sums = test_memory((size_t)(e->rows * e->width) * sizeof *sums);
    for (int64_t i = 0; i < e->rows * e->width; i++)
        sums[i] = accumulate ? test_load(e->table, e->table_type, i) : 0.0f;
    for (int64_t t = 0; t < e->count; t++)
        for (int64_t j = 0; j < e->width; j++)
            sums[e->ids[t] * e->width + j] += test_load(gradient, type, t * e->width + j);
    for (int64_t i = 0; i < e->rows * e->width; i++)
        test_store(expected, e->table_type, i, sums[i]);
    free(sums);
}

static void check_scatter(struct test *test, struct test_pools *pools,
                          const struct cpu_embedding *embedding, remat_dtype type)
{
    struct cpu_embedding into = *embedding;
    void *gradient = test_elements(test, type, TOKENS * into.width);
    size_t bytes = (size_t)(into.rows * into.width * remat_dtype_bytes(into.table_type));
    void *expected = test_memory(bytes);
    into.table = test_memory(bytes);
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        reference(embedding, gradient, type, accumulate, expected);
        for (int threads = 1; threads <= TEST_THREADS; threads++)
            FOR_EACH_ISA(functions)
            {
                memcpy(into.table, embedding->table, bytes);
                int64_t bad = cpu_embedding_scatter_add(pools->pool[threads], functions, &into,
                                                        gradient, type, accumulate, pools->scratch);
                CHECK(bad == CPU_IDS_VALID && memcmp(into.table, expected, bytes) == 0,
                      "scatter-add: width %lld, types %d %d, %d threads, accumulate %d on %s",
                      (long long)into.width, (int)type, (int)into.table_type, threads, accumulate,
                      functions->name);
            }
    }
    free(gradient);
    free(expected);
    free(into.table);
}

static void check_range(struct test_pools *pools)
{
    static const int32_t bad_ids[] = {-1, 4, INT32_MIN, INT32_MAX};
    float table[4] = {1, 2, 3, 4}, rows[3] = {9, 9, 9};
    for (int i = 0; i < 4; i++) {
        int32_t ids[3] = {3, 0, bad_ids[i]};
        struct cpu_embedding embedding = {table, 4, 1, REMAT_F32, ids, 3};
        CHECK(cpu_embedding_gather(pools->pool[2], &embedding, rows) == 2, "gather accepts id %d",
              (int)bad_ids[i]);
        CHECK(rows[0] == 9, "gather wrote before it failed");
        CHECK(cpu_embedding_scatter_add(pools->pool[2], cpu_functions_best(), &embedding, rows,
                                        REMAT_F32, false, pools->scratch) == 2,
              "scatter-add accepts id %d", (int)bad_ids[i]);
        CHECK(table[3] == 4, "scatter-add wrote before it failed");
    }
}

/* Results over the ids: what the next tokens have is no id. They are passed over. */
static void check_changed(struct test_pools *pools)
{
    float table[8] = {1e30f}, gradient[4] = {1e30f, 1, 1, 1};
    int32_t ids[8] = {0};
    struct cpu_embedding embedding = {table, 4, 1, REMAT_F32, ids, 4};
    (void)cpu_embedding_gather(pools->pool[1], &embedding, ids + 1);
    CHECK(memcmp(ids + 1, table, 4) == 0 && ids[2] == 0, "gather uses an id that is none: %d",
          (int)ids[2]);
    const int32_t into[4] = {3, 1, 1, 1};
    memset(table, 0, sizeof table);
    memcpy(table + 2, into, sizeof into);
    embedding.ids = (const int32_t *)(const void *)(table + 2); /* row 3 is the second id */
    (void)cpu_embedding_scatter_add(pools->pool[1], cpu_functions_best(), &embedding, gradient,
                                    REMAT_F32, true, pools->scratch);
    CHECK(table[3] == 1e30f && table[1] == 2, "scatter-add uses an id that is none: %g %g",
          (double)table[3], (double)table[1]);
}

static void check(struct test *test, struct test_pools *pools, int64_t rows, int64_t width)
{
    int32_t ids[TOKENS];
    for (int t = 0; t < TOKENS; t++)
        ids[t] = (int32_t)(test_random(test) % (uint32_t)(t % 3 ? rows : 3)); /* a few ids often */
    for (int types = 0; types < 4; types++) {
        remat_dtype table_type = types & 1 ? REMAT_BF16 : REMAT_F32;
        struct cpu_embedding embedding = {
            test_elements(test, table_type, rows * width), rows, width, table_type, ids, TOKENS};
        check_gather(pools, &embedding);
        check_scatter(test, pools, &embedding, types & 2 ? REMAT_BF16 : REMAT_F32);
        free(embedding.table);
    }
}

int main(void)
{
    struct test test = test_begin();
    struct test_pools pools;
    test_pools_create(&test, &pools);
    static const int64_t widths[] = {1, 63, 64, 200};
    for (int w = 0; w < 4; w++)
        check(&test, &pools, ROWS, widths[w]);
    check(&test, &pools, MANY_ROWS, 70);
    check_range(&pools);
    check_changed(&pools);
    test_pools_destroy(&pools);
    return test_end(&test);
}
