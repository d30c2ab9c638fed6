/* SPDX-License-Identifier: Apache-2.0 */
#include "json_file.h"

#include <stdlib.h>

remat_status json_file_write(remat_context *ctx, struct remat_outputs *outputs, const char *path,
                             json_t *root, size_t indent)
{
    remat_status st = REMAT_OK;
    char *text = root ? json_dumps(root, JSON_INDENT(indent) | JSON_REAL_PRECISION(4)) : NULL;
    if (!text)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "%s: out of memory", path);
    RUN_TRY(remat_outputs_write(outputs, path, text, strlen(text)));
    RUN_TRY(remat_outputs_write(outputs, path, "\n", 1));
fail:
    free(text);
    json_decref(root);
    return st;
}
