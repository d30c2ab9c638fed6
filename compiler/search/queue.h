/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions one by one, best first: by time, or by the bytes they need at least. A decision's place
 * rests on what the problem charges for it until it is the next one; then its exact time is found.
 *
 * In large graphs an entry is a run of decisions: a path, its two-level ones, or a family of
 * policies, of which `uniform` and `every` only in very large ones (docs/planning.md). From corner
 * to corner times rise, and between two of them bytes fall and then may rise. So by time an entry
 * goes on to the first step that needs little enough, and leaves out what is behind the smallest
 * before a corner; by bytes it is its smallest step, then either side. With transfers beside
 * computation times may fall, so by time each step is an entry.
 *
 *     room for 70    step  0  1  2  3  4  5  6  7  8      4 and 8 are corners
 *                    bytes 99 95 90 84 85 68 60 50 53     looked at: 0, 4, 3, 8, 7, then 5 */
#ifndef REMAT_QUEUE_H
#define REMAT_QUEUE_H

#include "heap.h"
#include "proposal.h"

enum remat_queue_order { REMAT_FASTEST_FIRST, REMAT_SMALLEST_FIRST };

struct remat_queue_entry {
    struct remat_proposal now;    /* the next one of the entry */
    struct remat_proposal corner; /* the corner from there on, or the last step */
    uint32_t first, last;         /* steps that the entry begins and ends with */
    bool taken;                   /* `now` has been */
    uint64_t key;                 /* nothing of the entry comes before */
};

static inline bool remat_queue_comes_before(const struct remat_queue_entry *a,
                                            const struct remat_queue_entry *b)
{
    return a->key != b->key ? a->key < b->key : a->now.index < b->now.index;
}
REMAT_HEAP(remat_queue_heap, struct remat_queue_entry, remat_queue_comes_before);

/* Lies in the search's arena. */
struct remat_queue {
    struct remat_search *search;
    const char *name; /* for --print-plan */
    enum remat_queue_order order;
    struct remat_queue_heap heap;
    struct remat_proposals taken;
    bool curve;           /* nothing is packed */
    uint64_t last_key;    /* entries with a larger key are left; 0: none are */
    uint32_t added_count; /* decisions, those of runs included */
};

/* Policies one after the other in their array, as remat_manual_policies has them. */
void remat_queue_add_policies(struct remat_queue *queue, const struct remat_proposals *policies);

/* All that the planner proposes: its paths, and what is near their corners. */
void remat_queue_add_planned(struct remat_queue *queue);

/* The last decision of a path that is not two-level. */
struct remat_proposal remat_queue_end(const struct remat_search *search, remat_path_id path);

/* The smallest of the steps from `first` to `last`, whose least is known, as far as bytes fall and
 * then rise. */
struct remat_proposal remat_queue_smallest(struct remat_search *search, struct remat_proposal last,
                                           uint32_t first);

/* The next proposal that, by its bound, needs at most limit_bytes, and that does not make the same
 * kernels as one before; its time is exact. False: there is none up to last_key, or the search is
 * to end. */
bool remat_queue_take(struct remat_queue *queue, uint64_t limit_bytes, struct remat_proposal *out);

/* Evaluates the proposal that was taken last, with the limit it was taken for. */
void remat_queue_evaluate(struct remat_queue *queue, struct remat_proposal *proposal,
                          uint64_t limit_bytes);

/* Of a queue by time the fastest whose packed arena fits limit_bytes, else the one with the
 * smallest packed arena that does. With `found` there is one to be beaten in *best, which stays as
 * it is where nothing is better. False: there is none. */
bool remat_queue_best(struct remat_queue *queue, uint64_t limit_bytes, bool found,
                      struct remat_proposal *best);

#endif
