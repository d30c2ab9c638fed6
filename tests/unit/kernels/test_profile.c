/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles: exact at measured sizes, between them as the logarithms have it; other kernels
 * modelled; variants in proportion to the kernel they are made from; each fault in a file has its
 * message, and no damage is more than a message. */
#include "device_description.h"
#include "kernel_body.h"
#include "price.h"
#include "profile.h"
#include "workbench.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define HEAD                                                                                       \
    "{\"schema\": \"remat-profile/1\", \"producer\": \"p\", \"device\": \"cpu\", \"kernels\": ["
#define ROW(kernel, operands, flops, bytes, ns)                                                    \
    "{\"kernel\": \"" kernel "\", \"operands\": \"" operands "\", \"flops\": " flops               \
    ", \"moved_bytes\": " bytes ", \"count\": 2, \"median_ns\": " ns "}"
#define MATMUL(m, flops, bytes, ns)                                                                \
    ROW("matmul", "f32[" m ",256] f32[256,256] f32[" m ",256]", flops, bytes, ns)
/* 2 m 256 256 flops, 4 (2 m 256 + 256 256) bytes */
#define M128 MATMUL("128", "16777216", "524288", "300000")
#define M512 MATMUL("512", "67108864", "1310720", "900000")

static char path[64];

static remat_status read_text(struct workbench *w, const char *text, size_t bytes,
                              struct remat_device_description *device)
{
    FILE *file = fopen(path, "w");
    fwrite(text, 1, bytes, file);
    fclose(file);
    return remat_profile_read(w->ctx, &w->arena, path, "p", device, &device->profile);
}

static struct remat_device_description device_of(struct workbench *w)
{
    struct remat_device_description device = {0};
    CHECK_OK(w->ctx, remat_device_description_read(w->ctx, &w->arena, "cpu", 0, &device));
    return device;
}

/* The price of one op with and without the profile. */
static struct remat_price price(const char *text, const char *op, const char *inputs,
                                struct remat_price *modelled)
{
    struct workbench w;
    struct remat_kernel_list list;
    remat_value values[4], output;
    workbench_open(&w);
    uint32_t count = workbench_inputs(&w, inputs, values);
    workbench_node(&w, op, values, count, "", &output);
    workbench_output(&w, output);
    struct remat_device_description device = device_of(&w);
    list = remat_fuse(&w.arena, w.graph);
    CHECK(list.count == 1, "%s", op);
    *modelled = remat_price_kernel(w.graph, &list.kernels[0], &device);
    CHECK(modelled->source == REMAT_COST_MODELLED, "no profile");
    CHECK_OK(w.ctx, read_text(&w, text, strlen(text), &device));
    struct remat_price result = remat_price_kernel(w.graph, &list.kernels[0], &device);
    workbench_close(&w);
    return result;
}

static void check_price(const char *text, const char *op, const char *inputs, uint8_t source,
                        double least, double most)
{
    struct remat_price modelled, p = price(text, op, inputs, &modelled);
    CHECK(p.source == source, "%s %s: %s", op, inputs, remat_cost_source_name(p.source));
    CHECK((double)p.ns >= least && (double)p.ns <= most, "%s %s: %llu ns, expected %.0f to %.0f",
          op, inputs, (unsigned long long)p.ns, least, most);
}

static double work(double m)
{
    return 2 * m * 256 * 256 / 202 + 1;
}

/* Of what was measured beside the launch. */
static double times_ratio(double m, double measured_m, double ns)
{
    return 5000 + work(m) * (ns - 5000) / work(measured_m);
}

