/* SPDX-License-Identifier: Apache-2.0 */
/* --decisions: for each value that the backward pass reads, saved or recomputed, and why. */
#include "views.h"

#include "size.h"

#include <inttypes.h>

/* Records that differ in their layer only. */
struct decision_group {
    const char *label; /* scope and name, with '*' for the layer */
    const struct remat_decision_record *first;
    size_t count, capacity;
    uint32_t *items;           /* layers, ascending where the records are */
    const char *layers, *type; /* as text */
};
struct groups REMAT_LIST(struct decision_group);

static const char *op_of(const struct remat_decision_record *record)
{
    return record->op && *record->op ? record->op : "-";
}

/* "bf16[4,64]" */
static remat_status type_of(struct remat_arena *arena, const struct remat_decision_record *record,
                            const char **out)
{
    struct remat_text text = {.arena = arena};
    const char *dtype = remat_dtype_name((remat_dtype)record->dtype);
    if (!dtype) {
        *out = "-";
        return REMAT_OK;
    }
    remat_text_append(&text, "%s[", dtype);
    for (uint32_t d = 0; d < record->rank; d++)
        remat_text_append(&text, "%s%" PRId64, d ? "," : "", record->shape[d]);
    remat_text_append(&text, "]");
    *out = text.items;
    return text.failed ? REMAT_ERROR_MEMORY : REMAT_OK;
}

static bool same_row(const struct decision_group *group, const struct remat_decision_record *record,
                     const char *label)
{
    const struct remat_decision_record *first = group->first;
    return first->action == record->action && first->bytes == record->bytes &&
           first->recompute_ns == record->recompute_ns &&
           (first->layer < 0) == (record->layer < 0) && first->dtype == record->dtype &&
           first->rank == record->rank &&
           memcmp(first->shape, record->shape, record->rank * sizeof *record->shape) == 0 &&
           strcmp(op_of(first), op_of(record)) == 0 && strcmp(first->reason, record->reason) == 0 &&
           strcmp(group->label, label) == 0;
}

static remat_status add_record(struct remat_arena *arena, struct dump_index *index,
                               struct groups *groups, const struct remat_decision_record *record)
{
    remat_status st = REMAT_OK;
    const char *label;
    REMAT_TRY(dump_pattern(arena, record->name, record->layer, &label));
    struct decision_group *group = NULL;
    uint64_t hash = remat_hash_string(label, record->recompute_ns);
    for (uint32_t g = dump_index_first(index, hash); g != REMAT_NONE && !group; g = index->next[g])
        if (same_row(&groups->items[g], record, label))
            group = &groups->items[g];
    if (!group) {
        dump_index_add(index, hash, (uint32_t)groups->count);
        REMAT_TRY_PUSH(arena, groups, ((struct decision_group){.label = label, .first = record}));
        group = &groups->items[groups->count - 1];
    }
    REMAT_TRY_PUSH(arena, group, (uint32_t)record->layer);
fail:
    return st;
}

static void print_totals(const struct remat_program *program, struct remat_text *out)
{
    uint64_t bytes[REMAT_ACTION_COUNT] = {0}, ns[REMAT_ACTION_COUNT] = {0};
    uint32_t counts[REMAT_ACTION_COUNT] = {0};
    for (uint32_t i = 0; i < program->decision_count; i++) {
        const struct remat_decision_record *record = &program->decisions[i];
        counts[record->action]++;
        bytes[record->action] += record->bytes;
        ns[record->action] += record->recompute_ns;
    }
    remat_text_append(out, "%" PRIu32 " values saved: %s; %" PRIu32 " recomputed: %s, in %s",
                      counts[REMAT_ACTION_SAVE], remat_short_text(bytes[REMAT_ACTION_SAVE]).text,
                      counts[REMAT_ACTION_RECOMPUTE],
                      remat_short_text(bytes[REMAT_ACTION_RECOMPUTE]).text,
                      remat_time_text(ns[REMAT_ACTION_RECOMPUTE]).text);
    if (counts[REMAT_ACTION_INLINE])
        remat_text_append(out, "; %" PRIu32 " recomputed inline: %s", counts[REMAT_ACTION_INLINE],
                          remat_short_text(bytes[REMAT_ACTION_INLINE]).text);
    if (remat_program_twice(program))
        remat_text_append(
            out, "; %" PRIu32 " recomputed twice: %s, in %s", remat_program_twice(program),
            remat_short_text(bytes[REMAT_ACTION_TWICE] + bytes[REMAT_ACTION_TWICE_INLINE]).text,
            remat_time_text(ns[REMAT_ACTION_TWICE] + ns[REMAT_ACTION_TWICE_INLINE]).text);
    for (uint32_t a = 0; a < REMAT_ACTION_COUNT; a++) {
        const struct remat_keep_words *row = &remat_keep_words[a];
        if (row->done && counts[a])
            remat_text_append(out, "; %" PRIu32 " %s: %s whole, %s in %s", counts[a], row->words,
                              remat_short_text(bytes[a]).text, row->done,
                              remat_time_text(ns[a]).text);
    }
    remat_text_append(out, "\n\n");
}

