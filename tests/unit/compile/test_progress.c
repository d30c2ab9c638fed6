/* SPDX-License-Identifier: Apache-2.0 */
/* When --time-limit ends a search, or a run without a plan, by a clock that the test sets. A plan
 * is lowered and written after its search, which takes one and a half times as long as everything
 * before the first question, writing alone two fifths. */
#include "check.h"
#include "options.h"
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

enum { FOR_BUDGET = 1, FOR_CURVE = 2, FOR_SIZE = 4, BY_POLICY = 8 };

static const struct {
    const char *limit;
    int what;
    double first, last, over; /* seconds: first question, the last "no", the first "yes" */
    double seconds;           /* the limit; 0: none */
} cases[] = {
    {"10s", FOR_BUDGET, 2, 6.75, 7, 10},
    {"10s", FOR_BUDGET, 0, 9.75, 10, 10},
    {"10s", FOR_BUDGET, 7, -1, 7, 10},
    {"10s", FOR_CURVE, 4, 9.75, 10, 10},
    {"10s", FOR_BUDGET | FOR_CURVE, 4, 9.75, 10, 10},
    {"10s", FOR_BUDGET | FOR_SIZE, 4, 9.75, 10, 10},
    {"2min", FOR_BUDGET, 16, 95, 96, 120},
    {"500ms", FOR_BUDGET, 0.125, 0.25, 0.375, 0.5},
    {NULL, FOR_BUDGET, 4, 1e6, -1, 0},
};

static remat_status start(remat_context *ctx, const char *limit, int what,
                          struct remat_compile_settings *settings, struct progress *progress)
{
    struct cli_given given[3];
    struct remat_setting bind = {"bind", "batch=auto:1..8"};
    struct remat_asked asked = {.items = &bind, .count = what & FOR_SIZE ? 1 : 0};
    static const struct cli_tool tool = {.option_count = OPTION_COUNT};
    struct cli_arguments args = {.tool = &tool, .given = given};
    if (limit)
        given[args.given_count++] = (struct cli_given){OPTION_time_limit, limit};
    if (what & FOR_CURVE)
        given[args.given_count++] = (struct cli_given){OPTION_curve, "curve.json"};
    settings->search.has_budget = what & FOR_BUDGET;
    settings->search.policy.recompute_granularity = what & BY_POLICY ? "full" : NULL;
    now_seconds = 100; /* the clock may begin anywhere */
    return progress_start(ctx, &args, &asked, settings, progress);
}

/* Half a second after the limit, but for what writing is expected to take. */
static void check_late(const struct remat_compile_settings *settings, size_t row, double writing)
{
    double limit = cases[row].seconds;
    for (double after = 0.25; after <= 0.75; after += 0.125) {
        now_seconds = 100 + limit + after - writing;
        CHECK(after == 0.5 ||
                  settings->is_late(settings->search.is_over_user) == (limit > 0 && after > 0.5),
              "case %zu: late %.2f s after the limit less %.2f s, or not", row, after, writing);
    }
}

static void check_case(remat_context *ctx, size_t row)
{
    const struct remat_search_state state = {0};
    struct remat_compile_settings settings = {0};
    struct progress progress;
    MUST_OK(ctx, start(ctx, cases[row].limit, cases[row].what, &settings, &progress), "%zu", row);
    check_late(&settings, row, 0);
    now_seconds = 100 + cases[row].first;
    bool over = settings.search.is_over(settings.search.is_over_user, &state);
    CHECK(over == (cases[row].over == cases[row].first), "case %zu: the first question", row);
    if (cases[row].last >= 0) {
        now_seconds = 100 + cases[row].last;
        CHECK(!settings.search.is_over(settings.search.is_over_user, &state), "case %zu: too early",
              row);
    }
    if (cases[row].over >= 0) {
        now_seconds = 100 + cases[row].over;
        CHECK(settings.search.is_over(settings.search.is_over_user, &state), "case %zu: too late",
              row);
    }
    check_late(&settings, row, cases[row].what == FOR_BUDGET ? 0.4 * cases[row].first : 0);
}

/* Bytes of progress after two seconds, with a terminal or a pipe as standard error. */
static ssize_t count_told(remat_context *ctx, bool terminal)
{
    const struct remat_search_state state = {0};
    struct remat_compile_settings settings = {0};
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
    CHECK_OK(ctx, start(ctx, NULL, FOR_BUDGET, &settings, &progress));
    now_seconds = 102;
    (void)settings.search.is_over(settings.search.is_over_user, &state);
    fflush(stderr);
    ssize_t told = read(reader, text, sizeof text);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(writer);
    close(reader);
    return told;
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_compile_settings settings = {0};
    struct progress progress;
    for (size_t row = 0; row < sizeof cases / sizeof *cases; row++)
        check_case(ctx, row);
    CHECK_STATUS(ctx, start(ctx, "10s", 0, &settings, &progress), REMAT_ERROR_USAGE,
                 "needs a search");
    CHECK_STATUS(ctx, start(ctx, "10s", FOR_BUDGET | BY_POLICY, &settings, &progress),
                 REMAT_ERROR_USAGE, "needs a search");
    CHECK_OK(ctx, start(ctx, NULL, FOR_BUDGET | BY_POLICY, &settings, &progress));
    CHECK(!settings.search.is_over && !settings.is_late, "no search, but a question");
    CHECK(count_told(ctx, true) > 0, "no progress on a terminal");
    CHECK(count_told(ctx, false) <= 0, "progress on a pipe");
    remat_context_destroy(&ctx);
    return check_exit();
}
