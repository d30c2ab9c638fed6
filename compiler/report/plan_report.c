/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_report.h"

#include "plan_lines.h"
#include "plan_report_divisions.h"
#include "plan_report_parts.h"
#include "profile.h"

#include <inttypes.h>

void remat_report_peak(const struct remat_program *program, uint64_t parts[REMAT_ARENA_PARTS])
{
    memset(parts, 0, REMAT_ARENA_PARTS * sizeof *parts);
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        const struct remat_buffer *buffer = &program->buffers[b];
        bool live = buffer->begin <= program->peak_command && program->peak_command < buffer->end;
        if (buffer->persistent)
            parts[REMAT_ARENA_STATIC] += remat_aligned_bytes(buffer->bytes);
        else if (live)
            parts[REMAT_ARENA_ACTIVATIONS] += remat_aligned_bytes(buffer->bytes);
    }
    for (uint32_t v = 0; v < program->value_count; v++) {
        const struct remat_program_value *value = &program->values[v];
        const struct remat_buffer *buffer = &program->buffers[value->buffer];
        bool live = buffer->begin <= program->peak_command && program->peak_command < buffer->end;
        uint64_t bytes = remat_aligned_bytes(buffer->bytes);
        if (live && !buffer->persistent && value->role == REMAT_ROLE_GRADIENT &&
            bytes <= parts[REMAT_ARENA_ACTIVATIONS]) {
            parts[REMAT_ARENA_GRADIENTS] += bytes;
            parts[REMAT_ARENA_ACTIVATIONS] -= bytes;
        }
    }
}

/* "0-5" after what came before it */
static void print_range(bool first, uint32_t begin, uint32_t end, struct remat_text *out)
{
    remat_text_append(out, "%s%" PRIu32, first ? "" : ", ", begin);
    if (end > begin + 1)
        remat_text_append(out, "-%" PRIu32, end - 1);
}

/* "2 of 12 recomputed: 0-1; 5 in part: 2-5, 8": whole ones, and those of which a part is. */
static void print_layers(const struct remat_report *report, enum remat_layer_extent extent,
                         struct remat_text *out)
{
    const struct remat_program *p = report->program;
    const uint8_t *extents = report->layer_extents;
    uint32_t count = 0;
    for (uint32_t layer = 0; layer < p->layer_count; layer++)
        count += extents[layer] == extent;
    if (extent == REMAT_LAYER_WHOLE)
        remat_text_append(out, "layers       %" PRIu32 " of %" PRIu32 " recomputed", count,
                          p->layer_count);
    else if (count)
        remat_text_append(out, "; %" PRIu32 " in part", count);
    for (uint32_t layer = 0, end, shown = 0; count && layer < p->layer_count; layer = end) {
        for (end = layer; end < p->layer_count && extents[end] == extent;)
            end++;
        if (end > layer) {
            remat_text_append(out, "%s", shown++ ? "" : ": ");
            print_range(shown == 1, layer, end, out);
        } else
            end++;
    }
}

/* What the policy chose; pins may leave another choice. */
static void print_chosen(const struct remat_policy *policy, struct remat_text *out)
{
    bool first = true;
    for (uint32_t layer = 0, end; layer < policy->layer_count; layer = end) {
        for (end = layer; end < policy->layer_count && policy->recomputed[end];)
            end++;
        if (end > layer) {
            remat_text_append(out, "%s", first ? " (layers " : "");
            print_range(first, layer, end, out);
            first = false;
        } else
            end++;
    }
    remat_text_append(out, "%s, pins applied", first ? "" : ")");
}

uint32_t remat_report_microbatches(const struct remat_program *p)
{
    const struct remat_call *step = remat_program_step_call(p);
    return step ? step->times : 1;
}

struct remat_throughput remat_report_throughput(const struct remat_program *p)
{
    return remat_throughput_of(p->tokens, remat_program_ranks(p), p->model_ns, p->step_ns);
}

static void print_throughput(const struct remat_program *p, struct remat_text *out)
{
    struct remat_throughput throughput = remat_report_throughput(p);
    bool on_gpu = p->target_arch && *p->target_arch;
    struct remat_unit_text text =
        remat_throughput_text(&throughput, remat_program_ranks(p), on_gpu ? "GPU" : "rank");
    if (*text.text)
        remat_text_append(out, "throughput   %s\n", text.text);
}

