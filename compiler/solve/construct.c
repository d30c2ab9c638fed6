/* SPDX-License-Identifier: Apache-2.0 */
/* Recomputation on demand: depth first over missing inputs, each value at most once after the cut.
 */
#include "construct.h"

static uint32_t missing_input(const struct remat_problem *p, const bool *there, uint32_t v)
{
    for (uint32_t e = p->input_begin[v]; e < p->input_begin[v + 1]; e++)
        if (!there[p->inputs[e]])
            return p->inputs[e];
    return UINT32_MAX;
}

struct remat_sequence remat_construct_cut(struct remat_arena *arena, const struct remat_problem *p,
                                          uint32_t node, const bool *more, const bool *less,
                                          uint32_t border)
{
    struct remat_sequence out = {0};
    struct remat_arena *scratch = remat_scratch_open(arena->ctx);
    bool *there;
    uint32_t *stack;
    REMAT_NEW(scratch, there, p->node_count);
    REMAT_NEW(scratch, stack, p->node_count);
    for (uint32_t v = 0; v < p->node_count; v++) {
        stack[0] = v; /* inputs have smaller numbers, so the stack never holds a node twice */
        for (uint32_t depth = 1; depth;) {
            uint32_t u = stack[depth - 1], missing = missing_input(p, there, u);
            if (missing != UINT32_MAX) {
                stack[depth++] = missing;
                continue;
            }
            depth--;
            there[u] = true;
            REMAT_PUSH(arena, &out, u);
        }
        for (uint32_t u = 0; v == node && u < v; u++)
            there[u] = p->once[u] || (u < border ? less[u] : more[u]);
    }
    remat_scratch_close(scratch);
    return out;
}
