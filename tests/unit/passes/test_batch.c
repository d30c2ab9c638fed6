/* SPDX-License-Identifier: Apache-2.0 */
/* How values depend on the entries of a batch, against the float64 reference: a graph is evaluated
 * with a batch of 4 and with both halves of it. Elements of entries are found in a half, sums are
 * the sum of both, means their mean. What is said to be mixed is none of these. Every op with a
 * rule has a case. With a batch of 1 the same is said. */
#include "analysis.h"
#include "graph_text.h"
#include "reference.h"
#include "workbench.h"

#include <math.h>
#include <stdio.h>

#define BATCH 4

static const char inputs_text[] =
    "input %x : f32[batch,3,4]\ninput %y : f32[batch,3,4]\ninput %h : f32[batch,3,2,4]\n"
    "input %ids : i32[batch,3]\ninput %n : f32[1]\ninput %rng : i32[4]\ninput %q : f32[3]\n"
    "input %g : f32[4]\ninput %w : f32[4,5]\ninput %t : f32[3,2,2,2]\ninput %m : f32[1,3,3]\n"
    "input %rows : f32[3,4]\ninput %all : f32[2,3,4]\n"
    "input %k : f32[5,3,2,2]\n";

#define X " : f32[batch,3,4] = "
#define R " : f32[batch,3,1] = "
#define H " : f32[batch,3,2,4] = "
#define Q " : f32[batch,3,3] = "

