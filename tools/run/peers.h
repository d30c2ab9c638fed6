/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's way to all others: its engine, and how long it waits for them. */
#ifndef REMAT_TOOLS_RUN_PEERS_H
#define REMAT_TOOLS_RUN_PEERS_H

#include "run.h"

struct peers {
    const remat_engine *engine;
    uint64_t timeout_ns;
};

/* `bytes` of each rank, in their order, into `all`. All ranks call it, in the same order; `name`
 * and `sequence` are equal on all and say in messages what is gathered. */
remat_status peers_gather(remat_context *ctx, const struct peers *peers, const char *name,
                          uint64_t sequence, uint64_t bytes, const void *mine, void *all);
/* *value: whether it is true of some rank; the same conditions. */
remat_status peers_any(remat_context *ctx, const struct peers *peers, const char *name,
                       uint64_t sequence, bool *value);

#endif
