/* SPDX-License-Identifier: Apache-2.0 */
/* The set: claims, writing, and its commit. */
#include "files.h"

#include "commit.h"
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { FILE_MODE = 0666 };

/* --- what is written to directly --- */

static int open_now(const char *path, int flags)
{
    return target_above_standard(open(path, flags | O_WRONLY | O_CLOEXEC | O_NOCTTY, FILE_MODE));
}

/* As open does, which waits in silence, and goes on when a signal was handled. Signals are let in
 * while it sleeps, and nowhere else: none is missed. */
static int open_fifo(remat_context *ctx, const char *path, int flags)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    sigset_t all, before;
    int file, reason = 0;
    bool told = false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while ((file = open_now(path, flags | O_NONBLOCK)) < 0 && (reason = errno) == ENXIO) {
        if (!told)
            remat_log(ctx, REMAT_SEVERITY_INFO, "%s: waiting for a process that reads from it",
                      path);
        told = true;
        if (ppoll(NULL, 0, &pause, &before) != 0) {
            reason = errno;
            break;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (file >= 0)
        fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
    errno = reason;
    return file;
}

remat_status remat_file_open_direct(remat_context *ctx, const char *path, int flags, int *out)
{
    struct stat info;
    bool is_fifo = stat(path, &info) == 0 && S_ISFIFO(info.st_mode);
    *out = is_fifo ? open_fifo(ctx, path, flags) : open_now(path, flags);
    if (*out < 0 && is_fifo && errno == EINTR)
        return remat_error(ctx, REMAT_ERROR_RANK_LOST, "%s: interrupted before a process read it",
                           path);
    return *out < 0 ? remat_file_error(ctx, path, "", errno) : REMAT_OK;
}

/* --- the set --- */

remat_status remat_outputs_create(remat_context *ctx, struct remat_outputs **out)
{
    *out = remat_reallocate(ctx, NULL, sizeof **out);
    if (!*out)
        return remat_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    **out = (struct remat_outputs){.ctx = ctx};
    return REMAT_OK;
}

static remat_status grow(remat_context *ctx, void **items, size_t count, size_t size)
{
    void *grown = remat_reallocate(ctx, *items, (count + 1) * size);
    if (!grown)
        return remat_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
    *items = grown;
    return REMAT_OK;
}

void remat_outputs_destroy(struct remat_outputs **set)
{
    if (!*set)
        return;
    for (size_t i = 0; i < (*set)->output_count; i++)
        output_release(&(*set)->outputs[i]);
    remat_reallocate((*set)->ctx, (*set)->outputs, 0);
    remat_reallocate((*set)->ctx, (*set)->inputs, 0);
    remat_reallocate((*set)->ctx, *set, 0);
    *set = NULL;
}

/* --- claims --- */

static remat_status fail_same(const struct remat_outputs *set, const struct output *o,
                              const char *label, const char *path)
{
    return remat_error(set->ctx, REMAT_ERROR_USAGE, "%s '%s' is the same file as %s '%s'", o->label,
                       o->path, label, path);
}

static bool is_file(const struct output *o, dev_t device, ino_t number)
{
    return o->target.exists && device == o->target.info.st_dev && number == o->target.info.st_ino;
}

remat_status remat_outputs_input(struct remat_outputs *set, const char *label, const char *path)
{
    remat_status st = REMAT_OK;
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return REMAT_OK;
    for (size_t i = 0; i < set->output_count; i++)
        if (is_file(&set->outputs[i], info.st_dev, info.st_ino))
            REMAT_TRY(fail_same(set, &set->outputs[i], label, path));
    REMAT_TRY(grow(set->ctx, (void **)&set->inputs, set->input_count, sizeof *set->inputs));
    set->inputs[set->input_count++] = (struct input){label, path, info.st_dev, info.st_ino};
fail:
    return st;
}

/* A folder takes the place of the one that the file would be in. */
static remat_status check_outside(const struct remat_outputs *set, const struct output *folder,
                                  const struct output *file)
{
    struct stat info;
    if (!folder->is_folder || !folder->target.exists || file->target.direct ||
        fstat(file->target.folder, &info) != 0 || info.st_dev != folder->target.info.st_dev ||
        info.st_ino != folder->target.info.st_ino)
        return REMAT_OK;
    return remat_error(set->ctx, REMAT_ERROR_USAGE,
                       "%s '%s' is inside the folder %s '%s', which is replaced as a whole",
                       file->label, file->path, folder->label, folder->path);
}

static remat_status check_distinct(const struct remat_outputs *set, const struct output *o)
{
    remat_status st = REMAT_OK;
    const char *label = NULL, *path = NULL;
    for (size_t i = 0; i < set->output_count; i++) {
        REMAT_TRY(check_outside(set, &set->outputs[i], o));
        REMAT_TRY(check_outside(set, o, &set->outputs[i]));
    }
    for (size_t i = 0; i < set->input_count; i++)
        if (is_file(o, set->inputs[i].device, set->inputs[i].number)) {
            label = set->inputs[i].label;
            path = set->inputs[i].path;
        }
    for (size_t i = 0; i < set->output_count; i++)
        if (target_is_same(&set->outputs[i].target, &o->target)) {
            label = set->outputs[i].label;
            path = set->outputs[i].path;
        }
    if (path)
        REMAT_TRY(fail_same(set, o, label, path));
fail:
    return st;
}

static int create_named(const struct output *o, const char *name)
{
    return openat(o->target.folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                  output_mode(o, FILE_MODE));
}

/* Without a name where the file system can do that, and a name can be given later. */
static int create(struct output *o)
{
    int file = -1;
    errno = EOPNOTSUPP;
    if (access("/proc/self/fd", X_OK) == 0)
        file = openat(o->target.folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC,
                      output_mode(o, FILE_MODE));
    if (file < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL || errno == ENOENT))
        file = output_make_temporary(o, o->temporary, create_named);
    file = target_above_standard(file);
    if (file < 0 || !o->target.exists ||
        fchmod(file, output_mode(o, 0)) == 0) /* the umask is over it */
        return file;
    int reason = errno;
    close(file);
    errno = reason;
    return -1;
}

