/* SPDX-License-Identifier: Apache-2.0 */
#include "path.h"

#include <assert.h>

struct path_builder {
    struct remat_arena *arena;
    const struct remat_border *border;
    struct remat_border_hull hull;
    uint32_t *begin, *items; /* by layer, those in none last */
    uint8_t *subset;
    struct REMAT_LIST(struct remat_path_step) steps;
};

static bool changes(const struct path_builder *b, uint32_t corner, remat_item i)
{
    const struct remat_border_choice *now = &b->hull.points[corner];
    return now->keep[i.i] != now[1].keep[i.i] ||
           (now->keep[i.i] && now->way[i.i] != now[1].way[i.i]);
}

static uint64_t held_bytes(const struct path_builder *b, uint32_t corner, remat_item i)
{
    const struct remat_border_choice *choice = &b->hull.points[corner];
    return choice->keep[i.i] ? remat_border_way(b->border, i, choice->way[i.i]).bytes : 0;
}

/* Half of the largest drop of an item in the layer. No limit if another item grows, which has to
 * happen in the same step. */
static uint64_t large_bytes(const struct path_builder *b, uint32_t corner, remat_layer layer)
{
    uint64_t most = 0;
    for (uint32_t k = b->begin[layer.i]; k < b->begin[layer.i + 1]; k++) {
        remat_item i = {b->items[k]};
        if (!changes(b, corner, i))
            continue;
        uint64_t now = held_bytes(b, corner, i), next = held_bytes(b, corner + 1, i);
        if (b->hull.points[corner + 1].keep[i.i] && next >= now)
            return UINT64_MAX;
        most = now - next > most ? now - next : most;
    }
    return most / 2;
}

/* Begins a subset at each large item, unless it has the task of the one before; small ones join. */
static void add_layer(struct path_builder *b, uint32_t corner, remat_layer layer,
                      uint32_t layer_count)
{
    uint64_t large = large_bytes(b, corner, layer);
    remat_task task = {REMAT_NONE};
    uint32_t subset = 0;
    bool any = false;
    for (uint32_t k = b->begin[layer.i]; k < b->begin[layer.i + 1]; k++) {
        remat_item i = {b->items[k]};
        const struct remat_border_item *item = &b->border->items[i.i];
        if (!changes(b, corner, i))
            continue;
        uint64_t dropped = held_bytes(b, corner, i) - held_bytes(b, corner + 1, i);
        if (large != UINT64_MAX && dropped > large && item->task.i != task.i &&
            subset < UINT8_MAX) {
            subset += task.i != REMAT_NONE;
            task = item->task;
        }
        b->subset[(size_t)corner * b->border->item_count + i.i] = (uint8_t)subset;
        any = true;
    }
    if (layer.i == layer_count)
        layer.i = REMAT_NONE;
    for (uint32_t p = 0; any && p <= subset; p++)
        REMAT_PUSH(b->arena, &b->steps, ((struct remat_path_step){corner, layer, p}));
}

struct remat_path_steps remat_path_find_steps(struct remat_arena *arena,
                                              const struct remat_border *border,
                                              const remat_layer *item_layer, uint32_t layer_count)
{
    struct path_builder b = {
        .arena = arena, .border = border, .hull = remat_border_find_hull(arena, border)};
    uint32_t *layer_of; /* by item; layer_count: in none */
    REMAT_NEW(arena, b.subset, (size_t)b.hull.count * border->item_count);
    REMAT_NEW(arena, layer_of, border->item_count);
    for (uint32_t i = 0; i < border->item_count; i++)
        layer_of[i] = item_layer[i].i < layer_count ? item_layer[i].i : layer_count;
    b.begin = remat_group_by_key(arena, layer_of, border->item_count, layer_count + 1, &b.items);
    for (uint32_t corner = 0; corner + 1 < b.hull.count; corner++) {
        add_layer(&b, corner, (remat_layer){layer_count}, layer_count);
        for (remat_layer layer = {0}; layer.i < layer_count; layer.i++)
            add_layer(&b, corner, layer, layer_count);
    }
    return (struct remat_path_steps){b.hull, (uint32_t)b.steps.count, b.steps.items, b.subset};
}

uint32_t remat_path_length(const struct remat_path *path)
{
    assert(path->first <= path->steps->count);
    return path->steps->count - path->first + 1;
}

uint32_t remat_path_corner(const struct remat_path *path, uint32_t index)
{
    assert(index < remat_path_length(path));
    uint32_t done = path->first + index; /* steps */
    while (done > path->first && done < path->steps->count &&
           path->steps->steps[done].corner == path->steps->steps[done - 1].corner)
        done++;
    return done - path->first;
}

