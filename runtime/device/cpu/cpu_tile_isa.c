/* SPDX-License-Identifier: Apache-2.0 */
/* One compiled loop per instruction of a fused kernel; built once per instruction set. */
#include "cpu_tile_isa.h"

#include "cpu_bf16.h"
#include "isa.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define INDEPENDENT _Pragma("GCC ivdep")
#else
#define INDEPENDENT
#endif

/* Whole tiles, whose length the compiler knows, apart from tails: same loop, same bits. */
#define LOOP(name, expression)                                                                     \
    static void op_##name(float *d, const float *a, const float *b, const float *c, int64_t count) \
    {                                                                                              \
        (void)a, (void)b, (void)c;                                                                 \
        if (count == CPU_TILE) {                                                                   \
            INDEPENDENT                                                                            \
            for (int64_t i = 0; i < CPU_TILE; i++)                                                 \
                d[i] = (expression);                                                               \
            return;                                                                                \
        }                                                                                          \
        INDEPENDENT                                                                                \
        for (int64_t i = 0; i < count; i++)                                                        \
            d[i] = (expression);                                                                   \
    }

LOOP(add, a[i] + b[i])
LOOP(sub, a[i] - b[i])
LOOP(mul, a[i] * b[i])
LOOP(div, a[i] / b[i])
LOOP(maximum, a[i] > b[i] ? a[i] : b[i])
LOOP(minimum, a[i] < b[i] ? a[i] : b[i])
LOOP(equal, a[i] == b[i] ? 1.0f : 0.0f)
LOOP(less, a[i] < b[i] ? 1.0f : 0.0f)
LOOP(select, a[i] != 0.0f ? b[i] : c[i])
LOOP(neg, -a[i])
LOOP(exp, cpu_exp(a[i]))
LOOP(log, cpu_log(a[i]))
LOOP(sqrt, __builtin_sqrtf(a[i]))
LOOP(rsqrt, 1.0f / __builtin_sqrtf(a[i]))
LOOP(tanh, cpu_tanh(a[i]))
LOOP(erf, cpu_erf(a[i]))
LOOP(sigmoid, cpu_sigmoid(a[i]))
LOOP(column_sum, d[i] + a[i])
LOOP(copy, a[i])
#define ROUNDED_DTYPE(NAME, name, ...) LOOP(round_##name, cpu_round_##name(a[i]))
#include <remat/dtypes.def>

