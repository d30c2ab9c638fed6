/* SPDX-License-Identifier: Apache-2.0 */
/* Lower bounds of the bytes live when a kernel begins, by kernel of the graph that saves
 * everything.
 *
 * These run in one order in every plan, but for the optimizer's, which run early (turn.h); a
 * decision changes what they inline and store, and inserts reruns. So a value that no decision is
 * about is live from its writer to its last reader. A candidate is live from its writer to the last
 * kernel of the forward pass or the loss that reads it. Then it is live up to the last kernel of
 * the backward pass that reads it itself: from the loss on if it is saved, else from the first
 * kernel that its rerun, or what gets it where it is kept otherwise, comes before; up to there what
 * is kept of it is live. */
#ifndef REMAT_LIVE_H
#define REMAT_LIVE_H

#include "settle.h"
#include "turn.h"

/* Thread-compatible: one decision at a time. */
struct remat_live {
    uint32_t kernel_count;
    remat_kernel_id first; /* that is not of the forward pass; kernel_count: there is none */
    struct remat_turns turns;
    remat_kernel_id *last, *last_early; /* by root: the last turn that reads it; of the forward pass
                                           and the loss */
    uint64_t *fixed_bytes;  /* by kernel: in every decision, beside persistent tensors */
    uint64_t *early_bytes;  /* the same, of candidates: the forward pass or the loss has yet to read
                               them */
    uint64_t floor_bytes;   /* no decision has less at every kernel */
    uint64_t *bytes;        /* by value: of candidates */
    remat_kernel_id *begin; /* by value: the first kernel that it is live at; of candidates after
                               the forward pass, if they are saved */
    remat_kernel_id *next; /* by value, of the decision at hand: from which on it has not counted */
    struct REMAT_LIST(remat_value) candidates;
    uint64_t *change; /* by kernel and one more, of the decision: modulo 2^64 */
};

struct remat_live remat_live_create(struct remat_arena *arena, const struct remat_settled *settled);

/* Measures one decision: begin; then, kernel by kernel, the reruns that precede it at the latest
 * and the candidates that it reads; the end gives the peak, without persistent tensors. */
void remat_live_begin(struct remat_live *live);
static inline void remat_live_make(struct remat_live *live, remat_value candidate,
                                   remat_kernel_id kernel)
{
    live->next[candidate.i] = kernel;
}
/* A candidate that is not kept in place returns to memory before the kernel. */
void remat_live_keep(struct remat_live *live, remat_value candidate, uint64_t kept_bytes,
                     remat_kernel_id kernel);
void remat_live_read(struct remat_live *live, remat_value candidate, remat_kernel_id kernel);
uint64_t remat_live_end(const struct remat_live *live);

#endif
