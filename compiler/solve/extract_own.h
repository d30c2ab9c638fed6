/* A clone that kernel programs make for themselves, beside the one that a named kernel reads. */
#ifndef REMAT_EXTRACT_OWN_H
#define REMAT_EXTRACT_OWN_H

#include "extract.h"
#include "extract_traffic.h"

/* Lowers the costs of `least` by what such clones may save. slack_ps: the most that a program of
 * the backward pass computes beyond what it moves. All else of `border` is set. */
remat_status remat_extract_own(struct remat_arena *arena, const struct remat_traffic_table *table,
                               double slack_ps, struct remat_border_graph *border);

#endif
