/* SPDX-License-Identifier: Apache-2.0 */
/* Ratios are derived here; every other number is the library's. */
#include "report.h"

#include "curve.h"
#include "unwind.h"

#include <inttypes.h>

static void append_field(struct remat_text *text, const char *name, double value)
{
    remat_text_append(text, ",\n  \"%s\": ", name);
    curve_number(text, value);
}

static void append_common(struct remat_text *text, const struct solve_report *r)
{
    remat_text_append(text, ",\n  \"floor\": %" PRIu64, r->problem.floor_bytes);
    remat_text_append(text, ",\n  \"floor_node\": %u", r->problem.floor_node);
    remat_text_append(text, ",\n  \"given_peak\": %" PRIu64, r->problem.given_peak_bytes);
    append_field(text, "total_time", r->problem.given_time);
    remat_text_append(text, ",\n  \"time_limit_hit\": %s", r->time_limit_hit ? "true" : "false");
    remat_text_append(text, ",\n  \"interrupted\": %s", r->interrupted ? "true" : "false");
}

/* By run, its number among the modes of its node: 0 is the node as given. */
static uint32_t *number_modes(struct remat_arena *arena, const remat_problem_spec *p)
{
    uint32_t *numbers, *seen;
    REMAT_NEW(arena, numbers, (size_t)p->node_count + p->mode_count);
    REMAT_NEW(arena, seen, p->node_count);
    for (uint32_t m = 0; m < p->mode_count; m++)
        numbers[p->node_count + m] = ++seen[p->modes[m].node];
    return numbers;
}

/* The nodes; beside them, where nodes have several modes, the numbers of the modes. */
static void append_sequence(struct remat_text *text, const remat_problem_spec *p,
                            const struct solve_solution *s)
{
    remat_text_append(text, ",\n  \"sequence\": [");
    for (size_t i = 0; i < s->run_count; i++)
        remat_text_append(text, "%s%u", i ? ", " : "",
                          s->runs[i] < p->node_count ? s->runs[i]
                                                     : p->modes[s->runs[i] - p->node_count].node);
    remat_text_append(text, "]");
    if (!p->mode_count)
        return;
    const uint32_t *numbers = number_modes(text->arena, p);
    remat_text_append(text, ",\n  \"modes\": [");
    for (size_t i = 0; i < s->run_count; i++)
        remat_text_append(text, "%s%u", i ? ", " : "", numbers[s->runs[i]]);
    remat_text_append(text, "]");
}

static struct curve_point point_of(const struct solve_report *r, uint32_t i)
{
    const remat_solved_info *s = &r->solutions[i].info;
    return (struct curve_point){.budget = r->budgets[i],
                                .fits = s->fits,
                                .peak = s->peak_bytes,
                                .time = s->time,
                                .lower_bound = s->lower_bound};
}

/* Nothing fits in budgets[0], and that is proven. */
static bool is_proven(const struct solve_report *r)
{
    return r->solutions[0].info.impossible || r->budgets[0] < r->problem.floor_bytes;
}

void report_decision(struct remat_text *text, const struct solve_report *r)
{
    const remat_solved_info *s = &r->solutions[0].info;
    const struct curve_point point = point_of(r, 0);
    const struct curve base = {.base_time = r->problem.given_time};
    remat_text_append(text, "{\n  \"schema\": \"remat-decision/1\"");
    remat_text_append(text, ",\n  \"feasible\": %s", s->fits ? "true" : "false");
    remat_text_append(text, ",\n  \"budget\": %" PRIu64, r->budgets[0]);
    if (s->fits) {
        append_field(text, "time", s->time);
        append_field(text, "overhead", curve_overhead(&base, point.time));
        remat_text_append(text, ",\n  \"peak\": %" PRIu64, s->peak_bytes);
        append_field(text, "lower_bound", s->lower_bound);
        append_field(text, "gap", curve_gap(&point));
    } else {
        remat_text_append(text, ",\n  \"proven\": %s", is_proven(r) ? "true" : "false");
        remat_text_append(text, ",\n  \"smallest_peak_found\": %" PRIu64, s->peak_bytes);
    }
    append_common(text, r);
    if (s->fits)
        append_sequence(text, r->spec, &r->solutions[0]);
    remat_text_append(text, "\n}\n");
}

void report_curve(struct remat_text *text, const struct solve_report *r, enum report_format format)
{
    struct curve_point *points;
    REMAT_NEW(text->arena, points, r->count);
    const struct curve_picture picture = {.title = "Time against memory", .time = "time"};
    struct curve c = {points, r->count, r->problem.given_time, &picture};
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
