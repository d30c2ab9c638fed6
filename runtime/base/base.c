/* SPDX-License-Identifier: Apache-2.0 */
/* Context, error text, host memory and the arena. */
#include "base.h"

#include "show.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static void *host_reallocate(void *user, void *pointer, size_t bytes)
{
    (void)user;
    if (bytes > 0)
        return realloc(pointer, bytes);
    free(pointer);
    return NULL;
}

remat_context *remat_context_create(const remat_allocator *allocator, const remat_logger *logger)
{
    remat_allocator a = allocator ? *allocator : (remat_allocator){host_reallocate, NULL};
    remat_context *ctx = a.reallocate(a.user, NULL, sizeof *ctx);
    if (!ctx)
        return NULL;
    *ctx = (remat_context){.allocator = a};
    if (logger)
        ctx->logger = *logger;
    return ctx;
}

void remat_context_destroy(remat_context **context)
{
    assert(context);
    if (!*context)
        return;
    remat_allocator a = (*context)->allocator;
    for (struct remat_buried *next, *at = (*context)->buried; at; at = next) {
        next = at->next;
        a.reallocate(a.user, at, 0);
    }
    a.reallocate(a.user, *context, 0);
    *context = NULL;
}

const char *remat_context_message(const remat_context *context)
{
    return context->message;
}

/* Of a character that is cut at the end of `text` nothing is shown: there is no room for it. */
static void format_line(char line[REMAT_MESSAGE_BYTES], const char *format, va_list arguments)
{
    char text[REMAT_MESSAGE_BYTES];
    vsnprintf(text, sizeof text, format, arguments);
    remat_show_text(line, REMAT_MESSAGE_BYTES, text);
}

remat_status remat_error(remat_context *ctx, remat_status status, const char *format, ...)
{
    assert(status != REMAT_OK);
    va_list arguments;
    va_start(arguments, format);
    format_line(ctx->message, format, arguments);
    va_end(arguments);
    return status;
}

