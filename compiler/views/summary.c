/* SPDX-License-Identifier: Apache-2.0 */
/* --summary: what was asked for, what it costs, where the bytes and the time go. */
#include "buffers.h"
#include "dump.h"
#include "plan_lines.h"
#include "size.h"
#include "views.h"

#include <inttypes.h>

enum { NOTES_MAX = 16 }; /* lines of notes, so that the whole stays within a screen */

/* Time of the step by phase; recomputation counts for itself. */
struct share {
    uint32_t commands;
    uint64_t ns;
};
enum { SHARE_RECOMPUTE = REMAT_PHASE_COUNT, SHARE_COUNT };

static const char *share_name(uint32_t share)
{
    return share == SHARE_RECOMPUTE ? "recompute" : remat_phase_name(share);
}

static void sum_shares(const struct remat_program *program, struct share shares[SHARE_COUNT])
{
    const struct remat_entry *step = remat_program_step(program);
    memset(shares, 0, SHARE_COUNT * sizeof *shares);
    for (uint32_t k = step ? step->call_begin : 0; step && k < step->call_end; k++) {
        const struct remat_call *call = &program->calls[k];
        const struct remat_segment *segment = &program->segments[call->segment];
        for (uint32_t c = segment->command_begin; c < segment->command_end; c++) {
            const struct remat_command *command = &program->commands[c];
            uint32_t share = command->instance ? SHARE_RECOMPUTE : command->phase;
            shares[share].commands += call->times;
            shares[share].ns += call->times * command->estimated_ns;
        }
    }
}

static void print_budget(const struct remat_program *p, struct remat_text *out)
{
    uint64_t limit = p->budget_bytes > p->reserve_bytes ? p->budget_bytes - p->reserve_bytes : 0;
    if (p->budget_bytes) {
        remat_text_append(out, "budget      %s\n", remat_exact_text(p->budget_bytes).text);
        remat_text_append(out, "reserve     %s, which leaves %s\n",
                          remat_exact_text(p->reserve_bytes).text, remat_exact_text(limit).text);
    } else {
        remat_text_append(out, "budget      none\n");
        remat_text_append(out, "reserve     %s\n", remat_exact_text(p->reserve_bytes).text);
    }
    remat_text_append(out, "arena       %s\n", remat_exact_text(p->arena_bytes).text);
    remat_text_append(out, "live peak   %s", remat_exact_text(p->peak_bytes).text);
    if (p->peak_command < p->command_count) {
        const struct remat_command *command = &p->commands[p->peak_command];
        remat_text_append(out, " at command %" PRIu32 " \"%s\" (%s)", p->peak_command,
                          command->name, remat_phase_name(command->phase));
    }
    uint64_t gap = p->arena_bytes > p->peak_bytes ? p->arena_bytes - p->peak_bytes : 0;
    remat_text_append(out, "; the arena is %.2f %% above it\n",
                      p->peak_bytes ? 100.0 * (double)gap / (double)p->peak_bytes : 0.0);
    remat_text_append(out, "persistent  %s", remat_exact_text(p->static_bytes).text);
    if (p->workspace_bytes)
        remat_text_append(out, ", of it workspace %s", remat_exact_text(p->workspace_bytes).text);
    remat_text_append(out, "\n");
}

struct layers REMAT_LIST(uint32_t);

/* Those of one extent. */
static remat_status find_layers(struct remat_arena *arena, const struct remat_program *p,
                                enum remat_layer_extent extent, struct layers *out)
{
    remat_status st = REMAT_OK;
    uint8_t *extents;
    REMAT_TRY_NEW(arena, extents, p->layer_count);
    remat_program_layer_extents(p, extents);
    for (uint32_t layer = 0; layer < p->layer_count; layer++)
        if (extents[layer] == extent)
            REMAT_TRY_PUSH(arena, out, layer);
fail:
    return st;
}

