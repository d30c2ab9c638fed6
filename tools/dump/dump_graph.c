/* SPDX-License-Identifier: Apache-2.0 */
/* A graph in numbers. */
#include "dump_graph.h"

#include "formats.h"
#include "ops.h"
#include "show.h"

#include <inttypes.h>
#include <stdlib.h>

struct roles {
    uint64_t values, elements, bytes;
};

static void sum_roles(const struct remat_graph *graph, struct roles roles[REMAT_ROLE_COUNT])
{
    memset(roles, 0, REMAT_ROLE_COUNT * sizeof *roles);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct remat_value_info *value = &graph->values[v];
        roles[value->role].values++;
        roles[value->role].elements += (uint64_t)remat_shape_elements(&value->shape);
        roles[value->role].bytes += remat_value_bytes(value);
    }
}

void dump_graph_text(const struct remat_graph *graph, const struct remat_graph *bound,
                     struct remat_text *out)
{
    struct roles roles[REMAT_ROLE_COUNT];
    sum_roles(bound, roles);
    remat_text_append(out, "graph       ");
    remat_text_show(out, graph->name);
    remat_text_append(out, "\n");
    if (graph->plan_only && *graph->plan_only) {
        remat_text_append(out, "plan only   ");
        remat_text_show(out, graph->plan_only);
        remat_text_append(out, "\n");
    }
    for (uint32_t k = 0; k < graph->symbol_count; k++)
        remat_text_append(out, "%s%s = %" PRIi64 "%s", k ? ", " : "symbols     ",
                          graph->symbols[k].name, graph->symbols[k].value,
                          k + 1 < graph->symbol_count ? "" : "\n");
    remat_text_append(out, "layers      %" PRIu32 "\n", remat_graph_layers(graph));
    remat_text_append(out, "nodes       %" PRIu32 "\n", graph->node_count);
    remat_text_append(out, "parameters  %" PRIu64 " elements in %" PRIu64 " tensors\n",
                      roles[REMAT_ROLE_PARAMETER].elements, roles[REMAT_ROLE_PARAMETER].values);
    remat_text_append(out, "optimizer   %s\n", remat_optimizer_name(graph->optimizer.kind));
    remat_text_append(out, "hash        %016" PRIx64 "\n", remat_graph_hash(bound));
    remat_text_append(out, "\n%-16s %8s %14s\n", "values by role", "count", "bytes");
    for (uint32_t role = 0; role < REMAT_ROLE_COUNT; role++)
        if (roles[role].values)
            remat_text_append(out, "%-16s %8" PRIu64 " %14" PRIu64 "\n", remat_role_name(role),
                              roles[role].values, roles[role].bytes);
}

void dump_graph_json(const struct remat_graph *graph, const struct remat_graph *bound,
                     struct dump_json *out)
{
    struct roles roles[REMAT_ROLE_COUNT];
    struct dump_json symbols = {.object = json_object()};
    sum_roles(bound, roles);
    for (uint32_t k = 0; k < graph->symbol_count; k++)
        dump_set(&symbols, graph->symbols[k].name, dump_bytes((uint64_t)graph->symbols[k].value));
    out->failed |= symbols.failed;
    dump_set(out, "graph", json_string(graph->name));
    if (graph->plan_only && *graph->plan_only)
        dump_set(out, "plan_only", json_string(graph->plan_only));
    dump_set(out, "graph_hash", dump_hash(remat_graph_hash(bound)));
    dump_set(out, "symbols", symbols.object);
    dump_set(out, "layers", dump_bytes(remat_graph_layers(graph)));
    dump_set(out, "nodes", dump_bytes(graph->node_count));
    dump_set(out, "values", dump_bytes(graph->value_count));
    dump_set(out, "parameters", dump_bytes(roles[REMAT_ROLE_PARAMETER].elements));
    dump_set(out, "parameter_tensors", dump_bytes(roles[REMAT_ROLE_PARAMETER].values));
    dump_set(out, "parameter_bytes", dump_bytes(roles[REMAT_ROLE_PARAMETER].bytes));
    dump_set(out, "optimizer", json_string(remat_optimizer_name(graph->optimizer.kind)));
}

/* "bf16[4,64]" */
static void append_type(const struct remat_value_info *value, struct remat_text *out)
{
    remat_text_append(out, "%s[", remat_dtype_name(value->dtype));
    for (uint32_t k = 0; k < value->shape.rank; k++)
        remat_text_append(out, "%s%" PRIi64, k ? "," : "", value->shape.dims[k]);
    remat_text_append(out, "]");
}

static void append_node(const struct remat_graph *graph, const struct remat_node_info *node,
                        uint32_t index, struct remat_text *out)
{
    const struct remat_value_info *first = &graph->values[node->outputs[0].i];
    remat_text_append(out, "  n%" PRIu32 " [label=\"%s\\n", index, remat_op_info(node->op)->name);
    dump_append_quoted(out, first->name);
    remat_text_append(out, "\\n");
    append_type(first, out);
    remat_text_append(out, "\", shape=box];\n");
}

remat_status dump_graph_dot(remat_context *ctx, struct remat_arena *arena,
                            const struct remat_graph *bound, const char *layer,
                            struct remat_text *out)
{
    remat_status st = REMAT_OK;
    int64_t only = layer ? strtoll(layer, NULL, 10) : -1;
    bool *chosen, *read, any = false;
    REMAT_TRY_NEW(arena, chosen, bound->node_count);
    REMAT_TRY_NEW(arena, read, bound->value_count);
    remat_text_append(out, "digraph \"");
    dump_append_quoted(out, bound->name);
    remat_text_append(out, "\" {\n  node [fontname=\"Helvetica\"];\n");
    for (uint32_t n = 0; n < bound->node_count; n++) {
        const struct remat_node_info *node = &bound->nodes[n];
        chosen[n] = only < 0 || bound->scopes[node->scope.i].layer == only;
        any |= chosen[n];
        if (!chosen[n])
            continue;
        append_node(bound, node, n, out);
        for (uint32_t i = 0; i < node->input_count; i++) {
            uint32_t producer = remat_producer(bound, node->inputs[i]).i;
            if (!remat_is_none(producer) && chosen[producer])
                remat_text_append(out, "  n%" PRIu32 " -> n%" PRIu32 ";\n", producer, n);
            if (!remat_is_none(producer) ||
                bound->values[node->inputs[i].i].role == REMAT_ROLE_PARAMETER)
                continue;
            remat_text_append(out, "  v%" PRIu32 " -> n%" PRIu32 ";\n", node->inputs[i].i, n);
            read[node->inputs[i].i] = true;
        }
    }
    for (uint32_t v = 0; v < bound->value_count; v++)
        if (read[v]) {
            remat_text_append(out, "  v%" PRIu32 " [label=\"", v);
            dump_append_quoted(out, bound->values[v].name);
            remat_text_append(out, "\\n");
            append_type(&bound->values[v], out);
            remat_text_append(out, "\", shape=ellipse];\n");
        }
    remat_text_append(out, "}\n");
    if (!any)
        st = remat_error(ctx, REMAT_ERROR_USAGE, "--layer %" PRIi64 ": the graph has no such layer",
                         only);
fail:
    return st;
}
