/* SPDX-License-Identifier: Apache-2.0 */
/* Private to this folder: what all handles begin with. */
#ifndef REMAT_HANDLE_H
#define REMAT_HANDLE_H

#include "unwind.h"

struct remat_handle {
    struct remat_buried buried;
    remat_context *ctx;
    const char *what; /* "graph" */
    size_t bytes;
    bool destroyed;
    struct remat_arena arena; /* of all that the handle has */
};

/* `bytes` of zeros that begin with a handle; NULL, with a message: out of memory. `what` is a
 * literal. */
void *remat_handle_open(remat_context *ctx, const char *what, size_t bytes);
/* NULL: nothing is done. With asserts the handle stays, without what it had, until its context
 * goes, so that remat_handle_check knows it. */
void remat_handle_close(void *handle);
/* REMAT_ERROR_USAGE: it is NULL, another object or, in builds with asserts, destroyed. `ctx` NULL:
 * the handle's own. */
remat_status remat_handle_check(remat_context *ctx, const void *handle, const char *what);

/* Structs of hosts begin with their size, and may lack the end of ours or go on beyond it. Copies
 * as much as both have; what a given one lacks is 0. */
void remat_handle_take(const void *given, size_t bytes, void *out);
void remat_handle_give(const void *info, size_t bytes, void *out);

#endif
