/* SPDX-License-Identifier: Apache-2.0 */
/* Two plans side by side. Decisions are matched by the value's name, kernels by their key, over all
 * runs of a step. */
#include "diff.h"

#include "residents.h"
#include "size.h"
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { KERNELS_SHOWN = 16 };

/* A number or a setting of both plans, which differs. */
struct plan_difference {
    const char *name;
    uint64_t number[2];
    const char *text[2]; /* as people read them; of what one plan lacks, "-" */
};
struct plan_differences REMAT_LIST(struct plan_difference);

struct decision_pair { /* NULL: the plan decides nothing about the value */
    const struct remat_decision_record *of[2];
};
struct decision_pairs REMAT_LIST(struct decision_pair);

struct kernel_pair {
    const char *key;
    uint64_t count[2], ns[2];
};
struct kernel_pairs REMAT_LIST(struct kernel_pair);

struct plan_diff {
    struct plan_differences numbers, settings;
    struct decision_pairs decisions;
    struct kernel_pairs kernels; /* those with the most time between them first */
};

/* --- numbers --- */

static remat_status add_number(struct remat_arena *arena, const char *name,
                               struct cli_buffer (*print)(uint64_t), uint64_t this_plan,
                               uint64_t other, struct plan_differences *out)
{
    remat_status st = REMAT_OK;
    struct plan_difference row = {name, {this_plan, other}, {NULL, NULL}};
    if (this_plan == other)
        return REMAT_OK;
    for (uint32_t i = 0; i < 2; i++) {
        struct cli_buffer text = row.number[i] ? print(row.number[i]) : (struct cli_buffer){"-"};
        if (!(row.text[i] = remat_arena_string(arena, text.text, strlen(text.text))))
            return REMAT_ERROR_MEMORY;
    }
    REMAT_TRY_PUSH(arena, out, row);
fail:
    return st;
}

static struct cli_buffer print_count(uint64_t count)
{
    struct cli_buffer out;
    snprintf(out.text, sizeof out.text, "%" PRIu64, count);
    return out;
}

static remat_status find_classes(struct remat_arena *arena, const struct remat_program *program,
                                 struct dump_residents *out)
{
    const uint8_t *classes = dump_classify(arena, program);
    return classes ? dump_residents(arena, program, classes, out) : REMAT_ERROR_MEMORY;
}

static remat_status find_numbers(struct remat_arena *arena, const struct remat_program *a,
                                 const struct remat_program *b, struct plan_differences *out)
{
    remat_status st = REMAT_OK;
    struct dump_residents at_peak[2];
    struct remat_communication moved[2] = {remat_program_communication(a),
                                           remat_program_communication(b)};
    const struct {
        const char *name;
        struct cli_buffer (*print)(uint64_t);
        uint64_t this_plan, other;
    } rows[] = {
        {"step", cli_time, a->step_ns, b->step_ns},
        {"step, everything saved", cli_time, a->base_step_ns, b->base_step_ns},
        {"lower bound", cli_time, a->bound_step_ns, b->bound_step_ns},
        {"exposed", cli_time, moved[0].exposed_ns, moved[1].exposed_ns},
        {"sent", cli_short, moved[0].sent_bytes, moved[1].sent_bytes},
        {"tokens", print_count, a->tokens, b->tokens},
        {"budget", cli_short, a->budget_bytes, b->budget_bytes},
        {"reserve", cli_short, a->reserve_bytes, b->reserve_bytes},
        {"arena", cli_short, a->arena_bytes, b->arena_bytes},
        {"live peak", cli_short, a->peak_bytes, b->peak_bytes},
        {"persistent", cli_short, a->static_bytes, b->static_bytes},
        {"workspace", cli_short, a->workspace_bytes, b->workspace_bytes},
        {"proven floor", cli_short, a->floor_bytes, b->floor_bytes},
        {"commands", print_count, a->command_count, b->command_count},
        {"kernels", print_count, a->kernel_count, b->kernel_count},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        REMAT_TRY(
            add_number(arena, rows[i].name, rows[i].print, rows[i].this_plan, rows[i].other, out));
    REMAT_TRY(find_classes(arena, a, &at_peak[0]));
    REMAT_TRY(find_classes(arena, b, &at_peak[1]));
    for (uint32_t class = 0; class < DUMP_CLASS_COUNT; class ++) {
        const char *name = remat_arena_format(arena, "%s at the peak", dump_class_names[class]);
        if (!name)
            return REMAT_ERROR_MEMORY;
        REMAT_TRY(add_number(arena, name, cli_short, at_peak[0].bytes[class],
                             at_peak[1].bytes[class], out));
    }
fail:
    return st;
}

/* --- settings --- */

/* All values of an option, as it may have been given several times; "-": it was not given. */
static const char *setting_of(struct remat_arena *arena, const struct remat_program *program,
                              const char *name)
{
    const char *values = NULL;
    for (uint32_t i = 0; i < program->setting_count; i++) {
        const char *value = program->settings[i].value;
        if (strcmp(program->settings[i].name, name) != 0)
            continue;
        values = values ? remat_arena_format(arena, "%s %s", values, value) : value;
        if (!values)
            return NULL;
    }
    return values ? values : "-";
}

static bool is_named(const struct remat_program *program, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(program->settings[i].name, name) == 0)
            return true;
    return false;
}

