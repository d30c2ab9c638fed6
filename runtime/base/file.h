/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are read; how they are written: runtime/files. */
#ifndef REMAT_FILE_H
#define REMAT_FILE_H

#include "base.h"

/* The status and the message "PATH: `what`REASON" of a call that failed with errno `reason`:
 * REMAT_ERROR_IO, or REMAT_ERROR_MEMORY and "out of memory". */
remat_status remat_file_error(remat_context *ctx, const char *path, const char *what, int reason);
/* Opens a regular file for reading. Anything else is refused (REMAT_ERROR_IO), at once: a pipe
 * without a writer too. */
remat_status remat_file_open(remat_context *ctx, const char *path, FILE **out, uint64_t *out_bytes);
/* Reads a whole regular file into the arena. The data is aligned to 16 bytes and followed by a zero
 * byte that is not counted. At most 2^31 - 2 bytes. */
remat_status remat_file_read(remat_context *ctx, const char *path, struct remat_arena *arena,
                             char **out_data, size_t *out_bytes);

#endif
