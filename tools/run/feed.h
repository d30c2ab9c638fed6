/* SPDX-License-Identifier: Apache-2.0 */
/* The inputs of a step, on one rank: each writes those of the whole batch. */
#ifndef REMAT_TOOLS_RUN_FEED_H
#define REMAT_TOOLS_RUN_FEED_H

#include "data.h"

struct feed { /* zero-initialise */
    remat_context *ctx;
    const struct model *model;
    remat_session *session;
    int32_t *ids; /* room for an input */
};

/* Inputs that differ from step to step. */
struct step_inputs {
    uint64_t step; /* counted from 1 */
    uint64_t seed; /* of dropout */
    float lr;
};

remat_status feed_open(remat_context *ctx, const struct model *model, remat_session *session,
                       struct feed *out);
void feed_close(struct feed *feed); /* harmless when closed */

/* Before step `in->step` over `rows`. */
remat_status feed_write(const struct feed *feed, const struct rows *rows,
                        const struct step_inputs *in);

#endif
