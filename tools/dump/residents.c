/* SPDX-License-Identifier: Apache-2.0 */
#include "residents.h"

#include <stdlib.h>

static int by_bytes(const void *a, const void *b)
{
    const struct dump_resident *x = a, *y = b;
    if (x->buffer->bytes != y->buffer->bytes)
        return x->buffer->bytes < y->buffer->bytes ? 1 : -1;
    return (x->buffer->offset_bytes > y->buffer->offset_bytes) -
           (x->buffer->offset_bytes < y->buffer->offset_bytes);
}

static uint32_t *new_indices(struct remat_arena *arena, uint32_t count) /* all REMAT_NONE */
{
    uint32_t *out = remat_arena_array(arena, count, sizeof *out);
    return out ? memset(out, 0xff, count * sizeof *out) : NULL;
}

/* held[b]: the value in buffer b while `at` runs: the last one written in [begin, at], otherwise
 * the buffer's first value. */
static uint32_t *find_held(struct remat_arena *arena, const struct remat_program *program,
                           uint32_t begin, uint32_t at)
{
    uint32_t *held = new_indices(arena, program->buffer_count);
    if (!held)
        return NULL;
    for (uint32_t v = 0; v < program->value_count; v++)
        if (held[program->values[v].buffer] == REMAT_NONE)
            held[program->values[v].buffer] = v;
    for (uint32_t c = begin; c <= at; c++)
        for (uint32_t o = program->commands[c].operand_begin; o < program->commands[c].operand_end;
             o++) {
            const struct remat_operand *operand = &program->operands[o];
            if (operand->access & REMAT_ACCESS_WRITE)
                held[program->values[operand->value].buffer] = operand->value;
        }
    return held;
}

/* next[v]: the first command of [begin, end) that reads value v, REMAT_NONE: none does. */
static uint32_t *find_next_uses(struct remat_arena *arena, const struct remat_program *program,
                                uint32_t begin, uint32_t end)
{
    uint32_t *next = new_indices(arena, program->value_count);
    if (!next)
        return NULL;
    for (uint32_t c = end; c-- > begin;)
        for (uint32_t o = program->commands[c].operand_begin; o < program->commands[c].operand_end;
             o++) {
            const struct remat_operand *operand = &program->operands[o];
            bool update = operand->access == REMAT_ACCESS_UPDATE;
            if (operand->access & REMAT_ACCESS_READ)
                next[update ? operand->previous : operand->value] = c;
        }
    return next;
}

remat_status dump_residents(struct remat_arena *arena, const struct remat_program *program,
                            const uint8_t *classes, struct dump_residents *out)
{
    remat_status st = REMAT_OK;
    uint32_t peak = program->peak_command;
    uint32_t s = dump_segment_of(program, peak);
    *out = (struct dump_residents){0};
    if (s == REMAT_NONE)
        return REMAT_OK;
    const struct remat_segment *segment = &program->segments[s];
    const uint32_t *held = find_held(arena, program, segment->command_begin, peak);
    const uint32_t *next = find_next_uses(arena, program, peak + 1, segment->command_end);
    if (!held || !next)
        return REMAT_ERROR_MEMORY;
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        const struct remat_buffer *buffer = &program->buffers[b];
        if (!remat_buffer_is_live(buffer, peak))
            continue;
        struct dump_resident resident = {
            buffer,     b,
            held[b],    held[b] == REMAT_NONE ? REMAT_NONE : next[held[b]],
            classes[b], dump_removal(program, b, held[b])};
        REMAT_TRY_PUSH(arena, out, resident);
        out->bytes[classes[b]] += remat_aligned_bytes(buffer->bytes);
    }
    qsort(out->items, out->count, sizeof *out->items, by_bytes);
fail:
    return st;
}

/* --- groups --- */

static bool is_one_of(const struct dump_resident_group *group, const struct remat_program *program,
                      const struct dump_resident *resident, const char *name)
{
    const struct dump_resident *first = group->first;
    if (first->class != resident->class ||
        first->buffer->persistent != resident->buffer->persistent)
        return false;
    if (resident->buffer->persistent)
        return true;
    bool has = resident->value != REMAT_NONE;
    return has == (first->value != REMAT_NONE) && first->buffer->bytes == resident->buffer->bytes &&
           (!has ||
            program->values[first->value].instance == program->values[resident->value].instance) &&
           strcmp(first->removal.how, resident->removal.how) == 0 &&
           strcmp(dump_added_time(first->removal.extra_ns).text,
                  dump_added_time(resident->removal.extra_ns).text) == 0 &&
           strcmp(group->name, name) == 0;
}

static remat_status add_resident(struct remat_arena *arena, const struct remat_program *program,
                                 const struct dump_resident *resident,
                                 struct dump_resident_groups *groups)
{
    remat_status st = REMAT_OK;
    const struct remat_program_value *value =
        resident->value == REMAT_NONE ? NULL : &program->values[resident->value];
    const struct remat_buffer *buffer = resident->buffer;
    const char *name = "-";
    struct dump_resident_group *group = NULL;
    if (value)
        REMAT_TRY(dump_pattern(arena, value->name, value->layer, &name));
    for (size_t g = 0; g < groups->count && !group; g++)
        if (is_one_of(&groups->items[g], program, resident, name))
            group = &groups->items[g];
    if (!group) {
        REMAT_TRY_PUSH(arena, groups,
                       ((struct dump_resident_group){
                           .first = resident, .name = name, .begin = buffer->begin}));
        group = &groups->items[groups->count - 1];
    }
    group->bytes += remat_aligned_bytes(buffer->bytes);
    group->buffer_count++;
    group->begin = buffer->begin < group->begin ? buffer->begin : group->begin;
    group->end = buffer->end > group->end ? buffer->end : group->end;
    if (value && value->layer >= 0)
        REMAT_TRY_PUSH(arena, group, (uint32_t)value->layer);
fail:
    return st;
}

static int by_group_bytes(const void *a, const void *b)
{
    const struct dump_resident_group *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return by_bytes(x->first, y->first);
}

static int by_layer(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

remat_status dump_group_residents(struct remat_arena *arena, const struct remat_program *program,
                                  const struct dump_residents *residents,
                                  struct dump_resident_groups *out)
{
    remat_status st = REMAT_OK;
    for (size_t i = 0; i < residents->count; i++)
        REMAT_TRY(add_resident(arena, program, &residents->items[i], out));
    for (size_t g = 0; g < out->count; g++)
        if (out->items[g].count > 0)
            qsort(out->items[g].items, out->items[g].count, sizeof(uint32_t), by_layer);
    if (out->count > 0)
        qsort(out->items, out->count, sizeof *out->items, by_group_bytes);
fail:
    return st;
}
