/* SPDX-License-Identifier: Apache-2.0 */
/* The command line as a request. */
#ifndef REMAT_TOOLS_COMPILE_ASKING_H
#define REMAT_TOOLS_COMPILE_ASKING_H

#include "asked.h"
#include "cli.h"

/* Options that say where or how something is written are no part of it. In `arena`. */
remat_status asking(struct remat_arena *arena, const struct cli_arguments *args,
                    struct remat_asked *out);

#endif