void remat_log(remat_context *ctx, remat_severity severity, const char *format, ...)
{
    if (!ctx->logger.log)
        return;
    char line[REMAT_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    format_line(line, format, arguments);
    va_end(arguments);
    ctx->logger.log(ctx->logger.user, severity, line);
}

void *remat_reallocate(remat_context *ctx, void *pointer, size_t bytes)
{
    if (bytes == 0 && !pointer)
        return NULL;
    void *result = ctx->allocator.reallocate(ctx->allocator.user, pointer, bytes);
    if (bytes && !result)
        (void)remat_error(ctx, REMAT_ERROR_MEMORY, "out of memory: %zu bytes", bytes);
    return result;
}

#define ARRAYS_A_QUESTION     1024 /* whether it is late; large ones are asked for each */
#define ARENA_BLOCK_BYTES     (64u << 10)
#define ARENA_BLOCK_BYTES_MAX (64u << 20)

struct remat_arena_block {
    struct remat_arena_block *previous;
    uint64_t payload_bytes; /* also keeps the payload aligned to 16 bytes */
};

void remat_arena_init(struct remat_arena *arena, remat_context *ctx)
{
    assert(ctx);
    *arena = (struct remat_arena){.ctx = ctx};
}

void remat_arena_release(struct remat_arena *arena)
{
    remat_context *ctx = arena->ctx;
    while (arena->blocks) {
        struct remat_arena_block *block = arena->blocks;
        arena->blocks = block->previous;
        if (ctx->keeps_blocks) {
            block->previous = ctx->spare_blocks;
            ctx->spare_blocks = block;
        } else {
            remat_reallocate(ctx, block, 0);
        }
    }
    arena->next = arena->end = NULL;
}

/* Frees spare blocks of so many bytes, or all. */
static void free_spare(remat_context *ctx, uint64_t bytes)
{
    for (uint64_t freed_bytes = 0; ctx->spare_blocks && freed_bytes < bytes;) {
        struct remat_arena_block *block = ctx->spare_blocks;
        ctx->spare_blocks = block->previous;
        freed_bytes += block->payload_bytes;
        remat_reallocate(ctx, block, 0);
    }
}

void remat_context_keep_blocks(remat_context *ctx, bool keep)
{
    ctx->keeps_blocks = keep;
    if (!keep)
        free_spare(ctx, UINT64_MAX);
}

/* The smallest spare block with room for that, but none much larger; NULL: there is none. */
static struct remat_arena_block *take_spare(remat_context *ctx, uint64_t payload_bytes)
{
    struct remat_arena_block **best = NULL;
    uint64_t most_bytes = payload_bytes + payload_bytes / 4;
    for (struct remat_arena_block **b = &ctx->spare_blocks; *b; b = &(*b)->previous)
        if ((*b)->payload_bytes >= payload_bytes && (*b)->payload_bytes <= most_bytes &&
            (!best || (*b)->payload_bytes < (*best)->payload_bytes))
            best = b;
    struct remat_arena_block *block = best ? *best : NULL;
    if (block)
        *best = block->previous;
    return block;
}

static bool is_late(remat_context *ctx)
{
    return ctx->is_late && ctx->is_late(ctx->is_late_user);
}

/* A new block takes the place of spare ones, so that these add nothing to the peak. */
static bool add_block(struct remat_arena *arena, uint64_t payload_bytes)
{
    remat_context *ctx = arena->ctx;
    if (is_late(ctx))
        return false;
    struct remat_arena_block *block = take_spare(ctx, payload_bytes);
    if (!block) {
        free_spare(ctx, payload_bytes);
        block = remat_reallocate(ctx, NULL, sizeof *block + payload_bytes);
        if (!block)
            return false;
        block->payload_bytes = payload_bytes;
    }
    block->previous = arena->blocks;
    arena->blocks = block;
    arena->next = (char *)(block + 1);
    arena->end = arena->next + block->payload_bytes;
    return true;
}

/* Blocks double, so the newest is the largest. Large arrays are rounded up, so that those of the
 * next graph fit the blocks of the last one. */
static uint64_t next_block_bytes(const struct remat_arena *arena, uint64_t bytes)
{
    uint64_t grown = arena->blocks ? 2 * arena->blocks->payload_bytes : ARENA_BLOCK_BYTES;
    grown = grown < ARENA_BLOCK_BYTES_MAX ? grown : ARENA_BLOCK_BYTES_MAX;
    uint64_t step = grown == ARENA_BLOCK_BYTES_MAX ? ARENA_BLOCK_BYTES_MAX / 2 : 1;
    return bytes > grown ? remat_align_up(bytes, step) : grown;
}

/* One block for all, so that what is as large again finds its memory without a call. */
void remat_arena_reset(struct remat_arena *arena)
{
    uint64_t bytes = 0; /* of all blocks */
    for (const struct remat_arena_block *b = arena->blocks; b; b = b->previous)
        bytes += b->payload_bytes;
    if (!arena->blocks)
        return;
    if (arena->blocks->previous) {
        remat_arena_release(arena);
        if (!add_block(arena, bytes))
            return;
    }
    arena->next = (char *)(arena->blocks + 1);
    arena->end = arena->next + arena->blocks->payload_bytes;
}

static void *allocate(struct remat_arena *arena, size_t count, size_t size, uint64_t *out_bytes)
{
    uint64_t bytes;
    if (!remat_mul_u64(count, size, &bytes) || bytes > PTRDIFF_MAX / 2) {
        (void)remat_error(arena->ctx, REMAT_ERROR_MEMORY, "out of memory: %zu items of %zu bytes",
                          count, size);
        return NULL;
    }
    bytes = remat_align_up(bytes ? bytes : 1, 16);
    bool asks = bytes >= ARENA_BLOCK_BYTES || ++arena->ctx->array_count % ARRAYS_A_QUESTION == 0;
    if (asks && is_late(arena->ctx))
        return NULL;
    if ((uint64_t)(arena->end - arena->next) < bytes &&
        !add_block(arena, next_block_bytes(arena, bytes)))
        return NULL;
    void *result = arena->next;
    arena->next += bytes;
    *out_bytes = bytes;
    return result;
}

void *remat_arena_array(struct remat_arena *arena, size_t count, size_t size)
{
    assert(size > 0);
    uint64_t bytes;
    void *result = allocate(arena, count, size, &bytes);
    return result ? memset(result, 0, bytes) : NULL;
}

void *remat_arena_uninitialized(struct remat_arena *arena, size_t count, size_t size)
{
    uint64_t bytes;
    return allocate(arena, count, size, &bytes);
}

char *remat_arena_string(struct remat_arena *arena, const char *text, size_t length)
{
    assert(text || length == 0);
    char *copy = remat_arena_array(arena, length + 1, 1);
    return copy ? memcpy(copy, text, length) : NULL;
}

/* Into the free memory at first, where it mostly has room. */
char *remat_arena_format(struct remat_arena *arena, const char *format, ...)
{
    uint64_t room_bytes = (uint64_t)(arena->end - arena->next);
    char *text = arena->next;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, room_bytes, format, arguments);
    va_end(arguments);
    if (length < 0)
        return NULL;
    if ((uint64_t)length < room_bytes)
        return remat_arena_uninitialized(arena, (size_t)length + 1, 1);
    if (!(text = remat_arena_uninitialized(arena, (size_t)length + 1, 1)))
        return NULL;
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

void *remat_arena_grow(struct remat_arena *arena, void *old, size_t count, size_t *capacity,
                       size_t size)
{
    assert(old || count == 0);
    assert(count <= *capacity);
    size_t grown = *capacity ? *capacity * 2 : 8;
    uint64_t bytes;
    void *result = allocate(arena, grown, size, &bytes);
    if (!result)
        return NULL;
    if (count)
        memcpy(result, old, count * size);
    *capacity = grown;
    return result;
}

/* So much room after the text, or it has failed. */
static void reserve_text(struct remat_text *text, size_t bytes)
{
    while (!text->failed && text->count + bytes > text->capacity) {
        void *grown = remat_arena_grow(text->arena, text->items, text->count, &text->capacity, 1);
        if (grown)
            text->items = grown;
        else
            text->failed = true;
    }
}

void remat_text_append(struct remat_text *text, const char *format, ...)
{
    assert(text->arena);
    va_list arguments;
    reserve_text(text, 1);
    if (text->failed)
        return;
    size_t room = text->capacity - text->count;
    va_start(arguments, format);
    int length = vsnprintf(text->items + text->count, room, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    if ((size_t)length >= room) {
        reserve_text(text, (size_t)length + 1);
        if (text->failed)
            return;
        va_start(arguments, format);
        vsnprintf(text->items + text->count, (size_t)length + 1, format, arguments);
        va_end(arguments);
    }
    text->count += (size_t)length;
}

void remat_text_show(struct remat_text *text, const char *what)
{
    char shown[REMAT_SHOWN_BYTES];
    while (*what) {
        const char *begin = what;
        for (uint32_t length; *what && (length = remat_printable(what, strnlen(what, 4)));)
            what += length;
        remat_text_append(text, "%.*s", (int)(what - begin), begin);
        if (remat_show(&what, shown))
            remat_text_append(text, "%s", shown);
    }
}

void remat_text_json(struct remat_text *text, const char *what)
{
    char shown[REMAT_SHOWN_BYTES];
    remat_text_append(text, "\"");
    while (*what) {
        if (*what == '"' || *what == '\\')
            remat_text_append(text, "\\%c", *what++);
        else if (remat_show(&what, shown))
            remat_text_append(text, "%s%s", shown[0] == '\\' && shown[1] == 'x' ? "\\" : "", shown);
    }
    remat_text_append(text, "\"");
}

uint64_t remat_hash(const void *data, size_t bytes, uint64_t seed)
{
    return XXH64(data, bytes, seed);
}

const struct remat_dtype_row remat_dtypes[REMAT_DTYPE_COUNT] = {
#define DTYPE(NAME, name, number, bytes, ...)                                                      \
    [REMAT_##NAME] = {#name, bytes, false, false, false, false},
#define FLOAT_DTYPE(NAME, name, number, bytes, ...)                                                \
    [REMAT_##NAME] = {#name, bytes, true, false, false, false},
#define COMPUTED_DTYPE(NAME, name, number, bytes, ...)                                             \
    [REMAT_##NAME] = {#name, bytes, true, true, false, false},
#define ROUNDED_DTYPE(NAME, name, number, bytes, ...)                                              \
    [REMAT_##NAME] = {#name, bytes, true, true, true, false},
#define FOREIGN_DTYPE(NAME, name, number, bytes)                                                   \
    [REMAT_##NAME] = {#name, bytes, false, false, false, true},
#include <remat/dtypes.def>
};

const char remat_computed_dtypes[] =
#define COMPUTED_DTYPE(NAME, name, ...) #name
#define ROUNDED_DTYPE(NAME, name, ...)  " or " #name
#include <remat/dtypes.def>
    ;

bool remat_dtype_parse(const char *name, size_t length, remat_dtype *out)
{
    for (int d = 1; d < REMAT_DTYPE_COUNT; d++)
        if (strlen(remat_dtypes[d].name) == length &&
            memcmp(remat_dtypes[d].name, name, length) == 0) {
            *out = (remat_dtype)d;
            return true;
        }
    return false;
}
