/* SPDX-License-Identifier: Apache-2.0 */
/* The table of rotary positions against long double, for short and long contexts and Llama 3's
 * scaling; the same bits for any number of threads. */
#include "cpu_rope.h"
#include "cpu_test.h"

#include <math.h>

static long double frequency(const struct cpu_rope *rope, int64_t i, int64_t pairs)
{
    long double f = powl(rope->theta, -(long double)i / (long double)pairs);
    long double wavelength = 2 * acosl(-1.0L) / f;
    if (rope->factor == 1 || wavelength < rope->context / rope->high)
        return f;
    if (wavelength > rope->context / rope->low)
        return f / rope->factor;
    long double mix = (rope->context / wavelength - rope->low) / (rope->high - rope->low);
    return (1 - mix) * f / rope->factor + mix * f;
}

static void check_table(struct test *test, const struct cpu_rope *rope, int64_t length,
                        int64_t pairs)
{
    size_t bytes = (size_t)(length * 4 * pairs) * sizeof(float);
    float *table = test_memory(bytes), *again = test_memory(bytes);
    for (int threads = 1; threads <= 3; threads += 2) {
        struct cpu_pool *pool = NULL;
        MUST_OK(test->ctx, cpu_pool_create(test->ctx, threads, &pool));
        cpu_rope_table(pool, threads == 1 ? table : again, length, pairs, rope);
        cpu_pool_destroy(&pool);
    }
    CHECK(memcmp(table, again, bytes) == 0, "bits depend on the threads");
    for (int64_t t = 0; t < length; t += 1 + t / 50)
        for (int64_t i = 0; i < pairs; i++) {
            long double angle = (long double)t * frequency(rope, i, pairs);
            const float *w = table + t * 4 * pairs + i;
            /* t times a frequency that is off by 1e-15 of itself */
            double limit = 0x1p-24 + (double)t * 4e-15;
            CHECK(fabsl(w[0] - cosl(angle)) <= limit && fabsl(w[2 * pairs] - sinl(angle)) <= limit,
                  "position %d, pair %d: cos %.9g, sin %.9g", (int)t, (int)i, (double)w[0],
                  (double)w[2 * pairs]);
            CHECK(w[3 * pairs] == w[0] && w[pairs] == -w[2 * pairs], "layout");
        }
    free(table);
    free(again);
}

int main(void)
{
    struct test test = test_begin();
    check_table(&test, &(struct cpu_rope){1e4, 1, 1, 4, 1}, 300, 5);
    check_table(&test, &(struct cpu_rope){5e5, 1, 1, 4, 1}, 1 << 17, 8);
    check_table(&test, &(struct cpu_rope){5e5, 32, 1, 4, 8192}, 5000, 64);
    return test_end(&test);
}
