/* SPDX-License-Identifier: Apache-2.0 */
/* Reports as JSON. */
#include "plan_report.h"

#include "plan_report_divisions.h"
#include "plan_report_parts.h"

#include <inttypes.h>

static void print_json_text(const char *key, const char *text, struct remat_text *out)
{
    remat_text_append(out, "  \"%s\": ", key);
    remat_text_json(out, text);
    remat_text_append(out, ",\n");
}

static void print_json_number(const char *key, uint64_t number, struct remat_text *out)
{
    remat_text_append(out, "  \"%s\": %" PRIu64 ",\n", key, number);
}

static void print_json_real(const char *key, double number, struct remat_text *out)
{
    remat_text_append(out, "  \"%s\": %.17g,\n", key, number);
}

static void print_json_throughput(const struct remat_program *p, struct remat_text *out)
{
    struct remat_throughput throughput = remat_report_throughput(p);
    print_json_number("tokens", p->tokens, out);
    print_json_real("tokens_per_s", throughput.tokens_per_s, out);
    print_json_real("tokens_per_s_rank", throughput.rank_tokens_per_s, out);
    print_json_number("model_flops", p->model_flops, out);
    print_json_real("mfu", throughput.mfu, out);
}

void remat_report_advice_json(const struct remat_advices *advices, struct remat_text *out)
{
    remat_text_append(out, "  \"advice\": [");
    for (size_t i = 0; i < advices->count; i++) {
        const struct remat_advice *a = &advices->items[i];
        remat_text_append(out, "%s\n    {\"tool\": \"%s\", \"options\": \"%s\"", i ? "," : "",
                          a->tool, a->options);
        if (a->graph_options)
            remat_text_append(out, ", \"graph_options\": \"%s\"", a->graph_options);
        remat_text_append(out, ", \"needed_bytes\": %" PRIu64 ", \"step_ns\": ", a->needed_bytes);
        if (a->step_ns)
            remat_text_append(out, "%" PRIu64 "}", a->step_ns);
        else
            remat_text_append(out, "null}");
    }
    remat_text_append(out, "]");
}

static void print_json_shares(const struct remat_program *p, struct remat_text *out)
{
    double shares[REMAT_COST_SOURCES];
    remat_program_cost_shares(p, shares);
    remat_text_append(out, "  \"cost_shares\": {");
    for (uint32_t s = 0; s < REMAT_COST_SOURCES; s++)
        remat_text_append(out, "%s\"%s\": %.6f", s ? ", " : "", remat_cost_source_name(s),
                          shares[s]);
    remat_text_append(out, "},\n");
}

static void print_json_curve(const struct remat_report *report, struct remat_text *out)
{
    const struct remat_front *f = report->front;
    remat_text_append(out,
                      "  \"curve\": {\"points\": %" PRIu32 ", \"evaluated\": %" PRIu32
                      ", \"decisions\": %" PRIu32 ", \"cut_short\": %s, \"path\": ",
                      f->count, f->evaluated_count, f->decision_count,
                      f->cut_short ? "true" : "false");
    remat_text_json(out, report->curve_path);
    remat_text_append(out, "}%s\n", report->program ? "," : "");
}

static void print_json_ranges(const char *key, const struct remat_size_ranges *ranges,
                              struct remat_text *out)
{
    remat_text_append(out, ", \"%s\": [", key);
    for (size_t i = 0; i < ranges->count; i++)
        remat_text_append(out, "%s[%" PRIu32 ", %" PRIu32 "]", i ? ", " : "", ranges->items[i].low,
                          ranges->items[i].high);
    remat_text_append(out, "]");
}

static void print_json_sizes(const struct remat_sizes *s, struct remat_text *out)
{
    bool first = true;
    remat_text_append(out, "  \"sizes\": {\"symbol\": ");
    remat_text_json(out, s->symbol);
    remat_text_append(out, ", \"values\": %" PRIu32 ", \"unit\": ", s->value_count);
    remat_text_json(out, s->unit);
    remat_text_append(out, ", \"chosen\": %" PRIu32 ", \"cut_short\": %s", s->trials[s->best].value,
                      s->cut_short ? "true" : "false");
    print_json_ranges("slower", &s->slower, out);
    print_json_ranges("untried", &s->untried, out);
    print_json_ranges("below", &s->below, out);
    print_json_ranges("above", &s->above, out);
    remat_text_append(out, ", \"tried\": [");
    for (uint32_t t = 0; t < s->trial_count; t++) {
        const struct remat_size_trial *trial = &s->trials[t];
        if (trial->bounded)
            continue;
        remat_text_append(out, "%s\n    {\"value\": %" PRIu32 ", \"fits\": %s", first ? "" : ",",
                          trial->value, trial->fits ? "true" : "false");
        first = false;
        if (trial->fits) {
            remat_text_append(out, ", \"policy\": ");
            remat_text_json(out, trial->policy);
            remat_text_append(
                out, ", \"step_ns\": %" PRIu64 ", \"peak_bytes\": %" PRIu64 ", \"rate\": %.17g",
                trial->step_ns, trial->peak_bytes, trial->rate);
        } else if (trial->why) {
            remat_text_append(out, ", \"why\": ");
            remat_text_json(out, trial->why);
        }
        remat_text_append(out, "}");
    }
    remat_text_append(out, "]},\n");
}

static void print_json_parts(const struct remat_static_parts *parts, struct remat_text *out)
{
    print_json_number("trained_parameters", parts->trained, out);
    print_json_number("frozen_parameters", parts->frozen, out);
    remat_text_append(out, "  \"static_parts\": {");
    for (int k = 0; k < REMAT_STATIC_PARTS; k++)
        remat_text_append(out, "%s\"%s\": %" PRIu64, k ? ", " : "", remat_static_part_name(k),
                          parts->bytes[k]);
    remat_text_append(out, "},\n");
}