/* As "docker run -v" makes them of files. */
static bool is_mount_point(const struct target *target)
{
    struct statx folder, file;
    return statx(target->folder, "", AT_EMPTY_PATH, STATX_MNT_ID, &folder) == 0 &&
           statx(target->folder, target->name, 0, STATX_MNT_ID, &file) == 0 &&
           folder.stx_mnt_id != file.stx_mnt_id;
}

/* In /tmp, another's file may be written to but not replaced. */
static bool is_sticky(const struct target *target)
{
    struct stat folder;
    uid_t user = geteuid();
    return user != 0 && fstat(target->folder, &folder) == 0 && (folder.st_mode & S_ISVTX) &&
           folder.st_uid != user && target->info.st_uid != user;
}

static remat_status check_replaceable(struct remat_outputs *set, const struct output *o)
{
    if (!o->target.exists)
        return REMAT_OK;
    if (is_mount_point(&o->target))
        return remat_error(set->ctx, REMAT_ERROR_IO, "%s: a mount point cannot be replaced",
                           o->path);
    if (is_sticky(&o->target))
        return remat_error(set->ctx, REMAT_ERROR_IO,
                           "%s: another user's file in a sticky folder cannot be replaced",
                           o->path);
    return REMAT_OK;
}

static remat_status open_temporary(struct remat_outputs *set, struct output *o)
{
    if (o->target.exists && S_ISDIR(o->target.info.st_mode))
        return remat_file_error(set->ctx, o->path, "", EISDIR);
    if (o->target.exists && faccessat(o->target.folder, o->target.name, W_OK, AT_EACCESS) != 0)
        return remat_file_error(set->ctx, o->path, "", errno);
    remat_status st = check_replaceable(set, o);
    if (st != REMAT_OK)
        return st;
    o->file = create(o);
    return o->file < 0 ? remat_file_error(set->ctx, o->path, "", errno) : REMAT_OK;
}

