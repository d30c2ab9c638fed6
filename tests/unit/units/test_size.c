/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes as --budget takes them; shares of time, of which none is printed as -0. */
#include "check.h"
#include "cli.h"
#include "size.h"

#include <string.h>

static const struct {
    const char *text;
    uint64_t bytes;   /* 0: refused */
    const char *said; /* in the message */
} cases[] = {
    {"80GB", 80000000000, NULL},
    {"80GiB", 85899345920, NULL},
    {"4096", 4096, NULL},
    {"4096B", 4096, NULL},
    {"1.5MB", 1500000, NULL},
    {"2.2GB", 2200000000, NULL},
    {"0.5kib", 512, NULL},
    {"1e", 0, "unknown unit 'e'"},
    {"2.2 GB", 2200000000, NULL},
    {"1tb", 1000000000000, NULL},
    {"0.1TiB", 109951162777, NULL},
    {"0.123456789123456789GB", 123456789, NULL},
    {"50%", 500, NULL},
    {"12.5%", 125, NULL},
    {"80G", 0, "write 80GB (80,000,000,000 B) or 80GiB (85,899,345,920 B)"},
    {"1.5m", 0, "write 1.5MB (1,500,000 B) or 1.5MiB (1,572,864 B)"},
    {"0", 0, "is zero"},
    {"0.0000001kB", 0, "is zero"},
    {"-1GB", 0, "is negative"},
    {"99999999999999999999", 0, "too large"},
    {"9999999999TB", 0, "too large"},
    {"80GBx", 0, "unknown unit 'GBx'"},
    {"80 ", 0, "unknown unit"},
    {"80  GB", 0, "unknown unit"},
    {"1.5", 0, "must be whole"},
    {".5GB", 0, "is not a size"},
    {"5.GB", 0, "is not a size"},
    {"", 0, "is not a size"},
    {"GB", 0, "is not a size"},
    {"0x10", 0, "unknown unit"},
    {"101%", 0, "out of range"},
    {"0%", 0, "is zero"},
};

static const struct {
    uint64_t ns, than_ns;
    int digits;
    const char *text;
} longer[] = {
    {1005, 1000, 2, "+0.50"},    {995, 1000, 1, "-0.5"},      {99999, 100000, 2, "+0.00"},
    {99996, 100000, 2, "+0.00"}, {99994, 100000, 2, "-0.01"}, {9996, 10000, 1, "+0.0"},
    {9994, 10000, 1, "-0.1"},    {7, 0, 2, "+0.00"},
};

static void test_longer(void)
{
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++) {
        char text[32];
        snprintf(text, sizeof text, "%+.*f", longer[i].digits,
                 remat_percent_longer(longer[i].ns, longer[i].than_ns, longer[i].digits));
        CHECK(strcmp(text, longer[i].text) == 0, "case %zu: %s", i, text);
    }
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    test_longer();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t bytes = 0;
        remat_status st = remat_size_parse(ctx, "--budget", cases[i].text, 1000, false, &bytes);
        const char *message = remat_context_message(ctx);
        if (cases[i].bytes)
            CHECK(st == REMAT_OK && bytes == cases[i].bytes, "%s: %llu %s", cases[i].text,
                  (unsigned long long)bytes, message);
        else
            CHECK(st == REMAT_ERROR_USAGE && strstr(message, cases[i].said) &&
                      strstr(message, "--budget"),
                  "%s: '%s'", cases[i].text, message);
    }
    uint64_t bytes;
    CHECK_STATUS(ctx, remat_size_parse(ctx, "--budget", "50%", 0, false, &bytes), REMAT_ERROR_USAGE,
                 "", "no capacity");
    CHECK(remat_size_parse(ctx, "--reserve", "0", 0, true, &bytes) == REMAT_OK && bytes == 0,
          "zero");
    CHECK_STATUS(ctx, remat_size_parse(ctx, "--reserve", "-1", 0, true, &bytes), REMAT_ERROR_USAGE,
                 "accepted: a size, or 0");
    CHECK(strcmp(remat_exact_text(2200000000).text, "2,200,000,000 B (2.05 GiB)") == 0, "exact");
    CHECK(strcmp(remat_exact_text(999).text, "999 B") == 0, "small");
    CHECK(strcmp(remat_brief_text(2200000000).text, "2.2 GB") == 0, "%s",
          remat_brief_text(2200000000).text);
    CHECK(strcmp(remat_brief_text(80000000000).text, "80 GB") == 0, "%s",
          remat_brief_text(80000000000).text);
    CHECK(strcmp(remat_short_text(2200000000).text, "2.20 GB") == 0, "short");
    static const struct {
        uint64_t bytes;
        const char *text;
    } enough[] = {{0, "0 B"},
                  {999, "999 B"},
                  {1000, "1.00 kB"},
                  {1001, "1.01 kB"},
                  {9990001, "10.0 MB"},
                  {99900001, "100 MB"},
                  {999000001, "1.00 GB"},
                  {1994239232, "2.00 GB"},
                  {138873088, "139 MB"},
                  {138000001, "139 MB"},
                  {74500000001, "74.6 GB"}};
    for (size_t i = 0; i < sizeof enough / sizeof *enough; i++) {
        struct remat_unit_text found = remat_enough_text(enough[i].bytes);
        CHECK(strcmp(found.text, enough[i].text) == 0, "%s, not %s", found.text, enough[i].text);
    }
    CHECK(strcmp(remat_exact_text(UINT64_MAX).text,
                 "18,446,744,073,709,551,615 B (16777216 TiB)") == 0,
          "%s", remat_exact_text(UINT64_MAX).text);
    CHECK(strcmp(remat_time_text(12345678).text, "12.3 ms") == 0, "%s",
          remat_time_text(12345678).text);
    remat_context_destroy(&ctx);
    return check_exit();
}
