/* SPDX-License-Identifier: Apache-2.0 */
/* Peepholes over sums of gradients, each of which saves buffers and passes over memory:
 *
 *     add(x, embedding_backward(g, ids))  ->  embedding_accumulate(x, g, ids), in place
 *     add(pad(a), pad(b), ...)            ->  concat(a, b, ...), where the pads tile the axis
 *
 * The first needs x to die there: one use, own bytes. The second undoes what the derivatives of
 * slices (q, k, v of one product) leave. Replaced nodes disappear; the result takes over the name
 * and role of the sum. What no graph output, update or gradient needs disappears, too. */
#include "builder.h"
#include "rebuild.h"

#define PARTS_MAX 16

struct parts { /* of a sum of pads */
    uint32_t count;
    remat_node pads[PARTS_MAX]; /* by position along the axis */
};

struct replacement { /* of a sum */
    uint16_t op;
    uint32_t count;
    remat_value inputs[PARTS_MAX];
    struct remat_attribute axis; /* of a concat */
};

/* Side arrays over the nodes. */
struct fold {
    struct remat_arena *arena;
    const struct remat_graph *graph;
    uint32_t *uses; /* of each value */
    bool *live;     /* needed by what is left */
    struct replacement **replacements;
};

/* The node that computes a value for this one reader; NULL when there are other readers, or none.
 */
static const struct remat_node_info *sole_producer(const struct fold *f, remat_value value)
{
    const struct remat_node_info *node = remat_producer_info(f->graph, value);
    bool sole = node && f->uses[value.i] == 1 && node->instance == 0 &&
                f->graph->values[value.i].role == REMAT_ROLE_ACTIVATION;
    return sole ? node : NULL;
}

static bool same_shape(const struct fold *f, remat_value a, remat_value b)
{
    return remat_shape_equal(&f->graph->values[a.i].shape, &f->graph->values[b.i].shape);
}

/* --- embedding_accumulate --- */

/* Which operand of the sum is the embedding's gradient; REMAT_NONE when the pattern is not there.
 */
static uint32_t find_embedding(const struct fold *f, const struct remat_node_info *sum)
{
    for (uint32_t k = 2; k-- > 0;) {
        const struct remat_node_info *gradient = sole_producer(f, sum->inputs[k]);
        const struct remat_node_info *other = sole_producer(f, sum->inputs[1 - k]);
        if (gradient && gradient->op == REMAT_OP_embedding_backward && other &&
            !remat_op_has(other->op, REMAT_FACT_VIEW) &&
            same_shape(f, sum->inputs[0], sum->inputs[1]))
            return k;
    }
    return REMAT_NONE;
}

static void mark_accumulate(struct fold *f, remat_node n)
{
    const remat_value *terms = f->graph->nodes[n.i].inputs;
    uint32_t k = find_embedding(f, &f->graph->nodes[n.i]);
    if (k == REMAT_NONE)
        return;
    remat_node id = remat_producer(f->graph, terms[k]);
    const remat_value *gradient = f->graph->nodes[id.i].inputs;
    const struct replacement made = {
        REMAT_OP_embedding_accumulate, 3, {terms[1 - k], gradient[0], gradient[1]}, {0}};
    f->replacements[n.i] = remat_copy(f->arena, &made, 1, sizeof made);
}

/* --- concat --- */

static int64_t pad_int(const struct fold *f, remat_node pad, const char *key)
{
    return remat_node_int(&f->graph->nodes[pad.i], key, 0);
}

static bool add_pad(const struct fold *f, struct parts *parts, remat_node pad)
{
    if (parts->count == PARTS_MAX ||
        (parts->count > 0 && pad_int(f, pad, "axis") != pad_int(f, parts->pads[0], "axis")))
        return false;
    uint32_t at = parts->count++;
    while (at > 0 && pad_int(f, parts->pads[at - 1], "begin") > pad_int(f, pad, "begin")) {
        parts->pads[at] = parts->pads[at - 1];
        at--;
    }
    parts->pads[at] = pad;
    return true;
}

