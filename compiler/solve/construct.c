/* SPDX-License-Identifier: Apache-2.0 */
/* Recomputation on demand: depth first over missing inputs, each value at most once after the cut.
 */
#include "solvers.h"

#include <assert.h>

static remat_problem_node missing_input(const struct remat_problem *p, const bool *there,
                                        remat_problem_node v)
{
    for (uint32_t e = p->input_begin[v.i]; e < p->input_begin[v.i + 1]; e++)
        if (!there[p->inputs[e].i])
            return p->inputs[e];
    return REMAT_NO_PROBLEM_NODE;
}

struct remat_sequence remat_construct_cut(struct remat_arena *arena, const struct remat_problem *p,
                                          remat_problem_node node, const bool *more,
                                          const bool *less, uint32_t border)
{
    assert(node.i < p->node_count);
    struct remat_sequence out = {0};
    struct remat_arena *scratch = remat_scratch_open(arena->ctx);
    bool *there;
    remat_problem_node *stack;
    REMAT_NEW(scratch, there, p->node_count);
    REMAT_NEW(scratch, stack, p->node_count);
    for (remat_problem_node v = {0}; v.i < p->node_count; v.i++) {
        stack[0] = v; /* inputs have smaller numbers, so the stack never holds a node twice */
        for (uint32_t depth = 1; depth;) {
            remat_problem_node u = stack[depth - 1], missing = missing_input(p, there, u);
            if (missing.i != UINT32_MAX) {
                stack[depth++] = missing;
                continue;
            }
            depth--;
            there[u.i] = true;
            REMAT_PUSH(arena, &out, remat_given_mode(u));
        }
        for (remat_problem_node u = {0}; v.i == node.i && u.i < v.i; u.i++)
            there[u.i] = p->once[u.i] || (u.i < border ? less[u.i] : more[u.i]);
    }
    remat_scratch_close(scratch);
    return out;
}
