/* SPDX-License-Identifier: Apache-2.0 */
/* Another plan for the graph of a plan, with the same settings but other decisions. */
#ifndef REMAT_TOOLS_REPLAN_H
#define REMAT_TOOLS_REPLAN_H

#include "base.h"
#include "program.h"

/* Without a budget, with every layer recomputed but for the values `saved`. Fails where the graph
 * in the file is not the plan's. */
remat_status replan(remat_context *ctx, struct remat_arena *arena, const char *model,
                    const struct remat_program *program, const char *const *saved,
                    uint32_t saved_count, struct remat_program **out);

#endif
