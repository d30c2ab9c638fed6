/* SPDX-License-Identifier: Apache-2.0 */
/* A sequence of choices of what to keep, from the fastest to the smallest, that does not depend on
 * any budget: along the corners of a border problem's hull, and between two corners one region
 * after the other, the first of the forward pass first, since what the last ones keep is used up
 * soonest. Where a region changes several large items, these change one after the other.
 *
 * A value between two regions that is dropped makes them one group, which is recomputed at
 * once: of such values every group-th one is kept, whatever the corners say. */
#ifndef REMAT_PATH_H
#define REMAT_PATH_H

#include "border.h"
#include "decision.h"

/* Steps between corners: step s changes the items of `region` whose part is `part` from what
 * corner `corner` has to what the next one has. */
struct remat_path_step {
    uint32_t corner;
    remat_region region; /* none, which comes first: items of no region */
    uint32_t part;
};

struct remat_path_steps {
    struct remat_border_hull hull; /* whose corners they are */
    uint32_t count;
    struct remat_path_step *steps; /* in order */
    const uint8_t *part;           /* by corner * item_count + item */
};

/* Along the hull of `border`. `item_region` is by item, of region_count regions. The result lies in
 * the arena. */
struct remat_path_steps remat_path_find_steps(struct remat_arena *arena,
                                              const struct remat_border *border,
                                              const remat_region *item_region,
                                              uint32_t region_count);

REMAT_INDEX(remat_path_id); /* of a planner's paths */
#define REMAT_NO_PATH ((remat_path_id){REMAT_NONE})

struct remat_path {
    const struct remat_path_steps *steps;
    uint32_t item_count;
    const remat_region *item_region;
    uint32_t region_count;
    const bool *item_between; /* what one region computes and others read */
    uint32_t held; /* so many of the last regions stay as the first corner has them; if any do, what
                      comes behind as well */
    uint32_t tail; /* items from here on come behind the last region */
    uint32_t group;       /* at most so many regions are recomputed at once, at least 1 */
    uint32_t first;       /* the step that the path begins before */
    const bool *item_far; /* read by more than the next region: no group's input is dropped there */
};

/* Number of choices. */
uint32_t remat_path_length(const struct remat_path *path);

/* Number of choices behind the last one: as that, with one more of the groups' inputs dropped each
 * time: such that the most groups' inputs at once, saved or kept by the rerun, are fewest. */
uint32_t remat_path_twice_count(const struct remat_path *path);

/* Both together. */
static inline uint32_t remat_path_step_count(const struct remat_path *path)
{
    return remat_path_length(path) + remat_path_twice_count(path);
}

/* Which regions choice `index` has passed through on the way to an input that is dropped: what such
 * a region computes, but for what it hands on, is recomputed twice. By region. */
void remat_path_twice(const struct remat_path *path, uint32_t index, bool *twice);

/* The first choice from `index` on that is a corner of the hull. */
uint32_t remat_path_corner(const struct remat_path *path, uint32_t index);

/* actions[item], RECOMPUTE or of a way to keep, of choice `index`, which recomputes these regions
 * twice. */
void remat_path_choice(const struct remat_path *path, uint32_t index, const bool *twice,
                       uint8_t *actions);

/* Whether the item is an output of a group of regions, which the next group reads. */
bool remat_path_ends_group(const struct remat_path *path, remat_item item);

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
