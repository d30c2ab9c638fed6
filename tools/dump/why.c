/* SPDX-License-Identifier: Apache-2.0 */
/* --why: what saving and recomputing would each cost, and what removing a resident would. */
#include "why.h"

#include "decisions.h"
#include "layer_transfers.h"
#include "size.h"

#include <fnmatch.h>
#include <inttypes.h>

#define PART ".part" /* in the name of what is saved of a value as a shard */

static bool names_value(const struct remat_program *program, uint32_t value, const char *name)
{
    const struct remat_program_value *info = &program->values[value];
    return info->role == REMAT_ROLE_ACTIVATION && strcmp(info->name, name) == 0;
}

static bool reads_or_writes(const struct remat_program *program, uint32_t command, uint32_t value)
{
    const struct remat_command *c = &program->commands[command];
    for (uint32_t o = c->operand_begin; o < c->operand_end; o++)
        if (program->operands[o].value == value)
            return true;
    return false;
}

/* How commands use a value around the peak. Buffers tell less: others may lie there later. */
struct use {
    bool before, after; /* at the peak counts as both */
    bool early_after;   /* the forward pass, at the peak or after it */
    bool late_before;   /* the backward pass, at the peak or before it */
};

static struct use use_of(const struct remat_program *program, uint32_t value)
{
    const struct remat_buffer *buffer = &program->buffers[program->values[value].buffer];
    struct use use = {0};
    for (uint32_t c = buffer->begin; c < buffer->end; c++) {
        uint8_t phase = program->commands[c].phase;
        bool early = phase == REMAT_PHASE_FORWARD || phase == REMAT_PHASE_LOSS;
        if (!reads_or_writes(program, c, value))
            continue;
        use.before |= c <= program->peak_command;
        use.after |= c >= program->peak_command;
        use.early_after |= early && c >= program->peak_command;
        use.late_before |= !early && c <= program->peak_command;
    }
    return use;
}

/* True when recomputing the value does not take it away from the peak. */
static bool stays(const struct remat_program *program, const struct remat_decision_record *record)
{
    for (uint32_t v = 0; v < program->value_count; v++) {
        if (!names_value(program, v, record->name))
            continue;
        struct use use = use_of(program, v);
        if (use.before && use.after &&
            (program->values[v].instance > 0 || use.early_after || use.late_before))
            return true;
    }
    return false;
}

static uint64_t bytes_at_peak(const struct remat_decision_record *record, bool live)
{
    return live ? remat_aligned_bytes(record->bytes) : 0;
}

static bool lives_when_saved(const struct remat_program *program,
                             const struct remat_decision_record *record)
{
    return record->saved_begin <= program->peak_command &&
           program->peak_command < record->saved_end;
}

/* --- residents --- */

static bool is_in_use(const struct remat_program *program, uint32_t buffer)
{
    const struct remat_command *binding = &program->commands[program->peak_command];
    for (uint32_t o = binding->operand_begin; o < binding->operand_end; o++) {
        const struct remat_operand *operand = &program->operands[o];
        if (program->values[operand->value].buffer == buffer)
            return true;
    }
    return false;
}

/* The value is a rank's part of what the record is about. */
static bool is_part_of(const struct remat_program_value *value,
                       const struct remat_decision_record *record)
{
    size_t length = strlen(record->name);
    return record->action == REMAT_ACTION_SHARD && value->instance == 0 &&
           strncmp(value->name, record->name, length) == 0 &&
           strcmp(value->name + length, PART) == 0;
}

const struct remat_decision_record *dump_find_record(const struct remat_program *program,
                                                     uint32_t value)
{
    const struct remat_program_value *info = &program->values[value];
    for (uint32_t d = 0; d < program->decision_count && info->instance == 0; d++) {
        const struct remat_decision_record *record = &program->decisions[d];
        if (is_part_of(info, record) || names_value(program, value, record->name))
            return record;
    }
    return NULL;
}

struct dump_removal dump_removal(const struct remat_program *program, uint32_t buffer,
                                 uint32_t value)
{
    if (program->buffers[buffer].persistent)
        return (struct dump_removal){"persistent", 0};
    if (is_in_use(program, buffer))
        return (struct dump_removal){"in use", 0};
    const struct remat_decision_record *record =
        value == REMAT_NONE ? NULL : dump_find_record(program, value);
    if (record && strncmp(record->reason, "pin ", 4) == 0)
        return (struct dump_removal){"pinned", 0};
    if (!record || !record->recomputable || stays(program, record))
        return (struct dump_removal){"needed", 0};
    return (struct dump_removal){"recompute", record->recompute_extra_ns};
}

const char *dump_estimated(const struct remat_program *program)
{
    return program->exact_extras ? "" : ", estimated";
}

/* --- --why --- */

struct cli_buffer dump_added_time(int64_t ns)
{
    struct cli_buffer out = cli_time(ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns);
    memmove(out.text + 1, out.text, sizeof out.text - 1);
    out.text[0] = ns < 0 ? '-' : '+';
    out.text[sizeof out.text - 1] = 0;
    return out;
}

/* By the value's name, or by that of the part that is saved of it. */
static bool matches(const struct remat_decision_record *record, const char *glob)
{
    size_t length = strlen(record->name), rest = strlen(glob);
    bool part = record->action == REMAT_ACTION_SHARD && rest == length + strlen(PART) &&
                strncmp(glob, record->name, length) == 0 && strcmp(glob + length, PART) == 0;
    return part || fnmatch(glob, record->name, 0) == 0;
}

