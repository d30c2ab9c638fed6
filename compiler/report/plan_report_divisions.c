/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_report_divisions.h"

#include "mesh.h"
#include "plan_report_parts.h"
#include "size.h"

#include <inttypes.h>

static uint32_t shown_count(const struct remat_divisions *s)
{
    uint32_t planned = s->counts[REMAT_DIVISION_PLANNED];
    return planned < REMAT_DIVISIONS_BEST ? planned : REMAT_DIVISIONS_BEST;
}

static double rate_of(const struct remat_divisions *s, const struct remat_division_trial *d)
{
    return s->work * 1e9 / (double)d->step_ns;
}

/* Lists of ops have long names. */
static int plan_width(const struct remat_divisions *s)
{
    size_t width = 6;
    for (uint32_t i = 0; i < shown_count(s); i++)
        if (strlen(s->items[i].policy) > width)
            width = strlen(s->items[i].policy);
    return (int)width;
}

static void print_rows(const struct remat_divisions *s, struct remat_text *out)
{
    int width = plan_width(s);
    remat_text_append(out, "    %-14s  %-8s  %4s  %12s  %-*s  %10s  %*s/s  %10s\n", "mesh",
                      "sequence", "zero", "microbatches", width, "plan", "step", 12, s->unit,
                      "peak");
    for (uint32_t i = 0; i < shown_count(s); i++) {
        const struct remat_division_trial *d = &s->items[i];
        char mesh[REMAT_MESH_TEXT_BYTES];
        remat_mesh_print(&d->mesh, mesh);
        remat_text_append(
            out, "%3" PRIu32 " %-14s  %-8s  %4" PRIu32 "  %12" PRIu32 "  %-*s  %10s  ", i + 1,
            *mesh ? mesh : "-", d->sequence_parallel ? "parallel" : "-", d->zero, d->microbatches,
            width, d->policy, remat_time_text(d->step_ns).text);
        remat_text_append(out, "%14s  %10s%s\n", remat_rate_text(rate_of(s, d)).text,
                          remat_short_text(d->peak_bytes).text, i == 0 ? "  chosen" : "");
    }
}

/* "40 do not fit, 20 are slower" */
static void print_counts(const struct remat_divisions *s, struct remat_text *out)
{
    static const char *const names[] = {[REMAT_DIVISION_UNTRIED] = "not tried",
                                        [REMAT_DIVISION_PLANNED] = "planned",
                                        [REMAT_DIVISION_SLOWER] =
                                            "slower than these by their bounds",
                                        [REMAT_DIVISION_TOO_LARGE] = "too large",
                                        [REMAT_DIVISION_IMPOSSIBLE] = "not possible"};
    static const enum remat_division_outcome order[] = {
        REMAT_DIVISION_PLANNED, REMAT_DIVISION_SLOWER, REMAT_DIVISION_TOO_LARGE,
        REMAT_DIVISION_IMPOSSIBLE, REMAT_DIVISION_UNTRIED};
    remat_text_append(out, "%" PRIu32 " division%s of a step", s->count, s->count > 1 ? "s" : "");
    if (s->ranks > 1)
        remat_text_append(out, " among %" PRIu32 " ranks", s->ranks);
    for (size_t i = 0, shown = 0; i < sizeof order / sizeof *order; i++)
        if (s->counts[order[i]])
            remat_text_append(out, "%s%" PRIu32 " %s", shown++ ? ", " : ": ", s->counts[order[i]],
                              names[order[i]]);
    remat_text_append(out, "%s\n",
                      s->cut_short ? "; the search was cut short: a command may make a faster plan "
                                     "than its row says"
                                   : "");
    if (s->ranks > 1)
        remat_text_append(out, "%s/s are of all %" PRIu32 " ranks, the peak is of one\n", s->unit,
                          s->ranks);
}

static void print_reasons(const struct remat_divisions *s, struct remat_text *out)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (remat_divisions_has_new_reason(s, i))
            remat_text_append(out, REMAT_PROSE "not possible: %s: %s\n",
                              remat_division_options(&s->items[i]).text,
                              remat_divisions_reason(s, i));
}

