/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of attention scores: softmax forward and backward, dot products. Whole chunks of 64 columns
 * are loops of constant length; the last chunk selects by column. */
#include "cpu_lanes.h"
#include "cpu_math.h"
#include "isa.h"

static inline float larger(float a, float b)
{
    return b > a ? b : a;
}

static float scaled_max(const float *row, int64_t valid, float scale)
{
    float lanes[CPU_LANES];
    int64_t j = 0;
    cpu_lanes_fill(lanes, -__builtin_inff());
    for (; j + CPU_LANES <= valid; j += CPU_LANES)
        for (int l = 0; l < CPU_LANES; l++)
            lanes[l] = larger(lanes[l], row[j + l] * scale);
    int rest = (int)(valid - j);
    if (rest > 0)
        for (int l = 0; l < CPU_LANES; l++)
            lanes[l] = larger(lanes[l], l < rest ? row[j + l] * scale : -__builtin_inff());
    return cpu_lanes_max(lanes);
}

float CPU_NAME(cpu_softmax_row)(float *row, int64_t valid, int64_t columns, float scale,
                                float *maximum)
{
    float lanes[CPU_LANES];
    int64_t j = 0;
    cpu_lanes_fill(lanes, 0.0f);
    float m = larger(*maximum, scaled_max(row, valid, scale));
    for (; j + CPU_LANES <= valid; j += CPU_LANES)
        for (int l = 0; l < CPU_LANES; l++) {
            float e = cpu_exp(row[j + l] * scale - m);
            row[j + l] = e;
            lanes[l] += e;
        }
    int rest = (int)(valid - j);
    if (rest > 0) {
        for (int l = 0; l < CPU_LANES; l++) {
            float e = l < rest ? cpu_exp(row[j + l] * scale - m) : 0.0f;
            row[j + l] = e;
            lanes[l] += e;
        }
        j += CPU_LANES;
    }
    for (; j < columns; j++)
        row[j] = 0.0f;
    if (valid > 0)
        *maximum = m;
    return cpu_lanes_sum(lanes);
}

void CPU_NAME(cpu_softmax_gradient_row)(float *restrict p, float *restrict dp, int64_t valid,
                                        int64_t columns, float scale, float lse, float delta)
{
    int64_t j = 0;
    for (; j + CPU_LANES <= valid; j += CPU_LANES)
        for (int l = 0; l < CPU_LANES; l++) {
            float e = cpu_exp(p[j + l] * scale - lse);
            p[j + l] = e;
            dp[j + l] = e * (dp[j + l] - delta) * scale;
        }
    int rest = (int)(valid - j);
    if (rest > 0) {
        for (int l = 0; l < CPU_LANES; l++) {
            float e = cpu_exp(p[j + l] * scale - lse);
            float g = e * (dp[j + l] - delta) * scale;
            p[j + l] = l < rest ? e : 0.0f;
            dp[j + l] = l < rest ? g : 0.0f;
        }
        j += CPU_LANES;
    }
    for (; j < columns; j++)
        p[j] = dp[j] = 0.0f;
}

void CPU_NAME(cpu_dropout_row)(float *restrict row, const float *restrict uniforms, int64_t count,
                               float p, float factor)
{
    for (int64_t j = 0; j < count; j++)
        row[j] = uniforms[j] < p ? 0.0f : row[j] * factor;
}

float CPU_NAME(cpu_dot_row)(const float *x, const float *y, int64_t count)
{
    float lanes[CPU_LANES];
    int64_t i = 0;
    cpu_lanes_fill(lanes, 0.0f);
    for (; i + CPU_LANES <= count; i += CPU_LANES)
        for (int l = 0; l < CPU_LANES; l++)
            lanes[l] += x[i + l] * y[i + l];
    for (int l = 0; i + l < count; l++)
        lanes[l] += x[i + l] * y[i + l];
    return cpu_lanes_sum(lanes);
}