static remat_status add_setting(struct remat_arena *arena, const char *name, const char *this_plan,
                                const char *other, struct plan_differences *out)
{
    remat_status st = REMAT_OK;
    if (strcmp(this_plan, other) != 0)
        REMAT_TRY_PUSH(arena, out, ((struct plan_difference){name, {0, 0}, {this_plan, other}}));
fail:
    return st;
}

static remat_status find_settings(struct remat_arena *arena, const struct remat_program *a,
                                  const struct remat_program *b, struct plan_differences *out)
{
    remat_status st = REMAT_OK;
    const char *hashes[] = {remat_arena_format(arena, "%016" PRIx64, a->graph_hash),
                            remat_arena_format(arena, "%016" PRIx64, b->graph_hash)};
    if (!hashes[0] || !hashes[1])
        return REMAT_ERROR_MEMORY;
    REMAT_TRY(add_setting(arena, "graph", a->graph_name, b->graph_name, out));
    REMAT_TRY(add_setting(arena, "graph hash", hashes[0], hashes[1], out));
    REMAT_TRY(add_setting(arena, "target", a->target, b->target, out));
    for (uint32_t i = 0; i < a->setting_count + b->setting_count; i++) {
        uint32_t of_b = i < a->setting_count ? 0 : i - a->setting_count;
        const char *name = i < a->setting_count ? a->settings[i].name : b->settings[of_b].name;
        if (is_named(a, i < a->setting_count ? i : a->setting_count, name) ||
            is_named(b, of_b, name))
            continue;
        const char *of[] = {setting_of(arena, a, name), setting_of(arena, b, name)};
        if (!of[0] || !of[1])
            return REMAT_ERROR_MEMORY;
        REMAT_TRY(add_setting(arena, name, of[0], of[1], out));
    }
fail:
    return st;
}

/* --- decisions --- */

static remat_status index_decisions(struct remat_arena *arena, const struct remat_program *program,
                                    struct dump_index *out)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(dump_index_new(arena, program->decision_count, out));
    for (uint32_t d = program->decision_count; d-- > 0;)
        dump_index_add(out, remat_hash_string(program->decisions[d].name, 0), d);
fail:
    return st;
}

static const struct remat_decision_record *find_decision(const struct remat_program *program,
                                                         const struct dump_index *by_name,
                                                         const char *name)
{
    uint32_t d = dump_index_first(by_name, remat_hash_string(name, 0));
    while (d != REMAT_NONE && strcmp(program->decisions[d].name, name) != 0)
        d = by_name->next[d];
    return d == REMAT_NONE ? NULL : &program->decisions[d];
}

