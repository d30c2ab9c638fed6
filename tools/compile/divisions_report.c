/* SPDX-License-Identifier: Apache-2.0 */
#include "divisions_report.h"

#include "cli.h"
#include "mesh.h"
#include "size.h"
#include "wrap.h"

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

static void print_rows(const struct remat_divisions *s)
{
    int width = plan_width(s);
    printf("    %-14s  %-8s  %4s  %12s  %-*s  %10s  %*s/s  %10s\n", "mesh", "sequence", "zero",
           "microbatches", width, "plan", "step", 12, s->unit, "peak");
    for (uint32_t i = 0; i < shown_count(s); i++) {
        const struct remat_division_trial *d = &s->items[i];
        char mesh[REMAT_MESH_TEXT_BYTES];
        remat_mesh_print(&d->mesh, mesh);
        printf("%3" PRIu32 " %-14s  %-8s  %4" PRIu32 "  %12" PRIu32 "  %-*s  %10s  ", i + 1,
               *mesh ? mesh : "-", d->sequence_parallel ? "parallel" : "-", d->zero,
               d->microbatches, width, d->policy, remat_time_text(d->step_ns).text);
        printf("%14s  %10s%s\n", remat_rate_text(rate_of(s, d)).text,
               remat_short_text(d->peak_bytes).text, i == 0 ? "  chosen" : "");
    }
}

/* "40 do not fit, 20 are slower" */
static void print_counts(const struct remat_divisions *s)
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
    printf("%" PRIu32 " division%s of a step", s->count, s->count > 1 ? "s" : "");
    if (s->ranks > 1)
        printf(" among %" PRIu32 " ranks", s->ranks);
    for (size_t i = 0, shown = 0; i < sizeof order / sizeof *order; i++)
        if (s->counts[order[i]])
            printf("%s%" PRIu32 " %s", shown++ ? ", " : ": ", s->counts[order[i]], names[order[i]]);
    printf("%s\n", s->cut_short ? "; the search was cut short: a command may make a faster plan "
                                  "than its row says"
                                : "");
    if (s->ranks > 1)
        printf("%s/s are of all %" PRIu32 " ranks, the peak is of one\n", s->unit, s->ranks);
}

static void print_reasons(const struct remat_divisions *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (remat_divisions_has_new_reason(s, i))
            cli_print(stdout, "not possible: %s: %s\n", remat_division_options(&s->items[i]).text,
                      remat_divisions_reason(s, i));
}

static void print_commands(const struct remat_divisions *s)
{
    for (uint32_t i = 0; i < shown_count(s); i++) {
        const struct remat_division_trial *d = &s->items[i];
        printf("%3" PRIu32 " ", i + 1);
        cli_show(stdout, d->command);
        putchar('\n');
        for (enum remat_system k = 0; k < REMAT_SYSTEM_COUNT; k++) {
            const struct remat_manual *manual = remat_division_manual(d, k);
            if (!d->flags[k])
                continue;
            printf("    %-10s  %s", remat_system_name(k), d->flags[k]);
            if (strcmp(manual->policy, d->policy) != 0)
                printf("; %s a step, %.2f %% slower", remat_time_text(manual->step_ns).text,
                       remat_percent_longer(manual->step_ns, d->step_ns, 2));
            putchar('\n');
        }
    }
}

void divisions_print_text(const struct remat_divisions *s)
{
    print_rows(s);
    print_counts(s);
    print_reasons(s);
    if (s->meshes)
        print_commands(s);
    printf("Loss and gradients have the bits of the division chosen: %s\n\n",
           remat_division_options(&s->items[0]).text);
}

static void print_string(const char *key, const char *text)
{
    printf(", \"%s\": ", key);
    cli_show_json(stdout, text);
}

static void print_json_row(const struct remat_divisions *s, const struct remat_division_trial *d)
{
    char mesh[REMAT_MESH_TEXT_BYTES];
    remat_mesh_print(&d->mesh, mesh);
    printf("{\"mesh\": \"%s\", \"sequence_parallel\": %s, \"zero\": %" PRIu32
           ", \"microbatches\": %" PRIu32,
           mesh, d->sequence_parallel ? "true" : "false", d->zero, d->microbatches);
    print_string("policy", d->policy);
    printf(", \"step_ns\": %" PRIu64 ", \"peak_bytes\": %" PRIu64 ", \"rate\": %.17g", d->step_ns,
           d->peak_bytes, rate_of(s, d));
    print_string("command", d->command);
    printf(", \"manuals\": [");
    for (uint32_t k = 0, shown = 0; k < REMAT_SYSTEM_COUNT; k++) {
        const struct remat_manual *manual = remat_division_manual(d, k);
        if (!d->flags[k])
            continue;
        printf("%s{\"system\": \"%s\"", shown++ ? ", " : "", remat_system_name(k));
        print_string("policy", manual->policy);
        print_string("flags", d->flags[k]);
        printf(", \"step_ns\": %" PRIu64 "}", manual->step_ns);
    }
    printf("]}");
}

void divisions_print_json(const struct remat_divisions *s)
{
    static const char *const names[] = {"untried", "planned", "slower", "too_large", "impossible"};
    printf("  \"divisions\": {\"ranks\": %" PRIu32 ", \"batch\": %" PRId64 ", \"count\": %" PRIu32,
           s->ranks, s->batch, s->count);
    for (uint32_t k = 0; k < REMAT_DIVISION_OUTCOMES; k++)
        printf(", \"%s\": %" PRIu32, names[k], s->counts[k]);
    print_string("unit", s->unit);
    printf(", \"cut_short\": %s, \"best\": [", s->cut_short ? "true" : "false");
    for (uint32_t i = 0; i < shown_count(s); i++) {
        printf("%s\n    ", i ? "," : "");
        print_json_row(s, &s->items[i]);
    }
    printf("]},\n");
}