static remat_status print_policy(struct remat_arena *arena, const struct remat_program *p,
                                 struct remat_text *out)
{
    remat_status st = REMAT_OK;
    uint32_t recomputed = remat_program_recomputed(p);
    struct layers whole = {0}, part = {0};
    REMAT_TRY(find_layers(arena, p, REMAT_LAYER_WHOLE, &whole));
    REMAT_TRY(find_layers(arena, p, REMAT_LAYER_IN_PART, &part));
    remat_text_append(out, "policy      %s\n", p->policy);
    manuals_print(p, 12, out);
    remat_text_append(out, "recomputed  %" PRIu32 " of %" PRIu32 " values", recomputed,
                      p->decision_count);
    if (remat_program_count(p, REMAT_ACTION_INLINE))
        remat_text_append(out, ", %" PRIu32 " of them inline",
                          remat_program_count(p, REMAT_ACTION_INLINE));
    if (remat_program_twice(p))
        remat_text_append(out, ", %" PRIu32 " of them twice", remat_program_twice(p));
    for (uint32_t a = 0; a < REMAT_ACTION_COUNT; a++)
        if (remat_keep_words[a].done && remat_program_count(p, a))
            remat_text_append(out, "; %" PRIu32 " %s", remat_program_count(p, a),
                              remat_keep_words[a].words);
    remat_text_append(out, "; layers %s of %" PRIu32, dump_ranges(arena, whole.items, whole.count),
                      p->layer_count);
    if (part.count)
        remat_text_append(out, ", in part %s", dump_ranges(arena, part.items, part.count));
    remat_text_append(out, "\n");
fail:
    return st;
}

static struct remat_throughput throughput_of(const struct remat_program *p)
{
    return remat_throughput_of(p->tokens, remat_program_ranks(p), p->model_ns, p->step_ns);
}

static void print_throughput(const struct remat_program *p, struct remat_text *out)
{
    struct remat_throughput throughput = throughput_of(p);
    bool on_gpu = p->target_arch && *p->target_arch;
    struct remat_unit_text text =
        remat_throughput_text(&throughput, remat_program_ranks(p), on_gpu ? "GPU" : "rank");
    if (*text.text)
        remat_text_append(out, "throughput  %s\n", text.text);
}

static void print_step(struct remat_arena *arena, const struct remat_program *p,
                       struct remat_text *out)
{
    struct remat_text certificate = {.arena = arena};
    remat_text_append(out, "step        %s predicted; %s with everything saved: overhead %.1f %%\n",
                      remat_time_text(p->step_ns).text, remat_time_text(p->base_step_ns).text,
                      remat_percent_longer(p->step_ns, p->base_step_ns, 1));
    print_throughput(p, out);
    remat_text_append(out, "costs       ");
    costs_print(p, out);
    remat_text_append(out, "\n");
    certificate_print(p, &certificate);
    if (certificate.count)
        remat_text_append(out, "certificate %s\n", certificate.items);
    remat_text_append(out, "commands   ");
    for (uint32_t s = 0; s < p->segment_count; s++)
        remat_text_append(out, "%s %s %" PRIu32, s ? "," : "", p->segments[s].name,
                          p->segments[s].command_end - p->segments[s].command_begin);
    remat_text_append(out, "; %" PRIu32 " distinct kernels\n", p->kernel_count);
    dump_cuda_summary(p, out);
}

/* "train = 4 x microbatch, update" */
static void print_scripts(const struct remat_program *p, struct remat_text *out)
{
    remat_text_append(out, "entries    ");
    for (uint32_t e = 0; e < p->entry_count; e++) {
        const struct remat_entry *entry = &p->entries[e];
        remat_text_append(out, "%s %s =", e ? ";" : "", entry->name);
        for (uint32_t k = entry->call_begin; k < entry->call_end; k++) {
            remat_text_append(out, "%s", k > entry->call_begin ? "," : "");
            if (p->calls[k].times > 1)
                remat_text_append(out, " %" PRIu32 " x", p->calls[k].times);
            remat_text_append(out, " %s", p->segments[p->calls[k].segment].name);
        }
    }
    remat_text_append(out, "\n");
}

