/* Embedding gather and scatter-add: values, fixed order, out-of-range ids. */
#include "check.h"
#include "cpu_embedding.h"

enum { ROWS = 500, TOKENS = 1000 };

static void check_gather(struct test *test, struct test_pools *pools, const float *table,
                         int64_t width, const int32_t *ids)
{
    float *out = test_memory((size_t)(TOKENS * width) * sizeof *out);
    for (int threads = 1; threads <= TEST_THREADS; threads++) {
        memset(out, 0xff, (size_t)(TOKENS * width) * sizeof *out);
        int64_t bad =
            cpu_embedding_gather(pools->pool[threads], table, ROWS, width, ids, TOKENS, out);
        CHECK(test, bad == CPU_IDS_VALID, "gather refuses id %lld", (long long)bad);
        for (int64_t t = 0; t < TOKENS; t++)
            CHECK(test,
                  memcmp(out + t * width, table + ids[t] * width, (size_t)width * sizeof *out) == 0,
                  "gather: row %lld of width %lld", (long long)t, (long long)width);
    }
    free(out);
}

static void check_scatter(struct test *test, struct test_pools *pools, const float *table,
                          int64_t width, const int32_t *ids)
{
    float *gradient = test_floats(test, TOKENS * width);
    size_t bytes = (size_t)(ROWS * width) * sizeof(float);
    float *expected = test_memory(bytes), *out = test_memory(bytes);
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        memset(expected, 0, bytes);
        if (accumulate)
            memcpy(expected, table, bytes);
        for (int64_t t = 0; t < TOKENS; t++)
            for (int64_t j = 0; j < width; j++)
                expected[ids[t] * width + j] += gradient[t * width + j];
        for (int threads = 1; threads <= TEST_THREADS; threads++) {
            memcpy(out, table, bytes);
            int64_t bad = cpu_embedding_scatter_add(pools->pool[threads], gradient, ids, TOKENS,
                                                    out, ROWS, width, accumulate);
            CHECK(test, bad == CPU_IDS_VALID && memcmp(out, expected, bytes) == 0,
                  "scatter-add: width %lld, %d threads, accumulate %d", (long long)width, threads,
                  accumulate);
        }
    }
    free(gradient);
    free(expected);
    free(out);
}

static void check_range(struct test *test, struct test_pools *pools)
{
    static const int32_t bad_ids[] = {-1, 4, INT32_MIN, INT32_MAX};
    float table[4] = {1, 2, 3, 4}, rows[3] = {9, 9, 9};
    for (int i = 0; i < 4; i++) {
        int32_t ids[3] = {3, 0, bad_ids[i]};
        CHECK(test, cpu_embedding_gather(pools->pool[2], table, 4, 1, ids, 3, rows) == 2,
              "gather accepts id %d", (int)bad_ids[i]);
        CHECK(test, rows[0] == 9, "gather wrote before it failed");
        CHECK(test,
              cpu_embedding_scatter_add(pools->pool[2], rows, ids, 3, table, 4, 1, false) == 2,
              "scatter-add accepts id %d", (int)bad_ids[i]);
        CHECK(test, table[3] == 4, "scatter-add wrote before it failed");
    }
}

int main(void)
{
    struct test test = test_begin("embedding");
    struct test_pools pools;
    test_pools_create(&test, &pools);
    static const int64_t widths[] = {1, 63, 64, 200};
    int32_t ids[TOKENS];
    for (int t = 0; t < TOKENS; t++)
        ids[t] = (int32_t)(test_random(&test) % (t % 3 ? ROWS : 3)); /* a few ids often */
    for (int w = 0; w < 4; w++) {
        float *table = test_floats(&test, ROWS * widths[w]);
        check_gather(&test, &pools, table, widths[w], ids);
        check_scatter(&test, &pools, table, widths[w], ids);
        free(table);
    }
    check_range(&test, &pools);
    test_pools_destroy(&pools);
    return test_end(&test);
}
