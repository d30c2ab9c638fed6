/* SPDX-License-Identifier: Apache-2.0 */
/* --why: what saving and recomputing would each cost. */
#include "why.h"

#include "layer_transfers.h"
#include "views.h"

#include <fnmatch.h>
#include <inttypes.h>

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

const char *dump_estimated(const struct remat_program *program)
{
    return program->exact_extras ? "" : ", estimated";
}

struct remat_unit_text dump_added_time(int64_t ns)
{
    struct remat_unit_text out = remat_time_text(ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns);
    memmove(out.text + 1, out.text, sizeof out.text - 1);
    out.text[0] = ns < 0 ? '-' : '+';
    out.text[sizeof out.text - 1] = 0;
    return out;
}

/* By the value's name, or by that of what is kept of it. */
static bool matches(const struct remat_decision_record *record, const char *glob)
{
    return dump_names_kept(record, glob) || fnmatch(glob, record->name, 0) == 0;
}

/* Finds by decision whether a glob matches it; each matches some. */
static remat_status choose(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_program *program, const struct dump_asked *asked,
                           bool **out)
{
    remat_status st = REMAT_OK;
    REMAT_TRY_NEW(arena, *out, program->decision_count);
    for (uint32_t d = 0; d < program->decision_count; d++)
        (*out)[d] = asked->glob_count == 0;
    for (uint32_t g = 0; g < asked->glob_count; g++) {
        bool any = false;
        for (uint32_t d = 0; d < program->decision_count; d++) {
            bool matched = matches(&program->decisions[d], asked->globs[g]);
            (*out)[d] |= matched;
            any |= matched;
        }
        if (!any)
            REMAT_FAIL(ctx, REMAT_ERROR_USAGE,
                       "no decision about a value \"%s\"; remat-dump --decisions lists them all",
                       asked->globs[g]);
    }
fail:
    return st;
}

static void print_transfer(const struct remat_program *program, const struct transfer *transfer,
                           struct remat_text *out)
{
    const struct remat_command *command = &program->commands[transfer->command];
    remat_text_append(
        out, "  transfer    %s of %s along %s: %s, rank 0 sends %s; asked for by %s\n",
        remat_kernel_kind_name(program->kernels[command->kernel].kind),
        program->values[transfer->shape.from->value].name,
        program->mesh[transfer->shape.group].name, remat_time_text(command->estimated_ns).text,
        remat_short_text(remat_transfer_sent(&transfer->shape, 0)).text, command->scope);
}

/* If it is or were kept so; `kept`, where it is, else it lives about as long as the value would. */
static uint64_t kept_bytes_at_peak(const struct remat_program *program,
                                   const struct remat_keep_record *keep, uint32_t kept)
{
    const struct remat_decision_record *record = &program->decisions[keep->decision];
    bool lives = lives_when_saved(program, record);
    if (record->action == keep->action && kept != REMAT_NONE) {
        const struct remat_buffer *buffer = &program->buffers[program->values[kept].buffer];
        lives = buffer->begin <= program->peak_command && program->peak_command < buffer->end;
    }
    return lives ? remat_aligned_bytes(keep->bytes) : 0;
}

/* From `k` on, the next way to keep the value of decision d; keep_count: none. */
static uint32_t next_keep(const struct remat_program *program, uint32_t k, uint32_t d)
{
    while (k < program->keep_count && program->keeps[k].decision != d)
        k++;
    return k;
}

static void print_record(const struct remat_program *program, const struct dump_decided *decided,
                         const struct transfers *transfers, uint32_t d, struct remat_text *out)
{
    const struct remat_decision_record *record = &program->decisions[d];
    remat_text_append(out, "\n%s: %s, %s (%s)\n", record->name,
                      remat_short_text(record->bytes).text, remat_action_name(record->action),
                      record->reason);
    remat_text_append(
        out, "  saved       %s at the binding command; ",
        remat_short_text(bytes_at_peak(record, lives_when_saved(program, record))).text);
    if (record->saved_begin < record->saved_end)
        remat_text_append(out, "lives from command %" PRIu32 " to %" PRIu32 "\n",
                          record->saved_begin, record->saved_end - 1);
    else
        remat_text_append(out, "lives through no command\n");
    if (!record->recomputable)
        remat_text_append(out, "  recomputed  not possible\n");
    else
        remat_text_append(out, "  recomputed  %s at the binding command; %s a step%s\n",
                          remat_short_text(bytes_at_peak(record, decided->stays[d])).text,
                          dump_added_time(record->recompute_extra_ns).text,
                          dump_estimated(program));
    for (uint32_t k = next_keep(program, 0, d); k < program->keep_count;
         k = next_keep(program, k + 1, d))
        remat_text_append(
            out, "  %-12s%s at the binding command; %s in %s a step\n",
            remat_action_name(program->keeps[k].action),
            remat_short_text(kept_bytes_at_peak(program, &program->keeps[k], decided->kept[d]))
                .text,
            remat_keep_words[program->keeps[k].action].done,
            remat_time_text(program->keeps[k].ns).text);
    if (transfers->about[d] != REMAT_NONE)
        print_transfer(program, &transfers->items[transfers->about[d]], out);
}

