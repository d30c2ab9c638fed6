/* SPDX-License-Identifier: Apache-2.0 */
/* Proposals with what they cost: what `remat_choose` compares. Functions give REMAT_OK unless
 * memory ends or something is wrong with the compiler; `scratch` comes back empty. */
#ifndef REMAT_RUNG_H
#define REMAT_RUNG_H

#include "choose.h"

struct remat_proposal {
    const char *name;
    const struct remat_policy *policy; /* NULL: the planner's */
    uint32_t path, step;               /* path REMAT_NONE: step is the number of one near */
};

/* What is kept of a proposal while they are compared. */
struct remat_rung {
    struct remat_proposal of;
    struct remat_least least;     /* bounds of what follows */
    struct remat_evaluation cost; /* step_ns 0: not evaluated */
    uint32_t index;               /* decides between equals */
};

struct remat_rungs {
    struct remat_rung *items;
    size_t count, capacity;
};

/* Of a whole step, when the decided segment takes `ns`; 0: not known. */
uint64_t remat_choose_step_ns(const struct remat_chooser *chooser, uint64_t ns);

/* Fills rung->cost; packed where the live peak is at most limit_bytes. */
remat_status remat_rung_evaluate(struct remat_chooser *chooser, struct remat_arena *scratch,
                                 const struct remat_planner *planner, struct remat_rung *rung,
                                 uint64_t limit_bytes);

/* The same, and notes the fastest that fits the chooser's limit. *bytes: the packed arena,
 * UINT64_MAX where the live peak alone is over limit_bytes. */
remat_status remat_rung_try(struct remat_chooser *chooser, struct remat_arena *scratch,
                            const struct remat_planner *planner, struct remat_rung *rung,
                            uint64_t limit_bytes, uint64_t *bytes);

/* Fills rung->least. */
remat_status remat_rung_find_least(struct remat_chooser *chooser, struct remat_arena *scratch,
                                   const struct remat_planner *planner, struct remat_rung *rung);

/* By time, then by live peak, then by index; as qsort wants it. */
int remat_rung_compare(const void *a, const void *b);

/* Whether it is known if the rung fits the chooser's limit; else it may have a time all the same.
 */
bool remat_rung_is_settled(const struct remat_chooser *chooser, const struct remat_rung *rung);

/* Finds the least costs of all, sorts by the least time, and keeps one of those that come to the
 * same, the one with the least index. */
remat_status remat_rungs_bound(struct remat_chooser *chooser, struct remat_arena *scratch,
                               const struct remat_planner *planner, struct remat_rungs *rungs);

/* The fastest of sorted rungs whose packed arena fits; *best stays as it is where none does or, if
 * *found, none of them is better. */
remat_status remat_rungs_best(struct remat_chooser *chooser, struct remat_arena *scratch,
                              const struct remat_planner *planner, struct remat_rungs *rungs,
                              struct remat_rung *best, bool *found);

/* Decide, clone, arrange, place: the candidate is what was evaluated, REMAT_ERROR_INTERNAL if not.
 */
remat_status remat_rung_carry(struct remat_chooser *chooser, struct remat_arena *arena,
                              const struct remat_planner *planner, const struct remat_rung *rung,
                              struct remat_notes *notes, struct remat_candidate *out);

#endif
