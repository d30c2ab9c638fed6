/* SPDX-License-Identifier: Apache-2.0 */
/* The search for a division, as its files see it. Private. */
#ifndef REMAT_DIVISION_SEARCH_H
#define REMAT_DIVISION_SEARCH_H

#include "divisions.h"

struct division_search {
    const struct remat_request *request;
    struct remat_divisions *divisions;
    uint64_t smallest_bytes; /* of the budgets that refusals name; 0: there is none */
    const struct remat_division_trial *smallest; /* its division, */
    const char *refusal;                         /* with its message */
    uint64_t refused_bytes;                      /* by the attempt under way */
};

/* --- division_choices.c --- */

/* "batch=64,seq=1024": the global batch comes first. NULL: out of memory. */
const char *remat_division_bindings(struct remat_arena *arena, const struct remat_asked *asked);
/* REMAT_ERROR_USAGE: options that contradict each other. */
remat_status remat_division_check_options(remat_context *ctx, const struct remat_asked *asked,
                                          const struct remat_compile_settings *settings);

/* Adds the divisions that the options leave open, mesh by mesh. */
struct remat_division_list REMAT_LIST(struct remat_division_trial);

remat_status remat_division_enumerate(const struct division_search *s,
                                      struct remat_division_list *out);

/* --- division_trial.c --- */

remat_status remat_division_find_bound(struct division_search *s, struct remat_division_trial *d);
/* An attempt that is cut short counts only if there is nothing else. */
remat_status remat_division_plan(struct division_search *s, struct remat_division_trial *d);

#endif
