/* SPDX-License-Identifier: Apache-2.0 */
/* Prices: sub-additive over fused kernels, however they are cut; of products and attention as
 * published measurements have them; nothing for dtypes that a device lacks. */
#include "price.h"
#include "workbench.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

static uint32_t seed = 1;

static uint32_t pick(uint32_t count)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % count;
}

static struct remat_device_description device_of(struct workbench *w, const char *name)
{
    struct remat_device_description device = {0};
    CHECK_OK(w->ctx, remat_device_description_read(w->ctx, &w->arena, name, 0, &device), "%s",
             name);
    return device;
}

/* --- sub-additivity --- */

#define NODES_MAX 14

struct pool { /* values of one shape, and those with one element a row */
    remat_value elements[NODES_MAX + 8], rows[NODES_MAX + 8];
    uint32_t element_count, row_count;
};

/* Mostly the newest element, so that one kernel takes them all. */
static remat_value any_of(const struct pool *pool, bool row_too)
{
    if (!row_too && pick(4))
        return pool->elements[pool->element_count - 1];
    uint32_t rows = row_too ? pool->row_count : 0, i = pick(pool->element_count + rows);
    return i < pool->element_count ? pool->elements[i] : pool->rows[i - pool->element_count];
}

static void add_random_node(struct workbench *w, struct pool *pool)
{
    static const char *const unary[] = {"exp", "tanh", "neg", "rsqrt", "row_sum", "row_max"};
    static const char *const binary[] = {"add", "mul", "div", "maximum"};
    remat_value inputs[2], output;
    uint32_t kind = pick(4);
    if (kind == 0 && pool->row_count > 1) { /* arithmetic on rows */
        inputs[0] = pool->rows[pick(pool->row_count)];
        inputs[1] = pool->rows[pick(pool->row_count)];
        workbench_node(w, binary[pick(4)], inputs, 2, "", &output);
        pool->rows[pool->row_count++] = output;
    } else if (kind == 1) {
        uint32_t op = pick(6);
        inputs[0] = any_of(pool, false);
        workbench_node(w, unary[op], inputs, 1, "", &output);
        if (op >= 4)
            pool->rows[pool->row_count++] = output;
        else
            pool->elements[pool->element_count++] = output;
    } else if (kind == 2) { /* a value that is rounded and read again */
        inputs[0] = any_of(pool, false);
        workbench_node(w, "cast", inputs, 1, "dtype=3", inputs);
        workbench_node(w, "cast", inputs, 1, "dtype=1", &output);
        pool->elements[pool->element_count++] = output;
    } else {
        inputs[0] = any_of(pool, false);
        inputs[1] = any_of(pool, true);
        workbench_node(w, binary[pick(4)], inputs, 2, "", &output);
        pool->elements[pool->element_count++] = output;
    }
}

static void make_graph(struct workbench *w)
{
    static const char *const shapes[] = {"=3,5", "=64,1", "=1024,768", "=7,40000"};
    static const char *const rows[] = {"=3,1", "=64,1", "=1024,1", "=7,1"};
    struct pool pool = {.row_count = 0};
    uint32_t shape = pick(4), nodes = 2 + pick(NODES_MAX - 2);
    for (uint32_t i = 0; i < 3; i++)
        pool.elements[pool.element_count++] =
            workbench_input(w, remat_arena_format(&w->arena, "e%u", i), shapes[shape]);
    pool.rows[pool.row_count++] = workbench_input(w, "r", rows[shape]);
    if (shape != 1) /* there a row is an element */
        pool.rows[pool.row_count++] = workbench_input(w, "s", rows[shape]);
    for (uint32_t i = 0; i < nodes; i++)
        add_random_node(w, &pool);
    workbench_output(w, pool.elements[pool.element_count - 1]);
    workbench_output(w, pool.rows[pool.row_count - 1]);
}

/* Kernels of nodes [0, node_count) priced together; their number. */
static uint32_t price_all(struct workbench *w, const struct remat_device_description *device,
                          uint64_t *out_ns)
{
    struct remat_kernel_list list;
    *out_ns = 0;
    list = remat_fuse(&w->arena, w->graph);
    for (uint32_t k = 0; k < list.count; k++)
        *out_ns += remat_price_kernel(w->graph, &list.kernels[k], device).ns;
    return list.count;
}

