/* SPDX-License-Identifier: Apache-2.0 */
/* Recomputation on demand: depth first over missing inputs, each value at most once after the cut.
 */
#include "construct.h"

struct builder {
    const struct remat_problem *problem;
    struct remat_arena *arena;
    bool *there;
    uint32_t *stack;
    struct remat_sequence *out;
};

static uint32_t missing_input(const struct builder *b, uint32_t v)
{
    const struct remat_problem *p = b->problem;
    for (uint32_t e = p->input_begin[v]; e < p->input_begin[v + 1]; e++)
        if (!b->there[p->inputs[e]])
            return p->inputs[e];
    return UINT32_MAX;
}

/* Inputs have smaller numbers, so the stack never holds a node twice. */
static void run(struct builder *b, uint32_t node)
{
    uint32_t depth = 0;
    b->stack[depth++] = node;
    while (depth) {
        uint32_t v = b->stack[depth - 1], missing = missing_input(b, v);
        if (missing != UINT32_MAX) {
            b->stack[depth++] = missing;
            continue;
        }
        depth--;
        b->there[v] = true;
        REMAT_PUSH(b->arena, b->out, v);
    }
}

void remat_construct_cut(struct remat_arena *arena, const struct remat_problem *p, uint32_t node,
                         const bool *more, const bool *less, uint32_t border,
                         struct remat_sequence *out)
{
    struct builder b = {.problem = p, .arena = arena, .out = out};
    struct remat_arena *own = remat_scratch_open(arena->ctx);
    *out = (struct remat_sequence){0};
    REMAT_NEW(own, b.there, p->node_count);
    REMAT_NEW(own, b.stack, p->node_count);
    for (uint32_t v = 0; v < p->node_count; v++) {
        run(&b, v);
        for (uint32_t u = 0; v == node && u < v; u++)
            b.there[u] = p->once[u] || (u < border ? less[u] : more[u]);
    }
    remat_scratch_close(own);
}
