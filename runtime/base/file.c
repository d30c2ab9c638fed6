/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files, read with a limit. */
#include "file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

remat_status remat_file_error(remat_context *ctx, const char *path, const char *what, int reason)
{
    if (reason == ENOMEM)
        return remat_error(ctx, REMAT_ERROR_MEMORY, "%s: out of memory", path);
    return remat_error(ctx, REMAT_ERROR_IO, "%s: %s%s", path, what, strerror(reason));
}

/* O_NONBLOCK: opening a pipe does not wait for its writer. */
remat_status remat_file_open(remat_context *ctx, const char *path, FILE **out, uint64_t *out_bytes)
{
    assert(path);
    remat_status st = REMAT_OK;
    struct stat info;
    int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (descriptor < 0 || fstat(descriptor, &info) != 0)
        REMAT_TRY(remat_file_error(ctx, path, "", errno));
    if (!S_ISREG(info.st_mode))
        REMAT_FAIL(ctx, REMAT_ERROR_IO, "%s: not a regular file", path);
    *out = fdopen(descriptor, "rb");
    if (!*out)
        REMAT_TRY(remat_file_error(ctx, path, "", errno));
    *out_bytes = (uint64_t)info.st_size;
    return REMAT_OK;
fail:
    if (descriptor >= 0)
        close(descriptor);
    return st;
}

remat_status remat_file_read(remat_context *ctx, const char *path, struct remat_arena *arena,
                             char **out_data, size_t *out_bytes)
{
    assert(path);
    remat_status st = REMAT_OK;
    FILE *file = NULL;
    char *data;
    uint64_t bytes;
    REMAT_TRY(remat_file_open(ctx, path, &file, &bytes));
    if (bytes > INT32_MAX - 1)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%s: %llu bytes, the limit is %d", path,
                   (unsigned long long)bytes, INT32_MAX - 1);
    REMAT_TRY_NEW(arena, data, bytes + 1);
    errno = 0;
    if (fread(data, 1, bytes, file) != bytes && errno == ENOMEM)
        REMAT_TRY(remat_file_error(ctx, path, "", errno));
    if (ferror(file) || feof(file))
        REMAT_FAIL(ctx, REMAT_ERROR_IO, "%s: cannot read its %llu bytes", path,
                   (unsigned long long)bytes);
    *out_data = data;
    *out_bytes = bytes;
fail:
    if (file)
        fclose(file);
    return st;
}