static void print_memory(const struct remat_program *p, struct remat_text *out)
{
    uint64_t parts[REMAT_ARENA_PARTS];
    remat_report_peak(p, parts);
    if (p->budget_bytes) {
        remat_text_append(out, "budget       %s = %s\n", remat_brief_text(p->budget_bytes).text,
                          remat_exact_text(p->budget_bytes).text);
        remat_text_append(out, "reserve      %s\n", remat_exact_text(p->reserve_bytes).text);
        remat_text_append(out, "available    %s = budget - reserve\n",
                          remat_exact_text(p->budget_bytes - p->reserve_bytes).text);
    } else {
        remat_text_append(out, "budget       none\nreserve      %s\n",
                          remat_exact_text(p->reserve_bytes).text);
    }
    remat_text_append(out, "arena        %s\n", remat_exact_text(p->arena_bytes).text);
    remat_text_append(out, "live peak    %s at command %" PRIu32 " \"",
                      remat_exact_text(p->peak_bytes).text, p->peak_command);
    if (p->peak_command < p->command_count)
        remat_text_show(out, p->commands[p->peak_command].name);
    remat_text_append(out, "\"\n");
    remat_text_append(out, "  persistent   %s", remat_exact_text(p->static_bytes).text);
    if (p->workspace_bytes)
        remat_text_append(out, ", of it workspace %s", remat_exact_text(p->workspace_bytes).text);
    remat_text_append(out, "\n");
    remat_text_append(out, "  gradients    %s\n",
                      remat_exact_text(parts[REMAT_ARENA_GRADIENTS]).text);
    remat_text_append(out, "  activations  %s\n",
                      remat_exact_text(parts[REMAT_ARENA_ACTIVATIONS]).text);
}

/* "14", "3.5": at most two digits after the point */
static void print_each(uint64_t bytes, uint64_t count, struct remat_text *out)
{
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%.2f", (double)bytes / (double)count);
    while (digits[length - 1] == '0')
        length--;
    remat_text_append(out, "%.*s", digits[length - 1] == '.' ? length - 1 : length, digits);
}

/* Bytes that a rank keeps of each parameter. */
static void print_parameters(const struct remat_static_parts *parts, struct remat_text *out)
{
    uint64_t bytes = 0;
    for (int k = REMAT_PART_WEIGHTS; k < REMAT_PART_FROZEN; k++)
        bytes += parts->bytes[k];
    if (parts->trained) {
        remat_text_append(out, "trained      %s parameters of ",
                          remat_count_text(parts->trained).text);
        print_each(bytes, parts->trained, out);
        for (int k = REMAT_PART_WEIGHTS; k < REMAT_PART_FROZEN; k++)
            if (parts->bytes[k]) {
                remat_text_append(out, "%s%s ", k == REMAT_PART_WEIGHTS ? " B: " : ", ",
                                  remat_static_part_name(k));
                print_each(parts->bytes[k], parts->trained, out);
            }
        remat_text_append(out, "\n");
    }
    if (parts->frozen) {
        remat_text_append(out, "frozen       %s parameters of ",
                          remat_count_text(parts->frozen).text);
        print_each(parts->bytes[REMAT_PART_FROZEN], parts->frozen, out);
        remat_text_append(out, " B\n");
    }
}

/* A line of prose, or the end of one. */
static void print_text(const char *label, const char *text, struct remat_text *out)
{
    bool begins = out->count == 0 || out->items[out->count - 1] == '\n';
    remat_text_append(out, "%s%s", begins ? REMAT_PROSE : "", label);
    remat_text_show(out, text);
    remat_text_append(out, "\n");
}

static void print_costs(const struct remat_report *report, struct remat_text *out)
{
    print_text("costs        ", report->costs, out);
}

/* REMAT_ERROR_MEMORY leaves the line out: it is no figure of the plan. */
static void print_advice(const struct remat_report *report, struct remat_text *out)
{
    for (size_t i = 0; i < report->advices.count; i++) {
        const struct remat_advice *advice = &report->advices.items[i];
        remat_text_append(out, REMAT_PROSE "advice       %s\n", advice->text);
    }
}

