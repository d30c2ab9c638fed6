/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of the ranks of this process, as the command line wants them. */
#ifndef REMAT_TOOLS_RUN_SESSIONS_H
#define REMAT_TOOLS_RUN_SESSIONS_H

#include "train.h"

/* Before any process creates one: REMAT_ERROR_MEMORY, with both numbers, where those on a CPU do
 * not fit what the machine has free. */
remat_status sessions_check_memory(remat_context *ctx, const struct cli_arguments *args,
                                   const struct train_settings *settings, const remat_plan *plan);

/* Creates the session of rank `rank` of this process. */
remat_status sessions_create(remat_context *ctx, const struct cli_arguments *args,
                             const struct train_settings *settings, const remat_plan *plan,
                             uint32_t rank, remat_session **out);

#endif
