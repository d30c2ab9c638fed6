/* SPDX-License-Identifier: Apache-2.0 */
/* The clones that the decision asks for, and what they leave of the graph, in a graph of their own.
 */
#include "rewrite.h"

#include "rebuild.h"

remat_status remat_rewrite(remat_context *ctx, struct remat_arena *arena,
                           struct remat_clones *clones, const struct remat_decision *decision,
                           struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    struct remat_rebuild r;
    uint32_t count, *nodes;
    REMAT_TRY(remat_clones_choose(clones, arena, decision, clones->node_count, &count, &nodes));
    REMAT_TRY(remat_rebuild_begin(&r, ctx, arena, clones->graph));
    for (uint32_t k = 0; k < count; k++)
        REMAT_TRY(remat_rebuild_copy(&r, nodes[k]));
    REMAT_TRY(remat_rebuild_finish(&r, out));
    (*out)->has_kernels = true;
fail:
    return st;
}