static void print_curve(const struct remat_report *report, struct remat_text *out)
{
    const struct remat_front *f = report->front;
    remat_text_append(
        out, "curve        %" PRIu32 " points, from %" PRIu32 " of %" PRIu32 " decisions%s",
        f->count, f->evaluated_count, f->decision_count, f->cut_short ? " (cut short)" : "");
    print_text(": ", report->curve_path, out);
}

static void print_manuals(const char *lines, struct remat_text *out)
{
    for (size_t length; *lines; lines += length + 1) {
        length = strcspn(lines, "\n");
        remat_text_append(out, REMAT_PROSE "%.*s\n", (int)length, lines);
    }
}

static void print_plan(const struct remat_report *report, struct remat_text *out)
{
    const struct remat_program *p = report->program;
    remat_text_append(out, "model        ");
    remat_text_show(out, p->graph_name);
    remat_text_append(out, ", %" PRIu32 " layers", p->layer_count);
    print_text(", for ", p->target, out);
    if (p->plan_only && *p->plan_only)
        print_text("plan only    ", p->plan_only, out);
    print_parameters(&report->parts, out);
    print_memory(p, out);
    remat_text_append(out, "policy       ");
    remat_text_show(out, p->policy);
    if (report->chosen)
        print_chosen(report->chosen, out);
    remat_text_append(out, "\n");
    print_manuals(report->manuals, out);
    print_layers(report, REMAT_LAYER_WHOLE, out);
    print_layers(report, REMAT_LAYER_IN_PART, out);
    remat_text_append(out, "\nvalues       %" PRIu32 " of %" PRIu32 " recomputed",
                      remat_program_recomputed(p), p->decision_count);
    if (remat_program_count(p, REMAT_ACTION_INLINE))
        remat_text_append(out, ", %" PRIu32 " of them inline",
                          remat_program_count(p, REMAT_ACTION_INLINE));
    if (remat_program_twice(p))
        remat_text_append(out, ", %" PRIu32 " of them twice", remat_program_twice(p));
    for (uint32_t a = 0; a < REMAT_ACTION_COUNT; a++)
        if (remat_keep_words[a].done && remat_program_count(p, a))
            remat_text_append(out, "; %" PRIu32 " %s", remat_program_count(p, a),
                              remat_keep_words[a].words);
    remat_text_append(out, "\n");
    remat_text_append(out, "step         %s predicted, %+.2f %% over everything saved (%s)",
                      remat_time_text(p->step_ns).text,
                      remat_percent_longer(p->step_ns, p->base_step_ns, 2),
                      remat_time_text(p->base_step_ns).text);
    if (remat_report_microbatches(p) > 1)
        remat_text_append(out, ", %" PRIu32 " microbatches", remat_report_microbatches(p));
    remat_text_append(out, "\n");
    print_throughput(p, out);
    mesh_print(p, 13, out);
    print_costs(report, out);
    if (*report->certificate)
        remat_text_append(out, REMAT_PROSE "certificate  %s\n", report->certificate);
    for (uint32_t i = 0; i < p->note_count; i++)
        print_text("note: ", p->notes[i], out);
    print_advice(report, out);
    if (p->foreign)
        print_text("plan         none, for it cannot run: a foreign node is ", p->foreign, out);
    else
        print_text("plan         ", report->path, out);
}

/* "others are slower: 1-5, 9" */
static void print_size_ranges(const char *what, const struct remat_size_ranges *ranges,
                              struct remat_text *out)
{
    for (size_t i = 0; i < ranges->count; i++) {
        const struct remat_size_range *range = &ranges->items[i];
        remat_text_append(out, "%s%" PRIu32, i ? ", " : what, range->low);
        if (range->high > range->low)
            remat_text_append(out, "-%" PRIu32, range->high);
    }
    if (ranges->count)
        remat_text_append(out, "\n");
}

/* Of the column of plans: lists of ops have long names. */
static int plan_width(const struct remat_sizes *s)
{
    size_t width = 20;
    for (uint32_t t = 0; t < s->trial_count; t++)
        if (!s->trials[t].bounded && s->trials[t].fits && strlen(s->trials[t].policy) > width)
            width = strlen(s->trials[t].policy);
    return (int)width;
}

