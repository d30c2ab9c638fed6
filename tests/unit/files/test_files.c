/* SPDX-License-Identifier: Apache-2.0 */
/* A set of outputs by itself: what is asked for is written at the commit and nothing else, a commit
 * that fails half-way is undone, each allocation in turn fails; no descriptor is left open. */
#include "check.h"

#include <counting.h>
#include <dirent.h>
#include <files.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define OLD "old"

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    CHECK(file && fputs(text, file) >= 0);
    fclose(file);
}

static bool holds(const char *path, const char *text)
{
    char found[64] = "";
    FILE *file = fopen(path, "rb");
    size_t bytes = file ? fread(found, 1, sizeof found - 1, file) : 0;
    if (file)
        fclose(file);
    return file && bytes == strlen(text) && strcmp(found, text) == 0;
}

static int count_entries(const char *path)
{
    int count = 0;
    DIR *listing = opendir(path);
    while (listing && readdir(listing))
        count++;
    if (listing)
        closedir(listing);
    return count;
}

/* "a" and "b" are there, "new" and "folder" are not; "unasked" is claimed but not written. */
static remat_status write_all(remat_context *ctx, const char *spoil, bool commit)
{
    remat_status st = REMAT_OK;
    struct remat_outputs *set = NULL;
    FILE *stream;
    REMAT_TRY(remat_outputs_create(ctx, &set));
    REMAT_TRY(remat_outputs_input(set, "INPUT", "input"));
    REMAT_TRY(remat_outputs_claim(set, "--a", "a"));
    REMAT_TRY(remat_outputs_claim(set, "--new", "new"));
    REMAT_TRY(remat_outputs_claim(set, "--unasked", "unasked"));
    REMAT_TRY(remat_outputs_claim_folder(set, "--folder", "folder"));
    REMAT_TRY(remat_outputs_claim(set, "--b", "b"));
    REMAT_TRY(remat_outputs_stream(set, "a", &stream));
    fputs("first, ", stream);
    REMAT_TRY(remat_outputs_write(set, "a", "then", 4));
    REMAT_TRY(remat_outputs_write(set, "new", "new", 3));
    REMAT_TRY(remat_outputs_write_into(set, "folder", "inside", "text", 4));
    REMAT_TRY(remat_outputs_write(set, "b", "b", 1));
    if (spoil) { /* a folder with a file in it has taken the place of "b" */
        unlink("b");
        CHECK(mkdir("b", 0777) == 0);
        put("b/file", OLD);
    }
    if (commit)
        REMAT_TRY(remat_outputs_commit(set));
fail:
    remat_outputs_destroy(&set);
    return st;
}

static void lay_out(void)
{
    CHECK(system("rm -rf a b new folder unasked") == 0);
    put("a", OLD);
    put("b", OLD);
    put("unasked", OLD);
    put("input", OLD);
}

static void check_old(const char *b)
{
    CHECK(holds("a", OLD) && holds(b, OLD) && holds("unasked", OLD));
    CHECK(count_entries(".") == 6, "%d",
          count_entries(".")); /* those three, "input", "." and ".." */
}

static void check_new(void)
{
    CHECK(holds("a", "first, then") && holds("new", "new") && holds("b", "b"));
    CHECK(holds("folder/inside", "text") && holds("unasked", OLD));
    CHECK(count_entries(".") == 8, "%d", count_entries("."));
}

static void check_failing_allocations(int descriptors)
{
    struct counting counting = {0};
    remat_allocator allocator = counting_allocator(&counting);
    uint64_t refused = 0;
    for (uint64_t total = 1; counting.fail_at <= total; counting.fail_at++) {
        lay_out();
        counting.calls = 0;
        remat_context *ctx = remat_context_create(&allocator, NULL);
        remat_status st = ctx ? write_all(ctx, NULL, true) : REMAT_ERROR_MEMORY;
        CHECK(st == (counting.fail_at ? REMAT_ERROR_MEMORY : REMAT_OK), "%d: %s", (int)st,
              remat_context_message(ctx));
        if (st == REMAT_OK)
            check_new();
        else
            check_old("b");
        refused += st != REMAT_OK;
        total = counting.fail_at ? total : counting.calls;
        remat_context_destroy(&ctx);
        CHECK(counting.live_bytes == 0 && count_entries("/proc/self/fd") == descriptors,
              "%llu bytes, %d descriptors", (unsigned long long)counting.live_bytes,
              count_entries("/proc/self/fd"));
    }
    CHECK(refused > 5, "%llu", (unsigned long long)refused);
}

int main(void)
{
    char folder[] = "/tmp/remat_files_XXXXXX";
    int descriptors = count_entries("/proc/self/fd");
    remat_context *ctx = remat_context_create(NULL, NULL);
    CHECK(mkdtemp(folder) && chdir(folder) == 0);
    lay_out();
    CHECK_OK(ctx, write_all(ctx, NULL, false)); /* abandoned */
    check_old("b");
    CHECK_STATUS(ctx, write_all(ctx, "b", true), REMAT_ERROR_IO, "");
    CHECK(strstr(remat_context_message(ctx), "b: "), "%s", remat_context_message(ctx));
    check_old("b/file");
    lay_out();
    CHECK_OK(ctx, write_all(ctx, NULL, true));
    check_new();
    CHECK_STATUS(ctx, write_all(ctx, NULL, true), REMAT_ERROR_IO, ""); /* the folder is not empty */
    check_new();
    CHECK(remat_file_write(ctx, "a", "alone", 5) == REMAT_OK && holds("a", "alone"));
    char taken[64]; /* the name that the temporary file would have */
    snprintf(taken, sizeof taken, "a.%ld-0.remat-tmp", (long)getpid());
    put(taken, OLD);
    CHECK(remat_file_write(ctx, "a", "again", 5) == REMAT_OK && holds("a", "again"));
    CHECK(holds(taken, OLD) && unlink(taken) == 0);
    remat_context_destroy(&ctx);
    CHECK(count_entries("/proc/self/fd") == descriptors, "%d, not %d",
          count_entries("/proc/self/fd"), descriptors);
    check_failing_allocations(descriptors);
    CHECK(chdir("/") == 0);
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(system(command) == 0);
    return check_exit();
}
