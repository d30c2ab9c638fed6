/* SPDX-License-Identifier: Apache-2.0 */
/* Used by every file: the error idiom, memory, checked sizes, hashing.
 *
 *     remat_status st = REMAT_OK;
 *     REMAT_TRY_NEW(arena, array, count);           // zeroed; goes to `fail` when out of memory
 *     REMAT_TRY(other(ctx, ...));
 *     if (bad)
 *         REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "node \"%s\": %d inputs, expected 2", name, n);
 *     return REMAT_OK;
 * fail:
 *     ...release...
 *     return st;
 *
 * In the compiler running out of memory is no status, and what holds nothing returns at once:
 * compiler/support/unwind.h. */
#ifndef REMAT_BASE_H
#define REMAT_BASE_H

#include <remat/status.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef unsigned long long ull; /* as printf takes it: "%llu" */

#define REMAT_MESSAGE_BYTES 1024

/* The beginning of a block that the context keeps until it is destroyed itself. */
struct remat_buried {
    struct remat_buried *next;
};

struct remat_context {
    remat_allocator allocator;
    remat_logger logger;
    struct remat_guard *guard; /* of the compiler (compiler/support/unwind.h) */
    struct remat_arena_block *spare_blocks;
    bool keeps_blocks;
    /* Also of the compiler: asked for each block of an arena, and now and then for an array in it;
     * true: as if memory were out, without a message. NULL: not asked. */
    bool (*is_late)(void *user);
    void *is_late_user;
    uint32_t array_count;        /* modulo 2^32 */
    uint32_t graph_count;        /* of the compiler's hosts: graphs begun, modulo 2^32 */
    struct remat_buried *buried; /* destroyed objects, in builds with asserts */
    char message[REMAT_MESSAGE_BYTES];
};

#if defined(__GNUC__)
#define REMAT_PRINTF(at, first) __attribute__((format(printf, at, first)))
#else
#define REMAT_PRINTF(at, first)
#endif

/* Stores the message and returns `status`, so that `return remat_error(...)` reads well. Messages
 * and log lines are shown as remat_show does: one line of printable text, whatever names it
 * quotes. The message so far may be an argument. */
remat_status remat_error(remat_context *ctx, remat_status status, const char *format, ...)
    REMAT_PRINTF(3, 4);
void remat_log(remat_context *ctx, remat_severity severity, const char *format, ...)
    REMAT_PRINTF(3, 4);

#define REMAT_TRY(expression)                                                                      \
    do {                                                                                           \
        if ((st = (expression)) != REMAT_OK)                                                       \
            goto fail;                                                                             \
    } while (0)
#define REMAT_FAIL(ctx, status, ...)                                                               \
    do {                                                                                           \
        st = remat_error((ctx), (status), __VA_ARGS__);                                            \
        goto fail;                                                                                 \
    } while (0)

/* --- host memory, owned singly --- */
void *remat_reallocate(remat_context *ctx, void *pointer, size_t bytes); /* bytes 0 frees */

/* --- arena: many small allocations with one end of life --- */
/* Thread-compatible. Memory is aligned to 16 bytes. Zero-initialise with {0} plus the context. */
struct remat_arena_block;
struct remat_arena {
    remat_context *ctx; /* borrowed */
    struct remat_arena_block *blocks;
    char *next, *end;
};
void remat_arena_init(struct remat_arena *arena, remat_context *ctx);
void remat_arena_release(struct remat_arena *arena); /* frees everything; the arena may be reused */
/* Forgets everything but keeps the memory for what comes next, in one block. */
void remat_arena_reset(struct remat_arena *arena);
/* While it is on, blocks of released arenas are kept for other arenas of the context: memory that
 * was touched before costs no page faults. Turning it off frees them. */
void remat_context_keep_blocks(remat_context *ctx, bool keep);
/* Zeroed memory of count * size bytes, or NULL (message set) when that overflows or memory is out.
 * count 0 yields a valid pointer. */
void *remat_arena_array(struct remat_arena *arena, size_t count, size_t size);
/* The same memory as it is: what nothing writes takes no room of the machine. */
void *remat_arena_uninitialized(struct remat_arena *arena, size_t count, size_t size);
/* Copies a string of `length` bytes and terminates it; NULL when out of memory. */
char *remat_arena_string(struct remat_arena *arena, const char *text, size_t length);
char *remat_arena_format(struct remat_arena *arena, const char *format, ...) REMAT_PRINTF(2, 3);
/* The next capacity of a growing array, with its old contents copied and undefined ones after
 * them; NULL when out of memory. */
void *remat_arena_grow(struct remat_arena *arena, void *old, size_t count, size_t *capacity,
                       size_t size);

/* A growing list: struct REMAT_LIST(uint32_t) ids = {0}; REMAT_TRY_PUSH(arena, &ids, 7); */
#define REMAT_LIST(type)                                                                           \
    {                                                                                              \
        type *items; /* NOLINT(bugprone-macro-parentheses) */                                      \
        size_t count, capacity;                                                                    \
    }

#define REMAT_NONE UINT32_MAX /* of an index: none */

/* The index of one kind of things, which passes for no other: nodes[n.i]. */
#define REMAT_INDEX(name)                                                                          \
    typedef struct name {                                                                          \
        uint32_t i;                                                                                \
    } name

#define REMAT_TRY_NEW(arena, pointer, count)                                                       \
    do {                                                                                           \
        if (!((pointer) = remat_arena_array((arena), (count), sizeof *(pointer)))) {               \
            st = REMAT_ERROR_MEMORY;                                                               \
            goto fail;                                                                             \
        }                                                                                          \
    } while (0)