static void print_size_rows(const struct remat_sizes *s, struct remat_text *out)
{
    int width = plan_width(s);
    remat_text_append(out, "%10s  %-*s  %10s  %12s/s  %10s\n", s->symbol, width, "plan", "step",
                      s->unit, "peak");
    for (uint32_t t = 0; t < s->trial_count; t++) {
        const struct remat_size_trial *trial = &s->trials[t];
        if (trial->bounded)
            continue;
        remat_text_append(out, "%10" PRIu32 "  ", trial->value);
        if (!trial->fits) {
            print_text(trial->why ? "not possible: " : "does not fit", trial->why ? trial->why : "",
                       out);
            continue;
        }
        remat_text_append(out, "%-*s  %10s  ", width, trial->policy,
                          remat_time_text(trial->step_ns).text);
        remat_text_append(out, "%14s  %10s%s\n", remat_rate_text(trial->rate).text,
                          remat_short_text(trial->peak_bytes).text, t == s->best ? "  chosen" : "");
    }
}

static void print_sizes(const struct remat_sizes *s, struct remat_text *out)
{
    uint32_t tried = 0;
    char what[80];
    for (uint32_t t = 0; t < s->trial_count; t++)
        tried += !s->trials[t].bounded;
    print_size_rows(s, out);
    remat_text_append(out, "%" PRIu32 " of the %" PRIu32 " values from %" PRIu32 " to %" PRIu32,
                      tried, s->value_count, s->low, s->high);
    if (s->multiple > 1)
        remat_text_append(out, " that %" PRIu32 " divides", s->multiple);
    remat_text_append(out, " were tried%s\n", s->cut_short ? "; the search was cut short" : "");
    print_size_ranges("slower or too large, whatever is recomputed: ", &s->slower, out);
    print_size_ranges("not tried: ", &s->untried, out);
    snprintf(what, sizeof what, "not tried, as %" PRIu32 " is not possible: ", s->impossible);
    print_size_ranges(what, &s->below, out);
    snprintf(what, sizeof what, "not tried, as %" PRIu32 " %s: ", s->end,
             s->end_is_possible ? "does not fit" : "is not possible");
    print_size_ranges(what, &s->above, out);
    if (s->ranks > 1)
        remat_text_append(out, "%s and %s/s are of all %" PRIu32 " ranks, the peak is of one\n",
                          s->symbol, s->unit, s->ranks);
    remat_text_append(out, "\n");
}

void remat_report_text(const struct remat_report *report, struct remat_text *out)
{
    if (report->divisions)
        remat_divisions_text(report->divisions, out);
    if (report->sizes)
        print_sizes(report->sizes, out);
    if (report->program)
        print_plan(report, out);
    if (report->front)
        print_curve(report, out);
}

/* --- what it is made of --- */

remat_status remat_report_plan(struct remat_arena *arena, const struct remat_planned *planned,
                               struct remat_report *out)
{
    remat_status st = REMAT_OK;
    uint8_t *extents;
    struct remat_program *program = planned->program;
    const struct remat_device_description *device = &planned->settings.device;
    struct remat_text manuals = {.arena = arena}, certificate = manuals, costs = manuals;
    *out = (struct remat_report){.program = program,
                                 .chosen = planned->chosen,
                                 .sizes = planned->sizes,
                                 .divisions = planned->divisions};
    if (!program)
        return REMAT_OK;
    REMAT_TRY(remat_static_parts_measure(arena, program, &out->parts));
    REMAT_TRY_NEW(arena, extents, program->layer_count);
    remat_program_layer_extents(program, extents);
    out->layer_extents = extents;
    manuals_print(program, 13, &manuals);
    out->manuals = manuals.items ? manuals.items : "";
    certificate_print(program, &certificate);
    out->certificate = certificate.items ? certificate.items : "";
    costs_print(program, &costs);
    if (!device->profile)
        out->profile_beside =
            remat_profile_beside(arena, remat_asked_text(&planned->asked, "target", "cpu"), device);
    if (out->profile_beside) {
        remat_text_append(&costs, "; a measured profile: --profile ");
        remat_shell_word_append(&costs, out->profile_beside);
    }
    out->costs = costs.items ? costs.items : "";
fail:
    return st;
}
