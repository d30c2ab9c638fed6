/* SPDX-License-Identifier: Apache-2.0 */
#include "notes.h"

#include "show.h"

#include <stdarg.h>
#include <stdio.h>

remat_status notes_add(struct remat_arena *arena, struct remat_program *program, const char *format,
                       ...)
{
    remat_status st = REMAT_OK;
    char text[REMAT_MESSAGE_BYTES], shown[REMAT_MESSAGE_BYTES];
    const char **notes;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    remat_show_text(shown, sizeof shown, text);
    REMAT_TRY_NEW(arena, notes, program->note_count + 1);
    if (program->note_count)
        memcpy(notes, program->notes, program->note_count * sizeof *notes);
    notes[program->note_count] = remat_arena_string(arena, shown, strlen(shown));
    if (!notes[program->note_count])
        return REMAT_ERROR_MEMORY;
    program->notes = notes;
    program->note_count++;
fail:
    return st;
}
