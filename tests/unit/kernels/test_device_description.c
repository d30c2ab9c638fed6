/* SPDX-License-Identifier: Apache-2.0 */
/* Device descriptions: the built-in ones agree with published figures, and each fault in a file has
 * its message. */
#include "check.h"
#include "device_description.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RATE(name, peak, value) "\"" name "\": {\"" peak "\": " value ", \"efficiency\": 0.5}"
#define HEAD                    "{\"name\": \"x\", \"source\": \"s\", "
#define SIZES                   "\"capacity_bytes\": 10, \"reserve_bytes\": 1, \"launch_ns\": 2, "
#define MEMORY                  RATE("memory", "peak_bytes_per_s", "4e9") ", "
#define POINTWISE               RATE("pointwise", "peak_flops_per_s", "8e9") ", "
#define PRODUCTS(bf16, tile)                                                                       \
    "\"matmul\": {\"fp32_flops_per_s\": 8e9, \"tf32_flops_per_s\": 0, \"bf16_flops_per_s\": " bf16 \
    ", \"fp16_flops_per_s\": 0, \"efficiency\": 0.5, \"processors\": 3, \"tile_rows\": " tile      \
    ", \"tile_columns\": 64}, "
#define ATTENTION                                                                                  \
    "\"attention\": {\"forward_efficiency\": 0.5, \"forward_half_keys\": 0, "                      \
    "\"backward_efficiency\": 0.5, \"backward_half_keys\": 9, \"half_width\": 1}}"
#define LINKS_WITH(ranks, more)                                                                    \
    "\"links\": {\"machine_ranks\": " ranks ", \"within_latency_ns\": 5, \"within_bytes_per_s\": " \
    "4e9, \"within_peer_bytes\": 600, \"between_latency_ns\": 7, \"between_bytes_per_s\": 2e9, "   \
    "\"between_peer_bytes\": 20" more "}, "
#define LINKS(ranks)       LINKS_WITH(ranks, "")
#define SLOW_LINKS(factor) LINKS_WITH("3", ", \"between_slowdown\": " factor)
#define THREADS(changes)   "\"threads\": " changes ", "
#define FLOPS              POINTWISE PRODUCTS("0", "64") ATTENTION

