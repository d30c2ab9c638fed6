/* SPDX-License-Identifier: Apache-2.0 */
/* What people are shown of text that others wrote: every control character by itself, messages and
 * log lines, and where they are cut. */
#include "check.h"
#include "show.h"

#include <base.h>

static const struct {
    const char *text, *shown;
} cases[] = {
    {"", ""},
    {"h.0/attn \\n \"caf\xc3\xa9\" \xe2\x82\xac \xf0\x9f\x99\x82", NULL}, /* NULL: as it is */
    {"\x1b[31m", "\\u001b[31m"},
    {"a\nb\rc\td\x01", "a\\nb\\rc\\td\\u0001"},
    {"\x7f", "\\u007f"},
    {"\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0", "\\u0080\\u009b\\u009f\xc2\xa0"},
    {"\x9b\x80", "\\x9b\\x80"},
    {"\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xae\xe2\x80\xaf", "\xe2\x80\xa7\\u2028\\u202e\xe2\x80\xaf"},
    {"\xe2\x81\xa5\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaa", "\xe2\x81\xa5\\u2066\\u2069\xe2\x81\xaa"},
    {"\xc0\x8a", "\\xc0\\x8a"},                   /* overlong \n */
    {"\xe0\x80\x8a", "\\xe0\\x80\\x8a"},          /* again */
    {"\xf0\x80\x82\x9b", "\\xf0\\x80\\x82\\x9b"}, /* overlong C1 */
    {"\xed\xa0\x80", "\\xed\\xa0\\x80"},          /* a surrogate */
    {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"}, /* beyond U+10FFFF */
    {"\xff\xf5", "\\xff\\xf5"},
    {"\xe2\x82", "\\xe2\\x82"}, /* ends early */
    {"\xe2\x82(", "\\xe2\\x82("},
};

static char logged[2048];

static void keep(void *user, remat_severity severity, const char *text)
{
    (void)user, (void)severity;
    snprintf(logged, sizeof logged, "%s", text);
}

static void test_characters(remat_context *ctx)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *expected = cases[i].shown ? cases[i].shown : cases[i].text;
        struct remat_arena arena;
        remat_arena_init(&arena, ctx);
        struct remat_text text = {.arena = &arena};
        remat_text_append(&text, "%s", "");
        remat_text_show(&text, cases[i].text);
        CHECK(strcmp(text.items, expected) == 0, "case %zu as text: %s", i, text.items);
        for (int again = 0; again < 2; again++) {
            const char *given = again ? remat_context_message(ctx) : cases[i].text;
            (void)remat_error(ctx, REMAT_ERROR_OTHER, "%s", given);
            CHECK(strcmp(remat_context_message(ctx), expected) == 0, "case %zu: %s", i,
                  remat_context_message(ctx));
        }
        remat_log(ctx, REMAT_SEVERITY_INFO, "%s", cases[i].text);
        CHECK(strcmp(logged, expected) == 0, "case %zu, logged: %s", i, logged);
        remat_arena_release(&arena);
    }
}

/* Of what does not fit, whole characters and whole escapes remain. */
static void test_cuts(remat_context *ctx)
{
    static const struct {
        const char *unit, *shown;
    } units[] = {{"\xc3\xa9", "\xc3\xa9"},
                 {"\xe2\x82\xac", "\xe2\x82\xac"},
                 {"\xf0\x9f\x99\x82", "\xf0\x9f\x99\x82"},
                 {"\x1b", "\\u001b"},
                 {"\x9b", "\\x9b"}};
    for (size_t u = 0; u < sizeof units / sizeof *units; u++)
        for (int before = 0; before < 6; before++) {
            char text[8192] = "aaaaaa";
            size_t length = strlen(units[u].shown), expected = 0;
            for (int i = 0; i < 1500; i++)
                strcpy(text + before + (size_t)i * strlen(units[u].unit), units[u].unit);
            (void)remat_error(ctx, REMAT_ERROR_OTHER, "%s", text);
            const char *message = remat_context_message(ctx);
            size_t rest = strlen(message) - (size_t)before;
            for (expected = 0;
                 expected < rest && !strncmp(message + before + expected, units[u].shown, length);)
                expected += length;
            CHECK(rest == expected, "unit %zu after %d: a part of it is at the end", u, before);
            CHECK(strlen(message) + length >= REMAT_MESSAGE_BYTES, "unit %zu: %zu bytes", u,
                  strlen(message));
        }
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, &(remat_logger){keep, NULL});
    test_characters(ctx);
    test_cuts(ctx);
    remat_context_destroy(&ctx);
    return check_exit();
}
