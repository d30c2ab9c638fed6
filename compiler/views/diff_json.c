/* SPDX-License-Identifier: Apache-2.0 */
/* --diff for programs. */
#include "diff.h"

static json_t *name_of(uint32_t action)
{
    return action == DUMP_UNDECIDED ? json_null() : json_string(remat_action_name(action));
}

/* The values of a run: with the same layers and actions. */
static json_t *make_run(const struct value_pair *run, size_t count, struct dump_json *out)
{
    json_t *layers = json_array(), *values = json_array();
    for (size_t i = 0; i < run->layers.count; i++)
        dump_push(out, layers, dump_bytes(run->layers.items[i]));
    for (size_t i = 0; i < count; i++)
        dump_push(out, values,
                  json_pack("{s:s,s:I,s:I,s:I,s:I}", "name", run[i].pattern, "count",
                            (json_int_t)run[i].count, "bytes", (json_int_t)run[i].bytes,
                            "this_recompute_ns", (json_int_t)run[i].recompute_ns[0],
                            "other_recompute_ns", (json_int_t)run[i].recompute_ns[1]));
    return json_pack("{s:o,s:o,s:o,s:o}", "layers", layers, "this", name_of(run->action[0]),
                     "other", name_of(run->action[1]), "values", values);
}

static remat_status set_runs(struct remat_arena *arena, const struct decision_pairs *pairs,
                             struct dump_json *out)
{
    remat_status st = REMAT_OK;
    struct value_pairs values = {0};
    json_t *runs = json_array();
    REMAT_TRY(dump_diff_values(arena, pairs, &values));
    for (size_t i = 0, end; i < values.count; i = end) {
        end = dump_diff_run(&values, i);
        dump_push(out, runs, make_run(&values.items[i], end - i, out));
    }
fail:
    dump_set(out, "by_layers", runs);
    return st;
}

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

remat_status dump_diff_json(remat_context *ctx, struct remat_arena *arena,
                            const struct remat_program *program, const struct dump_asked *asked,
                            struct dump_json *out)
{
    (void)ctx;
    remat_status st = REMAT_OK;
    struct plan_diff diff;
    json_t *costs = json_array(), *settings = json_array(), *decisions = json_array(),
           *kernels = json_array();
    REMAT_TRY(dump_diff_find(arena, program, asked->other, &diff));
    for (size_t i = 0; i < diff.numbers.count; i++) {
        const struct plan_difference *row = &diff.numbers.items[i];
        dump_push(out, costs,
                  json_pack("{s:s,s:s,s:I,s:I}", "name", row->name, "unit", row->unit, "this",
                            (json_int_t)row->number[0], "other", (json_int_t)row->number[1]));
    }
    for (size_t i = 0; i < diff.settings.count; i++) {
        const struct plan_difference *row = &diff.settings.items[i];
        dump_push(out, settings,
                  json_pack("{s:s,s:s,s:s}", "name", row->name, "this", row->text[0], "other",
                            row->text[1]));
    }
    REMAT_TRY(set_runs(arena, &diff.decisions, out));
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
