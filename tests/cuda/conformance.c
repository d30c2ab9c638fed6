/* SPDX-License-Identifier: Apache-2.0 */
/* Every primitive of compiler/codegen/primitives.cu in a kernel of its own (conformance.def),
 * random inputs with zeros, subnormals, ties, infinities and NaN among them, run through the CUDA
 * device's loader and compared with plain arithmetic of the host.
 *
 *     conformance [--libraries FOLDER] [--json FILE] [--plant] [--compile ARCH]
 *
 * --plant puts the wrong primitive of its row into each kernel: then every row must fail. --compile
 * only compiles, by NVRTC, and needs no GPU. Exit code 77 and one line where no GPU (no NVRTC) can
 * be had. */
#include "check.h"
#include "conformance_references.h"

#include "cuda_code_load.h"
#include "nvrtc.h"
#include "source.h"

#include <stdio.h>
#include <stdlib.h>

#define WARPS      64 /* in blocks of one, or of a team */
#define BYTES      (WARPS * sizeof(lanes))
#define TEXT_BYTES (256u << 10)
#define TILE_BYTES 1024

enum input { WORDS, FLOATS, QUIET, DOUBLES, PAIRS_BF16, PAIRS_F16 };
enum comparison {
    BITS,
    FLOAT, /* one NaN is as good as another */
    VALUE, /* and so are the two zeros */
    CLOSE,
    PAIR_BF16, /* as FLOAT */
    PAIR_F16
};

static const struct row {
    const char *name;
    uint32_t warps; /* of a block */
    enum input input;
    enum comparison comparison;
    int words;
    const char *body, *right, *wrong;
    void (*reference)(lanes in, lanes out);
} rows[] = {
#define ROW(name, ...)      {#name, 1, __VA_ARGS__, reference_##name},
#define TEAM_ROW(name, ...) {#name, TEAM, __VA_ARGS__, reference_##name},
#include "conformance.def"
#undef ROW
#undef TEAM_ROW
};
#define ROWS (sizeof rows / sizeof *rows)

static lanes in[WARPS], expected[WARPS], found[WARPS];

/* --- inputs --- */

static uint32_t random_word(void)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static uint32_t random_float(void)
{
    static const uint32_t special[] = {0,          0x80000000, 1,          0x807fffff, 0x00400000,
                                       0x00800000, 0x3f800000, 0x7f7fffff, 0x7f800000, 0xff800000,
                                       0x7fc00000, 0x7f800001, 0x33000000, 0x33000001, 0x477fefff,
                                       0x477ff000, 0x387fe000, 0xbf800000};
    uint32_t word = random_word(), middle = (word & 0x83ffffff) + 0x3e000000;
    switch (random_word() % 6) {
    case 0:
        return special[word % (sizeof special / sizeof *special)];
    case 1:
        return (word & 0xffff0000) | 0x8000; /* half way between two of bf16 */
    case 2:
        return (middle & 0xffffe000) | 0x1000; /* of f16 */
    case 3:
        return word;
    default:
        return middle; /* 2^-3 to 2^5 */
    }
}

static uint32_t make_word(enum input input, int k)
{
    uint32_t word = random_word();
    switch (input) {
    case FLOATS:
        return random_float();
    case QUIET: /* no signaling NaN, of which fmaxf makes no statement */
        word = random_float();
        return isnan(to_float(word)) ? word | 0x00400000 : word;
    case DOUBLES: /* 2^-15 to 2^16 */
        return k % 2 ? (word & 0x01ffffff) + 0x3f000000 : word;
    case PAIRS_BF16: /* 2^-3 to 2^5, and the sum's floats */
        return (word & 0x83ff83ff) + (k < 6 ? 0x3e003e00 : 0x3e000000);
    case PAIRS_F16: /* 2^-3 to 2^5 in f16 */
        return k < 6 ? (word & 0x9fff9fff) + 0x30003000 : (word & 0x83ffffff) + 0x3e000000;
    default:
        return word;
    }
}

/* --- texts --- */

