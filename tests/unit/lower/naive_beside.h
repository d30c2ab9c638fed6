/* SPDX-License-Identifier: Apache-2.0 */
/* What remat_overlap_transfers promises, naively: whether a kernel is ready is asked of all kernels
 * before it, each time. Shares no code with the compiler. Where nothing may start early its order
 * is known; else what holds of it. */
#ifndef NAIVE_BESIDE_H
#define NAIVE_BESIDE_H

#include <stdbool.h>
#include <stdint.h>

enum { KERNELS_MAX = 64, OPERANDS_MAX = 5, NAIVE_NONE = -1 };

enum naive_access { NAIVE_READ, NAIVE_WRITE, NAIVE_UPDATE }; /* an update reads `previous` */

struct naive_kernel {
    bool transfers, beside, piece;
    bool early;              /* beside, and waits for nothing */
    bool slice;              /* it runs with the kernel after it */
    int kind, axis, phase;   /* of a transfer: what goes together */
    uint64_t ns, latency_ns; /* the latter a part of the former */
    int operand_count;
    struct {
        enum naive_access access;
        int value, previous;
    } operands[OPERANDS_MAX];
};

struct naive_problem {
    int count; /* of kernels, by their place in the order */
    struct naive_kernel kernels[KERNELS_MAX];
    int group_latencies; /* a group's time without latency is less than so many times its first's */
    bool early, alone;   /* some transfers are early; no others are there */
    int depth;           /* groups that may start ahead of the order; 0: at most two in flight */
};

struct naive_run {
    int order[KERNELS_MAX];           /* by position: place in the given order */
    int complete_before[KERNELS_MAX]; /* by position */
    bool continues[KERNELS_MAX];
    uint64_t ns;
};

/* Without early transfers, at a depth of 0. */
void naive_beside(const struct naive_problem *problem, struct naive_run *out);

/* What holds of any run, whatever made it: NULL, or what does not hold. */
const char *naive_fault(const struct naive_problem *problem, const struct naive_run *run);

#endif
