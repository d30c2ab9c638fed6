/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler's memory. Running out of it unwinds: an allocation succeeds or jumps back to the
 * guard, so that functions return values, and statuses are for errors that a user can cause. A time
 * limit and a broken invariant of a rewrite unwind in the same way.
 *
 *     static remat_status body(void *user)           // an entry point's work
 *     {
 *         struct remat_arena *scratch = remat_scratch_open(ctx);
 *         REMAT_NEW(scratch, array, count);           // zeroed; never fails
 *         ...
 *         remat_scratch_close(scratch);
 *     }
 *     st = remat_guard(ctx, body, &x);               // REMAT_ERROR_MEMORY, message set
 *
 * A jump must not cross frames of the runtime or of C++. They call back with statuses
 * (ingest/graph_write.c), and code that holds anything else than scratch arenas while it allocates
 * has a guard of its own. */
#ifndef REMAT_UNWIND_H
#define REMAT_UNWIND_H

#include "base.h"

/* Returns the status of `body`, REMAT_ERROR_MEMORY with the message of the failed allocation, or
 * the status of remat_unwind_as. Closes all scratch arenas that `body` left open. Guards nest; no
 * other thread may use `ctx` meanwhile. Changes that `body` had made when it unwound stay. */
remat_status remat_guard(remat_context *ctx, remat_status (*body)(void *user), void *user);

/* The same with a time limit: every allocation polls is_late(user) until it returns true. The body
 * then unwinds with REMAT_ERROR_CUT_SHORT. */
remat_status remat_guard_until(remat_context *ctx, remat_status (*body)(void *user),
                               bool (*is_late)(void *user), void *user);

/* Jumps to the context's innermost guard, which must exist: out of memory. */
_Noreturn void remat_unwind(remat_context *ctx);
/* The same for another status, which the guard returns; the message is set. For broken invariants
 * in functions that return values. */
_Noreturn void remat_unwind_as(remat_context *ctx, remat_status status);

/* Polls the time limit; for long work that allocates nothing. */
static inline void remat_unwind_if_late(remat_context *ctx)
{
    if (ctx->is_late && ctx->is_late(ctx->is_late_user))
        remat_unwind(ctx);
}

/* Returns what fails. For functions that hold nothing: scratch arenas are the guard's to close. */
#define REMAT_CHECK(expression)                                                                    \
    do {                                                                                           \
        remat_status status_ = (expression);                                                       \
        if (status_ != REMAT_OK)                                                                   \
            return status_;                                                                        \
    } while (0)

/* An arena, which the guard closes where its owner does not. Closing NULL does nothing. */
struct remat_arena *remat_scratch_open(remat_context *ctx);
void remat_scratch_close(struct remat_arena *scratch);

/* `pointer`, or it unwinds where that is NULL: for functions of the runtime that allocate. */
static inline void *remat_or_unwind(remat_context *ctx, void *pointer)
{
    if (!pointer)
        remat_unwind(ctx);
    return pointer;
}

/* As remat_arena_array and its siblings (base.h). */
static inline void *remat_array(struct remat_arena *arena, size_t count, size_t size)
{
    return remat_or_unwind(arena->ctx, remat_arena_array(arena, count, size));
}
static inline void *remat_uninitialized(struct remat_arena *arena, size_t count, size_t size)
{
    return remat_or_unwind(arena->ctx, remat_arena_uninitialized(arena, count, size));
}
static inline char *remat_string(struct remat_arena *arena, const char *text, size_t length)
{
    return remat_or_unwind(arena->ctx, remat_arena_string(arena, text, length));
}
#define REMAT_FORMAT(arena, ...)                                                                   \
    ((char *)remat_or_unwind((arena)->ctx, remat_arena_format((arena), __VA_ARGS__)))

/* Unwinds where a part of the text has been lost for want of memory. */
static inline void remat_text_complete(const struct remat_text *text)
{
    if (text->failed)
        remat_unwind(text->arena->ctx);
}

#define REMAT_NEW(arena, pointer, count)                                                           \
    ((pointer) = remat_array((arena), (count), sizeof *(pointer)))
/* The same without zeros: all that is read is written first. */
#define REMAT_NEW_UNINITIALIZED(arena, pointer, count)                                             \
    ((pointer) = remat_uninitialized((arena), (count), sizeof *(pointer)))

/* A copy of an array. */
static inline void *remat_copy(struct remat_arena *arena, const void *items, size_t count,
                               size_t size)
{
    void *copy = remat_uninitialized(arena, count, size);
    if (count)
        memcpy(copy, items, count * size);
    return copy;
}

/* The indices of `keys`, which are below key_count, in groups of equal keys: those with key k lie
 * in *indices, ascending, from begin[k] to begin[k + 1]. Returns begin. */
uint32_t *remat_group_by_key(struct remat_arena *arena, const uint32_t *keys, uint32_t count,
                             uint32_t key_count, uint32_t **indices);

/* Appends to a list (base.h), or any struct with its three members. */
#define REMAT_PUSH(arena, list, item)                                                              \
    do {                                                                                           \
        if ((list)->count == (list)->capacity)                                                     \
            (list)->items = remat_or_unwind(                                                       \
                (arena)->ctx, remat_arena_grow((arena), (list)->items, (list)->count,              \
                                               &(list)->capacity, sizeof *(list)->items));         \
        (list)->items[(list)->count++] = (item);                                                   \
    } while (0)

#endif
