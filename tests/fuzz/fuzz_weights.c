/* SPDX-License-Identifier: Apache-2.0 */
/* Mutated safetensors files against the reader of remat-run.
 *
 *     fuzz_weights [iterations (default: 200000)] [seed (default: 1)]
 *
 * The reader must answer OK or INVALID with a message that begins with the file's name, within a
 * second and within memory proportional to the file, and give everything back; what it accepts must
 * cover its data exactly and be readable. Then with the n-th allocation of the JSON library
 * failing, for every n. */
#include "check.h"
#include "mutate.h"

#include <errno.h>
#include <safetensors_reader.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MEMORY_PER_BYTE 128
#define MEMORY_FIXED    (64u << 10)
#define SECONDS_MAX     1.0

static const char header[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"wte.weight\":{\"dtype\":\"F32\",\"shape\":[4,3],\"data_offsets\":[0,48]},"
    "\"h.0.\\u00e9\":{\"dtype\":\"BF16\",\"shape\":[8],\"data_offsets\":[48,64]},"
    "\"empty\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[64,64]},"
    "\"scalar\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[64,65]}}      ";
#define DATA_BYTES 65

static void report(uint64_t iteration, const char *what, const char *message)
{
    CHECK(false, "iteration %llu: %s: %s", (unsigned long long)iteration, what, message);
}

/* --- the JSON library's memory --- */

#define SIZE_BYTES 16
static struct {
    uint64_t live, peak, calls, fail_at;
} json_memory;

static void *json_take(size_t bytes)
{
    if (++json_memory.calls == json_memory.fail_at)
        return NULL;
    char *block = malloc(SIZE_BYTES + bytes);
    if (!block)
        return NULL;
    memcpy(block, &bytes, sizeof bytes);
    json_memory.live += bytes;
    if (json_memory.live > json_memory.peak)
        json_memory.peak = json_memory.live;
    return block + SIZE_BYTES;
}

static void json_give(void *pointer)
{
    size_t bytes;
    if (!pointer)
        return;
    memcpy(&bytes, (char *)pointer - SIZE_BYTES, sizeof bytes);
    json_memory.live -= bytes;
    free((char *)pointer - SIZE_BYTES);
}

/* --- one file --- */

static bool covers(const struct safetensors_file *file, uint64_t bytes)
{
    uint64_t sum = 0, header_bytes;
    for (uint32_t i = 0; i < file->count; i++) {
        if (file->tensors[i].begin > bytes || file->tensors[i].bytes > bytes)
            return false;
        sum += file->tensors[i].bytes;
    }
    rewind(file->stream);
    return fread(&header_bytes, 8, 1, file->stream) == 1 && 8 + header_bytes + sum == bytes;
}

static remat_status use(remat_context *ctx, const struct safetensors_file *file, uint64_t bytes)
{
    remat_status st = covers(file, bytes) ? REMAT_OK : REMAT_ERROR_INTERNAL;
    char byte;
    for (uint32_t i = 0; i < file->count && st == REMAT_OK; i++)
        if (file->tensors[i].bytes)
            st = safetensors_read_part(ctx, file, &file->tensors[i], file->tensors[i].bytes - 1,
                                       &byte, 1);
    return st;
}

static remat_status run_once(const struct bytes *contents, char *message, size_t message_bytes)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct safetensors_file file = {0};
    FILE *stream = fmemopen(contents->data, contents->count, "rb");
    MUST(ctx && stream);
    remat_status st = safetensors_read_stream(ctx, "fuzz", stream, &file);
    if (st == REMAT_OK)
        st = use(ctx, &file, contents->count);
    snprintf(message, message_bytes, "%s", remat_context_message(ctx));
    safetensors_release(&file);
    remat_context_destroy(&ctx);
    return st;
}

/* Makes the length of the header fit the last brace, so that the reader looks at the mutations. */
static void repair(struct bytes *file)
{
    uint64_t end = file->count;
    while (end > 8 && file->data[end - 1] != '}')
        end--;
    for (int i = 0; end > 8 && i < 8; i++)
        file->data[i] = (unsigned char)((end - 8) >> 8 * i);
}

static void make_seed(struct bytes *file)
{
    memset(file->data, 0, file->capacity);
    file->count = 8 + sizeof header - 1 + DATA_BYTES;
    file->data[0] = (unsigned char)((sizeof header - 1) & 255);
    file->data[1] = (unsigned char)((sizeof header - 1) >> 8);
    memcpy(file->data + 8, header, sizeof header - 1);
}

