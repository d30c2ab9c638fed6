/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile hosts of libremat-compiler: a small joint graph of foreign nodes with one to four fields
 * replaced by what fits their type, by extremes above all.
 *
 *     fuzz_builder [iterations (default: 4000)] [seed (default: 1)] [number of one to show]
 *
 * Each call answers OK, or INVALID or USAGE with a message. What is finished is planned: an order
 * within the budget that runs every output, or INVALID, USAGE or INFEASIBLE with a message. */
#include "check.h"
#include "mutate.h"

#include <inttypes.h>
#include <math.h>
#include <remat/compile.h>

enum { NODES = 9, READS = 3, INTEGERS = 8, ATTRIBUTES = 2, INPUTS = 2 };

struct node {
    remat_node_spec spec;
    remat_value_spec output;
    uint32_t inputs[READS];
    remat_attribute_spec attributes[ATTRIBUTES];
    int64_t integers[INTEGERS];
};

struct host {
    struct random *random;
    remat_value_spec inputs[INPUTS];
    struct node nodes[NODES];
    uint32_t outputs[3];
};

static const int64_t extremes[] = {
    0,         1,         2,          3,         -1,        8,         16,        127,      1 << 20,
    INT32_MAX, INT32_MIN, UINT32_MAX, 1LL << 40, 1LL << 53, 1LL << 62, INT64_MAX, INT64_MIN};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static uint64_t below(const struct host *h, uint64_t limit)
{
    return random_below(h->random, limit);
}

static int64_t extreme(const struct host *h)
{
    return extremes[below(h, COUNT(extremes))];
}

static double extreme_number(const struct host *h)
{
    static const double numbers[] = {NAN, INFINITY, -INFINITY, 1e308, -1e308, 1e-308, 0.5, -0.0};
    return below(h, 2) ? numbers[below(h, COUNT(numbers))] : (double)extreme(h);
}

/* --- the graph --- */

static remat_value_spec value(const char *name, const char *dtype, int64_t rows, int64_t columns)
{
    return (remat_value_spec){.struct_size = sizeof(remat_value_spec),
                              .name = name,
                              .dtype = dtype,
                              .rank = 2,
                              .shape = {rows, columns}};
}

static void add(struct host *h, uint32_t n, const char *op, const char *phase,
                remat_value_spec output, uint32_t input_count, uint32_t a, uint32_t b)
{
    struct node *node = &h->nodes[n];
    *node = (struct node){.output = output, .inputs = {a, b}};
    node->spec = (remat_node_spec){.struct_size = sizeof node->spec,
                                   .op = op,
                                   .phase = phase,
                                   .scope = n < 5 ? "layers.0/block" : NULL,
                                   .input_count = input_count,
                                   .output_count = 1,
                                   .inputs = node->inputs,
                                   .outputs = &node->output,
                                   .attributes = node->attributes};
}

static void set(struct host *h, uint32_t n, const char *key, double number, uint32_t integer_count)
{
    struct node *node = &h->nodes[n];
    node->attributes[node->spec.attribute_count++] =
        (remat_attribute_spec){.struct_size = sizeof(remat_attribute_spec),
                               .key = key,
                               .number = number,
                               .integers = integer_count ? node->integers : NULL,
                               .integer_count = integer_count};
}

/* Values 0 and 1 are inputs; node n makes value n + 2. */
static void make(struct host *h)
{
    h->inputs[0] = value("x", "f32", 8, 16);
    h->inputs[1] = value("w", "bf16", 16, 16);
    add(h, 0, "foreign_pointwise", "forward", value("a", "f32", 8, 16), 1, 0, 0);
    add(h, 1, "foreign_row_reduce", "forward", value("row", "f32", 8, 1), 1, 2, 0);
    add(h, 2, "foreign_pointwise", "forward", value("b", "b8", 8, 16), 2, 2, 3);
    add(h, 3, "foreign_view", "forward", value("view", "b8", 8, 16), 1, 4, 0);
    add(h, 4, "foreign_opaque", "loss", value("loss", "f32", 8, 16), 2, 5, 1);
    add(h, 5, "foreign_once", "backward", value("tangent", "f32", 8, 16), 0, 0, 0);
    add(h, 6, "foreign_opaque", "backward", value("d1", "f32", 8, 16), 2, 7, 6);
    add(h, 7, "foreign_pointwise", "backward", value("d2", "f32", 8, 16), 2, 8, 4);
    add(h, 8, "foreign_reduce", "backward", value("sum", "f32", 1, 16), 1, 9, 0);
    h->nodes[3].integers[0] = 16;
    h->nodes[3].integers[1] = 1;
    set(h, 3, "strides", 0, 2);
    set(h, 4, "flops", 4096, 0);
    set(h, 5, "launches", 0, 0);
    set(h, 6, "bytes", 4096, 0);
    set(h, 8, "axes", 0, 1);
    memcpy(h->outputs, (uint32_t[]){6, 9, 10}, sizeof h->outputs);
}