/* Fused whole, and cut where nodes are said to be of different phases. True when there was one
 * kernel and it was cut. */
static bool check_cut(uint32_t number)
{
    static const char *const names[] = {"cpu", "h200", "t4", "b200"};
    struct workbench w;
    uint64_t whole, parts;
    workbench_open(&w);
    make_graph(&w);
    struct remat_device_description device = device_of(&w, names[pick(4)]);
    if (pick(3) == 0) /* where arithmetic decides */
        device.pointwise_flops_per_ns /= 1000;
    if (pick(3) == 0)
        device.launch_ns = 0;
    for (uint32_t n = 0; n < w.graph->node_count; n++) /* those that decisions fuse anew */
        w.graph->nodes[n].phase = REMAT_PHASE_BACKWARD;
    bool one = price_all(&w, &device, &whole) == 1;
    for (uint32_t n = 0; n < w.graph->node_count; n++)
        w.graph->nodes[n].phase = pick(2) ? REMAT_PHASE_OPTIMIZER : REMAT_PHASE_BACKWARD;
    uint32_t cut = price_all(&w, &device, &parts);
    CHECK(!one || whole <= parts, "program %u on %s: %llu ns whole, %llu ns in %u parts", number,
          device.name, (unsigned long long)whole, (unsigned long long)parts, cut);
    workbench_close(&w);
    return one && cut > 1;
}

static void check_sub_additive(void)
{
    uint32_t cut = 0;
    for (uint32_t i = 0; i < 4000; i++)
        cut += check_cut(i);
    check_figure(cut, "price programs that are cut");
}

/* --- built-in kernels --- */

static double price_on(const char *device_name, bool monotone, const char *op, const char *inputs,
                       const char *attributes)
{
    struct workbench w;
    struct remat_kernel_list list;
    remat_value values[8], outputs[4];
    workbench_open(&w);
    uint32_t count = workbench_inputs(&w, inputs, values);
    workbench_node(&w, op, values, count, attributes, outputs);
    workbench_output(&w, outputs[0]);
    struct remat_device_description device = device_of(&w, device_name);
    device.monotone = monotone;
    list = remat_fuse(&w.arena, w.graph);
    CHECK(list.count == 1, "%s", op);
    double ns = (double)remat_price_kernel(w.graph, &list.kernels[0], &device).ns;
    workbench_close(&w);
    return ns;
}

static double price_ns(const char *device_name, const char *op, const char *inputs,
                       const char *attributes)
{
    return price_on(device_name, false, op, inputs, attributes);
}

static double tera_flops(const char *device_name, const char *op, const char *inputs,
                         const char *attributes, double published_flops)
{
    return published_flops / price_ns(device_name, op, inputs, attributes) / 1e3;
}

/* What these kernels reached on an H100, causal (docs/tables/gpu.md), and others' of mma.sync on an
 * RTX 4090 (apache/tvm tl_doc/flash_perf.md, those of Tvm.tl) and an RTX 5090
 * (gau-nernst/learn-cuda 07_attention, F.sdpa; bidirectional). Flops are counted as 4 Q K d a head
 * and 2.5 times that backward, half of it where these are causal. */
static const struct {
    const char *device;
    uint32_t batch, queries, keys, heads, depth;
    bool causal;
    double forward, backward; /* 0: not known */
} attention[] = {{"h100-sxm", 16, 1024, 1024, 32, 64, true, 212, 173},
                 {"h100-sxm", 4, 4096, 4096, 32, 64, true, 272, 211},
                 {"h100-sxm", 2, 8192, 8192, 32, 64, true, 288, 223},
                 {"h100-sxm", 16, 1024, 1024, 16, 128, true, 237, 131},
                 {"h100-sxm", 4, 4096, 4096, 16, 128, true, 276, 164},
                 {"h100-sxm", 2, 8192, 8192, 16, 128, true, 285, 173},
                 {"rtx-4090", 8, 2048, 2048, 16, 64, true, 152, 106},
                 {"rtx-4090", 8, 2048, 2048, 16, 128, true, 156, 100},
                 {"rtx-4090", 8, 2048, 2048, 16, 64, false, 167, 131},
                 {"rtx-4090", 8, 2048, 2048, 16, 128, false, 167, 123},
                 {"rtx-5090", 1, 4096, 8192, 8, 128, false, 187, 0}};

