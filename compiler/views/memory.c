/* SPDX-License-Identifier: Apache-2.0 */
/* --memory: how much each class holds at the peak, who lives there, and every buffer's place. */
#include "buffers.h"
#include "residents.h"
#include "views.h"
#include "why.h"

#include <inttypes.h>

enum { GROUPS_SHOWN = 16, NAME_WIDTH = 40, LAYERS_WIDTH = 9 };

static void print_value(const struct remat_program *program,
                        const struct dump_resident_group *group, struct remat_text *out)
{
    const struct dump_resident *first = group->first;
    const struct remat_program_value *value =
        first->value == REMAT_NONE ? NULL : &program->values[first->value];
    bool one = group->buffer_count == 1;
    if (value && first->buffer->persistent && !one) {
        remat_text_append(out, "largest ");
        dump_append_name(out, value->name, NAME_WIDTH - 18);
        remat_text_append(out, ", %s", remat_short_text(first->buffer->bytes).text);
        return;
    }
    dump_append_name(out, value && one ? value->name : group->name, NAME_WIDTH - 4);
    if (value && value->instance)
        remat_text_append(out, " #%" PRIu32, value->instance);
}

static void print_group(struct remat_arena *arena, const struct remat_program *program,
                        const struct dump_resident_group *group, struct remat_text *out)
{
    const struct dump_resident *first = group->first;
    const struct dump_removal *removal = &first->removal;
    bool possible = strcmp(removal->how, "recompute") == 0;
    char lives[32] = "-", layers[32] = "-";
    if (!first->buffer->persistent) {
        snprintf(lives, sizeof lives, "%" PRIu32 "-%" PRIu32, group->begin, group->end - 1);
        const char *ranges = group->count ? dump_ranges(arena, group->items, group->count) : "-";
        if (strlen(ranges) <= LAYERS_WIDTH)
            snprintf(layers, sizeof layers, "%s", ranges);
        else
            snprintf(layers, sizeof layers, "%zu layers", group->count);
    }
    remat_text_append(out, "%10s  %5" PRIu32 "  %10s  %11s  %c  %-*s  ",
                      remat_short_text(group->bytes).text, group->buffer_count,
                      possible ? dump_added_time(removal->extra_ns).text : removal->how, lives,
                      dump_class_letters[first->class], LAYERS_WIDTH, layers);
    print_value(program, group, out);
    remat_text_append(out, "\n");
}

static void print_groups(struct remat_arena *arena, const struct remat_program *program,
                         const struct dump_resident_groups *groups, struct remat_text *out)
{
    uint64_t rest_bytes = 0;
    uint32_t rest = 0;
    remat_text_append(out, "\n%10s  %5s  %10s  %11s  %c  %-*s  %s\n", "bytes", "count", "removal",
                      "commands", ' ', LAYERS_WIDTH, "layers", "value");
    for (size_t g = 0; g < groups->count; g++) {
        if (g < GROUPS_SHOWN) {
            print_group(arena, program, &groups->items[g], out);
            continue;
        }
        rest += groups->items[g].buffer_count;
        rest_bytes += groups->items[g].bytes;
    }
    if (rest)
        remat_text_append(out, "%10s  %5" PRIu32 "  in smaller groups\n",
                          remat_short_text(rest_bytes).text, rest);
    remat_text_append(out,
                      "count: of buffers; the same value of several layers is one row\n"
                      "removal: what recomputing one of them instead adds to a step%s; or why it "
                      "cannot go\n"
                      "commands: from the first to the last that needs one; #1, #2: recomputed in "
                      "round 1; #3, #4: 2\n",
                      dump_estimated(program));
}

static void print_peak(const struct remat_program *program, const struct dump_residents *residents,
                       struct remat_text *out)
{
    remat_text_append(out, "live peak %s\n", remat_exact_text(program->peak_bytes).text);
    if (program->peak_command < program->command_count) {
        const struct remat_command *command = &program->commands[program->peak_command];
        remat_text_append(out, "  at command %" PRIu32 " \"", program->peak_command);
        dump_append_name(out, command->name, 60);
        remat_text_append(out, "\" (%s)\n", remat_phase_name(command->phase));
    }
    remat_text_append(out, "arena     %s\n\n", remat_exact_text(program->arena_bytes).text);
    for (uint32_t i = 0; i < DUMP_CLASS_COUNT; i++)
        if (residents->bytes[i])
            remat_text_append(out, "%c  %-18s  %10s  %5.1f %%\n", dump_class_letters[i],
                              dump_class_names[i], remat_short_text(residents->bytes[i]).text,
                              100.0 * (double)residents->bytes[i] / (double)program->peak_bytes);
    if (program->workspace_bytes)
        remat_text_append(out, "   %-18s  %10s  %5.1f %%\n", "workspace",
                          remat_short_text(program->workspace_bytes).text,
                          100.0 * (double)program->workspace_bytes / (double)program->peak_bytes);
}

