/* SPDX-License-Identifier: Apache-2.0 */
/* A graph as it would be with adapters. */
#ifndef REMAT_TOOLS_COMPILE_ADAPTERS_H
#define REMAT_TOOLS_COMPILE_ADAPTERS_H

#include "graph.h"

/* Made anew as remat-graph --lora RANK makes it, in `arena`, its symbols bound as `bindings` say.
 * NULL: that cannot be, and *why says why. */
remat_status adapters_make(remat_context *ctx, struct remat_arena *arena, const char *path,
                           const struct remat_graph *graph, const char *bindings, int64_t rank,
                           const struct remat_graph **out, const char **why);

#endif
