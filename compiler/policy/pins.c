/* SPDX-License-Identifier: Apache-2.0 */
#include "pins.h"

#include <fnmatch.h>

/* A scope matches by its path or by that of a scope around it: "h.3" takes "h.3/attn/core" too. */
static bool scope_matches(const char *glob, const char *path)
{
    char prefix[512];
    if (fnmatch(glob, path, 0) == 0)
        return true;
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        size_t length = (size_t)(slash - path);
        if (length >= sizeof prefix)
            return false;
        memcpy(prefix, path, length);
        prefix[length] = 0;
        if (fnmatch(glob, prefix, 0) == 0)
            return true;
    }
    return false;
}

/* A name reaches through views to the bytes; a scope only holds what is computed in it. */
static void match_pin(struct remat_arena *arena, const struct remat_graph *graph,
                      const struct remat_facts *facts, uint32_t index, struct remat_pins *pins)
{
    struct remat_pin_match *match = &pins->matches[index];
    bool *scopes, save = strcmp(match->setting, "--save") == 0;
    REMAT_NEW(arena, scopes, graph->scope_count);
    for (uint32_t s = 0; s < graph->scope_count; s++)
        scopes[s] = scope_matches(match->glob, graph->scopes[s].path);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const struct remat_value_info *value = &graph->values[v];
        bool by_name = fnmatch(match->glob, value->name, 0) == 0;
        bool by_scope = value->node != REMAT_NONE && scopes[graph->nodes[value->node].scope];
        if (!by_name && !by_scope)
            continue;
        uint32_t target = by_name ? facts->root[v] : v;
        match->matched++;
        if ((save ? facts->forward : facts->recomputable)[target]) {
            match->applied++;
            (save ? pins->save : pins->recompute)[target] = index;
        } else if (match->example == REMAT_NONE) {
            match->example = v;
        }
    }
}

void remat_pins_match(struct remat_arena *arena, const struct remat_graph *graph,
                      const struct remat_facts *facts, const struct remat_policy_settings *settings,
                      struct remat_pins *out)
{
    out->match_count = settings->save_count + settings->recompute_count;
    REMAT_NEW(arena, out->matches, out->match_count);
    REMAT_NEW(arena, out->save, graph->value_count);
    REMAT_NEW(arena, out->recompute, graph->value_count);
    for (uint32_t v = 0; v < graph->value_count; v++)
        out->save[v] = out->recompute[v] = REMAT_NONE;
    for (uint32_t i = 0; i < out->match_count; i++) {
        bool save = i < settings->save_count;
        const char *glob = save ? settings->save[i] : settings->recompute[i - settings->save_count];
        out->matches[i] = (struct remat_pin_match){
            .setting = save ? "--save" : "--recompute", .glob = glob, .example = REMAT_NONE};
        match_pin(arena, graph, facts, i, out);
    }
}
