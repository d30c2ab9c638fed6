/* SPDX-License-Identifier: Apache-2.0 */
/* All outputs of a set in one step, or none. */
#ifndef REMAT_COMMIT_H
#define REMAT_COMMIT_H

#include "output.h"

/* Moves those that were asked for into place; after a failure everything is as it was. The caller
 * releases them. */
remat_status outputs_commit(struct remat_outputs *set);

#endif
