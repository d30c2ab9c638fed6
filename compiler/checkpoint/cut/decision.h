/* SPDX-License-Identifier: Apache-2.0 */
/* Which values are saved and which recomputed: the output of a policy or solver, input of the
 * rewrite. Plain data over the values of the expanded graph (ids as there). */
#ifndef REMAT_DECISION_H
#define REMAT_DECISION_H

#include "program.h" /* enum remat_action */
#include "unwind.h"

struct remat_decision {
    uint32_t value_count;
    uint8_t *actions; /* enum remat_action by value id. RECOMPUTE: nodes of the backward pass and of
                         the optimizer read a clone, inline or not as settle.h says; TWICE: there
                         are two clones. INLINE and TWICE_INLINE decide the same: they are for the
                         record of a plan, which says how it recomputes. Only forward values may
                         be other than SAVE. On a view, or a value that the backward pass does not
                         need, the action has no effect. */
    const char **reasons; /* by value id: "policy", "pin", NULL when nobody said anything; NULL: not
                             asked for */
    bool blocking;        /* transfers that could be overlapped are not (lower/schedule.h) */
    uint8_t depth;        /* else how far ahead they start */
};

enum { REMAT_ROUNDS_MAX = 2 };

/* Rounds of clones (clones.h) that the decision takes: 1, or for a two-level one 2. */
static inline uint32_t remat_decision_rounds(const struct remat_decision *decision)
{
    uint32_t most = 1;
    for (uint32_t v = 0; v < decision->value_count && most < REMAT_ROUNDS_MAX; v++)
        most = remat_action_times(decision->actions[v]) > most ? REMAT_ROUNDS_MAX : most;
    return most;
}

/* All SAVE; NULL reasons. */
static inline void remat_decision_create(struct remat_arena *arena, uint32_t value_count,
                                         struct remat_decision *out)
{
    *out = (struct remat_decision){.value_count = value_count};
    REMAT_NEW(arena, out->actions, value_count);
    REMAT_NEW(arena, out->reasons, value_count);
}

#endif
