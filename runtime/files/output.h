/* SPDX-License-Identifier: Apache-2.0 */
/* A set of outputs from within. The life of one: claimed (its target is known, a temporary file is
 * open), asked for (it has a stream), then committed (commit.h). */
#ifndef REMAT_OUTPUT_H
#define REMAT_OUTPUT_H

#include "target.h"

#include <dirent.h>

struct output {
    const char *label, *path; /* borrowed */
    struct target target;
    int file;     /* the temporary file or folder, or what is written to directly; NO_FILE */
    FILE *stream; /* owns `file` from then on */
    DIR *listing; /* of the temporary folder, opened with it: to remove its files takes no memory */
    bool is_folder, asked_for, moved;
    bool rename_old; /* there are no hard links: the old file has no other name than `old` */
    char temporary[NAME_MAX + 1], old[NAME_MAX + 1]; /* names in target.folder; "": none */
};

struct input {
    const char *label, *path; /* borrowed */
    dev_t device;
    ino_t number;
};

struct remat_outputs {
    remat_context *ctx;
    struct output *outputs;
    struct input *inputs;
    size_t output_count, input_count;
};

/* Calls `make` with one temporary name after another until one does not exist yet. After a failure
 * (negative, with errno) the name is "". */
int output_make_temporary(const struct output *o, char name[NAME_MAX + 1],
                          int (*make)(const struct output *o, const char *name));
/* The mode of the file that is there, a file's without setuid and setgid, which a new owner would
 * get; without one, `otherwise`. */
mode_t output_mode(const struct output *o, mode_t otherwise);
bool output_sync(int file);            /* to disk, where there is one */
void output_release(struct output *o); /* temporary names go, the target stays as it is */

#endif