static remat_status check_direct(struct remat_outputs *set, const struct output *o)
{
    int flags = o->target.descriptor == NO_FILE ? 0 : fcntl(o->target.descriptor, F_GETFL);
    if (flags < 0 || (o->target.descriptor != NO_FILE && (flags & O_ACCMODE) == O_RDONLY))
        return remat_file_error(set->ctx, o->path, "", EBADF);
    if (o->target.descriptor == NO_FILE && access(o->path, W_OK) != 0)
        return remat_file_error(set->ctx, o->path, "", errno);
    return REMAT_OK;
}

static remat_status check_folder(struct remat_outputs *set, const struct output *o)
{
    struct stat here;
    if (o->target.direct || (o->target.exists && !S_ISDIR(o->target.info.st_mode)))
        return remat_file_error(set->ctx, o->path, "", ENOTDIR);
    if (faccessat(o->target.folder, ".", W_OK | X_OK, AT_EACCESS) != 0)
        return remat_file_error(set->ctx, o->path, "", errno);
    if (o->target.exists && stat(".", &here) == 0 && here.st_dev == o->target.info.st_dev &&
        here.st_ino == o->target.info.st_ino)
        return remat_error(set->ctx, REMAT_ERROR_IO, "%s: the working folder cannot be replaced",
                           o->path);
    return check_replaceable(set, o);
}

static remat_status claim(struct remat_outputs *set, struct output o, const char *where)
{
    remat_status st = REMAT_OK;
    o.target = (struct target){.folder = NO_FILE};
    REMAT_TRY(target_find(set->ctx, where, &o.target));
    REMAT_TRY(check_distinct(set, &o));
    if (o.is_folder)
        REMAT_TRY(check_folder(set, &o));
    else if (o.target.direct)
        REMAT_TRY(check_direct(set, &o));
    else
        REMAT_TRY(open_temporary(set, &o));
    REMAT_TRY(grow(set->ctx, (void **)&set->outputs, set->output_count, sizeof *set->outputs));
    set->outputs[set->output_count++] = o;
    return REMAT_OK;
fail:
    output_release(&o);
    return st;
}

remat_status remat_outputs_claim(struct remat_outputs *set, const char *label, const char *path)
{
    return claim(set, (struct output){.label = label, .path = path, .file = NO_FILE}, path);
}

/* "cuda/" is no name that can be renamed. */
remat_status remat_outputs_claim_folder(struct remat_outputs *set, const char *label,
                                        const char *path)
{
    char where[PATH_MAX];
    size_t length = strlen(path);
    if (!realpath(path, where)) {
        while (length > 1 && path[length - 1] == '/')
            length--;
        snprintf(where, sizeof where, "%.*s", length < sizeof where ? (int)length : 0, path);
    }
    return claim(set,
                 (struct output){.label = label, .path = path, .file = NO_FILE, .is_folder = true},
                 where);
}

/* --- writing --- */

static struct output *find(struct remat_outputs *set, const char *path)
{
    for (size_t i = 0; i < set->output_count; i++)
        if (strcmp(set->outputs[i].path, path) == 0)
            return &set->outputs[i];
    return NULL;
}

static remat_status unclaimed(const struct remat_outputs *set, const char *path)
{
    return remat_error(set->ctx, REMAT_ERROR_INTERNAL, "%s: no output of this command", path);
}

