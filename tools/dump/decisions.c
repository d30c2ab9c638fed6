/* SPDX-License-Identifier: Apache-2.0 */
/* --decisions: for each value that the backward pass reads, saved or recomputed, and why. */
#include "decisions.h"

#include "size.h"

#include <inttypes.h>
#include <stdio.h>

/* Records that differ in their layer only. */
struct group {
    const char *label; /* scope and name, with '*' for the layer */
    const struct remat_decision_record *first;
    size_t count, capacity;
    uint32_t *items;    /* layers, ascending where the records are */
    const char *layers; /* as text */
};
struct groups REMAT_LIST(struct group);

static bool same_row(const struct group *group, const struct remat_decision_record *record,
                     const char *label)
{
    const struct remat_decision_record *first = group->first;
    return first->action == record->action && first->bytes == record->bytes &&
           first->recompute_ns == record->recompute_ns &&
           (first->layer < 0) == (record->layer < 0) &&
           strcmp(first->reason, record->reason) == 0 && strcmp(group->label, label) == 0;
}

static remat_status add_record(struct remat_arena *arena, struct groups *groups,
                               const struct remat_decision_record *record)
{
    remat_status st = REMAT_OK;
    const char *label;
    REMAT_TRY(dump_pattern(arena, record->name, record->layer, &label));
    struct group *group = NULL;
    for (size_t g = 0; g < groups->count && !group; g++)
        if (same_row(&groups->items[g], record, label))
            group = &groups->items[g];
    if (!group) {
        REMAT_TRY_PUSH(arena, groups, ((struct group){.label = label, .first = record}));
        group = &groups->items[groups->count - 1];
    }
    REMAT_TRY_PUSH(arena, group, (uint32_t)record->layer);
fail:
    return st;
}

static void print_totals(const struct remat_program *program, struct remat_text *out)
{
    uint64_t bytes[REMAT_ACTION_COUNT] = {0}, ns = 0, twice_ns = 0;
    uint32_t counts[REMAT_ACTION_COUNT] = {0};
    for (uint32_t i = 0; i < program->decision_count; i++) {
        const struct remat_decision_record *record = &program->decisions[i];
        counts[record->action]++;
        bytes[record->action] += record->bytes;
        *(remat_action_times(record->action) > 1 ? &twice_ns : &ns) += record->recompute_ns;
    }
    remat_text_append(out, "%" PRIu32 " values saved: %s; %" PRIu32 " recomputed: %s, in %s",
                      counts[REMAT_ACTION_SAVE], cli_short(bytes[REMAT_ACTION_SAVE]).text,
                      counts[REMAT_ACTION_RECOMPUTE], cli_short(bytes[REMAT_ACTION_RECOMPUTE]).text,
                      cli_time(ns).text);
    if (counts[REMAT_ACTION_INLINE])
        remat_text_append(out, "; %" PRIu32 " recomputed inline: %s", counts[REMAT_ACTION_INLINE],
                          cli_short(bytes[REMAT_ACTION_INLINE]).text);
    if (remat_program_twice(program))
        remat_text_append(
            out, "; %" PRIu32 " recomputed twice: %s, in %s", remat_program_twice(program),
            cli_short(bytes[REMAT_ACTION_TWICE] + bytes[REMAT_ACTION_TWICE_INLINE]).text,
            cli_time(twice_ns).text);
    remat_text_append(out, "\n\n");
}

enum { LAYERS_WIDTH = 12, WIDTH_MAX = 60 };

static void widen(int *width, const char *text)
{
    size_t length = strlen(text) < WIDTH_MAX ? strlen(text) : WIDTH_MAX;
    *width = (int)length > *width ? (int)length : *width;
}

/* The widths of the longest entries, so that columns align. */
static void find_widths(struct remat_arena *arena, struct groups *groups, int *label, int *layers)
{
    *label = (int)strlen("value");
    *layers = LAYERS_WIDTH;
    for (size_t g = 0; g < groups->count; g++) {
        struct group *group = &groups->items[g];
        bool outside = group->first->layer < 0;
        group->layers = outside ? "-" : dump_ranges(arena, group->items, group->count);
        widen(label, group->label);
        widen(layers, group->layers);
    }
}

remat_status dump_decisions_text(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_program *program, const char *of,
                                 struct remat_text *out)
{
    (void)ctx, (void)of;
    remat_status st = REMAT_OK;
    struct groups groups = {0};
    for (uint32_t i = 0; i < program->decision_count; i++)
        REMAT_TRY(add_record(arena, &groups, &program->decisions[i]));
    print_totals(program, out);
    int width, layers;
    find_widths(arena, &groups, &width, &layers);
    remat_text_append(out, "%-16s  %-*s  %-*s %10s %10s  %s\n", "action", width, "value", layers,
                      "layers", "bytes", "recompute", "reason");
    for (size_t g = 0; g < groups.count; g++) {
        const struct group *group = &groups.items[g];
        const struct remat_decision_record *first = group->first;
        remat_text_append(
            out, "%-16s  %-*s  %-*s %10s %10s  %s\n", remat_action_name(first->action), width,
            group->label, layers, group->layers, cli_short(first->bytes).text,
            first->recompute_ns == 0 ? "-" : cli_time(first->recompute_ns).text, first->reason);
    }
fail:
    return st;
}

json_t *dump_decision(const struct remat_decision_record *record)
{
    return json_pack(
        "{s:s,s:s,s:I,s:s,s:s,s:I,s:I,s:[I,I],s:o}", "name", record->name, "scope", record->scope,
        "layer", (json_int_t)record->layer, "action", remat_action_name(record->action), "reason",
        record->reason, "bytes", (json_int_t)record->bytes, "recompute_ns",
        (json_int_t)record->recompute_ns, "saved_commands", (json_int_t)record->saved_begin,
        (json_int_t)record->saved_end, "recompute_extra_ns",
        record->recomputable ? json_integer((json_int_t)record->recompute_extra_ns) : json_null());
}

remat_status dump_decisions_json(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_program *program, const char *of,
                                 struct dump_json *out)
{
    (void)ctx, (void)arena, (void)of;
    json_t *decisions = json_array();
    for (uint32_t i = 0; i < program->decision_count; i++)
        dump_push(out, decisions, dump_decision(&program->decisions[i]));
    dump_set(out, "decisions", decisions);
    return REMAT_OK;
}
