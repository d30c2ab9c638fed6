/* SPDX-License-Identifier: Apache-2.0 */
/* Of constants with equal data the first stands for all: plans have them, and memory, once. */
#include "constant.h"
#include "index.h"
#include "rebuild.h"

static bool is_constant(const struct remat_graph *graph, remat_value v)
{
    return remat_is_none(remat_producer(graph, v).i) && graph->values[v.i].data;
}

/* Graph inputs come first in the new graph: those that stay move up. */
static void merge(struct remat_rebuild *r)
{
    const struct remat_graph *from = r->from;
    struct remat_index index = {0};
    uint32_t count = 0;
    for (remat_value v = {0}; v.i < from->value_count; v.i++) {
        remat_value first = v;
        if (!remat_is_none(remat_producer(from, v).i))
            continue;
        if (is_constant(from, v))
            first = remat_constant_find_or_add(r->arena, from, &index, v);
        r->values[v.i] = first.i == v.i ? (remat_value){count} : r->values[first.i];
        if (first.i == v.i)
            r->to->values[count++] = from->values[v.i];
    }
    r->to->value_count = count;
}

REMAT_PASS(constants)
{
    uint32_t count = 0;
    for (remat_value v = {0}; v.i < graph->value_count; v.i++)
        count += is_constant(graph, v);
    if (count < 2)
        return remat_pass_nothing(graph, out);
    struct remat_rebuild r = remat_rebuild_begin(arena, graph, 1);
    merge(&r);
    for (remat_node n = {0}; n.i < graph->node_count; n.i++)
        remat_rebuild_copy(&r, n);
    *out = remat_rebuild_finish(&r);
    return REMAT_OK;
}
