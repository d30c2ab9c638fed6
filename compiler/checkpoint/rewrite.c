/* SPDX-License-Identifier: Apache-2.0 */
/* The clones that the decision asks for, and what they leave of the graph, in a graph of their own.
 */
#include "rewrite.h"

#include "rebuild.h"

struct remat_graph *remat_rewrite(remat_context *ctx, struct remat_arena *arena,
                                  struct remat_clones *clones,
                                  const struct remat_decision *decision)
{
    struct remat_graph *out;
    struct remat_rebuild r;
    uint32_t count, *nodes;
    remat_clones_choose(clones, arena, decision, clones->node_count, &count, &nodes);
    remat_rebuild_begin(&r, ctx, arena, clones->graph);
    for (uint32_t k = 0; k < count; k++)
        remat_rebuild_copy(&r, nodes[k]);
    out = remat_rebuild_finish(&r);
    out->has_kernels = true;
    return out;
}
