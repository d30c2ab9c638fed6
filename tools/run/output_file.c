#include "output_file.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_replaceable(const char *path)
{
    struct stat info;
    return lstat(path, &info) != 0 || S_ISREG(info.st_mode);
}

remat_status output_file_open(remat_context *ctx, const char *path, struct output_file *out)
{
    *out = (struct output_file){.path = path};
    if (is_replaceable(path)) {
        int length =
            snprintf(out->temporary, sizeof out->temporary, "%s.%ld.tmp", path, (long)getpid());
        if (length < 0 || (size_t)length >= sizeof out->temporary)
            return cli_error(ctx, REMAT_ERROR_IO, "%s: path too long", path);
    }
    out->stream = fopen(*out->temporary ? out->temporary : path, "wb");
    if (!out->stream)
        return cli_error(ctx, REMAT_ERROR_IO, "%s: %s", path, strerror(errno));
    return REMAT_OK;
}

/* Opening a pipe would wait for its reader, and opening a device may have effects. */
remat_status output_file_check(remat_context *ctx, const char *path)
{
    struct output_file file;
    struct stat info;
    if (is_replaceable(path)) {
        remat_status st = output_file_open(ctx, path, &file);
        output_file_abandon(&file);
        return st;
    }
    int reason = stat(path, &info) == 0 && S_ISDIR(info.st_mode) ? EISDIR : 0;
    if (reason == 0 && access(path, W_OK) != 0)
        reason = errno;
    return reason ? cli_error(ctx, REMAT_ERROR_IO, "%s: %s", path, strerror(reason)) : REMAT_OK;
}

static void remove_temporary(const struct output_file *file)
{
    if (*file->temporary)
        remove(file->temporary);
}

remat_status output_file_commit(remat_context *ctx, struct output_file *file)
{
    bool written = fflush(file->stream) == 0 && !ferror(file->stream);
    written &= fclose(file->stream) == 0;
    file->stream = NULL;
    if (written && (!*file->temporary || rename(file->temporary, file->path) == 0))
        return REMAT_OK;
    int reason = errno;
    remove_temporary(file);
    return cli_error(ctx, REMAT_ERROR_IO, "%s: cannot write: %s", file->path, strerror(reason));
}

void output_file_abandon(struct output_file *file)
{
    if (!file->stream)
        return;
    fclose(file->stream);
    file->stream = NULL;
    remove_temporary(file);
}
