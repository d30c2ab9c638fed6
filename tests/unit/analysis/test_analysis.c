/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of graphs against their definitions, looked up anew for each value in models with their
 * backward pass, and against a graph written for the cases that these lack. */
#include "analysis.h"
#include "check.h"
#include "graph_text.h"
#include "models.h"
#include "passes.h"

static const struct remat_pass_settings undivided;

static remat_context *ctx;
static struct remat_arena arena;

static bool is(const struct remat_graph *g, remat_node n, uint32_t fact)
{
    return remat_op_has(g->nodes[n.i].op, fact);
}

static bool reads(const struct remat_graph *g, remat_node n, remat_value v)
{
    for (uint32_t i = 0; i < g->nodes[n.i].input_count; i++)
        if (g->nodes[n.i].inputs[i].i == v.i)
            return true;
    return false;
}

/* --- what nodes read --- */

/* Reads from the value, or from views of it as far as `views` says. */
struct asked {
    bool builtin, view, view_of_view, cast_as_is, output;
};

static void ask(const struct remat_graph *g, remat_value v, bool viewed, struct asked *out)
{
    for (uint32_t o = 0; o < g->output_count; o++)
        out->output |= g->outputs[o].i == v.i;
    for (remat_node n = {0}; n.i < g->node_count; n.i++) {
        if (!reads(g, n, v))
            continue;
        out->builtin |= is(g, n, REMAT_FACT_BUILTIN);
        out->view |= is(g, n, REMAT_FACT_VIEW);
        out->cast_as_is |= !viewed && is(g, n, REMAT_FACT_BUILTIN | REMAT_FACT_VIEW);
        if (is(g, n, REMAT_FACT_VIEW))
            ask(g, g->nodes[n.i].outputs[0], true, out);
    }
}

static bool is_absorbed(const struct remat_graph *g, remat_node n)
{
    const struct remat_node_info *node = &g->nodes[n.i];
    const struct remat_value_info *to = &g->values[node->outputs[0].i];
    struct asked asked = {0};
    if (is(g, n, REMAT_FACT_VIEW))
        return true;
    ask(g, node->outputs[0], false, &asked);
    switch (node->op) {
    case REMAT_OP_constant:
        return !asked.builtin && !asked.output;
    case REMAT_OP_column:
        return !asked.builtin && !asked.view && !asked.output;
    case REMAT_OP_cast:
        return to->dtype == REMAT_F32 && to->role == REMAT_ROLE_ACTIVATION && !asked.cast_as_is &&
               !asked.output;
    default:
        return false;
    }
}

static struct remat_source source_of(const struct remat_graph *g, const bool *absorbed,
                                     remat_value v)
{
    struct remat_source out = {.root = v};
    for (remat_node n; !remat_is_none((n = remat_producer(g, out.root)).i) && absorbed[n.i];) {
        const struct remat_node_info *node = &g->nodes[n.i];
        if (node->op == REMAT_OP_constant || node->op == REMAT_OP_column) {
            out.root = REMAT_NO_VALUE;
            break;
        }
        *(node->op == REMAT_OP_cast ? &out.cast : &out.viewed) = true;
        out.root = node->inputs[0];
    }
    return out;
}

/* Counts absorbed constants and columns, casts, and such ops that are in memory all the same. */
static void check_sources(const struct remat_graph *g, uint32_t counts[3])
{
    const remat_value *root = remat_find_roots(&arena, g);
    struct remat_sources sources;
    remat_find_sources(&arena, g, &sources);
    for (remat_node n = {0}; n.i < g->node_count; n.i++) {
        uint16_t op = g->nodes[n.i].op;
        CHECK(sources.absorbed[n.i] == is_absorbed(g, n), "%s: node of \"%s\"", g->name,
              g->values[g->nodes[n.i].outputs[0].i].name);
        bool narrows = g->values[g->nodes[n.i].outputs[0].i].dtype == REMAT_BF16;
        if (op == REMAT_OP_constant || op == REMAT_OP_column || (op == REMAT_OP_cast && !narrows))
            counts[!sources.absorbed[n.i] ? 2 : op == REMAT_OP_cast]++;
    }
    for (remat_value v = {0}; v.i < g->value_count; v.i++) {
        struct remat_source expected = source_of(g, sources.absorbed, v), found = sources.of[v.i];
        CHECK(found.root.i == expected.root.i && found.viewed == expected.viewed &&
                  found.cast == expected.cast,
              "%s: source of \"%s\"", g->name, g->values[v.i].name);
        const struct remat_node_info *maker = remat_producer_info(g, v);
        bool view = maker && remat_op_has(maker->op, REMAT_FACT_VIEW);
        CHECK(root[v.i].i == (view ? root[maker->inputs[0].i].i : v.i), "%s: root of \"%s\"",
              g->name, g->values[v.i].name);
    }
}

