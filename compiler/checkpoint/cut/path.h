/* SPDX-License-Identifier: Apache-2.0 */
/* Paths: sequences of choices of what to keep, from the fastest to the smallest, that depend on no
 * budget. A path follows the corners of a border problem's hull. Between two corners it changes one
 * layer after the other, beginning with the first of the forward pass, because what the last
 * layers keep is freed soonest. Several large items of one layer change one by one.
 *
 * Two layers are recomputed together, as a unit, if the value between them is not kept. Every
 * unit_layers-th of these values is kept, whatever the corners say. */
#ifndef REMAT_PATH_H
#define REMAT_PATH_H

#include "border.h"
#include "decision.h"

/* A step changes the items of `layer` in subset `subset` from corner `corner` to the next one. */
struct remat_path_step {
    uint32_t corner;
    remat_layer layer; /* none, which comes first: items of no layer */
    uint32_t subset;
};

struct remat_path_steps {
    struct remat_border_hull hull;
    uint32_t count;
    struct remat_path_step *steps; /* in order */
    const uint8_t *subset;         /* by corner * item_count + item */
};

/* The steps along the hull of `border`, in the arena. `item_layer` is by item, of layer_count
 * layers. */
struct remat_path_steps remat_path_find_steps(struct remat_arena *arena,
                                              const struct remat_border *border,
                                              const remat_layer *item_layer, uint32_t layer_count);

REMAT_INDEX(remat_path_id); /* of a planner's paths */
#define REMAT_NO_PATH ((remat_path_id){REMAT_NONE})

struct remat_path {
    const struct remat_path_steps *steps;
    uint32_t item_count;
    const remat_layer *item_layer;
    uint32_t layer_count;
    const bool *item_between; /* computed in one layer and read in others */
    uint32_t fixed; /* number of last layers that stay as in the first corner; if not 0, so do the
                      items from `tail` on */
    uint32_t tail;  /* the first item after the last layer */
    uint32_t unit_layers; /* most layers that are recomputed together, at least 1 */
    uint32_t first;       /* the path begins before this step */
    const bool *item_far; /* read beyond the next layer: such an input of a unit is kept */
};

/* Number of choices. */
uint32_t remat_path_length(const struct remat_path *path);

/* Number of further choices with two levels. Each drops one more of the units' inputs than the one
 * before, and minimizes the largest number of inputs, saved or kept by reruns, that are live at
 * once. */
uint32_t remat_path_twice_count(const struct remat_path *path);

/* The sum of both. */
static inline uint32_t remat_path_step_count(const struct remat_path *path)
{
    return remat_path_length(path) + remat_path_twice_count(path);
}

/* By layer: whether choice `index` recomputes it twice, but for its outputs: once on the way to an
 * input that was dropped, and once for its own backward pass. */
void remat_path_twice(const struct remat_path *path, uint32_t index, bool *twice);

/* The first choice from `index` on that is a corner of the hull. */
uint32_t remat_path_corner(const struct remat_path *path, uint32_t index);

/* Fills actions[item], RECOMPUTE or a way to keep, for choice `index`, which recomputes the layers
 * `twice` twice. */
void remat_path_choice(const struct remat_path *path, uint32_t index, const bool *twice,
                       uint8_t *actions);

/* Whether the item is an output of a unit of layers, which the next unit reads. */
bool remat_path_ends_unit(const struct remat_path *path, remat_item item);

/* --- neighbours.c: decisions near given ones, independent of any budget --- */

struct remat_neighbours {
    uint32_t item_count, count;
    uint8_t *actions; /* by decision, then by item: enum remat_action */
};

/* All decisions that differ from the given ones in one item, in two and so on, up to `limit`
 * decisions in all. With few items these are all decisions that recompute no item twice.
 * `actions`: by item, bits: those that it may have. `starts`: `start_count` decisions, by item,
 * which come first, each once. No neighbours if those that differ in one item exceed the limit. In
 * the arena. */
struct remat_neighbours remat_neighbours_find(struct remat_arena *arena, uint32_t item_count,
                                              const uint32_t *actions, const uint8_t *starts,
                                              uint32_t start_count, uint32_t limit);

#endif
