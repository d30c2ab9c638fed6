/* SPDX-License-Identifier: Apache-2.0 */
/* Replays a sequence, run by run. A backward sweep finds which read of a value is the last one
 * before its next production; the forward sweep allocates at runs and frees after those reads. */
#include "problem.h"

remat_status remat_simulate(remat_context *ctx, const struct remat_problem *p,
                            const remat_mode_id *sequence, size_t length,
                            struct remat_simulation *out)
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
        if (sequence[i].i >= p->mode_count)
            REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "position %zu: there is no mode %u", i,
                       sequence[i].i);
        offset[i + 1] = offset[i] + remat_problem_input_count(p, sequence[i]);
    }
    REMAT_NEW(arena, needed, p->node_count);
    REMAT_NEW(arena, live, p->node_count);
    REMAT_NEW(arena, ran, p->node_count);
    REMAT_NEW(arena, drops_input, offset[length]);
    REMAT_NEW(arena, drops, length);
    for (size_t i = length; i-- > 0;) {
        remat_mode_id w = sequence[i];
        remat_problem_node v = p->node_of[w.i];
        drops[i] = !needed[v.i];
        needed[v.i] = false;
        for (uint32_t k = 0; k < remat_problem_input_count(p, w); k++) {
            remat_problem_node u = p->inputs[p->input_begin[w.i] + k];
            drops_input[offset[i] + k] = !needed[u.i];
            needed[u.i] = true;
        }
    }
    for (size_t i = 0; i < length; i++) {
        remat_mode_id w = sequence[i];
        remat_problem_node v = p->node_of[w.i];
        if (ran[v.i] && p->once[v.i])
            REMAT_FAIL(ctx, REMAT_ERROR_INVALID,
                       "position %zu: node %u runs again, which it may not", i, v.i);
        if (live[v.i]) /* can only be an unread copy, and those are dropped at once */
            REMAT_FAIL(ctx, REMAT_ERROR_INTERNAL, "position %zu: node %u is live", i, v.i);
        used += p->bytes[v.i] + (ran[v.i] ? 0 : p->lasting[v.i]);
        live[v.i] = ran[v.i] = true;
        out->time += p->time[w.i];
        for (uint32_t e = p->input_begin[w.i]; e < p->input_begin[w.i + 1]; e++)
            if (!live[p->inputs[e].i])
                REMAT_FAIL(ctx, REMAT_ERROR_INVALID,
                           "position %zu: node %u runs before its input %u", i, v.i,
                           p->inputs[e].i);
        if (used + p->workspace[w.i] > out->peak)
            out->peak = used + p->workspace[w.i];
        for (uint32_t k = 0; k < remat_problem_input_count(p, w); k++) {
            remat_problem_node u = p->inputs[p->input_begin[w.i] + k];
            if (drops_input[offset[i] + k]) {
                live[u.i] = false;
                used -= p->bytes[u.i];
            }
        }
        if (drops[i]) {
            live[v.i] = false;
            used -= p->bytes[v.i];
        }
    }
    for (remat_problem_node v = {0}; v.i < p->node_count; v.i++)
        if (!ran[v.i])
            REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "node %u never runs", v.i);
fail:
    remat_scratch_close(arena);
    return st;
}
