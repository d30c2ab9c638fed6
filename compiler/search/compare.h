/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan is worth against manual policies, for its report. */
#ifndef REMAT_COMPARE_H
#define REMAT_COMPARE_H

#include "proposal.h"

/* Adds the note on `chosen` against all policies that fit, the fastest of which is `manual`, also
 * with costs that are off. Evaluates those that could be in front then. */
remat_status remat_compare_manual(struct remat_search *search, struct remat_proposals *policies,
                                  const struct remat_proposal *chosen,
                                  const struct remat_proposal *manual);

#endif
