/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define SUFFIX ".remat-tmp"
enum { NAME_PART = 200, TRIES = 1000 };

int output_make_temporary(const struct output *o, char name[NAME_MAX + 1],
                          int (*make)(const struct output *o, const char *name))
{
    int result = -1;
    errno = EEXIST;
    for (int i = 0; result < 0 && errno == EEXIST && i < TRIES; i++) {
        snprintf(name, NAME_MAX + 1, "%.*s.%ld-%d" SUFFIX, NAME_PART, o->target.name,
                 (long)getpid(), i);
        result = make(o, name);
    }
    if (result < 0)
        *name = 0;
    return result;
}

mode_t output_mode(const struct output *o, mode_t otherwise)
{
    return o->target.exists ? o->target.info.st_mode & (o->is_folder ? 07777 : 0777) : otherwise;
}

bool output_sync(int file)
{
    return fsync(file) == 0 || errno == EINVAL || errno == EROFS || errno == EBADF;
}

static void close_file(struct output *o)
{
    if (o->stream)
        fclose(o->stream);
    else if (o->file != NO_FILE)
        close(o->file);
    o->stream = NULL;
    o->file = NO_FILE;
}

static void remove_folder(struct output *o)
{
    if (o->listing)
        rewinddir(o->listing);
    for (struct dirent *entry; o->listing && (entry = readdir(o->listing));)
        unlinkat(dirfd(o->listing), entry->d_name, 0); /* fails for "." and ".." */
    unlinkat(o->target.folder, o->temporary, AT_REMOVEDIR);
}

void output_release(struct output *o)
{
    close_file(o);
    if (*o->old)
        unlinkat(o->target.folder, o->old, 0);
    if (*o->temporary && o->is_folder && !o->moved)
        remove_folder(o);
    else if (*o->temporary && !o->moved)
        unlinkat(o->target.folder, o->temporary, 0);
    if (o->listing)
        closedir(o->listing);
    target_close(&o->target);
}
