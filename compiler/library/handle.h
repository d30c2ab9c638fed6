/* SPDX-License-Identifier: Apache-2.0 */
/* Private to this folder: what all handles begin with. */
#ifndef REMAT_HANDLE_H
#define REMAT_HANDLE_H

#include "unwind.h"

struct remat_handle {
    remat_context *ctx;
    struct remat_arena arena; /* of all that the handle has */
};

/* `bytes` of zeros that begin with a handle; NULL, with a message: out of memory. */
void *remat_handle_open(remat_context *ctx, size_t bytes);
/* NULL: nothing is done. */
void remat_handle_close(void *handle);

/* Structs of hosts begin with their size, and may lack the end of ours or go on beyond it. Copies
 * as much as both have; what a given one lacks is 0. */
void remat_handle_take(const void *given, size_t bytes, void *out);
void remat_handle_give(const void *info, size_t bytes, void *out);

#endif
