/* SPDX-License-Identifier: Apache-2.0 */
#include "residents.h"

#include "views.h"
#include "why.h"

#include <stdlib.h>

static int by_bytes(const void *a, const void *b)
{
    const struct dump_resident *x = a, *y = b;
    if (x->buffer->bytes != y->buffer->bytes)
        return x->buffer->bytes < y->buffer->bytes ? 1 : -1;
    return (x->buffer->offset_bytes > y->buffer->offset_bytes) -
           (x->buffer->offset_bytes < y->buffer->offset_bytes);
}

/* held[b]: the value in buffer b while `at` runs: the last one written in [begin, at], otherwise
 * the buffer's first value. */
static void find_held(const struct remat_program *program, uint32_t begin, uint32_t at,
                      uint32_t *held)
{
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
}

/* next[v]: the first command of [begin, end) that reads value v, REMAT_NONE: none does. */
static void find_next_uses(const struct remat_program *program, uint32_t begin, uint32_t end,
                           uint32_t *next)
{
    for (uint32_t c = end; c-- > begin;)
        for (uint32_t o = program->commands[c].operand_begin; o < program->commands[c].operand_end;
             o++) {
            const struct remat_operand *operand = &program->operands[o];
            bool update = operand->access == REMAT_ACCESS_UPDATE;
            if (operand->access & REMAT_ACCESS_READ)
                next[update ? operand->previous : operand->value] = c;
        }
}

static void find_used(const struct remat_program *program, uint32_t command, bool *used)
{
    const struct remat_command *c = &program->commands[command];
    for (uint32_t o = c->operand_begin; o < c->operand_end; o++)
        used[program->values[program->operands[o].value].buffer] = true;
}

/* `value`: what the buffer holds, or REMAT_NONE; `used`: by the command. */
static struct dump_removal find_removal(const struct remat_program *program,
                                        const struct dump_decided *decided,
                                        const struct remat_buffer *buffer, uint32_t value,
                                        bool used)
{
    uint32_t d = value == REMAT_NONE ? REMAT_NONE : decided->decision[value];
    const struct remat_decision_record *record = d == REMAT_NONE ? NULL : &program->decisions[d];
    if (buffer->persistent)
        return (struct dump_removal){"persistent", 0};
    if (used)
        return (struct dump_removal){"in use", 0};
    if (record && strncmp(record->reason, "pin ", 4) == 0)
        return (struct dump_removal){"pinned", 0};
    if (!record || !record->recomputable || decided->stays[d])
        return (struct dump_removal){"needed", 0};
    return (struct dump_removal){"recompute", record->recompute_extra_ns};
}

remat_status dump_residents(struct remat_arena *arena, const struct remat_program *program,
                            const uint8_t *classes, uint32_t command, struct dump_residents *out)
{
    remat_status st = REMAT_OK;
    uint32_t s = dump_segment_of(program, command);
    struct dump_decided decided;
    uint32_t *held, *next;
    bool *used;
    *out = (struct dump_residents){0};
    if (s == REMAT_NONE)
        return REMAT_OK;
    const struct remat_segment *segment = &program->segments[s];
    REMAT_TRY(dump_decided(arena, program, command, &decided));
    REMAT_TRY(dump_indices(arena, program->buffer_count, &held));
    REMAT_TRY(dump_indices(arena, program->value_count, &next));
    REMAT_TRY_NEW(arena, used, program->buffer_count);
    find_held(program, segment->command_begin, command, held);
    find_next_uses(program, command + 1, segment->command_end, next);
    find_used(program, command, used);
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        const struct remat_buffer *buffer = &program->buffers[b];
        if (!remat_buffer_is_live(buffer, command))
            continue;
        bool holds = held[b] != REMAT_NONE;
        struct dump_resident resident = {
            .buffer = buffer,
            .index = b,
            .value = held[b],
            .next_use = holds ? next[held[b]] : REMAT_NONE,
            .decision = holds ? decided.about[held[b]] : REMAT_NONE,
            .class = classes[b],
            .removal = find_removal(program, &decided, buffer, held[b], used[b])};
        REMAT_TRY_PUSH(arena, out, resident);
        out->bytes[classes[b]] += remat_aligned_bytes(buffer->bytes);
    }
    qsort(out->items, out->count, sizeof *out->items, by_bytes);
fail:
    return st;
}

json_t *dump_classes_json(const struct dump_residents *residents, struct dump_json *out)
{
    json_t *classes = json_object();
    for (uint32_t i = 0; i < DUMP_CLASS_COUNT; i++)
        if (json_object_set_new(classes, dump_class_names[i], dump_bytes(residents->bytes[i])) != 0)
            out->failed = true;
    return classes;
}

json_t *dump_resident_json(const struct remat_program *program,
                           const struct dump_resident *resident)
{
    const struct remat_program_value *value =
        resident->value == REMAT_NONE ? NULL : &program->values[resident->value];
    const struct remat_buffer *buffer = resident->buffer;
    struct dump_removal removal = resident->removal;
    bool possible = strcmp(removal.how, "recompute") == 0;
    return json_pack(
        "{s:s,s:I,s:I,s:s,s:I,s:I,s:I,s:I,s:I,s:b,s:o,s:s,s:o}", "name", value ? value->name : "",
        "layer", (json_int_t)(value ? value->layer : -1), "instance",
        (json_int_t)(value ? value->instance : 0), "class", dump_class_names[resident->class],
        "buffer", (json_int_t)resident->index, "bytes", (json_int_t)buffer->bytes, "offset",
        (json_int_t)buffer->offset_bytes, "born", (json_int_t)buffer->begin, "dies",
        (json_int_t)buffer->end, "persistent", buffer->persistent, "next_use",
        resident->next_use == REMAT_NONE ? json_null() : dump_bytes(resident->next_use), "removal",
        removal.how, "recompute_extra_ns",
        possible ? json_integer((json_int_t)removal.extra_ns) : json_null());
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

/* Equal for those of one group. */
static uint64_t hash_resident(const struct dump_resident *resident, const char *name)
{
    if (resident->buffer->persistent)
        return resident->class;
    uint64_t hash = remat_hash_string(dump_added_time(resident->removal.extra_ns).text, 0);
    return remat_hash_string(name, hash);
}

static remat_status add_resident(struct remat_arena *arena, const struct remat_program *program,
                                 const struct dump_resident *resident, struct dump_index *index,
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
    uint64_t hash = hash_resident(resident, name);
    for (uint32_t g = dump_index_first(index, hash); g != REMAT_NONE && !group; g = index->next[g])
        if (is_one_of(&groups->items[g], program, resident, name))
            group = &groups->items[g];
    if (!group) {
        dump_index_add(index, hash, (uint32_t)groups->count);
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
    struct dump_index index;
    REMAT_TRY(dump_index_new(arena, residents->count, &index));
    for (size_t i = 0; i < residents->count; i++)
        REMAT_TRY(add_resident(arena, program, &residents->items[i], &index, out));
    for (size_t g = 0; g < out->count; g++)
        if (out->items[g].count > 0)
            qsort(out->items[g].items, out->items[g].count, sizeof(uint32_t), by_layer);
    if (out->count > 0)
        qsort(out->items, out->count, sizeof *out->items, by_group_bytes);
fail:
    return st;
}
