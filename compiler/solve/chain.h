/* SPDX-License-Identifier: Apache-2.0 */
/* Chains: forward nodes that read their predecessor only, then backward nodes in an order in which
 * they read the forward values from the last to the first. Of these the fastest schedule in a class
 * that contains all checkpointing schedules is found at every budget at once. docs/problems.md. */
#ifndef REMAT_CHAIN_H
#define REMAT_CHAIN_H

#include "local_search.h"
#include "problem.h"

struct remat_chain;

/* NULL when the problem is no chain, takes too much work, or the deadline came first. It borrows
 * the problem and lives in the arena. Plans above `budget_max` are not looked for. */
struct remat_chain *remat_chain_find(struct remat_arena *arena, const struct remat_problem *problem,
                                     uint64_t budget_max, struct remat_deadline *deadline);

/* A sequence that fits in the budget; empty when the class has none. */
struct remat_sequence remat_chain_plan(struct remat_arena *arena, const struct remat_chain *chain,
                                       uint64_t budget);

#endif