enum { WIDTH_MAX = 60 };

/* The widths of the longest entries, so that columns align. */
struct decision_widths {
    int value, layers, op, type;
};

static void widen(int *width, const char *text)
{
    size_t length = strlen(text) < WIDTH_MAX ? strlen(text) : WIDTH_MAX;
    *width = (int)length > *width ? (int)length : *width;
}

static remat_status complete(struct remat_arena *arena, struct groups *groups,
                             struct decision_widths *out)
{
    remat_status st = REMAT_OK;
    *out =
        (struct decision_widths){strlen("value"), strlen("layers"), strlen("op"), strlen("type")};
    for (size_t g = 0; g < groups->count; g++) {
        struct decision_group *group = &groups->items[g];
        bool outside = group->first->layer < 0;
        group->layers = outside ? "-" : dump_ranges(arena, group->items, group->count);
        REMAT_TRY(type_of(arena, group->first, &group->type));
        widen(&out->value, group->label);
        widen(&out->layers, group->layers);
        widen(&out->op, op_of(group->first));
        widen(&out->type, group->type);
    }
fail:
    return st;
}

static void print_row(struct remat_text *out, const struct decision_widths *w, const char *action,
                      const char *value, const char *layers, const char *op, const char *type,
                      const char *bytes, const char *ns, const char *reason)
{
    remat_text_append(out, "%-16s %-*s %-*s %-*s %-*s %7s %7s %s\n", action, w->value, value,
                      w->layers, layers, w->op, op, w->type, type, bytes, ns, reason);
}

remat_status dump_decisions_text(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_program *program,
                                 const struct dump_asked *asked, struct remat_text *out)
{
    (void)ctx, (void)asked;
    remat_status st = REMAT_OK;
    struct dump_index index;
    struct groups groups = {0};
    struct decision_widths widths;
    REMAT_TRY(dump_index_new(arena, program->decision_count, &index));
    for (uint32_t i = 0; i < program->decision_count; i++)
        REMAT_TRY(add_record(arena, &index, &groups, &program->decisions[i]));
    print_totals(program, out);
    REMAT_TRY(complete(arena, &groups, &widths));
    print_row(out, &widths, "action", "value", "layers", "op", "type", "bytes", "time", "reason");
    for (size_t g = 0; g < groups.count; g++) {
        const struct decision_group *group = &groups.items[g];
        const struct remat_decision_record *first = group->first;
        print_row(out, &widths, remat_action_name(first->action), group->label, group->layers,
                  op_of(first), group->type, remat_short_text(first->bytes).text,
                  first->recompute_ns == 0 ? "-" : remat_time_text(first->recompute_ns).text,
                  first->reason);
    }
fail:
    return st;
}

json_t *dump_decision(const struct remat_decision_record *record)
{
    const char *dtype = remat_dtype_name((remat_dtype)record->dtype);
    json_t *shape = json_array();
    for (uint32_t d = 0; d < record->rank && shape; d++)
        if (json_array_append_new(shape, json_integer((json_int_t)record->shape[d])) != 0) {
            json_decref(shape);
            shape = NULL;
        }
    return json_pack(
        "{s:s,s:s,s:I,s:s,s:s,s:I,s:I,s:[I,I],s:o,s:s,s:s,s:o}", "name", record->name, "scope",
        record->scope, "layer", (json_int_t)record->layer, "action",
        remat_action_name(record->action), "reason", record->reason, "bytes",
        (json_int_t)record->bytes, "recompute_ns", (json_int_t)record->recompute_ns,
        "saved_commands", (json_int_t)record->saved_begin, (json_int_t)record->saved_end,
        "recompute_extra_ns",
        record->recomputable ? json_integer((json_int_t)record->recompute_extra_ns) : json_null(),
        "op", record->op ? record->op : "", "dtype", dtype ? dtype : "", "shape", shape);
}

remat_status dump_decisions_json(remat_context *ctx, struct remat_arena *arena,
                                 const struct remat_program *program,
                                 const struct dump_asked *asked, struct dump_json *out)
{
    (void)ctx, (void)arena, (void)asked;
    json_t *decisions = json_array();
    for (uint32_t i = 0; i < program->decision_count; i++)
        dump_push(out, decisions, dump_decision(&program->decisions[i]));
    dump_set(out, "decisions", decisions);
    return REMAT_OK;
}
