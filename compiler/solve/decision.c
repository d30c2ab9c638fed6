/* SPDX-License-Identifier: Apache-2.0 */
#include "decision.h"

uint32_t remat_decision_rounds(const struct remat_decision *decision)
{
    uint8_t most = REMAT_ACTION_RECOMPUTE; /* nested ones come last */
    for (uint32_t v = 0; v < decision->value_count; v++)
        most = decision->actions[v] > most ? decision->actions[v] : most;
    return remat_action_times(most);
}

void remat_decision_create(struct remat_arena *arena, uint32_t value_count,
                           struct remat_decision *out)
{
    *out = (struct remat_decision){.value_count = value_count};
    REMAT_NEW(arena, out->actions, value_count);
    REMAT_NEW(arena, out->reasons, value_count);
}
