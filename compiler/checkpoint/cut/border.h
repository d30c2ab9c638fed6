/* SPDX-License-Identifier: Apache-2.0 */
/* The border problem: which values to keep between the forward and the backward pass.
 *
 * Items are the values that the forward pass can keep. An item that is not kept but wanted later is
 * recomputed by its task, from items that are kept or recomputed themselves. Costs are relative to
 * keeping everything and may be negative: a value recomputed inside the kernel that reads it is
 * neither written nor read.
 *
 * Minimum over choices of cost + price * kept bytes is a minimum cut for every price per byte (a
 * closure problem); over all prices the cuts give the lower convex hull of (kept bytes, cost).
 * Argument and source: docs/planning.md. */
#ifndef REMAT_BORDER_H
#define REMAT_BORDER_H

#include "deadline.h"
#include "unwind.h"
#include "work.h"

REMAT_INDEX(remat_item); /* of a border problem */
REMAT_INDEX(remat_task);
REMAT_INDEX(remat_layer); /* of the forward pass, in its order: what items belong to */

struct remat_border_item {
    uint64_t bytes;              /* kept in place, for no time */
    uint32_t way_begin, way_end; /* of border.ways: to keep it otherwise */
    remat_task task;             /* that recomputes it */
    bool wanted;                 /* read after the border */
    bool kept;                   /* must be kept */
    bool recomputed;             /* must not be kept */
};

struct remat_border_way {
    uint64_t bytes;
    int64_t ps, put_ps; /* to put it away and get it back; the former alone */
    uint8_t action;     /* what choices call it; 0: in place */
};

struct remat_border_task {
    int64_t cost_ps;                 /* of its run; below zero: it spares more */
    int64_t again_ps;                /* of a second run */
    uint32_t input_begin, input_end; /* of border.inputs: items it needs */
};

REMAT_INDEX(remat_border_node);

/* Nodes of the problem: items, which are available or not, then tasks, which run or not, then
 * charges, each due or not. An arc costs ps where `from` holds and `to` does not;
 * REMAT_BORDER_RULE forbids that. Rules lead to charges alone, and those that lead to one come
 * before those that start from it. */
enum { REMAT_BORDER_RULE = -1 };
struct remat_border_arc {
    remat_border_node from, to;
    int64_t ps; /* REMAT_BORDER_RULE: none may have `from` without `to` */
};

/* The kinds of all costs, and the weights by which choices are compared. */
struct remat_border_work {
    const uint8_t *task, *charge, *arc, *put, *get; /* put, get: by way */
    int64_t constant_ps[REMAT_WORK_KINDS];          /* of every choice */
    struct remat_weights weights;
};

struct remat_border {
    uint32_t item_count, task_count, charge_count, arc_count, way_count;
    struct remat_border_item *items;
    const struct remat_border_way *ways;
    struct remat_border_task *tasks;
    const remat_item *inputs;
    int64_t *charge_ps; /* by charge: not below zero */
    struct remat_border_arc *arcs;
    int64_t constant_ps; /* of every choice */
    /* NULL: one stream does all work, so costs just add up. */
    const struct remat_border_work *work;
};

static inline remat_border_node remat_border_item_node(remat_item item)
{
    return (remat_border_node){item.i};
}
static inline remat_border_node remat_border_task_node(const struct remat_border *border,
                                                       remat_task task)
{
    return (remat_border_node){border->item_count + task.i};
}
static inline remat_border_node remat_border_charge_node(const struct remat_border *border,
                                                         uint32_t charge)
{
    return (remat_border_node){border->item_count + border->task_count + charge};
}

/* A choice. `run` says it all: an item is kept when it is available and its task does not run. */
struct remat_border_choice {
    bool *run;       /* by task */
    bool *again;     /* by task: it runs twice; NULL: none does */
    bool *keep;      /* by item */
    uint8_t *way;    /* by item: the action of a way of its own, if it is kept; any other: in place;
                        NULL: all are */
    int64_t cost_ps; /* beyond keeping everything; weighed where the border has kinds of work */
    int64_t work_ps[REMAT_WORK_KINDS]; /* the same by kind, not weighed; without kinds: of kind 0 */
    uint64_t bytes;                    /* of what is kept */
};

/* More than any choice costs, second runs included, or spares. */
double remat_border_most_ps(const struct remat_border *border);

/* The item's way of that action; of any other: in place. */
struct remat_border_way remat_border_way(const struct remat_border *border, remat_item item,
                                         uint8_t action);

/* The cost of the choice `run`, `again` and `way`, and what it keeps: items wanted, or needed by a
 * running task, whose own task does not run. Fills cost_ps, work_ps, bytes and keep of *choice. */
void remat_border_measure(struct remat_arena *arena, const struct remat_border *border,
                          struct remat_border_choice *choice);

