/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_notes.h"

#define WHOLE "ZeRO: every rank has the whole state of what the ranks do not divide: "

const char *remat_note_whole(struct remat_arena *arena, const struct remat_program *program)
{
    struct remat_text text = {.arena = arena};
    for (uint32_t v = 0; v < program->value_count; v++) {
        const struct remat_program_value *value = &program->values[v];
        if (value->role != REMAT_ROLE_GRADIENT || value->whole_rank)
            continue;
        int length = (int)strlen(value->name) - (int)strlen(".grad");
        remat_text_append(&text, "%s%.*s", text.items ? ", " : WHOLE, length, value->name);
    }
    if (text.items)
        remat_text_complete(&text);
    return text.items;
}
