/* SPDX-License-Identifier: Apache-2.0 */
/* A tree of items, numbered by the caller, that grows from its root, with lowest common ancestors
 * in O(log n) steps, by jump pointers (E. W. Myers, "An applicative random-access stack", 1983).
 * One backward walk from an exit finds post-dominators: the parent of an item is the nearest other
 * item on every path from it to the exit.
 *
 *     remat_tree_create(arena, count, &tree);
 *     remat_tree_add(&tree, exit);                     // without a parent: the root
 *     tree.parent[x] = remat_tree_common(&tree, tree.parent[x], reader);    // of each reader
 *     remat_tree_add(&tree, x); */
#ifndef REMAT_TREE_H
#define REMAT_TREE_H

#include "unwind.h"

#include <assert.h>

struct remat_tree {
    uint32_t *parent; /* by item; UINT32_MAX: none */
    uint32_t *depth;  /* by item */
    uint32_t *jump;   /* by item: an ancestor; UINT32_MAX: not in the tree */
};

static inline void remat_tree_create(struct remat_arena *arena, size_t count,
                                     struct remat_tree *out)
{
    REMAT_NEW(arena, out->parent, count);
    REMAT_NEW(arena, out->depth, count);
    REMAT_NEW(arena, out->jump, count);
    memset(out->parent, 0xff, count * sizeof *out->parent);
    memset(out->jump, 0xff, count * sizeof *out->jump);
}

static inline bool remat_tree_has(const struct remat_tree *t, uint32_t item)
{
    return t->jump[item] != UINT32_MAX;
}

/* Adds an item whose parent, if any, is in the tree. */
static inline void remat_tree_add(struct remat_tree *t, uint32_t item)
{
    assert(!remat_tree_has(t, item));
    assert(t->parent[item] == UINT32_MAX || remat_tree_has(t, t->parent[item]));
    uint32_t parent = t->parent[item];
    t->jump[item] = item;
    if (parent == UINT32_MAX)
        return;
    uint32_t far = t->jump[parent];
    bool even = t->depth[parent] - t->depth[far] == t->depth[far] - t->depth[t->jump[far]];
    t->depth[item] = t->depth[parent] + 1;
    t->jump[item] = even ? t->jump[far] : parent;
}

/* The lowest common ancestor of two items in the tree; b if `a` is UINT32_MAX. */
static inline uint32_t remat_tree_common(const struct remat_tree *t, uint32_t a, uint32_t b)
{
    assert(remat_tree_has(t, b) && (a == UINT32_MAX || remat_tree_has(t, a)));
    if (a == UINT32_MAX)
        return b;
    if (t->depth[a] < t->depth[b])
        return remat_tree_common(t, b, a);
    while (t->depth[a] > t->depth[b])
        a = t->depth[t->jump[a]] >= t->depth[b] ? t->jump[a] : t->parent[a];
    while (a != b) {
        bool far = t->jump[a] != t->jump[b];
        a = far ? t->jump[a] : t->parent[a];
        b = far ? t->jump[b] : t->parent[b];
    }
    return a;
}

#endif
