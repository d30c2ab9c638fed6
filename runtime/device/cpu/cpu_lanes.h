/* SPDX-License-Identifier: Apache-2.0 */
/* Row reductions with defined order: 64 lanes, element i of the row enters lane i mod 64, in
 * order, and at the end lanes meet in a tree 32, 16, ..., 1. A row may be fed in pieces of any
 * multiple of 64 elements, the last one of any length; the bits are those of the whole row, for
 * every vector width. Empty lanes hold 0 (sum) or -infinity (maximum). */
#ifndef CPU_LANES_H
#define CPU_LANES_H

#include <stdint.h>

#define CPU_LANES 64

static inline void cpu_lanes_fill(float lanes[CPU_LANES], float value)
{
    for (int l = 0; l < CPU_LANES; l++)
        lanes[l] = value;
}

static inline float cpu_lanes_sum(float lanes[CPU_LANES])
{
    for (int width = CPU_LANES / 2; width; width /= 2)
        for (int l = 0; l < width; l++)
            lanes[l] += lanes[l + width];
    return lanes[0];
}

static inline float cpu_lanes_max(float lanes[CPU_LANES])
{
    for (int width = CPU_LANES / 2; width; width /= 2)
        for (int l = 0; l < width; l++)
            lanes[l] = lanes[l + width] > lanes[l] ? lanes[l + width] : lanes[l];
    return lanes[0];
}

#endif
