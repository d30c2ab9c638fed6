/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of a plan that remat-run needs, found by name. */
#ifndef REMAT_TOOLS_RUN_MODEL_H
#define REMAT_TOOLS_RUN_MODEL_H

#include "families.h"

#include <stdbool.h>

struct model {
    const remat_plan *plan;
    uint64_t batch, seq;   /* of the inputs "tokens" and "targets", i32 [batch, seq]; 0: it has no
                              ids, and all inputs are given */
    const char *mesh;      /* "dp=2,tp=4"; "": one rank */
    uint64_t data_ranks;   /* along dp */
    uint64_t microbatches; /* of all ranks */
    const char *chosen_by; /* the option that had the parts chosen; "": they were given */
    uint64_t source_seq;   /* of the input "source", 0: none */
    int64_t vocabulary;    /* ids are below it, INT64_MAX: all may be */
    enum feeding feeding;
    bool has_lr, has_step, has_rng;
    bool has_flag;  /* the output "not_finite", i32 [1], which tells of gradients */
    bool has_parts; /* of parameters, on the ranks; then the flag is a rank's own */
};

/* `entries`: NULL-terminated names of the entry points that the plan must have. */
remat_status model_inspect(remat_context *ctx, const remat_plan *plan, const char *const *entries,
                           struct model *out);

/* Whether this tool writes the input of that name itself (feed.h). */
bool model_writes(const char *input);

uint64_t model_longest_row(const struct model *model); /* of an input, in ids */
uint64_t model_step_tokens(const struct model *model); /* of all ranks, those of a source too */

#endif
