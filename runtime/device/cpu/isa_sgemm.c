/* SPDX-License-Identifier: Apache-2.0 */
/* Packing and the register tile of the sgemm (cpu_sgemm.h defines the bits).
 *
 * A is packed into panels of TILE_ROWS rows, element (i, p) at p * TILE_ROWS + i; B into panels of
 * 1 to 3 vectors of columns, element (p, j) at p * width + j; edges are padded with zeros. A panel
 * that starts at row i (column j) of its block starts at element i * k (j * k) of the packed block.
 * Panels have 3 vectors, but a remainder of 4 is cut into 2 + 2 rather than 3 + 1. */
#include "cpu_bf16.h"
#include "isa.h"

#include <math.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif

#if VECTOR_LANES == 16
typedef __m512 vector;
#define LOAD(p)         _mm512_loadu_ps(p)
#define STORE(p, v)     _mm512_storeu_ps(p, v)
#define BROADCAST(x)    _mm512_set1_ps(x)
#define ADD(a, b)       _mm512_add_ps(a, b)
#define MADD(a, b, sum) _mm512_fmadd_ps(a, b, sum)
#elif VECTOR_LANES == 8
typedef __m256 vector;
#define LOAD(p)         _mm256_loadu_ps(p)
#define STORE(p, v)     _mm256_storeu_ps(p, v)
#define BROADCAST(x)    _mm256_set1_ps(x)
#define ADD(a, b)       _mm256_add_ps(a, b)
#define MADD(a, b, sum) _mm256_fmadd_ps(a, b, sum)
#endif

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Vectors of the next panel when `columns` columns are left. */
static int64_t panel_vectors(int64_t columns)
{
    int64_t vectors = (columns + VECTOR_LANES - 1) / VECTOR_LANES;
    return vectors == 4 ? 2 : min64(vectors, 3);
}

/* --- packing --- */

#define PACK_ELEMENT          float
#define PACK_NAME(name)       name##_f32
#define PACK_VALUE(x)         (x)
#define PACK_LOAD_4(p)        _mm_loadu_ps(p)
#define PACK_RUN(to, from, n) memcpy(to, from, (size_t)(n) * sizeof *(to))
#include "isa_pack.h"

/* Inlined, so that `count` is a constant. */
static inline __attribute__((always_inline)) void widen_run(float *to, const uint16_t *from,
                                                            int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = cpu_widen_bf16(from[i]);
}

#if VECTOR_LANES > 4
static inline __m128 load_4(const uint16_t *p)
{
    __m128i words = _mm_cvtepu16_epi32(_mm_loadl_epi64((const __m128i *)p));
    return _mm_castsi128_ps(_mm_slli_epi32(words, 16));
}
#endif

#define PACK_ELEMENT          uint16_t
#define PACK_NAME(name)       name##_bf16
#define PACK_VALUE(x)         cpu_widen_bf16(x)
#define PACK_LOAD_4(p)        load_4(p)
#define PACK_RUN(to, from, n) widen_run(to, from, n)
#include "isa_pack.h"

/* --- the register tile: TILE_ROWS x `vectors` accumulators --- */

#if VECTOR_LANES > 4
static inline __attribute__((always_inline)) void accumulate(int vectors, int64_t k, const float *a,
                                                             const float *b, float *c, int64_t ldc,
                                                             bool store)
{
    vector sum[TILE_ROWS][3];
    UNROLL
    for (int i = 0; i < TILE_ROWS; i++)
        UNROLL
    for (int v = 0; v < vectors; v++)
        sum[i][v] = BROADCAST(0.0f);
    for (int64_t p = 0; p < k; p++, a += TILE_ROWS, b += vectors * VECTOR_LANES) {
        vector row[3];
        UNROLL
        for (int v = 0; v < vectors; v++)
            row[v] = LOAD(b + v * VECTOR_LANES);
        UNROLL
        for (int i = 0; i < TILE_ROWS; i++) {
            vector x = BROADCAST(a[i]);
            UNROLL
            for (int v = 0; v < vectors; v++)
                sum[i][v] = MADD(x, row[v], sum[i][v]);
        }
    }
    UNROLL
    for (int i = 0; i < TILE_ROWS; i++) {
        UNROLL
        for (int v = 0; v < vectors; v++) {
            float *to = c + i * ldc + v * VECTOR_LANES;
            STORE(to, store ? sum[i][v] : ADD(LOAD(to), sum[i][v]));
        }
    }
}
#else
static inline void accumulate(int vectors, int64_t k, const float *a, const float *b, float *c,
                              int64_t ldc, bool store)
{
    float sum[TILE_ROWS][TILE_COLUMNS] = {{0}};
    int width = vectors * VECTOR_LANES;
    for (int64_t p = 0; p < k; p++, a += TILE_ROWS, b += width)
        for (int i = 0; i < TILE_ROWS; i++)
            for (int j = 0; j < width; j++)
                sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
    for (int i = 0; i < TILE_ROWS; i++)
        for (int j = 0; j < width; j++)
            c[i * ldc + j] = store ? sum[i][j] : c[i * ldc + j] + sum[i][j];
}
#endif

static void tile(int vectors, int64_t k, const float *a, const float *b, float *c, int64_t ldc,
                 bool store)
{
    if (vectors == 3)
        accumulate(3, k, a, b, c, ldc, store);
    else if (vectors == 2)
        accumulate(2, k, a, b, c, ldc, store);
    else
        accumulate(1, k, a, b, c, ldc, store);
}

/* A tile of which only rows x columns exist: computed aside. */
static void edge_tile(int vectors, int64_t k, const float *a, const float *b, float *c, int64_t ldc,
                      int64_t rows, int64_t columns, bool store)
{
    float aside[TILE_ROWS * TILE_COLUMNS];
    tile(vectors, k, a, b, aside, TILE_COLUMNS, true);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            float sum = aside[i * TILE_COLUMNS + j];
            c[i * ldc + j] = store ? sum : c[i * ldc + j] + sum;
        }
}

void CPU_NAME(cpu_multiply)(int64_t m, int64_t n, int64_t k, const float *packed_a,
                            const float *packed_b, float *c, int64_t ldc, bool store)
{
    for (int64_t i = 0; i < m; i += TILE_ROWS) {
        int64_t rows = min64(m - i, TILE_ROWS);
        for (int64_t j = 0, width; j < n; j += width) {
            int vectors = (int)panel_vectors(n - j);
            width = vectors * VECTOR_LANES;
            const float *a = packed_a + i * k, *b = packed_b + j * k;
            float *to = c + i * ldc + j;
            if (rows == TILE_ROWS && n - j >= width)
                tile(vectors, k, a, b, to, ldc, store);
            else
                edge_tile(vectors, k, a, b, to, ldc, rows, min64(n - j, width), store);
        }
    }
}
