/* SPDX-License-Identifier: Apache-2.0 */
/* --memory: who lives at the peak, how much each class holds, and every buffer's place. */
#include "classes.h"
#include "dump.h"
#include "size.h"
#include "timeline.h"
#include "why.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { RESIDENTS_SHOWN = 16 };

struct resident { /* a buffer that is live at the peak */
    const struct remat_buffer *buffer;
    uint32_t index;
    uint32_t value;    /* what it holds then */
    uint32_t next_use; /* the next command that reads it, REMAT_NONE: none in this step */
    uint8_t class;
};
struct residents {
    struct resident *items;
    size_t count, capacity;
    uint64_t bytes[DUMP_CLASS_COUNT]; /* padded, so that they add up to the live peak */
};

static int by_bytes(const void *a, const void *b)
{
    const struct resident *x = a, *y = b;
    if (x->buffer->bytes != y->buffer->bytes)
        return x->buffer->bytes < y->buffer->bytes ? 1 : -1;
    return (x->buffer->offset_bytes > y->buffer->offset_bytes) -
           (x->buffer->offset_bytes < y->buffer->offset_bytes);
}

/* held[b]: the value in buffer b while `at` runs: the last one written in [begin, at], otherwise
 * the buffer's first value. */
static uint32_t *find_held(struct remat_arena *arena, const struct remat_program *program,
                           uint32_t begin, uint32_t at)
{
    uint32_t *held = remat_arena_array(arena, program->buffer_count, sizeof *held);
    if (!held)
        return NULL;
    memset(held, 0xff, program->buffer_count * sizeof *held);
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

static bool reads(const struct remat_program *program, uint32_t command, uint32_t value)
{
    for (uint32_t o = program->commands[command].operand_begin;
         o < program->commands[command].operand_end; o++) {
        const struct remat_operand *operand = &program->operands[o];
        bool update = operand->access == REMAT_ACCESS_UPDATE;
        if (operand->access & REMAT_ACCESS_READ &&
            (update ? operand->previous : operand->value) == value)
            return true;
    }
    return false;
}

static uint32_t find_next_use(const struct remat_program *program, uint32_t value, uint32_t after,
                              uint32_t end)
{
    for (uint32_t c = after + 1; c < end && value != REMAT_NONE; c++)
        if (reads(program, c, value))
            return c;
    return REMAT_NONE;
}

/* The buffers live at the peak, the largest first. */
static remat_status find_residents(struct remat_arena *arena, const struct remat_program *program,
                                   const uint8_t *classes, struct residents *out)
{
    remat_status st = REMAT_OK;
    uint32_t peak = program->peak_command;
    uint32_t s = dump_segment_of(program, peak);
    *out = (struct residents){0};
    if (s == REMAT_NONE)
        return REMAT_OK;
    const struct remat_segment *segment = &program->segments[s];
    const uint32_t *held = find_held(arena, program, segment->command_begin, peak);
    if (!held)
        return REMAT_ERROR_MEMORY;
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        const struct remat_buffer *buffer = &program->buffers[b];
        if (!dump_is_live(buffer, peak))
            continue;
        struct resident resident = {buffer, b, held[b],
                                    find_next_use(program, held[b], peak, segment->command_end),
                                    classes[b]};
        REMAT_TRY_PUSH(arena, out, resident);
        out->bytes[classes[b]] += dump_padded_bytes(buffer);
    }
    qsort(out->items, out->count, sizeof *out->items, by_bytes);
fail:
    return st;
}

static void print_index(char out[16], uint32_t index)
{
    if (index == REMAT_NONE)
        snprintf(out, 16, "-");
    else
        snprintf(out, 16, "%" PRIu32, index);
}

static void print_resident(const struct remat_program *program, const struct resident *resident,
                           struct remat_text *out)
{
    char born[16] = "-", dies[16] = "-", next[16];
    if (!resident->buffer->persistent) {
        print_index(born, resident->buffer->begin);
        print_index(dies, resident->buffer->end);
    }
    print_index(next, resident->next_use);
    const struct remat_program_value *value =
        resident->value == REMAT_NONE ? NULL : &program->values[resident->value];
    char again[16] = "";
    if (value && value->instance)
        snprintf(again, sizeof again, " #%" PRIu32, value->instance);
    struct dump_removal removal = dump_removal(program, resident->index, resident->value);
    bool possible = strcmp(removal.how, "recompute") == 0;
    remat_text_append(out, "%10s  %14" PRIu64 "  %6s %6s %8s  %10s  %-18s  %s%s\n",
                      cli_short(resident->buffer->bytes).text, resident->buffer->offset_bytes, born,
                      dies, next, possible ? dump_added_time(removal.extra_ns).text : removal.how,
                      dump_class_names[resident->class], value ? value->name : "-", again);
}

