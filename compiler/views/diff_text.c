/* SPDX-License-Identifier: Apache-2.0 */
/* --diff for people: decisions by runs of layers, then by value. */
#include "diff.h"

#include "program.h"
#include "size.h"
#include "table.h"

#include <inttypes.h>

enum { KERNELS_SHOWN = 16, LAYERS_WIDTH = 36 };

static const char *text_of(struct remat_arena *arena, struct remat_unit_text text)
{
    return remat_arena_string(arena, text.text, strlen(text.text));
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

/* --- decisions --- */

/* What becomes of a value, as "12 values saved". */
static const char *participle(uint32_t action)
{
    static const char *const words[REMAT_ACTION_COUNT] = {
        [REMAT_ACTION_RECOMPUTE] = "recomputed",
        [REMAT_ACTION_INLINE] = "recomputed inline",
        [REMAT_ACTION_TWICE] = "recomputed twice",
        [REMAT_ACTION_TWICE_INLINE] = "recomputed twice, inline",
    };
    return words[action] ? words[action] : remat_keep_words[action].words;
}

static void append_actions(const uint32_t action[2], struct remat_text *out)
{
    if (action[0] == DUMP_UNDECIDED)
        remat_text_append(out, "%s in the other alone", participle(action[1]));
    else if (action[1] == DUMP_UNDECIDED)
        remat_text_append(out, "%s in this plan alone", participle(action[0]));
    else
        remat_text_append(out, "%s instead of %s", participle(action[0]), participle(action[1]));
}

/* "layers 3-40: 12 values each recomputed instead of saved, 1.20 GB" */
static const char *heading_of(struct remat_arena *arena, const struct value_pair *run, size_t count)
{
    struct remat_text text = {.arena = arena};
    size_t layers = run->layers.count;
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += run[i].bytes;
    remat_text_append(&text, "%s", layers > 1 ? "layers " : layers ? "layer " : "outside layers");
    if (layers)
        dump_append_name(&text, dump_ranges(arena, run->layers.items, layers), LAYERS_WIDTH);
    remat_text_append(&text, ": %zu value%s%s ", count, count > 1 ? "s" : "",
                      layers > 1 ? " each" : "");
    append_actions(run->action, &text);
    remat_text_append(&text, ", %s", remat_short_text(bytes).text);
    return text.failed ? NULL : text.items;
}

static remat_status print_decisions(struct remat_arena *arena, const struct decision_pairs *pairs,
                                    struct remat_text *out)
{
    remat_status st = REMAT_OK;
    struct value_pairs values = {0};
    struct dump_table table = {arena,
                               {"value, in all these layers", "bytes", "recomputed in", "other in"},
                               {[1] = true, [2] = true, [3] = true},
                               {0}};
    REMAT_TRY(dump_diff_values(arena, pairs, &values));
    for (size_t i = 0, end = 0; i < values.count; i++) {
        const struct value_pair *value = &values.items[i];
        const char *cells[DUMP_TABLE_COLUMNS] = {value->pattern,
                                                 text_of(arena, remat_short_text(value->bytes))};
        for (uint32_t k = 0; k < 2; k++)
            cells[2 + k] = value->recompute_ns[k]
                               ? text_of(arena, remat_time_text(value->recompute_ns[k]))
                               : "-";
        if (!cells[1] || !cells[2] || !cells[3])
            return REMAT_ERROR_MEMORY;
        REMAT_TRY(dump_table_add(&table, -1, cells));
        if (i < end)
            continue;
        end = dump_diff_run(&values, i);
        if (!(table.rows.items[i].heading = heading_of(arena, value, end - i)))
            return REMAT_ERROR_MEMORY;
    }
    remat_text_append(out, "\n%zu value%s with other actions\n", pairs->count,
                      pairs->count > 1 ? "s" : "");
    dump_table_print(&table, out);
fail:
    return st;
}

/* --- settings and kernels --- */

/* In lines of their own, as lists of pins are long. */
static void print_settings(const struct plan_differences *settings, struct remat_text *out)
{
    remat_text_append(out, "\n%zu other setting%s\n", settings->count,
                      settings->count > 1 ? "s" : "");
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
            cells[1 + i] = remat_arena_format(arena, "%" PRIu64, pair->count[i]);
            cells[3 + i] = pair->ns[i] ? text_of(arena, remat_time_text(pair->ns[i])) : "-";
            if (!cells[1 + i] || !cells[3 + i])
                return REMAT_ERROR_MEMORY;
        }
        REMAT_TRY(dump_table_add(&table, -1, cells));
    }
    remat_text_append(out, "\n%zu kernel%s with another number of commands or time in a step\n",
                      kernels->count, kernels->count > 1 ? "s" : "");
    dump_table_print(&table, out);
    if (kernels->count > KERNELS_SHOWN)
        remat_text_append(out, "and %zu with less time between them\n",
                          kernels->count - KERNELS_SHOWN);
fail:
    return st;
}

remat_status dump_diff_text(remat_context *ctx, struct remat_arena *arena,
                            const struct remat_program *program, const struct dump_asked *asked,
                            struct remat_text *out)
{
    (void)ctx;
    remat_status st = REMAT_OK;
    struct plan_diff diff;
    REMAT_TRY(dump_diff_find(arena, program, asked->other, &diff));
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
