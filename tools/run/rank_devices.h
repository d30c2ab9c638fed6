/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranks run, and the engine between them: as the command line wishes, else as the plan and
 * this machine allow. */
#ifndef REMAT_TOOLS_RUN_RANK_DEVICES_H
#define REMAT_TOOLS_RUN_RANK_DEVICES_H

#include "ranks_state.h"

/* Whether there is such an engine; REMAT_ERROR_USAGE names them all. */
remat_status rank_devices_check(remat_context *ctx, const struct ranks_wish *wish);
/* The engine that connects them in the host's memory, if one does without being chosen. */
remat_status rank_devices_open(struct ranks *ranks);
remat_status rank_devices_choose(struct ranks *ranks, const remat_plan_info *plan);
remat_status rank_devices_connect(struct ranks *ranks, const remat_plan_info *plan);

#endif