static char prelude[TEXT_BYTES], texts[ROWS][4096], symbols[ROWS][64];

static uint32_t tile_bytes(const struct row *row)
{
    return strstr(row->body, "TILE_MEMORY") ? TILE_BYTES : 0;
}

static void write_text(size_t r, bool planted)
{
    const struct row *row = &rows[r];
    const char *at = planted ? strstr(row->body, row->right) : NULL;
    int before = at ? (int)(at - row->body) : (int)strlen(row->body);
    snprintf(symbols[r], sizeof symbols[r], "conformance_%s", row->name);
    snprintf(texts[r], sizeof texts[r],
             "#define IN(k) read4(in + 4 * (k))\n#define OUT(k, x) write4(out + 4 * (k), x)\n"
             "#define F(k) float_of_bits(IN(k))\n#define G(k, x) OUT(k, bits_of_float(x))\n"
             "KERNEL(%s, %u)\n{\nconst u32 lane = thread_index();\n"
             "const u64 offset = ((u64)block_index() * %u + lane) * 64;\n"
             "const u8 *const in = (const u8 *)(arguments.word[0] + offset);\n"
             "u8 *const out = (u8 *)(arguments.word[1] + offset);\n%.*s%s%s\n}\n",
             symbols[r], row->warps * LANES, row->warps * LANES, before, row->body,
             at ? row->wrong : "", at ? at + strlen(row->right) : "");
}

static struct remat_cuda_code write_code(bool planted)
{
    static const char *preludes[] = {prelude};
    static struct remat_cuda_kernel kernels[ROWS];
    char *end = prelude;
    for (const char *const *piece = cuda_prelude; *piece; piece++)
        end = stpcpy(end, *piece);
    for (size_t r = 0; r < ROWS; r++) {
        write_text(r, planted);
        kernels[r] = (struct remat_cuda_kernel){.key = symbols[r],
                                                .symbol = symbols[r],
                                                .text = texts[r],
                                                .threads = rows[r].warps * LANES,
                                                .shared_bytes = tile_bytes(&rows[r])};
    }
    return (struct remat_cuda_code){
        .prelude_count = 1, .preludes = preludes, .kernel_count = ROWS, .kernels = kernels};
}

/* --- comparing --- */

static bool same_half(uint32_t a, uint32_t b, uint32_t infinity)
{
    return a == b || ((a & 0x7fff) > infinity && (b & 0x7fff) > infinity);
}

static bool same(enum comparison comparison, const uint32_t *a, const uint32_t *b)
{
    uint32_t infinity = comparison == PAIR_BF16 ? 0x7f80 : 0x7c00;
    float x = to_float(*a), y = to_float(*b);
    switch (comparison) {
    case FLOAT:
        return *a == *b || (isnan(x) && isnan(y));
    case VALUE:
        return flush(x) == flush(y) || (isnan(x) && isnan(y));
    case CLOSE:
        return x == y || (isnan(x) && isnan(y)) || fabsf(x - y) <= to_float(a[8]);
    case PAIR_BF16:
    case PAIR_F16:
        return same_half(*a & 0xffff, *b & 0xffff, infinity) &&
               same_half(*a >> 16, *b >> 16, infinity);
    default:
        return *a == *b;
    }
}

/* How many lanes differ; the first is shown. */
static int compare(const struct row *row)
{
    int differing = 0;
    for (int i = 0; i < WARPS * LANES; i++) {
        const uint32_t *a = expected[i / LANES][i % LANES], *b = found[i / LANES][i % LANES];
        int k = 0;
        while (k < row->words && same(row->comparison, &a[k], &b[k]))
            k++;
        if (k < row->words && differing++ == 0) {
            printf("%s: warp %d lane %d word %d is %08x, not %08x; inputs", row->name, i / LANES,
                   i % LANES, k, b[k], a[k]);
            for (int w = 0; w < WORDS_PER_LANE; w++)
                printf(" %08x", in[i / LANES][i % LANES][w]);
            printf("\n");
        }
    }
    return differing;
}

