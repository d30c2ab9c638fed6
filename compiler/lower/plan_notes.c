/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_notes.h"

#define WHOLE "ZeRO: every rank has the whole state of what the ranks do not divide: "

static bool has_axis(const struct remat_program *program, uint32_t axis, const char *name)
{
    return axis < program->mesh_count && strcmp(program->mesh[axis].name, name) == 0;
}

/* Ranks along "dp" divide it, alone or after others. */
static bool is_divided(const struct remat_program *program, const struct remat_program_value *value)
{
    return value->whole_rank && (has_axis(program, value->part_axis, "dp") ||
                                 has_axis(program, value->block_axis, "dp"));
}

const char *remat_note_whole(struct remat_arena *arena, const struct remat_program *program)
{
    struct remat_text text = {.arena = arena};
    for (uint32_t v = 0; v < program->value_count; v++) {
        const struct remat_program_value *value = &program->values[v];
        if (value->role != REMAT_ROLE_GRADIENT || is_divided(program, value))
            continue;
        int length = (int)strlen(value->name) - (int)strlen(".grad");
        remat_text_append(&text, "%s%.*s", text.items ? ", " : WHOLE, length, value->name);
    }
    if (text.items)
        remat_text_complete(&text);
    return text.items;
}
