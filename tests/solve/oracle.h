/* Exact answers for small problems, by search over (live set, done set). Shares no code with the
 * planner. */
#ifndef ORACLE_H
#define ORACLE_H

#include "problem.h"

#define ORACLE_NODES_MAX  8
#define ORACLE_INFEASIBLE UINT64_MAX

/* Least time of any schedule within the budget. */
uint64_t oracle_time(const struct remat_problem *problem, uint64_t budget);
/* Least peak of any schedule. */
uint64_t oracle_peak(const struct remat_problem *problem);

#endif
