/* SPDX-License-Identifier: Apache-2.0 */
/* --schedule: the commands in order, the segments of a step first. */
#include "dump.h"
#include "program.h"
#include "size.h"

#include <inttypes.h>

/* After a command that is a transfer. */
static void print_transfer(const struct remat_program *program, uint32_t index, uint64_t exposed_ns,
                           struct remat_text *out)
{
    struct remat_transfer_shape transfer;
    uint32_t before = program->commands[index].complete_before;
    uint32_t waits_for = program->commands[index].waits_for;
    if (!remat_command_transfer(program, index, &transfer))
        return;
    uint32_t begin = remat_group_begin(program, index), end = remat_group_end(program, index);
    remat_text_append(out, " (%s, rank 0 sends %s, %s exposed", program->mesh[transfer.group].name,
                      remat_short_text(remat_transfer_sent(&transfer, 0)).text,
                      remat_time_text(exposed_ns).text);
    if (program->commands[index].slowdown_permille)
        remat_text_append(out, ", computation takes %g %% longer meanwhile",
                          program->commands[index].slowdown_permille / 10.0);
    if (begin < index)
        remat_text_append(out, ", with command %" PRIu32, begin);
    else if (end > index + 1)
        remat_text_append(out, ", group of %" PRIu32, end - index);
    if (waits_for)
        remat_text_append(out, ", waits for command %" PRIu32 " %s", waits_for - 1,
                          program->commands[waits_for - 1].name);
    if (before > end && dump_segment_of(program, before) == dump_segment_of(program, index))
        remat_text_append(out, ", complete before command %" PRIu32 " %s", before,
                          program->commands[before].name);
    else if (before > end)
        remat_text_append(out, ", complete at the end");
    remat_text_append(out, ")");
}

static void print_command(const struct remat_program *program, uint32_t index, uint64_t exposed_ns,
                          struct remat_text *out)
{
    const struct remat_command *command = &program->commands[index];
    const struct remat_kernel *kernel = &program->kernels[command->kernel];
    char again[16] = "";
    if (command->instance)
        snprintf(again, sizeof again, " #%" PRIu32, command->instance);
    remat_text_append(out, "%5" PRIu32 "  %-9s %-18s %10s %10s  %s%s", index,
                      remat_phase_name(command->phase), remat_kernel_kind_name(kernel->kind),
                      remat_time_text(command->estimated_ns).text,
                      remat_short_text(command->live_bytes).text, command->name, again);
    print_transfer(program, index, exposed_ns, out);
    remat_text_append(out, "\n");
}

remat_status dump_order(remat_context *ctx, struct remat_arena *arena,
                        const struct remat_program *program, const char *of, struct dump_order *out)
{
    remat_status st = REMAT_OK;
    struct remat_text names = {.arena = arena};
    const struct remat_entry *step = remat_program_step(program);
    bool *known;
    REMAT_TRY_NEW(arena, known, program->segment_count);
    uint32_t first = step ? step->call_begin : 0, calls = step ? step->call_end - first : 0;
    for (uint32_t i = 0; i < calls + program->segment_count; i++) {
        uint32_t s = i < calls ? program->calls[first + i].segment : i - calls;
        const char *name = program->segments[s].name;
        if (known[s])
            continue;
        known[s] = true;
        remat_text_append(&names, "%s%s", names.count ? ", " : "", name);
        if (!of || strcmp(of, name) == 0)
            REMAT_TRY_PUSH(arena, out, s);
    }
    if (of && out->count == 0)
        st = remat_error(ctx, REMAT_ERROR_USAGE, "--segment '%s': the plan has %s", of,
                         names.items ? names.items : "no segments");
fail:
    return st;
}

/* "; runs 0 to 3 of train" of a segment that reads the number of its run. */
static void print_runs(const struct remat_program *p, uint32_t segment, struct remat_text *out)
{
    const char *before = ";";
    if (!remat_program_reads_number(p, &p->segments[segment]))
        return;
    for (uint32_t e = 0; e < p->entry_count; e++)
        for (uint32_t k = p->entries[e].call_begin; k < p->entries[e].call_end; k++) {
            const struct remat_call *call = &p->calls[k];
            if (call->segment != segment)
                continue;
            remat_text_append(out, "%s runs %" PRIu32 " to %" PRIu32 " of %s", before, call->first,
                              call->first + call->times - 1, p->entries[e].name);
            before = ",";
        }
}

bool dump_is_among(const struct remat_program *program, const struct dump_order *order,
                   uint32_t command)
{
    bool among = false;
    for (size_t i = 0; i < order->count; i++) {
        const struct remat_segment *segment = &program->segments[order->items[i]];
        among |= command >= segment->command_begin && command < segment->command_end;
    }
    return among;
}

remat_status dump_schedule_text(remat_context *ctx, struct remat_arena *arena,
                                const struct remat_program *program, const struct dump_asked *asked,
                                struct remat_text *out)
{
    remat_status st = REMAT_OK;
    uint64_t *exposed_ns;
    struct dump_order order = {0};
    REMAT_TRY(dump_order(ctx, arena, program, asked->segment, &order));
    REMAT_TRY_NEW(arena, exposed_ns, program->command_count);
    for (size_t i = 0; i < order.count; i++) {
        const struct remat_segment *segment = &program->segments[order.items[i]];
        REMAT_TRY(remat_program_exposed(program, segment, arena, exposed_ns));
        remat_text_append(out, "%ssegment %s, %" PRIu32 " commands", i ? "\n" : "", segment->name,
                          segment->command_end - segment->command_begin);
        print_runs(program, order.items[i], out);
        remat_text_append(out, "\n");
        remat_text_append(out, "%5s  %-9s %-18s %10s %10s  %s\n", "index", "phase", "kernel",
                          "predicted", "live",
                          "computes (#1, #2: recomputed in round 1; #3, #4: 2)");
        for (uint32_t c = segment->command_begin; c < segment->command_end; c++)
            print_command(program, c, exposed_ns[c], out);
    }
fail:
    return st;
}