/* --- what is replaced --- */

static void change_value(const struct host *h, remat_value_spec *v)
{
    static const char *const dtypes[] = {"f16", "i32", "b64", "b128", "b1", "", "f32 ", NULL};
    static const char *const names[] = {"x", "", "a\nb", "%s%n", NULL};
    static const char *const pins[] = {"save", "recompute", "never", ""};
    switch (below(h, 6)) {
    case 0:
        v->rank = (uint32_t)extreme(h);
        break;
    case 1:
        v->dtype = dtypes[below(h, COUNT(dtypes))];
        break;
    case 2:
        v->name = names[below(h, COUNT(names))];
        break;
    case 3:
        v->pin = pins[below(h, COUNT(pins))];
        break;
    default:
        v->shape[below(h, REMAT_VALUE_RANK_MAX)] = extreme(h);
    }
}

static void change_attribute(const struct host *h, struct node *node)
{
    static const char *const keys[] = {"flops", "bytes",  "launches", "ns",    "strides",
                                       "axes",  "offset", "p",        "shape", NULL};
    remat_attribute_spec *attribute = &node->attributes[below(h, ATTRIBUTES)];
    switch (below(h, 5)) {
    case 0:
        node->spec.attribute_count = (uint32_t)below(h, ATTRIBUTES + 1);
        break;
    case 1:
        attribute->key = keys[below(h, COUNT(keys))];
        break;
    case 2:
        attribute->integer_count = (uint32_t)below(h, INTEGERS + 1);
        attribute->integers = attribute->integer_count ? node->integers : NULL;
        break;
    case 3:
        node->integers[below(h, INTEGERS)] = extreme(h);
        break;
    default:
        attribute->number = extreme_number(h);
    }
}

static void change_node(const struct host *h, struct node *node)
{
    static const char *const ops[] = {"foreign_pointwise",
                                      "foreign_row_reduce",
                                      "foreign_reduce",
                                      "foreign_view",
                                      "foreign_opaque",
                                      "foreign_once",
                                      "matmul",
                                      "gelu",
                                      "adamw",
                                      "all_gather",
                                      "transpose",
                                      "reshape",
                                      "",
                                      NULL};
    static const char *const phases[] = {"forward", "loss", "backward", "optimizer", "init", NULL};
    static const char *const scopes[] = {"layers.4294967295/a", "layers.-1", "////", "a.1/b.2/c.3",
                                         ""};
    switch (below(h, 6)) {
    case 0:
        node->spec.op = ops[below(h, COUNT(ops))];
        break;
    case 1:
        node->spec.phase = phases[below(h, COUNT(phases))];
        break;
    case 2:
        node->spec.scope = scopes[below(h, COUNT(scopes))];
        break;
    case 3:
        node->spec.input_count = (uint32_t)below(h, READS + 1);
        break;
    case 4:
        node->inputs[below(h, READS)] =
            below(h, 4) ? (uint32_t)below(h, NODES + INPUTS) : (uint32_t)extreme(h);
        break;
    default:
        change_attribute(h, node);
    }
}

static void change(struct host *h)
{
    uint64_t what = below(h, NODES + 2), which = below(h, NODES);
    if (what == 0)
        h->outputs[below(h, COUNT(h->outputs))] = (uint32_t)extreme(h);
    else if (what == 1)
        change_value(h, &h->inputs[below(h, INPUTS)]);
    else if (what % 2)
        change_value(h, &h->nodes[which].output);
    else
        change_node(h, &h->nodes[which]);
}

/* --- what comes of it --- */

static void show_value(const remat_value_spec *v)
{
    printf("%s %s [", v->name ? v->name : "-", v->dtype ? v->dtype : "-");
    for (uint32_t d = 0; d < v->rank && d < REMAT_VALUE_RANK_MAX; d++)
        printf("%s%" PRId64, d ? ", " : "", v->shape[d]);
    printf("] of rank %u, pin %s\n", v->rank, v->pin ? v->pin : "-");
}

static void show(const struct host *h)
{
    for (uint32_t i = 0; i < INPUTS; i++)
        show_value(&h->inputs[i]);
    for (uint32_t n = 0; n < NODES; n++) {
        const struct node *node = &h->nodes[n];
        printf("%u: %s, %s, %s, reads", n, node->spec.op ? node->spec.op : "-",
               node->spec.phase ? node->spec.phase : "-",
               node->spec.scope ? node->spec.scope : "-");
        for (uint32_t i = 0; i < node->spec.input_count; i++)
            printf(" %u", node->inputs[i]);
        for (uint32_t a = 0; a < node->spec.attribute_count; a++)
            printf(", %s %g (%u integers, %" PRId64 " %" PRId64 ")",
                   node->attributes[a].key ? node->attributes[a].key : "-",
                   node->attributes[a].number, node->attributes[a].integer_count, node->integers[0],
                   node->integers[1]);
        printf(" -> ");
        show_value(&node->output);
    }
    printf("outputs %u %u %u\n", h->outputs[0], h->outputs[1], h->outputs[2]);
}