static void print_record(const struct remat_program *p, struct remat_text *out)
{
    remat_text_append(out, "hashes      graph %016" PRIx64 ", numerics %016" PRIx64 "\n",
                      p->graph_hash, p->numerics_hash);
    remat_text_append(out, "settings   ");
    for (uint32_t i = 0; i < p->setting_count; i++)
        remat_text_append(out, " --%s%s%s", p->settings[i].name, *p->settings[i].value ? " " : "",
                          p->settings[i].value);
    remat_text_append(out, "%s", p->setting_count ? "" : " defaults");
    if (p->chosen_by && *p->chosen_by)
        remat_text_append(out, "; chosen by %s", p->chosen_by);
    remat_text_append(out, "\n");
    for (uint32_t i = 0; i < p->note_count && i < NOTES_MAX; i++)
        remat_text_append(out, "note        %s\n", p->notes[i]);
    if (p->note_count > NOTES_MAX)
        remat_text_append(out, "note        and %" PRIu32 " more, see --format json\n",
                          p->note_count - NOTES_MAX);
}

static void print_shares(const struct remat_program *p, struct remat_text *out)
{
    struct share shares[SHARE_COUNT];
    sum_shares(p, shares);
    remat_text_append(out, "\n%-20s %10s %10s\n", "step by phase", "commands", "predicted");
    for (uint32_t i = 0; i < SHARE_COUNT; i++)
        if (shares[i].commands)
            remat_text_append(out, "%-20s %10" PRIu32 " %10s\n", share_name(i), shares[i].commands,
                              remat_time_text(shares[i].ns).text);
}

static remat_status print_classes(struct remat_arena *arena, const struct remat_program *p,
                                  struct remat_text *out)
{
    uint64_t bytes[DUMP_CLASS_COUNT] = {0};
    const uint8_t *classes = dump_classify(arena, p);
    if (!classes)
        return REMAT_ERROR_MEMORY;
    for (uint32_t b = 0; b < p->buffer_count; b++)
        if (remat_buffer_is_live(&p->buffers[b], p->peak_command))
            bytes[classes[b]] += remat_aligned_bytes(p->buffers[b].bytes);
    remat_text_append(out, "\nlive at the peak\n");
    for (uint32_t i = 0; i < DUMP_CLASS_COUNT; i++)
        if (bytes[i])
            remat_text_append(out, "%-20s %10s\n", dump_class_names[i],
                              remat_short_text(bytes[i]).text);
    return REMAT_OK;
}

remat_status dump_summary_text(remat_context *ctx, struct remat_arena *arena,
                               const struct remat_program *program, const struct dump_asked *asked,
                               struct remat_text *out)
{
    (void)ctx, (void)asked;
    remat_status st = REMAT_OK;
    remat_text_append(out, "plan        %s for %s, by %s\n", program->graph_name, program->target,
                      program->producer);
    if (program->plan_only && *program->plan_only)
        remat_text_append(out, "plan only   %s\n", program->plan_only);
    REMAT_TRY(print_policy(arena, program, out));
    print_budget(program, out);
    print_step(arena, program, out);
    print_scripts(program, out);
    mesh_print(program, 12, out);
    print_record(program, out);
    print_shares(program, out);
    REMAT_TRY(print_classes(arena, program, out));
fail:
    return st;
}

static json_t *make_settings(const struct remat_program *program, struct dump_json *out)
{
    json_t *settings = json_array();
    for (uint32_t i = 0; i < program->setting_count; i++)
        dump_push(out, settings,
                  json_pack("{s:s,s:s}", "name", program->settings[i].name, "value",
                            program->settings[i].value));
    return settings;
}

