/* SPDX-License-Identifier: Apache-2.0 */
#include "rebuild.h"

#include "index.h"
#include "ops.h"

static remat_value find_parameter(const struct remat_graph *graph, const struct remat_index *names,
                                  const char *gradient)
{
    size_t length = strlen(gradient), suffix = strlen(".grad");
    remat_value found = REMAT_NO_VALUE;
    if (length <= suffix || strcmp(gradient + length - suffix, ".grad") != 0)
        return found;
    uint64_t hash = remat_hash(gradient, length - suffix, 0);
    for (size_t at = 0; (found.i = remat_index_find(names, hash, &at)) != REMAT_NONE;) {
        const char *name = graph->values[found.i].name;
        if (strlen(name) == length - suffix && memcmp(name, gradient, length - suffix) == 0)
            break;
    }
    return found;
}

remat_value *remat_gradients_find(struct remat_arena *arena, const struct remat_graph *graph)
{
    struct remat_index names = {0};
    remat_value *out;
    REMAT_NEW(arena, out, graph->value_count);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct remat_value_info *info = &graph->values[v];
        if (info->role == REMAT_ROLE_PARAMETER && remat_is_none(info->node.i))
            remat_index_add(arena, &names, remat_hash_string(info->name, 0), v);
    }
    for (remat_value v = {0}; v.i < graph->value_count; v.i++)
        out[v.i] =
            graph->values[v.i].role == REMAT_ROLE_GRADIENT
                ? find_parameter(graph, &names, graph->values[remat_state_of(graph, v).i].name)
                : REMAT_NO_VALUE;
    return out;
}
