/* SPDX-License-Identifier: Apache-2.0 */
/* cross_entropy(linear(x, w)) -> linear_cross_entropy, where nobody else reads the logits. */
#include "builder.h"
#include "rebuild.h"

/* Products of fewer rows leave a GPU idle. */
#define ROWS_MIN 1024

struct loss_head { /* what becomes one node */
    remat_node loss, linear;
};

/* False where the loss is something else. */
static bool find_head(const struct remat_graph *graph, const uint32_t *uses, struct loss_head *out)
{
    if (graph->output_count == 0)
        return false;
    const struct remat_node_info *loss = remat_producer_info(graph, graph->outputs[0]);
    if (!loss || loss->op != REMAT_OP_cross_entropy)
        return false;
    remat_value logits = loss->inputs[0];
    const struct remat_node_info *linear = remat_producer_info(graph, logits);
    *out =
        (struct loss_head){remat_producer(graph, graph->outputs[0]), remat_producer(graph, logits)};
    return graph->outputs[0].i == loss->outputs[0].i && uses[loss->outputs[1].i] == 0 &&
           uses[logits.i] == 1 && linear && linear->op == REMAT_OP_linear;
}

/* Chunks of logits about as large as x, at most as many as there may be. */
static int64_t choose_rows(const struct remat_graph *graph, const struct loss_head *head,
                           uint32_t loss_chunk)
{
    const struct remat_node_info *linear = &graph->nodes[head->linear.i];
    const struct remat_shape *x = &graph->values[linear->inputs[0].i].shape;
    const struct remat_shape *logits = &graph->values[linear->outputs[0].i].shape;
    int64_t width = x->dims[x->rank - 1], classes = logits->dims[logits->rank - 1];
    int64_t all = remat_shape_elements(x) / width, chunks = (classes + width - 1) / width;
    if (loss_chunk != REMAT_LOSS_CHUNK_AUTO)
        return loss_chunk;
    if (chunks > REMAT_LOSS_CHUNKS_MAX)
        chunks = REMAT_LOSS_CHUNKS_MAX;
    int64_t rows = (all + chunks - 1) / chunks;
    return rows < ROWS_MIN ? ROWS_MIN : rows;
}

static remat_value optional(const struct remat_rebuild *r, const struct remat_node_info *node,
                            const char *name)
{
    uint32_t k = remat_node_operand(node, name);
    return remat_is_none(k) ? REMAT_NO_VALUE : r->values[node->inputs[k].i];
}

static remat_status replace(struct remat_rebuild *r, const struct loss_head *head,
                            uint32_t loss_chunk)
{
    const struct remat_node_info *loss = &r->from->nodes[head->loss.i];
    const struct remat_node_info *linear = &r->from->nodes[head->linear.i];
    struct remat_attribute attributes[4] = {
        remat_attribute_int("rows", choose_rows(r->from, head, loss_chunk)),
        remat_attribute_int("transpose_weight", remat_node_int(linear, "transpose_weight", 0))};
    for (uint32_t k = 0; k < loss->attribute_count; k++) /* ignore_index, classes */
        attributes[2 + k] = loss->attributes[k];
    const remat_value inputs[5] = {r->values[linear->inputs[0].i], r->values[linear->inputs[1].i],
                                   r->values[loss->inputs[1].i], optional(r, linear, "bias"),
                                   optional(r, loss, "count")};
    remat_value outputs[4];
    struct remat_builder b = {.arena = r->arena,
                              .graph = r->to,
                              .scope = loss->scope,
                              .phase = loss->phase,
                              .name = r->from->values[loss->outputs[0].i].name};
    remat_status st = remat_build_checked(&b, REMAT_OP_linear_cross_entropy, inputs, 5, attributes,
                                          2 + loss->attribute_count, outputs);
    if (st == REMAT_OK)
        remat_rebuild_replace(r, loss->outputs[0], outputs[0]);
    return st;
}

REMAT_PASS(chunk_loss)
{
    struct loss_head head;
    uint32_t loss_chunk = settings->loss_chunk;
    bool found = loss_chunk && find_head(graph, remat_count_uses(arena, graph), &head);
    if (!found) {
        if (loss_chunk && loss_chunk != REMAT_LOSS_CHUNK_AUTO)
            return remat_error(arena->ctx, REMAT_ERROR_INVALID,
                               "no chunks of rows: the loss is not cross_entropy of a linear that "
                               "it alone reads");
        return remat_pass_nothing(graph, out);
    }
    remat_status st = REMAT_OK;
    struct remat_rebuild r = remat_rebuild_begin(arena, graph, 1);
    for (remat_node n = {0}; n.i < graph->node_count && st == REMAT_OK; n.i++)
        if (n.i == head.loss.i)
            st = replace(&r, &head, loss_chunk);
        else if (n.i != head.linear.i)
            remat_rebuild_copy(&r, n);
    *out = remat_rebuild_finish(&r);
    return st;
}
