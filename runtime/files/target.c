/* SPDX-License-Identifier: Apache-2.0 */
#include "target.h"

#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { LINKS_MAX = 40 };

int target_above_standard(int descriptor)
{
    if (descriptor < 0 || descriptor > STDERR_FILENO)
        return descriptor;
    int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), reason = errno;
    close(descriptor);
    errno = reason;
    return copy;
}

/* NO_FILE: the path means none. */
static int descriptor_of(const char *path)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    if (strcmp(path, "/dev/stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        size_t length = strlen(folders[i]);
        char *end;
        if (strncmp(path, folders[i], length) != 0 || path[length] < '0' || path[length] > '9')
            continue;
        long number = strtol(path + length, &end, 10);
        if (*end == 0 && number <= INT_MAX)
            return (int)number;
    }
    return NO_FILE;
}

/* The path that the link in *path leads to takes its place; false: it is none. */
static bool follow(char path[PATH_MAX], int *reason)
{
    char leads_to[PATH_MAX];
    ssize_t length = readlink(path, leads_to, sizeof leads_to - 1);
    *reason = 0;
    if (length < 0)
        return false;
    leads_to[length] = 0;
    char *slash = strrchr(path, '/'), *rest = *leads_to == '/' || !slash ? path : slash + 1;
    if ((size_t)(rest - path) + (size_t)length >= PATH_MAX) {
        *reason = ENAMETOOLONG;
        return false;
    }
    memcpy(rest, leads_to, (size_t)length + 1);
    return true;
}

/* The folder for fsync and for names beside it; one that may be searched and written to but not
 * read is not flushed. */
static int open_folder(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 && errno == EACCES)
        folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return target_above_standard(folder);
}

/* `path` without its links. */
static int split(char path[PATH_MAX], struct target *out)
{
    char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (strlen(name) > NAME_MAX)
        return ENAMETOOLONG;
    if (*name == 0)
        return *path ? EISDIR : ENOENT;
    memcpy(out->name, name, strlen(name) + 1);
    if (slash)
        slash[slash == path] = 0;
    out->folder = open_folder(slash ? path : ".");
    if (out->folder < 0)
        return errno;
    out->exists = fstatat(out->folder, out->name, &out->info, 0) == 0;
    return out->exists || errno == ENOENT ? 0 : errno;
}

remat_status target_find(remat_context *ctx, const char *path, struct target *out)
{
    remat_status st = REMAT_OK;
    char current[PATH_MAX];
    int reason = 0, links = 0;
    *out = (struct target){.folder = NO_FILE, .descriptor = NO_FILE};
    if (strlen(path) >= sizeof current)
        return remat_file_error(ctx, path, "", ENAMETOOLONG);
    memcpy(current, path, strlen(path) + 1);
    do
        out->descriptor = descriptor_of(current);
    while (out->descriptor == NO_FILE && links++ < LINKS_MAX && follow(current, &reason));
    out->direct = out->descriptor != NO_FILE;
    if (out->direct) {
        out->exists = fstat(out->descriptor, &out->info) == 0;
        return REMAT_OK;
    }
    if (links > LINKS_MAX)
        reason = ELOOP;
    if (reason == 0)
        reason = split(current, out);
    if (reason)
        REMAT_TRY(remat_file_error(ctx, path, "", reason));
    out->direct = out->exists && !S_ISREG(out->info.st_mode) && !S_ISDIR(out->info.st_mode);
    return REMAT_OK;
fail:
    target_close(out);
    return st;
}

void target_close(struct target *target)
{
    if (target->folder != NO_FILE)
        close(target->folder);
    target->folder = NO_FILE;
}

bool target_is_same(const struct target *a, const struct target *b)
{
    struct stat x, y;
    if (a->exists && b->exists)
        return !S_ISCHR(a->info.st_mode) && a->info.st_dev == b->info.st_dev &&
               a->info.st_ino == b->info.st_ino;
    if (a->direct || b->direct)
        return false;
    return strcmp(a->name, b->name) == 0 && fstat(a->folder, &x) == 0 &&
           fstat(b->folder, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
