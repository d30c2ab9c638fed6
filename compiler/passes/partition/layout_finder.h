/* SPDX-License-Identifier: Apache-2.0 */
/* The search for layouts, as its files and rules see it. Private.
 *
 * layout_finder.c     the pass over the nodes
 * layout_place.c      places and shapes, refusals
 * layout_rules.c      rules of elementwise ops, reductions and shapes
 * layout_products.c   rules of matmul, attention and tables
 * layout_narrow.c     wholes of which each rank reads a part
 * layout_stated.c     what the graph states */
#ifndef REMAT_LAYOUT_FINDER_H
#define REMAT_LAYOUT_FINDER_H

#include "analysis.h"
#include "layout.h"

struct layout_finder {
    struct remat_arena *arena;
    const struct remat_graph *graph;
    struct remat_layouts *layouts;
    const char *axis;
    int64_t ranks;
    bool sequence_parallel;
    bool scatters;           /* some sum is finished into parts of tokens */
    remat_value *root;       /* by value: itself, or the open parameter that it views or casts */
    uint32_t *uses;          /* by value */
    remat_value *parameters; /* by value: the parameter whose gradient it is, or none */
    struct remat_readers readers;
    bool *bottleneck;        /* by node: its result is a bottleneck between layers */
    uint32_t walk, *walk_of; /* number of the current walk; by value: the last walk that found it */
    struct REMAT_LIST(remat_value) worklist;
    struct remat_layout *stated; /* by value: the stated layout; OPEN: none */
    bool *read;                  /* by root: a visited node reads it */
};

/* A rule fills in the layouts in which a node reads its inputs and leaves its results; `want` and
 * `out` are whole on entry. */
struct layout_rule {
    const struct remat_node_info *node;
    struct remat_layout *want, *out;
};

#define REMAT_LAYOUT_RULE(name)                                                                    \
    remat_status remat_layout_rule_##name(struct layout_finder *f, const struct layout_rule *r);
#include "layout_rules.def"

#include <assert.h>
#undef REMAT_LAYOUT_RULE

/* Returns INVALID, naming the value: a dimension in blocks of `block` is not divisible. */
remat_status remat_layout_refuse_blocks(const struct layout_finder *f, remat_value v,
                                        uint32_t dimension, int64_t block, const char *advice);
remat_status remat_layout_refuse(const struct layout_finder *f, remat_value v, uint32_t dimension);

/* Checks that ranks divide the tokens of every input, if sequence_parallel is set. */
remat_status remat_layout_check_tokens(const struct layout_finder *f);

static const struct remat_layout whole = {.kind = REMAT_LAYOUT_WHOLE},
                                 sum = {.kind = REMAT_LAYOUT_SUM};

static inline struct remat_layout split_at(const struct remat_shape *shape, uint32_t axis,
                                           int64_t width)
{
    assert(axis < shape->rank);
    struct remat_layout out = {REMAT_LAYOUT_SPLIT, .run = width};
    for (uint32_t d = axis + 1; d < shape->rank; d++)
        out.run *= shape->dims[d];
    return out;
}

static inline struct remat_layout split_like(const struct remat_shape *shape, uint32_t axis,
                                             const struct remat_place *place)
{
    struct remat_layout out = split_at(shape, axis, place->width);
    out.tokens = place->tokens;
    return out;
}

static inline bool is_stated(const struct layout_finder *f, remat_value v)
{
    return f->stated[v.i].kind != REMAT_LAYOUT_OPEN;
}

static inline const struct remat_shape *shape_of(const struct layout_finder *f, remat_value v)
{
    return &f->graph->values[v.i].shape;
}

static inline struct remat_layout *layout_of(struct layout_finder *f, remat_value v)
{
    return &f->layouts->of[f->root[v.i].i];
}

/* The layout of a value once its sum is finished: parts, for a sum over tokens. */
static inline struct remat_layout finished(struct layout_finder *f, remat_value v)
{
    struct remat_layout layout = *layout_of(f, v);
    if (layout.kind == REMAT_LAYOUT_SUM && layout.tokens)
        layout.kind = REMAT_LAYOUT_SPLIT;
    return layout;
}

/* The place of an input's split once it is finished; false: it is not split. */
static inline bool place_of(struct layout_finder *f, remat_value v, struct remat_place *out)
{
    return remat_layout_place(shape_of(f, v), finished(f, v), f->ranks, out);
}

/* True if an unfinished sum has one reader, which may then keep it unfinished. */
static inline bool passes_on(struct layout_finder *f, remat_value v)
{
    return layout_of(f, v)->kind == REMAT_LAYOUT_SUM && f->uses[v.i] == 1;
}

/* layout_rules.c */

/* Splits the result and the operands of a pointwise node along an axis, or along all axes up to it.
 * False: an operand cannot be split, and nothing has changed. */
bool remat_layout_split_along(struct layout_finder *f, const struct layout_rule *r, uint32_t axis,
                              const struct remat_place *place);

/* layout_narrow.c */

/* Lets a node whose readers all read one part compute that part only. Called when all layouts are
 * found, from the last node to the first. */
void remat_layout_narrow(struct layout_finder *f, remat_node n);

/* layout_stated.c */

/* Fills `stated`. INVALID: a dimension is not divisible, or a graph output is a split input. */
remat_status remat_layout_read_stated(struct layout_finder *f);

/* Returns INVALID: value `by` needs v in another layout than the stated one. */
remat_status remat_layout_contradict(const struct layout_finder *f, remat_value v,
                                     struct remat_layout found, remat_value by);
/* The same if both are splits and differ; a split over tokens gives way instead. */
remat_status remat_layout_check_stated(const struct layout_finder *f, remat_value v,
                                       struct remat_layout found, remat_value by);

#endif
