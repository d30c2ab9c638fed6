/* SPDX-License-Identifier: Apache-2.0 */
/* Options that would make a plan fit, smaller or faster. Each is planned as it is typed: what is
 * said of it is what that plan has. */
#ifndef REMAT_ADVICE_H
#define REMAT_ADVICE_H

#include "advice_facts.h"
#include "compile.h"

struct remat_advice {
    const char *tool;          /* whose options they are: "remat-compile", "remat-graph" */
    const char *options;       /* "--zero 1" */
    const char *graph_options; /* of remat-graph, beside those of remat-compile; NULL: none */
    const char *text; /* "--zero 1, remat-graph --moments bf16: 989 ms a step, needs 79.1 GB" */
    uint64_t needed_bytes, step_ns; /* with them; step_ns 0: of the smallest plan, which does not
                                       fit either, or of adapters that cannot be planned the
                                       persistent bytes alone */
};
struct remat_advices REMAT_LIST(struct remat_advice);

/* Callback that plans. */
struct remat_advice_planner {
    /* The same graph and settings but for what is changed. REMAT_ERROR_INFEASIBLE: it does not
     * fit; *out is then of the smallest plan found, needed_bytes 0: there is none. */
    remat_status (*plan)(void *user, struct remat_graph *graph,
                         struct remat_compile_settings *settings, struct remat_advice_facts *out);
    /* The graph with adapters of rank ADVICE_LORA (advice_options.h), in `arena`; NULL: it cannot
     * be made, and *why says why. */
    remat_status (*adapt)(void *user, struct remat_arena *arena, const struct remat_graph *graph,
                          const struct remat_graph **out, const char **why);
    void *user;
};

/* `facts`, of what was planned or refused. In `arena`. */
remat_status remat_advise(remat_context *ctx, struct remat_arena *arena,
                          const struct remat_graph *graph,
                          const struct remat_compile_settings *settings,
                          const struct remat_advice_facts *facts,
                          const struct remat_advice_planner *planner, struct remat_advices *out);

#endif