/* A network for many cuts. Belongs to one thread; memory is the arena's. */
struct remat_border_network;
struct remat_border_network *remat_border_network(struct remat_arena *arena,
                                                  const struct remat_border *border);

/* Sets the weights of the cuts that follow; NULL: the border's own, as at first. */
void remat_border_weigh(struct remat_border_network *network, const struct remat_weights *weights);

/* The best choice at a price in ps per byte (finite, from 0 on): no choice at all has cost + price
 * * bytes below least_ps; every rounding is downwards. */
struct remat_border_cut {
    double price, least_ps;
    struct remat_weights weights;
    struct remat_border_choice choice; /* its arrays are the network's */
};
/* Asked again, the network returns what it found. */
struct remat_border_cut remat_border_cut(struct remat_border_network *network, double price);

/* The fewest bytes that any choice keeps. */
uint64_t remat_border_least_bytes(struct remat_border_network *network);

struct remat_border_hull {
    uint32_t count;
    struct remat_border_choice *points; /* bytes descend, costs ascend */
};

/* The corners of the lower convex hull, from the cheapest choice to the one that keeps least; in
 * `arena`. */
struct remat_border_hull remat_border_find_hull(struct remat_arena *arena,
                                                const struct remat_border *border);

/* The price at which two choices come to the same: of a hull, one corner and the next. */
double remat_border_price_between(const struct remat_border_choice *from,
                                  const struct remat_border_choice *to);

/* A lower bound of cost_ps over every choice that keeps at most `bytes`, by Newton's method on the
 * price: never more than the least cost of such a choice. The search ends where it could not come
 * to more than enough_ps. After the deadline, which may be NULL, the bound is a smaller one, and
 * the points mean nothing. */
struct remat_border_bracket {
    double least_ps;
    struct remat_border_choice above, below; /* the cheapest found that keep more, and at most
                                               `bytes`; the same where nothing keeps more */
    uint64_t steps;                          /* of all flows of the network so far */
};
struct remat_border_bracket remat_border_bracket(struct remat_border_network *network,
                                                 uint64_t bytes, double enough_ps,
                                                 struct remat_deadline *deadline);
static inline double remat_border_bound(struct remat_border_network *network, uint64_t bytes,
                                        double enough_ps)
{
    return remat_border_bracket(network, bytes, enough_ps, NULL).least_ps;
}

/* branch.c: the same bound, the least over cases that tell which items are kept, of which there are
 * at most leaves_max and some. It ends at enough_ps. The border has neither ways nor kinds of work.
 */
double remat_border_branch(struct remat_arena *arena, const struct remat_border *border,
                           uint64_t bytes, double enough_ps, uint32_t leaves_max,
                           struct remat_deadline *deadline);

/* The least cost that the cut proves of every choice that keeps at most `bytes`. */
static inline double remat_border_proven(const struct remat_border_cut *cut, uint64_t bytes)
{
    return cut->least_ps - cut->price * (double)bytes;
}

/* climb.c: the cut that proves most, of those that a search for weights and price finds. `price`:
 * the search is for weights alone, at this price, and `bytes` is 0; NAN: for both. It ends where it
 * could not come to more than enough_ps. The network has the border's own weights, before and
 * after, and the border has kinds of work. */
struct remat_border_cut remat_border_climb(struct remat_border_network *network, uint64_t bytes,
                                           double price, double enough_ps);

/* The cuts found so far. */
struct remat_border_cuts {
    size_t count;
    const struct remat_border_cut *items;
};
struct remat_border_cuts remat_border_cuts(const struct remat_border_network *network);

/* The cut that gives the highest bound for `bytes`, of those that the network has found so far, at
 * least one. */
struct remat_border_cut remat_border_binding_cut(const struct remat_border_network *network,
                                                 uint64_t bytes);

/* --- marginal.c: the effect on a choice of one item less, or one more --- */

/* The tasks that run if each item is recomputed at most times[item] times, up to 2; 0: it is saved.
 * Wanted items are recomputed in the last round that they have, and the inputs of a running task in
 * its round, or else in the last one before that they have. Sets `run` and `again`, in the arena.
 */
struct remat_border_choice remat_border_follow(struct remat_arena *arena,
                                               const struct remat_border *border,
                                               const uint8_t *times);

/* extra_ps[item]: the cost of the choice with this item recomputed otherwise[item] times less its
 * cost with the item saved, all others as in `times`. Negative if saving takes longer; 0 if the
 * item's task runs in both cases or in neither. Takes time in proportion to the tasks that each
 * change starts or stops. */
void remat_border_marginals(struct remat_arena *arena, const struct remat_border *border,
                            const uint8_t *times, const uint8_t *otherwise, int64_t *extra_ps);

#endif