static const struct {
    const char *text, *said; /* NULL: accepted */
} files[] = {
    {HEAD SIZES MEMORY FLOPS, NULL},
    {"[1]", "not an object"},
    {"{", ":1: "},
    {HEAD SIZES "\"memory\": 3, " FLOPS, "\"memory\" must be an object"},
    {HEAD SIZES FLOPS, "\"memory\" is missing"},
    {HEAD SIZES "\"colour\": 1, " MEMORY FLOPS, "\"colour\" is unknown"},
    {HEAD "\"name\": \"y\", " SIZES MEMORY FLOPS, "duplicate object key"},
    {HEAD "\"capacity_bytes\": -1, \"reserve_bytes\": 1, \"launch_ns\": 2, " MEMORY FLOPS,
     "\"capacity_bytes\" must be an integer"},
    {HEAD "\"capacity_bytes\": 1, \"reserve_bytes\": 1.5, \"launch_ns\": 2, " MEMORY FLOPS,
     "\"reserve_bytes\" must be an integer"},
    {HEAD SIZES RATE("memory", "peak_bytes_per_s", "0") ", " FLOPS, "\"memory.peak_bytes_per_s\""},
    {HEAD SIZES RATE("memory", "peak_bytes_per_s", "1e999") ", " FLOPS, "overflow"},
    {HEAD SIZES RATE("memory", "rate", "1e9") ", " FLOPS, "\"memory.rate\" is unknown"},
    {HEAD SIZES MEMORY POINTWISE PRODUCTS("-1", "64") ATTENTION,
     "\"matmul.bf16_flops_per_s\" must"},
    {HEAD SIZES MEMORY POINTWISE PRODUCTS("0", "6.5") ATTENTION, "\"matmul.tile_rows\" must be an"},
    {HEAD SIZES MEMORY POINTWISE PRODUCTS("0", "0") ATTENTION, "\"matmul.tile_rows\" must be an"},
    {HEAD SIZES MEMORY POINTWISE "\"matmul\": {}, " ATTENTION,
     "\"matmul.fp32_flops_per_s\" is miss"},
    {HEAD SIZES MEMORY POINTWISE PRODUCTS("0", "64") "\"attention\": 1}",
     "\"attention\" must be an object"},
    {HEAD SIZES
     "\"cuda\": {\"arch\": \"sm_90\", \"gpus\": [], \"workspace_bytes\": 1}, " MEMORY FLOPS,
     "\"cuda.gpus\" must be an array of names"},
    {HEAD SIZES "\"cuda\": {\"arch\": \"sm_90\", \"workspace_bytes\": 1}, " MEMORY FLOPS,
     "\"cuda.gpus\" is missing"},
    {HEAD SIZES "\"rocm\": {\"arch\": \"gfx942\"}, " MEMORY FLOPS, NULL},
    {HEAD SIZES "\"rocm\": {\"arch\": 942}, " MEMORY FLOPS, "\"rocm.arch\" must be a string"},
    {HEAD SIZES "\"rocm\": {}, " MEMORY FLOPS, "\"rocm.arch\" is missing"},
    {HEAD SIZES
     "\"rocm\": {\"arch\": \"gfx942\"}, \"cuda\": {\"arch\": \"sm_90\", \"gpus\": [\"G\"], "
     "\"workspace_bytes\": 1}, " MEMORY FLOPS,
     "\"rocm\" and \"cuda\" exclude each other"},
    {HEAD SIZES LINKS("3") MEMORY FLOPS, NULL},
    {HEAD SIZES LINKS("0") MEMORY FLOPS, "\"links.machine_ranks\" must be an integer from 1"},
    {HEAD SIZES "\"links\": {\"machine_ranks\": 8}, " MEMORY FLOPS,
     "\"links.within_latency_ns\" is missing"},
    {HEAD SIZES SLOW_LINKS("1.15") MEMORY FLOPS, NULL},
    {HEAD SIZES SLOW_LINKS("0.9") MEMORY FLOPS,
     "\"links.between_slowdown\" must be a number from 1 to 10"},
    {HEAD SIZES SLOW_LINKS("\"15 %\"") MEMORY FLOPS, "\"links.between_slowdown\" must be a number"},
    {HEAD SIZES "\"links\": 8, " MEMORY FLOPS, "\"links\" must be an object"},
    {"{\"name\": \"\", \"source\": \"s\", " SIZES MEMORY FLOPS, "\"name\" must be"},
    {HEAD SIZES THREADS("{}") MEMORY FLOPS, NULL},
    {HEAD SIZES THREADS("{\"1024\": {\"launch_ns\": 9}}") MEMORY FLOPS, NULL},
    {HEAD SIZES THREADS("[2]") MEMORY FLOPS, "\"threads\" must be an object"},
    {HEAD SIZES THREADS("{\"2\": 9}") MEMORY FLOPS, "\"threads.2\" must be an object"},
    {HEAD SIZES THREADS("{\"0\": {}}") MEMORY FLOPS,
     "key \"0\", which is no number from 1 to 1024"},
    {HEAD SIZES THREADS("{\"1025\": {}}") MEMORY FLOPS, "key \"1025\", which is no number"},
    {HEAD SIZES THREADS("{\"02\": {}}") MEMORY FLOPS, "key \"02\", which is no number"},
    {HEAD SIZES THREADS("{\"two\": {}}") MEMORY FLOPS, "key \"two\", which is no number"},
    {HEAD SIZES THREADS("{\"1\": {}, \"2\": {\"launch_ns\": -1}}") MEMORY FLOPS,
     "\"threads.2.launch_ns\" must be a number"},
    {HEAD SIZES THREADS("{\"2\": {\"memory\": 1}}") MEMORY FLOPS,
     "\"threads.2.memory\" must be an object"},
    {HEAD SIZES THREADS("{\"2\": {\"matmul\": {\"rate\": 1}}}") MEMORY FLOPS,
     "\"threads.2.matmul.rate\" is unknown"},
    {HEAD SIZES THREADS("{\"2\": {\"threads\": {}}}") MEMORY FLOPS,
     "\"threads.2.threads\" is unknown"},
};

