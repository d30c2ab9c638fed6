#include "extract_layers.h"

remat_status remat_layers_number(struct remat_arena *arena, const struct remat_graph *g,
                                 uint32_t **out_region_of_scope, uint32_t *region_count)
{
    remat_status st = REMAT_OK;
    struct {
        uint32_t *items;
        size_t count, capacity;
    } found = {0}; /* a scope of each region */
    uint32_t *region_of_scope;
    REMAT_NEW(arena, region_of_scope, g->scope_count);
    for (uint32_t s = 0; s < g->scope_count; s++)
        region_of_scope[s] = REMAT_NONE;
    for (uint32_t n = 0; n < g->node_count; n++) {
        uint32_t s = g->nodes[n].scope;
        const struct remat_scope *scope = &g->scopes[s];
        if (scope->layer < 0 || !remat_is_none(region_of_scope[s]))
            continue;
        for (size_t r = found.count; r-- > 0 && remat_is_none(region_of_scope[s]);) {
            const struct remat_scope *other = &g->scopes[found.items[r]];
            if (other->layer == scope->layer && strcmp(other->stack, scope->stack) == 0)
                region_of_scope[s] = (uint32_t)r;
        }
        if (remat_is_none(region_of_scope[s])) {
            region_of_scope[s] = (uint32_t)found.count;
            REMAT_PUSH(arena, &found, s);
        }
    }
    *region_count = (uint32_t)found.count;
    *out_region_of_scope = region_of_scope;
fail:
    return st;
}

static bool is_early(const struct remat_node_info *node)
{
    return node->phase == REMAT_PHASE_FORWARD || node->phase == REMAT_PHASE_LOSS;
}

/* By root: a layer computes it, or something that it is made of. */
static remat_status find_made(struct remat_arena *arena, const struct remat_graph *g,
                              const struct remat_facts *facts, const uint32_t *region_of_scope,
                              bool **out)
{
    remat_status st = REMAT_OK;
    REMAT_NEW(arena, *out, g->value_count);
    for (uint32_t n = 0; n < g->node_count; n++) {
        const struct remat_node_info *node = &g->nodes[n];
        bool made = !remat_is_none(region_of_scope[node->scope]);
        for (uint32_t i = 0; i < node->input_count; i++)
            made |= (*out)[facts->root[node->inputs[i].i]];
        for (uint32_t o = 0; o < node->output_count; o++)
            (*out)[facts->root[node->outputs[o].i]] |= made;
    }
fail:
    return st;
}

remat_status remat_layers_crossings(struct remat_arena *arena, const struct remat_graph *g,
                                    const struct remat_facts *facts,
                                    const uint32_t *region_of_scope, uint8_t **out)
{
    remat_status st = REMAT_OK;
    bool *made;
    REMAT_NEW(arena, *out, g->value_count);
    REMAT_TRY(find_made(arena, g, facts, region_of_scope, &made));
    for (uint32_t n = 0; n < g->node_count; n++)
        for (uint32_t i = 0; is_early(&g->nodes[n]) && i < g->nodes[n].input_count; i++) {
            uint32_t root = facts->root[g->nodes[n].inputs[i].i], from = g->values[root].node;
            if (!made[root] || remat_is_none(from))
                continue;
            uint32_t writer = region_of_scope[g->nodes[from].scope];
            uint32_t reader = region_of_scope[g->nodes[n].scope];
            bool beyond = remat_is_none(writer) || remat_is_none(reader);
            uint8_t crossing = beyond ? REMAT_CROSSING_BEYOND : REMAT_CROSSING_BETWEEN;
            if (writer != reader && crossing > (*out)[root])
                (*out)[root] = crossing;
        }
fail:
    return st;
}
