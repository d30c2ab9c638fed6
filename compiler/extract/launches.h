/* Tasks whose kernel is one more than the plan that saves everything has. */
#ifndef REMAT_EXTRACT_LAUNCHES_H
#define REMAT_EXTRACT_LAUNCHES_H

#include "extract.h"
#include "traffic.h"

/* Sets item_named, and launch_ps and launch_with of the tasks of `least`, whose inputs are set. A
 * launch takes `launch_ps`. */
remat_status remat_extract_launches(struct remat_arena *arena,
                                    const struct remat_traffic_table *table, int64_t launch_ps,
                                    struct remat_border_graph *border);

#endif
