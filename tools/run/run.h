/* SPDX-License-Identifier: Apache-2.0 */
/* Used by every file of remat-run. The tool sees libremat's public headers and the command-line
 * library, no other header of the runtime. */
#ifndef REMAT_TOOLS_RUN_H
#define REMAT_TOOLS_RUN_H

#include "cli.h"
#include <remat/remat.h>
#include <string.h>

#define RUN_TRY(expression)                                                                        \
    do {                                                                                           \
        if ((st = (expression)) != REMAT_OK)                                                       \
            goto fail;                                                                             \
    } while (0)
#define RUN_FAIL(ctx, status, ...)                                                                 \
    do {                                                                                           \
        st = cli_error((ctx), (status), __VA_ARGS__);                                              \
        goto fail;                                                                                 \
    } while (0)

#endif
