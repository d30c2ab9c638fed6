/* SPDX-License-Identifier: Apache-2.0 */
/* What every model must fulfil under every plan. */
#ifndef TESTS_E2E_CHECK_H
#define TESTS_E2E_CHECK_H

#include "plans.h"

struct check_model {
    const char *name; /* for messages */
    const struct plan_set *plans;
    const char *policy; /* must be among the plans that check_bits compares; NULL: any */
    bool two_level;     /* so must one in which values are recomputed twice */
    bool pitch;         /* check_peak: of every plan some buffer must have rows with a pitch */
};

/* Loss and gradients of two steps have the same bits under all plans, by turns with 2 threads and
 * 1; at least `budgets` of the budgets, and then at least `policies` of the policies, must come to
 * decisions of their own. Prints a line; returns the numerics_hash that the plans have in common.
 */
uint64_t check_bits(remat_context *ctx, const struct check_model *model, uint32_t budgets,
                    uint32_t policies);

/* The planned peak is the used one under all plans: of an arena painted above the persistent the
 * steps touch all up to the last byte of the highest buffer and nothing above it; no buffer is
 * larger than what it holds; freed bytes that become NaN, and, under every fourth, guards
 * between buffers, change nothing. Prints a line. */
void check_peak(remat_context *ctx, const struct check_model *model);

#endif
