/* SPDX-License-Identifier: Apache-2.0 */
/* Mutated files of token ids against the reader of remat-run.
 *
 *     fuzz_tokens [iterations (default: 50000)] [seed (default: 1)]
 *
 * The reader must answer OK or INVALID with a message that begins with the file's name, at once. Of
 * what it opens the ids lie inside the file and are the bytes there, taken apart here once more, or
 * the first one outside the vocabulary is named. Then files that are cut off when they are open. */
#include "check.h"
#include "mutate.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <tokens.h>
#include <unistd.h>

enum { CAPACITY = 8192, IDS = 1500 };

static const struct seed {
    uint32_t magic, version, id_bytes; /* magic 0: no header */
    int64_t vocabulary;
} seeds[] = {{0, 0, 2, 50257},        {0, 0, 2, INT64_MAX},  {0, 0, 4, 128256},
             {20240520, 1, 2, 50257}, {20240801, 7, 4, 300}, {20240801, 7, 4, INT64_MAX}};
#define SEEDS (sizeof seeds / sizeof *seeds)

static void put_word(unsigned char *at, uint32_t word, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++)
        at[i] = (unsigned char)(word >> 8 * i);
}

static void make_seed(const struct seed *seed, struct bytes *file)
{
    uint64_t begin = seed->magic ? 1024 : 0;
    memset(file->data, 0, file->capacity);
    put_word(file->data, seed->magic, 4);
    put_word(file->data + 4, seed->version, 4);
    put_word(file->data + 8, IDS, 4);
    for (uint32_t i = 0; i < IDS; i++)
        put_word(file->data + begin + i * seed->id_bytes, i * 7 % 300, seed->id_bytes);
    file->count = begin + IDS * seed->id_bytes;
}

/* Makes the header's count fit, so that the reader looks at the ids. */
static void repair(const struct seed *seed, struct bytes *file)
{
    if (seed->magic && file->count > 1024)
        put_word(file->data + 8, (uint32_t)(file->count - 1024) / seed->id_bytes, 4);
}

static int make_file(const struct bytes *contents, char path[32])
{
    int file = memfd_create("fuzz", MFD_CLOEXEC);
    MUST(file >= 0 && write(file, contents->data, contents->count) == (ssize_t)contents->count);
    snprintf(path, 32, "/proc/self/fd/%d", file);
    return file;
}

/* The first id that is not below the vocabulary, or the count. */
static uint64_t find_beyond(const struct token_file *file, const struct bytes *contents,
                            int64_t vocabulary, int32_t *ids)
{
    for (uint64_t i = 0; i < file->count; i++) {
        uint64_t id = 0;
        for (uint64_t b = file->id_bytes; b-- > 0;)
            id = id << 8 | contents->data[file->begin_bytes + i * file->id_bytes + b];
        if (id >= (uint64_t)vocabulary || id >> 31)
            return i;
        ids[i] = (int32_t)id;
    }
    return file->count;
}

static void check_ids(remat_context *ctx, uint64_t iteration, const struct token_file *file,
                      const struct bytes *contents, int64_t vocabulary)
{
    static int32_t expected[CAPACITY], found[CAPACITY];
    char named[64];
    MUST(file->count <= CAPACITY &&
         file->begin_bytes + file->count * file->id_bytes == contents->count);
    uint64_t good = find_beyond(file, contents, vocabulary, expected);
    remat_status st = token_file_read(ctx, file, vocabulary, 0, file->count, found);
    snprintf(named, sizeof named, ": id %llu is ", (unsigned long long)good);
    CHECK(good == file->count
              ? st == REMAT_OK && memcmp(found, expected, 4 * good) == 0
              : st == REMAT_ERROR_INVALID && strstr(remat_context_message(ctx), named),
          "iteration %llu: %s", (unsigned long long)iteration, remat_context_message(ctx));
    if (good < file->count)
        CHECK(token_file_may_exceed(file, vocabulary), "an id that nobody would look for");
}

static bool run_once(uint64_t iteration, const struct bytes *contents, int64_t vocabulary)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct token_file file;
    char path[32];
    int descriptor = make_file(contents, path);
    MUST(ctx);
    remat_status st = token_file_open(ctx, path, vocabulary, &file);
    const char *message = remat_context_message(ctx);
    if (st == REMAT_OK)
        check_ids(ctx, iteration, &file, contents, vocabulary);
    else
        CHECK(st == REMAT_ERROR_INVALID && strncmp(message, path, strlen(path)) == 0,
              "iteration %llu: %d %s", (unsigned long long)iteration, st, message);
    token_file_close(&file);
    close(descriptor);
    remat_context_destroy(&ctx);
    return st == REMAT_OK;
}

static void campaign(uint64_t iterations, uint64_t random_seed)
{
    struct random random = {random_seed};
    struct bytes file = {.capacity = CAPACITY}, other = {.capacity = CAPACITY};
    uint64_t accepted = 0;
    MUST((file.data = malloc(CAPACITY)) && (other.data = malloc(CAPACITY)));
    for (size_t s = 0; s < SEEDS; s++) {
        make_seed(&seeds[s], &file);
        CHECK(run_once(s, &file, seeds[s].vocabulary), "seed %zu is refused", s);
    }
    for (uint64_t i = 0; i < iterations; i++) {
        const struct seed *seed = &seeds[random_below(&random, SEEDS)];
        make_seed(seed, &file);
        make_seed(&seeds[random_below(&random, SEEDS)], &other);
        mutate(&random, &file, &other);
        if (random_below(&random, 2))
            repair(seed, &file);
        accepted += run_once(i, &file, seed->vocabulary);
    }
    free(file.data);
    free(other.data);
    printf("%llu iterations, %llu accepted\n", (unsigned long long)iterations,
           (unsigned long long)accepted);
    CHECK(iterations < 1000 || accepted > iterations / 100, "hardly ever accepts");
}

static void cut_off(void)
{
    struct bytes contents = {.data = malloc(CAPACITY), .capacity = CAPACITY};
    int32_t ids[IDS];
    MUST(contents.data);
    for (size_t s = 0; s < SEEDS; s++)
        for (uint64_t left = 0; left < 2; left++) {
            remat_context *ctx = remat_context_create(NULL, NULL);
            struct token_file file;
            char path[32];
            make_seed(&seeds[s], &contents);
            int descriptor = make_file(&contents, path);
            MUST(ctx && token_file_open(ctx, path, seeds[s].vocabulary, &file) == REMAT_OK);
            MUST(ftruncate(descriptor, (off_t)(left * (contents.count - 1))) == 0);
            remat_status st = token_file_read(ctx, &file, seeds[s].vocabulary, 0, file.count, ids);
            CHECK(st == REMAT_ERROR_IO &&
                      strstr(remat_context_message(ctx), ": it ends before byte "),
                  "%d %s", st, remat_context_message(ctx));
            token_file_close(&file);
            close(descriptor);
            remat_context_destroy(&ctx);
        }
    free(contents.data);
}

int main(int argc, char **argv)
{
    cut_off();
    campaign(argc > 1 ? strtoull(argv[1], NULL, 10) : 50000,
             argc > 2 ? strtoull(argv[2], NULL, 10) : 1);
    return check_exit();
}
