/* SPDX-License-Identifier: Apache-2.0 */
/* The command line as the settings of a run. */
#ifndef REMAT_TOOLS_RUN_SETTINGS_H
#define REMAT_TOOLS_RUN_SETTINGS_H

#include "train.h"

/* REMAT_ERROR_USAGE: options contradict or need each other. What the plan, the data and the
 * checkpoint say is left. */
remat_status settings_read(remat_context *ctx, const struct cli_arguments *args,
                           struct train_settings *out);

/* Limit of a rank's wait. */
uint64_t settings_timeout_ns(const struct cli_arguments *args);

#endif
