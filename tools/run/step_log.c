/* SPDX-License-Identifier: Apache-2.0 */
#include "step_log.h"

#include "file_part.h"
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char begin[] = "{\"step\":", loss[] = ",\"loss\":", time_of_day[] = ",\"unix_s\":";

struct line {
    char text[STEP_LOG_LINE_BYTES];
    size_t length;
    bool complete; /* it has its '\n' */
};

/* As much of a line as one of a log may have. False: there is none, or it cannot be read. */
static bool read_line(FILE *file, struct line *out)
{
    int c = 0;
    out->length = 0;
    while (c != '\n' && out->length < sizeof out->text - 1 && (c = getc(file)) != EOF)
        out->text[out->length++] = (char)c;
    out->text[out->length] = 0;
    out->complete = c == '\n';
    return out->length > 0;
}

static bool parse_step(const struct line *line, uint64_t *step)
{
    char *end = NULL;
    if (!line->complete || strlen(line->text) != line->length ||
        strncmp(line->text, begin, sizeof begin - 1) != 0)
        return false;
    *step = strtoull(line->text + sizeof begin - 1, &end, 10);
    return strncmp(end, loss, sizeof loss - 1) == 0 && strstr(end, time_of_day) &&
           strcmp(line->text + line->length - 2, "}\n") == 0;
}

/* The last one, after others that are complete. */
static bool was_cut_off(const struct line *line)
{
    size_t length = line->length < sizeof begin - 1 ? line->length : sizeof begin - 1;
    return !line->complete && line->length < sizeof line->text - 1 &&
           memcmp(line->text, begin, length) == 0;
}

/* Where the first line of a later step begins, or one that was not written to its end. */
static remat_status find_end(remat_context *ctx, FILE *file, const char *path, uint64_t resumed,
                             off_t *out)
{
    struct line line;
    uint64_t step = 0, number = 0;
    bool found = false;
    for (off_t at = 0; read_line(file, &line) && !ferror(file); at += (off_t)line.length) {
        bool is_step = parse_step(&line, &step);
        if (!is_step && (number == 0 || !was_cut_off(&line)))
            return cli_error(ctx, REMAT_ERROR_USAGE,
                             "--log %s: line %" PRIu64 " is no step's: take another file", path,
                             number + 1);
        found |= !is_step || step > resumed;
        *out = found ? *out : at + (off_t)line.length;
        number++;
    }
    return ferror(file) ? cli_file_error(ctx, path, "cannot read: ", errno) : REMAT_OK;
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
    remat_status st = REMAT_OK;
    struct stat info;
    *out = (struct step_log){-1, path};
    if (!path)
        return REMAT_OK;
    RUN_TRY(remat_file_open_direct(ctx, path, O_CREAT | O_APPEND, &out->file));
    if (fstat(out->file, &info) != 0)
        RUN_TRY(cli_file_error(ctx, path, "", errno));
    if (!S_ISREG(info.st_mode))
        return REMAT_OK;
    if (!lock_take(out->file))
        return cli_error(ctx, REMAT_ERROR_USAGE, "--log %s: another process writes to this file",
                         path);
    st = cut(ctx, out, resumed);
fail:
    return st;
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
