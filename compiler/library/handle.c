/* SPDX-License-Identifier: Apache-2.0 */
#include "handle.h"

void *remat_handle_open(remat_context *ctx, const char *what, size_t bytes)
{
    struct remat_handle *handle = remat_reallocate(ctx, NULL, bytes);
    if (!handle)
        return NULL;
    memset(handle, 0, bytes);
    handle->ctx = ctx;
    handle->what = what;
    handle->bytes = bytes;
    remat_arena_init(&handle->arena, ctx);
    return handle;
}

#ifdef NDEBUG
static void bury(struct remat_handle *h)
{
    remat_reallocate(h->ctx, h, 0);
}
#else
static void bury(struct remat_handle *h)
{
    remat_context *ctx = h->ctx;
    struct remat_handle left = {
        .buried = {ctx->buried}, .ctx = ctx, .what = h->what, .destroyed = true};
    memset(h, 0, h->bytes);
    *h = left;
    ctx->buried = &h->buried;
}
#endif

void remat_handle_close(void *handle)
{
    struct remat_handle *h = handle;
    if (!h || h->destroyed)
        return;
    remat_arena_release(&h->arena);
    bury(h);
}

remat_status remat_handle_check(remat_context *ctx, const void *handle, const char *what)
{
    const struct remat_handle *h = handle;
    if (!h)
        return ctx ? remat_error(ctx, REMAT_ERROR_USAGE, "there is no %s: NULL", what)
                   : REMAT_ERROR_USAGE;
    ctx = ctx ? ctx : h->ctx;
    if (strcmp(h->what, what) != 0)
        return remat_error(ctx, REMAT_ERROR_USAGE, "a %s in place of a %s", h->what, what);
    return h->destroyed ? remat_error(ctx, REMAT_ERROR_USAGE, "the %s is destroyed", what)
                        : REMAT_OK;
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
