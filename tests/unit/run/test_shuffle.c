/* SPDX-License-Identifier: Apache-2.0 */
/* The shuffle is a permutation of any count, another one in each epoch and for each seed, and no
 * order is more likely than another: of four items each of the 24, of more what can be counted. */
#include "check.h"
#include "shuffle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void test_permutations(void)
{
    bool seen[600];
    for (uint64_t count = 1; count <= 600; count += count < 100 ? 1 : 37)
        for (uint64_t seed = 0; seed < 3; seed++) {
            memset(seen, 0, sizeof seen);
            for (uint64_t i = 0; i < count; i++) {
                uint64_t x = shuffle(seed, count % 5, count, i);
                MUST(x < count);
                CHECK(!seen[x], "%llu of %llu twice", (unsigned long long)x,
                      (unsigned long long)count);
                seen[x] = true;
            }
        }
}

/* Sixteen in a row of large counts differ and are in range; the largest count of all is no matter.
 */
static void test_large(void)
{
    const uint64_t counts[] = {UINT64_C(1) << 32, (UINT64_C(1) << 40) + 1, UINT64_C(1) << 62,
                               (UINT64_C(1) << 62) + 1, UINT64_MAX};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        uint64_t x[16];
        for (int i = 0; i < 16; i++) {
            x[i] = shuffle(9, 1, counts[c], counts[c] - 16 + (uint64_t)i);
            CHECK(x[i] < counts[c], "out of range");
            for (int j = 0; j < i; j++)
                CHECK(x[i] != x[j], "twice");
        }
    }
}

/* Sum of (observed - expected)^2 / expected. */
static double chi_square(const uint32_t *counts, size_t cells, double expected)
{
    double sum = 0;
    for (size_t i = 0; i < cells; i++)
        sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    return sum;
}

/* Below the quantile of 0.9999 of chi-square with 23 degrees of freedom; by seed, then by epoch. */
static void test_orders_of_four(void)
{
    for (int by_epoch = 0; by_epoch < 2; by_epoch++) {
        uint32_t counts[256] = {0}, orders[24], found = 0;
        for (uint64_t k = 0; k < 24000; k++) {
            uint32_t order = 0;
            for (uint64_t i = 0; i < 4; i++)
                order = order << 2 | (uint32_t)shuffle(by_epoch ? 5 : k, by_epoch ? k : 5, 4, i);
            counts[order]++;
        }
        for (uint32_t order = 0; order < 256; order++)
            if (counts[order]) {
                MUST(found < 24);
                orders[found++] = counts[order];
            }
        CHECK(found == 24 && chi_square(orders, 24, 1000) < 54.7, "%u orders, chi-square %g", found,
              chi_square(orders, 24, 1000));
    }
}

/* Where each of 50 items goes: 49 * 49 degrees of freedom, and so a mean of 2401, deviation 69. */
static void test_places(void)
{
    static uint32_t counts[50 * 50];
    for (uint64_t k = 0; k < 20000; k++)
        for (uint64_t i = 0; i < 50; i++)
            counts[i * 50 + shuffle(k / 100, k % 100, 50, i)]++;
    double sum = chi_square(counts, 50 * 50, 400);
    CHECK(fabs(sum - 2401) < 4 * 69, "chi-square %g", sum);
}

/* Neighbours stay neighbours once in a permutation on average, and two epochs agree in one place.
 */
static void test_neighbours(void)
{
    const uint64_t count = 1000, epochs = 1000;
    uint32_t kept = 0, equal = 0;
    for (uint64_t e = 0; e < epochs; e++)
        for (uint64_t i = 0; i + 1 < count; i++) {
            uint64_t x = shuffle(3, e, count, i);
            kept += shuffle(3, e, count, i + 1) == x + 1;
            equal += shuffle(3, e + 1, count, i) == x;
        }
    CHECK(fabs((double)kept / epochs - 1) < 0.15 && fabs((double)equal / epochs - 1) < 0.15,
          "%u neighbours and %u places in %llu epochs", kept, equal, (unsigned long long)epochs);
}

int main(void)
{
    test_permutations();
    test_large();
    test_orders_of_four();
    test_places();
    test_neighbours();
    return check_exit();
}