/* Whether the item is already as in the corner after that of the last step made. */
static bool is_changed(const struct remat_path *path, const struct remat_path_step *last,
                       remat_item i)
{
    remat_layer layer = path->item_layer[i.i];
    if (layer.i == last->layer.i)
        return path->steps->subset[(size_t)last->corner * path->item_count + i.i] <= last->subset;
    return layer.i == REMAT_NONE || (last->layer.i != REMAT_NONE && layer.i < last->layer.i);
}

bool remat_path_ends_unit(const struct remat_path *path, remat_item i)
{
    return path->item_between[i.i] && (path->item_layer[i.i].i + 1) % path->unit_layers == 0;
}

static void choose_plain(const struct remat_path *path, uint32_t index, uint8_t *actions)
{
    const struct remat_path_steps *steps = path->steps;
    uint32_t done = path->first + index;
    const struct remat_path_step *last = done > 0 ? &steps->steps[done - 1] : NULL;
    const struct remat_border_choice *first = steps->hull.points;
    const struct remat_border_choice *now = &first[last ? last->corner : 0];
    for (remat_item i = {0}; i.i < path->item_count; i.i++) {
        remat_layer layer = path->item_layer[i.i];
        bool is_fixed = layer.i == REMAT_NONE ? path->fixed > 0 && i.i >= path->tail
                                              : layer.i >= path->layer_count - path->fixed;
        bool next = last && is_changed(path, last, i);
        const struct remat_border_choice *corner = is_fixed ? first : &now[next];
        bool kept = corner->keep[i.i] || remat_path_ends_unit(path, i);
        actions[i.i] = kept ? corner->way[i.i] : REMAT_ACTION_RECOMPUTE;
    }
}

/* --- units of layers that are recomputed twice --- */

/* When the backward pass reaches unit j (from 1) of those whose inputs are saved, the inputs of
 * later units are freed and its own inner inputs are live: j + size - 1 inputs in all. So the
 * first units may be the largest. With at most `most` inputs at once, m units cover the sum of
 * max(1, most - j + 1) layers, as Griewank and Walther's revolve does for two sweeps. */
static uint32_t size_of(uint32_t unit, uint32_t most)
{
    return unit + 1 < most ? most - unit : 1;
}

static uint32_t covered(uint32_t units, uint32_t most)
{
    uint32_t stages = 0;
    for (uint32_t unit = 0; unit < units; unit++)
        stages += size_of(unit, most);
    return stages;
}

/* Chooses `dropped` of `stage_count` consecutive stages (fewer than all, never the last) whose
 * output is not saved: out[stage]. The backward pass recomputes a whole unit once from its saved
 * input, keeping the inner inputs, and then each stage of it when it reaches that stage. */
static void choose_twice(uint32_t stage_count, uint32_t dropped, bool *out)
{
    uint32_t units = stage_count - dropped, most = 1, stage = 0;
    while (covered(units, most) < stage_count)
        most++;
    for (uint32_t unit = 0; unit < units; unit++) {
        uint32_t left = stage_count - stage - (units - unit - 1);
        uint32_t size = size_of(unit, most) < left ? size_of(unit, most) : left;
        for (uint32_t s = 0; s < size; s++)
            out[stage++] = s + 1 < size;
    }
}

static uint32_t unit_count(const struct remat_path *path)
{
    assert(path->unit_layers > 0);
    return (path->layer_count + path->unit_layers - 1) / path->unit_layers;
}

uint32_t remat_path_twice_count(const struct remat_path *path)
{
    return path->fixed || path->layer_count == 0 ? 0 : unit_count(path) - 1;
}

void remat_path_twice(const struct remat_path *path, uint32_t index, bool *twice)
{
    assert(index < remat_path_step_count(path));
    uint32_t last = remat_path_length(path) - 1;
    memset(twice, 0, path->layer_count * sizeof *twice);
    if (index <= last)
        return;
    choose_twice(unit_count(path), index - last, twice);
    for (uint32_t r = path->layer_count; r-- > 0;)
        twice[r] = twice[r / path->unit_layers];
    for (remat_item i = {0}; i.i < path->item_count; i.i++)
        for (uint32_t r = 0;
             path->item_far[i.i] && remat_path_ends_unit(path, i) && r < path->unit_layers; r++)
            twice[path->item_layer[i.i].i - r] = false;
}

void remat_path_choice(const struct remat_path *path, uint32_t index, const bool *twice,
                       uint8_t *actions)
{
    assert(index < remat_path_step_count(path));
    uint32_t last = remat_path_length(path) - 1;
    choose_plain(path, index < last ? index : last, actions);
    for (remat_item i = {0}; i.i < path->item_count; i.i++)
        if (remat_path_ends_unit(path, i) && twice[path->item_layer[i.i].i])
            actions[i.i] = REMAT_ACTION_RECOMPUTE;
}
