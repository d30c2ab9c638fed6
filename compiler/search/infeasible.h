/* SPDX-License-Identifier: Apache-2.0 */
/* Refusals: why nothing fits. */
#ifndef REMAT_INFEASIBLE_H
#define REMAT_INFEASIBLE_H

#include "proposal.h"

/* REMAT_ERROR_INFEASIBLE: nothing fits, and `smallest`, which is packed, needs least. */
remat_status remat_infeasible(struct remat_search *search, const struct remat_proposal *smallest);

#endif
