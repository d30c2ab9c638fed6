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

/* Asks for a plan: by a policy, or by a budget alone. */
struct plan_request {
    const char *name;
    struct remat_policy_settings policy;
    uint64_t budget_bytes; /* 0: none */
};

enum { PLAN_BUDGETS = 10, PLAN_REQUESTS_MAX = 32 };

/* Everything saved; PLAN_BUDGETS budgets, evenly spaced from the smallest that the planner finds a
 * plan for to what everything saved takes; the other named policies that the model has the ops and
 * modules for. Names lie in `arena`. Returns how many. */
uint32_t plan_requests(remat_context *ctx, struct remat_arena *arena,
                       const struct remat_graph *graph,
                       struct plan_request requests[PLAN_REQUESTS_MAX]);

/* For the CPU; fails the process on errors. */
struct remat_program *plan_compile(remat_context *ctx, struct remat_arena *arena,
                                   const struct remat_graph *graph,
                                   const struct plan_request *request);

#endif
