/* SPDX-License-Identifier: Apache-2.0 */
/* Times that recomputing takes; the view: dump.h. */
#ifndef REMAT_DUMP_WHY_H
#define REMAT_DUMP_WHY_H

#include "dump.h"
#include "size.h"

/* The text after such times: ", estimated", or "" where they are exact. */
const char *dump_estimated(const struct remat_program *program);
struct remat_unit_text dump_added_time(int64_t ns); /* "+1.20 us" */

#endif