static bool refused(remat_context *ctx, remat_status st, uint64_t number)
{
    CHECK(st == REMAT_OK || st == REMAT_ERROR_INVALID || st == REMAT_ERROR_USAGE ||
              st == REMAT_ERROR_INFEASIBLE,
          "number %" PRIu64 ": %d, %s", number, (int)st, remat_context_message(ctx));
    CHECK(st == REMAT_OK || *remat_context_message(ctx), "number %" PRIu64, number);
    return st != REMAT_OK;
}

/* Whether all of it was taken. */
static bool build(remat_context *ctx, struct host *h, remat_graph_builder *graph, uint64_t number)
{
    uint32_t id, first = 0; /* first: the id of value 0 */
    for (uint32_t i = 0; i < INPUTS; i++) {
        if (refused(ctx, remat_graph_builder_add_input(graph, &h->inputs[i], &id), number))
            return false;
        first = id - i;
    }
    for (uint32_t n = 0; n < NODES; n++)
        for (uint32_t k = 0; k < COUNT(h->nodes[n].inputs); k++)
            h->nodes[n].inputs[k] += first;
    for (uint32_t n = 0; n < NODES; n++)
        if (refused(ctx, remat_graph_builder_add_node(graph, &h->nodes[n].spec, &id), number))
            return false;
    for (uint32_t o = 0; o < COUNT(h->outputs); o++)
        if (refused(ctx, remat_graph_builder_add_output(graph, first + h->outputs[o]), number))
            return false;
    return !refused(ctx, remat_graph_builder_finish(graph), number);
}

static bool plan(remat_context *ctx, const struct host *h, const remat_graph_builder *graph,
                 const remat_compile_options *options, uint64_t budget_bytes, uint64_t number)
{
    remat_order *order;
    remat_order_info info = {.struct_size = sizeof info};
    uint32_t count, seen = 0;
    if (refused(ctx, remat_order_create(ctx, graph, options, &order), number))
        return false;
    remat_order_get_info(order, &info);
    CHECK(info.arena_bytes + info.reserve_bytes <= budget_bytes, "number %" PRIu64, number);
    const remat_order_run *runs = remat_order_runs(order, &count);
    for (uint32_t r = 0; r < count; r++)
        for (uint32_t o = 0; o < COUNT(h->outputs); o++)
            seen |= (uint32_t)(runs[r].node + INPUTS == h->outputs[o]) << o;
    for (uint32_t o = 0; o < COUNT(h->outputs); o++) {
        uint32_t n = h->outputs[o] - INPUTS;
        bool runs_once =
            h->outputs[o] >= INPUTS && strcmp(h->nodes[n].spec.op, "foreign_view") != 0;
        CHECK(!runs_once || (seen >> o & 1), "number %" PRIu64 ": output %u", number, o);
    }
    remat_order_destroy(&order);
    return true;
}

int main(int argc, char **argv)
{
    uint64_t iterations = argc > 1 ? strtoull(argv[1], NULL, 10) : 4000, finished = 0, planned = 0;
    struct random random = {argc > 2 ? strtoull(argv[2], NULL, 10) : 1};
    const uint64_t budget_bytes = UINT64_C(1) << 30;
    remat_context *ctx = remat_context_create(NULL, NULL);
    remat_compile_options *options;
    MUST_OK(ctx, remat_compile_options_create(ctx, &options));
    MUST_OK(ctx, remat_compile_options_set(options, "budget", "1073741824"));
    MUST_OK(ctx, remat_compile_options_set(options, "explain", "true"));
    for (uint64_t number = 0; number <= iterations; number++) {
        struct host host = {.random = &random};
        remat_graph_builder *graph;
        make(&host);
        for (uint64_t k = number ? 1 + below(&host, 4) : 0; k > 0; k--)
            change(&host);
        if (argc > 3 && number == strtoull(argv[3], NULL, 10)) {
            show(&host);
            fflush(stdout);
        }
        MUST_OK(ctx, remat_graph_builder_create(ctx, "hostile", &graph));
        bool built = build(ctx, &host, graph, number);
        bool made = built && plan(ctx, &host, graph, options, budget_bytes, number);
        MUST(number || made, "the graph as it is: %s", remat_context_message(ctx));
        finished += built;
        planned += made;
        remat_graph_builder_destroy(&graph);
    }
    printf("%" PRIu64 " graphs, %" PRIu64 " finished, %" PRIu64 " planned\n", iterations, finished,
           planned);
    CHECK(planned * 20 >= iterations && finished * 2 <= 2 * iterations);
    remat_compile_options_destroy(&options);
    remat_context_destroy(&ctx);
    return check_exit();
}
