/* SPDX-License-Identifier: Apache-2.0 */
/* Where a path leads: a name in a folder, or something that is written to directly. */
#ifndef REMAT_TARGET_H
#define REMAT_TARGET_H

#include "base.h"

#include <limits.h>
#include <sys/stat.h>

enum { NO_FILE = -1 };

struct target { /* of a target with its symbolic links resolved; that there is none is no error */
    int folder; /* an open descriptor, NO_FILE for what is written to directly */
    char name[NAME_MAX + 1];
    bool exists, direct;
    struct stat info; /* if it exists */
    int descriptor;   /* of ours, which the path means (/dev/stdout, /dev/fd/N); NO_FILE: none */
};

remat_status target_find(remat_context *ctx, const char *path, struct target *out);
void target_close(struct target *target);
/* Devices as /dev/null may be named twice. */
bool target_is_same(const struct target *a, const struct target *b);

/* The descriptor, or a copy above those of the standard streams: no file of ours may take the place
 * of one that is closed. */
int target_above_standard(int descriptor);

#endif
