/* SPDX-License-Identifier: Apache-2.0 */
/* Replays a sequence, run by run. A backward sweep finds which read of a value is the last one
 * before its next production; the forward sweep allocates at runs and frees after those reads. */
#include "simulate.h"

remat_status remat_simulate(remat_context *ctx, const struct remat_problem *p,
                            const uint32_t *sequence, size_t length, struct remat_simulation *out)
{
    remat_status st = REMAT_OK;
    struct remat_arena *arena = remat_scratch_open(ctx);
    size_t *offset;
    bool *needed, *live, *ran;
    bool *drops, *drops_input; /* by run: its own value; by offset of the run + i: its i-th input */
    uint64_t used = 0;
    *out = (struct remat_simulation){0};
    if (length > UINT32_MAX)
        REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "a sequence of %zu runs is too long", length);
    REMAT_NEW(arena, offset, length + 1);
    for (size_t i = 0; i < length; i++) {
        if (sequence[i] >= p->way_count)
            REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "position %zu: there is no way %u", i,
                       sequence[i]);
        offset[i + 1] = offset[i] + remat_problem_input_count(p, sequence[i]);
    }
    REMAT_NEW(arena, needed, p->node_count);
    REMAT_NEW(arena, live, p->node_count);
    REMAT_NEW(arena, ran, p->node_count);
    REMAT_NEW(arena, drops_input, offset[length]);
    REMAT_NEW(arena, drops, length);
    for (size_t i = length; i-- > 0;) {
        uint32_t w = sequence[i], v = p->node_of[w];
        drops[i] = !needed[v];
        needed[v] = false;
        for (uint32_t k = 0; k < remat_problem_input_count(p, w); k++) {
            uint32_t u = p->inputs[p->input_begin[w] + k];
            drops_input[offset[i] + k] = !needed[u];
            needed[u] = true;
        }
    }
    for (size_t i = 0; i < length; i++) {
        uint32_t w = sequence[i], v = p->node_of[w];
        if (ran[v] && p->once[v])
            REMAT_FAIL(ctx, REMAT_ERROR_INVALID,
                       "position %zu: node %u runs again, which it may not", i, v);
        if (live[v]) /* can only be an unread copy, and those are dropped at once */
            REMAT_FAIL(ctx, REMAT_ERROR_INTERNAL, "position %zu: node %u is live", i, v);
        used += p->bytes[v] + (ran[v] ? 0 : p->lasting[v]);
        live[v] = ran[v] = true;
        out->time += p->time[w];
        for (uint32_t e = p->input_begin[w]; e < p->input_begin[w + 1]; e++)
            if (!live[p->inputs[e]])
                REMAT_FAIL(ctx, REMAT_ERROR_INVALID,
                           "position %zu: node %u runs before its input %u", i, v, p->inputs[e]);
        if (used + p->workspace[w] > out->peak)
            out->peak = used + p->workspace[w];
        for (uint32_t k = 0; k < remat_problem_input_count(p, w); k++) {
            uint32_t u = p->inputs[p->input_begin[w] + k];
            if (drops_input[offset[i] + k]) {
                live[u] = false;
                used -= p->bytes[u];
            }
        }
        if (drops[i]) {
            live[v] = false;
            used -= p->bytes[v];
        }
    }
    for (uint32_t v = 0; v < p->node_count; v++)
        if (!ran[v])
            REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "node %u never runs", v);
fail:
    remat_scratch_close(arena);
    return st;
}