/* What a plan of one rank lacks. */
static void print_json_mesh(const struct remat_program *p, struct remat_text *out)
{
    if (p->mesh_count == 0)
        return;
    remat_text_append(out, "  \"mesh\": [");
    for (uint32_t k = 0; k < p->mesh_count; k++)
        remat_text_append(out, "%s{\"axis\": \"%s\", \"size\": %" PRIu32 "}", k ? ", " : "",
                          p->mesh[k].name, p->mesh[k].size);
    remat_text_append(out, "],\n");
    print_json_number("ranks", remat_program_ranks(p), out);
    struct remat_communication all = remat_program_communication(p);
    print_json_number("sent_bytes", all.sent_bytes, out);
    print_json_number("communication_ns", all.ns, out);
    print_json_number("exposed_ns", all.exposed_ns, out);
    if (p->depth)
        print_json_number("depth", p->depth, out);
    if (p->limited_by && *p->limited_by)
        remat_text_append(out, "  \"limited_by\": \"%s\",\n", p->limited_by);
}

static void print_json_layers(const char *key, const struct remat_report *report,
                              enum remat_layer_extent extent, struct remat_text *out)
{
    bool first = true;
    remat_text_append(out, "  \"%s\": [", key);
    for (uint32_t layer = 0; layer < report->program->layer_count; layer++) {
        if (report->layer_extents[layer] != extent)
            continue;
        remat_text_append(out, "%s%" PRIu32, first ? "" : ", ", layer);
        first = false;
    }
    remat_text_append(out, "],\n");
}

static void print_json_manuals(const struct remat_program *p, struct remat_text *out)
{
    remat_text_append(out, "  \"manuals\": [");
    for (uint32_t i = 0; i < p->manual_count; i++) {
        const struct remat_manual *m = &p->manuals[i];
        remat_text_append(out, "%s\n    {\"system\": \"%s\", \"policy\": ", i ? "," : "",
                          m->system);
        remat_text_json(out, m->policy);
        remat_text_append(out, ", \"flags\": ");
        remat_text_json(out, m->flags);
        remat_text_append(out, ", \"step_ns\": %" PRIu64 "}", m->step_ns);
    }
    remat_text_append(out, "],\n");
}

static void print_json_plan(const struct remat_report *report, struct remat_text *out)
{
    const struct remat_program *p = report->program;
    uint64_t parts[REMAT_ARENA_PARTS];
    remat_report_peak(p, parts);
    print_json_text("graph", p->graph_name, out);
    if (p->plan_only && *p->plan_only)
        print_json_text("plan_only", p->plan_only, out);
    print_json_text("target", p->target, out);
    print_json_text("policy", p->policy, out);
    print_json_number("layers", p->layer_count, out);
    print_json_layers("recomputed_layers", report, REMAT_LAYER_WHOLE, out);
    print_json_layers("partly_recomputed_layers", report, REMAT_LAYER_IN_PART, out);
    print_json_number("recomputed", remat_program_recomputed(p), out);
    print_json_number("recomputed_fused", remat_program_count(p, REMAT_ACTION_INLINE), out);
    print_json_number("recomputed_nested", remat_program_twice(p), out);
    for (uint32_t a = 0; a < REMAT_ACTION_COUNT; a++)
        if (remat_keep_words[a].key)
            print_json_number(remat_keep_words[a].key, remat_program_count(p, a), out);
    print_json_manuals(p, out);
    print_json_number("microbatches", remat_report_microbatches(p), out);
    print_json_mesh(p, out);
    print_json_number("budget_bytes", p->budget_bytes, out);
    print_json_number("reserve_bytes", p->reserve_bytes, out);
    print_json_number("arena_bytes", p->arena_bytes, out);
    print_json_number("peak_bytes", p->peak_bytes, out);
    print_json_number("static_bytes", p->static_bytes, out);
    print_json_parts(&report->parts, out);
    print_json_number("workspace_bytes", p->workspace_bytes, out);
    print_json_number("peak_gradient_bytes", parts[REMAT_ARENA_GRADIENTS], out);
    print_json_number("peak_activation_bytes", parts[REMAT_ARENA_ACTIVATIONS], out);
    print_json_number("step_ns", p->step_ns, out);
    print_json_number("base_step_ns", p->base_step_ns, out);
    print_json_throughput(p, out);
    print_json_shares(p, out);
    if (report->profile_beside)
        print_json_text("profile_beside", report->profile_beside, out);
    print_json_number("bound_step_ns", p->bound_step_ns, out);
    print_json_number("floor_bytes", p->floor_bytes, out);
    remat_text_append(out, "  \"notes\": [");
    for (uint32_t i = 0; i < p->note_count; i++) {
        remat_text_append(out, "%s", i ? ", " : "");
        remat_text_json(out, p->notes[i]);
    }
    remat_text_append(out, "],\n");
    remat_report_advice_json(&report->advices, out);
    remat_text_append(out, ",\n  \"plan\": ");
    if (p->foreign)
        remat_text_append(out, "null");
    else
        remat_text_json(out, report->path);
    remat_text_append(out, "\n");
}

void remat_report_json(const struct remat_report *report, struct remat_text *out)
{
    remat_text_append(out, "{\n");
    print_json_text("schema", "remat-report/1", out);
    if (report->divisions)
        remat_divisions_json(report->divisions, out);
    if (report->sizes)
        print_json_sizes(report->sizes, out);
    if (report->front)
        print_json_curve(report, out);
    if (report->program)
        print_json_plan(report, out);
    remat_text_append(out, "}\n");
}