static void check_attention(size_t row, bool backward, double measured)
{
    uint32_t batch = attention[row].batch, keys = attention[row].keys, depth = attention[row].depth;
    uint32_t heads = attention[row].heads, queries = attention[row].queries;
    char inputs[512], q[64], kv[64];
    snprintf(q, sizeof q, "b%u,%u,%u,%u", batch, queries, heads, depth);
    snprintf(kv, sizeof kv, "b%u,%u,%u,%u", batch, keys, heads, depth);
    if (backward)
        snprintf(inputs, sizeof inputs, "%s %s %s %s %s %u,%u,%u", q, q, kv, kv, q, batch, heads,
                 queries);
    else
        snprintf(inputs, sizeof inputs, "%s %s %s", q, kv, kv);
    double flops = (attention[row].causal ? 2.0 : 4.0) * batch * heads * queries * keys * depth *
                   (backward ? 2.5 : 1);
    double predicted =
        tera_flops(attention[row].device, backward ? "attention_backward" : "attention", inputs,
                   attention[row].causal ? "scale=1 causal=1" : "scale=1", flops);
    CHECK(fabs(predicted / measured - 1) < 0.2,
          "attention %s of %s, %u keys, heads of %u: %.0f TFLOP/s, not %.0f",
          backward ? "backward" : "forward", attention[row].device, keys, depth, predicted,
          measured);
}

static void check_product(const char *device, const char *inputs, double m, double n, double k,
                          double least, double most)
{
    double predicted = tera_flops(device, "matmul", inputs, "", 2 * m * n * k);
    CHECK(predicted > least && predicted < most, "%s of %s: %.1f TFLOP/s", inputs, device,
          predicted);
}

/* Of twice the tokens at most twice the price. */
static void check_embedding(const char *device, uint32_t rows, uint32_t columns)
{
    double before = 0;
    for (uint32_t tokens = 1024; tokens <= 1u << 20; tokens *= 2) {
        char inputs[64], attributes[32];
        snprintf(inputs, sizeof inputs, "b%u,%u i%u<%u", tokens, columns, tokens, rows);
        snprintf(attributes, sizeof attributes, "rows=%u", rows);
        double ns = price_ns(device, "embedding_backward", inputs, attributes);
        CHECK(before == 0 || (ns > before && ns <= 2 * before),
              "embedding of %u ids on %s: %.0f ns of %u tokens, %.0f of half of them", rows, device,
              ns, tokens, before);
        before = ns;
    }
}

static void check_named(void)
{
    check_embedding("h100-sxm", 50257, 768);
    check_embedding("h200", 128256, 8192);
    check_embedding("h200", 2, 1024);
    for (size_t i = 0; i < sizeof attention / sizeof *attention; i++) {
        check_attention(i, false, attention[i].forward);
        if (attention[i].backward > 0)
            check_attention(i, true, attention[i].backward);
    }
    /* measured 788 on an H200, 716-763 and 763-795 on H100s (pranjalssh/fast.cu) */
    check_product("h200", "b8192,8192 b8192,8192", 8192, 8192, 8192, 740, 820);
    check_product("h100-sxm", "b4096,4096 b4096,4096", 4096, 4096, 4096, 690, 790);
    /* 247 and 1696 (public tables of measured rates) */
    check_product("a100-40", "b8192,8192 b8192,8192", 8192, 8192, 8192, 230, 275);
    check_product("b200", "b8192,8192 b8192,8192", 8192, 8192, 8192, 1500, 1800);
    /* 165 of PyTorch (tinygrad/tinygrad pull request 13623) */
    check_product("rtx-4090", "b8192,8192 b8192,8192", 8192, 8192, 8192, 155, 170);
    /* between 450 and 540 of 756 at 350 W and 760 to 800 of 989 at 700 W */
    check_product("h100-96", "b8192,8192 b8192,8192", 8192, 8192, 8192, 590, 720);
    check_product("mi300x", "b8192,8192 b8192,8192", 8192, 8192, 8192, 560, 660);
    /* one tile more than fills the processors costs most of a wave; a small product stays far below
     * the rate; one that is all reading runs at the bandwidth */
    check_product("h200", "b64,64 b64,64", 64, 64, 64, 0, 1);
    check_product("h200", "b8,8192 b8192,8192", 8, 8192, 8192, 20, 35);
    check_product("cpu", "256,768 768,2304", 256, 768, 2304, 0.19, 0.203);
    /* measured on an H100, with rows that are aligned to 2, 8 and 16 bytes: 96 and 105, 249 and
     * 206, 725 and 812 */
    check_product("h100-sxm", "b8192,768 b768,50257", 8192, 50257, 768, 80, 110);
    check_product("h100-sxm", "b8192,50257 b50257,768", 8192, 768, 50257, 80, 110);
    check_product("h100-sxm", "b8192,768 b768,50260", 8192, 50260, 768, 200, 250);
    check_product("h100-sxm", "b8192,50260 b50260,768", 8192, 768, 50260, 200, 250);
    check_product("h100-sxm", "b8192,768 b768,50304", 8192, 50304, 768, 690, 820);
    check_product("h100-sxm", "b8192,50304 b50304,768", 8192, 768, 50304, 690, 820);
    check_product("cpu", "256,768 768,2303", 256, 768, 2303, 0.19, 0.203);
    /* by the stride of a transposed operand alone: 271 measured */
    double transposed = tera_flops("h100-sxm", "matmul", "b8192,50260 b8192,768", "transpose_a=1",
                                   2.0 * 50260 * 768 * 8192);
    CHECK(transposed > 200 && transposed < 280, "%.0f TFLOP/s", transposed);
}