static json_t *make_manuals(const struct remat_program *program, struct dump_json *out)
{
    json_t *manuals = json_array();
    for (uint32_t i = 0; i < program->manual_count; i++) {
        const struct remat_manual *m = &program->manuals[i];
        dump_push(out, manuals,
                  json_pack("{s:s,s:s,s:s,s:I}", "system", m->system, "policy", m->policy, "flags",
                            m->flags, "step_ns", (json_int_t)m->step_ns));
    }
    return manuals;
}

static json_t *make_segments(const struct remat_program *program, struct dump_json *out)
{
    json_t *segments = json_object();
    for (uint32_t i = 0; i < program->segment_count; i++) {
        const struct remat_segment *segment = &program->segments[i];
        if (json_object_set_new(segments, segment->name,
                                dump_bytes(segment->command_end - segment->command_begin)) != 0)
            out->failed = true;
    }
    return segments;
}

static json_t *make_scripts(const struct remat_program *program, struct dump_json *out)
{
    json_t *entries = json_object();
    for (uint32_t e = 0; e < program->entry_count; e++) {
        const struct remat_entry *entry = &program->entries[e];
        json_t *script = json_array();
        for (uint32_t k = entry->call_begin; k < entry->call_end; k++)
            dump_push(out, script,
                      json_pack("{s:s,s:I}", "segment",
                                program->segments[program->calls[k].segment].name, "times",
                                (json_int_t)program->calls[k].times));
        if (json_object_set_new(entries, entry->name, script) != 0)
            out->failed = true;
    }
    return entries;
}

static json_t *make_cost_shares(const struct remat_program *p, struct dump_json *out)
{
    json_t *object = json_object();
    double shares[REMAT_COST_SOURCES];
    remat_program_cost_shares(p, shares);
    for (uint32_t s = 0; s < REMAT_COST_SOURCES; s++)
        if (json_object_set_new(object, remat_cost_source_name(s), json_real(shares[s])) != 0)
            out->failed = true;
    return object;
}

/* What a plan of one rank lacks. */
static void set_mesh(const struct remat_program *p, struct dump_json *out)
{
    json_t *mesh = json_array();
    for (uint32_t k = 0; k < p->mesh_count; k++)
        dump_push(
            out, mesh,
            json_pack("{s:s,s:I}", "axis", p->mesh[k].name, "size", (json_int_t)p->mesh[k].size));
    dump_set(out, "mesh", mesh);
    dump_set(out, "ranks", dump_bytes(remat_program_ranks(p)));
    struct remat_communication all = remat_program_communication(p);
    dump_set(out, "sent_bytes", dump_bytes(all.sent_bytes));
    dump_set(out, "communication_ns", dump_bytes(all.ns));
    dump_set(out, "exposed_ns", dump_bytes(all.exposed_ns));
    if (p->depth)
        dump_set(out, "depth", dump_bytes(p->depth));
    if (p->limited_by && *p->limited_by)
        dump_set(out, "limited_by", json_string(p->limited_by));
}

static void set_throughput(const struct remat_program *p, struct dump_json *out)
{
    struct remat_throughput throughput = throughput_of(p);
    dump_set(out, "tokens", dump_bytes(p->tokens));
    dump_set(out, "tokens_per_s", json_real(throughput.tokens_per_s));
    dump_set(out, "tokens_per_s_rank", json_real(throughput.rank_tokens_per_s));
    dump_set(out, "model_flops", dump_bytes(p->model_flops));
    dump_set(out, "mfu", json_real(throughput.mfu));
}

