/* SPDX-License-Identifier: Apache-2.0 */
/* --at: who lives while a command runs, and the room left there. */
#include "residents.h"
#include "size.h"
#include "table.h"
#include "views.h"

#include <inttypes.h>

enum { NAME_WIDTH = 44 };

struct moment {
    uint32_t command;
    struct dump_residents residents;
    uint64_t to_peak_bytes, to_budget_bytes; /* the latter 0 without a budget */
};

/* Budget - reserve; 0 without a budget. */
static uint64_t available_bytes(const struct remat_program *program)
{
    return program->budget_bytes > program->reserve_bytes
               ? program->budget_bytes - program->reserve_bytes
               : 0;
}

static remat_status find_moment(remat_context *ctx, struct remat_arena *arena,
                                const struct remat_program *program, const struct dump_asked *asked,
                                struct moment *out)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(dump_find_command(ctx, arena, program, asked, &out->command));
    const uint8_t *classes = dump_classify(arena, program);
    if (!classes)
        return REMAT_ERROR_MEMORY;
    REMAT_TRY(dump_residents(arena, program, classes, out->command, &out->residents));
    uint64_t live_bytes = program->commands[out->command].live_bytes;
    uint64_t room_bytes = available_bytes(program);
    out->to_peak_bytes = program->peak_bytes - live_bytes;
    out->to_budget_bytes = room_bytes > live_bytes ? room_bytes - live_bytes : 0;
fail:
    return st;
}

static void print_command(const struct remat_program *program, uint32_t index,
                          struct remat_text *out)
{
    const struct remat_command *command = &program->commands[index];
    remat_text_append(out, "command %" PRIu32 " \"", index);
    dump_append_name(out, command->name, NAME_WIDTH);
    if (command->instance)
        remat_text_append(out, " #%" PRIu32, command->instance);
    remat_text_append(out, "\" (%s)", remat_phase_name(command->phase));
}

static void print_class(const char *letter, const char *name, uint64_t bytes, uint64_t live_bytes,
                        struct remat_text *out)
{
    if (bytes)
        remat_text_append(out, "%-2s %-18s  %20s  %5.1f %%\n", letter, name,
                          remat_count_text(bytes).text, 100.0 * (double)bytes / (double)live_bytes);
}

static void print_sums(const struct remat_program *program, const struct moment *at,
                       struct remat_text *out)
{
    uint64_t live_bytes = program->commands[at->command].live_bytes;
    print_command(program, at->command, out);
    remat_text_append(out, " of segment %s\nlive       %s\n",
                      program->segments[dump_segment_of(program, at->command)].name,
                      remat_exact_text(live_bytes).text);
    remat_text_append(out, "to peak    %s; the peak is at command %" PRIu32 "\n",
                      remat_exact_text(at->to_peak_bytes).text, program->peak_command);
    if (program->budget_bytes)
        remat_text_append(out, "to budget  %s; budget - reserve is %s B\n",
                          remat_exact_text(at->to_budget_bytes).text,
                          remat_count_text(available_bytes(program)).text);
    remat_text_append(out, "\n");
    for (uint32_t i = 0; i < DUMP_CLASS_COUNT; i++)
        print_class((const char[]){dump_class_letters[i], 0}, dump_class_names[i],
                    at->residents.bytes[i], live_bytes, out);
    print_class("", "workspace", program->workspace_bytes, live_bytes, out);
}

static remat_status add_row(struct dump_table *table, const char *value, int32_t layer,
                            uint8_t class, uint64_t bytes, const struct dump_resident *resident,
                            const char *action)
{
    struct remat_arena *arena = table->arena;
    const struct remat_buffer *buffer = resident ? resident->buffer : NULL;
    const char *cells[DUMP_TABLE_COLUMNS] = {
        value,
        remat_arena_format(arena, "%c", dump_class_letters[class]),
        remat_arena_format(arena, "%s", remat_count_text(bytes).text),
        buffer ? remat_arena_format(arena, "%s", remat_count_text(buffer->offset_bytes).text) : "-",
        buffer ? remat_arena_format(arena, "%" PRIu32 "-%" PRIu32, buffer->begin, buffer->end - 1)
               : "-",
        action};
    for (uint32_t c = 0; c < 6; c++)
        if (!cells[c])
            return REMAT_ERROR_MEMORY;
    return dump_table_add(table, layer, cells);
}

