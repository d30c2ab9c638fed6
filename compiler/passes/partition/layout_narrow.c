/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts go forward, so what comes from no split input is whole. Where all its readers read the
 * same part of it, it needs no more: masks of dropout, down to their random numbers. */
#include "layout_finder.h"

/* The layout in which all nodes read a value that nobody else does; whole: they differ. */
static struct remat_layout read_layout(const struct layout_finder *f, remat_value v)
{
    struct remat_layout found = whole;
    uint32_t uses = 0;
    for (uint32_t r = f->readers.begin[v.i + 1]; r-- > f->readers.begin[v.i];) {
        remat_node reader = f->readers.nodes[r];
        const struct remat_node_info *node = &f->graph->nodes[reader.i];
        for (uint32_t k = 0; k < node->input_count; k++) {
            struct remat_layout want = f->layouts->wanted[reader.i][k];
            if (node->inputs[k].i != v.i)
                continue;
            if (want.kind != REMAT_LAYOUT_SPLIT || (uses > 0 && want.run != found.run))
                return whole;
            found = want;
        }
        uses++;
    }
    return uses == f->uses[v.i] ? found : whole;
}

static bool draws_parts(const struct layout_finder *f, remat_value v, int64_t run)
{
    return remat_shape_elements(shape_of(f, v)) / (f->ranks * run) <= REMAT_LAYOUT_ENTRIES_MAX;
}

void remat_layout_narrow(struct layout_finder *f, remat_node n)
{
    const struct remat_node_info *node = &f->graph->nodes[n.i];
    remat_value y = node->outputs[0];
    struct remat_layout layout = is_stated(f, y) ? f->layouts->of[y.i] : read_layout(f, y);
    struct remat_place place;
    bool is_random = node->op == REMAT_OP_random;
    bool follows = remat_op_info(node->op)->layout == REMAT_RULE_pointwise;
    if ((!is_random && !follows) || f->root[y.i].i != y.i || !remat_is_none(f->parameters[y.i].i) ||
        f->layouts->made[y.i].kind != REMAT_LAYOUT_WHOLE ||
        !remat_layout_place(shape_of(f, y), layout, f->ranks, &place) ||
        (is_random && !draws_parts(f, y, layout.run)))
        return;
    const struct layout_rule rule = {node, f->layouts->wanted[n.i], &f->layouts->of[y.i]};
    if (is_random || remat_layout_split_along(f, &rule, place.axis, &place))
        f->layouts->of[y.i] = f->layouts->made[y.i] = layout;
}
