/* SPDX-License-Identifier: Apache-2.0 */
/* How a step is divided, among ranks and into microbatches, and which division is the fastest
 * within a budget: --ranks N, --microbatches auto. */
#ifndef REMAT_TOOLS_COMPILE_DIVISIONS_H
#define REMAT_TOOLS_COMPILE_DIVISIONS_H

#include "division.h"

struct divisions {
    const struct cli_arguments *args; /* as given */
    const char *bindings;             /* of the graph's symbols */
    struct division *items;           /* planned ones first, the fastest one first of all */
    uint32_t count;                   /* 0: there is nothing to choose */
    uint32_t counts[DIVISION_OUTCOMES];
    uint32_t ranks;
    int64_t batch; /* of all ranks; 0: the graph has none */
    bool meshes;   /* there is more to choose than the number of microbatches */
    double work;   /* of a step: tokens, or sequences */
    const char *unit;
    bool cut_short;
};

bool divisions_planned(const struct divisions *divisions); /* one at least */
/* Step of the slowest of the best; UINT64_MAX: there are not as many yet. */
uint64_t divisions_time_to_beat(const struct divisions *divisions);
/* The one with the lowest bound that is only bounded; count: there is none. */
uint32_t divisions_find_open(const struct divisions *divisions);
/* Whether the division is not possible for a reason that none before it has; and that reason,
 * without the name of the model. */
bool divisions_has_new_reason(const struct divisions *divisions, uint32_t division);
const char *divisions_reason(const struct divisions *divisions, uint32_t division);

struct progress;

/* division_search.c: finds the fastest division of those that the options leave open, which
 * `settings` and the arguments *out then have; where all is given they are as they were, but for
 * --global-batch, which becomes a binding. With a mesh, `zero` or microbatches given the others are
 * open. REMAT_ERROR_USAGE: options that contradict each other; REMAT_ERROR_INFEASIBLE: no division
 * fits, which proves or tries all; REMAT_ERROR_CUT_SHORT: ended with none found. */
remat_status divisions_choose(remat_context *ctx, struct remat_arena *arena,
                              const struct cli_arguments *args, const struct remat_graph *parsed,
                              struct remat_compile_settings *settings, struct progress *progress,
                              struct divisions *divisions, struct cli_arguments *out);

/* --- divisions_report.c --- */

void divisions_print_text(const struct divisions *divisions);
void divisions_print_json(const struct divisions *divisions); /* a member, with a comma after it */

#endif