static const struct {
    uint8_t kind;
    const char *text; /* nodes, the last of which is the one in question and computes %out */
} cases[] = {
    {REMAT_BATCH_NONE, "%out : f32[4] = mul %g %g"},
    {REMAT_BATCH_NONE, "%out : f32[3,2,2,2] = rope_table { length = 3, pairs = 2, theta = 9.0 }"},
    {REMAT_BATCH_ENTRIES, "%out" X "add %x %g"},
    {REMAT_BATCH_ENTRIES, "%out" X "sub %x %y"},
    {REMAT_BATCH_ENTRIES, "%out" X "mul %x %y"},
    {REMAT_BATCH_ENTRIES, "%out" X "div %rows %x"},
    {REMAT_BATCH_ENTRIES, "%out" X "maximum %x %rows"},
    {REMAT_BATCH_ENTRIES, "%r" R "row_sum %x; %out" X "minimum %r %y"},
    {REMAT_BATCH_ENTRIES, "%out" X "equal %x %y"},
    {REMAT_BATCH_ENTRIES, "%out" X "less %g %y"},
    {REMAT_BATCH_ENTRIES, "%l" X "less %x %y; %out" X "select %l %x %g"},
    {REMAT_BATCH_ENTRIES, "%out" X "neg %x"},
    {REMAT_BATCH_ENTRIES, "%out" X "exp %x"},
    {REMAT_BATCH_ENTRIES, "%e" X "exp %x; %out" X "log %e"},
    {REMAT_BATCH_ENTRIES, "%e" X "exp %x; %out" X "sqrt %e"},
    {REMAT_BATCH_ENTRIES, "%e" X "exp %x; %out" X "rsqrt %e"},
    {REMAT_BATCH_ENTRIES, "%out" X "tanh %x"},
    {REMAT_BATCH_ENTRIES, "%out" X "erf %x"},
    {REMAT_BATCH_ENTRIES, "%out" X "sigmoid %x"},
    {REMAT_BATCH_ENTRIES, "%out : bf16[batch,3,4] = cast %x { dtype = 3 }"},
    {REMAT_BATCH_ENTRIES, "%out" X "scale %x { scale = 0.3 }"},
    {REMAT_BATCH_ENTRIES, "%out" X "column %x"},
    {REMAT_BATCH_NONE, "%s : f32[1,3,4] = slice %x { axis = 0, begin = 0, end = 1 }; "
                       "%out : f32[1,3,4] = column %s"},
    {REMAT_BATCH_MIXED, "%c : f32[3,4,batch] = transpose %x { permutation = [1, 2, 0] }; "
                        "%out : f32[3,4,batch] = column %c"},
    {REMAT_BATCH_ENTRIES, "%out" X "silu %x"},
    {REMAT_BATCH_ENTRIES, "%out" X "swiglu %x %y"},
    {REMAT_BATCH_ENTRIES, "%out" X "gelu %x"},
    {REMAT_BATCH_ENTRIES, "%out" X "relu %x"},
    {REMAT_BATCH_ENTRIES, "%out" X "softplus %x"},
    {REMAT_BATCH_ENTRIES, "%out : f32[batch,5,1,2] = conv2d %h %k"},
    {REMAT_BATCH_ENTRIES, "%out" X "expm1 %x"},
    {REMAT_BATCH_ENTRIES, "%out" R "row_sum %x"},
    {REMAT_BATCH_ENTRIES, "%out" R "row_max %x"},
    {REMAT_BATCH_ENTRIES, "%out" X "softmax %x"},
    {REMAT_BATCH_ENTRIES, "%out : f32[batch,3,4], %a : f32[batch,3,1], %b" R "layer_norm %x %g %g"},
    {REMAT_BATCH_ENTRIES, "%out : f32[batch,3,4], %a" R "rms_norm %x %g"},
    {REMAT_BATCH_ENTRIES, "%c : f32[3,4,batch] = transpose %x { permutation = [1, 2, 0] }; "
                          "%out : f32[batch] = column_sum %c"},
    {REMAT_BATCH_ENTRIES, "%out : f32[3,batch,4] = transpose %x { permutation = [1, 0, 2] }"},
    {REMAT_BATCH_ENTRIES, "%out : f32[batch,12] = reshape %x { shape = [batch, 12] }"},
    {REMAT_BATCH_ENTRIES, "%out : f32[batch,2,4] = slice %x { axis = 1, begin = 1, end = 3 }"},
    {REMAT_BATCH_ENTRIES, "%out : f32[batch,3,6] = pad %x { axis = 2, begin = 1, length = 6 }"},
    {REMAT_BATCH_ENTRIES, "%out : f32[batch,6,4] = concat %x %y { axis = 1 }"},
    {REMAT_BATCH_ENTRIES, "%out" X "concat %x { axis = 0 }"},
    {REMAT_BATCH_ENTRIES, "%out" Q "matmul %x %y { transpose_b = 1 }"},
    {REMAT_BATCH_ENTRIES, "%out" X "matmul %m %x"},
    {REMAT_BATCH_ENTRIES, "%c : f32[3,batch,4] = transpose %x { permutation = [1, 0, 2] }; "
                          "%v : f32[1,4,5] = reshape %w { shape = [1, 4, 5] }; "
                          "%out : f32[3,batch,5] = matmul %c %v"},
    {REMAT_BATCH_ENTRIES, "%c : f32[4,3,batch] = transpose %x { permutation = [2, 1, 0] }; "
                          "%out : f32[4,3,batch] = matmul %m %c"},
    {REMAT_BATCH_ENTRIES, "%out : f32[batch,3,5] = linear %x %w"},
    {REMAT_BATCH_ENTRIES,
     "%out : f32[batch,3,2,4], %lse : f32[batch,2,3] = attention %h %h %h { scale = 0.5 }"},
    {REMAT_BATCH_ENTRIES, "%out : f32[batch,3,2,4], %lse : f32[batch,2,3] = attention %h %h %h "
                          "key_segments=%ids { scale = 0.5 }"},
    {REMAT_BATCH_ENTRIES, "%out" H "rope %h %t"},
    {REMAT_BATCH_ENTRIES, "%out" H "rope %h %t %ids"},
    {REMAT_BATCH_ENTRIES,
     "%s" Q "matmul %x %y { transpose_b = 1 }; %out" Q "mask_causal %s %q { scale = 0.5 }"},
    {REMAT_BATCH_ENTRIES, "%out" X "embedding %rows %ids"},
    {REMAT_BATCH_SUM, "%out : f32[4] = column_sum %x"},
    {REMAT_BATCH_SUM, "%a : f32[4] = column_sum %x; %b : f32[4] = column_sum %y; "
                      "%out : f32[4] = add %a %b"},
    {REMAT_BATCH_SUM, "%a : f32[4] = column_sum %x; %out : f32[4] = mul %g %a"},
    {REMAT_BATCH_SUM, "%a : f32[4] = column_sum %x; %out : f32[4] = div %a %g"},
    {REMAT_BATCH_SUM, "%a : f32[4] = column_sum %x; %b : f32[1,4] = reshape %a { shape = [1, 4] }; "
                      "%out : f32[1,1] = row_sum %b"},
    {REMAT_BATCH_SUM, "%c : f32[4,3,batch] = transpose %x { permutation = [2, 1, 0] }; "
                      "%out : f32[4,3,1] = row_sum %c"},
    {REMAT_BATCH_SUM, "%out : f32[], %l" R "cross_entropy %x %ids %n"},
    {REMAT_BATCH_MEAN, "%out : f32[] = mean %x"},
    {REMAT_BATCH_MEAN, "%a : f32[] = mean %x; %b : f32[4] = neg %g; %out : f32[4] = add %a %b"},
    {REMAT_BATCH_MEAN, "%out : f32[], %l" R "cross_entropy %x %ids"},
    {REMAT_BATCH_MEAN, "%a : f32[], %l" R "cross_entropy %x %ids; %out : f32[] = mean %l"},
    {REMAT_BATCH_MIXED, "%a : f32[4] = column_sum %x; %out : f32[4] = exp %a"},
    {REMAT_BATCH_MIXED, "%a : f32[4] = column_sum %x; %out" X "sub %x %a"},
    {REMAT_BATCH_MIXED, "%a : f32[4] = column_sum %x; %out : f32[4] = div %g %a"},
    {REMAT_BATCH_MIXED, "%a : f32[4] = column_sum %x; %out : f32[4] = mul %a %a"},
    {REMAT_BATCH_MIXED, "%a : f32[4] = column_sum %x; %out : f32[4] = add %a %g"},
    {REMAT_BATCH_MIXED, "%a : f32[4] = column_sum %x; %b : f32[] = mean %x; "
                        "%out : f32[4] = add %a %b"},
    {REMAT_BATCH_MIXED, "%c : f32[3,4,batch] = transpose %x { permutation = [1, 2, 0] }; "
                        "%out : f32[3,4,batch] = softmax %c"},
    {REMAT_BATCH_MIXED, "%c : f32[3,4,batch] = transpose %x { permutation = [1, 2, 0] }; "
                        "%out : f32[3,4,1] = row_max %c"},
    {REMAT_BATCH_MIXED, "%c : f32[3,batch,4] = transpose %x { permutation = [1, 0, 2] }; "
                        "%d : f32[3,batch,4] = transpose %y { permutation = [1, 0, 2] }; "
                        "%out : f32[3,batch,batch] = matmul %c %d { transpose_b = 1 }"},
    {REMAT_BATCH_MIXED, "%c : f32[3,4,batch] = transpose %x { permutation = [1, 2, 0] }; "
                        "%out : f32[3,batch,batch] = matmul %c %c { transpose_a = 1 }"},
    {REMAT_BATCH_MIXED, "%out : f32[1,3,4] = slice %x { axis = 0, begin = 0, end = 1 }"},
    {REMAT_BATCH_MIXED, "%a : f32[], %l" R "cross_entropy %x %ids; %out : f32[] = exp %a"},
};
#define CASE_COUNT (sizeof cases / sizeof cases[0])

