/* SPDX-License-Identifier: Apache-2.0 */
/* Packing of blocks of one element type; isa_sgemm.c, which says how panels lie, includes this once
 * per type, with PACK_ELEMENT, PACK_NAME (a function's name for the type), PACK_VALUE (an element
 * as f32), PACK_LOAD_4 (four elements as a vector of f32) and PACK_RUN (a run of elements as f32).
 * "major" runs along the k axis, "minor" across the panel. */

#if VECTOR_LANES > 4
/* out[c * stride + r] = in[r * in_stride + c] for r, c < 8 */
static void PACK_NAME(transpose_8x8)(const PACK_ELEMENT *in, int64_t in_stride, float *out,
                                     int64_t stride)
{
    for (int half = 0; half < 2; half++) {
        __m256 r[4];
        UNROLL
        for (int i = 0; i < 4; i++)
            r[i] = _mm256_insertf128_ps(
                _mm256_castps128_ps256(PACK_LOAD_4(in + i * in_stride + 4 * half)),
                PACK_LOAD_4(in + (i + 4) * in_stride + 4 * half), 1);
        __m256 low01 = _mm256_unpacklo_ps(r[0], r[1]), high01 = _mm256_unpackhi_ps(r[0], r[1]);
        __m256 low23 = _mm256_unpacklo_ps(r[2], r[3]), high23 = _mm256_unpackhi_ps(r[2], r[3]);
        float *to = out + 4 * half * stride;
        _mm256_storeu_ps(to, _mm256_shuffle_ps(low01, low23, 0x44));
        _mm256_storeu_ps(to + stride, _mm256_shuffle_ps(low01, low23, 0xee));
        _mm256_storeu_ps(to + 2 * stride, _mm256_shuffle_ps(high01, high23, 0x44));
        _mm256_storeu_ps(to + 3 * stride, _mm256_shuffle_ps(high01, high23, 0xee));
    }
}
#endif

/* One panel of `width` columns, the first `used` of which exist. */
static void PACK_NAME(pack_panel)(const PACK_ELEMENT *x, int64_t major, int64_t minor, int64_t k,
                                  int64_t used, int64_t width, float *packed)
{
    int64_t done = 0; /* columns */
#if VECTOR_LANES > 4
    if (major == 1 && minor != 1) {
        int64_t blocks = k / 8 * 8;
        for (; done + 8 <= used; done += 8) {
            const PACK_ELEMENT *from = x + done * minor;
            for (int64_t p = 0; p < blocks; p += 8)
                PACK_NAME(transpose_8x8)(from + p, minor, packed + p * width + done, width);
            for (int64_t p = blocks; p < k; p++)
                for (int64_t j = 0; j < 8; j++)
                    packed[p * width + done + j] = PACK_VALUE(from[j * minor + p]);
        }
    }
#endif
    for (int64_t p = 0; p < k && done < width; p++) {
        const PACK_ELEMENT *from = x + p * major;
        float *to = packed + p * width;
        for (int64_t j = done; j < used; j++)
            to[j] = PACK_VALUE(from[j * minor]);
        for (int64_t j = used; j < width; j++)
            to[j] = 0.0f;
    }
}

/* Whole panels of a block whose rows are contiguous, row by row: long runs for the prefetcher.
 * Inlined, so that `width` is a constant. */
static inline __attribute__((always_inline)) void
PACK_NAME(copy_panels)(const PACK_ELEMENT *x, int64_t major, int64_t k, int64_t panels,
                       int64_t width, float *packed)
{
    for (int64_t p = 0; p < k; p++) {
        const PACK_ELEMENT *from = x + p * major;
        float *to = packed + p * width;
        for (int64_t panel = 0; panel < panels; panel++, from += width, to += k * width)
            PACK_RUN(to, from, width);
    }
}

void CPU_NAME(PACK_NAME(cpu_pack_a))(const void *x, int64_t row, int64_t column, int64_t m,
                                     int64_t k, float *packed)
{
    const PACK_ELEMENT *a = x;
    int64_t whole = row == 1 ? m / TILE_ROWS : 0;
    if (whole)
        PACK_NAME(copy_panels)(a, column, k, whole, TILE_ROWS, packed);
    for (int64_t i = whole * TILE_ROWS; i < m; i += TILE_ROWS)
        PACK_NAME(pack_panel)
    (a + i * row, column, row, k, min64(m - i, TILE_ROWS), TILE_ROWS, packed + i * k);
}

void CPU_NAME(PACK_NAME(cpu_pack_b))(const void *x, int64_t row, int64_t column, int64_t k,
                                     int64_t n, float *packed)
{
    const PACK_ELEMENT *b = x;
    int64_t j = 0;
    if (column == 1) {
        while (n - j >= TILE_COLUMNS && panel_vectors(n - j) == 3)
            j += TILE_COLUMNS;
        PACK_NAME(copy_panels)(b, row, k, j / TILE_COLUMNS, TILE_COLUMNS, packed);
    }
    for (int64_t width; j < n; j += width) {
        width = panel_vectors(n - j) * VECTOR_LANES;
        const PACK_ELEMENT *from = b + j * column;
        if (column == 1 && n - j >= width && width == 2 * VECTOR_LANES)
            PACK_NAME(copy_panels)(from, row, k, 1, 2 * VECTOR_LANES, packed + j * k);
        else if (column == 1 && n - j >= width && width == VECTOR_LANES)
            PACK_NAME(copy_panels)(from, row, k, 1, VECTOR_LANES, packed + j * k);
        else
            PACK_NAME(pack_panel)(from, row, column, k, min64(n - j, width), width, packed + j * k);
    }
}

#undef PACK_ELEMENT
#undef PACK_NAME
#undef PACK_VALUE
#undef PACK_LOAD_4
#undef PACK_RUN
