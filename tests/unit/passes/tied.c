/* SPDX-License-Identifier: Apache-2.0 */
#include "tied.h"

void build_tied(struct workbench *w)
{
    remat_value ids = workbench_input(w, "ids", "i2,3<7");
    remat_value table = workbench_input(w, "wte", "7,4");
    remat_value weight = workbench_input(w, "w", "4,12"), bias = workbench_input(w, "b", "12");
    remat_value h = workbench_node(w, "embedding", (remat_value[]){table, ids}, 2, "", NULL);
    w->b.scope = remat_graph_scope(&w->arena, w->graph, "layers.0");
    w->b.name = "qkv";
    remat_value qkv = workbench_node(w, "linear", (remat_value[]){h, weight, bias}, 3, "", NULL);
    remat_value heads[3];
    for (int k = 0; k < 3; k++) {
        const char *range =
            remat_arena_format(&w->arena, "axis=2 begin=%d end=%d", 4 * k, 4 * k + 4);
        heads[k] = workbench_node(w, "slice", &qkv, 1, range, NULL);
        heads[k] = workbench_node(w, "reshape", &heads[k], 1, "shape=2,3,2,2", NULL);
    }
    remat_value a = workbench_node(w, "attention", heads, 3, "scale=0.7 causal=1", NULL);
    a = workbench_node(w, "reshape", &a, 1, "shape=2,3,4", NULL);
    h = workbench_node(w, "add", (remat_value[]){h, a}, 2, "", NULL);
    w->b.scope = REMAT_TOP;
    h = workbench_node(w, "linear", (remat_value[]){h, table}, 2, "transpose_weight=1", NULL);
    workbench_output(w, workbench_node(w, "cross_entropy", (remat_value[]){h, ids}, 2, "", NULL));
    w->graph->optimizer =
        (struct remat_optimizer){REMAT_OPTIMIZER_ADAMW, {{0.9, 0.95, 1e-8, 0.1, 0}}, false, false};
}

uint32_t node_of(const struct remat_graph *graph, const char *value)
{
    remat_value v = workbench_find(graph, value);
    return remat_is_none(v.i) ? REMAT_NONE : graph->values[v.i].node.i;
}
