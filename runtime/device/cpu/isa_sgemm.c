/* Packing and the register tile of the sgemm (cpu_sgemm.h defines the bits).
 *
 * A is packed into panels of TILE_ROWS rows, element (i, p) at p * TILE_ROWS + i; B into panels of
 * 1 to 3 vectors of columns, element (p, j) at p * width + j; edges are padded with zeros. A panel
 * that starts at row i (column j) of its block starts at element i * k (j * k) of the packed block.
 * Panels have 3 vectors, but a remainder of 4 is cut into 2 + 2 rather than 3 + 1. */
#include "isa.h"

#include <math.h>
#include <string.h>
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

/* --- packing: "major" runs along the k axis, "minor" across the panel --- */

#if VECTOR_LANES > 4
/* out[c * stride + r] = in[r * in_stride + c] for r, c < 8 */
static void transpose_8x8(const float *in, int64_t in_stride, float *out, int64_t stride)
{
    for (int half = 0; half < 2; half++) {
        __m256 r[4];
        UNROLL
        for (int i = 0; i < 4; i++)
            r[i] = _mm256_insertf128_ps(
                _mm256_castps128_ps256(_mm_loadu_ps(in + i * in_stride + 4 * half)),
                _mm_loadu_ps(in + (i + 4) * in_stride + 4 * half), 1);
        __m256 low01 = _mm256_unpacklo_ps(r[0], r[1]), high01 = _mm256_unpackhi_ps(r[0], r[1]);
        __m256 low23 = _mm256_unpacklo_ps(r[2], r[3]), high23 = _mm256_unpackhi_ps(r[2], r[3]);
        float *to = out + 4 * half * stride;
        _mm256_storeu_ps(to, _mm256_shuffle_ps(low01, low23, 0x44));
        _mm256_storeu_ps(to + stride, _mm256_shuffle_ps(low01, low23, 0xee));
        _mm256_storeu_ps(to + 2 * stride, _mm256_shuffle_ps(high01, high23, 0x44));
        _mm256_storeu_ps(to + 3 * stride, _mm256_shuffle_ps(high01, high23, 0xee));
    }
}
#define TRANSPOSE_MINOR 8

static void transpose_block(const float *in, int64_t in_stride, float *out, int64_t stride)
{
    transpose_8x8(in, in_stride, out, stride);
}
#endif

/* One panel of `width` columns, the first `used` of which exist. */
static void pack_panel(const float *x, int64_t major, int64_t minor, int64_t k, int64_t used,
                       int64_t width, float *packed)
{
    int64_t done = 0; /* columns */
#if VECTOR_LANES > 4
    if (major == 1 && minor != 1) {
        int64_t blocks = k / 8 * 8;
        for (; done + 8 <= used; done += 8) {
            const float *from = x + done * minor;
            for (int64_t p = 0; p < blocks; p += 8)
                transpose_block(from + p, minor, packed + p * width + done, width);
            for (int64_t p = blocks; p < k; p++)
                for (int64_t j = 0; j < 8; j++)
                    packed[p * width + done + j] = from[j * minor + p];
        }
    }
#endif
    for (int64_t p = 0; p < k && done < width; p++) {
        const float *from = x + p * major;
        float *to = packed + p * width;
        for (int64_t j = done; j < used; j++)
            to[j] = from[j * minor];
        for (int64_t j = used; j < width; j++)
            to[j] = 0.0f;
    }
}

/* Whole panels of a block whose rows are contiguous, row by row: long runs for the prefetcher.
 * Inlined, so that `width` is a constant. */
static inline __attribute__((always_inline)) void
copy_panels(const float *x, int64_t major, int64_t k, int64_t panels, int64_t width, float *packed)
{
    for (int64_t p = 0; p < k; p++) {
        const float *from = x + p * major;
        float *to = packed + p * width;
        for (int64_t panel = 0; panel < panels; panel++, from += width, to += k * width)
            memcpy(to, from, (size_t)width * sizeof *to);
    }
}

void CPU_NAME(cpu_pack_a)(const float *a, int64_t row, int64_t column, int64_t m, int64_t k,
                          float *packed)
{
    int64_t whole = row == 1 ? m / TILE_ROWS : 0;
    if (whole)
        copy_panels(a, column, k, whole, TILE_ROWS, packed);
    for (int64_t i = whole * TILE_ROWS; i < m; i += TILE_ROWS)
        pack_panel(a + i * row, column, row, k, min64(m - i, TILE_ROWS), TILE_ROWS, packed + i * k);
}

void CPU_NAME(cpu_pack_b)(const float *b, int64_t row, int64_t column, int64_t k, int64_t n,
                          float *packed)
{
    int64_t j = 0;
    if (column == 1) {
        while (n - j >= TILE_COLUMNS && panel_vectors(n - j) == 3)
            j += TILE_COLUMNS;
        copy_panels(b, row, k, j / TILE_COLUMNS, TILE_COLUMNS, packed);
    }
    for (int64_t width; j < n; j += width) {
        width = panel_vectors(n - j) * VECTOR_LANES;
        const float *from = b + j * column;
        if (column == 1 && n - j >= width && width == 2 * VECTOR_LANES)
            copy_panels(from, row, k, 1, 2 * VECTOR_LANES, packed + j * k);
        else if (column == 1 && n - j >= width && width == VECTOR_LANES)
            copy_panels(from, row, k, 1, VECTOR_LANES, packed + j * k);
        else
            pack_panel(from, row, column, k, min64(n - j, width), width, packed + j * k);
    }
}

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
