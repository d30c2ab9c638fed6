/* SPDX-License-Identifier: Apache-2.0 */
/* Times that people type. */
#ifndef REMAT_TOOLS_DURATION_H
#define REMAT_TOOLS_DURATION_H

#include <remat/status.h>

/* "500ms", "10s", "2min", "1.5h", "3h50m"; a bare "10" is seconds. `setting` ("--time-limit")
 * starts the message. REMAT_ERROR_USAGE: it is no time from 1 ms to 1,000,000 s. */
remat_status cli_duration_parse(remat_context *ctx, const char *setting, const char *text,
                                double *seconds);

#endif
