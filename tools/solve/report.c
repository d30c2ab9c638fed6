/* SPDX-License-Identifier: Apache-2.0 */
/* Every number of a solution is the simulator's; ratios are derived here. */
#include "report.h"

#include "curve.h"

#include <inttypes.h>

static void append_field(struct remat_text *text, const char *name, double value)
{
    remat_text_append(text, ",\n  \"%s\": ", name);
    curve_number(text, value);
}

static void append_common(struct remat_text *text, const struct solve_report *r)
{
    remat_text_append(text, ",\n  \"floor\": %" PRIu64, r->floor.bytes);
    remat_text_append(text, ",\n  \"floor_node\": %u", r->floor.node.i);
    remat_text_append(text, ",\n  \"given_peak\": %" PRIu64, r->given_peak);
    append_field(text, "total_time", r->problem->total_time);
    remat_text_append(text, ",\n  \"time_limit_hit\": %s", r->time_limit_hit ? "true" : "false");
    remat_text_append(text, ",\n  \"interrupted\": %s", r->interrupted ? "true" : "false");
}

/* The nodes; beside them, where nodes have several modes, the number of the mode: 0 is the node as
 * given. */
static void append_sequence(struct remat_text *text, const struct remat_problem *p,
                            const struct remat_sequence *sequence)
{
    remat_text_append(text, ",\n  \"sequence\": [");
    for (size_t i = 0; i < sequence->count; i++)
        remat_text_append(text, "%s%u", i ? ", " : "", p->node_of[sequence->items[i].i].i);
    remat_text_append(text, "]");
    if (p->mode_count == p->node_count)
        return;
    remat_text_append(text, ",\n  \"modes\": [");
    for (size_t i = 0; i < sequence->count; i++) {
        remat_mode_id mode = sequence->items[i];
        uint32_t k = p->mode_begin[p->node_of[mode.i].i], first = k;
        while (p->modes[k].i != mode.i)
            k++;
        remat_text_append(text, "%s%u", i ? ", " : "", k - first);
    }
    remat_text_append(text, "]");
}

static struct curve_point point_of(const struct solve_report *r, uint32_t i)
{
    const struct remat_solution *s = &r->solutions[i];
    return (struct curve_point){.budget = r->budgets[i],
                                .fits = s->fits,
                                .peak = s->result.peak,
                                .time = s->result.time,
                                .lower_bound = s->lower_bound};
}

/* Nothing fits in budgets[0], and that is proven. */
static bool is_proven(const struct solve_report *r)
{
    return r->solutions[0].impossible || r->budgets[0] < r->floor.bytes;
}

void report_decision(struct remat_text *text, const struct solve_report *r)
{
    const struct remat_solution *s = &r->solutions[0];
    const struct curve_point point = point_of(r, 0);
    const struct curve base = {.base_time = r->problem->total_time};
    remat_text_append(text, "{\n  \"schema\": \"remat-decision/1\"");
    remat_text_append(text, ",\n  \"feasible\": %s", s->fits ? "true" : "false");
    remat_text_append(text, ",\n  \"budget\": %" PRIu64, r->budgets[0]);
    if (s->fits) {
        append_field(text, "time", s->result.time);
        append_field(text, "overhead", curve_overhead(&base, point.time));
        remat_text_append(text, ",\n  \"peak\": %" PRIu64, s->result.peak);
        append_field(text, "lower_bound", s->lower_bound);
        append_field(text, "gap", curve_gap(&point));
    } else {
        remat_text_append(text, ",\n  \"proven\": %s", is_proven(r) ? "true" : "false");
        remat_text_append(text, ",\n  \"smallest_peak_found\": %" PRIu64, s->result.peak);
    }
    append_common(text, r);
    if (s->fits)
        append_sequence(text, r->problem, &s->sequence);
    remat_text_append(text, "\n}\n");
}

void report_curve(struct remat_text *text, const struct solve_report *r, enum report_format format)
{
    struct curve_point *points;
    REMAT_NEW(text->arena, points, r->count);
    const struct curve_picture picture = {.title = "Time against memory", .time = "time"};
    struct curve c = {points, r->count, r->problem->total_time, &picture};
    for (uint32_t i = 0; i < r->count; i++)
        points[i] = point_of(r, i);
    if (format == REPORT_CSV) {
        curve_csv(text, &c);
        return;
    }
    if (format == REPORT_SVG) {
        curve_svg(text, &c);
        return;
    }
    remat_text_append(text, "{\n  \"schema\": \"remat-curve/1\"");
    append_common(text, r);
    remat_text_append(text, ",\n  \"points\": ");
    curve_json(text, &c);
    remat_text_append(text, "\n}\n");
}