static remat_status check_glob(remat_context *ctx, const struct remat_program *program,
                               const char *glob)
{
    for (uint32_t d = 0; d < program->decision_count; d++)
        if (matches(&program->decisions[d], glob))
            return REMAT_OK;
    return remat_error(ctx, REMAT_ERROR_USAGE,
                       "--why \"%s\": no decision about a value of that name; --decisions lists "
                       "them all",
                       glob);
}

static void print_transfer(const struct remat_program *program, const struct transfer *transfer,
                           struct remat_text *out)
{
    const struct remat_command *command = &program->commands[transfer->command];
    remat_text_append(
        out, "  transfer    %s of %s along %s: %s, rank 0 sends %s; asked for by %s\n",
        remat_kernel_kind_name(program->kernels[command->kernel].kind),
        program->values[transfer->shape.from->value].name,
        program->mesh[transfer->shape.group].name, cli_time(command->estimated_ns).text,
        cli_short(remat_transfer_sent(&transfer->shape, 0)).text, command->scope);
}

/* Of a value that is saved as a shard: this rank's part; NULL: it is not. */
static const struct remat_buffer *find_part(const struct remat_program *program,
                                            const struct remat_decision_record *record)
{
    for (uint32_t v = 0; v < program->value_count; v++)
        if (is_part_of(&program->values[v], record))
            return &program->buffers[program->values[v].buffer];
    return NULL;
}

/* If it is or were saved as a shard; it lives about as long as the value would. */
static uint64_t shard_bytes_at_peak(const struct remat_program *program,
                                    const struct remat_decision_record *record)
{
    const struct remat_buffer *part = find_part(program, record);
    bool lives = part ? part->begin <= program->peak_command && program->peak_command < part->end
                      : lives_when_saved(program, record);
    return lives ? remat_aligned_bytes(record->shard_bytes) : 0;
}

static void print_record(const struct remat_program *program, const struct transfers *transfers,
                         const struct remat_decision_record *record, struct remat_text *out)
{
    bool again = stays(program, record);
    const struct transfer *transfer = transfers_about(program, transfers, record);
    remat_text_append(out, "\n%s: %s, %s (%s)\n", record->name, cli_short(record->bytes).text,
                      remat_action_name(record->action), record->reason);
    remat_text_append(out, "  saved       %s at the binding command; ",
                      cli_short(bytes_at_peak(record, lives_when_saved(program, record))).text);
    if (record->saved_begin < record->saved_end)
        remat_text_append(out, "lives from command %" PRIu32 " to %" PRIu32 "\n",
                          record->saved_begin, record->saved_end - 1);
    else
        remat_text_append(out, "lives through no command\n");
    if (!record->recomputable)
        remat_text_append(out, "  recomputed  not possible\n");
    else
        remat_text_append(out, "  recomputed  %s at the binding command; %s a step%s\n",
                          cli_short(bytes_at_peak(record, again)).text,
                          dump_added_time(record->recompute_extra_ns).text,
                          dump_estimated(program));
    if (record->shard_bytes)
        remat_text_append(out,
                          "  shard       %s at the binding command; sliced and gathered in %s a "
                          "step\n",
                          cli_short(shard_bytes_at_peak(program, record)).text,
                          cli_time(record->shard_ns).text);
    if (transfer)
        print_transfer(program, transfer, out);
}

remat_status dump_why_text(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_program *program, const char *of,
                           struct remat_text *out)
{
    remat_status st = REMAT_OK;
    struct transfers transfers = {0};
    REMAT_TRY(check_glob(ctx, program, of));
    REMAT_TRY(transfers_find(arena, program, &transfers));
    const struct remat_command *binding = &program->commands[program->peak_command];
    remat_text_append(out, "binding command %" PRIu32 " \"%s\" (%s), live %s\n",
                      program->peak_command, binding->name, remat_phase_name(binding->phase),
                      cli_exact(program->peak_bytes).text);
    for (uint32_t d = 0; d < program->decision_count; d++)
        if (matches(&program->decisions[d], of))
            print_record(program, &transfers, &program->decisions[d], out);
fail:
    return st;
}

remat_status dump_why_json(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_program *program, const char *of,
                           struct dump_json *out)
{
    remat_status st = REMAT_OK;
    struct transfers transfers = {0};
    REMAT_TRY(check_glob(ctx, program, of));
    REMAT_TRY(transfers_find(arena, program, &transfers));
    json_t *why = json_array();
    for (uint32_t d = 0; d < program->decision_count; d++) {
        const struct remat_decision_record *record = &program->decisions[d];
        if (!matches(record, of))
            continue;
        json_t *object = dump_decision(record);
        const struct transfer *transfer = transfers_about(program, &transfers, record);
        if (transfer &&
            json_object_set_new(object, "transfer", transfer_json(program, transfer)) != 0)
            out->failed = true;
        if (json_object_set_new(
                object, "peak_bytes_saved",
                dump_bytes(bytes_at_peak(record, lives_when_saved(program, record)))) != 0 ||
            json_object_set_new(object, "peak_bytes_recomputed",
                                dump_bytes(bytes_at_peak(record, stays(program, record)))) != 0)
            out->failed = true;
        if (record->shard_bytes &&
            (json_object_set_new(object, "peak_bytes_shard",
                                 dump_bytes(shard_bytes_at_peak(program, record))) != 0 ||
             json_object_set_new(object, "shard_ns", dump_bytes(record->shard_ns)) != 0))
            out->failed = true;
        dump_push(out, why, object);
    }
    dump_set(out, "peak_bytes", dump_bytes(program->peak_bytes));
    dump_set(out, "peak_command", dump_bytes(program->peak_command));
    dump_set(out, "exact", json_boolean(program->exact_extras));
    dump_set(out, "why", why);
fail:
    return st;
}