static void print_commands(const struct remat_divisions *s, struct remat_text *out)
{
    for (uint32_t i = 0; i < shown_count(s); i++) {
        const struct remat_division_trial *d = &s->items[i];
        remat_text_append(out, "%3" PRIu32 " ", i + 1);
        remat_text_show(out, d->command);
        remat_text_append(out, "\n");
        for (enum remat_system k = 0; k < REMAT_SYSTEM_COUNT; k++) {
            const struct remat_manual *manual = remat_division_manual(d, k);
            if (!d->flags[k])
                continue;
            remat_text_append(out, "    %-10s  %s", remat_system_name(k), d->flags[k]);
            if (strcmp(manual->policy, d->policy) != 0)
                remat_text_append(out, "; %s a step, %.2f %% slower",
                                  remat_time_text(manual->step_ns).text,
                                  remat_percent_longer(manual->step_ns, d->step_ns, 2));
            remat_text_append(out, "\n");
        }
    }
}

void remat_divisions_text(const struct remat_divisions *s, struct remat_text *out)
{
    print_rows(s, out);
    print_counts(s, out);
    print_reasons(s, out);
    if (s->meshes)
        print_commands(s, out);
    remat_text_append(out, "Loss and gradients have the bits of the division chosen: %s\n\n",
                      remat_division_options(&s->items[0]).text);
}

static void print_string(const char *key, const char *text, struct remat_text *out)
{
    remat_text_append(out, ", \"%s\": ", key);
    remat_text_json(out, text);
}

static void print_json_row(const struct remat_divisions *s, const struct remat_division_trial *d,
                           struct remat_text *out)
{
    char mesh[REMAT_MESH_TEXT_BYTES];
    remat_mesh_print(&d->mesh, mesh);
    remat_text_append(out,
                      "{\"mesh\": \"%s\", \"sequence_parallel\": %s, \"zero\": %" PRIu32
                      ", \"microbatches\": %" PRIu32,
                      mesh, d->sequence_parallel ? "true" : "false", d->zero, d->microbatches);
    print_string("policy", d->policy, out);
    remat_text_append(out,
                      ", \"step_ns\": %" PRIu64 ", \"peak_bytes\": %" PRIu64 ", \"rate\": %.17g",
                      d->step_ns, d->peak_bytes, rate_of(s, d));
    print_string("command", d->command, out);
    remat_text_append(out, ", \"manuals\": [");
    for (uint32_t k = 0, shown = 0; k < REMAT_SYSTEM_COUNT; k++) {
        const struct remat_manual *manual = remat_division_manual(d, k);
        if (!d->flags[k])
            continue;
        remat_text_append(out, "%s{\"system\": \"%s\"", shown++ ? ", " : "", remat_system_name(k));
        print_string("policy", manual->policy, out);
        print_string("flags", d->flags[k], out);
        remat_text_append(out, ", \"step_ns\": %" PRIu64 "}", manual->step_ns);
    }
    remat_text_append(out, "]}");
}

void remat_divisions_json(const struct remat_divisions *s, struct remat_text *out)
{
    static const char *const names[] = {"untried", "planned", "slower", "too_large", "impossible"};
    remat_text_append(out,
                      "  \"divisions\": {\"ranks\": %" PRIu32 ", \"batch\": %" PRId64
                      ", \"count\": %" PRIu32,
                      s->ranks, s->batch, s->count);
    for (uint32_t k = 0; k < REMAT_DIVISION_OUTCOMES; k++)
        remat_text_append(out, ", \"%s\": %" PRIu32, names[k], s->counts[k]);
    print_string("unit", s->unit, out);
    remat_text_append(out, ", \"cut_short\": %s, \"best\": [", s->cut_short ? "true" : "false");
    for (uint32_t i = 0; i < shown_count(s); i++) {
        remat_text_append(out, "%s\n    ", i ? "," : "");
        print_json_row(s, &s->items[i], out);
    }
    remat_text_append(out, "]},\n");
}
