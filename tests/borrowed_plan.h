/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a verified program that a test made in memory and keeps. */
#ifndef BORROWED_PLAN_H
#define BORROWED_PLAN_H

#include <plan.h>

static inline struct remat_plan borrowed_plan(struct remat_program *program)
{
    struct remat_plan plan = {.program = program};
    remat_program_mesh_print(program, plan.mesh);
    return plan;
}

#endif
