/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void progress_start(struct step_progress *progress, uint64_t begin, uint64_t end)
{
    uint64_t now = clock_ns();
    *progress = (struct step_progress){
        .terminal = isatty(STDERR_FILENO) == 1, .start_ns = now, .begin = begin, .end = end};
}

void progress_update(struct step_progress *progress, uint64_t done, float loss, double tokens_per_s)
{
    uint64_t now = clock_ns();
    if (!progress->terminal)
        return;
    uint64_t left_s =
        (now - progress->start_ns) / (done - progress->begin) * (progress->end - done) / 1000000000;
    progress_clear(progress);
    fprintf(stderr,
            "step %" PRIu64 "/%" PRIu64 "  loss %.4f  %.0f tokens/s  %" PRIu64 ":%02" PRIu64
            " left",
            done, progress->end, (double)loss, tokens_per_s, left_s / 60, left_s % 60);
    fflush(stderr);
    progress->shown = true;
}

void progress_clear(struct step_progress *progress)
{
    if (progress->shown)
        fputs("\r\033[K", stderr);
    progress->shown = false;
}
