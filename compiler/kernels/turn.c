/* SPDX-License-Identifier: Apache-2.0 */
#include "turn.h"

struct remat_turns remat_turns_find(struct remat_arena *arena, const struct remat_graph *graph,
                                    const struct remat_kernel_list *kernels)
{
    struct remat_turns out;
    remat_kernel_id *made; /* by value: the turn of what makes it */
    REMAT_NEW_UNINITIALIZED(arena, out.after, kernels->count);
    REMAT_NEW_UNINITIALIZED(arena, out.first, kernels->count);
    REMAT_NEW_UNINITIALIZED(arena, made, graph->value_count);
    memset(made, 0xff, graph->value_count * sizeof *made);
    for (remat_kernel_id k = {0}; k.i < kernels->count; k.i++) {
        const struct remat_kernel_info *kernel = remat_kernel_at(kernels, k);
        enum remat_turn turn = remat_turn_of(kernel);
        remat_kernel_id after = turn == REMAT_TURN_IN_ORDER ? k : (remat_kernel_id){0};
        bool first = turn == REMAT_TURN_EARLY;
        for (uint32_t o = 0; o < kernel->operand_count; o++) {
            remat_value read = remat_operand_read(&kernel->operands[o]);
            bool given = remat_is_none(read.i) || remat_is_none(made[read.i].i);
            first &= given && kernel->operands[o].access != REMAT_ACCESS_UPDATE;
            if (turn != REMAT_TURN_IN_ORDER && !given && made[read.i].i > after.i)
                after = made[read.i];
        }
        for (uint32_t o = 0; o < kernel->operand_count; o++)
            if (kernel->operands[o].access & REMAT_ACCESS_WRITE)
                made[kernel->operands[o].value.i] = after;
        out.after[k.i] = after;
        out.first[k.i] = first;
    }
    return out;
}
