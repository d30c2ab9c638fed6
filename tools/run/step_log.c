/* SPDX-License-Identifier: Apache-2.0 */
#include "step_log.h"

#include "lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char begin[] = "{\"step\":";

static bool parse_step(const char *line, uint64_t *step)
{
    char *end = NULL;
    if (strncmp(line, begin, sizeof begin - 1) != 0)
        return false;
    *step = strtoull(line + sizeof begin - 1, &end, 10);
    return *end == ',';
}

/* Of a line that was not written to its end. */
static bool may_be_step(const char *line, size_t length)
{
    return memcmp(line, begin, length < sizeof begin - 1 ? length : sizeof begin - 1) == 0;
}

/* Where the first line of a later step begins, or one that was not written to its end. */
static remat_status find_end(remat_context *ctx, FILE *file, const char *path, uint64_t resumed,
                             off_t *out)
{
    remat_status st = REMAT_OK;
    char *line = NULL;
    size_t room = 0;
    uint64_t step = 0, number = 0;
    ssize_t length;
    off_t at = 0;
    bool found = false;
    for (; (length = getline(&line, &room, file)) > 0; at += length) {
        bool complete = line[length - 1] == '\n';
        number++;
        if (complete ? !parse_step(line, &step) : !may_be_step(line, (size_t)length))
            RUN_FAIL(ctx, REMAT_ERROR_USAGE, "--log %s: line %llu is no step's: take another file",
                     path, (unsigned long long)number);
        found |= !complete || step > resumed;
        *out = found ? *out : at + length;
    }
    if (ferror(file))
        st = cli_file_error(ctx, path, "cannot read: ", errno);
fail:
    free(line);
    return st;
}

static remat_status cut(remat_context *ctx, const struct step_log *log, uint64_t resumed)
{
    remat_status st = REMAT_OK;
    off_t end = 0;
    FILE *file = fopen(log->path, "rbe");
    if (!file)
        return cli_file_error(ctx, log->path, "", errno);
    RUN_TRY(find_end(ctx, file, log->path, resumed, &end));
    if (ftruncate(log->file, end) != 0)
        st = cli_file_error(ctx, log->path, "cannot write: ", errno);
fail:
    fclose(file);
    return st;
}

remat_status step_log_open(remat_context *ctx, const char *path, uint64_t resumed,
                           struct step_log *out)
{
    struct stat info;
    *out = (struct step_log){-1, path};
    if (!path)
        return REMAT_OK;
    out->file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
    if (out->file < 0 || fstat(out->file, &info) != 0)
        return cli_file_error(ctx, path, "", errno);
    if (!S_ISREG(info.st_mode))
        return REMAT_OK;
    if (!lock_take(out->file))
        return cli_error(ctx, REMAT_ERROR_USAGE, "--log %s: another process writes to this file",
                         path);
    return cut(ctx, out, resumed);
}

void step_log_close(struct step_log *log)
{
    if (log->file >= 0)
        close(log->file);
    log->file = -1;
}

remat_status step_log_add(remat_context *ctx, const struct step_log *log, const char *line)
{
    for (size_t left = strlen(line); left;) {
        ssize_t written = write(log->file, line, left);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return cli_file_error(ctx, log->path, "cannot write: ", written ? errno : EIO);
        line += written;
        left -= (size_t)written;
    }
    return REMAT_OK;
}