/* --- graphs --- */

static struct remat_graph *read_case(struct workbench *w, const char *nodes, int batch)
{
    return workbench_read(w, inputs_text, nodes, "forward", "out", batch);
}

static double element_of(const struct remat_value_info *info, int64_t i)
{
    uint64_t hash = remat_hash(&i, sizeof i, remat_hash_string(info->name, 5));
    return info->dtype == REMAT_I32 ? (double)(hash % 3)
           : info->name[0] == 'n'   ? 7
                                    : 0.5 + (double)(hash % 1000) / 500;
}

/* Of the entries from `entry` on. */
static double *evaluate(struct workbench *w, const struct remat_graph *graph, int64_t entry)
{
    double **values;
    REMAT_NEW(&w->arena, values, graph->value_count);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct remat_value_info *info = &graph->values[v];
        int64_t n = remat_shape_elements(&info->shape);
        if (!remat_is_none(info->node.i))
            continue;
        REMAT_NEW(&w->arena, values[v], (size_t)n);
        int64_t first = info->batched ? entry * (n / info->shape.dims[0]) : 0;
        for (int64_t i = 0; i < n; i++)
            values[v][i] = element_of(info, first + i);
    }
    CHECK(reference_evaluate(&w->arena, graph, values), "no reference");
    return values[graph->outputs[0].i];
}

/* --- what a kind means --- */

struct evaluated {
    const double *whole, *halves[2];
    int64_t elements, half_elements; /* of each */
    int64_t run;
};

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fmax(1, fabs(b));
}

static double expected(const struct evaluated *e, uint8_t kind, int64_t i)
{
    int64_t entry = e->run ? i / e->run % BATCH : 0, outer = e->run ? i / (e->run * BATCH) : 0;
    switch (kind) {
    case REMAT_BATCH_NONE:
        return e->halves[1][i];
    case REMAT_BATCH_SUM:
        return e->halves[0][i] + e->halves[1][i];
    case REMAT_BATCH_MEAN:
        return (e->halves[0][i] + e->halves[1][i]) / 2;
    default:
        return e->halves[entry / 2][(outer * 2 + entry % 2) * e->run + i % e->run];
    }
}

static bool holds(const struct evaluated *e, uint8_t kind)
{
    bool same = true, entries = kind == REMAT_BATCH_ENTRIES;
    if (e->elements != (entries ? 2 : 1) * e->half_elements)
        return false;
    for (int64_t i = 0; i < e->elements; i++)
        same = same && near(e->whole[i], expected(e, kind, i));
    return same;
}

