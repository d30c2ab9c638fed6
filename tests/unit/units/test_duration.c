/* SPDX-License-Identifier: Apache-2.0 */
/* Times as --time-limit and --stop-after take them. */
#include "check.h"
#include "cli.h"
#include "size.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *text;
    double seconds; /* 0: refused */
} cases[] = {
    {"500ms", 0.5},
    {"1ms", 1e-3},
    {"10s", 10},
    {"10", 10},
    {"0.25", 0.25},
    {"2min", 120},
    {"2m", 120},
    {"3h", 10800},
    {"1.5h", 5400},
    {"3h50m", 13800},
    {"1h0min2s500ms", 3602.5},
    {"1000000s", 1e6},
    {"", 0},
    {"0", 0},
    {"0.5ms", 0},
    {"1000001s", 0},
    {"278h", 0},
    {"1e999", 0},
    {"inf", 0},
    {"nan", 0},
    {"-1s", 0},
    {"+1s", 0},
    {" 1s", 0},
    {"1s ", 0},
    {"1 s", 0},
    {".5s", 0},
    {"s", 0},
    {"1d", 0},
    {"1H", 0},
    {"1mins", 0},
    {"1h30", 0},
    {"30 1h", 0},
    {"50m3h", 0},
    {"1h1h", 0},
    {"1m1min", 0},
};

int main(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        remat_context *ctx = remat_context_create(NULL, NULL);
        double seconds = 0;
        char said[96];
        MUST(ctx);
        remat_status st = remat_duration_parse(ctx, "--limit", cases[i].text, &seconds);
        snprintf(said, sizeof said, "--limit '%s' is not a time (accepted: 1ms to 1000000s, ",
                 cases[i].text);
        if (cases[i].seconds > 0)
            CHECK(st == REMAT_OK && fabs(seconds - cases[i].seconds) < 1e-9, "%s: %d, %g",
                  cases[i].text, st, seconds);
        else
            CHECK(st == REMAT_ERROR_USAGE && strstr(remat_context_message(ctx), said), "%s: %d, %s",
                  cases[i].text, st, remat_context_message(ctx));
        remat_context_destroy(&ctx);
    }
    return check_exit();
}