static void check_readers(const struct remat_graph *g, const struct remat_source *sources)
{
    struct remat_readers readers = remat_find_readers(&arena, g, sources);
    const uint32_t *uses = remat_count_uses(&arena, g);
    for (uint32_t v = 0; v < g->value_count; v++) {
        uint32_t next = readers.begin[v], named = 0;
        for (remat_node n = {0}; n.i < g->node_count; n.i++)
            for (uint32_t i = 0; i < g->nodes[n.i].input_count; i++) {
                remat_value input = g->nodes[n.i].inputs[i];
                named += input.i == v;
                if ((sources ? sources[input.i].root : input).i == v)
                    CHECK(next < readers.begin[v + 1] && readers.nodes[next++].i == n.i,
                          "%s: readers of \"%s\"", g->name, g->values[v].name);
            }
        for (uint32_t o = 0; o < g->output_count; o++)
            named += g->outputs[o].i == v;
        for (uint32_t u = 0; u < g->update_count; u++)
            named += (g->updates[u].state.i == v) + (g->updates[u].value.i == v);
        CHECK(next == readers.begin[v + 1], "%s: more readers of \"%s\"", g->name,
              g->values[v].name);
        CHECK(uses[v] == named, "%s: uses of \"%s\"", g->name, g->values[v].name);
    }
}

/* --- bottlenecks --- */

/* By first result: it leads to `end` through early nodes, not through `without`. */
static bool *find_leading(const struct remat_graph *g, remat_value end, uint32_t without)
{
    bool *out;
    REMAT_NEW(&arena, out, g->value_count);
    out[end.i] = end.i != without;
    for (uint32_t n = g->node_count; n-- > 0;) {
        const struct remat_node_info *node = &g->nodes[n];
        if (!remat_in_forward_pass(node->phase) || !out[node->outputs[0].i])
            continue;
        for (uint32_t i = 0; i < node->input_count; i++) {
            remat_value from = remat_first_result(g, node->inputs[i]);
            out[from.i] |= from.i != without;
        }
    }
    return out;
}

/* All that is cut off from the end without a value, and nothing else, has it among its ancestors.
 * Returns how many pairs there are. */
static uint32_t check_ways(const struct remat_graph *g)
{
    struct remat_tree ways;
    remat_value end = remat_first_result(g, g->outputs[0]);
    const bool *leads = find_leading(g, end, REMAT_NONE);
    uint32_t pairs = 0;
    remat_find_post_dominators(&arena, g, end, &ways);
    for (remat_node n = {0}; n.i < g->node_count; n.i += 1 + n.i % 3) { /* every other one */
        uint32_t without = g->nodes[n.i].outputs[0].i;
        const bool *others = find_leading(g, end, without);
        for (uint32_t v = 0; v < g->value_count && leads[without]; v++) {
            uint32_t at = v;
            while (at != without && at != REMAT_NONE)
                at = ways.parent[at];
            if (!leads[v])
                continue;
            CHECK((at == without) == !others[v], "%s: \"%s\" on the way of \"%s\"", g->name,
                  g->values[without].name, g->values[v].name);
            pairs += at == without && v != without;
        }
    }
    return pairs;
}

/* --- layers --- */

static void check_layers(const struct remat_graph *g)
{
    struct remat_layer_numbers layers;
    remat_layers_number(&arena, g, &layers);
    for (uint32_t m = 0; m < g->node_count; m++) {
        const struct remat_scope *a = &g->scopes[g->nodes[m].scope.i];
        uint32_t number = layers.number[g->nodes[m].scope.i];
        CHECK((number < layers.count) == (a->layer >= 0) &&
                  (a->layer >= 0 || remat_is_none(number)),
              "%s: scope %s", g->name, a->path);
        for (uint32_t n = 0; n < m; n++) {
            const struct remat_scope *b = &g->scopes[g->nodes[n].scope.i];
            bool same = a->layer == b->layer && (a->layer < 0 || strcmp(a->stack, b->stack) == 0);
            if (same != (number == layers.number[g->nodes[n].scope.i]))
                CHECK(false, "%s: scopes %s and %s", g->name, a->path, b->path);
        }
    }
}

