/* SPDX-License-Identifier: Apache-2.0 */
/* The pool: every item once, worker numbers never shared, results visible, many short runs. */
#include "cpu_test.h"

#include <stdatomic.h>
#include <unistd.h>

#define ITEMS 1000

struct count {
    int runs[ITEMS]; /* plain: only the pool orders them */
    atomic_int inside[16];
    atomic_int overlaps;
};

static void count_item(void *arg, int64_t item, int worker)
{
    struct count *count = arg;
    if (atomic_fetch_add(&count->inside[worker], 1))
        atomic_fetch_add(&count->overlaps, 1);
    count->runs[item]++;
    atomic_fetch_sub(&count->inside[worker], 1);
}

static void stress(struct test *test, int threads, int runs)
{
    struct count *count = test_memory(sizeof *count);
    memset(count, 0, sizeof *count);
    struct cpu_pool *pool;
    CHECK_OK(test->ctx, cpu_pool_create(test->ctx, threads, &pool), "create %d", threads);
    CHECK(cpu_pool_threads(pool) == threads, "threads");
    int expected[ITEMS] = {0};
    for (int run = 0; run < runs; run++) {
        int items = run % 50 == 0 ? ITEMS : run % 7;
        cpu_pool_run(pool, items, count_item, count);
        for (int i = 0; i < items; i++)
            expected[i]++;
        if (run % 1000 == 0)
            usleep(2000); /* workers fall asleep */
    }
    CHECK(memcmp(expected, count->runs, sizeof expected) == 0, "%d threads: items lost or repeated",
          threads);
    CHECK(atomic_load(&count->overlaps) == 0, "%d threads: worker number shared", threads);
    cpu_pool_destroy(&pool);
    CHECK(pool == NULL, "destroy leaves a pointer");
    free(count);
}

static void float_state_item(void *arg, int64_t item, int worker)
{
    float *results = arg;
    volatile float tiny = 1.17549435e-38f;
    results[item] = tiny * 0.5f + (float)(worker < 0);
    for (volatile int i = 0; i < 1000; i++)
        ;
}

static void check_float_state(struct test *test)
{
    struct cpu_pool *pool;
    float results[256];
    CHECK_OK(test->ctx, cpu_pool_create(test->ctx, 3, &pool));
    uint32_t before = cpu_flush_subnormals();
    for (int run = 0; run < 50; run++) {
        cpu_pool_run(pool, 256, float_state_item, results);
        for (int i = 0; i < 256; i++)
            CHECK(results[i] == 0.0f, "a subnormal result in item %d", i);
    }
    cpu_restore_float_state(before);
    cpu_pool_destroy(&pool);
}

int main(void)
{
    struct test test = test_begin();
    struct cpu_pool *pool = NULL;
    cpu_pool_destroy(&pool);
    CHECK_STATUS(test.ctx, cpu_pool_create(test.ctx, 0, &pool), REMAT_ERROR_USAGE, "",
                 "0 threads accepted");
    CHECK(remat_context_message(test.ctx)[0], "no message");
    for (int threads = 1; threads <= 9; threads++)
        stress(&test, threads, threads <= 3 ? 20000 : 2000);
    check_float_state(&test);
    return test_end(&test);
}
