/* SPDX-License-Identifier: Apache-2.0 */
/* The command line as the settings of a run. */
#ifndef REMAT_TOOLS_RUN_SETTINGS_H
#define REMAT_TOOLS_RUN_SETTINGS_H

#include "train.h"

/* REMAT_ERROR_USAGE: options contradict or need each other. What the plan, the data and the
 * checkpoint say is left. */
remat_status settings_read(remat_context *ctx, const struct cli_arguments *args,
                           struct train_settings *out);

/* REMAT_ERROR_USAGE: no learning rate could follow it. */
remat_status settings_check_schedule(remat_context *ctx, const struct cli_arguments *args,
                                     const struct schedule *schedule);
/* Keeps of the run that is resumed what is not given now; what is given changes it, and the logger
 * is told. */
void settings_resume_schedule(remat_context *ctx, const struct cli_arguments *args,
                              const struct schedule *before, struct schedule *now);

/* Limit of a rank's wait. */
uint64_t settings_timeout_ns(const struct cli_arguments *args);

#endif
