/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include "size.h"

#include <inttypes.h>
#include <stdio.h>

static void tell_of_plan(const remat_compile_progress *now)
{
    if (!now->best_ns)
        fprintf(stderr, ": no plan yet");
    else
        fprintf(stderr, ": step %s", remat_time_text(now->best_ns).text);
    if (now->best_ns && now->bound_ns)
        fprintf(stderr, ", at least %s, gap %.2f %%", remat_time_text(now->bound_ns).text,
                100 * ((double)now->best_ns / (double)now->bound_ns - 1));
}

static void tell_of_curve(const remat_compile_progress *now)
{
    fprintf(stderr, ", the curve: %" PRIu32 " of %" PRIu32 " decisions", now->seen_count,
            now->to_see_count);
    if (now->least_bytes)
        fprintf(stderr, ", fastest %s, smallest live peak %s", remat_time_text(now->best_ns).text,
                remat_short_text(now->least_bytes).text);
}

/* Sizes or divisions that have been looked at before. */
static void tell_of_attempts(const remat_compile_progress *now)
{
    fprintf(stderr, "; %" PRIu32 " of %" PRIu32 "%s seen", now->attempt_count,
            now->to_attempt_count, now->divisions ? " divisions" : "");
    if (now->divisions)
        fprintf(stderr, ", %" PRIu32 " planned", now->planned_count);
    if (now->best_attempt)
        fprintf(stderr, ", best %s: step %s", now->best_attempt,
                remat_time_text(now->best_attempt_ns).text);
}

static void tell(void *user, double elapsed)
{
    const remat_compile_progress *now = &((struct progress *)user)->now;
    bool one = !now->attempt || now->settled;
    fprintf(stderr, "remat-compile: %.0f s", elapsed);
    if (now->attempt)
        fprintf(stderr, ", %s", now->attempt);
    if (now->to_see_count)
        tell_of_curve(now);
    else if (now->best_ns || one)
        tell_of_plan(now);
    if (!one)
        tell_of_attempts(now);
    fputc('\n', stderr);
}

/* An interrupt leaves time to try what is likely smallest. */
static bool is_cancelled(void *user, const remat_compile_progress *now)
{
    struct progress *progress = user;
    progress->now = *now;
    return !now->abandons && cli_watch_over(&progress->watch);
}

remat_status progress_start(remat_context *ctx, remat_compile_options *options,
                            struct progress *progress)
{
    *progress = (struct progress){.watch = {.tell = tell, .user = progress}};
    remat_compile_options_watch(options, is_cancelled, progress);
    return cli_watch_start(ctx, NULL, &progress->watch);
}
