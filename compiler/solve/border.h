/* What to keep at the border between forward and backward pass.
 *
 * Items are the values that the forward pass can leave behind; whatever is not kept and is wanted
 * later is computed again by its task, from items that are kept or computed again themselves. Costs
 * are what a choice takes beyond keeping everything, so they may be negative: a value that is made
 * inside the kernel that reads it is neither written nor read.
 *
 * Minimum over choices of cost + price * kept bytes is a minimum cut for every price per byte (a
 * closure problem); over all prices the cuts give the lower convex hull of (kept bytes, cost).
 * Argument and source: docs/planning.md. */
#ifndef REMAT_BORDER_H
#define REMAT_BORDER_H

#include "base.h"

struct remat_border_item {
    uint64_t bytes;
    uint32_t task;   /* that computes it again */
    bool wanted;     /* something after the border reads it */
    bool kept;       /* must be kept */
    bool recomputed; /* must not be kept */
};

/* Reading an item costs its read_ps once, however many tasks do. When it is computed again that is
 * the least that a task which reads it pays, whether that one runs or not. */
struct remat_border_read {
    uint32_t item;
    enum remat_border_reading {
        REMAT_READ_UNLESS_FUSED, /* free when the item is computed again, in the same kernel */
        REMAT_READ_SOURCE,       /* then what the item is made from is read: source_ps */
        REMAT_READ_ALWAYS,
    } reading;
};

struct remat_border_task {
    int64_t cost_ps;      /* beside its reads */
    int64_t again_ps;     /* of a second run, probably */
    int64_t launch_ps;    /* of a kernel of its own, unless item launch_with is computed again */
    uint32_t launch_with; /* REMAT_NONE: of its own in any case */
    bool forbidden;
    uint32_t input_begin, input_end; /* of border.inputs: items it needs */
    uint32_t read_begin, read_end;   /* of border.reads */
};

struct remat_border {
    uint32_t item_count, task_count;
    struct remat_border_item *items;
    int64_t *read_ps;   /* by item: of reading it once */
    int64_t *source_ps; /* by item: at most read_ps */
    struct remat_border_task *tasks;
    uint32_t *inputs;
    struct remat_border_read *reads;
    bool *loose; /* by input: the task can do without; NULL: all are needed */
};

static inline bool remat_border_needs(const struct remat_border *border, uint32_t input)
{
    return !border->loose || !border->loose[input];
}

/* A choice. `run` says it all: an item is kept when it is available and its task does not run. */
struct remat_border_point {
    bool *run;       /* by task */
    bool *again;     /* by task: it runs twice; NULL: none does */
    bool *keep;      /* by item */
    int64_t cost_ps; /* beyond keeping everything */
    uint64_t bytes;  /* of what is kept */
};

/* What the choice `run` costs and keeps: items wanted, or needed by a running task, whose own task
 * does not run. Fills cost_ps, bytes and keep of *point. */
remat_status remat_border_measure(struct remat_arena *arena, const struct remat_border *border,
                                  struct remat_border_point *point);

/* A network for many cuts. Belongs to one thread; memory is the arena's. */
struct remat_border_network;
remat_status remat_border_network(struct remat_arena *arena, const struct remat_border *border,
                                  struct remat_border_network **out);

/* The best choice at a price in ps per byte (finite, from 0 on). *least_ps: no choice at all has
 * cost + price * bytes below this; every rounding is downwards. Asked again, the network returns
 * what it found; *point's arrays are the network's. */
remat_status remat_border_cut(struct remat_border_network *network, double price,
                              struct remat_border_point *point, double *least_ps);

/* The fewest bytes that any choice keeps. */
remat_status remat_border_least_bytes(struct remat_border_network *network, uint64_t *out);

struct remat_border_hull {
    uint32_t count;
    struct remat_border_point *points; /* bytes descend, costs ascend */
};

/* The corners of the lower convex hull, from the cheapest choice to the one that keeps least. */
remat_status remat_border_find_hull(struct remat_border_network *network,
                                    struct remat_border_hull *out);

/* A lower bound of cost_ps over every choice that keeps at most `bytes`, by Newton's method on the
 * price: never more than the least cost of such a choice. The search ends where it could not come
 * to more than enough_ps. */
remat_status remat_border_bound(struct remat_border_network *network, uint64_t bytes,
                                double enough_ps, double *out_ps);

#endif
