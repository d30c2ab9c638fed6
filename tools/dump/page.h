/* SPDX-License-Identifier: Apache-2.0 */
/* Pages for a browser, which need nothing else: each is a text made of the files in report/ by
 * report/embed.py, and data in it as JSON. */
#ifndef REMAT_DUMP_PAGE_H
#define REMAT_DUMP_PAGE_H

#include "dump.h"

/* Lines before the data and after it; NULL ends them. */
extern const char *const report_head[], *const report_tail[]; /* of a plan */
extern const char *const run_head[], *const run_tail[];       /* of a log */

/* `digits`: of numbers that are not whole; 0: enough for every double. */
remat_status page_append(remat_context *ctx, const char *const *head, const char *const *tail,
                         const struct dump_json *data, int digits, struct remat_text *out);

#endif
