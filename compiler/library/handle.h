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

/* Copies as much of a struct as the caller's has room for; both begin with their size. */
void remat_handle_give(const void *info, size_t bytes, void *out);

#endif