/* --- running --- */

struct machine {
    remat_context *ctx;
    struct cuda_driver driver;
    struct cuda_functions functions;
    void *stream;
    uint64_t memory;
    char name[128];
};

static remat_status run_row(struct machine *m, size_t r, int *differing)
{
    remat_status st = REMAT_OK;
    uint64_t words[REMAT_CUDA_WORDS_MAX] = {m->memory, m->memory + BYTES};
    void *arguments[] = {words};
    memset(expected, 0, sizeof expected);
    for (int i = 0; i < WARPS * LANES * WORDS_PER_LANE; i++)
        in[i / WORDS_PER_LANE / LANES][i / WORDS_PER_LANE % LANES][i % WORDS_PER_LANE] =
            make_word(rows[r].input, i % WORDS_PER_LANE);
    for (uint32_t w = 0; w < WARPS; w += rows[r].warps)
        rows[r].reference(in[w], expected[w]);
    CUDA_TRY(m->ctx, &m->driver, cuMemcpyHtoDAsync_v2, m->memory, in, BYTES, m->stream);
    CUDA_TRY(m->ctx, &m->driver, cuMemsetD8Async, m->memory + BYTES, 0xcd, BYTES, m->stream);
    CUDA_TRY(m->ctx, &m->driver, cuLaunchKernel, m->functions.functions[r], WARPS / rows[r].warps,
             1, 1, rows[r].warps * LANES, 1, 1, tile_bytes(&rows[r]), m->stream, arguments, NULL);
    CUDA_TRY(m->ctx, &m->driver, cuMemcpyDtoHAsync_v2, found, m->memory + BYTES, BYTES, m->stream);
    CUDA_TRY(m->ctx, &m->driver, cuStreamSynchronize, m->stream);
    *differing = compare(&rows[r]);
fail:
    return st;
}

/* The GPU and what remat-run would take here; 0 for a library that does not open. */
static void write_machine(struct machine *m, const char *libraries, FILE *json)
{
    struct remat_nvrtc *nvrtc = NULL;
    struct cublaslt cublaslt = {0};
    int major = 0, minor = 0;
    if (remat_nvrtc_open(m->ctx, libraries, m->driver.version, &nvrtc) == REMAT_OK)
        remat_nvrtc_version(nvrtc, &major, &minor);
    bool opened = cublaslt_open(m->ctx, libraries, m->driver.version, &cublaslt) == REMAT_OK;
    fprintf(json,
            "{\"gpu\": \"%s\", \"driver\": \"%d.%d\", \"nvrtc\": \"%d.%d\", "
            "\"cublaslt\": \"%llu\", \"lanes_differing\": {",
            m->name, m->driver.version / 1000, m->driver.version % 1000 / 10, major, minor,
            (unsigned long long)cublaslt.version);
    if (opened)
        cublaslt_close(&cublaslt);
    remat_nvrtc_close(&nvrtc);
}

static remat_status run_rows(struct machine *m, FILE *json, bool planted)
{
    remat_status st = REMAT_OK;
    for (size_t r = 0; r < ROWS; r++) {
        int differing = 0;
        REMAT_TRY(run_row(m, r, &differing));
        CHECK((differing > 0) == planted, "%s: %d lanes differ", rows[r].name, differing);
        if (json)
            fprintf(json, "%s\"%s\": %d", r ? ", " : "", rows[r].name, differing);
    }
    if (json)
        fprintf(json, "}}\n");
    printf("%zu primitives on %s, %s\n", ROWS, m->name,
           planted ? "all of them wrong" : "as emitted");
fail:
    return st;
}

