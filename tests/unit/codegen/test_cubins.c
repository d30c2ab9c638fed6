/* SPDX-License-Identifier: Apache-2.0 */
/* Cubins by threads and cache, on a look-alike of NVRTC (double.c).
 *
 *     test_cubins FOLDER_OF_DOUBLE */
#include "check.h"

#include <codegen.h>
#include <dirent.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KERNELS = 7 };

static remat_context *ctx;
static struct remat_nvrtc *nvrtc;
static char cache[] = "/tmp/remat-cubins-XXXXXX";

struct subject {
    struct remat_cuda_code code;
    const char *preludes[1];
    struct remat_cuda_kernel kernels[KERNELS];
    char texts[KERNELS][128], keys[KERNELS][16];
};

static void make_subject(struct subject *s)
{
    memset(s, 0, sizeof *s);
    s->preludes[0] = "first line\nsecond line\n";
    for (uint32_t k = 0; k < KERNELS; k++) {
        snprintf(s->keys[k], sizeof s->keys[k], "kernel#%u", k);
        snprintf(s->texts[k], sizeof s->texts[k], "third %u\nfourth%s\nfifth\n", k * k,
                 k == 4 ? " #array" : "");
        s->kernels[k] = (struct remat_cuda_kernel){s->keys[k], "kernel", 0, s->texts[k], 256, 0, 0};
    }
    s->code = (struct remat_cuda_code){.prelude_count = 1,
                                       .preludes = s->preludes,
                                       .kernel_count = KERNELS,
                                       .kernels = s->kernels};
}

static const char *const both[] = {"sm_90", "sm_80", "sm_90", NULL};

/* Counts are expected; `st` is the caller's to judge. */
static remat_status make(struct remat_arena *arena, struct subject *s, uint32_t threads,
                         const char *folder, uint32_t compiled, uint32_t cached)
{
    struct remat_cubin_settings settings = {
        .architectures = both, .cache = folder, .threads = threads};
    struct remat_cubin_counts counts;
    remat_status st = remat_cubins_make(ctx, arena, nvrtc, &settings, &s->code, &counts);
    if (st == REMAT_OK)
        CHECK(counts.compiled == compiled && counts.cached == cached,
              "%u compiled, %u cached, expected %u and %u", counts.compiled, counts.cached,
              compiled, cached);
    return st;
}

static void check_cubins(const struct subject *s)
{
    const struct remat_cuda_code *code = &s->code;
    CHECK(code->cubin_count == 2 * KERNELS, "%u cubins", code->cubin_count);
    for (uint32_t c = 0; c < code->cubin_count; c++) {
        const struct remat_cubin *cubin = &code->cubins[c];
        char expected[256];
        snprintf(expected, sizeof expected, "\n%s%s", s->preludes[0], s->texts[c / 2]);
        const char *arch = c % 2 ? "--gpu-architecture=sm_90 " : "--gpu-architecture=sm_80 ";
        size_t bytes = strlen(expected);
        CHECK(cubin->kernel == c / 2 && strcmp(cubin->arch, c % 2 ? "sm_90" : "sm_80") == 0,
              "cubin %u: kernel %u, %s", c, cubin->kernel, cubin->arch);
        CHECK(cubin->bytes > bytes && memcmp(cubin->data, arch, strlen(arch)) == 0 &&
                  memcmp((const char *)cubin->data + cubin->bytes - bytes, expected, bytes) == 0,
              "cubin %u is not of its text", c);
        CHECK(cubin->registers == 1 + (bytes - 1) % 255 &&
                  cubin->spill_bytes == (c / 2 == 4 ? 40 : 16) && cubin->shared_bytes == 128,
              "cubin %u: %u registers, %u B spilled, %u B shared", c, cubin->registers,
              cubin->spill_bytes, cubin->shared_bytes);
    }
}

static void test_threads(struct remat_arena *arena)
{
    for (uint32_t threads = 0; threads < 20; threads += 3) {
        struct subject s;
        make_subject(&s);
        remat_status st = make(arena, &s, threads, NULL, 2 * KERNELS, 0);
        if (CHECK_OK(ctx, st, "%u threads", threads))
            check_cubins(&s);
    }
}

/* Calls `change` with each file of the cache; returns how many there are. */
static uint32_t each_entry(void (*change)(const char *path))
{
    DIR *folder = opendir(cache);
    uint32_t count = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", cache, entry->d_name);
        if (*entry->d_name == '.')
            continue;
        if (change)
            change(path);
        count++;
    }
    if (folder)
        closedir(folder);
    return count;
}