static remat_status find_decisions(struct remat_arena *arena, const struct remat_program *a,
                                   const struct remat_program *b, struct decision_pairs *out)
{
    remat_status st = REMAT_OK;
    struct dump_index of_a, of_b;
    REMAT_TRY(index_decisions(arena, a, &of_a));
    REMAT_TRY(index_decisions(arena, b, &of_b));
    for (uint32_t d = 0; d < a->decision_count; d++) {
        const struct remat_decision_record *record = &a->decisions[d],
                                           *other = find_decision(b, &of_b, record->name);
        if (!other || other->action != record->action)
            REMAT_TRY_PUSH(arena, out, ((struct decision_pair){{record, other}}));
    }
    for (uint32_t d = 0; d < b->decision_count; d++)
        if (!find_decision(a, &of_a, b->decisions[d].name))
            REMAT_TRY_PUSH(arena, out, ((struct decision_pair){{NULL, &b->decisions[d]}}));
fail:
    return st;
}

/* --- kernels --- */

static remat_status add_kernel(struct remat_arena *arena, const char *key, uint32_t plan,
                               uint64_t times, uint64_t ns, struct dump_index *index,
                               struct kernel_pairs *out)
{
    remat_status st = REMAT_OK;
    uint64_t hash = remat_hash_string(key, 0);
    uint32_t k = dump_index_first(index, hash);
    while (k != REMAT_NONE && strcmp(out->items[k].key, key) != 0)
        k = index->next[k];
    if (k == REMAT_NONE) {
        k = (uint32_t)out->count;
        dump_index_add(index, hash, k);
        REMAT_TRY_PUSH(arena, out, ((struct kernel_pair){.key = key}));
    }
    out->items[k].count[plan] += times;
    out->items[k].ns[plan] += times * ns;
fail:
    return st;
}

static uint64_t apart(const struct kernel_pair *pair)
{
    return pair->ns[0] > pair->ns[1] ? pair->ns[0] - pair->ns[1] : pair->ns[1] - pair->ns[0];
}

static int by_time_apart(const void *a, const void *b)
{
    const struct kernel_pair *x = a, *y = b;
    if (apart(x) != apart(y))
        return apart(x) < apart(y) ? 1 : -1;
    return strcmp(x->key, y->key);
}

static remat_status find_kernels(struct remat_arena *arena, const struct remat_program *a,
                                 const struct remat_program *b, struct kernel_pairs *out)
{
    remat_status st = REMAT_OK;
    const struct remat_program *const plans[] = {a, b};
    struct dump_index index;
    struct kernel_pairs all = {0};
    REMAT_TRY(dump_index_new(arena, (size_t)a->kernel_count + b->kernel_count, &index));
    for (uint32_t i = 0; i < 2; i++) {
        const struct remat_program *p = plans[i];
        const struct remat_entry *step = remat_program_step(p);
        for (uint32_t k = step ? step->call_begin : 0; step && k < step->call_end; k++) {
            const struct remat_segment *segment = &p->segments[p->calls[k].segment];
            for (uint32_t c = segment->command_begin; c < segment->command_end; c++)
                REMAT_TRY(add_kernel(arena, p->kernels[p->commands[c].kernel].key, i,
                                     p->calls[k].times, p->commands[c].estimated_ns, &index, &all));
        }
    }
    for (size_t k = 0; k < all.count; k++)
        if (all.items[k].count[0] != all.items[k].count[1] || apart(&all.items[k]))
            REMAT_TRY_PUSH(arena, out, all.items[k]);
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, by_time_apart);
fail:
    return st;
}

static remat_status find_diff(struct remat_arena *arena, const struct remat_program *a,
                              const struct remat_program *b, struct plan_diff *out)
{
    remat_status st = REMAT_OK;
    *out = (struct plan_diff){0};
    REMAT_TRY(find_numbers(arena, a, b, &out->numbers));
    REMAT_TRY(find_settings(arena, a, b, &out->settings));
    REMAT_TRY(find_decisions(arena, a, b, &out->decisions));
    REMAT_TRY(find_kernels(arena, a, b, &out->kernels));
fail:
    return st;
}

/* --- text --- */

