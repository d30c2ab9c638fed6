/* SPDX-License-Identifier: Apache-2.0 */
/* What the rules of layout.h see of the pass that applies them. Private.
 *
 * layout.c            places and shapes, the pass over the nodes
 * layout_rules.c      rules of elementwise ops, reductions and shapes
 * layout_products.c   rules of matmul, attention and tables
 * layout_handed.c     what layers hand on to each other
 * layout_finder.c     refusals */
#ifndef REMAT_LAYOUT_FINDER_H
#define REMAT_LAYOUT_FINDER_H

#include "layout.h"

struct finder {
    struct remat_arena *arena;
    const struct remat_graph *graph;
    struct remat_layouts *layouts;
    const char *axis;
    int64_t ranks;
    uint32_t *root; /* of each value: itself, or the open parameter that it is a view or cast of */
    uint32_t *uses; /* of each value */
    remat_value *parameters; /* of each value: the parameter whose gradient it is, or none */
    uint32_t *reader;        /* of each value: its last use, REMAT_NONE: none */
    uint32_t *next;          /* of each use: the one before it */
    uint32_t *user;          /* of each use: the node */
    bool *handed;            /* of each node: layers hand its result on */
    uint32_t look, *looked;  /* of each value: in which look at columns it was found last */
    struct REMAT_LIST(remat_value) to_look_at;
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

static const struct remat_layout whole = {REMAT_LAYOUT_WHOLE, 0}, sum = {REMAT_LAYOUT_SUM, 0};

static inline struct remat_layout split_at(const struct remat_shape *shape, uint32_t axis,
                                           int64_t width)
{
    struct remat_layout out = {REMAT_LAYOUT_SPLIT, width};
    for (uint32_t d = axis + 1; d < shape->rank; d++)
        out.run *= shape->dims[d];
    return out;
}

static inline const struct remat_shape *shape_of(const struct finder *f, remat_value v)
{
    return &f->graph->values[v.i].shape;
}

static inline struct remat_layout *layout_of(struct finder *f, remat_value v)
{
    return &f->layouts->of[f->root[v.i]];
}

/* Where an input is split; false: it is not. */
static inline bool place_of(struct finder *f, remat_value v, struct remat_place *out)
{
    struct remat_layout layout = *layout_of(f, v);
    return layout.kind == REMAT_LAYOUT_SPLIT &&
           remat_layout_place(shape_of(f, v), layout.run, f->ranks, out);
}

/* Nobody else would need the finished value. */
static inline bool passes_on(struct finder *f, remat_value v)
{
    return layout_of(f, v)->kind == REMAT_LAYOUT_SUM && f->uses[v.i] == 1;
}

#endif
