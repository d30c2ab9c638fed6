/* SPDX-License-Identifier: Apache-2.0 */
#include "layer_transfers.h"

#include "size.h"
#include "table.h"

#include <assert.h>
#include <inttypes.h>

remat_status transfers_find(struct remat_arena *arena, const struct remat_program *program,
                            const uint32_t *decision, struct transfers *out)
{
    assert(out->count == 0);
    remat_status st = REMAT_OK;
    const struct remat_entry *step = remat_program_step(program);
    REMAT_TRY(dump_indices(arena, program->decision_count, &out->about));
    for (uint32_t k = step ? step->call_begin : 0; step && k < step->call_end; k++) {
        const struct remat_call *call = &program->calls[k];
        const struct remat_segment *segment = &program->segments[call->segment];
        for (uint32_t c = segment->command_begin; c < segment->command_end; c++) {
            struct transfer transfer = {.command = c, .times = call->times};
            if (program->commands[c].phase == REMAT_PHASE_OPTIMIZER ||
                !remat_command_transfer(program, c, &transfer.shape))
                continue;
            uint32_t d = decision[transfer.shape.to->value];
            if (d != REMAT_NONE) {
                transfer.record = &program->decisions[d];
                if (out->about[d] == REMAT_NONE && program->commands[c].instance == 0)
                    out->about[d] = (uint32_t)out->count;
            }
            REMAT_TRY_PUSH(arena, out, transfer);
        }
    }
fail:
    return st;
}

/* The scope of the node whose layout asked for it; within a layer the rest of the path. */
static remat_status find_asker(struct remat_arena *arena, const struct remat_command *command,
                               const char **out)
{
    char number[16];
    size_t length = (size_t)snprintf(number, sizeof number, ".%" PRId32 "/", command->layer);
    const char *at = command->layer < 0 ? NULL : strstr(command->scope, number);
    *out = at ? at + length : *command->scope ? command->scope : "-";
    return at ? REMAT_OK : dump_pattern(arena, *out, command->layer, out);
}

/* Of the value that is transferred, in that layer or in another one. */
static remat_status find_label(struct remat_arena *arena, const struct remat_command *command,
                               const struct remat_program_value *from, const char **out)
{
    remat_status st = dump_pattern(arena, from->name, command->layer, out);
    return st || *out != from->name ? st : dump_pattern(arena, from->name, from->layer, out);
}

static const char *saving_text(struct remat_arena *arena, const struct transfer *transfer)
{
    const struct remat_decision_record *record = transfer->record;
    if (!record)
        return "-";
    if (record->action == REMAT_ACTION_SAVE)
        return remat_arena_format(arena, "saved: %s", remat_short_text(record->bytes).text);
    uint64_t freed_ns = record->recompute_extra_ns < 0 ? 0 : (uint64_t)record->recompute_extra_ns;
    return remat_arena_format(arena, "%s, frees %s", remat_short_text(record->bytes).text,
                              remat_time_text(freed_ns).text);
}

static remat_status add(struct dump_table *table, const struct remat_program *program,
                        const struct transfer *transfer)
{
    remat_status st = REMAT_OK;
    struct remat_arena *arena = table->arena;
    const struct remat_command *command = &program->commands[transfer->command];
    const struct remat_program_value *from = &program->values[transfer->shape.from->value];
    const char *kind = remat_kernel_kind_name(program->kernels[command->kernel].kind);
    const char *cells[DUMP_TABLE_COLUMNS] = {
        [1] = command->instance ? remat_arena_format(arena, "%s #%" PRIu32, kind, command->instance)
                                : kind,
        [2] = remat_arena_format(arena, "%s", remat_time_text(command->estimated_ns).text),
        [3] = remat_arena_format(arena, "%s",
                                 remat_short_text(remat_transfer_sent(&transfer->shape, 0)).text),
        [5] = saving_text(arena, transfer)};
    REMAT_TRY(find_label(arena, command, from, &cells[0]));
    REMAT_TRY(find_asker(arena, command, &cells[4]));
    for (size_t c = 0; c < 6; c++)
        if (!cells[c])
            return REMAT_ERROR_MEMORY;
    REMAT_TRY(dump_table_add(table, command->layer, cells));
fail:
    return st;
}

remat_status transfers_print(struct remat_arena *arena, const struct remat_program *program,
                             const struct transfers *transfers, uint32_t axis,
                             struct remat_text *out)
{
    assert(axis < program->mesh_count);
    remat_status st = REMAT_OK;
    struct dump_table table = {
        .arena = arena,
        .titles = {"of", "transfer", "time", "sent", "asked by", "saving its result"},
        .right = {false, false, true, true}};
    uint64_t ns = 0, sent_bytes = 0;
    for (size_t t = 0; t < transfers->count; t++) {
        const struct transfer *transfer = &transfers->items[t];
        if (transfer->shape.group != axis)
            continue;
        ns += transfer->times * program->commands[transfer->command].estimated_ns;
        sent_bytes += transfer->times * remat_transfer_sent(&transfer->shape, 0);
        REMAT_TRY(add(&table, program, transfer));
    }
    if (!table.rows.count)
        return REMAT_OK;
    remat_text_append(
        out, "\ntransfers of forward and backward pass along %s: %s a step, rank 0 sends %s\n",
        program->mesh[axis].name, remat_time_text(ns).text, remat_short_text(sent_bytes).text);
    dump_table_print(&table, out);
fail:
    return st;
}

json_t *transfer_json(const struct remat_program *program, const struct transfer *transfer)
{
    const struct remat_command *command = &program->commands[transfer->command];
    const struct remat_decision_record *record = transfer->record;
    json_t *result = !record ? json_null()
                             : json_pack("{s:s,s:s,s:I,s:o}", "name", record->name, "action",
                                         remat_action_name(record->action), "bytes",
                                         (json_int_t)record->bytes, "recompute_extra_ns",
                                         record->recomputable
                                             ? json_integer((json_int_t)record->recompute_extra_ns)
                                             : json_null());
    return json_pack("{s:I,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:s,s:o}", "command",
                     (json_int_t)transfer->command, "kind",
                     remat_kernel_kind_name(program->kernels[command->kernel].kind), "axis",
                     program->mesh[transfer->shape.group].name, "of",
                     program->values[transfer->shape.from->value].name, "layer",
                     (json_int_t)command->layer, "instance", (json_int_t)command->instance, "times",
                     (json_int_t)transfer->times, "estimated_ns", (json_int_t)command->estimated_ns,
                     "sent_bytes", (json_int_t)remat_transfer_sent(&transfer->shape, 0), "asked_by",
                     command->scope, "result", result);
}