static void check_case(size_t c)
{
    struct workbench w;
    workbench_open(&w);
    struct remat_graph *four = read_case(&w, cases[c].text, BATCH);
    struct remat_graph *two = read_case(&w, cases[c].text, 2);
    struct remat_graph *one = read_case(&w, cases[c].text, 1);
    remat_value out = four->outputs[0];
    struct remat_batch_fact fact = remat_find_batch(&w.arena, four)[out.i];
    struct evaluated e = {.whole = evaluate(&w, four, 0),
                          .halves = {evaluate(&w, two, 0), evaluate(&w, two, 2)},
                          .elements = remat_shape_elements(&four->values[out.i].shape),
                          .half_elements = remat_shape_elements(&two->values[out.i].shape),
                          .run = fact.kind == REMAT_BATCH_ENTRIES ? fact.run : 0};
    CHECK(fact.kind == cases[c].kind, "%s: kind %u", cases[c].text, fact.kind);
    if (fact.kind != REMAT_BATCH_MIXED)
        CHECK(holds(&e, fact.kind), "%s is not of kind %u", cases[c].text, fact.kind);
    for (uint8_t kind = 0; fact.kind == REMAT_BATCH_MIXED && kind < REMAT_BATCH_MIXED; kind++)
        CHECK(kind == REMAT_BATCH_ENTRIES || !holds(&e, kind), "%s is of kind %u", cases[c].text,
              kind);
    CHECK(one->pair && remat_find_batch(&w.arena, one)[out.i].kind == fact.kind,
          "%s: otherwise with a batch of 1", cases[c].text);
    workbench_close(&w);
}

/* Two values of a node, and numbers that each microbatch draws. */
static void check_others(void)
{
    static const struct {
        const char *text, *name;
        uint8_t kind;
    } others[] = {
        {"%out : f32[], %l" R "cross_entropy %x %ids", "l", REMAT_BATCH_ENTRIES},
        {"%out : f32[], %l" R "cross_entropy %x %ids { ignore_index = 1 }", "out", REMAT_BATCH_SUM},
        {"%out : f32[batch,3,4], %a : f32[batch,3,1], %b" R "layer_norm %x %g %g", "b",
         REMAT_BATCH_ENTRIES},
        {"%out" X "dropout %x %rng { p = 0.5, site = 1 }", "out", REMAT_BATCH_ENTRIES},
        {"%out" X "random %rng { shape = [batch, 3, 4], site = 1 }", "out", REMAT_BATCH_ENTRIES},
        {"%out : f32[3] = random %rng { shape = [3], site = 1 }", "out", REMAT_BATCH_NONE},
    };
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        struct workbench w;
        workbench_open(&w);
        struct remat_graph *graph = read_case(&w, others[k].text, BATCH);
        remat_value value = workbench_find(graph, others[k].name);
        CHECK(remat_find_batch(&w.arena, graph)[value.i].kind == others[k].kind, "%s",
              others[k].text);
        workbench_close(&w);
    }
}

/* A row of a parameter for each place in a batch of 2 is of no entry; the node that mixes is named.
 */
static void check_places(void)
{
    struct workbench w;
    workbench_open(&w);
    struct remat_graph *graph =
        read_case(&w, "%a : f32[2,3,4] = mul %x %all; %out : f32[2,3,4] = exp %a", 2);
    struct remat_batch_fact fact = remat_find_batch(&w.arena, graph)[graph->outputs[0].i];
    CHECK(fact.kind == REMAT_BATCH_MIXED && fact.mixed.i == 0, "kind %u, node %u", fact.kind,
          fact.mixed.i);
    workbench_close(&w);
}

/* The text of a case names its op after the last "= ". */
static bool is_covered(uint16_t op)
{
    const char *name = remat_op_info(op)->name;
    size_t length = strlen(name);
    for (size_t c = 0; c < CASE_COUNT; c++)
        for (const char *at = strstr(cases[c].text, name); at; at = strstr(at + 1, name))
            if (at[-1] == ' ' && at[-2] == '=' && (at[length] == ' ' || at[length] == '\0'))
                return true;
    return false;
}

int main(void)
{
    for (uint16_t op = 0; op < REMAT_OP_COUNT; op++) {
        enum remat_batch_rule rule = remat_op_info(op)->batch;
        bool drawn = rule == REMAT_BATCH_RULE_drawn || rule == REMAT_BATCH_RULE_last_0;
        CHECK(rule == REMAT_BATCH_RULE_none || drawn || is_covered(op), "%s has no case",
              remat_op_info(op)->name);
    }
    for (size_t c = 0; c < CASE_COUNT; c++)
        check_case(c);
    check_others();
    check_places();
    return check_exit();
}
