/* SPDX-License-Identifier: Apache-2.0 */
/* Which numbers of a model's graph are the lengths of its inputs: those that move with them. The
 * model is made once more for each length, with that length changed; a number that has changed as
 * much is the symbol. So families are written with numbers and know nothing of symbols. */
#include "models.h"

#define OFFSET(member) offsetof(struct remat_model_settings, member)
static const struct symbol {
    const char *name;
    size_t offset; /* of its length in the settings */
} symbols[] = {{"batch", OFFSET(batch)}, {"seq", OFFSET(seq)}, {"source_seq", OFFSET(source_seq)}};
#define SYMBOL_COUNT (sizeof symbols / sizeof symbols[0])

static int64_t *length_of(struct remat_model_settings *s, const struct symbol *symbol)
{
    return (int64_t *)(void *)((char *)s + symbol->offset);
}

struct symbol_change {
    remat_context *ctx;
    const char *name;
    int64_t number; /* REMAT_SYMBOL(k) */
    int64_t amount;
};

static remat_status mark_number(const struct symbol_change *c, int64_t before, int64_t after,
                                int64_t *out)
{
    if (before == after)
        return REMAT_OK;
    if (after - before != c->amount || remat_is_symbol(*out))
        return remat_error(c->ctx, REMAT_ERROR_INTERNAL,
                           "symbol \"%s\" is part of the length %lld, not the whole", c->name,
                           (long long)before);
    *out = c->number;
    return REMAT_OK;
}

static remat_status mark_values(const struct symbol_change *c, const struct remat_graph *before,
                                const struct remat_graph *after, struct remat_graph *out)
{
    remat_status st = REMAT_OK;
    for (uint32_t v = 0; v < out->value_count; v++)
        for (uint32_t d = 0; d < out->values[v].shape.rank; d++)
            REMAT_TRY(mark_number(c, before->values[v].shape.dims[d],
                                  after->values[v].shape.dims[d], &out->values[v].shape.dims[d]));
fail:
    return st;
}

/* The attributes of `out` are its own: it has been generated just now. */
static remat_status mark_attributes(const struct symbol_change *c,
                                    const struct remat_node_info *before,
                                    const struct remat_node_info *after,
                                    const struct remat_node_info *out)
{
    remat_status st = REMAT_OK;
    for (uint32_t a = 0; a < out->attribute_count; a++) {
        const struct remat_attribute *x = &before->attributes[a], *y = &after->attributes[a];
        struct remat_attribute *to = (struct remat_attribute *)&out->attributes[a];
        REMAT_TRY(mark_number(c, x->i, y->i, &to->i));
        for (uint32_t k = 0; k < to->count; k++)
            REMAT_TRY(mark_number(c, x->ints[k], y->ints[k], (int64_t *)&to->ints[k]));
    }
fail:
    return st;
}

/* Equal but for lengths. */
static bool is_parallel(const struct remat_graph *a, const struct remat_graph *b)
{
    if (a->value_count != b->value_count || a->node_count != b->node_count)
        return false;
    for (uint32_t v = 0; v < a->value_count; v++)
        if (a->values[v].shape.rank != b->values[v].shape.rank)
            return false;
    for (uint32_t n = 0; n < a->node_count; n++) {
        if (a->nodes[n].op != b->nodes[n].op ||
            a->nodes[n].attribute_count != b->nodes[n].attribute_count)
            return false;
        for (uint32_t k = 0; k < a->nodes[n].attribute_count; k++)
            if (a->nodes[n].attributes[k].count != b->nodes[n].attributes[k].count)
                return false;
    }
    return true;
}

static remat_status mark(remat_context *ctx, struct remat_arena *scratch,
                         const struct remat_model_settings *settings, const struct symbol *symbol,
                         const struct remat_graph *before, struct remat_graph *out)
{
    remat_status st = REMAT_OK;
    struct remat_model_settings s = *settings;
    struct remat_graph *after;
    int64_t *length = length_of(&s, symbol);
    struct symbol_change c = {ctx, symbol->name, REMAT_SYMBOL(out->symbol_count - 1),
                              *length > 1 ? -1 : 1};
    *length += c.amount;
    REMAT_TRY(remat_model_generate(ctx, scratch, &s, &after));
    if (!is_parallel(before, after))
        REMAT_FAIL(ctx, REMAT_ERROR_INTERNAL, "the nodes depend on the symbol \"%s\"",
                   symbol->name);
    REMAT_TRY(mark_values(&c, before, after, out));
    for (uint32_t n = 0; n < out->node_count; n++)
        REMAT_TRY(mark_attributes(&c, &before->nodes[n], &after->nodes[n], &out->nodes[n]));
fail:
    return st;
}

/* A model has no use for some lengths, and of a context of 1 learned positions have one only. */
static bool is_variable(const struct remat_model_settings *s, const struct symbol *symbol)
{
    struct remat_model_settings copy = *s;
    int64_t length = *length_of(&copy, symbol);
    bool is_batch = symbol->offset == OFFSET(batch);
    return length > 1 ||
           (length == 1 && (is_batch || s->context != 1 || !remat_model_learns_positions(s)));
}

remat_status remat_model_generate_symbolic(remat_context *ctx, struct remat_arena *arena,
                                           const struct remat_model_settings *settings,
                                           struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    struct remat_model_settings s = *settings;
    struct remat_graph *before, *graph;
    struct remat_arena *scratch = remat_scratch_open(ctx);
    remat_model_complete(&s);
    REMAT_TRY(remat_model_generate(ctx, arena, &s, &graph));
    REMAT_TRY(remat_model_generate(ctx, scratch, &s, &before));
    for (size_t k = 0; k < SYMBOL_COUNT; k++) {
        if (!is_variable(&s, &symbols[k]))
            continue;
        REMAT_TRY(remat_graph_add_symbol(ctx, arena, graph, symbols[k].name,
                                         *length_of(&s, &symbols[k])));
        REMAT_TRY(mark(ctx, scratch, &s, &symbols[k], before, graph));
    }
    graph->pair = NULL;
    *out = graph;
fail:
    remat_scratch_close(scratch);
    return st;
}
