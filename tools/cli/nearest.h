/* The manual policy next to a plan, for reports. */
#ifndef REMAT_TOOLS_NEAREST_H
#define REMAT_TOOLS_NEAREST_H

#include "base.h"
#include "program.h"

/* Appends "--recompute-granularity ...", after "nearest: " and with what it costs in time when the
 * plan is not that policy's; nothing when the plan names none. */
void nearest_print(const struct remat_program *program, struct remat_text *out);

#endif