static void check_times(void)
{
    struct remat_price modelled;
    static const char both[] = HEAD M512 ", " M128 "]}";
    check_price(both, "matmul", "128,256 256,256", REMAT_COST_MEASURED, 300000, 300000);
    check_price(both, "matmul", "512,256 256,256", REMAT_COST_MEASURED, 900000, 900000);
    /* where a measured size would be, had it other extents */
    check_price(both, "matmul", "256,128 128,256", REMAT_COST_INTERPOLATED, 299990, 300010);
    double share = log(work(256) / work(128)) / log(work(512) / work(128));
    double between = 5000 + work(256) * exp(log(295000 / work(128)) * (1 - share) +
                                            log(895000 / work(512)) * share);
    check_price(both, "matmul", "256,256 256,256", REMAT_COST_INTERPOLATED, between - 5,
                between + 5);
    double below = times_ratio(64, 128, 300000), above = times_ratio(1024, 512, 900000);
    check_price(both, "matmul", "64,256 256,256", REMAT_COST_INTERPOLATED, below - 5, below + 5);
    check_price(both, "matmul", "1024,256 256,256", REMAT_COST_INTERPOLATED, above - 9, above + 9);
    /* another dtype, another kernel */
    price(both, "matmul", "b128,256 b256,256", &modelled);
    check_price(both, "matmul", "b128,256 b256,256", REMAT_COST_MODELLED, (double)modelled.ns,
                (double)modelled.ns);
    price(both, "exp", "64,64", &modelled);
    check_price(both, "exp", "64,64", REMAT_COST_MODELLED, (double)modelled.ns,
                (double)modelled.ns);
    /* a fused kernel that the profile does not name has nothing of one that it does */
    static const char slow[] = HEAD ROW("x#12345678", "f32[5]", "0", "5000000", "315003") "]}";
    check_price(slow, "exp", "64,64", REMAT_COST_MODELLED, (double)modelled.ns,
                (double)modelled.ns);
}

/* On a GPU: the price of one op, and the modelled one; `rows` NULL: no profile. */
static struct remat_price gpu_price(const char *rows, const char *op, const char *inputs,
                                    const char *attributes)
{
    struct workbench w;
    remat_value values[4], outputs[2];
    struct remat_device_description device = {0};
    workbench_open(&w);
    uint32_t count = workbench_inputs(&w, inputs, values);
    workbench_node(&w, op, values, count, attributes, outputs);
    workbench_output(&w, outputs[0]);
    struct remat_kernel_list list = remat_fuse(&w.arena, w.graph);
    CHECK_OK(w.ctx, remat_device_description_read(w.ctx, &w.arena, "h100-sxm", 0, &device));
    if (rows) {
        const char *text = remat_arena_format(
            &w.arena,
            "{\"schema\": \"remat-profile/1\", \"producer\": \"p\", \"device\": \"NVIDIA H100 80GB "
            "HBM3\", \"arch\": \"sm_90\", \"kernels\": [%s]}",
            rows);
        CHECK_OK(w.ctx, read_text(&w, text, strlen(text), &device));
    }
    struct remat_price price = remat_price_kernel(w.graph, &list.kernels[0], &device);
    workbench_close(&w);
    return price;
}

static bool is_within(uint64_t ns, double expected, double share)
{
    return fabs((double)ns - expected) <= share * expected + 2;
}

/* Where a profile says what the description says, other sizes have the description's prices: tiles
 * of products, keys of attention and the launch are no part of a ratio. */
