/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include "line.h"
#include "size.h"

#include <inttypes.h>
#include <time.h>

enum { STEP, LOSS, RATE, UTILIZATION, LEFT, PARTS };
static const int least_needed_first[] = {UTILIZATION, RATE, LEFT, LOSS};

struct line_parts {
    char text[PARTS][REMAT_UNIT_TEXT_BYTES]; /* "": left out */
};

uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static size_t join_parts(const struct line_parts *parts, char *out, size_t capacity)
{
    size_t length = 0;
    for (int p = 0; p < PARTS; p++)
        if (*parts->text[p])
            length += (size_t)snprintf(out + length, capacity - length, "%s%s", length ? "  " : "",
                                       parts->text[p]);
    return length;
}

static void show(struct line_parts *parts)
{
    char line[PARTS * (REMAT_UNIT_TEXT_BYTES + 2)];
    size_t room = cli_line_room(), length = join_parts(parts, line, sizeof line);
    for (size_t i = 0; length > room && i < sizeof least_needed_first / sizeof(int); i++) {
        *parts->text[least_needed_first[i]] = 0;
        length = join_parts(parts, line, sizeof line);
    }
    line[length < room ? length : room] = 0;
    cli_line_show(line);
}

static void append_step(const struct step_progress *s, uint64_t done, struct line_parts *out)
{
    snprintf(out->text[STEP], sizeof *out->text, "step %" PRIu64 "/%" PRIu64, done, s->end);
}

/* The first step is slower than others, which say how long what is left takes. */
static uint64_t seconds_left(const struct step_progress *s, uint64_t done, uint64_t now)
{
    uint64_t others = done - s->begin - 1;
    uint64_t mean_ns = others ? (now - s->first_ns) / others : now - s->start_ns;
    double left_ns = (double)mean_ns * (double)(s->end - done);
    if (s->stop_ns != UINT64_MAX && left_ns > (double)s->stop_ns - (double)now)
        left_ns = s->stop_ns > now ? (double)(s->stop_ns - now) : 0;
    return (uint64_t)(left_ns / 1e9);
}

static void append_left(uint64_t seconds, struct line_parts *out)
{
    uint64_t minutes = seconds / 60, hours = minutes / 60;
    if (hours)
        snprintf(out->text[LEFT], sizeof *out->text, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64 " left",
                 hours, minutes % 60, seconds % 60);
    else
        snprintf(out->text[LEFT], sizeof *out->text, "%" PRIu64 ":%02" PRIu64 " left", minutes,
                 seconds % 60);
}

void progress_start(struct step_progress *s)
{
    struct line_parts parts = {0};
    s->shows = cli_line_possible();
    s->start_ns = s->first_ns = clock_ns();
    append_step(s, s->begin, &parts);
    if (s->shows && s->begin < s->end)
        show(&parts);
}

void progress_update(struct step_progress *s, uint64_t done, float loss, double tokens_per_s,
                     uint64_t ns)
{
    struct line_parts parts = {0};
    uint64_t now = clock_ns();
    if (done == s->begin + 1)
        s->first_ns = now;
    if (!s->shows)
        return;
    append_step(s, done, &parts);
    snprintf(parts.text[LOSS], sizeof *parts.text, "loss %.4f", (double)loss);
    snprintf(parts.text[RATE], sizeof *parts.text, "%.32s tokens/s",
             remat_rate_text(tokens_per_s).text);
    if (s->model_ns)
        snprintf(parts.text[UTILIZATION], sizeof *parts.text, "MFU %.1f %%",
                 100 * (double)s->model_ns / (double)(ns + 1));
    append_left(seconds_left(s, done, now), &parts);
    show(&parts);
}
