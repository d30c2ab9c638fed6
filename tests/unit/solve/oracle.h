/* SPDX-License-Identifier: Apache-2.0 */
/* Exact answers for small problems, by search over (live set, done set), from what the problem is
 * made from. Shares no code with the planner. */
#ifndef ORACLE_H
#define ORACLE_H

#include "problem.h"

#define ORACLE_NODES_MAX  12
#define ORACLE_MODES_MAX  80
#define ORACLE_INFEASIBLE UINT32_MAX

/* Times are whole numbers, all of them together below 2^15; so are bytes. */

/* Least time of any schedule within the budget. */
uint32_t oracle_time(const struct remat_problem_parts *parts, uint64_t budget);
/* Least peak of any schedule. */
uint32_t oracle_peak(const struct remat_problem_parts *parts);

#endif
