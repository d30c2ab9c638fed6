/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that are live when a kernel begins, at least: by kernel of the graph that saves everything.
 *
 * Behind the forward pass they run in one order in every plan, but for the optimizer's, which run
 * early. So a value that no decision is about is live from its writer to its last reader. A
 * candidate is live up to the last kernel of the backward pass that reads it itself: if it is
 * saved, from the loss on; if it is recomputed, from the first kernel for which its rerun is due.
 */
#ifndef REMAT_LIVE_H
#define REMAT_LIVE_H

#include "settle.h"

/* Thread-compatible: one decision at a time. */
struct remat_live {
    uint32_t kernel_count, value_count;
    uint32_t first;        /* kernel that is not of the forward pass; kernel_count: there is none */
    uint32_t *place;       /* by kernel: its number; of the optimizer's, that of the last one before
                              which they do not run */
    uint64_t *fixed_bytes; /* by kernel: in every decision, beside persistent tensors */
    uint64_t fixed_most;   /* of these */
    uint64_t *bytes;       /* by value: of candidates */
    uint32_t *saved;       /* by value: a candidate that is saved counts from this kernel on */
    uint32_t *next;        /* by value, of the decision at hand: from which on it has not counted */
    uint64_t *change;      /* by kernel and one more, of the decision: modulo 2^64 */
};

struct remat_live remat_live_create(struct remat_arena *arena, const struct remat_settled *settled);

/* Of a decision, beside persistent tensors: at any kernel behind the forward pass, and at the
 * first, which is of the loss. */
struct remat_live_bytes {
    uint64_t most, at_loss;
};

/* Of a decision: begins; then reruns that are made before a kernel at the latest, and what is read
 * no sooner than at it, in order of kernels; then what that comes to at most, at any kernel. */
void remat_live_begin(struct remat_live *live);
static inline void remat_live_make(struct remat_live *live, remat_value candidate, uint32_t kernel)
{
    live->next[candidate.i] = kernel;
}
void remat_live_read(struct remat_live *live, remat_value candidate, uint32_t kernel);
struct remat_live_bytes remat_live_most(const struct remat_live *live);

#endif
