/* SPDX-License-Identifier: Apache-2.0 */
/* A priority queue of decisions, by time or by the lower bound of their bytes. A decision is
 * ordered by its lower bound in the problem until it comes first; then its exact time is found.
 *
 * In large graphs an entry is a run of decisions: a path, its two-level ones, or a family of
 * policies (`uniform` and `every` only in very large graphs: docs/planning.md). From corner to
 * corner times rise; between two corners bytes fall and then may rise. So by time an entry advances
 * to the first step that needs few enough bytes, and skips those between the smallest step and the
 * next corner. By bytes an entry is its smallest step, and then the runs on either side of it. With
 * overlapped transfers times may fall from step to step, so by time each step is an entry.
 *
 *     room for 70    step  0  1  2  3  4  5  6  7  8      4 and 8 are corners
 *                    bytes 99 95 90 84 85 68 60 50 53     tried: 0, 4, 3, 8, 7, then 5 */
#ifndef REMAT_QUEUE_H
#define REMAT_QUEUE_H

#include "heap.h"
#include "proposal.h"

enum remat_queue_order { REMAT_FASTEST_FIRST, REMAT_SMALLEST_FIRST };

struct remat_queue_entry {
    struct remat_proposal now;    /* the next decision of the entry */
    struct remat_proposal corner; /* the next corner, or the last step */
    uint32_t first, last;         /* steps that the entry begins and ends with */
    bool popped;                  /* `now` has been popped */
    uint64_t key;                 /* lower bound of the keys of the entry's decisions */
    uint64_t tie_bytes;           /* fewer first among equal keys; 0 without overlapped transfers */
};

static inline bool remat_queue_comes_before(const struct remat_queue_entry *a,
                                            const struct remat_queue_entry *b)
{
    if (a->key != b->key)
        return a->key < b->key;
    return a->tie_bytes != b->tie_bytes ? a->tie_bytes < b->tie_bytes : a->now.index < b->now.index;
}
REMAT_HEAP(remat_queue_heap, struct remat_queue_entry, remat_queue_comes_before);

/* Lies in the search's arena. */
struct remat_queue {
    struct remat_search *search;
    const char *name; /* for --print-plan */
    enum remat_queue_order order;
    struct remat_queue_heap heap;
    struct remat_proposals popped;
    bool curve;           /* nothing is packed */
    uint64_t last_key;    /* entries with a larger key stay; 0: none does */
    uint32_t added_count; /* decisions, those in runs included */
};

/* Adds policies, in the order of remat_manual_policies. */
void remat_queue_add_policies(struct remat_queue *queue, const struct remat_proposals *policies);

/* Adds the planner's decisions: its paths, and those near their corners. */
void remat_queue_add_planned(struct remat_queue *queue);

/* The last decision of a path that is not two-level. */
struct remat_proposal remat_queue_end(const struct remat_search *search, remat_path_id path);

/* The smallest of the steps from `first` to `last`, if bytes fall and then rise along them.
 * `last.least` is known. */
struct remat_proposal remat_queue_smallest(struct remat_search *search, struct remat_proposal last,
                                           uint32_t first);

/* Pops the next proposal whose lower bound is at most limit_bytes and whose kernels are not those
 * of one popped before; its time is exact. False: there is none up to last_key, or the search is to
 * end. */
bool remat_queue_pop(struct remat_queue *queue, uint64_t limit_bytes, struct remat_proposal *out);

/* Evaluates the proposal that was popped last, with the limit it was popped for. */
void remat_queue_evaluate(struct remat_queue *queue, struct remat_proposal *proposal,
                          uint64_t limit_bytes);

/* Finds the fastest proposal whose packed arena fits limit_bytes; of a queue by bytes, the one with
 * the smallest packed arena. `found`: *best is a proposal to beat, and stays where nothing is
 * better. False: there is none. */
bool remat_queue_best(struct remat_queue *queue, uint64_t limit_bytes, bool found,
                      struct remat_proposal *best);

#endif
