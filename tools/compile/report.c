/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include "cli.h"
#include "divisions_report.h"

#include "show.h"
#include "size.h"
#include "wrap.h"

#include <inttypes.h>
#include <stdlib.h>

enum arena_part { PART_STATIC, PART_GRADIENTS, PART_ACTIVATIONS, PART_COUNT };

/* Bytes live at the peak, by what they hold. The rest of a live peak is activations. */
static void measure_peak(const struct remat_program *program, uint64_t parts[PART_COUNT])
{
    memset(parts, 0, PART_COUNT * sizeof *parts);
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        const struct remat_buffer *buffer = &program->buffers[b];
        bool live = buffer->begin <= program->peak_command && program->peak_command < buffer->end;
        if (buffer->persistent)
            parts[PART_STATIC] += remat_aligned_bytes(buffer->bytes);
        else if (live)
            parts[PART_ACTIVATIONS] += remat_aligned_bytes(buffer->bytes);
    }
    for (uint32_t v = 0; v < program->value_count; v++) {
        const struct remat_program_value *value = &program->values[v];
        const struct remat_buffer *buffer = &program->buffers[value->buffer];
        bool live = buffer->begin <= program->peak_command && program->peak_command < buffer->end;
        uint64_t bytes = remat_aligned_bytes(buffer->bytes);
        if (live && !buffer->persistent && value->role == REMAT_ROLE_GRADIENT &&
            bytes <= parts[PART_ACTIVATIONS]) {
            parts[PART_GRADIENTS] += bytes;
            parts[PART_ACTIVATIONS] -= bytes;
        }
    }
}

/* "0-5" after what came before it */
static void print_range(bool first, uint32_t begin, uint32_t end)
{
    printf("%s%" PRIu32, first ? "" : ", ", begin);
    if (end > begin + 1)
        printf("-%" PRIu32, end - 1);
}

/* "2 of 12 recomputed: 0-1; 5 in part: 2-5, 8": whole ones, and those of which a part is. */
static void print_layers(const struct report *report, enum remat_layer_extent extent)
{
    const struct remat_program *p = report->program;
    const uint8_t *extents = report->layer_extents;
    uint32_t count = 0;
    for (uint32_t layer = 0; layer < p->layer_count; layer++)
        count += extents[layer] == extent;
    if (extent == REMAT_LAYER_WHOLE)
        printf("layers       %" PRIu32 " of %" PRIu32 " recomputed", count, p->layer_count);
    else if (count)
        printf("; %" PRIu32 " in part", count);
    for (uint32_t layer = 0, end, shown = 0; count && layer < p->layer_count; layer = end) {
        for (end = layer; end < p->layer_count && extents[end] == extent;)
            end++;
        if (end > layer) {
            printf("%s", shown++ ? "" : ": ");
            print_range(shown == 1, layer, end);
        } else
            end++;
    }
}

/* What the policy chose; pins may leave another choice. */
static void print_chosen(const struct remat_policy *policy)
{
    bool first = true;
    for (uint32_t layer = 0, end; layer < policy->layer_count; layer = end) {
        for (end = layer; end < policy->layer_count && policy->recomputed[end];)
            end++;
        if (end > layer) {
            printf("%s", first ? " (layers " : "");
            print_range(first, layer, end);
            first = false;
        } else
            end++;
    }
    printf("%s, pins applied", first ? "" : ")");
}

/* How often the first segment of a step runs. */
static uint32_t microbatches_of(const struct remat_program *p)
{
    const struct remat_entry *train = remat_program_find_entry(p, "train");
    return train ? p->calls[train->call_begin].times : 1;
}

static struct remat_throughput throughput_of(const struct remat_program *p)
{
    return remat_throughput_of(p->tokens, remat_program_ranks(p), p->model_ns, p->step_ns);
}

