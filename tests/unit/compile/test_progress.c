/* SPDX-License-Identifier: Apache-2.0 */
/* When --time-limit ends a search, or a run without a plan, by a clock that the test sets. A plan
 * is lowered and written after its search, which takes one and a half times as long as everything
 * before the first question, writing alone two fifths. */
#include "check.h"
#include "library.h"
#include "progress.h"

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now_seconds;

int __wrap_clock_gettime(clockid_t clock, struct timespec *out); /* in place of the libc's */
int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    (void)clock;
    *out = (struct timespec){(time_t)now_seconds, (long)(now_seconds * 1e9) % 1000000000};
    return 0;
}

enum { FOR_PLAN = 1, FOR_CHOICE = 0 };

static const struct {
    const char *limit;
    int what;
    double first, last, over; /* seconds: first question, the last "no", the first "yes" */
    double seconds;           /* the limit; 0: none */
} cases[] = {
    {"10s", FOR_PLAN, 2, 6.75, 7, 10},   {"10s", FOR_PLAN, 0, 9.75, 10, 10},
    {"10s", FOR_PLAN, 7, -1, 7, 10},     {"10s", FOR_CHOICE, 4, 9.75, 10, 10},
    {"2min", FOR_PLAN, 16, 95, 96, 120}, {"500ms", FOR_PLAN, 0.125, 0.25, 0.375, 0.5},
};

static remat_compile_options *set(remat_context *ctx, const char *limit)
{
    remat_compile_options *options;
    MUST_OK(ctx, remat_compile_options_create(ctx, &options), "options");
    now_seconds = 100; /* the clock may begin anywhere */
    if (limit)
        MUST_OK(ctx, remat_compile_options_set(options, "time-limit", limit), "%s", limit);
    return options;
}

/* Half a second after the limit, but for what writing is expected to take. */
static void check_late(const struct remat_compile_settings *settings, size_t row, double writing)
{
    double limit = cases[row].seconds, grace = 0.5;
    for (double after = 0.25; after <= 0.75; after += 0.125) {
        now_seconds = 100 + limit + after - writing;
        CHECK(after == grace || settings->is_late(settings->search.is_over_user) == (after > grace),
              "case %zu: late %.2f s after the limit less %.2f s, or not", row, after, writing);
    }
}

static void check_case(remat_context *ctx, size_t row)
{
    const struct remat_search_state state = {0};
    struct remat_arena arena;
    struct remat_request r = {.ctx = ctx, .arena = &arena};
    remat_arena_init(&arena, ctx);
    remat_compile_options *options = set(ctx, cases[row].limit);
    remat_watch_request(options, cases[row].what == FOR_PLAN, &r);
    const struct remat_compile_settings *settings = &r.settings;
    check_late(settings, row, 0);
    now_seconds = 100 + cases[row].first;
    bool over = settings->search.is_over(settings->search.is_over_user, &state);
    CHECK(over == (cases[row].over == cases[row].first), "case %zu: the first question", row);
    if (cases[row].last >= 0) {
        now_seconds = 100 + cases[row].last;
        CHECK(!settings->search.is_over(settings->search.is_over_user, &state),
              "case %zu: too early", row);
    }
    now_seconds = 100 + cases[row].over;
    CHECK(settings->search.is_over(settings->search.is_over_user, &state), "case %zu: too late",
          row);
    check_late(settings, row, cases[row].what == FOR_PLAN ? 0.4 * cases[row].first : 0);
    remat_compile_options_destroy(&options);
    remat_arena_release(&arena);
}

/* Bytes of progress after two seconds, with a terminal or a pipe as standard error. */
static ssize_t count_told(remat_context *ctx, bool terminal)
{
    const remat_compile_progress now = {.struct_size = sizeof now};
    remat_compile_options *options = set(ctx, NULL);
    struct progress progress;
    char text[256];
    int reader = -1, writer, kept = dup(STDERR_FILENO), ends[2];
    if (terminal) {
        reader = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
        MUST(reader >= 0 && grantpt(reader) == 0 && unlockpt(reader) == 0, "no terminal");
        writer = open(ptsname(reader), O_WRONLY | O_NOCTTY);
    } else {
        MUST(pipe2(ends, O_NONBLOCK) == 0, "no pipe");
        reader = ends[0];
        writer = ends[1];
    }
    dup2(writer, STDERR_FILENO);
    CHECK_OK(ctx, progress_start(ctx, options, &progress));
    now_seconds = 102;
    CHECK(!options->is_cancelled(options->user, &now), "it is cancelled");
    fflush(stderr);
    ssize_t told = read(reader, text, sizeof text);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(writer);
    close(reader);
    remat_compile_options_destroy(&options);
    return told;
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    for (size_t row = 0; row < sizeof cases / sizeof *cases; row++)
        check_case(ctx, row);
    CHECK(count_told(ctx, true) > 0, "no progress on a terminal");
    CHECK(count_told(ctx, false) <= 0, "progress on a pipe");
    remat_context_destroy(&ctx);
    return check_exit();
}
