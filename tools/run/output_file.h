/* A file that appears under its name only when it is complete. What is there already and is not a
 * regular file (a device, a pipe) is written to as it is, not replaced. */
#ifndef REMAT_TOOLS_RUN_OUTPUT_FILE_H
#define REMAT_TOOLS_RUN_OUTPUT_FILE_H

#include "run.h"
#include <stdio.h>

struct output_file { /* zero-initialise; closed when stream is NULL */
    FILE *stream;
    const char *path;     /* borrowed */
    char temporary[4096]; /* "" when the path itself is written to */
};

/* Fails as output_file_open would, and changes nothing: for outputs that are written at the end. */
remat_status output_file_check(remat_context *ctx, const char *path);
remat_status output_file_open(remat_context *ctx, const char *path, struct output_file *out);
/* Closes the file and gives it its name. After a failure nothing is left behind. */
remat_status output_file_commit(remat_context *ctx, struct output_file *file);
/* Closes and removes the file; harmless when it is closed. */
void output_file_abandon(struct output_file *file);

#endif
