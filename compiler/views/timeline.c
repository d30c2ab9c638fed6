/* SPDX-License-Identifier: Apache-2.0 */
/* The arena over the schedule, as a picture in letters. */
#include "views.h"

#include "buffers.h"
#include "size.h"

#include <inttypes.h>

enum { COLUMNS = 64, ROWS = 20 };

/* Bytes x commands that each class holds in each cell. */
struct timeline_grid {
    double area[ROWS][COLUMNS][DUMP_CLASS_COUNT];
};

struct timeline_span {
    uint64_t begin, end;
};

/* Cell `i` of `count` equal parts of the range. */
static struct timeline_span cell_of(struct timeline_span range, uint32_t i, uint32_t count)
{
    double length = (double)(range.end - range.begin);
    return (struct timeline_span){range.begin + (uint64_t)(length * i / count),
                                  range.begin + (uint64_t)(length * (i + 1) / count)};
}

static double overlap(struct timeline_span a, struct timeline_span b)
{
    uint64_t begin = a.begin > b.begin ? a.begin : b.begin;
    uint64_t end = a.end < b.end ? a.end : b.end;
    return end > begin ? (double)(end - begin) : 0;
}

static void add_buffer(struct timeline_grid *grid, const struct remat_buffer *buffer, uint8_t class,
                       struct timeline_span bytes, struct timeline_span commands, uint32_t columns)
{
    struct timeline_span life = {buffer->begin, buffer->end};
    struct timeline_span place = {buffer->offset_bytes, buffer->offset_bytes + buffer->bytes};
    for (uint32_t row = 0; row < ROWS; row++) {
        double height = overlap(place, cell_of(bytes, row, ROWS));
        for (uint32_t column = 0; height > 0 && column < columns; column++)
            grid->area[row][column][class] +=
                height * overlap(life, cell_of(commands, column, columns));
    }
}

/* The class that holds most of the cell; '.' when more than half of it is free. */
static char cell_letter(const double area[DUMP_CLASS_COUNT], double whole)
{
    uint32_t most = 0;
    double used = 0;
    for (uint32_t class = 0; class < DUMP_CLASS_COUNT; class ++) {
        used += area[class];
        most = area[class] > area[most] ? class : most;
    }
    if (used * 2 <= whole)
        return '.';
    return dump_class_letters[most];
}

static void print_rows(const struct timeline_grid *grid, struct timeline_span bytes,
                       struct timeline_span commands, uint32_t columns, struct remat_text *out)
{
    for (uint32_t row = ROWS; row-- > 0;) {
        struct timeline_span place = cell_of(bytes, row, ROWS);
        char line[COLUMNS + 1] = "";
        for (uint32_t column = 0; column < columns; column++) {
            struct timeline_span life = cell_of(commands, column, columns);
            double whole = (double)(place.end - place.begin) * (double)(life.end - life.begin);
            line[column] = cell_letter(grid->area[row][column], whole);
        }
        remat_text_append(out, "%10s  %s\n", remat_short_text(place.begin).text, line);
    }
}

static void print_axis(const struct remat_program *program, struct timeline_span commands,
                       uint32_t columns, struct remat_text *out)
{
    static const char letters[REMAT_PHASE_COUNT] = {'f', 'l', 'b', 'o', 'i'};
    char phases[COLUMNS + 1] = "", marks[COLUMNS + 1] = "";
    for (uint32_t column = 0; column < columns; column++) {
        struct timeline_span life = cell_of(commands, column, columns);
        const struct remat_command *command = &program->commands[life.begin];
        bool peak = program->peak_command >= life.begin && program->peak_command < life.end;
        phases[column] = letters[command->phase];
        if (command->instance)
            phases[column] = 'r';
        marks[column] = peak ? '^' : ' ';
    }
    remat_text_append(out, "%10s  %s\n%10s  %.*s\n", "phase", phases, "peak",
                      (int)(strrchr(marks, '^') ? strrchr(marks, '^') - marks + 1 : 0), marks);
    remat_text_append(out,
                      "P parameters  O optimizer state  G gradients  K activations kept  R "
                      "recomputed\nt transients  i inputs and outputs  . free; phases: forward, "
                      "loss, backward, recompute, optimizer\n");
}

remat_status dump_timeline(struct remat_arena *arena, const struct remat_program *program,
                           const uint8_t *classes, struct remat_text *out)
{
    remat_status st = REMAT_OK;
    uint32_t s = dump_step_segment(program);
    struct timeline_span bytes = {program->static_bytes, program->arena_bytes};
    if (s == REMAT_NONE || bytes.end <= bytes.begin)
        return REMAT_OK;
    struct timeline_span commands = {program->segments[s].command_begin,
                                     program->segments[s].command_end};
    uint64_t length = commands.end - commands.begin;
    uint32_t columns = length < COLUMNS ? (uint32_t)length : COLUMNS;
    struct timeline_grid *grid;
    REMAT_TRY_NEW(arena, grid, 1);
    for (uint32_t b = 0; b < program->buffer_count; b++)
        if (!program->buffers[b].persistent)
            add_buffer(grid, &program->buffers[b], classes[b], bytes, commands, columns);
    remat_text_append(out,
                      "\nthe arena above the persistent %s, by address, over the %" PRIu64
                      " commands of \"%s\"\n",
                      remat_short_text(program->static_bytes).text, length,
                      program->segments[s].name);
    print_rows(grid, bytes, commands, columns, out);
    print_axis(program, commands, columns, out);
fail:
    return st;
}
