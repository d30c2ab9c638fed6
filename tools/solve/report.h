/* SPDX-License-Identifier: Apache-2.0 */
/* Writes remat-decision/1 and remat-curve/1. */
#ifndef REMAT_TOOLS_SOLVE_REPORT_H
#define REMAT_TOOLS_SOLVE_REPORT_H

#include "base.h"

#include <remat/solve.h>

struct solve_solution {
    remat_solved_info info;
    const uint32_t *runs;
    uint32_t run_count;
};

struct solve_report {
    const remat_problem_spec *spec;
    remat_problem_solver_info problem;
    const uint64_t *budgets;
    const struct solve_solution *solutions;
    uint32_t count;
    bool time_limit_hit, interrupted;
};

/* The text lives in the arena of `text`. */
void report_decision(struct remat_text *text,
                     const struct solve_report *report); /* of solutions[0] */
enum report_format { REPORT_JSON, REPORT_CSV, REPORT_SVG };
void report_curve(struct remat_text *text, const struct solve_report *report,
                  enum report_format format);

#endif