static void set_bytes_and_times(const struct remat_program *p, struct dump_json *out)
{
    dump_set(out, "budget_bytes", dump_bytes(p->budget_bytes));
    dump_set(out, "reserve_bytes", dump_bytes(p->reserve_bytes));
    dump_set(out, "arena_bytes", dump_bytes(p->arena_bytes));
    dump_set(out, "peak_bytes", dump_bytes(p->peak_bytes));
    dump_set(out, "peak_command", dump_bytes(p->peak_command));
    dump_set(out, "static_bytes", dump_bytes(p->static_bytes));
    dump_set(out, "workspace_bytes", dump_bytes(p->workspace_bytes));
    dump_set(out, "touched_bytes", dump_bytes(p->touched_bytes));
    dump_set(out, "step_ns", dump_bytes(p->step_ns));
    dump_set(out, "base_step_ns", dump_bytes(p->base_step_ns));
    set_throughput(p, out);
    dump_set(out, "cost_shares", make_cost_shares(p, out));
    dump_set(out, "bound_step_ns", dump_bytes(p->bound_step_ns));
    dump_set(out, "floor_bytes", dump_bytes(p->floor_bytes));
    dump_set(out, "overhead",
             json_real(p->base_step_ns ? (double)p->step_ns / (double)p->base_step_ns - 1 : 0));
}

static remat_status set_layers(struct remat_arena *arena, const char *key,
                               const struct remat_program *p, enum remat_layer_extent extent,
                               struct dump_json *out)
{
    remat_status st = REMAT_OK;
    struct layers layers = {0};
    json_t *list = json_array();
    REMAT_TRY(find_layers(arena, p, extent, &layers));
    for (size_t i = 0; i < layers.count; i++)
        dump_push(out, list, dump_bytes(layers.items[i]));
fail:
    dump_set(out, key, list);
    return st;
}

remat_status dump_summary_json(remat_context *ctx, struct remat_arena *arena,
                               const struct remat_program *program, const struct dump_asked *asked,
                               struct dump_json *out)
{
    (void)ctx, (void)asked;
    remat_status st = REMAT_OK;
    const struct remat_program *p = program;
    dump_set(out, "graph", json_string(p->graph_name));
    if (p->plan_only && *p->plan_only)
        dump_set(out, "plan_only", json_string(p->plan_only));
    dump_set(out, "producer", json_string(p->producer));
    dump_set(out, "target", json_string(p->target));
    dump_set(out, "policy", json_string(p->policy));
    dump_set(out, "graph_hash", dump_hash(p->graph_hash));
    dump_set(out, "numerics_hash", dump_hash(p->numerics_hash));
    dump_set(out, "layers", dump_bytes(p->layer_count));
    REMAT_TRY(set_layers(arena, "recomputed_layers", p, REMAT_LAYER_WHOLE, out));
    REMAT_TRY(set_layers(arena, "partly_recomputed_layers", p, REMAT_LAYER_IN_PART, out));
    dump_set(out, "recomputed", dump_bytes(remat_program_recomputed(p)));
    dump_set(out, "recomputed_fused", dump_bytes(remat_program_count(p, REMAT_ACTION_INLINE)));
    dump_set(out, "recomputed_nested", dump_bytes(remat_program_twice(p)));
    for (uint32_t a = 0; a < REMAT_ACTION_COUNT; a++)
        if (remat_keep_words[a].key)
            dump_set(out, remat_keep_words[a].key, dump_bytes(remat_program_count(p, a)));
    dump_set(out, "manuals", make_manuals(p, out));
    set_bytes_and_times(p, out);
    if (p->mesh_count)
        set_mesh(p, out);
    dump_set(out, "commands", dump_bytes(p->command_count));
    dump_set(out, "segments", make_segments(p, out));
    dump_set(out, "entries", make_scripts(p, out));
    dump_set(out, "kernels", dump_bytes(p->kernel_count));
    dump_set(out, "buffers", dump_bytes(p->buffer_count));
    dump_set(out, "settings", make_settings(p, out));
    if (p->chosen_by && *p->chosen_by)
        dump_set(out, "chosen_by", json_string(p->chosen_by));
    json_t *notes = json_array();
    for (uint32_t i = 0; i < p->note_count; i++)
        dump_push(out, notes, json_string(p->notes[i]));
    dump_set(out, "notes", notes);
fail:
    return st;
}
