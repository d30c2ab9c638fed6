/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts that the graph states. A node's result has the stated one when it is read, whatever its
 * rule makes; a graph input begins with it. Where a rule makes or, of a graph input, first reads
 * another split, one of the two is a mistake. */
#include "layout_finder.h"

#include <inttypes.h>

static remat_status read_one(const struct layout_finder *f, remat_value v, struct remat_layout *out)
{
    const struct remat_value_info *info = &f->graph->values[v.i];
    const struct remat_stated *stated = info->stated;
    if (!stated || strcmp(stated->axis, f->axis) != 0)
        return REMAT_OK;
    *out = whole;
    if (stated->blocks == 0)
        return REMAT_OK;
    int64_t length = info->shape.dims[stated->dimension], block = length / stated->blocks;
    if (length % stated->blocks)
        return remat_error(f->arena->ctx, REMAT_ERROR_INVALID,
                           "value \"%.400s\": dimension %" PRIu32 ", of %lld, has no %lld equal "
                           "blocks",
                           info->name, stated->dimension, (long long)length,
                           (long long)stated->blocks);
    if (block % f->ranks)
        return remat_layout_refuse_blocks(f, v, stated->dimension, block, "");
    *out = split_at(&info->shape, stated->dimension, block / f->ranks);
    bool has_tokens = !remat_is_none(info->node.i) || info->role == REMAT_ROLE_INPUT;
    bool is_one_run = out->run * f->ranks == remat_shape_elements(&info->shape);
    out->tokens = f->sequence_parallel && has_tokens && is_one_run;
    return REMAT_OK;
}

/* An output that no node computes is whole. */
static remat_status check_output(const struct layout_finder *f, remat_value v)
{
    if (f->stated[v.i].kind != REMAT_LAYOUT_SPLIT || !remat_is_none(remat_producer(f->graph, v).i))
        return REMAT_OK;
    return remat_error(f->arena->ctx, REMAT_ERROR_INVALID,
                       "value \"%.400s\": it is stated as split along %s, but is also an output of "
                       "the graph",
                       f->graph->values[v.i].name, f->axis);
}

remat_status remat_layout_read_stated(struct layout_finder *f)
{
    REMAT_NEW(f->arena, f->read, f->graph->value_count);
    REMAT_NEW(f->arena, f->stated, f->graph->value_count);
    for (remat_value v = {0}; v.i < f->graph->value_count; v.i++)
        REMAT_CHECK(read_one(f, v, &f->stated[v.i]));
    for (uint32_t o = 0; o < f->graph->output_count; o++)
        REMAT_CHECK(check_output(f, f->graph->outputs[o]));
    return REMAT_OK;
}

static const char *describe(const struct layout_finder *f, remat_value v,
                            struct remat_layout layout)
{
    struct remat_place place;
    if (!remat_layout_place(shape_of(f, v), layout, f->ranks, &place))
        return "whole";
    const char *blocks = place.blocks == 1
                             ? ""
                             : REMAT_FORMAT(f->arena, ", in %lld blocks", (long long)place.blocks);
    return REMAT_FORMAT(f->arena, "split in dimension %" PRIu32 "%s", place.axis, blocks);
}

remat_status remat_layout_contradict(const struct layout_finder *f, remat_value v,
                                     struct remat_layout found, remat_value by)
{
    return remat_error(f->arena->ctx, REMAT_ERROR_INVALID,
                       "value \"%.400s\": along %s it is stated as %s, but value \"%.400s\" needs "
                       "it %s",
                       f->graph->values[v.i].name, f->axis, describe(f, v, f->stated[v.i]),
                       f->graph->values[by.i].name, describe(f, v, found));
}

remat_status remat_layout_check_stated(const struct layout_finder *f, remat_value v,
                                       struct remat_layout found, remat_value by)
{
    struct remat_layout stated = f->stated[v.i];
    bool split = stated.kind == REMAT_LAYOUT_SPLIT && found.kind == REMAT_LAYOUT_SPLIT;
    if (!split || stated.tokens || found.tokens || stated.run == found.run)
        return REMAT_OK;
    return remat_layout_contradict(f, v, found, by);
}
