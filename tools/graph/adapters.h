/* SPDX-License-Identifier: Apache-2.0 */
/* A graph as it would be with adapters. */
#ifndef REMAT_TOOLS_GRAPH_ADAPTERS_H
#define REMAT_TOOLS_GRAPH_ADAPTERS_H

#include <remat/status.h>

struct remat_arena; /* base.h */

/* The file of the graph at `path`, made anew as remat-graph --lora RANK makes it, in `arena`, its
 * symbols bound as `bindings` say. NULL: that cannot be, and *why says why. */
remat_status remat_adapters_make(remat_context *ctx, struct remat_arena *arena, const char *path,
                                 const char *bindings, int64_t rank, const void **out_data,
                                 size_t *out_bytes, const char **why);

#endif
