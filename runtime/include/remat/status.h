/* SPDX-License-Identifier: Apache-2.0 */
/* Status codes, the context, and what the host supplies to it: allocator and logger.
 *
 * Every function of the library that can fail takes a context first and returns a status; the
 * message that belongs to a failure lies in the context. The library never prints, never exits,
 * reads no environment variable and has no globals. */
#ifndef REMAT_STATUS_H
#define REMAT_STATUS_H

#include <stddef.h>
#include <stdint.h>

/* Marks what the shared library exports. */
#if defined(__GNUC__)
#define REMAT_API __attribute__((visibility("default")))
#else
#define REMAT_API
#endif

/* With clang it is a warning not to look at what a call returned: `(void)` says that it is meant.
 */
#if defined(__clang__)
#define REMAT_NODISCARD __attribute__((warn_unused_result))
#else
#define REMAT_NODISCARD
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Stable numbers: the tools use them as exit codes. */
typedef enum REMAT_NODISCARD remat_status {
    REMAT_OK = 0,
    REMAT_ERROR_OTHER = 1, /* anything not listed below */
    REMAT_ERROR_USAGE = 2, /* settings that are unknown, out of range or contradict each other */
    REMAT_ERROR_INFEASIBLE = 3, /* no plan fits the budget */
    REMAT_ERROR_INVALID = 4,    /* a graph or plan that is malformed or unsupported */
    REMAT_ERROR_IO = 5,         /* a file, or a library and its device, could not be had */
    REMAT_ERROR_MEMORY = 6,     /* the host's allocator returned NULL, or the GPU has too little */
    REMAT_ERROR_CUT_SHORT = 7,  /* a search or a time limit ended before there was a result */
    REMAT_ERROR_NOT_FINITE = 8, /* training or evaluation met an infinity or a NaN */
    REMAT_ERROR_PLAN_ONLY = 9,  /* the plan leaves out a part of its model: it is only looked at */
    REMAT_ERROR_INTERNAL = 70,  /* a broken invariant of ours */
    REMAT_ERROR_RANK_LOST = 75, /* another rank is gone or late: a repetition may succeed */
} remat_status;

/* Host memory. `reallocate(user, NULL, n)` allocates n > 0 bytes aligned for any type,
 * `reallocate(user, p, 0)` frees p, otherwise p is resized; NULL means out of memory and leaves p
 * as it was. Called only from the thread that uses the context. */
typedef struct remat_allocator {
    void *(*reallocate)(void *user, void *pointer, size_t bytes);
    void *user;
} remat_allocator;

typedef enum remat_severity {
    REMAT_SEVERITY_DEBUG,
    REMAT_SEVERITY_INFO,
    REMAT_SEVERITY_WARNING,
} remat_severity;

/* Receives one line, printable as messages are, without its newline; `text` is valid during the
 * call only. NULL: discard. */
typedef struct remat_logger {
    void (*log)(void *user, remat_severity severity, const char *text);
    void *user;
} remat_logger;

/* Thread-compatible: one thread at a time may use a context and what was made with it. Borrowed by
 * every object that is created with it, so it outlives them. */
typedef struct remat_context remat_context;

/* `allocator` and `logger` may be NULL: malloc and free, and silence. Returns NULL when out of
 * memory. */
REMAT_API remat_context *remat_context_create(const remat_allocator *allocator,
                                              const remat_logger *logger);
REMAT_API void remat_context_destroy(remat_context **context);

/* The message of the last failure, "" if there was none. One line of printable UTF-8, less than
 * 1024 bytes: control characters of names that it quotes, C1 and directional overrides too, are
 * written as in JSON (\n, \u001b), bytes that are not UTF-8 as \x9b. Valid until the next call
 * that fails. */
REMAT_API const char *remat_context_message(const remat_context *context);

#ifdef __cplusplus
}
#endif
#endif
