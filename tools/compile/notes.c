#include "notes.h"

#include <stdarg.h>
#include <stdio.h>

remat_status notes_add(struct remat_arena *arena, struct remat_program *program, const char *format,
                       ...)
{
    remat_status st = REMAT_OK;
    char text[1024];
    const char **notes;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    REMAT_NEW(arena, notes, program->note_count + 1);
    if (program->note_count)
        memcpy(notes, program->notes, program->note_count * sizeof *notes);
    notes[program->note_count] = remat_arena_string(arena, text, strlen(text));
    if (!notes[program->note_count])
        return REMAT_ERROR_MEMORY;
    program->notes = notes;
    program->note_count++;
fail:
    return st;
}