static void check_file(remat_context *ctx, struct remat_arena *arena, const char *path,
                       const char *text, const char *said)
{
    struct remat_device_description device;
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
    remat_status st = remat_device_description_read(ctx, arena, path, 0, &device);
    if (!said) {
        CHECK(st == REMAT_OK && device.matmul_flops_per_ns[REMAT_F32] == 8 &&
                  device.matmul_flops_per_ns[REMAT_F16] == 0 && device.matmul_efficiency == 0.5 &&
                  device.attention_backward.half_keys == 9 && device.memory_bytes_per_ns == 2,
              "%s: %s", text, remat_context_message(ctx));
        return;
    }
    CHECK_STATUS(ctx, st, REMAT_ERROR_INVALID, said, "%s", text);
    CHECK_STATUS(ctx, st, REMAT_ERROR_INVALID, path, "%s", text);
}

/* What is given for a number of threads replaces that key alone, or adds it, for that number. */
static void check_threads(remat_context *ctx, struct remat_arena *arena, const char *path)
{
    static const char *const objects[] = {
        "\"2\": {\"name\": \"y\", \"memory\": {\"peak_bytes_per_s\": 6e9}}",
        "\"3\": {" LINKS("4") "\"launch_ns\": 5}",
    };
    struct remat_device_description own, two, three;
    FILE *file = fopen(path, "w");
    fprintf(file, HEAD SIZES THREADS("{%s, %s}") MEMORY FLOPS, objects[0], objects[1]);
    fclose(file);
    CHECK_OK(ctx, remat_device_description_read(ctx, arena, path, 0, &own));
    CHECK_OK(ctx, remat_device_description_read(ctx, arena, path, 2, &two));
    CHECK_OK(ctx, remat_device_description_read(ctx, arena, path, 3, &three));
    CHECK(strcmp(own.name, "x") == 0 && own.memory_bytes_per_ns == 2 && own.launch_ns == 2);
    CHECK(strcmp(two.name, "y") == 0 && two.memory_bytes_per_ns == 3 && two.launch_ns == 2);
    CHECK(strcmp(three.name, "x") == 0 && three.memory_bytes_per_ns == 2 && three.launch_ns == 5);
    CHECK(own.machine_ranks == 0 && two.machine_ranks == 0 && three.machine_ranks == 4);
    CHECK(two.pointwise_flops_per_ns == own.pointwise_flops_per_ns);
    CHECK_STATUS(ctx, remat_device_description_read(ctx, arena, path, 4, &two), REMAT_ERROR_USAGE,
                 "no rates of that number (accepted: 2, 3)");
    CHECK_STATUS(ctx, remat_device_description_read(ctx, arena, "cpu", 2, &two), REMAT_ERROR_USAGE,
                 "cpu has no rates by number of threads");
}

static const struct {
    const char *key, *said;
    enum { INTEGER, NUMBER, NUMBER_OR_0, FACTOR } kind;
    double least, most;
} ranges[] = {
#define RANGE(key, kind, least, most) {key, "\"" key "\" must be ", kind, least, most},
#include "device_ranges.def"
#undef RANGE
};

/* The first description with another number in one place. */
static void write_number(const char *path, const char *key, json_t *number)
{
    json_t *root = NULL, *object;
    for (unsigned i = 0; !root; i++) {
        root = json_loads(remat_device_texts[i].json, 0, NULL);
        if (!json_object_get(root, "cuda")) {
            json_decref(root);
            root = NULL;
        }
    }
    const char *dot = strchr(key, '.');
    char prefix[32];
    snprintf(prefix, sizeof prefix, "%.*s", dot ? (int)(dot - key) : 0, key);
    object = dot ? json_object_get(root, prefix) : root;
    json_object_set_new(object, dot ? dot + 1 : key, number);
    json_dump_file(root, path, JSON_REAL_PRECISION(17));
    json_decref(root);
}

static void check_number(remat_context *ctx, struct remat_arena *arena, const char *path, size_t i,
                         double value, bool accepted)
{
    struct remat_device_description device;
    bool integer = ranges[i].kind == INTEGER;
    write_number(path, ranges[i].key, integer ? json_integer((json_int_t)value) : json_real(value));
    remat_status st = remat_device_description_read(ctx, arena, path, 0, &device);
    CHECK(st == (accepted ? REMAT_OK : REMAT_ERROR_INVALID), "%s of %.17g: status %d",
          ranges[i].key, value, (int)st);
    CHECK(accepted || strstr(remat_context_message(ctx), ranges[i].said), "%s of %.17g: '%s'",
          ranges[i].key, value, remat_context_message(ctx));
}