static remat_status run(struct machine *m, const char *libraries, FILE *json, bool planted)
{
    remat_status st = REMAT_OK;
    struct remat_arena arena;
    int major = 0, minor = 0;
    void *context = NULL;
    struct remat_cuda_code code = write_code(planted);
    remat_arena_init(&arena, m->ctx);
    CUDA_TRY(m->ctx, &m->driver, cuDeviceGetName, m->name, (int)sizeof m->name, 0);
    CUDA_TRY(m->ctx, &m->driver, cuDeviceGetAttribute, &major, CUDA_DEVICE_COMPUTE_CAPABILITY_MAJOR,
             0);
    CUDA_TRY(m->ctx, &m->driver, cuDeviceGetAttribute, &minor, CUDA_DEVICE_COMPUTE_CAPABILITY_MINOR,
             0);
    CUDA_TRY(m->ctx, &m->driver, cuDevicePrimaryCtxRetain, &context, 0);
    CUDA_TRY(m->ctx, &m->driver, cuCtxPushCurrent_v2, context);
    CUDA_TRY(m->ctx, &m->driver, cuStreamCreate, &m->stream, CUDA_STREAM_NON_BLOCKING);
    CUDA_TRY(m->ctx, &m->driver, cuMemAlloc_v2, &m->memory, 2 * BYTES);
    REMAT_TRY(cuda_functions_load(m->ctx, &arena, &m->driver, &code, 10 * major + minor, libraries,
                                  NULL, &m->functions));
    if (json)
        write_machine(m, libraries, json);
    st = run_rows(m, json, planted);
fail:
    cuda_functions_unload(&m->driver, &m->functions);
    if (m->memory)
        m->driver.cuMemFree_v2(m->memory);
    if (m->stream)
        m->driver.cuStreamDestroy_v2(m->stream);
    if (context)
        m->driver.cuCtxPopCurrent_v2(&context);
    if (context)
        m->driver.cuDevicePrimaryCtxRelease_v2(0);
    remat_arena_release(&arena);
    return st;
}

/* --- compiling --- */

static int compile(remat_context *ctx, const char *libraries, const char *arch, bool planted)
{
    remat_status st = REMAT_OK;
    struct remat_nvrtc *nvrtc = NULL;
    struct remat_cuda_code code = write_code(planted);
    struct remat_cubin cubin;
    struct remat_arena arena;
    const char *text;
    remat_arena_init(&arena, ctx);
    if (remat_nvrtc_open(ctx, libraries, 0, &nvrtc)) {
        printf("SKIP: %s\n", remat_context_message(ctx));
        return 77;
    }
    for (uint32_t r = 0; r < ROWS && !st; r++) {
        st = remat_cuda_source(&arena, &code, r, &text);
        if (!st)
            st = remat_nvrtc_compile(nvrtc, &arena, rows[r].name, text, arch, &cubin);
    }
    printf("%s\n", st ? remat_context_message(ctx) : "all compile");
    remat_arena_release(&arena);
    remat_nvrtc_close(&nvrtc);
    return st != REMAT_OK;
}

int main(int argc, char **argv)
{
    const char *libraries = NULL, *path = NULL, *arch = NULL;
    bool planted = false;
    for (int a = 1; a < argc; a++) {
        planted |= strcmp(argv[a], "--plant") == 0;
        if (a + 1 < argc && strcmp(argv[a], "--libraries") == 0)
            libraries = argv[a + 1];
        if (a + 1 < argc && strcmp(argv[a], "--json") == 0)
            path = argv[a + 1];
        if (a + 1 < argc && strcmp(argv[a], "--compile") == 0)
            arch = argv[a + 1];
    }
    struct machine machine = {.ctx = remat_context_create(NULL, NULL)};
    if (arch) {
        int code = compile(machine.ctx, libraries, arch, planted);
        remat_context_destroy(&machine.ctx);
        return code;
    }
    FILE *json = path ? fopen(path, "w") : NULL;
    remat_status st = cuda_driver_open(machine.ctx, libraries, &machine.driver);
    if (st)
        printf("SKIP: %s\n", remat_context_message(machine.ctx));
    else
        CHECK_OK(machine.ctx, run(&machine, libraries, json, planted));
    if (json)
        fclose(json);
    cuda_driver_close(&machine.driver);
    remat_context_destroy(&machine.ctx);
    return st ? 77 : check_exit();
}
