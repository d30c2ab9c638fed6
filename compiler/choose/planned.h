/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a request: with the fastest division and size where it leaves them open, with
 * gradients in pieces where nothing fits otherwise, and with notes on what a user should know. */
#ifndef REMAT_PLANNED_H
#define REMAT_PLANNED_H

#include "advice.h"
#include "divisions.h"
#include "sizes.h"

struct remat_planned {
    struct remat_compile_settings settings; /* of the plan, as are the next three */
    struct remat_asked asked; /* with what was chosen in place of the options that ask for it */
    const char *bindings;
    struct remat_graph *graph;         /* without symbols */
    struct remat_program *program;     /* NULL: none was asked for */
    const struct remat_policy *chosen; /* before pins; NULL: there are none */
    struct remat_sizes *sizes;         /* NULL: none was to be chosen */
    struct remat_divisions *divisions; /* the same */
    bool cut_short;                    /* the choice among several; the plan is made in full */
};

/* With `without_plan` everything but the program. REMAT_ERROR_INFEASIBLE, REMAT_ERROR_CUT_SHORT,
 * ...: as remat_compile, remat_sizes_choose and remat_divisions_choose; out->divisions is then
 * there. */
remat_status remat_plan_asked(const struct remat_request *request, bool without_plan,
                              struct remat_planned *out);

/* Options beside those of the request that would make its plan faster or smaller or, after
 * REMAT_ERROR_INFEASIBLE, fit. `facts`: of the plan, or of the smallest. */
typedef remat_status (*remat_adapt)(void *user, struct remat_arena *arena,
                                    const struct remat_graph *graph, const struct remat_graph **out,
                                    const char **why);
remat_status remat_planned_advise(const struct remat_request *request,
                                  const struct remat_asked *asked,
                                  const struct remat_advice_facts *facts, remat_adapt adapt,
                                  void *user, struct remat_advices *out);

/* The graph's own pins, or those of the settings. */
bool remat_has_pins(const struct remat_graph *graph, const struct remat_policy_settings *settings);

#endif
