/* A clone that kernel programs make for themselves, beside the one that a named kernel reads. */
#ifndef REMAT_EXTRACT_OWN_H
#define REMAT_EXTRACT_OWN_H

#include "extract.h"
#include "parts.h"
#include "traffic.h"

/* Raises the costs of `least` by what making such clones reads. All else of `border` is set. */
remat_status remat_extract_own(struct remat_arena *arena, const struct remat_traffic_table *table,
                               const struct remat_parts *parts, struct remat_border_graph *border);

#endif