/* Both ends are accepted, what lies beyond is not. */
static void check_ranges(remat_context *ctx, struct remat_arena *arena, const char *path)
{
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        double step = ranges[i].kind == INTEGER ? 1 : 0;
        double below = step > 0 ? ranges[i].least - 1 : nextafter(ranges[i].least, -1);
        double above = step > 0 ? ranges[i].most + 1 : nextafter(ranges[i].most, INFINITY);
        check_number(ctx, arena, path, i, ranges[i].least, true);
        check_number(ctx, arena, path, i, ranges[i].most, true);
        check_number(ctx, arena, path, i, below, false);
        check_number(ctx, arena, path, i, above, false);
        check_number(ctx, arena, path, i, -1, false);
        check_number(ctx, arena, path, i, 0, ranges[i].least == 0 || ranges[i].kind == NUMBER_OR_0);
    }
}

/* From other sources than the descriptions: winston-zhang-orz/gpu-specs specs.md (TFLOP/s dense,
 * GB/s and GB of the cards, half of the GB/s of their NVLink or PCIe; L4, A100 PCIe); for what it
 * lacks TechPowerUp's GPU database (GeForce, A6000, L40), NVIDIA's developer blogs on H200 and
 * Blackwell, stas00/ml-engineering compute/accelerator (GB200, MI300X), karpathy/nanochat issue 60
 * (RTX 3090, RTX 5090, A6000) and reports of users (A10G, H20, H800, GH200). */
static const struct {
    const char *name;
    double fp32, tf32, bf16, fp16, gb_per_s, gb, link_gb_per_s;
} published[] = {
    {"a100-40", 19.5, 156, 312, 312, 1555, 40, 300},
    {"a100-80", 19.5, 156, 312, 312, 2039, 80, 300},
    {"a100-pcie", 19.5, 156, 312, 312, 1935, 80, 32},
    {"a10g", 35, 35, 70, 70, 600, 24, 32},
    {"a6000", 38.7, 77.4, 154.8, 154.8, 768, 48, 32},
    {"b200", 75, 1100, 2250, 2250, 8000, 180, 900},
    {"gb200", 80, 1250, 2500, 2500, 8000, 186, 900},
    {"gb300", 80, 1250, 2500, 2500, 8000, 279, 900},
    {"gh200", 67, 495, 989.5, 989.5, 4000, 96, 450},
    {"h100-96", 67, 495, 989.5, 989.5, 2400, 96, 450},
    {"h100-pcie", 51.2, 378, 756.5, 756.5, 2000, 80, 64},
    {"h100-sxm", 67, 495, 989.5, 989.5, 3350, 80, 450},
    {"h20", 44, 74, 148, 148, 4000, 96, 450},
    {"h800", 67, 495, 989.5, 989.5, 3350, 80, 200},
    {"h200", 67, 495, 989.5, 989.5, 4800, 141, 450},
    {"l4", 30.3, 60, 121, 121, 300, 24, 32},
    {"l40", 90.5, 90.5, 181, 181, 864, 48, 32},
    {"mi300x", 163.4, 653.7, 1307, 1307, 5300, 192, 448},
    {"rtx-3090", 35.6, 35.6, 71, 71, 936, 24, 32},
    {"rtx-5090", 104.8, 104.8, 209.5, 209.5, 1792, 32, 64},
    {"l40s", 91.6, 183, 362, 362, 864, 48, 32},
    {"rtx-4090", 82.6, 82.6, 165.2, 165.2, 1008, 24, 32},
    {"t4", 8.1, 0, 0, 65, 320, 16, 16},
    {"v100", 15.7, 0, 0, 125, 900, 16, 150},
    {"v100-32", 15.7, 0, 0, 125, 900, 32, 150},
};

static bool is_near(double value, double expected)
{
    return expected == 0 ? value == 0 : value > 0.95 * expected && value < 1.05 * expected;
}

/* bytes of the memory: usable ones are fewer than those printed on the box */
static bool is_capacity(uint64_t bytes, double gb)
{
    return (double)bytes < gb * 1073741824 && (double)bytes > 0.93 * gb * 1e9;
}

