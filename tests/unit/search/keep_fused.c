/* SPDX-License-Identifier: Apache-2.0 */
/* In place of compiler/passes/keep.c: the kernels that keep a value are fused ones, which cast it
 * to the other of f32 and bf16 and back. None of these casts is a load's. */
#include "keep.h"

static const bool *legal(struct remat_arena *arena, const struct remat_graph *graph)
{
    bool *out;
    REMAT_NEW(arena, out, graph->value_count);
    for (uint32_t v = 0; v < graph->value_count; v++)
        out[v] = remat_dtype_row(graph->values[v].dtype)->is_computed;
    return out;
}

static remat_value cast(struct remat_builder *b, remat_value v)
{
    bool narrow = b->graph->values[v.i].dtype == REMAT_BF16;
    const struct remat_attribute dtype =
        remat_attribute_int("dtype", narrow ? REMAT_F32 : REMAT_BF16);
    return remat_build(b, REMAT_OP_cast, &v, 1, &dtype, 1, NULL);
}

static remat_value put(struct remat_builder *b, remat_value v, const char *name)
{
    b->name = name;
    return cast(b, v);
}

static remat_value get(struct remat_builder *b, remat_value v, remat_value kept)
{
    (void)v;
    return cast(b, kept);
}

static const struct remat_keep_nodes in_place, fused = {legal, put, get};
const struct remat_keep_nodes *const remat_keep_rows[REMAT_ACTION_COUNT] = {
    [REMAT_ACTION_SAVE] = &in_place, [REMAT_ACTION_PART] = &fused};