/* Takes the sum apart as far as it consists of sums and pads that nobody else reads. */
static bool find_parts(const struct fold *f, remat_node n, struct parts *parts)
{
    remat_node pending[PARTS_MAX] = {n};
    uint32_t count = 1;
    while (count > 0) {
        const struct remat_node_info *sum = &f->graph->nodes[pending[--count].i];
        for (uint32_t k = 0; k < 2; k++) {
            const struct remat_node_info *part = sole_producer(f, sum->inputs[k]);
            if (!part || !same_shape(f, sum->inputs[k], sum->outputs[0]))
                return false;
            remat_node id = remat_producer(f->graph, sum->inputs[k]);
            if (part->op == REMAT_OP_add && count < PARTS_MAX)
                pending[count++] = id;
            else if (part->op != REMAT_OP_pad || !add_pad(f, parts, id))
                return false;
        }
    }
    return true;
}

static bool is_tiled(const struct fold *f, const struct parts *parts)
{
    int64_t axis = pad_int(f, parts->pads[0], "axis"), at = 0;
    for (uint32_t p = 0; p < parts->count; p++) {
        const struct remat_node_info *pad = &f->graph->nodes[parts->pads[p].i];
        if (pad_int(f, parts->pads[p], "begin") != at)
            return false;
        at += f->graph->values[pad->inputs[0].i].shape.dims[axis];
    }
    return at == pad_int(f, parts->pads[0], "length");
}

static bool mark_concat(struct fold *f, remat_node n)
{
    struct parts parts = {0};
    if (!find_parts(f, n, &parts) || !is_tiled(f, &parts))
        return false;
    struct replacement made = {.op = REMAT_OP_concat,
                               .count = parts.count,
                               .axis =
                                   remat_attribute_int("axis", pad_int(f, parts.pads[0], "axis"))};
    for (uint32_t p = 0; p < parts.count; p++)
        made.inputs[p] = f->graph->nodes[parts.pads[p].i].inputs[0];
    f->replacements[n.i] = remat_copy(f->arena, &made, 1, sizeof made);
    return true;
}

/* --- the pass --- */

static void replace(struct remat_rebuild *r, const struct remat_node_info *sum,
                    const struct replacement *made)
{
    remat_value inputs[PARTS_MAX];
    struct remat_builder b = {.arena = r->arena,
                              .graph = r->to,
                              .scope = sum->scope,
                              .phase = sum->phase,
                              .name = r->from->values[sum->outputs[0].i].name};
    for (uint32_t k = 0; k < made->count; k++)
        inputs[k] = r->values[made->inputs[k].i];
    remat_value value = remat_build(&b, made->op, inputs, made->count, &made->axis,
                                    made->op == REMAT_OP_concat, NULL);
    remat_rebuild_replace(r, sum->outputs[0], value);
}

/* Sums are marked from the last to the first, so that a chain of them is seen whole. Returns
 * whether there is something to do. */
static bool mark(struct fold *f)
{
    bool *needed = remat_find_kept(f->arena, f->graph), any = false;
    f->uses = remat_count_uses(f->arena, f->graph);
    REMAT_NEW(f->arena, f->live, f->graph->node_count);
    REMAT_NEW(f->arena, f->replacements, f->graph->node_count);
    for (remat_node n = {f->graph->node_count}; n.i-- > 0;) {
        const struct remat_node_info *node = &f->graph->nodes[n.i];
        f->live[n.i] = remat_is_needed(f->graph, node, needed);
        if (f->live[n.i] && node->op == REMAT_OP_add && node->instance == 0 && !mark_concat(f, n))
            mark_accumulate(f, n);
        const struct replacement *made = f->replacements[n.i];
        const remat_value *inputs = made ? made->inputs : node->inputs;
        uint32_t count = made ? made->count : node->input_count;
        for (uint32_t k = 0; f->live[n.i] && k < count; k++)
            needed[inputs[k].i] = true;
        any |= made || !f->live[n.i];
    }
    return any;
}

REMAT_PASS(fold)
{
    struct fold f = {.arena = arena, .graph = graph};
    if (!mark(&f))
        return remat_pass_nothing(graph, out);
    struct remat_rebuild r = remat_rebuild_begin(arena, graph, 1);
    for (remat_node n = {0}; n.i < graph->node_count; n.i++)
        if (f.replacements[n.i])
            replace(&r, &graph->nodes[n.i], f.replacements[n.i]);
        else if (f.live[n.i])
            remat_rebuild_copy(&r, n);
    *out = remat_rebuild_finish(&r);
    return REMAT_OK;
}

REMAT_PASS(eliminate_dead)
{
    struct remat_rebuild r = remat_rebuild_begin(arena, graph, 1);
    remat_rebuild_live(&r);
    *out = remat_rebuild_finish(&r);
    return REMAT_OK;
}