static void check_published(const struct remat_device_description *device)
{
    const double *rates = device->matmul_flops_per_ns;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        if (strcmp(published[i].name, device->name) != 0)
            continue;
        CHECK(is_near(rates[REMAT_F32], 1e3 * published[i].fp32), "%s: fp32", device->name);
        CHECK(is_near(device->matmul_tf32_flops_per_ns, 1e3 * published[i].tf32), "%s: tf32",
              device->name);
        CHECK(is_near(rates[REMAT_BF16], 1e3 * published[i].bf16), "%s: bf16", device->name);
        CHECK(is_near(rates[REMAT_F16], 1e3 * published[i].fp16), "%s: fp16", device->name);
        CHECK(device->memory_bytes_per_ns < published[i].gb_per_s &&
                  device->memory_bytes_per_ns > 0.7 * published[i].gb_per_s,
              "%s: bandwidth", device->name);
        CHECK(device->within.bytes_per_ns < published[i].link_gb_per_s &&
                  device->within.bytes_per_ns > 0.3 * published[i].link_gb_per_s,
              "%s: links", device->name);
        CHECK(is_capacity(device->capacity_bytes, published[i].gb), "%s: capacity", device->name);
        return;
    }
    CHECK(strcmp(device->name, "cpu") == 0, "%s: no published figures", device->name);
}

/* What holds of every device. */
static void check_sanity(const struct remat_device_description *device)
{
    const double *rates = device->matmul_flops_per_ns;
    CHECK(rates[REMAT_BF16] == 0 || rates[REMAT_BF16] >= rates[REMAT_F32], "%s: bf16",
          device->name);
    CHECK(rates[REMAT_F16] == 0 || rates[REMAT_F16] >= rates[REMAT_F32], "%s: fp16", device->name);
    CHECK(device->pointwise_flops_per_ns <= rates[REMAT_F32], "%s: pointwise", device->name);
    CHECK(device->attention_backward.half_keys >= device->attention_forward.half_keys,
          "%s: attention", device->name);
    CHECK(device->machine_ranks > 0 &&
              device->within.bytes_per_ns >= device->between.bytes_per_ns &&
              device->within.latency_ns <= device->between.latency_ns &&
              device->within.bytes_per_ns < device->memory_bytes_per_ns,
          "%s: links", device->name);
    CHECK(device->launch_ns > 0 && device->reserve_bytes > 0, "%s: launch, reserve", device->name);
    CHECK(!device->capacity_bytes || device->reserve_bytes < device->capacity_bytes / 20,
          "%s: reserve", device->name);
}

/* Names as people write them and as drivers have them (nvidia-smi -L). */
static const struct {
    const char *written, *meant;
} names[] = {
    {"A100-80", "a100-80"},
    {"A100 80GB", "a100-80"},
    {"V100-32GB", "v100-32"},
    {"NVIDIA A100-SXM4-80GB", "a100-80"},
    {"a100-sxm4-40gb", "a100-40"},
    {"NVIDIA A100 80GB PCIe", "a100-pcie"},
    {"A6000", "a6000"},
    {"RTX A6000", "a6000"},
    {"rtx_a6000", "a6000"},
    {"A10G", "a10g"},
    {"GB200", "gb200"},
    {"nvidia gb300", "gb300"},
    {"GH200", "gh200"},
    {"H100 SXM", "h100-sxm"},
    {"NVIDIA H100 80GB HBM3", "h100-sxm"},
    {"NVIDIA H100 PCIe", "h100-pcie"},
    {"NVIDIA H100", "h100-96"},
    {"H20", "h20"},
    {"NVIDIA H200", "h200"},
    {"L4", "l4"},
    {"NVIDIA L40", "l40"},
    {"AMD Instinct MI300X", "mi300x"},
    {"3090", "rtx-3090"},
    {"rtx4090", "rtx-4090"},
    {"NVIDIA GeForce RTX 5090", "rtx-5090"},
    {"Tesla T4", "t4"},
    {"Tesla V100-SXM2-32GB", "v100-32"},
    {"V100", "v100"},
};

/* Those that mean none: of a family the fastest comes first. */
static const struct {
    const char *written, *said;
} unknown_names[] = {
    {"h100", "did you mean 'h100-sxm' (84.9 GB), 'h100-96' (102.0 GB) or 'h100-pcie' (84.9 GB)?"},
    {"A100", "did you mean 'a100-80' (85.1 GB), 'a100-40' (42.3 GB) or 'a100-pcie' (85.0 GB)?"},
    {"H100-NVL", "did you mean 'h100-sxm' (84.9 GB), 'h100-96'"},
    {"NVIDIA RTX", "--target 'NVIDIA RTX' is unknown"},
    {"", "--target '' is unknown (accepted: a100-40, "},
    {"cpus", "did you mean 'cpu'? (accepted"},
};

