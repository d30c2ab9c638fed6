/* --decisions: for each value that the backward pass reads, saved or recomputed, and why. */
#include "dump.h"

#include <inttypes.h>
#include <stdio.h>

/* Records that differ in their layer only. */
struct group {
    const char *label; /* scope and name, with '*' for the layer */
    const struct remat_decision_record *first;
    size_t count, capacity;
    uint32_t *items; /* layers, ascending where the records are */
};
struct groups {
    struct group *items;
    size_t count, capacity;
};

static const char *action_name(uint8_t action)
{
    return action == REMAT_ACTION_RECOMPUTE ? "recompute" : "save";
}

/* Appends `path` with its first element ".LAYER" as ".*". */
static void append_pattern(struct remat_text *out, const char *path, int32_t layer)
{
    char number[16];
    size_t length = (size_t)snprintf(number, sizeof number, ".%" PRId32, layer);
    const char *at = layer < 0 ? NULL : strstr(path, number);
    while (at && at[length] >= '0' && at[length] <= '9')
        at = strstr(at + 1, number);
    if (at)
        remat_text_append(out, "%.*s.*%s", (int)(at - path), path, at + length);
    else
        remat_text_append(out, "%s", path);
}

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
    struct remat_text label = {.arena = arena};
    append_pattern(&label, record->name, record->layer);
    if (label.failed)
        return REMAT_ERROR_MEMORY;
    struct group *group = NULL;
    for (size_t g = 0; g < groups->count && !group; g++)
        if (same_row(&groups->items[g], record, label.items))
            group = &groups->items[g];
    if (!group) {
        REMAT_PUSH(arena, groups, ((struct group){.label = label.items, .first = record}));
        group = &groups->items[groups->count - 1];
    }
    REMAT_PUSH(arena, group, (uint32_t)record->layer);
fail:
    return st;
}

static void print_totals(const struct remat_program *program, struct remat_text *out)
{
    uint64_t bytes[2] = {0}, ns = 0;
    uint32_t counts[2] = {0};
    for (uint32_t i = 0; i < program->decision_count; i++) {
        const struct remat_decision_record *record = &program->decisions[i];
        uint32_t action = record->action == REMAT_ACTION_RECOMPUTE;
        counts[action]++;
        bytes[action] += record->bytes;
        ns += record->recompute_ns;
    }
    remat_text_append(out, "%" PRIu32 " values saved: %s; %" PRIu32 " recomputed: %s, in %s\n\n",
                      counts[0], cli_short(bytes[0]).text, counts[1], cli_short(bytes[1]).text,
                      cli_time(ns).text);
}

/* The width of the longest label, so that columns align. */
static int label_width(const struct groups *groups)
{
    size_t width = strlen("value");
    for (size_t g = 0; g < groups->count; g++)
        width = strlen(groups->items[g].label) > width ? strlen(groups->items[g].label) : width;
    return (int)(width < 60 ? width : 60);
}

remat_status dump_decisions_text(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_program *program, struct remat_text *out)
{
    (void)ctx;
    remat_status st = REMAT_OK;
    struct groups groups = {0};
    for (uint32_t i = 0; i < program->decision_count; i++)
        REMAT_TRY(add_record(arena, &groups, &program->decisions[i]));
    print_totals(program, out);
    int width = label_width(&groups);
    remat_text_append(out, "%-9s  %-*s  %-12s %10s %10s  %s\n", "action", width, "value", "layers",
                      "bytes", "recompute", "reason");
    for (size_t g = 0; g < groups.count; g++) {
        const struct group *group = &groups.items[g];
        const struct remat_decision_record *first = group->first;
        bool outside = first->layer < 0;
        remat_text_append(
            out, "%-9s  %-*s  %-12s %10s %10s  %s\n", action_name(first->action), width,
            group->label, outside ? "-" : dump_ranges(arena, group->items, group->count),
            cli_short(first->bytes).text,
            first->action == REMAT_ACTION_SAVE ? "-" : cli_time(first->recompute_ns).text,
            first->reason);
    }
fail:
    return st;
}

remat_status dump_decisions_json(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_program *program, struct dump_json *out)
{
    (void)ctx, (void)arena;
    json_t *decisions = json_array();
    for (uint32_t i = 0; i < program->decision_count; i++) {
        const struct remat_decision_record *record = &program->decisions[i];
        dump_push(out, decisions,
                  json_pack("{s:s,s:s,s:I,s:s,s:s,s:I,s:I}", "name", record->name, "scope",
                            record->scope, "layer", (json_int_t)record->layer, "action",
                            action_name(record->action), "reason", record->reason, "bytes",
                            (json_int_t)record->bytes, "recompute_ns",
                            (json_int_t)record->recompute_ns));
    }
    dump_set(out, "decisions", decisions);
    return REMAT_OK;
}