static json_t *make_operands(const struct remat_program *program,
                             const struct remat_command *command, struct dump_json *out)
{
    static const char *const names[] = {"", "read", "write", "update"};
    json_t *operands = json_array();
    for (uint32_t o = command->operand_begin; o < command->operand_end; o++) {
        const struct remat_operand *operand = &program->operands[o];
        const struct remat_program_value *value = &program->values[operand->value];
        dump_push(out, operands,
                  json_pack("{s:s,s:I,s:I,s:s}", "value", value->name, "instance",
                            (json_int_t)value->instance, "buffer", (json_int_t)value->buffer,
                            "access", names[operand->access & 3]));
    }
    return operands;
}

static json_t *make_command(const struct remat_program *program, uint32_t index,
                            uint64_t exposed_ns, struct dump_json *out)
{
    const struct remat_command *c = &program->commands[index];
    uint32_t segment = dump_segment_of(program, index);
    json_t *command = json_pack(
        "{s:I,s:s,s:s,s:s,s:s,s:I,s:I,s:s,s:s,s:I,s:I,s:I,s:I,s:o}", "index", (json_int_t)index,
        "segment", segment == REMAT_NONE ? "" : program->segments[segment].name, "phase",
        remat_phase_name(c->phase), "name", c->name, "scope", c->scope, "layer",
        (json_int_t)c->layer, "instance", (json_int_t)c->instance, "kind",
        remat_kernel_kind_name(program->kernels[c->kernel].kind), "key",
        program->kernels[c->kernel].key, "estimated_ns", (json_int_t)c->estimated_ns, "live_bytes",
        (json_int_t)c->live_bytes, "flops", (json_int_t)c->flops, "moved_bytes",
        (json_int_t)c->moved_bytes, "operands", make_operands(program, c, out));
    struct remat_transfer_shape transfer;
    if (!remat_command_transfer(program, index, &transfer))
        return command;
    json_t *moved = json_pack(
        "{s:s,s:I,s:I,s:I,s:I,s:I}", "axis", program->mesh[transfer.group].name, "whole_bytes",
        (json_int_t)transfer.whole_bytes, "part_bytes", (json_int_t)transfer.part_bytes,
        "sent_bytes", (json_int_t)remat_transfer_sent(&transfer, 0), "exposed_ns",
        (json_int_t)exposed_ns, "group", (json_int_t)remat_group_begin(program, index));
    if (c->complete_before > remat_group_end(program, index) &&
        json_object_set_new(moved, "complete_before", json_integer(c->complete_before)) != 0)
        out->failed = true;
    if (c->waits_for &&
        json_object_set_new(moved, "waits_for", json_integer(c->waits_for - 1)) != 0)
        out->failed = true;
    if (c->slowdown_permille &&
        json_object_set_new(moved, "slowdown_permille", json_integer(c->slowdown_permille)) != 0)
        out->failed = true;
    if (json_object_set_new(command, "transfer", moved) != 0)
        out->failed = true;
    return command;
}

/* Of the segments that read the number of their run. */
static json_t *make_calls(const struct remat_program *p, struct dump_json *out)
{
    json_t *calls = json_array();
    for (uint32_t e = 0; e < p->entry_count; e++)
        for (uint32_t k = p->entries[e].call_begin; k < p->entries[e].call_end; k++) {
            const struct remat_call *call = &p->calls[k];
            const struct remat_segment *segment = &p->segments[call->segment];
            if (remat_program_reads_number(p, segment))
                dump_push(out, calls,
                          json_pack("{s:s,s:s,s:I,s:I}", "entry", p->entries[e].name, "segment",
                                    segment->name, "first_run", (json_int_t)call->first, "times",
                                    (json_int_t)call->times));
        }
    return calls;
}

remat_status dump_schedule_json(remat_context *ctx, struct remat_arena *arena,
                                const struct remat_program *program, const struct dump_asked *asked,
                                struct dump_json *out)
{
    remat_status st = REMAT_OK;
    uint64_t *exposed_ns;
    struct dump_order order = {0};
    json_t *commands = json_array();
    REMAT_TRY(dump_order(ctx, arena, program, asked->segment, &order));
    REMAT_TRY_NEW(arena, exposed_ns, program->command_count);
    for (uint32_t s = program->segment_count; s-- > 0;) /* of one in several, that in the first */
        REMAT_TRY(remat_program_exposed(program, &program->segments[s], arena, exposed_ns));
    for (uint32_t c = 0; c < program->command_count; c++)
        if (!asked->segment || dump_is_among(program, &order, c))
            dump_push(out, commands, make_command(program, c, exposed_ns[c], out));
fail:
    dump_set(out, "schedule", commands);
    if (program->number_tensor != REMAT_NONE)
        dump_set(out, "calls", make_calls(program, out));
    return st;
}