static long changed_byte; /* of an entry, from its end when negative */

static void flip(const char *path)
{
    FILE *file = fopen(path, "r+b");
    int byte = fseek(file, changed_byte, changed_byte < 0 ? SEEK_END : SEEK_SET) ? 0 : fgetc(file);
    fseek(file, -1, SEEK_CUR);
    fputc(byte ^ 1, file);
    fclose(file);
}

static void cut(const char *path)
{
    CHECK(truncate(path, changed_byte) == 0, "%s", path);
}

static void delete (const char *path)
{
    remove(path);
}

static void run_cached(struct remat_arena *arena, uint32_t compiled, uint32_t cached)
{
    struct subject s;
    make_subject(&s);
    remat_status st = make(arena, &s, 3, cache, compiled, cached);
    if (CHECK_OK(ctx, st))
        check_cubins(&s);
}

static void test_cache(struct remat_arena *arena)
{
    static const long flipped[] = {0, 9, 20, 36, 45, -1, -60}, cuts[] = {0, 17, 60, 300};
    run_cached(arena, 2 * KERNELS, 0);
    CHECK(each_entry(NULL) == 2 * KERNELS, "%u entries", each_entry(NULL));
    run_cached(arena, 0, 2 * KERNELS);
    for (size_t i = 0; i < sizeof flipped / sizeof *flipped; i++) {
        changed_byte = flipped[i];
        each_entry(flip);
        run_cached(arena, 2 * KERNELS, 0);
        run_cached(arena, 0, 2 * KERNELS);
    }
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        changed_byte = cuts[i];
        each_entry(cut);
        run_cached(arena, 2 * KERNELS, 0);
        run_cached(arena, 0, 2 * KERNELS);
    }
    struct subject s;
    make_subject(&s);
    snprintf(s.texts[3], sizeof s.texts[3], "another text\n");
    CHECK(make(arena, &s, 2, cache, 2, 2 * KERNELS - 2) == REMAT_OK, "another text");
    each_entry(delete);
}

/* What the entries' keys are made of: all options, or one changed, or the last one left out. */
enum { AS_THEY_ARE = -1 };
static int changed_option = AS_THEY_ARE;
static atomic_uint option_count;

void __real_remat_nvrtc_options(const struct remat_nvrtc *opened, const char *arch,
                                struct remat_nvrtc_options *out);
void __wrap_remat_nvrtc_options(const struct remat_nvrtc *opened, const char *arch,
                                struct remat_nvrtc_options *out);
void __wrap_remat_nvrtc_options(const struct remat_nvrtc *opened, const char *arch,
                                struct remat_nvrtc_options *out)
{
    __real_remat_nvrtc_options(opened, arch, out);
    option_count = out->count;
    if (changed_option == (int)out->count)
        out->count--;
    else if (changed_option != AS_THEY_ARE)
        out->items[changed_option] = strcmp(arch, "sm_80") == 0 ? "--another-80" : "--another-90";
}

/* Entries are another NVRTC's, or of other text or options, if anything that is said to it is. */
static void test_keys(struct remat_arena *arena)
{
    run_cached(arena, 2 * KERNELS, 0);
    setenv("NVRTC_DOUBLE_MINOR", "1", 1);
    run_cached(arena, 2 * KERNELS, 0);
    unsetenv("NVRTC_DOUBLE_MINOR");
    run_cached(arena, 0, 2 * KERNELS);
    CHECK(option_count > 4, "%u options", option_count);
    for (changed_option = 0; changed_option <= (int)option_count; changed_option++)
        run_cached(arena, 2 * KERNELS, 0);
    changed_option = AS_THEY_ARE;
    run_cached(arena, 0, 2 * KERNELS);
    each_entry(delete);
}

static void test_unwritable(struct remat_arena *arena)
{
    struct subject s;
    struct remat_cubin_counts counts;
    make_subject(&s);
    struct remat_cubin_settings settings = {
        .architectures = both, .cache = "/nowhere/at/all", .threads = 2};
    remat_status st = remat_cubins_make(ctx, arena, nvrtc, &settings, &s.code, &counts);
    CHECK(st == REMAT_OK && counts.compiled == 2 * KERNELS, "%s", remat_context_message(ctx));
    CHECK(counts.unwritten && strstr(counts.unwritten, "/nowhere/at/all/"), "not said");
    check_cubins(&s);
}

