/* SPDX-License-Identifier: Apache-2.0 */
/* The table of matrix products as an untrusted file: what is written is read again, rows of others
 * stay as they are, and what is damaged is refused with its message and left alone. The text is
 * written here by hand. */
#include <gemm_table.h>

#include "check.h"
#include <counting.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH         "plan.gemm.json"
#define HEAD         "{\"schema\": \"remat-gemm/1\", \"rows\": [\n"
#define TAIL         "]}\n"
#define OURS         "{\"device\": \"a _GPU_ __\", \"cublaslt\": 120300, \"workspace_bytes\": 4096, "
#define FIRST        "00000000000000010000000000000002000000000000000300000000000000040000000000000005"
#define LAST         "0000000000000006000000000000000700000000deadbeef"
#define ALGORITHM    "\"algorithm\": \"" FIRST LAST "\"}"
#define ROW          OURS "\"gemm\": \"a b\", " ALGORITHM
#define OTHERS       "{\"device\": \"other\", \"anything\": []}"
#define NO_TABLE     PATH " is no table of matrix products: move it away"
#define EARLY        PATH " ends early: delete it"
#define AFTER        PATH " goes on after the table: move it away"
#define NO_ALGORITHM PATH ": the row for a b has no algorithm of 128 digits: delete the row"

static const char whole[] = HEAD OTHERS ",\n" ROW "\n" TAIL;
static const struct cublaslt_algorithm algorithm = {{1, 2, 3, 4, 5, 6, 7, 0xdeadbeef}};

static void put(const char *text, size_t bytes)
{
    FILE *file = fopen(PATH, "wb");
    CHECK(file && fwrite(text, 1, bytes, file) == bytes && fclose(file) == 0);
}

static bool holds(const char *text, size_t bytes)
{
    char found[4096];
    FILE *file = fopen(PATH, "rb");
    size_t count = file ? fread(found, 1, sizeof found, file) : 0;
    if (file)
        fclose(file);
    return file && count == bytes && memcmp(found, text, bytes) == 0;
}

static remat_status open_table(remat_context *ctx, struct remat_arena *arena, const char *path,
                               struct gemm_table *out)
{
    return gemm_table_open(ctx, arena, path, "a \"GPU\\ \n\x1b", 120300, 4096, out);
}

/* Opens the table, looks for "a b", adds another and saves. */
static remat_status use_with(remat_context *ctx, const char *path, const char *added, bool *found)
{
    remat_status st = REMAT_OK;
    struct remat_arena arena;
    struct gemm_table table;
    struct cublaslt_algorithm out;
    remat_arena_init(&arena, ctx);
    REMAT_TRY(open_table(ctx, &arena, path, &table));
    REMAT_TRY(gemm_table_find(&table, "a b", &out, found));
    CHECK(!*found || memcmp(&out, &algorithm, sizeof out) == 0);
    REMAT_TRY(gemm_table_save(&table)); /* nothing to write */
    REMAT_TRY(gemm_table_add(&table, added, &algorithm));
    REMAT_TRY(gemm_table_save(&table));
fail:
    remat_arena_release(&arena);
    return st;
}

static remat_status use(remat_context *ctx, const char *path, bool *found)
{
    return use_with(ctx, path, "c", found);
}

static void expect_use(const char *text, bool has, const char *after)
{
    bool found = false;
    remat_context *ctx = remat_context_create(NULL, NULL);
    put(text, strlen(text));
    remat_status st = use(ctx, PATH, &found);
    CHECK(st == REMAT_OK && found == has, "%s: %d %s", text, st,
          st ? remat_context_message(ctx) : "");
    CHECK(holds(after, strlen(after)), "%s: not %s", text, after);
    remat_context_destroy(&ctx);
}

static void expect_refusal(const char *text, size_t bytes, const char *message)
{
    bool found;
    remat_context *ctx = remat_context_create(NULL, NULL);
    put(text, bytes);
    remat_status st = use(ctx, PATH, &found);
    CHECK(st == REMAT_ERROR_INVALID && strcmp(remat_context_message(ctx), message) == 0,
          "%.*s\n%d: %s, not\n%s", (int)bytes, text, st, st ? remat_context_message(ctx) : "",
          message);
    CHECK(holds(text, bytes), "%.*s: written over", (int)bytes, text);
    remat_context_destroy(&ctx);
}

/* Cut anywhere: before the last line's end there is a message. */
static void check_truncated(void)
{
    for (size_t bytes = 0; bytes + strlen("\n") < strlen(whole); bytes++)
        expect_refusal(whole, bytes, bytes < strlen(HEAD) - 1 ? NO_TABLE : EARLY);
}

