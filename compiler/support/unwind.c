/* SPDX-License-Identifier: Apache-2.0 */
/* Guards of a context form a stack, and each has a list of its scratch arenas, which are closed
 * before the jump, while the frames between are whole. */
#include "unwind.h"

#include <assert.h>
#include <setjmp.h>

struct scratch {
    struct remat_arena arena; /* first: callers get its address */
    struct remat_guard *guard;
    struct scratch *next, *previous;
};

struct remat_guard {
    jmp_buf jump;
    struct remat_guard *outer;
    struct scratch *scratch; /* newest first */
    remat_status status;     /* why it unwinds */
};

static void close_all(struct remat_guard *guard)
{
    while (guard->scratch)
        remat_scratch_close(&guard->scratch->arena);
}

remat_status remat_guard(remat_context *ctx, remat_status (*body)(void *user), void *user)
{
    struct remat_guard guard = {.outer = ctx->guard};
    volatile remat_status st;
    ctx->guard = &guard;
    remat_context_keep_blocks(ctx, true);
    if (setjmp(guard.jump) == 0) {
        st = body(user);
        close_all(&guard);
    } else {
        st = guard.status;
    }
    ctx->guard = guard.outer;
    remat_context_keep_blocks(ctx, guard.outer != NULL);
    return st;
}

struct limit {
    bool (*is_late)(void *user);
    void *user;
    bool late;
};

static bool has_passed(void *user)
{
    struct limit *limit = user;
    limit->late = limit->late || limit->is_late(limit->user);
    return limit->late;
}

remat_status remat_guard_until(remat_context *ctx, remat_status (*body)(void *user),
                               bool (*is_late)(void *user), void *user)
{
    struct limit limit = {.is_late = is_late, .user = user};
    ctx->is_late = has_passed;
    ctx->is_late_user = &limit;
    ctx->array_count = 0;
    remat_status st = remat_guard(ctx, body, user);
    ctx->is_late = NULL;
    if (st != REMAT_ERROR_MEMORY || !limit.late)
        return st;
    return remat_error(ctx, REMAT_ERROR_CUT_SHORT,
                       "there was no plan to write within the time limit");
}

void remat_unwind(remat_context *ctx)
{
    remat_unwind_as(ctx, REMAT_ERROR_MEMORY);
}

void remat_unwind_as(remat_context *ctx, remat_status status)
{
    struct remat_guard *guard = ctx->guard;
    assert(guard && status != REMAT_OK);
    guard->status = status;
    close_all(guard);
    longjmp(guard->jump, 1);
}

struct remat_arena *remat_scratch_open(remat_context *ctx)
{
    struct scratch *s = remat_or_unwind(ctx, remat_reallocate(ctx, NULL, sizeof *s));
    *s = (struct scratch){.guard = ctx->guard};
    remat_arena_init(&s->arena, ctx);
    if (s->guard) {
        s->next = s->guard->scratch;
        if (s->next)
            s->next->previous = s;
        s->guard->scratch = s;
    }
    return &s->arena;
}

void remat_scratch_close(struct remat_arena *scratch)
{
    if (!scratch)
        return;
    struct scratch *s = (struct scratch *)scratch;
    remat_context *ctx = scratch->ctx;
    if (s->guard)
        *(s->previous ? &s->previous->next : &s->guard->scratch) = s->next;
    if (s->next)
        s->next->previous = s->previous;
    remat_arena_release(scratch);
    remat_reallocate(ctx, s, 0);
}

uint32_t *remat_group_by_key(struct remat_arena *arena, const uint32_t *keys, uint32_t count,
                             uint32_t key_count, uint32_t **indices)
{
    uint32_t *begin; /* until the end, begin[k + 1] is where the next index with key k goes */
    REMAT_NEW(arena, begin, (size_t)key_count + 2);
    REMAT_NEW_UNINITIALIZED(arena, *indices, count);
    for (uint32_t i = 0; i < count; i++)
        begin[keys[i] + 2]++;
    for (uint32_t k = 0; k < key_count; k++)
        begin[k + 2] += begin[k + 1];
    for (uint32_t i = 0; i < count; i++)
        (*indices)[begin[keys[i] + 1]++] = i;
    return begin;
}
