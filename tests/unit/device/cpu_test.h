/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel tests share: random values, and the pools, scratch and instruction sets to run
 * on. A test program returns test_end(). */
#ifndef CPU_TEST_H
#define CPU_TEST_H

#include "check.h"
#include "cpu_isa.h"
#include "cpu_pool.h"
#include "cpu_sgemm.h"

#include <stdio.h>
#include <stdlib.h>

struct test {
    remat_context *ctx;
    uint64_t random;
};

static inline struct test test_begin(void)
{
    cpu_flush_subnormals();
    return (struct test){.ctx = remat_context_create(NULL, NULL), .random = 1};
}

static inline int test_end(struct test *test)
{
    remat_context_destroy(&test->ctx);
    return check_exit();
}

static inline uint32_t test_random(struct test *test)
{
    test->random = test->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(test->random >> 32);
}

/* In [-1, 1), all bits of the mantissa used. */
static inline float test_uniform(struct test *test)
{
    return (float)(int32_t)test_random(test) * 0x1p-31f;
}

static inline void *test_memory(size_t bytes) /* aligned to 64 bytes */
{
    void *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
    MUST(memory);
    return memory;
}

static inline float *test_floats(struct test *test, int64_t count)
{
    float *x = test_memory((size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++)
        x[i] = test_uniform(test);
    return x;
}

/* bf16 by its definition, sharing no code with cpu_bf16.h: of the two neighbours of x the nearer
 * one, or the even one. */
static inline float test_widen(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t test_narrow(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint16_t toward_zero = (uint16_t)(bits >> 16), away = (uint16_t)(toward_zero + 1);
    if (x != x)
        return toward_zero | 0x40;
    if ((bits & 0xffff) == 0)
        return toward_zero;
    double low = (double)test_widen(toward_zero), high = (double)test_widen(away);
    if ((away & 0x7fff) == 0x7f80) /* where 2^128 would be if it were finite */
        high = low < 0 ? -0x1p128 : 0x1p128;
    double below = (double)x - low, above = high - (double)x;
    if (x < 0) {
        below = -below;
        above = -above;
    }
    if (below != above)
        return below < above ? toward_zero : away;
    return toward_zero & 1 ? away : toward_zero;
}

static inline float test_load(const void *array, remat_dtype type, int64_t index)
{
    return type == REMAT_F32 ? ((const float *)array)[index]
                             : test_widen(((const uint16_t *)array)[index]);
}

static inline void test_store(void *array, remat_dtype type, int64_t index, float value)
{
    if (type == REMAT_F32)
        ((float *)array)[index] = value;
    else
        ((uint16_t *)array)[index] = test_narrow(value);
}

static inline void *test_elements(struct test *test, remat_dtype type, int64_t count)
{
    void *x = test_memory((size_t)(count * remat_dtype_bytes(type)));
    for (int64_t i = 0; i < count; i++)
        test_store(x, type, i, test_uniform(test));
    return x;
}

#define TEST_THREADS 3 /* pools of 1, 2, 3 threads */

struct test_pools {
    struct cpu_pool *pool[TEST_THREADS + 1]; /* by number of threads */
    float *scratch[TEST_THREADS];
};

static inline void test_pools_create(struct test *test, struct test_pools *pools)
{
    *pools = (struct test_pools){0};
    for (int t = 1; t <= TEST_THREADS; t++) {
        MUST_OK(test->ctx, cpu_pool_create(test->ctx, t, &pools->pool[t]));
        pools->scratch[t - 1] = test_memory(CPU_SCRATCH_BYTES);
        memset(pools->scratch[t - 1], 0xff, CPU_SCRATCH_BYTES); /* NaN */
    }
}

static inline void test_pools_destroy(struct test_pools *pools)
{
    for (int t = 1; t <= TEST_THREADS; t++) {
        cpu_pool_destroy(&pools->pool[t]);
        free(pools->scratch[t - 1]);
    }
}

#define FOR_EACH_ISA(functions)                                                                    \
    for (int isa_ = 0; isa_ < CPU_ISA_COUNT; isa_++)                                               \
        for (const struct cpu_functions *functions = cpu_functions_get((enum cpu_isa)isa_);        \
             functions; functions = NULL)

/* Of the instruction sets the best one with each number of threads, the others with one of them,
 * another in the next case: none of what they compute knows of threads. */
static inline bool test_is_tried(const struct cpu_functions *functions, int threads, int number)
{
    return functions == cpu_functions_best() ||
           (number + (int)functions->isa) % TEST_THREADS + 1 == threads;
}

#endif
