/* SPDX-License-Identifier: Apache-2.0 */
/* sgemm bit for bit against its definition, and the same hash for all threads and instruction
 * sets. */
#include "cpu_test.h"

#include <math.h>

struct problem {
    int64_t m, n, k;
    bool transpose_a, transpose_b, accumulate;
    int64_t pad;              /* of every leading dimension */
    remat_dtype type, c_type; /* of A and B, of C */
};

static inline __attribute__((always_inline)) void define(const struct cpu_matmul *mm)
{
    for (int64_t i = 0; i < mm->m; i++)
        for (int64_t j = 0; j < mm->n; j++) {
            float c = mm->accumulate ? test_load(mm->c, mm->c_type, i * mm->ldc + j) : 0.0f;
            for (int64_t k0 = 0; k0 < mm->k; k0 += 384) {
                float s = 0.0f;
                for (int64_t p = k0; p < k0 + 384 && p < mm->k; p++)
                    s = fmaf(test_load(mm->a, mm->a_type, i * mm->a_row + p * mm->a_column),
                             test_load(mm->b, mm->b_type, p * mm->b_row + j * mm->b_column), s);
                c = k0 == 0 && !mm->accumulate ? s : c + s;
            }
            test_store(mm->c, mm->c_type, i * mm->ldc + j, c);
        }
}

/* fmaf is a call in one and an instruction in the other: the same bits. */
static void define_by_calls(const struct cpu_matmul *mm)
{
    define(mm);
}

__attribute__((target("fma"))) static void define_by_instructions(const struct cpu_matmul *mm)
{
    define(mm);
}

static void reference(const struct cpu_matmul *mm)
{
    (__builtin_cpu_supports("fma") ? define_by_instructions : define_by_calls)(mm);
}

static struct cpu_matmul matmul_of(const struct problem *p)
{
    int64_t lda = (p->transpose_a ? p->m : p->k) + p->pad;
    int64_t ldb = (p->transpose_b ? p->k : p->n) + p->pad;
    return (struct cpu_matmul){.m = p->m,
                               .n = p->n,
                               .k = p->k,
                               .a_row = p->transpose_a ? 1 : lda,
                               .a_column = p->transpose_a ? lda : 1,
                               .b_row = p->transpose_b ? 1 : ldb,
                               .b_column = p->transpose_b ? ldb : 1,
                               .ldc = p->n + p->pad,
                               .accumulate = p->accumulate,
                               .a_type = p->type,
                               .b_type = p->type,
                               .c_type = p->c_type};
}

static void compare(const struct problem *p, const void *c, const void *expected, int64_t bytes,
                    const char *isa, int threads)
{
    CHECK(memcmp(c, expected, (size_t)bytes) == 0,
          "%lldx%lldx%lld%s%s%s pad %lld types %d %d: other bits on %s, %d threads",
          (long long)p->m, (long long)p->n, (long long)p->k, p->transpose_a ? " At" : "",
          p->transpose_b ? " Bt" : "", p->accumulate ? " +=" : "", (long long)p->pad, (int)p->type,
          (int)p->c_type, isa, threads);
}

static void run(struct test *test, struct test_pools *pools, const struct problem *p)
{
    struct cpu_matmul mm = matmul_of(p);
    int64_t c_count = p->m * mm.ldc, c_bytes = c_count * remat_dtype_bytes(p->c_type);
    void *a = test_elements(test, p->type, (p->m + p->pad) * (p->k + p->pad));
    void *b = test_elements(test, p->type, (p->k + p->pad) * (p->n + p->pad));
    void *before = test_elements(test, p->c_type, c_count);
    void *expected = test_memory((size_t)c_bytes), *c = test_memory((size_t)c_bytes);
    mm.a = a;
    mm.b = b;
    mm.c = expected;
    memcpy(expected, before, (size_t)c_bytes);
    reference(&mm);
    mm.c = c;
    FOR_EACH_ISA(functions)
    for (int threads = 1; threads <= TEST_THREADS; threads++) {
        if (!test_is_tried(functions, threads, (int)(p->m + p->n + p->k)))
            continue;
        memcpy(c, before, (size_t)c_bytes);
        cpu_sgemm(pools->pool[threads], functions, &mm, pools->scratch);
        compare(p, c, expected, c_bytes, functions->name, threads);
    }
    free(a);
    free(b);
    free(before);
    free(expected);
    free(c);
}

static void run_layouts(struct test *test, struct test_pools *pools, int step, int64_t m, int64_t n,
                        int64_t k)
{
    for (int layout = 0; layout < 8; layout += step) {
        struct problem p = {
            m, n, k, layout & 1, layout & 2, layout & 4, layout % 3 * 5, REMAT_F32, REMAT_F32};
        run(test, pools, &p);
        p.type = REMAT_BF16;
        p.c_type = (m + n + k) % 3 ? REMAT_BF16 : REMAT_F32;
        run(test, pools, &p);
        if (layout == 5) {
            p.type = REMAT_F32;
            p.c_type = REMAT_BF16;
            run(test, pools, &p);
        }
    }
}

/* A broadcast row and column, and every other element of B. */
static void check_strides(struct test *test, struct test_pools *pools)
{
    float *a = test_floats(test, 500), *b = test_floats(test, 500 * 140);
    float expected[60 * 70], c[60 * 70];
    struct cpu_matmul mm = {60, 70,       500, a,     0,         1,         b,        140,
                            2,  expected, 70,  false, REMAT_F32, REMAT_F32, REMAT_F32};
    reference(&mm);
    mm.c = c;
    FOR_EACH_ISA(functions)
    {
        cpu_sgemm(pools->pool[2], functions, &mm, pools->scratch);
        CHECK(memcmp(c, expected, sizeof c) == 0, "strides 0 and 2: other bits on %s",
              functions->name);
    }
    free(a);
    free(b);
}

/* With an argument two layouts of eight, for builds with sanitizers. */
int main(int argc, char **argv)
{
    const int step = argc > 1 ? 5 : 1;
    (void)argv;
    struct test test = test_begin();
    struct test_pools pools;
    test_pools_create(&test, &pools);
    static const int64_t sizes[] = {1, 2, 7, 8, 31, 48, 63, 64, 65};
    static const int64_t depths[] = {0, 1, 7, 64, 385};
    enum { SIZES = sizeof sizes / sizeof *sizes, DEPTHS = sizeof depths / sizeof *depths };
    for (int m = 0; m < SIZES; m++)
        for (int n = 0; n < SIZES; n++)
            run_layouts(&test, &pools, step, sizes[m], sizes[n], depths[(3 * m + n) % DEPTHS]);
    run_layouts(&test, &pools, step, 1, 1000, 769);
    run_layouts(&test, &pools, step, 1000, 3, 385);
    run_layouts(&test, &pools, step, 130, 1000, 63);
    run_layouts(&test, &pools, step, 257, 100, 1000);
    run_layouts(&test, &pools, step, 9, 50, 3001);
    run(&test, &pools,
        &(struct problem){1700, 1300, 20, false, true, false, 3, REMAT_F32, REMAT_F32});
    run(&test, &pools,
        &(struct problem){801, 601, 400, true, false, true, 1, REMAT_F32, REMAT_F32});
    run(&test, &pools,
        &(struct problem){1700, 1300, 20, false, true, false, 3, REMAT_BF16, REMAT_BF16});
    run(&test, &pools,
        &(struct problem){801, 601, 800, true, false, false, 1, REMAT_BF16, REMAT_BF16});
    check_strides(&test, &pools);
    test_pools_destroy(&pools);
    return test_end(&test);
}
