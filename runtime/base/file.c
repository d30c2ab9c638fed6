/* Whole files, read with a limit and written by rename. */
#include "base.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

remat_status remat_file_read(remat_context *ctx, const char *path, struct remat_arena *arena,
                             char **out_data, size_t *out_bytes)
{
    remat_status st = REMAT_OK;
    FILE *file = fopen(path, "rb");
    if (!file)
        return remat_error(ctx, REMAT_ERROR_IO, "%s: %s", path, strerror(errno));
    struct stat info;
    if (fstat(fileno(file), &info) != 0)
        REMAT_FAIL(ctx, REMAT_ERROR_IO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode))
        REMAT_FAIL(ctx, REMAT_ERROR_IO, "%s: not a regular file", path);
    if (info.st_size > INT32_MAX - 1)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "%s: %lld bytes, the limit is %d", path,
                   (long long)info.st_size, INT32_MAX - 1);
    char *data;
    size_t bytes = (size_t)info.st_size;
    REMAT_NEW(arena, data, bytes + 1);
    if (fread(data, 1, bytes, file) != bytes)
        REMAT_FAIL(ctx, REMAT_ERROR_IO, "%s: cannot read its %zu bytes", path, bytes);
    *out_data = data;
    *out_bytes = bytes;
fail:
    fclose(file);
    return st;
}

remat_status remat_file_write(remat_context *ctx, const char *path, const void *data, size_t bytes)
{
    remat_status st = REMAT_OK;
    char temporary[4096];
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return remat_error(ctx, REMAT_ERROR_IO, "%s: not a regular file", path);
    int length = snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof temporary)
        return remat_error(ctx, REMAT_ERROR_IO, "%s: path too long", path);
    FILE *file = fopen(temporary, "wb");
    if (!file)
        return remat_error(ctx, REMAT_ERROR_IO, "%s: %s", path, strerror(errno));
    bool written = fwrite(data, 1, bytes, file) == bytes;
    written &= fflush(file) == 0;
    if (fclose(file) != 0 || !written)
        REMAT_FAIL(ctx, REMAT_ERROR_IO, "%s: cannot write: %s", path, strerror(errno));
    if (rename(temporary, path) != 0)
        REMAT_FAIL(ctx, REMAT_ERROR_IO, "%s: %s", path, strerror(errno));
    return REMAT_OK;
fail:
    remove(temporary);
    return st;
}
