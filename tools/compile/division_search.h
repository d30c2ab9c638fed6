/* SPDX-License-Identifier: Apache-2.0 */
/* The search for a division, as its files see it. Private. */
#ifndef REMAT_TOOLS_COMPILE_DIVISION_SEARCH_H
#define REMAT_TOOLS_COMPILE_DIVISION_SEARCH_H

#include "divisions.h"

struct division_search {
    remat_context *ctx;
    struct remat_arena *arena; /* of what is kept */
    const struct cli_arguments *args;
    const struct remat_graph *parsed;
    const struct remat_compile_settings *settings;
    struct progress *progress;
    struct divisions *divisions;
    uint64_t smallest_bytes;         /* of the budgets that refusals name; 0: there is none */
    const struct division *smallest; /* its division, */
    const char *refusal;             /* with its message */
    uint64_t refused_bytes;          /* by the attempt under way */
};

/* --- division_choices.c --- */

/* "batch=64,seq=1024": the global batch comes first. NULL: out of memory. */
const char *division_bindings(struct remat_arena *arena, const struct cli_arguments *args);
/* REMAT_ERROR_USAGE: options that contradict each other. */
remat_status division_check_options(remat_context *ctx, const struct cli_arguments *args,
                                    const struct remat_compile_settings *settings);

/* Adds the divisions that the options leave open, mesh by mesh. */
struct division_list REMAT_LIST(struct division);

remat_status division_enumerate(const struct division_search *s, struct division_list *out);

/* --- division_trial.c --- */

remat_status division_find_bound(struct division_search *s, struct division *d);
/* An attempt that is cut short counts only if there is nothing else. */
remat_status division_plan(struct division_search *s, struct division *d);

#endif
