/* SPDX-License-Identifier: Apache-2.0 */
#include "cache_folder.h"

#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

remat_status cli_cache_folder(remat_context *ctx, const char *given, char *out, size_t bytes)
{
    const char *folder = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length = 0;
    *out = 0;
    if (given && strcmp(given, "none") != 0)
        length = snprintf(out, bytes, "%s", given);
    else if (!given && folder && *folder)
        length = snprintf(out, bytes, "%s/remat", folder);
    else if (!given && home && *home)
        length = snprintf(out, bytes, "%s/.cache/remat", home);
    return length < (int)bytes ? REMAT_OK
                               : cli_error(ctx, REMAT_ERROR_USAGE, "--cache: the name is too long");
}
