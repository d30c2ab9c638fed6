#include "json_file.h"

#include <stdlib.h>

remat_status json_file_write(remat_context *ctx, const char *path, json_t *root, size_t indent)
{
    remat_status st = REMAT_OK;
    struct output_file file = {0};
    char *text = root ? json_dumps(root, JSON_INDENT(indent)) : NULL;
    if (!text)
        RUN_FAIL(ctx, REMAT_ERROR_MEMORY, "out of memory");
    RUN_TRY(output_file_open(ctx, path, &file));
    fprintf(file.stream, "%s\n", text);
    RUN_TRY(output_file_commit(ctx, &file));
fail:
    free(text);
    json_decref(root);
    return st;
}
