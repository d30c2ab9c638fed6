/* SPDX-License-Identifier: Apache-2.0 */
/* The commit, stage by stage: flush to disk, give the temporary file a name and the old one a
 * second, move. All outputs go through one stage before any begins the next, so what is likely to
 * fail has failed before anything moves. */
#include "commit.h"

#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static remat_status flush(struct remat_outputs *set, struct output *o)
{
    bool whole = !o->stream || !ferror(o->stream);
    errno = 0;
    bool written = !o->stream || fflush(o->stream) == 0;
    if (written && !o->target.direct)
        written = output_sync(o->file);
    if (!written)
        return remat_file_error(set->ctx, o->path, "cannot write: ", errno);
    if (!whole)
        return remat_error(set->ctx, REMAT_ERROR_IO, "%s: cannot write all of it", o->path);
    return REMAT_OK;
}

static int link_temporary(const struct output *o, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", o->file);
    return linkat(AT_FDCWD, path, o->target.folder, name, AT_SYMLINK_FOLLOW);
}

/* Gives the temporary file a name and closes it. */
static remat_status finish(struct remat_outputs *set, struct output *o)
{
    if (!o->target.direct && !*o->temporary &&
        output_make_temporary(o, o->temporary, link_temporary) != 0)
        return remat_file_error(set->ctx, o->path, "", errno);
    int failed = o->stream ? fclose(o->stream) : close(o->file);
    o->stream = NULL;
    o->file = NO_FILE;
    return failed ? remat_file_error(set->ctx, o->path, "cannot write: ", errno) : REMAT_OK;
}

static int link_old(const struct output *o, const char *name)
{
    return linkat(o->target.folder, o->target.name, o->target.folder, name, 0);
}

/* A folder, which may have taken the file's place by now, has no hard links either. */
static bool has_no_links(const struct output *o, int reason)
{
    struct stat info;
    if (fstatat(o->target.folder, o->target.name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        S_ISDIR(info.st_mode))
        return false;
    return reason == EPERM || reason == EOPNOTSUPP || reason == ENOSYS || reason == EMLINK;
}

/* Folders have none either: they take the place of an empty one, or none. */
static remat_status keep_old(struct remat_outputs *set, struct output *o)
{
    if (o->target.direct || o->is_folder || output_make_temporary(o, o->old, link_old) == 0 ||
        errno == ENOENT)
        return REMAT_OK;
    int reason = errno;
    o->rename_old = has_no_links(o, reason);
    return o->rename_old ? REMAT_OK : remat_file_error(set->ctx, o->path, "", reason);
}

static int rename_old(const struct output *o, const char *name)
{
    if (faccessat(o->target.folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        errno = EEXIST;
        return -1;
    }
    return renameat(o->target.folder, o->target.name, o->target.folder, name);
}

static remat_status move(struct remat_outputs *set, struct output *o)
{
    if (o->target.direct)
        return REMAT_OK;
    if (o->rename_old && output_make_temporary(o, o->old, rename_old) != 0)
        return remat_file_error(set->ctx, o->path, "", errno);
    if (renameat(o->target.folder, o->temporary, o->target.folder, o->target.name) != 0)
        return remat_file_error(set->ctx, o->path, "", errno);
    o->moved = true;
    return REMAT_OK;
}

/* What cannot be put back keeps its temporary name, and a warning says so. */
static void undo(struct remat_outputs *set, struct output *o)
{
    int folder = o->target.folder, result = 0;
    if (*o->old && (o->moved || o->rename_old))
        result = renameat(folder, o->old, folder, o->target.name);
    else if (o->moved && o->is_folder) {
        result = renameat(folder, o->target.name, folder, o->temporary);
        if (result == 0 && o->target.exists) /* the umask is over mkdir's mode */
            result = mkdirat(folder, o->target.name, 0700) |
                     fchmodat(folder, o->target.name, output_mode(o, 0), 0);
    } else if (o->moved)
        result = unlinkat(folder, o->target.name, 0);
    else
        return;
    if (result != 0)
        remat_log(set->ctx, REMAT_SEVERITY_WARNING, "%s: cannot be put back: %s%s%s", o->path,
                  strerror(errno), *o->old ? "; the old file is " : "", o->old);
    *o->old = 0;
    o->moved &= !o->is_folder || result != 0;
}

static remat_status sync_folder(struct remat_outputs *set, struct output *o)
{
    if (o->target.direct || output_sync(o->target.folder))
        return REMAT_OK;
    return remat_file_error(set->ctx, o->path, "cannot write: ", errno);
}

remat_status outputs_commit(struct remat_outputs *set)
{
    remat_status (*const stages[])(struct remat_outputs *,
                                   struct output *) = {flush, finish, keep_old, move, sync_folder};
    remat_status st = REMAT_OK;
    for (size_t s = 0; st == REMAT_OK && s < sizeof stages / sizeof *stages; s++)
        for (size_t i = 0; st == REMAT_OK && i < set->output_count; i++)
            if (set->outputs[i].asked_for)
                st = stages[s](set, &set->outputs[i]);
    for (size_t i = set->output_count; st != REMAT_OK && i-- > 0;)
        undo(set, &set->outputs[i]);
    return st;
}