/* Appends to a list, or any struct with its three members. */
#define REMAT_TRY_PUSH(arena, list, item)                                                          \
    do {                                                                                           \
        if ((list)->count == (list)->capacity) {                                                   \
            void *grown_ = remat_arena_grow((arena), (list)->items, (list)->count,                 \
                                            &(list)->capacity, sizeof *(list)->items);             \
            if (!grown_) {                                                                         \
                st = REMAT_ERROR_MEMORY;                                                           \
                goto fail;                                                                         \
            }                                                                                      \
            (list)->items = grown_;                                                                \
        }                                                                                          \
        (list)->items[(list)->count++] = (item);                                                   \
    } while (0)

/* --- text --- */

/* Letters and digits of an identifier, in every locale. */
static inline bool remat_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static inline bool remat_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* --- text that grows --- */
struct remat_text { /* zero-terminated; owned by the arena */
    struct remat_arena *arena;
    char *items;
    size_t count, capacity;
    bool failed; /* out of memory at some point: contents are incomplete */
};
void remat_text_append(struct remat_text *text, const char *format, ...) REMAT_PRINTF(2, 3);
/* Appends text that others wrote, as people are shown it (show.h). */
void remat_text_show(struct remat_text *text, const char *what);
/* The same as a string of JSON, which has no bytes that are not UTF-8, as names of files may: those
 * are text, \\x9b. */
void remat_text_json(struct remat_text *text, const char *what);

/* --- checked sizes: false on overflow, *result is then unspecified --- */
static inline bool remat_add_u64(uint64_t a, uint64_t b, uint64_t *result)
{
    *result = a + b;
    return *result >= a;
}
static inline bool remat_mul_u64(uint64_t a, uint64_t b, uint64_t *result)
{
    *result = a * b;
    return a == 0 || *result / a == b;
}
/* The same; UINT64_MAX on overflow. */
static inline uint64_t remat_add_saturated(uint64_t a, uint64_t b)
{
    uint64_t result;
    return remat_add_u64(a, b, &result) ? result : UINT64_MAX;
}
static inline uint64_t remat_mul_saturated(uint64_t a, uint64_t b)
{
    uint64_t result;
    return remat_mul_u64(a, b, &result) ? result : UINT64_MAX;
}
#define REMAT_ALIGNMENT 256u /* of every buffer in a device arena, bytes */
static inline uint64_t remat_align_up(uint64_t bytes, uint64_t alignment) /* power of two */
{
    return (bytes + alignment - 1) & ~(alignment - 1);
}
static inline uint64_t remat_aligned_bytes(uint64_t bytes)
{
    return remat_align_up(bytes, REMAT_ALIGNMENT);
}
static inline int64_t remat_divide_up(int64_t a, int64_t b) /* a >= 0, b > 0 */
{
    return (a + b - 1) / b;
}
static inline int64_t remat_min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline void remat_keep_most(uint64_t *most, uint64_t value)
{
    *most = value > *most ? value : *most;
}
static inline void remat_keep_least(uint64_t *least, uint64_t value) /* *least 0: none yet */
{
    if (!*least || value < *least)
        *least = value;
}

/* --- 64-bit hash (XXH64) --- */
uint64_t remat_hash(const void *data, size_t bytes, uint64_t seed);
static inline uint64_t remat_hash_string(const char *text, uint64_t seed)
{
    return remat_hash(text, strlen(text), seed);
}

/* --- element types --- */
/* REMAT_F32, ... from dtypes.def, which explains the kinds. */
typedef enum remat_dtype {
#define DTYPE(NAME, name, number, ...) REMAT_##NAME = (number),
#define FOREIGN_DTYPE                  DTYPE
#include <remat/dtypes.def>
    REMAT_DTYPE_COUNT = 1
#define DTYPE(...)    +1 /* NOLINT(bugprone-macro-parentheses) */
#define FOREIGN_DTYPE DTYPE
#include <remat/dtypes.def>
} remat_dtype;

struct remat_dtype_row {
    const char *name; /* "f32", ... */
    uint32_t bytes;
    bool is_float, is_computed, is_rounded, is_foreign;
};
extern const struct remat_dtype_row remat_dtypes[REMAT_DTYPE_COUNT]; /* row 0 is no dtype */
extern const char remat_computed_dtypes[];                           /* "f32 or bf16" */

bool remat_dtype_parse(const char *name, size_t length, remat_dtype *out);
static inline const struct remat_dtype_row *remat_dtype_row(remat_dtype dtype)
{
    return &remat_dtypes[(unsigned)dtype < REMAT_DTYPE_COUNT ? (unsigned)dtype : 0];
}
static inline const char *remat_dtype_name(remat_dtype dtype) /* NULL: it is none */
{
    return remat_dtype_row(dtype)->name;
}
static inline uint32_t remat_dtype_bytes(remat_dtype dtype)
{
    return remat_dtype_row(dtype)->bytes;
}
static inline bool remat_dtype_is_float(remat_dtype dtype)
{
    return remat_dtype_row(dtype)->is_float;
}
static inline bool remat_dtype_is_computed(remat_dtype dtype)
{
    return remat_dtype_row(dtype)->is_computed;
}
static inline bool remat_dtype_is_rounded(remat_dtype dtype)
{
    return remat_dtype_row(dtype)->is_rounded;
}

#endif