static const char *action_of(const struct remat_decision_record *record)
{
    return record ? remat_action_name(record->action) : "-";
}

static const char *text_of(struct remat_arena *arena, struct cli_buffer text)
{
    return remat_arena_string(arena, text.text, strlen(text.text));
}

/* Those of the same layers next to each other, the first layers first, outside layers last. */
static int by_layers(const void *a, const void *b)
{
    const struct dump_table_row *x = a, *y = b;
    for (size_t i = 0; i < x->layers.count && i < y->layers.count; i++)
        if (x->layers.items[i] != y->layers.items[i])
            return x->layers.items[i] < y->layers.items[i] ? -1 : 1;
    if (x->layers.count != y->layers.count)
        return (x->layers.count > y->layers.count ? -1 : 1);
    return strcmp(x->cells[0], y->cells[0]);
}

static remat_status print_decisions(struct remat_arena *arena, const struct decision_pairs *pairs,
                                    struct remat_text *out)
{
    remat_status st = REMAT_OK;
    struct dump_table table = {
        arena,
        {"value", "this plan", "other", "bytes", "recomputed in", "other in"},
        {[3] = true, [4] = true, [5] = true},
        {0}};
    for (size_t i = 0; i < pairs->count; i++) {
        const struct remat_decision_record *const *of = pairs->items[i].of;
        const struct remat_decision_record *one = of[0] ? of[0] : of[1];
        const char *cells[DUMP_TABLE_COLUMNS] = {NULL, action_of(of[0]), action_of(of[1]),
                                                 text_of(arena, cli_short(one->bytes))};
        REMAT_TRY(dump_pattern(arena, one->name, one->layer, &cells[0]));
        for (uint32_t k = 0; k < 2; k++)
            cells[4 + k] =
                of[k] && of[k]->recompute_ns ? text_of(arena, cli_time(of[k]->recompute_ns)) : "-";
        if (!cells[3] || !cells[4] || !cells[5])
            return REMAT_ERROR_MEMORY;
        REMAT_TRY(dump_table_add(&table, one->layer, cells));
    }
    if (table.rows.count)
        qsort(table.rows.items, table.rows.count, sizeof *table.rows.items, by_layers);
    remat_text_append(out, "\n%zu values with other actions\n", pairs->count);
    dump_table_print(&table, out);
fail:
    return st;
}

static remat_status print_numbers(struct remat_arena *arena,
                                  const struct plan_differences *differences,
                                  struct remat_text *out)
{
    remat_status st = REMAT_OK;
    struct dump_table table = {
        arena, {"cost", "this plan", "other"}, {[1] = true, [2] = true}, {0}};
    for (size_t i = 0; i < differences->count; i++) {
        const struct plan_difference *row = &differences->items[i];
        const char *cells[DUMP_TABLE_COLUMNS] = {row->name, row->text[0], row->text[1]};
        REMAT_TRY(dump_table_add(&table, -1, cells));
    }
    dump_table_print(&table, out);
fail:
    return st;
}

/* In lines of their own, as lists of pins are long. */
static void print_settings(const struct plan_differences *settings, struct remat_text *out)
{
    remat_text_append(out, "\n%zu other settings\n", settings->count);
    for (size_t i = 0; i < settings->count; i++)
        remat_text_append(out, "%s\n  this plan  %s\n  other      %s\n", settings->items[i].name,
                          settings->items[i].text[0], settings->items[i].text[1]);
}