static void print_throughput(const struct remat_program *p)
{
    struct remat_throughput throughput = throughput_of(p);
    bool on_gpu = p->target_arch && *p->target_arch;
    struct remat_unit_text text =
        remat_throughput_text(&throughput, remat_program_ranks(p), on_gpu ? "GPU" : "rank");
    if (*text.text)
        printf("throughput   %s\n", text.text);
}

static void print_memory(const struct remat_program *p)
{
    uint64_t parts[PART_COUNT];
    measure_peak(p, parts);
    if (p->budget_bytes) {
        printf("budget       %s = %s\n", remat_brief_text(p->budget_bytes).text,
               remat_exact_text(p->budget_bytes).text);
        printf("reserve      %s\n", remat_exact_text(p->reserve_bytes).text);
        printf("available    %s = budget - reserve\n",
               remat_exact_text(p->budget_bytes - p->reserve_bytes).text);
    } else {
        printf("budget       none\nreserve      %s\n", remat_exact_text(p->reserve_bytes).text);
    }
    printf("arena        %s\n", remat_exact_text(p->arena_bytes).text);
    printf("live peak    %s at command %" PRIu32 " \"", remat_exact_text(p->peak_bytes).text,
           p->peak_command);
    if (p->peak_command < p->command_count)
        cli_show(stdout, p->commands[p->peak_command].name);
    printf("\"\n");
    printf("  persistent   %s", remat_exact_text(p->static_bytes).text);
    if (p->workspace_bytes)
        printf(", of it workspace %s", remat_exact_text(p->workspace_bytes).text);
    printf("\n");
    printf("  gradients    %s\n", remat_exact_text(parts[PART_GRADIENTS]).text);
    printf("  activations  %s\n", remat_exact_text(parts[PART_ACTIVATIONS]).text);
}

/* "14", "3.5": at most two digits after the point */
static void print_each(uint64_t bytes, uint64_t count)
{
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%.2f", (double)bytes / (double)count);
    while (digits[length - 1] == '0')
        length--;
    printf("%.*s", digits[length - 1] == '.' ? length - 1 : length, digits);
}

/* Bytes that a rank keeps of each parameter. */
static void print_parameters(const struct remat_static_parts *parts)
{
    uint64_t bytes = 0;
    for (int k = REMAT_PART_WEIGHTS; k < REMAT_PART_FROZEN; k++)
        bytes += parts->bytes[k];
    if (parts->trained) {
        printf("trained      %s parameters of ", remat_count_text(parts->trained).text);
        print_each(bytes, parts->trained);
        for (int k = REMAT_PART_WEIGHTS; k < REMAT_PART_FROZEN; k++)
            if (parts->bytes[k]) {
                printf("%s%s ", k == REMAT_PART_WEIGHTS ? " B: " : ", ", remat_static_part_name(k));
                print_each(parts->bytes[k], parts->trained);
            }
        printf("\n");
    }
    if (parts->frozen) {
        printf("frozen       %s parameters of ", remat_count_text(parts->frozen).text);
        print_each(parts->bytes[REMAT_PART_FROZEN], parts->frozen);
        printf(" B\n");
    }
}

static void print_mesh(const struct remat_program *p)
{
    char mesh[REMAT_MESH_TEXT_BYTES], depth[24] = "";
    struct remat_communication all = remat_program_communication(p);
    if (p->mesh_count == 0)
        return;
    remat_program_mesh_print(p, mesh);
    if (p->depth)
        snprintf(depth, sizeof depth, ", depth %" PRIu32, p->depth);
    printf("mesh         %s: %" PRIu32
           " ranks, rank 0 sends %s a step, in %s, of which %s are exposed%s\n",
           mesh, remat_program_ranks(p), remat_short_text(all.sent_bytes).text,
           remat_time_text(all.ns).text, remat_time_text(all.exposed_ns).text, depth);
}

static void write_line(FILE *file, const char *label, const char *text)
{
    fputs(label, file);
    cli_show(file, text);
    putc('\n', file);
}

