/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of times and costs, so that no sum or product of them overflows.
 *
 * A segment (a step, a microbatch, an update, an evaluation) takes less than REMAT_SEGMENT_NS_MAX:
 * remat_arrange refuses longer ones. Prices of kernels and times of decisions that are compared
 * saturate there, so 65536 microbatches and an update take less than 2^62 ns. Costs of choices are
 * whole picoseconds; all costs of a border problem, each counted once, come to at most
 * REMAT_BORDER_PS_MAX, or the planner refuses the graph, and a choice costs no more than that.
 * All values of a graph together have at most REMAT_VALUES_BYTES_MAX, so with their clones less
 * than 2^62. Flops and moved bytes of a kernel saturate at 2^64 - 1; above 2^63 - 1 the graph is
 * refused. Every double in between is exact up to 2^53 and finite. */
#ifndef REMAT_AMOUNTS_H
#define REMAT_AMOUNTS_H

#include "unwind.h"

#include <assert.h>
#include <math.h>

#define REMAT_SEGMENT_NS_MAX   (UINT64_C(1) << 45) /* 9 h 46 min */
#define REMAT_BORDER_PS_MAX    0x1p60
#define REMAT_VALUES_BYTES_MAX (UINT64_C(1) << 59)
#define REMAT_MICROBATCHES_MAX 65536u

/* Rounded up; saturates. */
static inline uint64_t remat_ns_ceil(double ns)
{
    return ns < (double)REMAT_SEGMENT_NS_MAX ? (uint64_t)ceil(ns) : REMAT_SEGMENT_NS_MAX;
}

/* The sum of two saturated times; saturates. */
static inline uint64_t remat_ns_add(uint64_t a, uint64_t b)
{
    assert(a <= REMAT_SEGMENT_NS_MAX && b <= REMAT_SEGMENT_NS_MAX);
    return a + b < REMAT_SEGMENT_NS_MAX ? a + b : REMAT_SEGMENT_NS_MAX;
}

/* Rounded towards 0; what does not fit is above REMAT_BORDER_PS_MAX or below its negative. */
static inline int64_t remat_ps(double ps)
{
    double limit = 2 * REMAT_BORDER_PS_MAX;
    return (int64_t)(ps < limit ? ps > -limit ? ps : -limit : limit);
}

#endif
