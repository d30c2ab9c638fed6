/* SPDX-License-Identifier: Apache-2.0 */
/* Checks. One that fails prints file, line, expression and values, is counted, is false, and the
 * test goes on; a test program returns check_exit(). After the arguments shown may stand a format
 * with what else tells the case. */
#ifndef CHECK_H
#define CHECK_H

#include <remat/status.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition, ...)                                                                      \
    check_is((condition) || check_failed(__FILE__, __LINE__, #condition, " " __VA_ARGS__))

/* A call returns `expected`, and then its message has the given part. */
#define CHECK_STATUS(ctx, call, expected, part, ...)                                               \
    check_status(__FILE__, __LINE__, #call, ctx, call, expected, part, " " __VA_ARGS__)
#define CHECK_OK(ctx, call, ...)                                                                   \
    check_status(__FILE__, __LINE__, #call, ctx, call, REMAT_OK, "", " " __VA_ARGS__)

/* CHECK and CHECK_OK where the program cannot go on: it ends. */
#define MUST(condition, ...)                                                                       \
    ((condition)                                                                                   \
         ? (void)0                                                                                 \
         : (check_failed(__FILE__, __LINE__, #condition, " " __VA_ARGS__), exit(check_exit())))
#define MUST_OK(ctx, call, ...)                                                                    \
    (check_status(__FILE__, __LINE__, #call, ctx, call, REMAT_OK, "", " " __VA_ARGS__)             \
         ? (void)0                                                                                 \
         : exit(check_exit()))

static inline bool check_is(bool result)
{
    return result;
}
bool check_failed(const char *file, int line, const char *expression, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool check_status(const char *file, int line, const char *call, const remat_context *ctx,
                  remat_status status, remat_status expected, const char *part, const char *format,
                  ...) __attribute__((format(printf, 8, 9)));

/* A measured figure that may only rise: not below that of tests/thresholds.txt, by its name.
 * Figures do not depend on the machine, and the more the better. */
bool check_figure(double figure, const char *name, ...) __attribute__((format(printf, 2, 3)));

/* How many checks have failed so far; the exit code, 1 if one has. */
int checks_failed(void);
int check_exit(void);

#endif
