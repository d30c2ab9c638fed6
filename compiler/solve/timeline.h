/* SPDX-License-Identifier: Apache-2.0 */
/* A sequence that can be changed anywhere in logarithmic time, its peak known after every change.
 *
 * Runs lie in slots 0 .. slot_count - 1, mostly empty, so that runs can be put between others. Any
 * set of runs may be present: a read before its value's first run costs nothing and makes the
 * sequence invalid, which the search avoids by asking remat_timeline_valid_at. */
#ifndef REMAT_TIMELINE_H
#define REMAT_TIMELINE_H

#include "deadline.h"
#include "problem.h"

#define REMAT_SLOT_NONE   UINT32_MAX
#define REMAT_STALE_MAX   32
#define REMAT_EVENT_STEPS 8

struct remat_events REMAT_LIST(uint32_t); /* ascending slots */

struct remat_timeline_change {
    remat_mode_id mode;
    uint32_t slot;
    bool inserted;
};

struct remat_timeline_word {
    int64_t *at, before;
};

/* Belongs to one thread. Readable everywhere, changed by the functions below only. */
struct remat_timeline {
    const struct remat_problem *problem;
    struct remat_arena *arena;
    uint32_t slot_count; /* a power of two */
    uint32_t run_count;
    remat_mode_id *at;                /* by slot, REMAT_NO_MODE when empty */
    uint64_t *occupied;               /* bit by slot */
    struct remat_events *runs, *uses; /* by node */
    struct remat_timeline_span {
        uint32_t first, last;
    } * spans; /* by node: slots of its first run and of its last use, no slot and 0 without one */
    uint64_t steps;    /* events changed so far; each is worth REMAT_EVENT_STEPS of a deadline */
    int64_t *change;   /* by slot: live bytes less those one slot before */
    uint64_t *changed; /* bit by slot: that is not 0 */
    struct remat_timeline_node {
        int64_t sum, max; /* of changes; of the sums of the first of them */
    } * tree;             /* its leaves are blocks of 64 slots */
    uint64_t ticks;
    remat_problem_node *repeated;          /* nodes that run more than once */
    uint32_t *repeated_at, repeated_count; /* by node: where in `repeated`; UINT32_MAX: nowhere */
    struct REMAT_LIST(struct remat_timeline_change) log;
    struct REMAT_LIST(struct remat_timeline_word) undo; /* of the three arrays of live bytes */
    uint32_t stale[REMAT_STALE_MAX], stale_count; /* leaves that are not up to date, ascending */
};

/* Room for sequences of up to `runs_max` runs. */
void remat_timeline_create(struct remat_arena *arena, const struct remat_problem *problem,
                           uint32_t runs_max, struct remat_timeline *out);
/* Replaces the contents, spread evenly; the log becomes empty. False when the deadline, which may
 * be NULL, came before the end. */
bool remat_timeline_load(struct remat_timeline *t, const struct remat_sequence *sequence,
                         struct remat_deadline *deadline);
struct remat_sequence remat_timeline_store(const struct remat_timeline *t,
                                           struct remat_arena *arena);

/* The slot must be empty, or occupied, respectively. Both are logged. */
void remat_timeline_insert(struct remat_timeline *t, remat_mode_id mode, uint32_t slot);
void remat_timeline_remove(struct remat_timeline *t, uint32_t slot);
/* Makes, or undoes, all changes since the last of either. */
void remat_timeline_commit(struct remat_timeline *t);
void remat_timeline_rollback(struct remat_timeline *t);

int64_t remat_timeline_peak(struct remat_timeline *t);
int64_t remat_timeline_max(struct remat_timeline *t, uint32_t first, uint32_t last);
/* A slot that reaches the peak: the first one, or, by the bits of `choice`, another. */
uint32_t remat_timeline_peak_slot(struct remat_timeline *t, uint64_t choice);

/* An empty slot after the run that precedes `slot`, and before it; may move runs a little to the
 * left. REMAT_SLOT_NONE when it is too crowded there: store and load again. */
uint32_t remat_timeline_make_room(struct remat_timeline *t, uint32_t slot);

static inline size_t remat_events_below(const struct remat_events *events, uint32_t slot)
{
    return remat_count_below(events->items, events->count, slot);
}
/* The slot until which the value of the node's run `index` is live. */
uint32_t remat_timeline_live_end(const struct remat_timeline *t, remat_problem_node node,
                                 size_t index);
/* Such a run at `slot` would find all its inputs produced. */
bool remat_timeline_valid_at(const struct remat_timeline *t, remat_mode_id mode, uint32_t slot);
/* The node's first run precedes its first use. */
bool remat_timeline_valid(const struct remat_timeline *t, remat_problem_node node);

#endif