static void check_graph(const struct remat_graph *g, uint32_t counts[3], uint32_t *pairs)
{
    struct remat_sources sources;
    remat_find_sources(&arena, g, &sources);
    check_sources(g, counts);
    check_readers(g, NULL);
    check_readers(g, sources.of);
    *pairs += check_ways(g);
    check_layers(g);
}

/* --- graphs --- */

static remat_status make_model(const char *preset, remat_dtype dtype, struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    struct remat_model_settings settings;
    REMAT_TRY(remat_model_preset(ctx, preset, &settings));
    settings.dtype = dtype;
    settings.batch = 2;
    settings.dropout = 0.1;
    REMAT_TRY(remat_model_generate(ctx, &arena, &settings, out));
    REMAT_TRY(remat_pass_autodiff(&arena, *out, &undivided, out));
    REMAT_TRY(remat_pass_optimizer(&arena, *out, &undivided, out));
    REMAT_TRY(remat_pass_expand(&arena, *out, &undivided, out));
fail:
    return st;
}

/* A constant, a column and a cast each absorbed, and each in memory for every reason. */
static const char cases[] = "graph \"cases\"\n"
                            "input %x : bf16[4,8]\n"
                            "%c0 : f32[] = constant { value = 2.0 } phase forward\n"
                            "%c1 : f32[] output = constant { value = 3.0 } phase forward\n"
                            "%i0 : f32[4,8] = column %x phase forward\n"
                            "%i1 : f32[4,8] = column %x phase forward\n"
                            "%i1.view : f32[32] = reshape %i1 { shape = [32] } phase forward\n"
                            "%w0 : f32[4,8] = cast %x { dtype = 1 } phase forward\n"
                            "%w1 : f32[4,8] = cast %x { dtype = 1 } phase forward\n"
                            "%w1.view : f32[32] = reshape %w1 { shape = [32] } phase forward\n"
                            "%x.view : bf16[32] = reshape %x { shape = [32] } phase forward\n"
                            "%w2 : f32[32] = cast %x.view { dtype = 1 } phase forward\n"
                            "%w3 : f32[4,8] output = cast %x { dtype = 1 } phase forward\n"
                            "%a : f32[4,8] = mul %w0 %c0 phase forward\n"
                            "%b : f32[4,8] = add %a %i0 phase forward\n"
                            "%d : f32[32] = add %w2 %w1.view phase forward\n"
                            "%e : f32[32] = add %d %i1.view phase forward\n"
                            "%f : f32[32] = mul %e %c1 phase forward\n"
                            "%b.view : f32[32] = reshape %b { shape = [32] } phase forward\n"
                            "%y : f32[32] output = add %f %b.view phase forward\n"
                            "output %y\n"
                            "output %c1\n"
                            "output %w3\n";

int main(void)
{
    static const struct {
        const char *preset;
        remat_dtype dtype;
    } models[] = {{"gpt2-tiny", REMAT_BF16}, {"encdec-tiny", REMAT_F32}, {"bert-tiny", REMAT_BF16}};
    uint32_t counts[3] = {0}, own[3] = {0}, pairs = 0, own_pairs = 0;
    struct remat_graph *graph;
    ctx = remat_context_create(NULL, NULL);
    remat_arena_init(&arena, ctx);
    MUST_OK(ctx, remat_graph_parse(ctx, "cases", cases, strlen(cases), &arena, &graph));
    check_graph(graph, own, &own_pairs);
    CHECK(own[0] == 2 && own[1] == 2 && own[2] == 4 && own_pairs > 0, "%u, %u, %u", own[0], own[1],
          own[2]);
    for (uint32_t m = 0; m < sizeof models / sizeof *models; m++) {
        MUST_OK(ctx, make_model(models[m].preset, models[m].dtype, &graph));
        check_graph(graph, counts, &pairs);
    }
    printf("%u made, %u loaded; %u pairs of values and bottlenecks\n", counts[0], counts[1], pairs);
    CHECK(counts[0] > 100 && counts[1] > 100 && pairs > 1000, "the graphs");
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
