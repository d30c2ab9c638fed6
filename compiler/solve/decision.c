#include "decision.h"

remat_status remat_decision_create(struct remat_arena *arena, uint32_t value_count,
                                   struct remat_decision *out)
{
    remat_status st = REMAT_OK;
    *out = (struct remat_decision){.value_count = value_count};
    REMAT_NEW(arena, out->actions, value_count);
    REMAT_NEW(arena, out->reasons, value_count);
fail:
    return st;
}