static void print_residents(const struct remat_program *program, const struct residents *residents,
                            struct remat_text *out)
{
    remat_text_append(out, "\n%10s  %14s  %6s %6s %8s  %10s  %-18s  %s\n", "bytes", "offset",
                      "born", "dies", "next use", "removal", "class",
                      "value (#1, #2: recomputed in round 1; #3, #4: 2)");
    for (size_t i = 0; i < residents->count && i < RESIDENTS_SHOWN; i++)
        print_resident(program, &residents->items[i], out);
    if (residents->count > RESIDENTS_SHOWN) {
        uint64_t rest = 0;
        for (size_t i = RESIDENTS_SHOWN; i < residents->count; i++)
            rest += dump_padded_bytes(residents->items[i].buffer);
        remat_text_append(out, "%10s  in %zu smaller buffers\n", cli_short(rest).text,
                          residents->count - RESIDENTS_SHOWN);
    }
    remat_text_append(out,
                      "removal: what recomputing it instead adds to a step%s; or why it cannot "
                      "go\n",
                      dump_estimated(program));
}

static void print_peak(const struct remat_program *program, const struct residents *residents,
                       struct remat_text *out)
{
    remat_text_append(out, "live peak %s", cli_exact(program->peak_bytes).text);
    if (program->peak_command < program->command_count) {
        const struct remat_command *command = &program->commands[program->peak_command];
        remat_text_append(out, " at command %" PRIu32 " \"%s\" (%s)", program->peak_command,
                          command->name, remat_phase_name(command->phase));
    }
    remat_text_append(out, "\narena     %s\n\n", cli_exact(program->arena_bytes).text);
    for (uint32_t i = 0; i < DUMP_CLASS_COUNT; i++)
        if (residents->bytes[i])
            remat_text_append(out, "%-18s  %10s  %5.1f %%\n", dump_class_names[i],
                              cli_short(residents->bytes[i]).text,
                              100.0 * (double)residents->bytes[i] / (double)program->peak_bytes);
}

remat_status dump_memory_text(remat_context *ctx, struct remat_arena *arena,
                              const struct remat_program *program, const char *of,
                              struct remat_text *out)
{
    (void)ctx, (void)of;
    remat_status st = REMAT_OK;
    struct residents residents;
    const uint8_t *classes = dump_classify(arena, program);
    if (!classes)
        return REMAT_ERROR_MEMORY;
    REMAT_TRY(find_residents(arena, program, classes, &residents));
    print_peak(program, &residents, out);
    print_residents(program, &residents, out);
    REMAT_TRY(dump_timeline(arena, program, classes, out));
fail:
    return st;
}

static json_t *make_resident(const struct remat_program *program, const struct resident *resident)
{
    const struct remat_program_value *value =
        resident->value == REMAT_NONE ? NULL : &program->values[resident->value];
    const struct remat_buffer *buffer = resident->buffer;
    struct dump_removal removal = dump_removal(program, resident->index, resident->value);
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

static json_t *make_buffers(const struct remat_program *program, const uint8_t *classes,
                            struct dump_json *out)
{
    json_t *buffers = json_array();
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        const struct remat_buffer *buffer = &program->buffers[b];
        dump_push(out, buffers,
                  json_pack("{s:I,s:I,s:I,s:I,s:b,s:s}", "offset", (json_int_t)buffer->offset_bytes,
                            "bytes", (json_int_t)buffer->bytes, "born", (json_int_t)buffer->begin,
                            "dies", (json_int_t)buffer->end, "persistent", buffer->persistent,
                            "class", dump_class_names[classes[b]]));
    }
    return buffers;
}

remat_status dump_memory_json(remat_context *ctx, struct remat_arena *arena,
                              const struct remat_program *program, const char *of,
                              struct dump_json *out)
{
    (void)ctx, (void)of;
    remat_status st = REMAT_OK;
    struct residents found;
    const uint8_t *classes = dump_classify(arena, program);
    if (!classes)
        return REMAT_ERROR_MEMORY;
    REMAT_TRY(find_residents(arena, program, classes, &found));
    json_t *by_class = json_object();
    for (uint32_t i = 0; i < DUMP_CLASS_COUNT; i++)
        if (json_object_set_new(by_class, dump_class_names[i], dump_bytes(found.bytes[i])) != 0)
            out->failed = true;
    json_t *residents = json_array();
    for (size_t i = 0; i < found.count; i++)
        dump_push(out, residents, make_resident(program, &found.items[i]));
    dump_set(out, "arena_bytes", dump_bytes(program->arena_bytes));
    dump_set(out, "peak_bytes", dump_bytes(program->peak_bytes));
    dump_set(out, "peak_command", dump_bytes(program->peak_command));
    dump_set(out, "classes_at_peak", by_class);
    dump_set(out, "residents_at_peak", residents);
    dump_set(out, "buffers", make_buffers(program, classes, out));
fail:
    return st;
}
