/* SPDX-License-Identifier: Apache-2.0 */
/* Proposals one by one, best first: by time, or by the bytes they need at least. A range of a path
 * is one entry until its turn comes; then it is halved, so most of a path is never looked at.
 * Between two corners of a hull times rise along a path and bytes fall: a range is no faster than
 * the decision before it and needs no less than its last one.
 *
 *     path 0:  0 |1 . . 4| 5 . . 9|         room for what the decisions from 7 on need
 *     taken:   7   since 4 needs too much, and so does 6 once the second range is halved */
#ifndef REMAT_QUEUE_H
#define REMAT_QUEUE_H

#include "heap.h"
#include "proposal.h"

enum remat_queue_order { REMAT_FASTEST_FIRST, REMAT_SMALLEST_FIRST };

struct remat_queue_entry {
    struct remat_proposal last; /* the only one, or the last of a range */
    uint32_t first;             /* step that the range begins with */
    uint64_t key;               /* no proposal of the entry comes before */
};

static inline bool remat_queue_comes_before(const struct remat_queue_entry *a,
                                            const struct remat_queue_entry *b)
{
    return a->key != b->key ? a->key < b->key : a->last.index < b->last.index;
}
REMAT_HEAP(remat_queue_heap, struct remat_queue_entry, remat_queue_comes_before);

/* Proposals of one kind, a path or a method of policies, need about as much beyond their bound. */
struct remat_queue_kind {
    uint32_t id;
    uint64_t beyond_bytes; /* of the one that was priced last */
    uint32_t passed_count; /* since then */
};

/* Lies in the search's arena. */
struct remat_queue {
    struct remat_search *search;
    const char *name; /* for --print-plan */
    enum remat_queue_order order;
    struct remat_queue_heap heap;
    struct {
        struct remat_proposal *items;
        size_t count, capacity;
    } taken;
    struct {
        struct remat_queue_kind *items;
        size_t count, capacity;
    } kinds;                /* empty: bounds alone count */
    uint64_t last_key;      /* entries with a larger key are left; 0: none are */
    uint32_t added_count;   /* decisions, those of ranges included */
    uint64_t covered_bytes; /* something as small has been taken; 0: not known */
    uint32_t passed_count;  /* that were beyond a limit, and might need less than covered_bytes */
};

/* One whose least cost is known. */
void remat_queue_add(struct remat_queue *queue, const struct remat_proposal *proposal);

/* All that the planner proposes: its paths, and what is near their corners. */
void remat_queue_add_planned(struct remat_queue *queue);

/* Decision `step` of a path, or one near corners. */
struct remat_proposal remat_queue_step(uint32_t path, uint32_t step);

/* The next proposal that, by its bound, needs at most limit_bytes, and that does not make the same
 * kernels as one before. False: there is none up to last_key, or the search is to end. */
bool remat_queue_take(struct remat_queue *queue, uint64_t limit_bytes, struct remat_proposal *out);

/* Evaluates the proposal that was taken last; packed where its live peak is at most limit_bytes. */
void remat_queue_evaluate(struct remat_queue *queue, struct remat_proposal *proposal,
                          uint64_t limit_bytes);

/* Has settings->tried see what was evaluated. */
void remat_queue_show(const struct remat_queue *queue);

/* From now on proposals of that kind need as much beyond their bound as this one, which has been
 * priced; every 16th that is passed by for that is taken nevertheless. */
void remat_queue_learn(struct remat_queue *queue, const struct remat_proposal *proposal);

/* The fastest whose packed arena fits limit_bytes, of a queue by time. With *found there is one to
 * be beaten, in *best, which stays as it is where nothing is. */
void remat_queue_fastest(struct remat_queue *queue, uint64_t limit_bytes,
                         struct remat_proposal *best, bool *found);

/* The one with the smallest packed arena, of a queue by bytes. False: there is none. */
bool remat_queue_smallest(struct remat_queue *queue, struct remat_proposal *out);

#endif
