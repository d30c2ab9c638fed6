/* SPDX-License-Identifier: Apache-2.0 */
/* What a run writes to, no other process writes to. */
#ifndef REMAT_TOOLS_RUN_LOCK_H
#define REMAT_TOOLS_RUN_LOCK_H

#include <stdbool.h>

/* Locks the file or folder as long as the descriptor is open, however the process ends. False:
 * another descriptor has locked it. True also where the file system has no locks. */
bool lock_take(int descriptor);

#endif
