/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the engines. */
#ifndef REMAT_COMM_H
#define REMAT_COMM_H

#include "base.h"

#include <remat/engine.h>

#include <stdatomic.h>

#define DESCRIPTION_BYTES 256 /* enough for remat_transfer_describe, unless a name is long */

/* Functions of one kind of engines (remat_engines_*): each engine's file has one of these, and
 * meson.build its name. */
struct comm_kind {
    remat_engine_kind kind;
    remat_status (*open)(remat_context *ctx, const remat_engines_params *params, void **out);
    void (*get)(void *opened, uint32_t rank, remat_engine *out);
    uint64_t (*device_bytes)(const void *opened, uint32_t rank); /* NULL: none */
    remat_status (*finish)(void *opened);                        /* NULL: there is nothing to do */
    void (*close)(void *opened);
};

/* A call of a library that may hang. It lives as long as the call does. */
struct comm_call {
    int (*function)(void *argument); /* these two are the caller's */
    void *argument;
    int result;
    atomic_bool done;
};
/* Makes it in a thread, which is abandoned when it is late: REMAT_ERROR_RANK_LOST.
 * REMAT_ERROR_MEMORY: there is no thread for it. */
remat_status comm_call_within(struct comm_call *call, uint64_t timeout_ns);

#endif
