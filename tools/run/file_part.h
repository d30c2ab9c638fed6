/* SPDX-License-Identifier: Apache-2.0 */
/* Files that others may use meanwhile: parts of a large one, and locks. */
#ifndef REMAT_TOOLS_RUN_FILE_PART_H
#define REMAT_TOOLS_RUN_FILE_PART_H

#include "run.h"

#include <stdbool.h>

/* Bytes [begin, begin + bytes), without a buffer of the library's, which would read ahead. Threads
 * may share the file. REMAT_ERROR_IO: it ends before them, although it had `total` bytes. */
remat_status file_read_part(remat_context *ctx, FILE *file, const char *path, uint64_t total,
                            uint64_t begin, void *out, uint64_t bytes);

/* Locks the file or folder as long as the descriptor is open, however the process ends. False:
 * another descriptor has locked it. True also where the file system has no locks. */
bool lock_take(int descriptor);

#endif