static void campaign(uint64_t iterations, uint64_t random_seed)
{
    struct random random = {random_seed};
    struct bytes other = {.capacity = 4096};
    uint64_t accepted = 0;
    char message[1024];
    double slowest = 0;
    MUST(other.data = malloc(other.capacity));
    make_seed(&other);
    for (uint64_t i = 0; i < iterations; i++) {
        struct bytes file = {.data = malloc(4096), .capacity = 4096};
        MUST(file.data);
        make_seed(&file);
        mutate(&random, &file, &other);
        if (random_below(&random, 4))
            repair(&file);
        file.count += file.count == 0; /* fmemopen takes no empty file */
        json_memory.peak = 0;
        clock_t start = clock();
        remat_status st = run_once(&file, message, sizeof message);
        double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        slowest = seconds > slowest ? seconds : slowest;
        accepted += st == REMAT_OK;
        if (st != REMAT_OK && st != REMAT_ERROR_INVALID)
            report(i, "wrong answer", message);
        if (st == REMAT_ERROR_INVALID && strncmp(message, "fuzz: ", 6) != 0)
            report(i, "message without the file's name", message);
        if (seconds > SECONDS_MAX)
            report(i, "takes too long", message);
        if (json_memory.peak > MEMORY_FIXED + MEMORY_PER_BYTE * file.count)
            report(i, "takes too much memory", message);
        if (json_memory.live)
            report(i, "leaks", message);
        free(file.data);
    }
    free(other.data);
    printf("%llu iterations, %llu accepted, slowest %.4f s\n", (unsigned long long)iterations,
           (unsigned long long)accepted, slowest);
    if (iterations >= 1000 && accepted == 0)
        report(iterations, "never accepts", "");
}

static void fail_each_allocation(void)
{
    struct bytes file = {.data = malloc(4096), .capacity = 4096};
    char message[1024];
    MUST(file.data);
    make_seed(&file);
    remat_status st = REMAT_ERROR_MEMORY;
    uint64_t n = 0;
    while (st != REMAT_OK && n < 10000) {
        json_memory.calls = 0;
        json_memory.fail_at = ++n;
        st = run_once(&file, message, sizeof message);
        if (st != REMAT_OK && st != REMAT_ERROR_MEMORY && st != REMAT_ERROR_INVALID)
            report(n, "wrong answer to a failed allocation", message);
        if (json_memory.live)
            report(n, "leaks after a failed allocation", message);
    }
    json_memory.fail_at = 0;
    free(file.data);
    if (st != REMAT_OK || n < 5)
        report(n, "never succeeds", message);
    printf("each of %llu allocations failed once\n", (unsigned long long)(n - 1));
}

/* --- files that change or fail while they are read --- */

struct failing { /* a stream that says it is whole, and is not */
    const struct bytes *file;
    uint64_t at, end; /* nothing is read from `end` on */
    bool is_error;    /* it is an error there, not the end */
    bool has_no_size;
};

static ssize_t read_some(void *cookie, char *out, size_t bytes)
{
    struct failing *f = cookie;
    if (f->at >= f->end) {
        errno = EIO;
        return f->is_error ? -1 : 0;
    }
    if (bytes > f->end - f->at)
        bytes = f->end - f->at;
    memcpy(out, f->file->data + f->at, bytes);
    f->at += bytes;
    return (ssize_t)bytes;
}

static int seek_to(void *cookie, off64_t *offset, int whence)
{
    struct failing *f = cookie;
    if (f->has_no_size) {
        errno = ESPIPE;
        return -1;
    }
    uint64_t from = whence == SEEK_END ? f->file->count : whence == SEEK_CUR ? f->at : 0;
    f->at = from + (uint64_t)*offset;
    *offset = (off64_t)f->at;
    return 0;
}

static void expect_failure(struct failing f, const char *message)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct safetensors_file file = {0};
    FILE *stream =
        fopencookie(&f, "rb", (cookie_io_functions_t){.read = read_some, .seek = seek_to});
    MUST(ctx && stream);
    setvbuf(stream, NULL, _IONBF, 0);
    remat_status st = safetensors_read_stream(ctx, "fuzz", stream, &file);
    if (st == REMAT_OK)
        st = use(ctx, &file, f.file->count);
    if (st != REMAT_ERROR_IO || strcmp(remat_context_message(ctx), message) != 0)
        report(f.end, "wrong answer of a file that cannot be read", remat_context_message(ctx));
    safetensors_release(&file);
    remat_context_destroy(&ctx);
    if (json_memory.live)
        report(f.end, "leaks", message);
}

static void fail_each_read(void)
{
    const uint64_t header_bytes = 8 + sizeof header - 1;
    struct bytes file = {.data = malloc(4096), .capacity = 4096};
    MUST(file.data);
    make_seed(&file);
    const uint64_t ends[] = {0, 7, 8, header_bytes - 1, header_bytes, file.count - 1};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        for (int is_error = 0; is_error < 2; is_error++)
            expect_failure((struct failing){.file = &file, .end = ends[i], .is_error = is_error},
                           is_error ? "fuzz: cannot read: Input/output error"
                                    : "fuzz: cannot read: it ends too early");
    expect_failure((struct failing){.file = &file, .end = file.count, .has_no_size = true},
                   "fuzz: Illegal seek");
    free(file.data);
}

int main(int argc, char **argv)
{
    json_set_alloc_funcs(json_take, json_give);
    fail_each_allocation();
    fail_each_read();
    campaign(argc > 1 ? strtoull(argv[1], NULL, 10) : 200000,
             argc > 2 ? strtoull(argv[2], NULL, 10) : 1);
    return check_exit();
}
