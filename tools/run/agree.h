/* SPDX-License-Identifier: Apache-2.0 */
/* Before the first step: whether all processes of a plan of several ranks run the same. */
#ifndef REMAT_TOOLS_RUN_AGREE_H
#define REMAT_TOOLS_RUN_AGREE_H

#include "train.h"

/* Processes compare the files of plan and libremat, byte for byte by hashes of them, and the
 * settings that decide what a step does. All call it. REMAT_ERROR_USAGE: "rank 3 has another plan
 * than rank 0". */
remat_status agree(remat_context *ctx, struct ranks *ranks, const char *plan_path,
                   const struct train_settings *settings);

#endif