static remat_status print_kernels(struct remat_arena *arena, const struct kernel_pairs *kernels,
                                  struct remat_text *out)
{
    remat_status st = REMAT_OK;
    struct dump_table table = {arena,
                               {"kernel", "this plan", "other", "this plan", "other"},
                               {[1] = true, [2] = true, [3] = true, [4] = true},
                               {0}};
    for (size_t k = 0; k < kernels->count && k < KERNELS_SHOWN; k++) {
        const struct kernel_pair *pair = &kernels->items[k];
        const char *cells[DUMP_TABLE_COLUMNS] = {pair->key};
        for (uint32_t i = 0; i < 2; i++) {
            cells[1 + i] = text_of(arena, print_count(pair->count[i]));
            cells[3 + i] = pair->ns[i] ? text_of(arena, cli_time(pair->ns[i])) : "-";
            if (!cells[1 + i] || !cells[3 + i])
                return REMAT_ERROR_MEMORY;
        }
        REMAT_TRY(dump_table_add(&table, -1, cells));
    }
    remat_text_append(out, "\n%zu kernels with another number of commands or time in a step\n",
                      kernels->count);
    dump_table_print(&table, out);
    if (kernels->count > KERNELS_SHOWN)
        remat_text_append(out, "and %zu with less time between them\n",
                          kernels->count - KERNELS_SHOWN);
fail:
    return st;
}

remat_status dump_diff_text(struct remat_arena *arena, const struct remat_program *program,
                            const struct remat_program *other, struct remat_text *out)
{
    remat_status st = REMAT_OK;
    struct plan_diff diff;
    REMAT_TRY(find_diff(arena, program, other, &diff));
    if (diff.numbers.count)
        REMAT_TRY(print_numbers(arena, &diff.numbers, out));
    if (diff.settings.count)
        print_settings(&diff.settings, out);
    if (diff.decisions.count)
        REMAT_TRY(print_decisions(arena, &diff.decisions, out));
    if (diff.kernels.count)
        REMAT_TRY(print_kernels(arena, &diff.kernels, out));
fail:
    return st;
}

/* --- JSON --- */

static json_t *make_decision(const struct decision_pair *pair)
{
    const struct remat_decision_record *a = pair->of[0], *b = pair->of[1], *one = a ? a : b;
    return json_pack("{s:s,s:I,s:s?,s:s?,s:I,s:I,s:I}", "name", one->name, "layer",
                     (json_int_t)one->layer, "this", a ? remat_action_name(a->action) : NULL,
                     "other", b ? remat_action_name(b->action) : NULL, "bytes",
                     (json_int_t)one->bytes, "this_recompute_ns",
                     (json_int_t)(a ? a->recompute_ns : 0), "other_recompute_ns",
                     (json_int_t)(b ? b->recompute_ns : 0));
}

remat_status dump_diff_json(struct remat_arena *arena, const struct remat_program *program,
                            const struct remat_program *other, struct dump_json *out)
{
    remat_status st = REMAT_OK;
    struct plan_diff diff;
    json_t *costs = json_array(), *settings = json_array(), *decisions = json_array(),
           *kernels = json_array();
    REMAT_TRY(find_diff(arena, program, other, &diff));
    for (size_t i = 0; i < diff.numbers.count; i++) {
        const struct plan_difference *row = &diff.numbers.items[i];
        dump_push(out, costs,
                  json_pack("{s:s,s:I,s:I}", "name", row->name, "this", (json_int_t)row->number[0],
                            "other", (json_int_t)row->number[1]));
    }
    for (size_t i = 0; i < diff.settings.count; i++) {
        const struct plan_difference *row = &diff.settings.items[i];
        dump_push(out, settings,
                  json_pack("{s:s,s:s,s:s}", "name", row->name, "this", row->text[0], "other",
                            row->text[1]));
    }
    for (size_t i = 0; i < diff.decisions.count; i++)
        dump_push(out, decisions, make_decision(&diff.decisions.items[i]));
    for (size_t i = 0; i < diff.kernels.count; i++) {
        const struct kernel_pair *pair = &diff.kernels.items[i];
        dump_push(out, kernels,
                  json_pack("{s:s,s:I,s:I,s:I,s:I}", "kernel", pair->key, "this_count",
                            (json_int_t)pair->count[0], "other_count", (json_int_t)pair->count[1],
                            "this_ns", (json_int_t)pair->ns[0], "other_ns",
                            (json_int_t)pair->ns[1]));
    }
fail:
    dump_set(out, "costs", costs);
    dump_set(out, "settings", settings);
    dump_set(out, "decisions", decisions);
    dump_set(out, "kernels", kernels);
    return st;
}
