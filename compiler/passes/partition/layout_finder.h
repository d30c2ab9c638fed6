/* SPDX-License-Identifier: Apache-2.0 */
/* The pass that applies the rules of layout.h, as these see it. Private.
 *
 * layout.c            the pass over the nodes
 * layout_place.c      places and shapes, refusals
 * layout_rules.c      rules of elementwise ops, reductions and shapes
 * layout_products.c   rules of matmul, attention and tables
 * layout_narrow.c     wholes of which each rank reads a part
 * layout_stated.c     what the graph states */
#ifndef REMAT_LAYOUT_FINDER_H
#define REMAT_LAYOUT_FINDER_H

#include "analysis.h"
#include "layout.h"

struct finder {
    struct remat_arena *arena;
    const struct remat_graph *graph;
    struct remat_layouts *layouts;
    const char *axis;
    int64_t ranks;
    bool sequence_parallel;
    bool scatters;     /* some sum is finished into parts of tokens */
    remat_value *root; /* of each value: itself, or the open parameter that it is a view or cast of
                        */
    uint32_t *uses;    /* of each value */
    remat_value *parameters; /* of each value: the parameter whose gradient it is, or none */
    struct remat_readers readers;
    bool *handed;           /* of each node: layers hand its result on */
    uint32_t look, *looked; /* of each value: in which look at columns it was found last */
    struct REMAT_LIST(remat_value) to_look_at;
    struct remat_layout *stated; /* of each value, by the graph; OPEN: nothing is */
    bool *read;                  /* of each root: by a node that was visited */
};

/* A rule says how a node reads its inputs and in which layout it leaves its results. `want` and
 * `out` come filled with whole. */
struct rule_of {
    const struct remat_node_info *node;
    struct remat_layout *want, *out;
};

#define REMAT_LAYOUT_RULE(name)                                                                    \
    remat_status remat_layout_rule_##name(struct finder *f, const struct rule_of *r);
#include "layout_rules.def"
#undef REMAT_LAYOUT_RULE

/* INVALID, by name: a dimension in blocks of `block` is not divisible. */
remat_status remat_layout_refuse_blocks(const struct finder *f, remat_value v, uint32_t dimension,
                                        int64_t block, const char *advice);
remat_status remat_layout_refuse(const struct finder *f, remat_value v, uint32_t dimension);

/* INVALID: an input has a number of tokens that is not divisible, with sequence parallelism. */
remat_status remat_layout_check_tokens(const struct finder *f);

static const struct remat_layout whole = {.kind = REMAT_LAYOUT_WHOLE},
                                 sum = {.kind = REMAT_LAYOUT_SUM};

static inline struct remat_layout split_at(const struct remat_shape *shape, uint32_t axis,
                                           int64_t width)
{
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

static inline bool is_stated(const struct finder *f, remat_value v)
{
    return f->stated[v.i].kind != REMAT_LAYOUT_OPEN;
}

static inline const struct remat_shape *shape_of(const struct finder *f, remat_value v)
{
    return &f->graph->values[v.i].shape;
}

static inline struct remat_layout *layout_of(struct finder *f, remat_value v)
{
    return &f->layouts->of[f->root[v.i].i];
}

/* How it is read where its sum does not go on: of a sum over tokens, the parts. */
static inline struct remat_layout finished(struct finder *f, remat_value v)
{
    struct remat_layout layout = *layout_of(f, v);
    if (layout.kind == REMAT_LAYOUT_SUM && layout.tokens)
        layout.kind = REMAT_LAYOUT_SPLIT;
    return layout;
}

/* Where an input is split when it is finished; false: it is not. */
static inline bool place_of(struct finder *f, remat_value v, struct remat_place *out)
{
    return remat_layout_place(shape_of(f, v), finished(f, v), f->ranks, out);
}

/* Nobody else would need the finished value. */
static inline bool passes_on(struct finder *f, remat_value v)
{
    return layout_of(f, v)->kind == REMAT_LAYOUT_SUM && f->uses[v.i] == 1;
}

/* layout_rules.c */

/* Splits the result of a pointwise node along an axis, or along all up to it, and operands with it.
 * False: some cannot be, and nothing has changed. */
bool remat_layout_split_along(struct finder *f, const struct rule_of *r, uint32_t axis,
                              const struct remat_place *place);

/* layout_handed.c */

/* Fills f->handed from the readers. Layers hand on the values that every way from an input to
 * the loss passes. */
void remat_layout_find_handed(struct finder *f);

/* layout_narrow.c */

/* Where node n computes a whole of which each rank reads only its part, it computes that. When all
 * layouts are found, from the last node to the first. */
void remat_layout_narrow(struct finder *f, remat_node n);

/* layout_stated.c */

/* Fills `stated`. INVALID: a dimension is not divisible, or a graph input is a whole output. */
remat_status remat_layout_read_stated(struct finder *f);

/* INVALID: a value is stated otherwise than `by` needs it. */
remat_status remat_layout_contradict(const struct finder *f, remat_value v,
                                     struct remat_layout found, remat_value by);
/* The same where both are splits, and other ones; a split over tokens gives way. */
remat_status remat_layout_check_stated(const struct finder *f, remat_value v,
                                       struct remat_layout found, remat_value by);

#endif
