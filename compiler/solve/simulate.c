/* SPDX-License-Identifier: Apache-2.0 */
/* Replays a sequence, run by run. A backward sweep finds which read of a value is the last one
 * before its next production; the forward sweep allocates at runs and frees after those reads. */
#include "simulate.h"

enum { LAST_READ = 1, DROPPED_AT_ONCE = 2 };

/* reads[offset of the run + i]: whether the i-th input is freed after this run. */
static void mark_last_reads(const struct remat_problem *p, const uint32_t *sequence, size_t length,
                            const size_t *offset, bool *needed, uint8_t *reads, uint8_t *runs)
{
    for (size_t i = length; i-- > 0;) {
        uint32_t w = sequence[i], v = p->node_of[w];
        runs[i] = needed[v] ? 0 : DROPPED_AT_ONCE;
        needed[v] = false;
        for (uint32_t k = 0; k < remat_problem_input_count(p, w); k++) {
            uint32_t u = p->inputs[p->input_begin[w] + k];
            reads[offset[i] + k] = needed[u] ? 0 : LAST_READ;
            needed[u] = true;
        }
    }
}

static remat_status replay(remat_context *ctx, const struct remat_problem *p,
                           const uint32_t *sequence, size_t length, const size_t *offset,
                           const uint8_t *reads, const uint8_t *runs, bool *live, bool *ran,
                           struct remat_simulation *out)
{
    uint64_t used = 0;
    for (size_t i = 0; i < length; i++) {
        uint32_t w = sequence[i], v = p->node_of[w];
        if (ran[v] && p->once[v])
            return remat_error(ctx, REMAT_ERROR_INVALID,
                               "position %zu: node %u runs again, which it may not", i, v);
        if (live[v]) /* can only be an unread copy, and those are dropped at once */
            return remat_error(ctx, REMAT_ERROR_INTERNAL, "position %zu: node %u is live", i, v);
        used += p->bytes[v] + (ran[v] ? 0 : p->lasting[v]);
        live[v] = ran[v] = true;
        out->time += p->time[w];
        for (uint32_t k = 0; k < remat_problem_input_count(p, w); k++)
            if (!live[p->inputs[p->input_begin[w] + k]])
                return remat_error(ctx, REMAT_ERROR_INVALID,
                                   "position %zu: node %u runs before its input %u", i, v,
                                   p->inputs[p->input_begin[w] + k]);
        if (used + p->workspace[w] > out->peak || i == 0) {
            out->peak = used + p->workspace[w];
            out->peak_position = (uint32_t)i;
        }
        for (uint32_t k = 0; k < remat_problem_input_count(p, w); k++) {
            uint32_t u = p->inputs[p->input_begin[w] + k];
            if (reads[offset[i] + k] == LAST_READ) {
                live[u] = false;
                used -= p->bytes[u];
            }
        }
        if (runs[i] == DROPPED_AT_ONCE) {
            live[v] = false;
            used -= p->bytes[v];
        }
    }
    return REMAT_OK;
}

remat_status remat_simulate(remat_context *ctx, const struct remat_problem *p,
                            const uint32_t *sequence, size_t length, struct remat_simulation *out)
{
    remat_status st = REMAT_OK;
    struct remat_arena *arena = remat_scratch_open(ctx);
    size_t *offset;
    bool *needed, *live, *ran;
    uint8_t *reads, *runs;
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
    REMAT_NEW(arena, reads, offset[length]);
    REMAT_NEW(arena, runs, length);
    mark_last_reads(p, sequence, length, offset, needed, reads, runs);
    REMAT_TRY(replay(ctx, p, sequence, length, offset, reads, runs, live, ran, out));
    for (uint32_t v = 0; v < p->node_count; v++)
        if (!ran[v])
            REMAT_FAIL(ctx, REMAT_ERROR_INVALID, "node %u never runs", v);
fail:
    remat_scratch_close(arena);
    return st;
}
