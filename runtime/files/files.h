/* SPDX-License-Identifier: Apache-2.0 */
/* Every file that the library or a tool writes is written here.
 *
 * A command has one set of outputs. Each output is claimed before the work begins and written
 * during it; all of them are moved into place at the very end, by one commit:
 *
 *     REMAT_TRY(remat_outputs_create(ctx, &set));
 *     REMAT_TRY(remat_outputs_claim(set, "--output", path)); // cannot be created: found here
 *     ...
 *     REMAT_TRY(remat_outputs_stream(set, path, &stream));
 *     fprintf(stream, ...);                                  // not closed by the caller
 *     REMAT_TRY(remat_outputs_commit(set));
 * fail:
 *     remat_outputs_destroy(&set);                           // what is not committed never was
 *
 * Before the commit an output is a temporary file beside its target, symbolic links resolved; it
 * has no name where the file system can do that (O_TMPFILE), else NAME.PID-N.remat-tmp. The commit
 * flushes all of them to disk, keeps the old files by hard links, and renames; a rename that fails
 * is undone with those before it. So a failure leaves everything as it was, and after kill -9 each
 * file by itself is the old one or the new one (links named *.remat-tmp may be left). Where there
 * are no hard links the old file is renamed aside instead, and kill -9 can leave it under that
 * name. Permissions of a target are kept; a new one has 0666 without the umask. A target that the
 * caller may not write to is refused, as it would be without the temporary file; other hard links
 * to it keep the old contents.
 *
 * A pipe, a device, and what /dev/stdout, /dev/stderr and /dev/fd/N mean are written to directly:
 * opened when the stream is asked for, not before, and not undone. A FIFO is waited for until a
 * process reads from it; a line says so, and a signal that is caught ends it:
 * REMAT_ERROR_RANK_LOST.
 *
 * Thread-compatible, like the context. REMAT_ERROR_IO: the system refused, the message names the
 * file and says why; REMAT_ERROR_MEMORY: or it had no memory. */
#ifndef REMAT_FILES_H
#define REMAT_FILES_H

#include <remat/status.h>
#include <stdio.h>

struct remat_outputs;

remat_status remat_outputs_create(remat_context *ctx, struct remat_outputs **out);
/* Abandons what has not been committed. Harmless on NULL. */
void remat_outputs_destroy(struct remat_outputs **set);

/* A file that the command reads, so that no output may be it, whichever is told first
 * (REMAT_ERROR_USAGE). Nothing happens if it is not there. `label` says in messages who names the
 * path ("--init"). Both are borrowed, here and below. */
remat_status remat_outputs_input(struct remat_outputs *set, const char *label, const char *path);

/* REMAT_ERROR_USAGE: it is an input or another output, however it is spelled: "--curve './m.csv' is
 * the same file as --output 'm.csv'". Nor may it be inside a folder that is an output. */
remat_status remat_outputs_claim(struct remat_outputs *set, const char *label, const char *path);
/* A whole new folder, in the place of an empty one or none. */
remat_status remat_outputs_claim_folder(struct remat_outputs *set, const char *label,
                                        const char *path);

/* The stream of a claimed output, from its begin; the set's to close. What has no stream by the
 * commit is not written. */
remat_status remat_outputs_stream(struct remat_outputs *set, const char *path, FILE **out);
/* Writes all of a claimed output. */
remat_status remat_outputs_write(struct remat_outputs *set, const char *path, const void *data,
                                 size_t bytes);
/* Writes a file into a claimed folder; no bytes and `name` NULL make the folder alone. */
remat_status remat_outputs_write_into(struct remat_outputs *set, const char *folder,
                                      const char *name, const void *data, size_t bytes);

/* Once, at the end. After a failure everything is as it was before the set. */
remat_status remat_outputs_commit(struct remat_outputs *set);

/* Opens what is written to directly, with open's `flags` beside O_WRONLY. A new file has mode 0666.
 */
remat_status remat_file_open_direct(remat_context *ctx, const char *path, int flags, int *out);

/* A set of one file: for what is committed by itself, as caches and checkpoints are. */
remat_status remat_file_write(remat_context *ctx, const char *path, const void *data, size_t bytes);

#endif
