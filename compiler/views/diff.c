/* SPDX-License-Identifier: Apache-2.0 */
/* Two plans side by side. Decisions are matched by the value's name, kernels by their key, over all
 * runs of a step. */
#include "diff.h"

#include "residents.h"
#include "size.h"

#include <inttypes.h>
#include <stdlib.h>

/* --- numbers --- */

enum number_unit { NS, BYTES, COUNT };

static struct remat_unit_text print_number(enum number_unit unit, uint64_t number)
{
    struct remat_unit_text out = {"-"};
    if (!number)
        return out;
    if (unit != COUNT)
        return unit == NS ? remat_time_text(number) : remat_short_text(number);
    snprintf(out.text, sizeof out.text, "%" PRIu64, number);
    return out;
}

static remat_status add_number(struct remat_arena *arena, const char *name, enum number_unit unit,
                               uint64_t this_plan, uint64_t other, struct plan_differences *out)
{
    static const char *const units[] = {[NS] = "ns", [BYTES] = "bytes", [COUNT] = "count"};
    remat_status st = REMAT_OK;
    struct plan_difference row = {name, units[unit], {this_plan, other}, {NULL, NULL}};
    if (this_plan == other)
        return REMAT_OK;
    for (uint32_t i = 0; i < 2; i++) {
        struct remat_unit_text text = print_number(unit, row.number[i]);
        if (!(row.text[i] = remat_arena_string(arena, text.text, strlen(text.text))))
            return REMAT_ERROR_MEMORY;
    }
    REMAT_TRY_PUSH(arena, out, row);
fail:
    return st;
}

static remat_status find_classes(struct remat_arena *arena, const struct remat_program *program,
                                 struct dump_residents *out)
{
    const uint8_t *classes = dump_classify(arena, program);
    return classes ? dump_residents(arena, program, classes, program->peak_command, out)
                   : REMAT_ERROR_MEMORY;
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
        enum number_unit unit;
        uint64_t this_plan, other;
    } rows[] = {
        {"step", NS, a->step_ns, b->step_ns},
        {"step, everything saved", NS, a->base_step_ns, b->base_step_ns},
        {"lower bound", NS, a->bound_step_ns, b->bound_step_ns},
        {"exposed", NS, moved[0].exposed_ns, moved[1].exposed_ns},
        {"sent", BYTES, moved[0].sent_bytes, moved[1].sent_bytes},
        {"tokens", COUNT, a->tokens, b->tokens},
        {"budget", BYTES, a->budget_bytes, b->budget_bytes},
        {"reserve", BYTES, a->reserve_bytes, b->reserve_bytes},
        {"arena", BYTES, a->arena_bytes, b->arena_bytes},
        {"live peak", BYTES, a->peak_bytes, b->peak_bytes},
        {"persistent", BYTES, a->static_bytes, b->static_bytes},
        {"workspace", BYTES, a->workspace_bytes, b->workspace_bytes},
        {"proven floor", BYTES, a->floor_bytes, b->floor_bytes},
        {"commands", COUNT, a->command_count, b->command_count},
        {"kernels", COUNT, a->kernel_count, b->kernel_count},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        REMAT_TRY(
            add_number(arena, rows[i].name, rows[i].unit, rows[i].this_plan, rows[i].other, out));
    REMAT_TRY(find_classes(arena, a, &at_peak[0]));
    REMAT_TRY(find_classes(arena, b, &at_peak[1]));
    for (uint32_t class = 0; class < DUMP_CLASS_COUNT; class ++) {
        const char *name = remat_arena_format(arena, "%s at the peak", dump_class_names[class]);
        if (!name)
            return REMAT_ERROR_MEMORY;
        REMAT_TRY(
            add_number(arena, name, BYTES, at_peak[0].bytes[class], at_peak[1].bytes[class], out));
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
        REMAT_TRY_PUSH(arena, out,
                       ((struct plan_difference){name, NULL, {0, 0}, {this_plan, other}}));
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

remat_status dump_diff_find(struct remat_arena *arena, const struct remat_program *program,
                            const struct remat_program *other, struct plan_diff *out)
{
    remat_status st = REMAT_OK;
    *out = (struct plan_diff){0};
    REMAT_TRY(find_numbers(arena, program, other, &out->numbers));
    REMAT_TRY(find_settings(arena, program, other, &out->settings));
    REMAT_TRY(find_decisions(arena, program, other, &out->decisions));
    REMAT_TRY(find_kernels(arena, program, other, &out->kernels));
fail:
    return st;
}