/* Wrapped on a terminal, if there is memory for it. */
static void print_text(const char *label, const char *text)
{
    char *line = NULL;
    size_t bytes;
    FILE *memory = open_memstream(&line, &bytes);
    if (memory)
        write_line(memory, label, text);
    if (memory && fclose(memory) == 0 && line) /* NULL: it could not be shrunk */
        cli_print(stdout, "%s", line);
    else
        write_line(stdout, label, text);
    free(line);
}

static void print_costs(const struct report *report)
{
    print_text("costs        ", report->costs);
}

/* REMAT_ERROR_MEMORY leaves the line out: it is no figure of the plan. */
static void print_advice(const struct report *report)
{
    for (size_t i = 0; i < report->advices.count; i++) {
        const struct remat_advice *advice = &report->advices.items[i];
        cli_print(stdout, "advice       %s\n", advice->text);
    }
}

static void print_curve(const struct report *report)
{
    const struct remat_front *f = report->front;
    printf("curve        %" PRIu32 " points, from %" PRIu32 " of %" PRIu32 " decisions%s", f->count,
           f->evaluated_count, f->decision_count, f->cut_short ? " (cut short)" : "");
    print_text(": ", report->curve_path);
}

static void print_plan(const struct report *report)
{
    const struct remat_program *p = report->program;
    printf("model        ");
    cli_show(stdout, p->graph_name);
    printf(", %" PRIu32 " layers", p->layer_count);
    print_text(", for ", p->target);
    if (p->plan_only && *p->plan_only)
        print_text("plan only    ", p->plan_only);
    print_parameters(&report->parts);
    print_memory(p);
    printf("policy       ");
    cli_show(stdout, p->policy);
    if (report->chosen)
        print_chosen(report->chosen);
    printf("\n");
    cli_print(stdout, "%s", report->manuals);
    print_layers(report, REMAT_LAYER_WHOLE);
    print_layers(report, REMAT_LAYER_IN_PART);
    printf("\nvalues       %" PRIu32 " of %" PRIu32 " recomputed", remat_program_recomputed(p),
           p->decision_count);
    if (remat_program_count(p, REMAT_ACTION_INLINE))
        printf(", %" PRIu32 " of them inline", remat_program_count(p, REMAT_ACTION_INLINE));
    if (remat_program_twice(p))
        printf(", %" PRIu32 " of them twice", remat_program_twice(p));
    for (uint32_t a = 0; a < REMAT_ACTION_COUNT; a++)
        if (remat_keep_words[a].done && remat_program_count(p, a))
            printf("; %" PRIu32 " %s", remat_program_count(p, a), remat_keep_words[a].words);
    printf("\n");
    printf("step         %s predicted, %+.2f %% over everything saved (%s)",
           remat_time_text(p->step_ns).text, remat_percent_longer(p->step_ns, p->base_step_ns, 2),
           remat_time_text(p->base_step_ns).text);
    if (microbatches_of(p) > 1)
        printf(", %" PRIu32 " microbatches", microbatches_of(p));
    printf("\n");
    print_throughput(p);
    print_mesh(p);
    print_costs(report);
    if (*report->certificate)
        cli_print(stdout, "certificate  %s\n", report->certificate);
    for (uint32_t i = 0; i < p->note_count; i++)
        print_text("note: ", p->notes[i]);
    print_advice(report);
    if (p->foreign)
        print_text("plan         none, for it cannot run: a foreign node is ", p->foreign);
    else
        print_text("plan         ", report->path);
}