remat_status dump_memory_text(remat_context *ctx, struct remat_arena *arena,
                              const struct remat_program *program, const struct dump_asked *asked,
                              struct remat_text *out)
{
    (void)ctx, (void)asked;
    remat_status st = REMAT_OK;
    struct dump_residents residents;
    struct dump_resident_groups groups = {0};
    const uint8_t *classes = dump_classify(arena, program);
    if (!classes)
        return REMAT_ERROR_MEMORY;
    REMAT_TRY(dump_residents(arena, program, classes, program->peak_command, &residents));
    REMAT_TRY(dump_group_residents(arena, program, &residents, &groups));
    print_peak(program, &residents, out);
    print_groups(arena, program, &groups, out);
    REMAT_TRY(dump_timeline(arena, program, classes, out));
fail:
    return st;
}

static json_t *make_buffers(const struct remat_program *program, const uint8_t *classes,
                            const struct dump_label *labels, struct dump_json *out)
{
    json_t *buffers = json_array();
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        const struct remat_buffer *buffer = &program->buffers[b];
        dump_push(out, buffers,
                  json_pack("{s:s,s:I,s:s,s:I,s:I,s:I,s:I,s:b,s:s}", "name", labels[b].name,
                            "layer", (json_int_t)labels[b].layer, "op", labels[b].op, "offset",
                            (json_int_t)buffer->offset_bytes, "bytes", (json_int_t)buffer->bytes,
                            "born", (json_int_t)buffer->begin, "dies", (json_int_t)buffer->end,
                            "persistent", buffer->persistent, "class",
                            dump_class_names[classes[b]]));
    }
    return buffers;
}

remat_status dump_memory_json(remat_context *ctx, struct remat_arena *arena,
                              const struct remat_program *program, const struct dump_asked *asked,
                              struct dump_json *out)
{
    (void)ctx, (void)asked;
    remat_status st = REMAT_OK;
    struct dump_residents found;
    const uint8_t *classes = dump_classify(arena, program);
    const struct dump_label *labels = dump_labels(arena, program);
    if (!classes || !labels)
        return REMAT_ERROR_MEMORY;
    REMAT_TRY(dump_residents(arena, program, classes, program->peak_command, &found));
    json_t *residents = json_array();
    for (size_t i = 0; i < found.count; i++)
        dump_push(out, residents, dump_resident_json(program, &found.items[i]));
    dump_set(out, "arena_bytes", dump_bytes(program->arena_bytes));
    dump_set(out, "peak_bytes", dump_bytes(program->peak_bytes));
    dump_set(out, "peak_command", dump_bytes(program->peak_command));
    dump_set(out, "classes_at_peak", dump_classes_json(&found, out));
    dump_set(out, "workspace_bytes", dump_bytes(program->workspace_bytes));
    dump_set(out, "residents_at_peak", residents);
    dump_set(out, "buffers", make_buffers(program, classes, labels, out));
fail:
    return st;
}

/* A cell, quoted where it would not be one. */
static void append_cell(struct remat_text *out, const char *text)
{
    bool quoted = strpbrk(text, ",\"\r\n") != NULL;
    remat_text_append(out, "%s", quoted ? ",\"" : ",");
    for (; *text; text++)
        remat_text_append(out, "%s%c", *text == '"' ? "\"" : "", *text);
    remat_text_append(out, "%s", quoted ? "\"" : "");
}

remat_status dump_memory_csv(remat_context *ctx, struct remat_arena *arena,
                             const struct remat_program *program, const struct dump_asked *asked,
                             struct remat_text *out)
{
    (void)ctx, (void)asked;
    const struct dump_label *labels = dump_labels(arena, program);
    const uint8_t *classes = dump_classify(arena, program);
    if (!labels || !classes)
        return REMAT_ERROR_MEMORY;
    remat_text_append(out, "id,lower,upper,size,offset,name,layer,op,class\n");
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        const struct remat_buffer *buffer = &program->buffers[b];
        remat_text_append(out, "%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu64 ",%" PRIu64, b,
                          buffer->persistent ? 0 : buffer->begin,
                          buffer->persistent ? program->command_count : buffer->end, buffer->bytes,
                          buffer->offset_bytes);
        append_cell(out, labels[b].name);
        if (labels[b].layer < 0)
            append_cell(out, "");
        else
            remat_text_append(out, ",%" PRId32, labels[b].layer);
        append_cell(out, labels[b].op);
        append_cell(out, dump_class_names[classes[b]]);
        remat_text_append(out, "\n");
    }
    return REMAT_OK;
}
