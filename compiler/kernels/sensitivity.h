/* SPDX-License-Identifier: Apache-2.0 */
/* Sensitivity: whether the fastest of several plans stays the fastest if costs are wrong.
 *
 * Each class of costs (matmul, attention, the rest) is 20 % too low, right, or 20 % too high: 26
 * cases besides the predicted one. */
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
    uint32_t held; /* cases in which no plan is faster than the chosen one */
    uint32_t
        worst;   /* the plan that is faster by the largest factor in some case, or the chosen one */
    double lost; /* in that case: time of the chosen one / time of `worst` - 1 */
};
/* `chosen` < `count`. Pure. */
struct remat_sensitivity remat_sensitivity_of(const struct remat_class_times *plans, uint32_t count,
                                              uint32_t chosen);

/* True if a plan with times `a` is faster than one with `b` in some case, the predicted one
 * included. */
bool remat_sensitivity_may_lead(const struct remat_class_times *a,
                                const struct remat_class_times *b);

#endif
