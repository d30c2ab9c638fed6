/* SPDX-License-Identifier: Apache-2.0 */
/* The config has the sizes; what it does not have is guessed from the graph, and whether all of it
 * is right is seen by making the graph anew. */
#include "models.h"

#include "config.h"
#include "ops.h"

static void read_lengths(const struct remat_graph *graph, struct remat_model_settings *s)
{
    const struct {
        const char *symbol;
        int64_t *length;
    } rows[] = {{"batch", &s->batch}, {"seq", &s->seq}, {"source_seq", &s->source_seq}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct remat_symbol *symbol = remat_graph_symbol(graph, rows[i].symbol);
        if (symbol)
            *rows[i].length = symbol->value;
    }
}

/* The smallest number to a multiple of which the vocabulary is padded like that; 0: there is none.
 */
static int64_t multiple_of(int64_t rows, int64_t unpadded_rows)
{
    for (int64_t m = rows - unpadded_rows + 1; m <= rows; m++)
        if (rows % m == 0)
            return m;
    return 0;
}

static void read_values(const struct remat_graph *graph, struct remat_model_settings *s)
{
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct remat_value_info *value = &graph->values[v];
        if (value->role != REMAT_ROLE_PARAMETER)
            continue;
        s->dtype = value->dtype;
        if (value->unpadded_rows && value->unpadded_rows != value->shape.dims[0])
            s->vocab_multiple = multiple_of(value->shape.dims[0], value->unpadded_rows);
    }
}

static bool has_op(const struct remat_graph *graph, uint16_t op)
{
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].op == op)
            return true;
    return false;
}

/* As --dropout sets it everywhere, which not every config can say. */
static void read_dropout(const struct remat_graph *graph, struct remat_model_settings *s)
{
    s->attention_apart = false;
    s->dropout = 0;
    for (uint32_t n = 0; n < graph->node_count; n++)
        s->dropout = remat_node_float(&graph->nodes[n], "p", s->dropout);
}

static remat_status compare(remat_context *ctx, const struct remat_graph *graph,
                            const struct remat_model_settings *s, bool *equal)
{
    struct remat_arena *scratch = remat_scratch_open(ctx);
    struct remat_graph *again;
    remat_status st = remat_model_generate_symbolic(ctx, scratch, s, &again);
    *equal = st == REMAT_OK && remat_graph_hash(again) == remat_graph_hash(graph);
    remat_scratch_close(scratch);
    return st;
}

remat_status remat_model_remake(remat_context *ctx, struct remat_arena *arena,
                                const struct remat_graph *graph, struct remat_model_settings *out,
                                const char **why)
{
    remat_status st = REMAT_OK;
    const char *config = graph->config ? graph->config : "";
    bool equal = false, plan_only = graph->plan_only && *graph->plan_only;
    *why = "the graph has no config.json";
    if (!*config)
        return REMAT_OK;
    *why = "the graph is not what its config.json makes";
    REMAT_TRY(remat_model_config_parse(ctx, arena, "config", config, strlen(config), true,
                                       plan_only, out));
    out->optimizer = graph->optimizer;
    out->written_out = !has_op(graph, REMAT_OP_attention);
    read_lengths(graph, out);
    read_values(graph, out);
    REMAT_TRY(compare(ctx, graph, out, &equal));
    if (!equal) {
        read_dropout(graph, out);
        REMAT_TRY(compare(ctx, graph, out, &equal));
    }
    *why = equal ? NULL : *why;
fail:
    return st == REMAT_ERROR_MEMORY ? st : REMAT_OK;
}