remat_status dump_why_text(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_program *program, const struct dump_asked *asked,
                           struct remat_text *out)
{
    remat_status st = REMAT_OK;
    struct dump_decided decided;
    struct transfers transfers = {0};
    bool *chosen;
    REMAT_TRY(choose(ctx, arena, program, asked, &chosen));
    REMAT_TRY(dump_decided(arena, program, program->peak_command, &decided));
    REMAT_TRY(transfers_find(arena, program, decided.decision, &transfers));
    const struct remat_command *binding = &program->commands[program->peak_command];
    remat_text_append(out, "binding command %" PRIu32 " \"%s\" (%s), live %s\n",
                      program->peak_command, binding->name, remat_phase_name(binding->phase),
                      remat_exact_text(program->peak_bytes).text);
    for (uint32_t d = 0; d < program->decision_count; d++)
        if (chosen[d])
            print_record(program, &decided, &transfers, d, out);
fail:
    return st;
}

static void set_keep(const struct remat_program *program, uint32_t k, uint32_t kept, json_t *object,
                     struct dump_json *out)
{
    const struct remat_keep_record *keep = &program->keeps[k];
    const char *name = remat_action_name(keep->action);
    char peak_key[64], ns_key[64];
    snprintf(peak_key, sizeof peak_key, "peak_bytes_%s", name);
    snprintf(ns_key, sizeof ns_key, "%s_ns", name);
    if (json_object_set_new(object, peak_key,
                            dump_bytes(kept_bytes_at_peak(program, keep, kept))) != 0 ||
        json_object_set_new(object, ns_key, dump_bytes(keep->ns)) != 0)
        out->failed = true;
}

remat_status dump_why_json(remat_context *ctx, struct remat_arena *arena,
                           const struct remat_program *program, const struct dump_asked *asked,
                           struct dump_json *out)
{
    remat_status st = REMAT_OK;
    struct dump_decided decided;
    struct transfers transfers = {0};
    bool *chosen;
    REMAT_TRY(choose(ctx, arena, program, asked, &chosen));
    REMAT_TRY(dump_decided(arena, program, program->peak_command, &decided));
    REMAT_TRY(transfers_find(arena, program, decided.decision, &transfers));
    json_t *why = json_array();
    for (uint32_t d = 0; d < program->decision_count; d++) {
        const struct remat_decision_record *record = &program->decisions[d];
        if (!chosen[d])
            continue;
        json_t *object = dump_decision(record);
        uint32_t t = transfers.about[d];
        if (t != REMAT_NONE &&
            json_object_set_new(object, "transfer", transfer_json(program, &transfers.items[t])) !=
                0)
            out->failed = true;
        if (json_object_set_new(
                object, "peak_bytes_saved",
                dump_bytes(bytes_at_peak(record, lives_when_saved(program, record)))) != 0 ||
            json_object_set_new(object, "peak_bytes_recomputed",
                                dump_bytes(bytes_at_peak(record, decided.stays[d]))) != 0)
            out->failed = true;
        for (uint32_t k = next_keep(program, 0, d); k < program->keep_count;
             k = next_keep(program, k + 1, d))
            set_keep(program, k, decided.kept[d], object, out);
        dump_push(out, why, object);
    }
    dump_set(out, "peak_bytes", dump_bytes(program->peak_bytes));
    dump_set(out, "peak_command", dump_bytes(program->peak_command));
    dump_set(out, "exact", json_boolean(program->exact_extras));
    dump_set(out, "why", why);
fail:
    return st;
}