/* The first kernel at fault is named, with numbered lines, whatever the threads. */
static void test_errors(struct remat_arena *arena)
{
    static const char *const unknown[] = {"sm_70", "sm_90a", "sm_90x", "sm_090", "90"};
    struct remat_cubin_counts counts;
    struct subject s;
    for (uint32_t threads = 1; threads < 9; threads++) {
        make_subject(&s);
        strcpy(s.texts[2], "third\n#error slowly\nfifth\x1b[0m\nsixth\nseventh\n");
        strcpy(s.texts[5], "#error\n");
        remat_status st = make(arena, &s, threads, NULL, 0, 0);
        CHECK(st == REMAT_ERROR_INTERNAL && s.code.cubin_count == 0, "%u threads: %d", threads, st);
        CHECK(
            strcmp(
                remat_context_message(ctx),
                "kernel kernel#2 for sm_80 does not compile: kernel.cu(4): error: planted | "
                "2  second line | 3  third | > 4  #error slowly | 5  fifth\\u001b[0m | 6  sixth") ==
                0,
            "%s", remat_context_message(ctx));
    }
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        const char *architectures[] = {"sm_80", unknown[i], NULL};
        char said[32];
        make_subject(&s);
        struct remat_cubin_settings settings = {.architectures = architectures, .threads = 1};
        remat_status st = remat_cubins_make(ctx, arena, nvrtc, &settings, &s.code, &counts);
        snprintf(said, sizeof said, "architecture '%s'", unknown[i]);
        CHECK(st == REMAT_ERROR_USAGE && strstr(remat_context_message(ctx), said) &&
                  strstr(remat_context_message(ctx), "(accepted: sm_80, sm_90)"),
              "%s: %d: %s", unknown[i], st, remat_context_message(ctx));
    }
}

struct question {
    uint32_t calls, last; /* `last`: the number of the call that ends it */
};

static bool is_over(void *user, uint32_t begun, uint32_t of)
{
    struct question *q = user;
    CHECK(begun == q->calls && of == 2 * KERNELS, "%u of %u begun, asked %u times", begun, of,
          q->calls);
    return q->calls++ == q->last;
}

/* Ended at each cubin: none is there, and not more than those begun before were compiled. */
static void test_cut_short(struct remat_arena *arena)
{
    for (uint32_t i = 0; i < 3 * (2 * KERNELS + 1); i++) {
        struct question q = {.last = i / 3};
        struct remat_cubin_settings settings = {
            .architectures = both, .threads = 1 + i % 3, .is_over = is_over, .is_over_user = &q};
        struct remat_cubin_counts counts;
        struct subject s;
        make_subject(&s);
        CHECK_OK(ctx, remat_cubins_make(ctx, arena, nvrtc, &settings, &s.code, &counts));
        CHECK(counts.compiled == q.last, "%u compiled, ended at %u", counts.compiled, q.last);
        CHECK(counts.cut_short == (q.last < 2 * KERNELS), "ended at %u: %d", q.last,
              counts.cut_short);
        if (counts.cut_short)
            CHECK(s.code.cubin_count == 0, "%u cubins", s.code.cubin_count);
        else
            check_cubins(&s);
    }
}

static void test_warnings(struct remat_arena *arena)
{
    struct subject s;
    make_subject(&s);
    strcpy(s.texts[1], "#warning\n");
    CHECK_OK(ctx, make(arena, &s, 2, NULL, 2 * KERNELS, 0));
    for (uint32_t c = 0; c < s.code.cubin_count; c++)
        CHECK(strcmp(s.code.cubins[c].warnings,
                     c / 2 == 1 ? "kernel.cu(1): warning #1-D: planted" : "") == 0,
              "cubin %u: \"%s\"", c, s.code.cubins[c].warnings);
}

int main(int argc, char **argv)
{
    struct remat_arena arena;
    ctx = remat_context_create(NULL, NULL);
    MUST(argc == 2 && ctx && mkdtemp(cache));
    remat_arena_init(&arena, ctx);
    remat_status st = remat_nvrtc_open(ctx, argv[1], 0, &nvrtc);
    if (CHECK_OK(ctx, st)) {
        test_threads(&arena);
        test_cache(&arena);
        test_keys(&arena);
        test_unwritable(&arena);
        test_errors(&arena);
        test_cut_short(&arena);
        test_warnings(&arena);
    }
    rmdir(cache);
    remat_nvrtc_close(&nvrtc);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
