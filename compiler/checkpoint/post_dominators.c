/* SPDX-License-Identifier: Apache-2.0 */
/* From the last node to the first: when a node's turn comes, all its readers are in the tree, and
 * its next is their lowest common ancestor. Jump pointers find that in O(log n) steps (E. W. Myers,
 * "An applicative random-access stack", 1983). */
#include "post_dominators.h"

#include "ops.h"

/* Views read nothing. */
static uint32_t find_exit(const struct remat_graph *g)
{
    uint32_t last = REMAT_NONE;
    for (uint32_t n = 0; n < g->node_count; n++)
        for (uint32_t i = 0; !remat_is_early(g->nodes[n].phase) && i < g->nodes[n].input_count;
             i++) {
            uint32_t from = g->values[remat_storage_root(g, g->nodes[n].inputs[i]).i].node;
            if (!remat_is_none(from) && remat_is_early(g->nodes[from].phase) &&
                (remat_is_none(last) || from > last))
                last = from;
        }
    return remat_is_none(last) ? REMAT_NONE : g->nodes[last].outputs[0].i;
}

/* Its next is known. */
static void place(struct remat_post_dominators *t, uint32_t v)
{
    uint32_t next = t->next[v], far = t->jump[next];
    bool even = t->depth[next] - t->depth[far] == t->depth[far] - t->depth[t->jump[far]];
    t->depth[v] = t->depth[next] + 1;
    t->jump[v] = even ? t->jump[far] : next;
}

static uint32_t common(const struct remat_post_dominators *t, uint32_t a, uint32_t b)
{
    if (t->depth[a] < t->depth[b])
        return common(t, b, a);
    while (t->depth[a] > t->depth[b])
        a = t->depth[t->jump[a]] >= t->depth[b] ? t->jump[a] : t->next[a];
    while (a != b) {
        bool far = t->jump[a] != t->jump[b];
        a = far ? t->jump[a] : t->next[a];
        b = far ? t->jump[b] : t->next[b];
    }
    return a;
}

void remat_post_dominators_find(struct remat_arena *arena, const struct remat_graph *g,
                                struct remat_post_dominators *out)
{
    REMAT_NEW(arena, out->next, g->value_count);
    REMAT_NEW(arena, out->depth, g->value_count);
    REMAT_NEW(arena, out->jump, g->value_count);
    memset(out->next, 0xff, g->value_count * sizeof *out->next);
    out->exit = find_exit(g);
    if (remat_is_none(out->exit))
        return;
    out->jump[out->exit] = out->exit;
    for (uint32_t n = g->values[out->exit].node + 1; n-- > 0;) {
        const struct remat_node_info *node = &g->nodes[n];
        uint32_t v = node->outputs[0].i;
        if (!remat_is_early(node->phase) || (v != out->exit && remat_is_none(out->next[v])))
            continue;
        if (v != out->exit)
            place(out, v);
        for (uint32_t i = 0; i < node->input_count; i++) {
            uint32_t *next = &out->next[remat_representative(g, node->inputs[i].i)];
            *next = remat_is_none(*next) ? v : common(out, *next, v);
        }
    }
}