/* --- transfers --- */

/* On a machine of 8 ranks near ones take 20 us and 370 bytes a ns, others 30 us and 48; a launch
 * takes 2 us. Of 8 MiB in f32 a rank sends all parts but one. */
static void check_transfer(const char *op, uint32_t ranks, double latency_ns, double bytes_per_ns)
{
    struct workbench w;
    char inputs[32], attributes[64];
    uint32_t elements = 2u << 20;
    remat_value in, out;
    workbench_open(&w);
    w.graph->mesh = (struct remat_mesh){1, {{"dp", ranks}}};
    bool gathers = strcmp(op, "gather") == 0;
    snprintf(inputs, sizeof inputs, "%u", gathers ? elements / ranks : elements);
    snprintf(attributes, sizeof attributes, "group=0 ranks=%u%s", ranks,
             gathers ? " shape=2097152" : "");
    workbench_inputs(&w, inputs, &in);
    workbench_node(&w, op, &in, 1, attributes, &out);
    workbench_output(&w, out);
    struct remat_device_description device = device_of(&w, "h100-sxm");
    struct remat_kernel_list list = remat_fuse(&w.arena, w.graph);
    double ns = (double)remat_price_kernel(w.graph, &list.kernels[0], &device).ns;
    double sent_bytes = 4.0 * elements * (ranks - 1) / ranks;
    double expected = 2000 + latency_ns + sent_bytes / bytes_per_ns;
    CHECK(fabs(ns - expected) <= 1, "%s on %u ranks: %.0f ns, expected %.0f", op, ranks, ns,
          expected);
    workbench_close(&w);
}

static void check_transfers(void)
{
    static const char *const ops[] = {"exchange", "gather"};
    for (int i = 0; i < 2; i++) {
        check_transfer(ops[i], 2, 20000, 370);
        check_transfer(ops[i], 8, 20000, 370);
        check_transfer(ops[i], 16, 30000, 48);
    }
}

static void check_mesh(void)
{
    const struct remat_mesh one = {0}, two = {1, {{"dp", 2}}};
    struct workbench w;
    workbench_open(&w);
    struct remat_device_description device = device_of(&w, "cpu");
    CHECK_OK(w.ctx, remat_price_check_mesh(w.ctx, &two, &device));
    device.machine_ranks = 0;
    CHECK_OK(w.ctx, remat_price_check_mesh(w.ctx, &one, &device));
    CHECK_STATUS(w.ctx, remat_price_check_mesh(w.ctx, &two, &device), REMAT_ERROR_USAGE,
                 "device \"cpu\" describes no \"links\" between ranks");
    workbench_close(&w);
}

