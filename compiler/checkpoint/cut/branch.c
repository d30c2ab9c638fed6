/* SPDX-License-Identifier: Apache-2.0 */
/* A price per byte lets a bound keep part of a value; values are kept whole. So the choices are
 * split by whether a value is kept, each part is bounded by a cut of its own, and the part of the
 * least bound is split again. */
#include "border.h"

#include "heap.h"
#include "program.h" /* REMAT_NONE */

#include <assert.h>
#include <math.h>

struct leaf {
    double least_ps;
    const struct leaf *parent; /* it was made from, by fixing `item`; NULL for the root */
    remat_item item;
    bool kept;         /* what the item is fixed as */
    remat_item branch; /* to fix next; none: the bound is final */
};

static bool comes_before(struct leaf *const *a, struct leaf *const *b)
{
    return (*a)->least_ps < (*b)->least_ps;
}
REMAT_HEAP(leaf_queue, struct leaf *, comes_before);

struct tree {
    const struct remat_border *open; /* with nothing fixed */
    struct remat_border fixed;       /* with all that is fixed on the way to a leaf */
    uint64_t room_bytes;
    struct remat_arena *arena, *network; /* of leaves; of one cut */
    struct remat_deadline *deadline;
    struct leaf_queue queue;
    uint32_t count; /* of leaves so far */
};

/* The largest item that the two choices beside the room disagree about. */
static remat_item choose_branch(const struct tree *t, const struct remat_border_bracket *found)
{
    remat_item best = {REMAT_NONE};
    for (remat_item i = {0}; i.i < t->open->item_count; i.i++)
        if (found->above.keep[i.i] && !found->below.keep[i.i] && t->fixed.items[i.i].bytes &&
            (best.i == REMAT_NONE || t->fixed.items[i.i].bytes > t->fixed.items[best.i].bytes))
            best = i;
    return best;
}

/* A kept item takes its bytes out of the room, and none else. */
static void grow(struct tree *t, struct leaf leaf)
{
    uint64_t room_bytes = t->room_bytes;
    t->count++;
    memcpy(t->fixed.items, t->open->items, t->open->item_count * sizeof *t->open->items);
    for (const struct leaf *l = &leaf; l->parent; l = l->parent) {
        struct remat_border_item *item = &t->fixed.items[l->item.i];
        item->recomputed |= !l->kept;
        if (!l->kept)
            continue;
        if (item->bytes > room_bytes)
            return; /* nothing of that kind fits */
        room_bytes -= item->bytes;
        item->bytes = 0;
    }
    remat_arena_reset(t->network);
    remat_deadline_count(t->deadline, t->open->item_count + t->open->arc_count);
    struct remat_border_bracket found = remat_border_bracket(
        remat_border_network(t->network, &t->fixed), room_bytes, -INFINITY, t->deadline);
    leaf.least_ps = fmax(leaf.least_ps, found.least_ps);
    leaf.branch = choose_branch(t, &found);
    leaf_queue_push(t->arena, &t->queue, remat_copy(t->arena, &leaf, 1, sizeof leaf));
}

double remat_border_branch(struct remat_arena *arena, const struct remat_border *border,
                           uint64_t bytes, double enough_ps, uint32_t leaves_max,
                           struct remat_deadline *deadline)
{
    assert(!border->way_count && !border->work);
    struct tree t = {.open = border,
                     .fixed = *border,
                     .room_bytes = bytes,
                     .arena = remat_scratch_open(arena->ctx),
                     .network = remat_scratch_open(arena->ctx),
                     .deadline = deadline};
    double least_ps = -INFINITY;
    t.fixed.items = remat_copy(t.arena, border->items, border->item_count, sizeof *border->items);
    grow(&t, (struct leaf){.least_ps = -INFINITY});
    while (t.queue.count) {
        const struct leaf *leaf = leaf_queue_take(&t.queue, 0);
        least_ps = leaf->least_ps;
        if (leaf->branch.i == REMAT_NONE || t.count > leaves_max || least_ps >= enough_ps ||
            remat_deadline_expired(deadline))
            break;
        struct leaf child = {
            .least_ps = leaf->least_ps, .parent = leaf, .item = leaf->branch, .kept = true};
        grow(&t, child);
        child.kept = false;
        grow(&t, child);
    }
    remat_scratch_close(t.network);
    remat_scratch_close(t.arena);
    return least_ps;
}