static void check_agreement(void)
{
    static const struct {
        const char *op, *attributes, *measured, *text, *others[3];
    } cases[] = {
        {"matmul",
         "",
         "b8192,768 b768,2304",
         "bf16[8192,768] bf16[768,2304] bf16[8192,2304]",
         {"b4096,4096 b4096,4096", "b128,128 b128,128", "b8192,768 b768,768"}},
        {"attention",
         "scale=0.125 causal=1",
         "b8,1024,12,64 b8,1024,12,64 b8,1024,12,64",
         "bf16[8,1024,12,64] bf16[8,1024,12,64] bf16[8,1024,12,64] bf16[8,1024,12,64] "
         "f32[8,12,1024]",
         {"b1,8192,32,64 b1,8192,32,64 b1,8192,32,64", "b2,128,12,64 b2,128,12,64 b2,128,12,64",
          "b1,4096,8,128 b1,4096,8,128 b1,4096,8,128"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char row[512];
        struct remat_price own =
            gpu_price(NULL, cases[i].op, cases[i].measured, cases[i].attributes);
        snprintf(row, sizeof row,
                 "{\"kernel\": \"%s\", \"operands\": \"%s\", \"flops\": %llu, \"moved_bytes\": "
                 "%llu, \"count\": 3, \"median_ns\": %llu}",
                 cases[i].op, cases[i].text, (unsigned long long)own.flops,
                 (unsigned long long)own.moved_bytes, (unsigned long long)own.ns);
        struct remat_price same =
            gpu_price(row, cases[i].op, cases[i].measured, cases[i].attributes);
        CHECK(same.source == REMAT_COST_MEASURED && same.ns == own.ns, "%s: measured as %llu ns",
              cases[i].op, (unsigned long long)same.ns);
        for (size_t k = 0; k < sizeof cases[i].others / sizeof *cases[i].others; k++) {
            const char *inputs = cases[i].others[k];
            struct remat_price modelled = gpu_price(NULL, cases[i].op, inputs, cases[i].attributes);
            struct remat_price price = gpu_price(row, cases[i].op, inputs, cases[i].attributes);
            CHECK(price.source == REMAT_COST_INTERPOLATED &&
                      is_within(price.ns, (double)modelled.ns, 0.001),
                  "%s %s: %s %llu ns, modelled %llu", cases[i].op, inputs,
                  remat_cost_source_name(price.source), (unsigned long long)price.ns,
                  (unsigned long long)modelled.ns);
        }
    }
}

/* Timed one by one, commands take the latency of a launch that a graph hides: what the shortest
 * takes above the description's 2 us. */
static void check_launch(void)
{
    static const char product[] = ROW("matmul", "bf16[8192,768] bf16[768,2304] bf16[8192,2304]",
                                      "28991029248", "53870592", "60000");
    static const char tiny[] = ROW("x#12345678", "f32[5]", "5", "40", "5900");
    char both[1024];
    snprintf(both, sizeof both, "%s, %s", tiny, product);
    static const char inputs[] = "b8192,768 b768,2304", larger[] = "b8192,768 b768,4608";
    CHECK(gpu_price(product, "matmul", inputs, "").ns == 60000, "no command is short");
    uint64_t ns = gpu_price(both, "matmul", inputs, "").ns;
    CHECK(is_within(ns, 60000 - 3900, 0.0001), "%llu ns", (unsigned long long)ns);
    double ratio = (60000 - 5900) / (double)(gpu_price(NULL, "matmul", inputs, "").ns - 2000);
    double expected = 2000 + ratio * (double)(gpu_price(NULL, "matmul", larger, "").ns - 2000);
    ns = gpu_price(both, "matmul", larger, "").ns;
    CHECK(is_within(ns, expected, 0.001), "%llu ns of %.0f", (unsigned long long)ns, expected);
}

/* Measured as a variant, a kernel still takes what its roofline time is of the whole's. The bound's
 * device says the same, but for rounding, and never more. */
static void check_variant(void)
{
    struct workbench w;
    struct remat_kernel_list list;
    remat_value values[2], outputs[2];
    workbench_open(&w);
    workbench_inputs(&w, "512,512 4096,4096", values);
    for (int i = 0; i < 2; i++)
        workbench_node(&w, "exp", &values[i], 1, "", &outputs[i]);
    w.graph->outputs = outputs;
    w.graph->output_count = 2;
    struct remat_device_description device = device_of(&w);
    list = remat_fuse(&w.arena, w.graph);
    CHECK(list.count == 2, "fuse");
    const struct remat_kernel_info *variant = &list.kernels[0];
    struct remat_price modelled = remat_price_kernel(w.graph, variant, &device);
    struct remat_price plain = remat_price_kernel(w.graph, &list.kernels[1], &device);
    CHECK(remat_price_variant(w.graph, variant, &plain, &device).ns == modelled.ns, "no profile");
    const char *text = remat_arena_format(
        &w.arena,
        HEAD
        "{\"kernel\": \"#%08x\", \"operands\": \"f32[512,512] f32[512,512]\", \"flops\": %llu, "
        "\"moved_bytes\": 2097152, \"count\": 9, \"median_ns\": 500}, %s]}",
        remat_kernel_key_hash(variant), (unsigned long long)modelled.flops,
        ROW("x#12345678", "f32[5]", "0", "500000000", "31500003"));
    CHECK_OK(w.ctx, read_text(&w, text, strlen(text), &device));
    struct remat_price own = remat_price_kernel(w.graph, variant, &device);
    CHECK(own.source == REMAT_COST_MEASURED && own.ns == 500, "measured, %llu ns",
          (unsigned long long)own.ns);
    static const uint64_t wholes_ns[] = {1, 1000, 7654321, UINT64_C(20000000011)};
    for (int i = 0; i < 4; i++) {
        struct remat_price whole = plain;
        whole.ns = wholes_ns[i];
        whole.source = REMAT_COST_MEASURED;
        struct remat_price price = remat_price_variant(w.graph, variant, &whole, &device);
        double share = modelled.roofline_ns / plain.roofline_ns;
        CHECK(price.ns == (uint64_t)ceil(share * (double)whole.ns) &&
                  price.source == REMAT_COST_INTERPOLATED,
              "%llu ns of %llu", (unsigned long long)price.ns, (unsigned long long)whole.ns);
        struct remat_device_description on = remat_price_variants_on(&device, &whole);
        uint64_t bound_ns = remat_price_kernel(w.graph, variant, &on).ns;
        CHECK(bound_ns <= price.ns && bound_ns + 2 + price.ns / 100000000 >= price.ns,
              "%llu ns on the bound's device, %llu by share", (unsigned long long)bound_ns,
              (unsigned long long)price.ns);
        price = remat_price_variant(w.graph, &list.kernels[1], &whole, &device);
        CHECK(price.ns == whole.ns && price.source == whole.source, "the whole: %llu ns",
              (unsigned long long)price.ns);
    }
    workbench_close(&w);
}

#define EXCHANGE ROW("exchange", "f32[6] f32[2,3]", "0", "48", "70000")

/* Of the profile's mesh it is measured, of another one modelled, although other sizes are known. */
static void check_transfers(void)
{
    static const struct {
        const char *mesh;
        uint32_t elements, ranks;
        uint8_t source;
    } rows[] = {{", \"mesh\": \"dp=2\"", 6, 2, REMAT_COST_MEASURED},
                {", \"mesh\": \"dp=2\"", 600, 2, REMAT_COST_INTERPOLATED},
                {", \"mesh\": \"dp=2\"", 6, 3, REMAT_COST_MODELLED},
                {", \"mesh\": \"dp=4\"", 6, 2, REMAT_COST_MODELLED},
                {"", 6, 2, REMAT_COST_MODELLED}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct workbench w;
        char inputs[16], attributes[32];
        remat_value in, out;
        workbench_open(&w);
        w.graph->mesh = (struct remat_mesh){1, {{"dp", rows[i].ranks}}};
        snprintf(inputs, sizeof inputs, "%u", rows[i].elements);
        snprintf(attributes, sizeof attributes, "group=0 ranks=%u", rows[i].ranks);
        workbench_inputs(&w, inputs, &in);
        workbench_node(&w, "exchange", &in, 1, attributes, &out);
        workbench_output(&w, out);
        struct remat_device_description device = device_of(&w);
        struct remat_kernel_list list = remat_fuse(&w.arena, w.graph);
        uint64_t modelled_ns = remat_price_kernel(w.graph, &list.kernels[0], &device).ns;
        const char *text = remat_arena_format(&w.arena, HEAD EXCHANGE "]%s}", rows[i].mesh);
        CHECK_OK(w.ctx, read_text(&w, text, strlen(text), &device));
        struct remat_price price = remat_price_kernel(w.graph, &list.kernels[0], &device);
        CHECK(price.source == rows[i].source, "row %zu: %s", i,
              remat_cost_source_name(price.source));
        CHECK(price.source == REMAT_COST_MODELLED ? price.ns == modelled_ns : price.ns >= 70000,
              "row %zu: %llu ns, modelled %llu", i, (unsigned long long)price.ns,
              (unsigned long long)modelled_ns);
        workbench_close(&w);
    }
}

static const struct {
    const char *text, *said;
} faults[] = {
    {"", ":1: "},
    {"[]", "its \"schema\" is \"\""},
    {"{\"schema\": \"remat-profile/2\"}", "expected \"remat-profile/1\""},
    {"{\"schema\": \"remat-profile/1\", \"producer\": \"q\"}", "record it again"},
    {"{\"schema\": \"remat-profile/1\", \"producer\": \"p\", \"device\": \"t4\"}",
     "\"device\" is \"t4\", expected \"cpu\""},
    {"{\"schema\": \"remat-profile/1\", \"producer\": \"p\", \"device\": \"cpu\"}",
     "\"kernels\" must be an array"},
    {HEAD "1]}", "kernels[0]: \"kernel\" must be a string"},
    {HEAD M128 ", " M512 ", " M128 "]}", "a kernel of one size has two rows"},
    {HEAD M128 ", " MATMUL("512", "-1", "1310720", "9") "]}", "kernels[1]: \"flops\" must be"},
    {HEAD MATMUL("512", "1", "1", "0") "]}",
     "kernels[0]: \"median_ns\" must be an integer from 1 to 10000000000000"},
    {HEAD MATMUL("512", "1", "1", "10000000000001") "]}", "kernels[0]: \"median_ns\" must be"},
    {HEAD MATMUL("512", "1000000000000000001", "1", "1") "]}", "kernels[0]: \"flops\" must be"},
    {HEAD MATMUL("512", "1", "1000000000000000001", "1") "]}", "\"moved_bytes\" must be"},
    {HEAD MATMUL("512", "1", "1e300", "1") "]}", "kernels[0]: \"moved_bytes\" must be"},
    {HEAD "], \"mesh\": 4}", "\"mesh\" must be a string"},
    {HEAD ROW("magic", "f32[2]", "1", "1", "1") "]}", "kernels[0]: \"kernel\" is no kernel"},
};

static void check_faults(void)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct workbench w;
        workbench_open(&w);
        struct remat_device_description device = device_of(&w);
        remat_status st = read_text(&w, faults[i].text, strlen(faults[i].text), &device);
        const char *message = remat_context_message(w.ctx);
        CHECK(st == REMAT_ERROR_INVALID && strstr(message, faults[i].said) && strstr(message, path),
              "'%s': '%s' is not in '%s'", faults[i].text, faults[i].said, message);
        workbench_close(&w);
    }
}