static void check_refusals(void)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"hello\n", NO_TABLE},
        {"[]\n" HEAD TAIL, NO_TABLE},
        {HEAD ROW "\n]}, \n", EARLY},
        {HEAD ROW "\n" TAIL "more\n", AFTER},
        {HEAD ROW "\n" TAIL HEAD TAIL, AFTER},
        {HEAD ROW ",\n" ROW "\n" TAIL, PATH ": two rows for a b: delete one"},
        {HEAD ROW ",\n" OTHERS ",\n" OURS "\"gemm\": \"a b\"}\n" TAIL,
         PATH ": two rows for a b: delete one"},
        {HEAD OURS "\"gemm\": \"a b\"}\n" TAIL, NO_ALGORITHM},
        {HEAD OURS "\"gemm\": \"a b\", \"algorithm\": \"\"}\n" TAIL, NO_ALGORITHM},
        {HEAD OURS "\"gemm\": \"a b\", \"algorithm\": \"" FIRST LAST "\n" TAIL, NO_ALGORITHM},
        {HEAD OURS "\"gemm\": \"a b\", \"algorithm\": \"" FIRST LAST "0\"}\n" TAIL, NO_ALGORITHM},
        {HEAD OURS "\"gemm\": \"a b\", \"algorithm\": \"" FIRST "\"}\n" TAIL, NO_ALGORITHM},
        {HEAD OURS "\"gemm\": \"a b\", \"algorithm\": \"0x" FIRST LAST "\"}\n" TAIL, NO_ALGORITHM},
        {HEAD OURS "\"gemm\": \"a b\", \"algorithm\": \"-" FIRST LAST "\"}\n" TAIL, NO_ALGORITHM},
        {HEAD ROW "}\n" TAIL, NO_ALGORITHM},
        {HEAD ROW "\r\n" TAIL, NO_ALGORITHM},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refusal(cases[i].text, strlen(cases[i].text), cases[i].message);
    char zero[sizeof whole + 4];
    memcpy(zero, whole, sizeof whole); /* with its 0 */
    memcpy(zero + sizeof whole, "more", 4);
    expect_refusal(zero, sizeof zero, NO_TABLE);
}

#define ADDED  OURS "\"gemm\": \"c\", " ALGORITHM "\n" TAIL
#define LONGER OURS "\"gemm\": \"a b c\"}" /* of another shape; its damage is not ours */

static void check_accepted(void)
{
    static const char added[] = HEAD OTHERS ",\n" ROW ",\n" ADDED;
    expect_use(whole, true, added);
    expect_use(HEAD OTHERS ",\n" ROW "\n]}", true, added);
    expect_use(added, true, added); /* its row is replaced, by itself */
    expect_use(HEAD TAIL, false, HEAD ADDED);
    expect_use(HEAD LONGER "\n" TAIL, false, HEAD LONGER ",\n" ADDED);
    expect_use(HEAD OTHERS ",\n" OTHERS "\n" TAIL, false, HEAD OTHERS ",\n" OTHERS ",\n" ADDED);
}

static int warnings;

static void count_warnings(void *user, remat_severity severity, const char *message)
{
    (void)user;
    warnings += severity == REMAT_SEVERITY_WARNING &&
                strstr(message, "the algorithms of matrix products are not kept: missing/table: ");
}

static void check_places(void)
{
    bool found;
    remat_logger logger = {.log = count_warnings};
    remat_context *ctx = remat_context_create(NULL, &logger);
    CHECK(use(ctx, NULL, &found) == REMAT_OK && !found);
    CHECK(use(ctx, "missing/table", &found) == REMAT_OK && !found && warnings == 1);
    CHECK(mkdir("folder", 0777) == 0 && use(ctx, "folder", &found) == REMAT_ERROR_IO);
    CHECK(strcmp(remat_context_message(ctx), "folder: not a regular file") == 0, "%s",
          remat_context_message(ctx));
    CHECK(unlink(PATH) == 0 && use(ctx, PATH, &found) == REMAT_OK && !found);
    CHECK(holds(HEAD ADDED, strlen(HEAD ADDED)));
    remat_context_destroy(&ctx);
}

/* With a row so long that it needs memory of its own. */
static void check_failing_allocations(void)
{
    char added[1 << 16];
    struct counting counting = {0};
    remat_allocator allocator = counting_allocator(&counting);
    uint64_t refused = 0;
    memset(added, 'c', sizeof added);
    added[sizeof added - 1] = 0;
    for (uint64_t total = 1; counting.fail_at <= total; counting.fail_at++) {
        bool found;
        put(whole, strlen(whole));
        counting.calls = 0;
        remat_context *ctx = remat_context_create(&allocator, NULL);
        remat_status st = ctx ? use_with(ctx, PATH, added, &found) : REMAT_ERROR_MEMORY;
        CHECK(st == REMAT_OK || (counting.fail_at && st == REMAT_ERROR_MEMORY), "%d", (int)st);
        CHECK(st == REMAT_OK || holds(whole, strlen(whole)));
        refused += st != REMAT_OK;
        total = counting.fail_at ? total : counting.calls;
        remat_context_destroy(&ctx);
        CHECK(counting.live_bytes == 0, "%llu", (unsigned long long)counting.live_bytes);
    }
    CHECK(refused > 0, "%llu", (unsigned long long)refused);
}

int main(void)
{
    char folder[] = "/tmp/remat_gemm_table_XXXXXX", command[64];
    CHECK(mkdtemp(folder) && chdir(folder) == 0);
    check_truncated();
    check_refusals();
    check_accepted();
    check_places();
    check_failing_allocations();
    CHECK(chdir("/") == 0);
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(system(command) == 0);
    return check_exit();
}