/* "others are slower: 1-5, 9" */
static void print_size_ranges(const char *what, const struct remat_size_ranges *ranges)
{
    for (size_t i = 0; i < ranges->count; i++) {
        const struct remat_size_range *range = &ranges->items[i];
        printf("%s%" PRIu32, i ? ", " : what, range->low);
        if (range->high > range->low)
            printf("-%" PRIu32, range->high);
    }
    if (ranges->count)
        putchar('\n');
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

static void print_size_rows(const struct remat_sizes *s)
{
    int width = plan_width(s);
    printf("%10s  %-*s  %10s  %12s/s  %10s\n", s->symbol, width, "plan", "step", s->unit, "peak");
    for (uint32_t t = 0; t < s->trial_count; t++) {
        const struct remat_size_trial *trial = &s->trials[t];
        if (trial->bounded)
            continue;
        printf("%10" PRIu32 "  ", trial->value);
        if (!trial->fits) {
            print_text(trial->why ? "not possible: " : "does not fit",
                       trial->why ? trial->why : "");
            continue;
        }
        printf("%-*s  %10s  ", width, trial->policy, remat_time_text(trial->step_ns).text);
        printf("%14s  %10s%s\n", remat_rate_text(trial->rate).text,
               remat_short_text(trial->peak_bytes).text, t == s->best ? "  chosen" : "");
    }
}

static void print_sizes(const struct remat_sizes *s)
{
    uint32_t tried = 0;
    char what[80];
    for (uint32_t t = 0; t < s->trial_count; t++)
        tried += !s->trials[t].bounded;
    print_size_rows(s);
    printf("%" PRIu32 " of the %" PRIu32 " values from %" PRIu32 " to %" PRIu32, tried,
           s->value_count, s->low, s->high);
    if (s->multiple > 1)
        printf(" that %" PRIu32 " divides", s->multiple);
    printf(" were tried%s\n", s->cut_short ? "; the search was cut short" : "");
    print_size_ranges("slower or too large, whatever is recomputed: ", &s->slower);
    print_size_ranges("not tried: ", &s->untried);
    snprintf(what, sizeof what, "not tried, as %" PRIu32 " is not possible: ", s->impossible);
    print_size_ranges(what, &s->below);
    snprintf(what, sizeof what, "not tried, as %" PRIu32 " %s: ", s->end,
             s->end_is_possible ? "does not fit" : "is not possible");
    print_size_ranges(what, &s->above);
    if (s->ranks > 1)
        printf("%s and %s/s are of all %" PRIu32 " ranks, the peak is of one\n", s->symbol, s->unit,
               s->ranks);
    putchar('\n');
}

void report_print_text(const struct report *report)
{
    if (report->divisions)
        divisions_print_text(report->divisions);
    if (report->sizes)
        print_sizes(report->sizes);
    if (report->program)
        print_plan(report);
    if (report->front)
        print_curve(report);
}

static void print_json_text(const char *key, const char *text)
{
    printf("  \"%s\": ", key);
    cli_show_json(stdout, text);
    printf(",\n");
}

static void print_json_number(const char *key, uint64_t number)
{
    printf("  \"%s\": %" PRIu64 ",\n", key, number);
}

static void print_json_real(const char *key, double number)
{
    printf("  \"%s\": %.17g,\n", key, number);
}

static void print_json_throughput(const struct remat_program *p)
{
    struct remat_throughput throughput = throughput_of(p);
    print_json_number("tokens", p->tokens);
    print_json_real("tokens_per_s", throughput.tokens_per_s);
    print_json_real("tokens_per_s_rank", throughput.rank_tokens_per_s);
    print_json_number("model_flops", p->model_flops);
    print_json_real("mfu", throughput.mfu);
}

void report_print_json_advice(const struct remat_advices *advices)
{
    printf("  \"advice\": [");
    for (size_t i = 0; i < advices->count; i++) {
        const struct remat_advice *a = &advices->items[i];
        printf("%s\n    {\"tool\": \"%s\", \"options\": \"%s\"", i ? "," : "", a->tool, a->options);
        if (a->graph_options)
            printf(", \"graph_options\": \"%s\"", a->graph_options);
        printf(", \"needed_bytes\": %" PRIu64 ", \"step_ns\": ", a->needed_bytes);
        if (a->step_ns)
            printf("%" PRIu64 "}", a->step_ns);
        else
            printf("null}");
    }
    putchar(']');
}

static void print_json_shares(const struct remat_program *p)
{
    double shares[REMAT_COST_SOURCES];
    remat_program_cost_shares(p, shares);
    printf("  \"cost_shares\": {");
    for (uint32_t s = 0; s < REMAT_COST_SOURCES; s++)
        printf("%s\"%s\": %.6f", s ? ", " : "", remat_cost_source_name(s), shares[s]);
    printf("},\n");
}

static void print_json_curve(const struct report *report)
{
    const struct remat_front *f = report->front;
    printf("  \"curve\": {\"points\": %" PRIu32 ", \"evaluated\": %" PRIu32
           ", \"decisions\": %" PRIu32 ", \"cut_short\": %s, \"path\": ",
           f->count, f->evaluated_count, f->decision_count, f->cut_short ? "true" : "false");
    cli_show_json(stdout, report->curve_path);
    printf("}%s\n", report->program ? "," : "");
}

static void print_json_ranges(const char *key, const struct remat_size_ranges *ranges)
{
    printf(", \"%s\": [", key);
    for (size_t i = 0; i < ranges->count; i++)
        printf("%s[%" PRIu32 ", %" PRIu32 "]", i ? ", " : "", ranges->items[i].low,
               ranges->items[i].high);
    putchar(']');
}

static void print_json_sizes(const struct remat_sizes *s)
{
    bool first = true;
    printf("  \"sizes\": {\"symbol\": ");
    cli_show_json(stdout, s->symbol);
    printf(", \"values\": %" PRIu32 ", \"unit\": ", s->value_count);
    cli_show_json(stdout, s->unit);
    printf(", \"chosen\": %" PRIu32 ", \"cut_short\": %s", s->trials[s->best].value,
           s->cut_short ? "true" : "false");
    print_json_ranges("slower", &s->slower);
    print_json_ranges("untried", &s->untried);
    print_json_ranges("below", &s->below);
    print_json_ranges("above", &s->above);
    printf(", \"tried\": [");
    for (uint32_t t = 0; t < s->trial_count; t++) {
        const struct remat_size_trial *trial = &s->trials[t];
        if (trial->bounded)
            continue;
        printf("%s\n    {\"value\": %" PRIu32 ", \"fits\": %s", first ? "" : ",", trial->value,
               trial->fits ? "true" : "false");
        first = false;
        if (trial->fits) {
            printf(", \"policy\": ");
            cli_show_json(stdout, trial->policy);
            printf(", \"step_ns\": %" PRIu64 ", \"peak_bytes\": %" PRIu64 ", \"rate\": %.17g",
                   trial->step_ns, trial->peak_bytes, trial->rate);
        } else if (trial->why) {
            printf(", \"why\": ");
            cli_show_json(stdout, trial->why);
        }
        printf("}");
    }
    printf("]},\n");
}

static void print_json_parts(const struct remat_static_parts *parts)
{
    print_json_number("trained_parameters", parts->trained);
    print_json_number("frozen_parameters", parts->frozen);
    printf("  \"static_parts\": {");
    for (int k = 0; k < REMAT_STATIC_PARTS; k++)
        printf("%s\"%s\": %" PRIu64, k ? ", " : "", remat_static_part_name(k), parts->bytes[k]);
    printf("},\n");
}

/* What a plan of one rank lacks. */
static void print_json_mesh(const struct remat_program *p)
{
    if (p->mesh_count == 0)
        return;
    printf("  \"mesh\": [");
    for (uint32_t k = 0; k < p->mesh_count; k++)
        printf("%s{\"axis\": \"%s\", \"size\": %" PRIu32 "}", k ? ", " : "", p->mesh[k].name,
               p->mesh[k].size);
    printf("],\n");
    print_json_number("ranks", remat_program_ranks(p));
    struct remat_communication all = remat_program_communication(p);
    print_json_number("sent_bytes", all.sent_bytes);
    print_json_number("communication_ns", all.ns);
    print_json_number("exposed_ns", all.exposed_ns);
    if (p->depth)
        print_json_number("depth", p->depth);
}

static void print_json_layers(const char *key, const struct report *report,
                              enum remat_layer_extent extent)
{
    bool first = true;
    printf("  \"%s\": [", key);
    for (uint32_t layer = 0; layer < report->program->layer_count; layer++) {
        if (report->layer_extents[layer] != extent)
            continue;
        printf("%s%" PRIu32, first ? "" : ", ", layer);
        first = false;
    }
    printf("],\n");
}

static void print_json_manuals(const struct remat_program *p)
{
    printf("  \"manuals\": [");
    for (uint32_t i = 0; i < p->manual_count; i++) {
        const struct remat_manual *m = &p->manuals[i];
        printf("%s\n    {\"system\": \"%s\", \"policy\": ", i ? "," : "", m->system);
        cli_show_json(stdout, m->policy);
        printf(", \"flags\": ");
        cli_show_json(stdout, m->flags);
        printf(", \"step_ns\": %" PRIu64 "}", m->step_ns);
    }
    printf("],\n");
}

static void print_json_plan(const struct report *report)
{
    const struct remat_program *p = report->program;
    uint64_t parts[PART_COUNT];
    measure_peak(p, parts);
    print_json_text("graph", p->graph_name);
    if (p->plan_only && *p->plan_only)
        print_json_text("plan_only", p->plan_only);
    print_json_text("target", p->target);
    print_json_text("policy", p->policy);
    print_json_number("layers", p->layer_count);
    print_json_layers("recomputed_layers", report, REMAT_LAYER_WHOLE);
    print_json_layers("partly_recomputed_layers", report, REMAT_LAYER_IN_PART);
    print_json_number("recomputed", remat_program_recomputed(p));
    print_json_number("recomputed_fused", remat_program_count(p, REMAT_ACTION_INLINE));
    print_json_number("recomputed_nested", remat_program_twice(p));
    for (uint32_t a = 0; a < REMAT_ACTION_COUNT; a++)
        if (remat_keep_words[a].key)
            print_json_number(remat_keep_words[a].key, remat_program_count(p, a));
    print_json_manuals(p);
    print_json_number("microbatches", microbatches_of(p));
    print_json_mesh(p);
    print_json_number("budget_bytes", p->budget_bytes);
    print_json_number("reserve_bytes", p->reserve_bytes);
    print_json_number("arena_bytes", p->arena_bytes);
    print_json_number("peak_bytes", p->peak_bytes);
    print_json_number("static_bytes", p->static_bytes);
    print_json_parts(&report->parts);
    print_json_number("workspace_bytes", p->workspace_bytes);
    print_json_number("peak_gradient_bytes", parts[PART_GRADIENTS]);
    print_json_number("peak_activation_bytes", parts[PART_ACTIVATIONS]);
    print_json_number("step_ns", p->step_ns);
    print_json_number("base_step_ns", p->base_step_ns);
    print_json_throughput(p);
    print_json_shares(p);
    if (report->profile_beside)
        print_json_text("profile_beside", report->profile_beside);
    print_json_number("bound_step_ns", p->bound_step_ns);
    print_json_number("floor_bytes", p->floor_bytes);
    printf("  \"notes\": [");
    for (uint32_t i = 0; i < p->note_count; i++) {
        printf("%s", i ? ", " : "");
        cli_show_json(stdout, p->notes[i]);
    }
    printf("],\n");
    report_print_json_advice(&report->advices);
    printf(",\n  \"plan\": ");
    if (p->foreign)
        printf("null");
    else
        cli_show_json(stdout, report->path);
    printf("\n");
}

void report_print_json(const struct report *report)
{
    printf("{\n");
    print_json_text("schema", "remat-report/1");
    if (report->divisions)
        divisions_print_json(report->divisions);
    if (report->sizes)
        print_json_sizes(report->sizes);
    if (report->front)
        print_json_curve(report);
    if (report->program)
        print_json_plan(report);
    printf("}\n");
}