/* Of a GPU: the names that the description lists, and its architecture. */
static void check_gpus(void)
{
    static const struct {
        const char *device, *said; /* NULL: accepted */
    } gpus[] = {
        {"\"NVIDIA H200\", \"arch\": \"sm_90\"", NULL},
        {"\"NVIDIA H200\", \"arch\": \"sm_80\"", "\"arch\" is \"sm_80\", expected \"sm_90\""},
        {"\"NVIDIA H200\"", "\"arch\" is \"\", expected \"sm_90\""},
        {"\"NVIDIA H200 NVL\", \"arch\": \"sm_90\"",
         "\"device\" is \"NVIDIA H200 NVL\", expected \"NVIDIA H200\""},
        {"\"h200\"", "\"device\" is \"h200\", expected \"NVIDIA H200\""},
        {"7", "\"device\" is \"\""},
    };
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
        struct workbench w;
        struct remat_device_description device = {0};
        char text[512];
        workbench_open(&w);
        snprintf(text, sizeof text,
                 "{\"schema\": \"remat-profile/1\", \"producer\": \"p\", \"device\": %s, "
                 "\"kernels\": []}",
                 gpus[i].device);
        CHECK_OK(w.ctx, remat_device_description_read(w.ctx, &w.arena, "h200", 0, &device));
        remat_status st = read_text(&w, text, strlen(text), &device);
        const char *message = remat_context_message(w.ctx);
        CHECK(gpus[i].said ? st == REMAT_ERROR_INVALID && strstr(message, gpus[i].said) : !st,
              "%s: status %d, '%s'", gpus[i].device, (int)st, message);
        workbench_close(&w);
    }
}

