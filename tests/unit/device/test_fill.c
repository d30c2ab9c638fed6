/* SPDX-License-Identifier: Apache-2.0 */
/* Philox against its published answers and philox; normals: moments, and the same bits for
 * all instruction sets, threads and offsets. */
#include "cpu_fill.h"
#include "cpu_test.h"
#include "philox.h"

#include <math.h>

/* From the authors' distribution (Random123, kat_vectors). */
static const struct {
    uint64_t block, site, seed;
    uint32_t words[4];
} known[] = {
    {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {0x85a308d3243f6a88,
     0x0370734413198a2e,
     0x299f31d0a4093822,
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

static void check_philox(const struct cpu_functions *functions)
{
    uint32_t words[4 * 200];
    for (int i = 0; i < 3; i++) {
        functions->philox(words, known[i].block, 1, known[i].site, known[i].seed);
        CHECK(memcmp(words, known[i].words, sizeof known[i].words) == 0, "known answer %d on %s", i,
              functions->name);
    }
    uint64_t first = 0xffffff80u, site = 0x123456789abcdef0, seed = 0xfedcba9876543210;
    functions->philox(words, first, 200, site, seed);
    for (uint64_t j = 0; j < 200; j++) {
        uint64_t block = first + j;
        uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)site,
                               (uint32_t)(site >> 32)};
        uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, expected[4];
        philox(counter, key, expected);
        CHECK(memcmp(words + 4 * j, expected, sizeof expected) == 0, "block %d on %s", (int)j,
              functions->name);
    }
}

static void check_uniforms(const struct cpu_functions *functions)
{
    enum { COUNT = 900 };
    uint64_t site = 7 | 3ull << 32, seed = 0xfedcba9876543210, first = 0xfffffffffeu;
    float out[COUNT + 1];
    uint32_t words[COUNT + 8];
    functions->philox(words, first / 4, (COUNT + 8) / 4, site, seed);
    for (int64_t begin = 0; begin < 9; begin++)
        for (int64_t count = 0; begin + count <= COUNT; count = 2 * count + 1) {
            out[count] = -1.0f;
            functions->uniforms(out, first + (uint64_t)begin, count, site, seed);
            int wrong = out[count] != -1.0f;
            for (int64_t i = 0; i < count; i++)
                wrong +=
                    out[i] != (float)(words[(int64_t)(first % 4) + begin + i] >> 8) / 16777216.0f;
            CHECK(wrong == 0, "%d of %d uniforms from %d on %s", wrong, (int)count, (int)begin,
                  functions->name);
        }
}

static void check_moments(struct test_pools *pools)
{
    enum { COUNT = 1000000 };
    float *x = test_memory(COUNT * sizeof *x);
    struct cpu_normal normal = {.seed = 7, .site = 9, .mean = 0.5f, .stddev = 2.0f};
    cpu_fill_normal(pools->pool[2], cpu_functions_best(), x, REMAT_F32, COUNT, &normal);
    double m1 = 0, m2 = 0, m4 = 0, inside = 0, neighbours = 0, previous = 0;
    for (int i = 0; i < COUNT; i++) {
        double z = (x[i] - 0.5) / 2;
        m1 += z / COUNT;
        m2 += z * z / COUNT;
        m4 += z * z * z * z / COUNT;
        inside += fabs(z) < 1 ? 1.0 / COUNT : 0;
        neighbours += z * previous / COUNT;
        previous = z;
    }
    CHECK(fabs(m1) < 0.004 && fabs(m2 - 1) < 0.006 && fabs(m4 - 3) < 0.04, "moments %g %g %g", m1,
          m2, m4);
    CHECK(fabs(inside - 0.682689) < 0.002, "%g within one standard deviation", inside);
    CHECK(fabs(neighbours) < 0.004, "neighbours correlate: %g", neighbours);
    free(x);
}

static void check_normal_bits(struct test_pools *pools)
{
    enum { COUNT = 40000 };
    float *expected = test_memory(COUNT * sizeof *expected), *x = test_memory(COUNT * sizeof *x);
    struct cpu_normal normal = {.seed = 3, .site = 4, .mean = 0.1f, .stddev = 0.02f};
    cpu_fill_normal(pools->pool[1], cpu_functions_get(CPU_ISA_BASELINE), expected, REMAT_F32, COUNT,
                    &normal);
    uint16_t *narrow = test_memory(COUNT * sizeof *narrow);
    FOR_EACH_ISA(functions)
    for (int threads = 1; threads <= TEST_THREADS; threads++)
        for (int begin = 0; begin < 1000; begin = 3 * begin + 1) {
            normal.first = (uint64_t)begin;
            cpu_fill_normal(pools->pool[threads], functions, x, REMAT_F32, COUNT - begin, &normal);
            CHECK(memcmp(x, expected + begin, (size_t)(COUNT - begin) * sizeof *x) == 0,
                  "normals from %d on %s, %d threads", begin, functions->name, threads);
            cpu_fill_normal(pools->pool[threads], functions, narrow, REMAT_BF16, COUNT - begin,
                            &normal);
            int wrong = 0;
            for (int i = 0; i < COUNT - begin; i++)
                wrong += narrow[i] != test_narrow(expected[begin + i]);
            CHECK(wrong == 0, "%d bf16 normals wrong on %s", wrong, functions->name);
        }
    free(narrow);
    free(expected);
    free(x);
}

static void check_constant(struct test *test, struct test_pools *pools)
{
    enum { COUNT = 100003 };
    float *x = test_floats(test, COUNT + 1);
    float after = x[COUNT];
    cpu_fill_constant(pools->pool[3], cpu_functions_best(), x, REMAT_F32, COUNT, 1.5f);
    int wrong = 0;
    for (int i = 0; i < COUNT; i++)
        wrong += x[i] != 1.5f;
    uint16_t *narrow = (uint16_t *)x;
    cpu_fill_constant(pools->pool[2], cpu_functions_best(), narrow, REMAT_BF16, COUNT, 0.1f);
    for (int i = 0; i < COUNT; i++)
        wrong += narrow[i] != test_narrow(0.1f);
    CHECK(wrong == 0 && x[COUNT] == after, "constant: %d wrong", wrong);
    free(x);
}

int main(void)
{
    struct test test = test_begin();
    struct test_pools pools;
    test_pools_create(&test, &pools);
    FOR_EACH_ISA(functions)
    {
        check_philox(functions);
        check_uniforms(functions);
    }
    check_moments(&pools);
    check_normal_bits(&pools);
    check_constant(&test, &pools);
    test_pools_destroy(&pools);
    return test_end(&test);
}
