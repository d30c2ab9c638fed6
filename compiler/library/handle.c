/* SPDX-License-Identifier: Apache-2.0 */
#include "handle.h"

void *remat_handle_open(remat_context *ctx, size_t bytes)
{
    struct remat_handle *handle = remat_reallocate(ctx, NULL, bytes);
    if (!handle)
        return NULL;
    memset(handle, 0, bytes);
    handle->ctx = ctx;
    remat_arena_init(&handle->arena, ctx);
    return handle;
}

void remat_handle_close(void *handle)
{
    struct remat_handle *h = handle;
    if (!h)
        return;
    remat_arena_release(&h->arena);
    remat_reallocate(h->ctx, h, 0);
}

void remat_handle_take(const void *given, size_t bytes, void *out)
{
    size_t size;
    memcpy(&size, given, sizeof size);
    memset(out, 0, bytes);
    memcpy(out, given, size < bytes ? size : bytes);
}

void remat_handle_give(const void *info, size_t bytes, void *out)
{
    size_t given;
    memcpy(&given, out, sizeof given);
    memcpy(out, info, given < bytes ? given : bytes);
    memcpy(out, &given, sizeof given);
}
