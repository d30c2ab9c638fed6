/* SPDX-License-Identifier: Apache-2.0 */
/* The plans that the end-to-end tests compare. */
#ifndef TESTS_E2E_PLANS_H
#define TESTS_E2E_PLANS_H

#include "harness.h"

struct named_policy {
    const char *name;
    struct remat_policy_settings settings;
};
extern const struct named_policy named_policies[];
extern const unsigned named_policy_count;

/* By a policy, or by a budget alone. */
struct plan {
    const char *name;
    uint64_t budget_bytes; /* 0: none */
    struct remat_program *program;
};

enum { PLAN_BUDGETS = 10, PLANS_MAX = 32 };
struct plan_set {
    uint32_t count;
    struct plan items[PLANS_MAX];
};

/* Compiled for the CPU: everything saved; PLAN_BUDGETS budgets, evenly spaced from the smallest
 * that the planner finds a plan for to what everything saved takes; the other named policies that
 * the model has the ops and modules for. All lie in `arena`. Fails the process on errors. */
struct plan_set plans_make(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_graph *graph,
                           const struct remat_pass_settings *passes);

#endif
