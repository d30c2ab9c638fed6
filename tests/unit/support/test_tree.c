/* SPDX-License-Identifier: Apache-2.0 */
/* Post-dominators by a tree of lowest common ancestors, against a search for a way around each
 * item, in random graphs. Item 0 is the exit; an item's readers are before it. */
#include "check.h"
#include "tree.h"

enum { ITEMS_MAX = 40, ROUNDS = 1500 };

struct sample {
    uint32_t count, random;
    uint64_t readers[ITEMS_MAX]; /* by item: a bit for each */
};

static uint32_t draw(struct sample *s, uint32_t below)
{
    s->random = s->random * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)s->random * below) >> 32);
}

static void make_sample(struct sample *s)
{
    bool long_chains = draw(s, 2);
    s->count = 1 + draw(s, ITEMS_MAX);
    for (uint32_t v = 1; v < s->count; v++) {
        s->readers[v] = UINT64_C(1) << (long_chains ? v - 1 : draw(s, v));
        if (draw(s, 3) == 0)
            s->readers[v] |= UINT64_C(1) << draw(s, v);
        if (draw(s, 9) == 0)
            s->readers[v] = 0;
    }
}

/* Whether some way from v to the exit does not pass `without`. */
static bool has_way(const struct sample *s, uint32_t v, uint32_t without)
{
    uint64_t reached = UINT64_C(1) << v;
    for (uint32_t at = v; at > 0; at--)
        if (at != without && reached >> at & 1)
            reached |= s->readers[at];
    return without != 0 && (reached & 1);
}

static void test_sample(struct sample *s, struct remat_arena *arena)
{
    struct remat_tree tree;
    remat_tree_create(arena, s->count, &tree);
    remat_tree_add(&tree, 0);
    for (uint32_t v = 1; v < s->count; v++) {
        for (uint32_t r = 0; r < v; r++)
            if (s->readers[v] >> r & 1 && remat_tree_has(&tree, r))
                tree.parent[v] = remat_tree_common(&tree, tree.parent[v], r);
        uint32_t nearest = UINT32_MAX;
        for (uint32_t p = 0; p < v && has_way(s, v, v + 1); p++)
            if (!has_way(s, v, p))
                nearest = p;
        CHECK(tree.parent[v] == nearest, "item %u of %u: %u, not %u", v, s->count, tree.parent[v],
              nearest);
        if (tree.parent[v] != UINT32_MAX)
            remat_tree_add(&tree, v);
    }
}

static remat_status test_samples(void *user)
{
    struct remat_arena *arena = remat_scratch_open(user);
    struct sample s = {.random = 1};
    for (int round = 0; round < ROUNDS && !checks_failed(); round++) {
        make_sample(&s);
        test_sample(&s, arena);
    }
    remat_scratch_close(arena);
    return REMAT_OK;
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST_OK(ctx, remat_guard(ctx, test_samples, ctx));
    remat_context_destroy(&ctx);
    return check_exit();
}
