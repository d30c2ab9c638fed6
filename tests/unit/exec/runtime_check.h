/* SPDX-License-Identifier: Apache-2.0 */
/* Assertions that print where and go on; `main` returns the number of failures. */
#ifndef RUNTIME_CHECK_H
#define RUNTIME_CHECK_H

#include <stdio.h>
#include <string.h>

static int failures;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                 \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)
#define CHECK_MESSAGE(ctx, part)                                                                   \
    do {                                                                                           \
        if (!strstr(remat_context_message(ctx), part)) {                                           \
            printf("%s:%d: message \"%s\" lacks \"%s\"\n", __FILE__, __LINE__,                     \
                   remat_context_message(ctx), part);                                              \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

#endif