static void check_names(remat_context *ctx, struct remat_arena *arena)
{
    struct remat_device_description device;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK_OK(ctx, remat_device_description_read(ctx, arena, names[i].written, 0, &device));
        CHECK(strcmp(device.name, names[i].meant) == 0, "%s: %s", names[i].written, device.name);
    }
    for (size_t i = 0; i < sizeof unknown_names / sizeof *unknown_names; i++)
        CHECK_STATUS(
            ctx, remat_device_description_read(ctx, arena, unknown_names[i].written, 0, &device),
            REMAT_ERROR_USAGE, unknown_names[i].said, "%s", unknown_names[i].written);
    for (unsigned d = 0; d < remat_device_text_count; d++) {
        struct remat_device_description own;
        CHECK_OK(ctx,
                 remat_device_description_read(ctx, arena, remat_device_texts[d].name, 0, &own));
        for (uint32_t g = 0; g < own.gpu_count; g++) {
            CHECK_OK(ctx, remat_device_description_read(ctx, arena, own.gpus[g], 0, &device));
            CHECK(strcmp(device.name, own.name) == 0, "%s: %s", own.gpus[g], device.name);
        }
    }
}

/* --- memory that runs out --- */

static int json_live, allocations_left;

static void *json_allocate(size_t bytes)
{
    json_live++;
    return malloc(bytes);
}

static void json_release(void *pointer)
{
    json_live -= pointer != NULL;
    free(pointer);
}

static void *reallocate(void *user, void *pointer, size_t bytes)
{
    (void)user;
    if (bytes == 0) {
        free(pointer);
        return NULL;
    }
    return allocations_left-- > 0 ? realloc(pointer, bytes) : NULL;
}

static remat_status read_again(void *user)
{
    struct remat_arena *arena = user;
    struct remat_device_description device;
    return remat_device_description_read(arena->ctx, arena, "h100-sxm", 0, &device);
}

/* Each allocation fails once; what the JSON library has allocated is freed all the same. */
static void check_failing_allocations(void)
{
    const remat_allocator allocator = {reallocate, NULL};
    remat_status st = REMAT_ERROR_MEMORY;
    int failed = 0;
    json_set_alloc_funcs(json_allocate, json_release);
    for (int n = 1; st != REMAT_OK; n++) {
        allocations_left = n;
        remat_context *ctx = remat_context_create(&allocator, NULL);
        struct remat_arena arena;
        remat_arena_init(&arena, ctx);
        st = remat_guard(ctx, read_again, &arena);
        failed += st != REMAT_OK;
        CHECK(st == REMAT_OK || st == REMAT_ERROR_MEMORY, "%d allocations: %d", n, (int)st);
        CHECK(json_live == 0, "%d allocations: %d of JSON are left", n, json_live);
        remat_arena_release(&arena);
        remat_context_destroy(&ctx);
    }
    CHECK(failed > 0, "no allocation failed");
    json_set_alloc_funcs(malloc, free);
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    struct remat_device_description device;
    char path[64];
    remat_arena_init(&arena, ctx);
    snprintf(path, sizeof path, "/tmp/remat_device_%ld.json", (long)getpid());
    for (unsigned d = 0; d < remat_device_text_count; d++) {
        const char *name = remat_device_texts[d].name;
        CHECK_OK(ctx, remat_device_description_read(ctx, &arena, name, 0, &device));
        CHECK(strcmp(device.name, name) == 0, "%s", name);
        check_sanity(&device);
        check_published(&device);
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        check_file(ctx, &arena, path, files[i].text, files[i].said);
    check_ranges(ctx, &arena, path);
    check_names(ctx, &arena);
    check_threads(ctx, &arena, path);
    remove(path);
    CHECK_STATUS(ctx, remat_device_description_read(ctx, &arena, "h300", 0, &device),
                 REMAT_ERROR_USAGE, "h100-96, h100-pcie, h100-sxm, h20, h200, ");
    CHECK_STATUS(ctx, remat_device_description_read(ctx, &arena, "/nowhere/x.json", 0, &device),
                 REMAT_ERROR_IO, "", "no such file");
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    check_failing_allocations();
    return check_exit();
}
