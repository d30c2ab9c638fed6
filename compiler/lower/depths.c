/* SPDX-License-Identifier: Apache-2.0 */
#include "overlap.h"
#include "schedule.h"

static const uint8_t depths[REMAT_DEPTHS_MAX] = {0, 1, 2, 4, 8, 16};

enum {
    WHOLE_STATES = 1,  /* depths, where gradients are all that ranks exchange */
    NOTHING_EARLY = 2, /* where no transfer may start early: further depths are the same */
};

/* Ranks that divide the batch have parts of parameters or of their states. */
static bool divides_states(const struct remat_graph *graph)
{
    bool any = false;
    for (uint32_t v = 0; v < graph->value_count && !any; v++) {
        const struct remat_value_info *info = &graph->values[v];
        const struct remat_rank_part *part = info->part;
        bool given = remat_is_none(info->node.i) && info->role != REMAT_ROLE_INPUT;
        any = given && part &&
              (!remat_mesh_divides_layers(&graph->mesh, part->axis) ||
               (part->block_axis != REMAT_NONE &&
                !remat_mesh_divides_layers(&graph->mesh, part->block_axis)));
    }
    return any;
}

struct remat_depths remat_depths_of(const struct remat_graph *graph,
                                    const struct remat_kernel_list *kernels)
{
    struct remat_depths out = {.items = depths};
    bool early = false;
    for (uint32_t k = 0; k < kernels->count; k++) {
        const struct remat_kernel_info *kernel = &kernels->kernels[k];
        early |= remat_may_start_early(graph, kernel);
        if (remat_may_join_group(graph, kernel))
            out.count = WHOLE_STATES;
    }
    if (out.count && divides_states(graph))
        out.count = early ? REMAT_DEPTHS_MAX : NOTHING_EARLY;
    return out;
}
