/* SPDX-License-Identifier: Apache-2.0 */
/* A tool's main, and its files. */
#ifndef REMAT_TOOLS_TOOL_H
#define REMAT_TOOLS_TOOL_H

#include "cli.h"

#include <remat/status.h>
#include <stddef.h>

/* "remat 0.1.0": what wrote a file. */
const char *cli_producer(void);

/* The whole main: context with a logger to stderr, arena, parsing, files claimed, `run`, stdout
 * flushed and checked, then the outputs moved into place; the error message `NAME: error: ...`.
 * Returns the exit code, which is the status. No file becomes a standard stream that was closed
 * before: reading and writing those fails. Results that are not finite move the outputs too, of
 * which `run` has then written those that help to find the cause. */
int cli_main(const struct cli_tool *tool, int argc, char **argv,
             remat_status (*run)(remat_context *ctx, struct remat_arena *arena,
                                 const struct cli_arguments *args));

/* Lines that are printed after the error message; they outlive `run`, as in its arena. */
void cli_explain(const char *lines);

/* Writes all of a file: the option's if it is given, else standard output. */
remat_status cli_write(remat_context *ctx, const struct cli_arguments *args, uint32_t option,
                       const void *data, size_t bytes);
/* Opens a regular file for reading; anything else, a pipe too, is refused at once. */
remat_status cli_open_file(remat_context *ctx, const char *path, FILE **out, uint64_t *bytes);

/* From now on the files are worth more than what is printed: they are written although standard
 * output fails, and then the exit code says that it did. */
void cli_keep_files(void);
/* `run` ended early, with files that are good: they are moved into place, and the exit code is 75,
 * as a repetition may come to the end. */
void cli_end_early(void);
/* Before the end of `run`, whose files are moved into place now. */
remat_status cli_finish(remat_context *ctx, const struct cli_arguments *args);

/* The folder that is given, by default $XDG_CACHE_HOME/remat or ~/.cache/remat; "" for "none" and
 * where there is no default. REMAT_ERROR_USAGE: it does not fit `bytes`. */
remat_status cli_cache_folder(remat_context *ctx, const char *given, char *out, size_t bytes);

#endif
