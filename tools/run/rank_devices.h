/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranks run, and the engine between them: as the command line wishes, else as the plan and
 * this machine allow. */
#ifndef REMAT_TOOLS_RUN_RANK_DEVICES_H
#define REMAT_TOOLS_RUN_RANK_DEVICES_H

#include "ranks_state.h"

remat_status rank_devices_choose(struct ranks *ranks, const remat_plan_info *plan);
remat_status rank_devices_connect(struct ranks *ranks, const remat_plan_info *plan);

#endif
