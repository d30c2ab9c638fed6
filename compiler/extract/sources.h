/* Items that are made again inside of a kernel other than that of their own readers. */
#ifndef REMAT_EXTRACT_SOURCES_H
#define REMAT_EXTRACT_SOURCES_H

#include "extract.h"
#include "parts.h"
#include "traffic.h"

/* Some program of the backward pass reads the item `read` anyway and may take in the task of
 * `item`, of which `traffic` is. */
bool remat_extract_has_host(const struct remat_traffic_table *table,
                            const struct remat_parts *parts,
                            const struct remat_border_graph *border, uint32_t item,
                            const struct remat_traffic *traffic, uint32_t read);

/* Sets source_ps of both problems, and makes reads that are free when the item is computed again
 * such of its source where that is read all the same; in `likely`, of each task one at most. Of
 * `least` and `likely` all else is set. */
remat_status remat_extract_sources(struct remat_arena *arena,
                                   const struct remat_traffic_table *table,
                                   const struct remat_parts *parts,
                                   struct remat_border_graph *border);

#endif