/* That of a built-in description by its name, of a file by that of the file. */
static void check_beside(void)
{
    struct workbench w;
    struct remat_device_description device = {0};
    workbench_open(&w);
    CHECK(!remat_profile_beside(&w.arena, "cpu", &(struct remat_device_description){.name = "cpu"}),
          "the CPU has none");
    CHECK_OK(w.ctx, remat_device_description_read(w.ctx, &w.arena, "H100 SXM", 0, &device));
    char producer[32] = "";
    for (unsigned i = 0; i < remat_device_text_count; i++)
        if (remat_device_texts[i].profile)
            sscanf(strstr(remat_device_texts[i].profile, "\"producer\""),
                   "\"producer\": \"%31[^\"]", producer);
    const char *name = remat_profile_beside(&w.arena, "H100 SXM", &device);
    CHECK(name && strcmp(name, "h100-sxm") == 0, "of H100 SXM: %s", name ? name : "none");
    CHECK_OK(w.ctx, remat_profile_read(w.ctx, &w.arena, name, producer, &device, &device.profile));
    CHECK(device.profile->count > 90, "%u rows", device.profile->count);
    CHECK_STATUS(w.ctx,
                 remat_profile_read(w.ctx, &w.arena, "h200", producer, &device, &device.profile),
                 REMAT_ERROR_IO, "h200", "it has none");
    const char *file = remat_arena_format(&w.arena, "/tmp/remat_beside_%ld.json", (long)getpid());
    const char *beside =
        remat_arena_format(&w.arena, "/tmp/remat_beside_%ld.profile.json", (long)getpid());
    CHECK(!remat_profile_beside(&w.arena, file, &device), "no file is there");
    FILE *written = fopen(beside, "w");
    fclose(written);
    const char *found = remat_profile_beside(&w.arena, file, &device);
    CHECK(found && strcmp(found, beside) == 0, "%s", found ? found : "none");
    CHECK(!remat_profile_beside(&w.arena, ".json", &device), "a file without a name");
    remove(beside);
    workbench_close(&w);
}

static void check_damage(void)
{
    static const char good[] =
        HEAD M128 ", " M512 ", " ROW("x#12345678", "f32[5] i32[*3,5]'", "0", "5000000", "3") "]}";
    char text[sizeof good];
    uint32_t seed = 1;
    for (int i = 0; i < 1500; i++) {
        struct workbench w;
        memcpy(text, good, sizeof good);
        for (int k = 0; k < 1 + i % 3; k++) {
            seed = seed * 1664525 + 1013904223;
            text[(seed >> 8) % (sizeof good - 1)] = (char)(seed >> 24);
        }
        workbench_open(&w);
        struct remat_device_description device = device_of(&w);
        remat_status st =
            read_text(&w, text, i % 7 ? sizeof text - 1 : seed % sizeof text, &device);
        CHECK(st == REMAT_OK || st == REMAT_ERROR_INVALID, "damage %d: status %d", i, (int)st);
        workbench_close(&w);
    }
}

int main(void)
{
    snprintf(path, sizeof path, "/tmp/remat_profile_%ld.json", (long)getpid());
    check_times();
    check_agreement();
    check_launch();
    check_variant();
    check_transfers();
    check_faults();
    check_gpus();
    check_beside();
    check_damage();
    remove(path);
    return check_exit();
}
