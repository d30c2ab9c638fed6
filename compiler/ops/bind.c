/* SPDX-License-Identifier: Apache-2.0 */
/* Binding: numbers in place of symbols. Which nodes there are does not change, and what the graph
 * records of its results is bound like all else; that the ops infer the same is then the
 * verifier's business. */

#include "family.h"

#define BATCH "batch"

/* Fails at a use of a symbol without a value. */
static remat_status fail_unbound(remat_context *ctx, const struct remat_graph *graph,
                                 int64_t number, const char *format, const char *name, uint32_t at,
                                 const char *key)
{
    char where[320];
    snprintf(where, sizeof where, format, name, at, key);
    uint32_t k = remat_symbol_index(number);
    if (k >= graph->symbol_count)
        return INVALID(ctx, "%s is symbol %u of %u", where, k, graph->symbol_count);
    return remat_error(ctx, REMAT_ERROR_USAGE,
                       "%s is the symbol \"%s\", which has no value (--bind %s=N gives it one)",
                       where, graph->symbols[k].name, graph->symbols[k].name);
}

/* False where the number is a symbol without a value. */
static bool bind_number(const struct remat_graph *graph, int64_t *number)
{
    if (!remat_is_symbol(*number))
        return true;
    uint32_t k = remat_symbol_index(*number);
    if (k >= graph->symbol_count || graph->symbols[k].value == 0)
        return false;
    *number = graph->symbols[k].value;
    return true;
}

static remat_status bind_value(remat_context *ctx, const struct remat_graph *graph,
                               struct remat_value_info *value)
{
    const struct remat_symbol *batch = remat_graph_symbol(graph, BATCH);
    if (value->role == REMAT_ROLE_INPUT && value->shape.rank > 0 && batch &&
        value->shape.dims[0] == REMAT_SYMBOL(batch - graph->symbols))
        value->batched = true;
    for (uint32_t d = 0; d < value->shape.rank; d++)
        if (!bind_number(graph, &value->shape.dims[d]))
            return fail_unbound(ctx, graph, value->shape.dims[d], "value \"%.200s\": axis %u%s",
                                value->name, d, "");
    return REMAT_OK;
}

static remat_status bind_node(remat_context *ctx, struct remat_arena *arena,
                              const struct remat_graph *graph, struct remat_node_info *node)
{
    static const char where[] = "node \"%.200s\": element %u of attribute \"%.60s\"";
    const char *name = node->output_count ? graph->values[node->outputs[0].i].name : "";
    struct remat_attribute *bound =
        remat_copy(arena, node->attributes, node->attribute_count, sizeof *bound);
    node->attributes = bound;
    for (uint32_t a = 0; a < node->attribute_count; a++) {
        int64_t *ints = remat_copy(arena, bound[a].ints, bound[a].count, sizeof *ints);
        if (!bind_number(graph, &bound[a].i))
            return fail_unbound(ctx, graph, bound[a].i, where, name, 0, bound[a].key);
        for (uint32_t k = 0; k < bound[a].count; k++)
            if (!bind_number(graph, &ints[k]))
                return fail_unbound(ctx, graph, ints[k], where, name, k, bound[a].key);
        bound[a].ints = ints;
    }
    return REMAT_OK;
}

/* "MESSAGE (batch = 2, seq = 64)": what is wrong may be wrong because of these. */
static void append_values(remat_context *ctx, const struct remat_graph *graph)
{
    for (uint32_t k = 0; k < graph->symbol_count; k++)
        (void)INVALID(ctx, "%s%s%s = %lld%s", ctx->message, k ? ", " : " (", graph->symbols[k].name,
                      (long long)graph->symbols[k].value, k + 1 < graph->symbol_count ? "" : ")");
}

/* The tokens of all sequences: predicted ones, and those that an encoder reads. */
static uint64_t count_tokens(const struct remat_graph *graph)
{
    static const char *const lengths[] = {"seq", "source_seq"};
    const struct remat_symbol *batch = remat_graph_symbol(graph, BATCH);
    uint64_t tokens = 0;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const struct remat_symbol *length = remat_graph_symbol(graph, lengths[i]);
        if (batch && length)
            tokens += (uint64_t)batch->value * (uint64_t)length->value;
    }
    return tokens;
}

static remat_status bind(remat_context *ctx, struct remat_arena *arena,
                         const struct remat_graph *graph, struct remat_graph **out)
{
    struct remat_graph *bound = remat_graph_copy(arena, graph, 1);
    bound->tokens = count_tokens(graph);
    bound->symbol_count = 0;
    bound->pair = NULL;
    for (uint32_t v = 0; v < bound->value_count; v++)
        REMAT_CHECK(bind_value(ctx, graph, &bound->values[v]));
    for (uint32_t n = 0; n < bound->node_count; n++)
        REMAT_CHECK(bind_node(ctx, arena, graph, &bound->nodes[n]));
    *out = bound;
    return remat_graph_verify(ctx, bound);
}

/* With a batch of 2; NULL: it is not valid so. */
static const struct remat_graph *bind_pair(struct remat_arena *arena,
                                           const struct remat_graph *graph)
{
    struct remat_graph *two = remat_graph_copy(arena, graph, 1), *out;
    char message[sizeof arena->ctx->message];
    memcpy(message, arena->ctx->message, sizeof message);
    remat_graph_symbol(two, BATCH)->value = 2;
    bool valid = bind(arena->ctx, arena, two, &out) == REMAT_OK;
    memcpy(arena->ctx->message, message, sizeof message);
    return valid ? out : NULL;
}

remat_status remat_graph_bind(remat_context *ctx, struct remat_arena *arena,
                              const struct remat_graph *graph, struct remat_graph **out)
{
    remat_status st = bind(ctx, arena, graph, out);
    const struct remat_symbol *batch = remat_graph_symbol(graph, BATCH);
    if (st == REMAT_ERROR_INVALID)
        append_values(ctx, graph);
    if (st == REMAT_OK && batch && batch->value == 1)
        (*out)->pair = bind_pair(arena, graph);
    return st;
}

remat_status remat_graph_verify_symbolic(remat_context *ctx, const struct remat_graph *graph)
{
    struct remat_graph *bound;
    for (uint32_t k = 0; k < graph->symbol_count; k++)
        if (graph->symbols[k].value == 0)
            return REMAT_OK;
    if (graph->symbol_count == 0)
        return remat_graph_verify(ctx, graph);
    struct remat_arena *scratch = remat_scratch_open(ctx);
    remat_status st = remat_graph_bind(ctx, scratch, graph, &bound);
    remat_scratch_close(scratch);
    return st;
}