/* Persistent ones of a class are one row. */
static remat_status add_persistent(struct dump_table *table, const struct remat_program *program,
                                   const struct dump_residents *residents, uint8_t class)
{
    uint32_t count = 0;
    uint64_t bytes = 0;
    const struct dump_resident *largest = NULL;
    for (size_t i = 0; i < residents->count; i++) {
        const struct dump_resident *resident = &residents->items[i];
        if (!resident->buffer->persistent || resident->class != class)
            continue;
        largest = largest ? largest : resident;
        count++;
        bytes += remat_aligned_bytes(resident->buffer->bytes);
    }
    if (!count)
        return REMAT_OK;
    const char *name = largest->value == REMAT_NONE ? "-" : program->values[largest->value].name;
    if (count > 1)
        name = remat_arena_format(table->arena, "%" PRIu32 " persistent, largest %s", count, name);
    return add_row(table, name, -1, class, bytes, NULL, "-");
}

static remat_status add_resident(struct dump_table *table, const struct remat_program *program,
                                 const struct dump_resident *resident)
{
    const struct remat_program_value *value =
        resident->value == REMAT_NONE ? NULL : &program->values[resident->value];
    const char *name = value ? value->name : "-";
    if (value && value->instance)
        name = remat_arena_format(table->arena, "%s #%" PRIu32, name, value->instance);
    const char *action = resident->decision == REMAT_NONE
                             ? "-"
                             : remat_action_name(program->decisions[resident->decision].action);
    return add_row(table, name, value ? value->layer : -1, resident->class,
                   remat_aligned_bytes(resident->buffer->bytes), resident, action);
}

remat_status dump_at_text(remat_context *ctx, struct remat_arena *arena,
                          const struct remat_program *program, const struct dump_asked *asked,
                          struct remat_text *out)
{
    remat_status st = REMAT_OK;
    struct moment at;
    struct dump_table table = {
        .arena = arena,
        .titles = {"value", "class", "bytes", "offset", "commands", "decision"},
        .right = {false, false, true, true, true}};
    REMAT_TRY(find_moment(ctx, arena, program, asked, &at));
    for (uint32_t class = 0; class < DUMP_CLASS_COUNT; class ++)
        REMAT_TRY(add_persistent(&table, program, &at.residents, (uint8_t) class));
    for (size_t i = 0; i < at.residents.count; i++)
        if (!at.residents.items[i].buffer->persistent)
            REMAT_TRY(add_resident(&table, program, &at.residents.items[i]));
    print_sums(program, &at, out);
    remat_text_append(out, "\n");
    dump_table_print(&table, out);
    remat_text_append(out,
                      "bytes: padded, so that they add up; commands: from the first to the "
                      "last that needs it\n"
                      "#1, #2: recomputed in round 1; #3, #4: 2; --why has reasons and costs\n");
fail:
    return st;
}

static json_t *make_resident(const struct remat_program *program,
                             const struct dump_resident *resident, struct dump_json *out)
{
    json_t *object = dump_resident_json(program, resident), *decision = json_null();
    if (resident->decision != REMAT_NONE) {
        const struct remat_decision_record *record = &program->decisions[resident->decision];
        decision = json_pack("{s:s,s:s}", "action", remat_action_name(record->action), "reason",
                             record->reason);
    }
    if (json_object_set_new(object, "decision", decision) != 0)
        out->failed = true;
    return object;
}

remat_status dump_at_json(remat_context *ctx, struct remat_arena *arena,
                          const struct remat_program *program, const struct dump_asked *asked,
                          struct dump_json *out)
{
    remat_status st = REMAT_OK;
    struct moment at;
    REMAT_TRY(find_moment(ctx, arena, program, asked, &at));
    const struct remat_command *command = &program->commands[at.command];
    json_t *residents = json_array();
    for (size_t i = 0; i < at.residents.count; i++)
        dump_push(out, residents, make_resident(program, &at.residents.items[i], out));
    dump_set(out, "command", dump_bytes(at.command));
    dump_set(out, "segment",
             json_string(program->segments[dump_segment_of(program, at.command)].name));
    dump_set(out, "phase", json_string(remat_phase_name(command->phase)));
    dump_set(out, "name", json_string(command->name));
    dump_set(out, "instance", dump_bytes(command->instance));
    dump_set(out, "live_bytes", dump_bytes(command->live_bytes));
    dump_set(out, "peak_bytes", dump_bytes(program->peak_bytes));
    dump_set(out, "peak_command", dump_bytes(program->peak_command));
    dump_set(out, "bytes_to_peak", dump_bytes(at.to_peak_bytes));
    dump_set(out, "bytes_to_budget",
             program->budget_bytes ? dump_bytes(at.to_budget_bytes) : json_null());
    dump_set(out, "classes", dump_classes_json(&at.residents, out));
    dump_set(out, "workspace_bytes", dump_bytes(program->workspace_bytes));
    dump_set(out, "residents", residents);
fail:
    return st;
}