remat_status remat_outputs_stream(struct remat_outputs *set, const char *path, FILE **out)
{
    remat_status st = REMAT_OK;
    struct output *o = find(set, path);
    *out = NULL;
    if (!o)
        return unclaimed(set, path);
    if (o->target.descriptor == STDOUT_FILENO) /* what was printed before comes before */
        fflush(stdout);
    if (o->target.direct && o->file == NO_FILE && o->target.descriptor != NO_FILE)
        o->file = fcntl(o->target.descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    else if (o->target.direct && o->file == NO_FILE)
        REMAT_TRY(remat_file_open_direct(set->ctx, path, 0, &o->file));
    if (!o->stream)
        o->stream = o->file < 0 ? NULL : fdopen(o->file, "wb");
    if (!o->stream)
        REMAT_TRY(remat_file_error(set->ctx, path, "", errno));
    o->asked_for = true;
    *out = o->stream;
fail:
    return st;
}

remat_status remat_outputs_write(struct remat_outputs *set, const char *path, const void *data,
                                 size_t bytes)
{
    remat_status st = REMAT_OK;
    FILE *stream;
    REMAT_TRY(remat_outputs_stream(set, path, &stream));
    if (fwrite(data, 1, bytes, stream) != bytes || fflush(stream) != 0)
        st = remat_file_error(set->ctx, path, "cannot write: ", errno);
fail:
    return st;
}

/* --- folders --- */

static int make_folder(const struct output *o, const char *name)
{
    return mkdirat(o->target.folder, name, 0777);
}

static remat_status open_folder(struct remat_outputs *set, struct output *o)
{
    remat_status st = REMAT_OK;
    if (o->asked_for)
        return REMAT_OK;
    if (output_make_temporary(o, o->temporary, make_folder) != 0)
        REMAT_TRY(remat_file_error(set->ctx, o->path, "", errno));
    o->asked_for = true;
    o->file = target_above_standard(
        openat(o->target.folder, o->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    int listed = o->file < 0 ? -1 : openat(o->file, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    o->listing = listed < 0 ? NULL : fdopendir(listed);
    if (!o->listing || (o->target.exists && fchmod(o->file, output_mode(o, 0)) != 0))
        st = remat_file_error(set->ctx, o->path, "", errno);
    if (listed >= 0 && !o->listing)
        close(listed);
fail:
    return st;
}

static bool write_all(int file, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(file, data, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        data += written;
        bytes -= (size_t)written;
    }
    return true;
}

remat_status remat_outputs_write_into(struct remat_outputs *set, const char *folder,
                                      const char *name, const void *data, size_t bytes)
{
    remat_status st = REMAT_OK;
    struct output *o = find(set, folder);
    if (!o)
        return unclaimed(set, folder);
    REMAT_TRY(open_folder(set, o));
    if (!name)
        return REMAT_OK;
    int file = target_above_standard(
        openat(o->file, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE));
    bool written = file >= 0 && write_all(file, data, bytes) && output_sync(file);
    int reason = errno;
    if (file >= 0 && close(file) != 0 && written) {
        written = false;
        reason = errno;
    }
    if (!written)
        REMAT_FAIL(set->ctx, reason == ENOMEM ? REMAT_ERROR_MEMORY : REMAT_ERROR_IO,
                   "%s/%s: cannot write: %s", folder, name,
                   reason == ENOMEM ? "out of memory" : strerror(reason));
fail:
    return st;
}

remat_status remat_outputs_commit(struct remat_outputs *set)
{
    remat_status st = outputs_commit(set);
    while (set->output_count > 0)
        output_release(&set->outputs[--set->output_count]);
    return st;
}

remat_status remat_file_write(remat_context *ctx, const char *path, const void *data, size_t bytes)
{
    remat_status st = REMAT_OK;
    struct remat_outputs *set;
    REMAT_TRY(remat_outputs_create(ctx, &set));
    REMAT_TRY(remat_outputs_claim(set, "", path));
    REMAT_TRY(remat_outputs_write(set, path, data, bytes));
    REMAT_TRY(remat_outputs_commit(set));
fail:
    remat_outputs_destroy(&set);
    return st;
}
