/* What kernel programs of the forward pass keep to themselves, and a decision may save all the
 * same.
 */
#ifndef REMAT_EXTRACT_INNER_H
#define REMAT_EXTRACT_INNER_H

#include "extract.h"
#include "traffic.h"

/* Fills border->least.loose, by input: saved values inside the kernel that makes the item could
 * spare it for fewer bytes. Such inputs are not read, either. All else of items and tasks is set;
 * `pinned`: as in remat_extract_border; input_count: length of border->least.inputs. */
remat_status remat_extract_inner(struct remat_arena *arena, const struct remat_traffic_table *table,
                                 const struct remat_decision *pinned, uint32_t input_count,
                                 struct remat_border_graph *border);

#endif