/* An H100 has 567 MB for each of the 7 others of its machine, 26 MB for those of other machines. */
static void check_engine(void)
{
    static const struct {
        uint32_t ranks;
        uint64_t mb;
    } cases[] = {{2, 567}, {8, 7 * 567}, {12, 7 * 567 + 4 * 26}, {16, 7 * 567 + 8 * 26}};
    const struct remat_mesh one = {0};
    struct workbench w;
    workbench_open(&w);
    struct remat_device_description device = device_of(&w, "h100-sxm"), cpu = device_of(&w, "cpu");
    CHECK(remat_price_engine_bytes(&one, &device) == 0, "one rank has an engine");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct remat_mesh mesh = {1, {{"dp", cases[i].ranks}}};
        uint64_t bytes = remat_price_engine_bytes(&mesh, &device);
        CHECK(bytes == 1000000 * cases[i].mb, "%u ranks: %" PRIu64, cases[i].ranks, bytes);
        CHECK(remat_price_engine_bytes(&mesh, &cpu) == 0, "%u ranks on a CPU", cases[i].ranks);
    }
    workbench_close(&w);
}

static void check_dtypes(void)
{
    struct workbench w;
    workbench_open(&w);
    workbench_input(&w, "half", "b2,3");
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"t4", "v100", "l40s", "cpu"};
        struct remat_device_description device = device_of(&w, names[i]);
        remat_status st = remat_price_check(w.ctx, w.graph, &device);
        CHECK(st == (i < 2 ? REMAT_ERROR_USAGE : REMAT_OK), "bf16 on %s", names[i]);
        CHECK(i > 0 ||
                  strstr(remat_context_message(w.ctx), "\"t4\" has no bf16, which \"half\" is"),
              "%s", remat_context_message(w.ctx));
    }
    workbench_close(&w);
}

/* --- monotone prices: of more rows no less, and no more than on the device itself --- */

/* `rows` are those of a batch; `format` has them once or several times. Returns how often more rows
 * cost less on the device itself. */
static uint32_t check_monotone(const char *device, const char *op, const char *format,
                               const char *attributes)
{
    uint32_t fallen = 0;
    double before = 0, exact_before = 0;
    for (uint32_t rows = 1; rows < 6000; rows += 1 + pick(40)) {
        char inputs[128] = "";
        size_t used = 0;
        for (const char *c = format; *c; c++)
            used += (size_t)snprintf(inputs + used, sizeof inputs - used, *c == '*' ? "%u" : "%c",
                                     *c == '*' ? rows : (uint32_t)*c);
        double ns = price_on(device, true, op, inputs, attributes);
        double exact = price_on(device, false, op, inputs, attributes);
        CHECK(ns >= before && ns <= exact,
              "%s of %s on %s: %.0f ns, before %.0f, on the device itself %.0f", op, inputs, device,
              ns, before, exact);
        fallen += exact < exact_before;
        before = ns;
        exact_before = exact;
    }
    return fallen;
}

static void check_monotone_prices(void)
{
    static const char *const devices[] = {"cpu", "t4", "a100-40", "h200", "b200"};
    uint32_t fallen = 0;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        const char *dtype = i < 2 ? "" : "b"; /* t4 has no bf16 */
        char text[4][64];
        snprintf(text[0], sizeof text[0], "%s*,768 %s768,3072", dtype, dtype);
        snprintf(text[1], sizeof text[1], "%s768,* %s*,100", dtype, dtype);
        snprintf(text[2], sizeof text[2], "%s*,5,7 %s*,7,9", dtype, dtype);
        snprintf(text[3], sizeof text[3], "%s*,100 i*<5000", dtype);
        for (uint32_t k = 0; k < 3; k++)
            fallen += check_monotone(devices[i], "matmul", text[k], "");
        check_monotone(devices[i], "embedding_backward", text[3], "rows=5000");
    }
    check_monotone("h200", "attention", "b*,33,2,64 b*,33,2,64 b*,33,2,64", "scale=1 causal=1");
    check_monotone("h200", "exp", "*,5000", "");
    check_figure(fallen, "price prices on devices themselves that fall");
}

int main(void)
{
    check_sub_additive();
    check_monotone_prices();
    check_named();
    check_dtypes();
    check_transfers();
    check_mesh();
    check_engine();
    return check_exit();
}
