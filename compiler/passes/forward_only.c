/* The graph of an evaluation: what computes the outputs, without gradients and updates. */
#include "passes.h"

REMAT_PASS(forward_only)
{
    remat_status st = REMAT_OK;
    struct remat_graph *copy;
    REMAT_TRY(remat_graph_copy(ctx, arena, graph, &copy));
    copy->update_count = 0;
    copy->optimizer = (struct remat_optimizer){0};
    for (uint32_t v = 0; v < copy->value_count; v++)
        if (copy->values[v].role == REMAT_ROLE_GRADIENT)
            copy->values[v].role = REMAT_ROLE_ACTIVATION;
    REMAT_TRY(remat_pass_eliminate_dead(ctx, arena, copy, out));
fail:
    return st;
}
