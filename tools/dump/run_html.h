/* SPDX-License-Identifier: Apache-2.0 */
/* --format html of a log: a page that draws loss, learning rate and throughput over steps. */
#ifndef REMAT_DUMP_RUN_HTML_H
#define REMAT_DUMP_RUN_HTML_H

#include "dump.h"

/* `path` names the file, in messages and on the page, `data` is what it has. REMAT_ERROR_INVALID:
 * it is no log. */
remat_status dump_run_html(remat_context *ctx, struct remat_arena *arena, const char *path,
                           const char *data, size_t bytes, struct remat_text *out);

#endif
