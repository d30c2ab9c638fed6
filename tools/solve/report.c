/* Every number of a solution is the simulator's; ratios are derived here. */
#include "report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static double overhead(const struct report *r, uint32_t i)
{
    double total = r->problem->total_time;
    return total > 0 ? r->solutions[i].result.time / total - 1 : 0;
}

static double gap(const struct report *r, uint32_t i)
{
    double bound = r->solutions[i].lower_bound;
    return bound > 0 ? r->solutions[i].result.time / bound - 1 : 0;
}

/* The shortest text that reads back as the same number. */
static void append_number(struct remat_text *text, double value)
{
    struct remat_text digits = {.arena = text->arena};
    for (int precision = 1; precision <= 17; precision++) {
        digits.count = 0;
        remat_text_append(&digits, "%.*g", precision, value);
        if (digits.failed || strtod(digits.items, NULL) == value)
            break;
    }
    if (fabs(value) < 0x1p53 && value == floor(value))
        remat_text_append(text, "%.0f", value);
    else
        remat_text_append(text, "%s", digits.failed ? "0" : digits.items);
}

static void append_field(struct remat_text *text, const char *name, double value)
{
    remat_text_append(text, ",\n  \"%s\": ", name);
    append_number(text, value);
}

static void append_common(struct remat_text *text, const struct report *r)
{
    remat_text_append(text, ",\n  \"floor\": %" PRIu64, r->floor.bytes);
    remat_text_append(text, ",\n  \"floor_node\": %u", r->floor.node);
    remat_text_append(text, ",\n  \"given_peak\": %" PRIu64, r->given_peak);
    append_field(text, "total_time", r->problem->total_time);
    remat_text_append(text, ",\n  \"time_limit_hit\": %s", r->time_limit_hit ? "true" : "false");
}

/* The nodes; beside them, where nodes have several ways, the number of the way: 0 is the node as
 * given. */
static void append_sequence(struct remat_text *text, const struct remat_problem *p,
                            const struct remat_sequence *sequence)
{
    remat_text_append(text, ",\n  \"sequence\": [");
    for (size_t i = 0; i < sequence->count; i++)
        remat_text_append(text, "%s%u", i ? ", " : "", p->node_of[sequence->items[i]]);
    remat_text_append(text, "]");
    if (p->way_count == p->node_count)
        return;
    remat_text_append(text, ",\n  \"ways\": [");
    for (size_t i = 0; i < sequence->count; i++) {
        uint32_t k = p->way_begin[p->node_of[sequence->items[i]]], first = k;
        while (p->ways[k] != sequence->items[i])
            k++;
        remat_text_append(text, "%s%u", i ? ", " : "", k - first);
    }
    remat_text_append(text, "]");
}

void report_decision(struct remat_text *text, const struct report *r)
{
    const struct remat_solution *s = &r->solutions[0];
    remat_text_append(text, "{\n  \"schema\": \"remat-decision/1\"");
    remat_text_append(text, ",\n  \"feasible\": %s", s->fits ? "true" : "false");
    remat_text_append(text, ",\n  \"budget\": %" PRIu64, r->budgets[0]);
    if (s->fits) {
        append_field(text, "time", s->result.time);
        append_field(text, "overhead", overhead(r, 0));
        remat_text_append(text, ",\n  \"peak\": %" PRIu64, s->result.peak);
        append_field(text, "lower_bound", s->lower_bound);
        append_field(text, "gap", gap(r, 0));
    } else {
        remat_text_append(text, ",\n  \"smallest_peak_found\": %" PRIu64, s->result.peak);
    }
    append_common(text, r);
    if (s->fits)
        append_sequence(text, r->problem, &s->sequence);
    remat_text_append(text, "\n}\n");
}

void report_curve_json(struct remat_text *text, const struct report *r)
{
    remat_text_append(text, "{\n  \"schema\": \"remat-curve/1\"");
    append_common(text, r);
    remat_text_append(text, ",\n  \"points\": [");
    for (uint32_t i = 0; i < r->count; i++) {
        const struct remat_solution *s = &r->solutions[i];
        remat_text_append(text, "%s\n    {\"budget\": %" PRIu64 ", \"feasible\": %s", i ? "," : "",
                          r->budgets[i], s->fits ? "true" : "false");
        remat_text_append(text, ", \"peak\": %" PRIu64, s->result.peak);
        if (s->fits) {
            remat_text_append(text, ", \"time\": ");
            append_number(text, s->result.time);
            remat_text_append(text, ", \"overhead\": ");
            append_number(text, overhead(r, i));
            remat_text_append(text, ", \"lower_bound\": ");
            append_number(text, s->lower_bound);
            remat_text_append(text, ", \"gap\": ");
            append_number(text, gap(r, i));
        }
        remat_text_append(text, "}");
    }
    remat_text_append(text, "\n  ]\n}\n");
}

void report_curve_csv(struct remat_text *text, const struct report *r)
{
    remat_text_append(text, "budget,feasible,peak,time,overhead,lower_bound,gap\n");
    for (uint32_t i = 0; i < r->count; i++) {
        const struct remat_solution *s = &r->solutions[i];
        double values[] = {s->result.time, overhead(r, i), s->lower_bound, gap(r, i)};
        remat_text_append(text, "%" PRIu64 ",%d,%" PRIu64, r->budgets[i], s->fits, s->result.peak);
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            remat_text_append(text, ",");
            if (s->fits)
                append_number(text, values[k]);
        }
        remat_text_append(text, "\n");
    }
}