#define PAIRS(inner, value)                                                                        \
    LOOP(inner##_add, (value) + c[i])                                                              \
    LOOP(inner##_sub, (value)-c[i])                                                                \
    LOOP(inner##_rsub, c[i] - (value))                                                             \
    LOOP(inner##_mul, (value)*c[i])                                                                \
    LOOP(inner##_div, (value) / c[i])                                                              \
    LOOP(inner##_rdiv, c[i] / (value))
PAIRS(add, (a[i] + b[i]))
PAIRS(sub, (a[i] - b[i]))
PAIRS(mul, (a[i] * b[i]))
PAIRS(div, (a[i] / b[i]))

#define LANES REMAT_REDUCTION_LANES
#define REDUCE(name, combine)                                                                      \
    static void op_##name(float *d, const float *a, const float *b, const float *c, int64_t count) \
    {                                                                                              \
        (void)b, (void)c;                                                                          \
        int64_t i = 0;                                                                             \
        for (; i + LANES <= count; i += LANES) {                                                   \
            INDEPENDENT                                                                            \
            for (int l = 0; l < LANES; l++)                                                        \
                d[l] = combine(d[l], a[i + l]);                                                    \
        }                                                                                          \
        for (int l = 0; i + l < count; l++)                                                        \
            d[l] = combine(d[l], a[i + l]);                                                        \
    }
#define SUM(x, y)     ((x) + (y))
#define MAXIMUM(x, y) ((x) > (y) ? (x) : (y))
REDUCE(row_sum, SUM)
REDUCE(row_max, MAXIMUM)

static void op_fill(float *d, const float *a, const float *b, const float *c, int64_t count)
{
    (void)b, (void)c;
    const float value = a[0];
    for (int64_t i = 0; i < count; i++)
        d[i] = value;
}

/* The exponent decides, whatever the compiler may assume of floats. Threads may store at once. */
static void op_flag(float *d, const float *a, const float *b, const float *c, int64_t count)
{
    (void)b, (void)c;
    uint32_t any = 0;
    for (int64_t i = 0; i < count; i++)
        any |= (cpu_bits_of_float(a[i]) & 0x7f800000u) == 0x7f800000u;
    if (any)
        __atomic_store_n((int32_t *)(void *)d, 1, __ATOMIC_RELAXED);
}

static void op_stream(float *d, const float *a, const float *b, const float *c, int64_t count)
{
#if defined(__SSE2__)
    if (((uintptr_t)d & 63) == 0 && (count & 15) == 0) {
#if defined(__AVX512F__)
        for (int64_t i = 0; i < count; i += 16)
            _mm512_stream_ps(d + i, _mm512_loadu_ps(a + i));
#elif defined(__AVX__)
        for (int64_t i = 0; i < count; i += 8)
            _mm256_stream_ps(d + i, _mm256_loadu_ps(a + i));
#else
        for (int64_t i = 0; i < count; i += 4)
            _mm_stream_ps(d + i, _mm_loadu_ps(a + i));
#endif
        return;
    }
#endif
    op_copy(d, a, b, c, count);
}

#define LOAD(name, type, value)                                                                    \
    static void load_##name(float *d, const void *memory, int64_t stride, int64_t count)           \
    {                                                                                              \
        const type *source = memory;                                                               \
        if (stride == 1) {                                                                         \
            INDEPENDENT                                                                            \
            for (int64_t i = 0; i < count; i++)                                                    \
                d[i] = value(source[i]);                                                           \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < count; i++)                                                        \
            d[i] = value(source[i * stride]);                                                      \
    }
LOAD(f32, float, (float))
LOAD(i32, int32_t, (float))
#define UPPER_HALF(x)      (uint16_t)(cpu_bits_of_float(x) >> 16)
#define FROM_UPPER_HALF(x) cpu_float_of_bits((uint32_t)(x) << 16)
LOAD(word16, uint16_t, FROM_UPPER_HALF)
#define ROUNDED_DTYPE(NAME, name, ...) LOAD(name, cpu_##name, cpu_widen_##name)
#include <remat/dtypes.def>

#define STORE(name, type, value)                                                                   \
    static void store_##name(void *memory, int64_t stride, const float *a, int64_t count)          \
    {                                                                                              \
        type *destination = memory; /* NOLINT(bugprone-macro-parentheses) */                       \
        if (stride == 1) {                                                                         \
            INDEPENDENT                                                                            \
            for (int64_t i = 0; i < count; i++)                                                    \
                destination[i] = value(a[i]);                                                      \
            return;                                                                                \
        }                                                                                          \
        for (int64_t i = 0; i < count; i++)                                                        \
            destination[i * stride] = value(a[i]);                                                 \
    }
STORE(f32, float, (float))
STORE(word16, uint16_t, UPPER_HALF)
#define ROUNDED_DTYPE(NAME, name, ...) STORE(name, cpu_##name, cpu_narrow_##name)
#include <remat/dtypes.def>

#define ROW(name) [REMAT_INSTRUCTION_##name] = op_##name
#define PAIR(inner, outer)                                                                         \
    [CPU_TILE_PAIR(CPU_TILE_INNER_##inner, CPU_TILE_OUTER_##outer)] = op_##inner##_##outer
#define PAIRS_OF(inner)                                                                            \
    PAIR(inner, add), PAIR(inner, sub), PAIR(inner, rsub), PAIR(inner, mul), PAIR(inner, div),     \
        PAIR(inner, rdiv)
#define OWN(name) [CPU_TILE_##name] = op_##name
const struct cpu_tile_table CPU_NAME(cpu_tile_table) = {
    .ops =
        {
            ROW(add),      ROW(sub),      ROW(mul),      ROW(div),     ROW(maximum),
            ROW(minimum),  ROW(equal),    ROW(less),     ROW(select),  ROW(neg),
            ROW(exp),      ROW(log),      ROW(sqrt),     ROW(rsqrt),   ROW(tanh),
            ROW(erf),      ROW(sigmoid),  ROW(row_sum),  ROW(row_max), ROW(column_sum),
            ROW(flag),     OWN(copy),     OWN(fill),     OWN(stream),  PAIRS_OF(add),
            PAIRS_OF(sub), PAIRS_OF(mul), PAIRS_OF(div),
#define ROUNDED_DTYPE(NAME, name, ...) ROW(round_##name),
#include <remat/dtypes.def>
        },
    .loads[REMAT_I32] = load_i32,
    .loads[CPU_TILE_WORD16] = load_word16,
    .stores[CPU_TILE_WORD16] = store_word16,
#define COMPUTED_DTYPE(NAME, name, ...)                                                            \
    .loads[REMAT_##NAME] = load_##name, .stores[REMAT_##NAME] = store_##name,
#include <remat/dtypes.def>
    .uniforms = CPU_NAME(cpu_uniforms),
};
