/* SPDX-License-Identifier: Apache-2.0 */
/* sensitivity: whether the fastest of several plans stays it when costs are off.
 *
 * Costs are off by class: matmul, attention and all the rest, each 20 % too low, right or 20 % too
 * high, which makes 26 cases beside the predicted one. */
#ifndef REMAT_SENSITIVITY_H
#define REMAT_SENSITIVITY_H

#include "unwind.h"

enum remat_cost_class {
    REMAT_COST_MATMUL,
    REMAT_COST_ATTENTION,
    REMAT_COST_REST,
    REMAT_COST_CLASSES
};
enum remat_cost_class remat_cost_class_of(uint32_t kernel_kind);

struct remat_class_times { /* of a step */
    uint64_t ns[REMAT_COST_CLASSES];
};

#define REMAT_SENSITIVITY_CASES 26
#define REMAT_SENSITIVITY_SHARE 0.2
struct remat_sensitivity {
    uint32_t held;  /* cases in which none is faster than the chosen one */
    uint32_t worst; /* the one that is faster by most in some case; the chosen one if none is */
    double lost;    /* there: time of the chosen one / time of that one - 1 */
};
/* `chosen` < `count`. Pure. */
struct remat_sensitivity remat_sensitivity_of(const struct remat_class_times *plans, uint32_t count,
                                              uint32_t chosen);

/* Some such case, or that nothing is off, puts what takes `a` in front of what takes `b`. */
bool remat_sensitivity_may_lead(const struct remat_class_times *a,
                                const struct remat_class_times *b);

#endif
