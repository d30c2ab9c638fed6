/* SPDX-License-Identifier: Apache-2.0 */
#include "sensitivity.h"

#include <assert.h>

#include "kernel.h"

enum remat_cost_class remat_cost_class_of(uint32_t kernel_kind)
{
    switch (remat_kernel_row(kernel_kind)->arithmetic) {
    case REMAT_ARITHMETIC_MATMUL:
        return REMAT_COST_MATMUL;
    case REMAT_ARITHMETIC_ATTENTION:
    case REMAT_ARITHMETIC_ATTENTION_BACKWARD:
        return REMAT_COST_ATTENTION;
    default:
        return REMAT_COST_REST;
    }
}

/* The digits of `number` in base 3 say which class is off in which direction. */
static double scaled_ns(const struct remat_class_times *plan, uint32_t number)
{
    double ns = 0;
    for (uint32_t c = 0; c < REMAT_COST_CLASSES; c++, number /= 3)
        ns += (double)plan->ns[c] * (1 + REMAT_SENSITIVITY_SHARE * ((double)(number % 3) - 1));
    return ns;
}

struct remat_sensitivity remat_sensitivity_of(const struct remat_class_times *plans, uint32_t count,
                                              uint32_t chosen)
{
    assert(chosen < count);
    struct remat_sensitivity result = {.worst = chosen};
    for (uint32_t number = 0; number <= REMAT_SENSITIVITY_CASES; number++) {
        double mine = scaled_ns(&plans[chosen], number), least = mine;
        if (number == REMAT_SENSITIVITY_CASES / 2) /* nothing is off */
            continue;
        for (uint32_t i = 0; i < count; i++) {
            double ns = scaled_ns(&plans[i], number);
            least = ns < least ? ns : least;
            if (ns < mine && mine / ns - 1 > result.lost) {
                result.lost = mine / ns - 1;
                result.worst = i;
            }
        }
        result.held += least == mine;
    }
    return result;
}

bool remat_sensitivity_may_lead(const struct remat_class_times *a,
                                const struct remat_class_times *b)
{
    for (uint32_t number = 0; number <= REMAT_SENSITIVITY_CASES; number++)
        if (scaled_ns(a, number) < scaled_ns(b, number))
            return true;
    return false;
}
