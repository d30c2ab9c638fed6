/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions come from two hulls of the problem (closure.h). One saves every value that one layer
 * writes and another reads, so that a layer is recomputed from its input. The other leaves such
 * values free, and its paths save those that are inputs of units of layers. Bounds come from the
 * same problem at several program points. */
#include "planner.h"

#include "amounts.h"
#include "overlap.h"

#include <math.h>
#include <stdlib.h>

enum {
    FIXED_MAX = 1,            /* further paths leave so many of the last layers as they are */
    NODES_NEAR = 1000000,     /* graph nodes times decisions near corners */
    NODES_IN_UNITS = 4000000, /* graph nodes times sizes of units that grow by one layer */
    PRICES = 4,               /* at which weights of streams are looked for */
    LEAVES_FEW = 50,          /* cases of a bound */
    LEAVES_MAX = 1000,
};

#define LEAVES_WORK 2e7 /* a case takes about the square of the problem's size */

#define CLOSE_WEIGHTS 0.125 /* that decisions are not proposed for twice */

/* The first step of the hull of units that drops a value between layers. */
static uint32_t find_first_of_units(const struct remat_planner *p, struct remat_arena *arena,
                                    const bool *between)
{
    const struct remat_border_choice *points = p->units.hull.points;
    const struct remat_path_step *steps = p->units.steps;
    uint32_t step = 0, *first; /* by layer: the last corner at which it drops none */
    REMAT_NEW(arena, first, p->model.layer_count);
    memset(first, 0xff, p->model.layer_count * sizeof *first);
    for (uint32_t c = p->units.hull.count; c-- > 1;)
        for (uint32_t i = 0; i < p->model.item_count; i++)
            if (between[i] && points[c - 1].keep[i] && !points[c].keep[i])
                first[p->model.item_layer[i].i] = c - 1;
    while (step < p->units.count &&
           (remat_is_none(steps[step].layer.i) || first[steps[step].layer.i] != steps[step].corner))
        step++;
    return step;
}

/* Steps along the hull of the problem with these items saved. A value that is live at the first
 * kernel of the loss in any case costs no bytes. `weights`: of the streams; NULL: as if one
 * did all work. */
static struct remat_path_steps find_steps(const struct remat_planner *p, struct remat_arena *arena,
                                          const bool *kept, const struct remat_weights *weights)
{
    const struct remat_program_point *loss = p->point_count > 0 ? &p->points[0].at : NULL;
    struct remat_border border = p->model.border;
    struct remat_border_work *work = NULL;
    if (weights) {
        work = remat_copy(arena, border.work, 1, sizeof *work);
        work->weights = *weights;
    }
    border.work = work;
    border.items = remat_copy(arena, border.items, border.item_count, sizeof *border.items);
    for (uint32_t i = 0; i < border.item_count; i++) {
        border.items[i].kept |= kept[i] && !border.items[i].recomputed;
        if (loss &&
            remat_settled_writer(p->model.settled, p->model.item_value[i]).i <= loss->kernel.i)
            border.items[i].bytes = loss->border.items[i].bytes;
    }
    return remat_path_find_steps(arena, &border, p->model.item_layer, p->model.layer_count);
}

/* By item: layers beyond the next one read it. */
static bool *find_far(const struct remat_planner *p, struct remat_arena *arena)
{
    bool *far;
    const struct remat_border *b = &p->model.border;
    const remat_layer *layer = p->model.item_layer;
    REMAT_NEW(arena, far, b->item_count);
    for (uint32_t i = 0; i < b->item_count; i++) {
        const struct remat_border_task *task = &b->tasks[b->items[i].task.i];
        for (uint32_t e = task->input_begin; e < task->input_end; e++) {
            uint32_t input = b->inputs[e].i, from = layer[input].i;
            far[input] |= layer[i].i != from && layer[i].i != from + 1;
        }
    }
    return far;
}

/* True for a gathered parameter that the backward pass reads before it reaches a layer: a kernel
 * that reads it gains no memory from dropping it. */
static bool is_of_head(const struct remat_planner *p, remat_item item)
{
    const struct remat_kernel_list *kernels = p->evaluator->settled->kernels;
    remat_value value = p->model.item_value[item.i];
    uint16_t op = p->graph->nodes[remat_producer(p->graph, value).i].op;
    bool read = false;
    if (!remat_op_has(op, REMAT_FACT_COLLECTIVE) || !remat_is_none(p->model.item_layer[item.i].i))
        return false;
    for (uint32_t m = 0; m < p->point_count; m++)
        read |= !remat_kernel_in_forward_pass(kernels, p->points[m].at.kernel) &&
                remat_kernel_reads(remat_kernel_at(kernels, p->points[m].at.kernel), value);
    return read;
}

/* --- weights of several streams --- */

/* Decisions change what a link does. */
static bool decides_transfers(const struct remat_planner *p)
{
    const struct remat_border *b = &p->model.border;
    const uint32_t links = ~(1u << REMAT_STREAM_COMPUTATION);
    bool any = false;
    for (uint32_t t = 0; t < b->task_count && b->work; t++)
        any |= (remat_work_streams(b->work->task[t]) & links) != 0;
    for (uint32_t w = 0; w < b->way_count && b->work; w++)
        any |= (remat_work_streams(b->work->get[w]) & links) != 0;
    return any;
}

static bool are_close(const struct remat_weights *a, const struct remat_weights *b)
{
    double most = 0;
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t s = 0; s < REMAT_STREAMS; s++)
            most = fmax(most, fabs(a->of[half][s] - b->of[half][s]));
    return most < CLOSE_WEIGHTS;
}

static void add_weights(struct remat_planner *p, struct remat_weights weights)
{
    bool new = true;
    for (uint32_t w = 0; w < p->weighed_count; w++)
        new &= !are_close(&weights, &p->weighed[w].weights);
    if (new)
        p->weighed[p->weighed_count++].weights = weights;
}

/* Those of each stream alone, and those of the highest bounds at some prices, of corners that the
 * hull has where one stream does all work. */
static void find_weights(struct remat_planner *p, struct remat_arena *arena)
{
    const struct remat_border_hull *hull = &p->single.hull;
    REMAT_NEW(arena, p->weighed, REMAT_STREAMS + PRICES);
    if (!decides_transfers(p))
        return;
    for (uint32_t s = 0; s < REMAT_STREAM_LINKS + p->graph->mesh.axis_count; s++) {
        struct remat_weights alone = {0};
        alone.of[0][s] = alone.of[1][s] = 1;
        add_weights(p, alone);
    }
    for (uint32_t k = 0; k < PRICES && p->point_count > 0; k++) {
        uint32_t at = hull->count * k / PRICES;
        if (at + 1 >= hull->count || (k && at == hull->count * (k - 1) / PRICES))
            continue;
        double price = remat_border_price_between(&hull->points[at], &hull->points[at + 1]);
        add_weights(p, remat_border_climb(p->points[0].network, 0, price, -INFINITY).weights);
    }
}

static void find_hulls(struct remat_planner *p, struct remat_arena *arena)
{
    bool *kept, any = false;
    REMAT_NEW(arena, kept, p->model.item_count);
    for (uint32_t i = 0; i < p->model.item_count; i++)
        kept[i] = p->model.item_reach[i] >= REMAT_REACH_OUTSIDE;
    p->units = find_steps(p, arena, kept, NULL);
    for (uint32_t i = 0; i < p->model.item_count; i++)
        kept[i] |= p->model.item_reach[i] >= REMAT_REACH_LAYERS;
    p->single = find_steps(p, arena, kept, NULL);
    find_weights(p, arena);
    for (uint32_t w = 0; w < p->weighed_count; w++)
        p->weighed[w].steps = find_steps(p, arena, kept, &p->weighed[w].weights);
    for (remat_item i = {0}; i.i < p->model.item_count; i.i++) {
        const struct remat_border_item *item = &p->model.border.items[i.i];
        if (!kept[i.i] && !item->kept && !item->recomputed && is_of_head(p, i))
            any = kept[i.i] = true;
    }
    if (any)
        p->head_kept = find_steps(p, arena, kept, NULL);
    for (uint32_t w = 0; w < p->weighed_count && any; w++)
        p->weighed[w].head_kept = find_steps(p, arena, kept, &p->weighed[w].weights);
}

/* Live peak of the units that a path ends with. */
static uint64_t unit_bytes(const struct remat_planner *p, remat_path_id path)
{
    struct remat_decision decision;
    struct remat_arena *scratch = remat_scratch_open(p->evaluator->scratch->ctx);
    remat_planner_decide(p, scratch, path, remat_path_length(&p->paths[path.i]) - 1, &decision);
    uint64_t bytes = remat_times_live(p->evaluator->sums, &decision);
    remat_scratch_close(scratch);
    return bytes;
}

/* Where there are such steps. */
static void add_path(struct remat_planner *p, struct remat_path path,
                     const struct remat_path_steps *steps)
{
    path.steps = steps;
    if (steps->hull.count > 0)
        p->paths[p->path_count++] = path;
}

/* The larger the units, the more is recomputed at once, and the less is saved between them. The
 * first size that ends no smaller than the one before it is the last to be tried: on the way to its
 * end there may still be smaller decisions. */
static void find_paths(struct remat_planner *p, struct remat_arena *arena)
{
    uint64_t least_bytes = UINT64_MAX, bytes = 0;
    uint32_t all = NODES_IN_UNITS / (p->graph->node_count + 1) + 4;
    bool *between;
    struct remat_path path = {.steps = &p->single,
                              .item_count = p->model.item_count,
                              .item_layer = p->model.item_layer,
                              .layer_count = p->model.layer_count,
                              .item_far = find_far(p, arena),
                              .unit_layers = 1};
    uint32_t fixed_count = 1 + (p->model.layer_count > FIXED_MAX ? FIXED_MAX : 0);
    REMAT_NEW(arena, between, p->model.item_count);
    for (uint32_t i = 0; i < p->model.item_count; i++) {
        between[i] = p->model.item_reach[i] == REMAT_REACH_LAYERS;
        path.tail = p->model.item_layer[i].i + 1 == p->model.layer_count ? i + 1 : path.tail;
    }
    path.item_between = between;
    REMAT_NEW(arena, p->paths, fixed_count + 1 + 2 * p->weighed_count + p->model.layer_count);
    for (; path.fixed < fixed_count; path.fixed++)
        p->paths[p->path_count++] = path;
    path.fixed = 0;
    add_path(p, path, &p->head_kept);
    for (uint32_t w = 0; w < p->weighed_count; w++) {
        add_path(p, path, &p->weighed[w].steps);
        add_path(p, path, &p->weighed[w].head_kept);
    }
    p->single_count = p->path_count;
    path.steps = &p->units;
    path.first = find_first_of_units(p, arena, between);
    p->tried_count = p->path_count;
    for (path.unit_layers = 2;
         path.first < p->units.count && path.unit_layers <= p->model.layer_count;
         path.unit_layers += 1 + path.unit_layers / all) {
        p->paths[p->path_count++] = path;
        if (bytes >= least_bytes)
            continue;
        least_bytes = bytes ? bytes : least_bytes;
        remat_path_id last = {p->tried_count++};
        bytes = unit_bytes(p, last);
        p->smallest_path = bytes < least_bytes ? last : p->smallest_path;
    }
}

static void find_free(struct remat_planner *p, struct remat_arena *arena)
{
    const struct remat_settled *settled = p->model.settled;
    REMAT_NEW(arena, p->free_items, p->model.item_count);
    for (remat_item i = {0}; i.i < p->model.item_count; i.i++) {
        remat_value v = p->model.item_value[i.i];
        if (remat_is_candidate(settled, v) && !(settled->pinned && settled->pinned->reasons[v.i]))
            p->free_items[p->free_count++] = i;
    }
}

/* Of what makes the value; none: of no layer. */
static remat_layer layer_of(const struct remat_planner *p, remat_value v)
{
    remat_node node = remat_producer(p->graph, v);
    return remat_is_none(node.i) ? (remat_layer){REMAT_NONE} : p->model.layer_of_node[node.i];
}

static void find_layered(struct remat_planner *p, struct remat_arena *arena)
{
    for (remat_value v = {0}; v.i < p->graph->value_count; v.i++) {
        bool decided = !remat_is_none(p->model.item_of[v.i].i);
        if (!remat_is_none(layer_of(p, v).i) &&
            (decided || remat_action_times(p->model.rest.actions[v.i])))
            REMAT_PUSH(arena, &p->layered, v);
    }
}

static void find_near(struct remat_planner *p, struct remat_arena *arena)
{
    const struct remat_border_hull *hulls[] = {&p->single.hull, &p->units.hull};
    uint32_t count = hulls[0]->count + hulls[1]->count, next = 0;
    uint8_t *starts;
    uint32_t *actions; /* by free item: bits */
    REMAT_NEW(arena, actions, p->free_count);
    for (uint32_t f = 0; f < p->free_count; f++) {
        const struct remat_border_item *item = &p->model.border.items[p->free_items[f].i];
        actions[f] = 1u << REMAT_ACTION_SAVE | 1u << REMAT_ACTION_RECOMPUTE;
        for (uint32_t w = item->way_begin; w < item->way_end; w++)
            actions[f] |= 1u << p->model.border.ways[w].action;
    }
    REMAT_NEW(arena, starts, (size_t)count * p->free_count);
    for (uint32_t h = 0; h < 2; h++)
        for (uint32_t c = 0; c < hulls[h]->count; c++)
            for (uint32_t f = 0; f < p->free_count; f++) {
                const struct remat_border_choice *corner = &hulls[h]->points[c];
                uint32_t i = p->free_items[f].i;
                starts[next++] = corner->keep[i] ? corner->way[i] : REMAT_ACTION_RECOMPUTE;
            }
    p->near = remat_neighbours_find(arena, p->free_count, actions, starts, count,
                                    NODES_NEAR / (p->graph->node_count + 1));
}

static void find_points(struct remat_planner *p, struct remat_arena *arena)
{
    struct remat_program_points found =
        remat_model_points(arena, &p->model, &p->evaluator->sums->live);
    p->point_count = (uint32_t)found.count;
    REMAT_NEW(arena, p->points, p->point_count);
    p->floor_bytes = p->static_bytes + p->evaluator->sums->live.floor_bytes;
    for (uint32_t m = 0; m < p->point_count; m++) {
        struct bounded_point *point = &p->points[m];
        point->at = found.items[m];
        point->network = remat_border_network(arena, &point->at.border);
        remat_keep_most(&p->floor_bytes, p->static_bytes + point->at.other_bytes +
                                             remat_border_least_bytes(point->network));
    }
}

/* A value that a pin saves is kept, and its task does not run unless another value may need it. */
static void pin_items(struct remat_planner *p, struct remat_arena *arena)
{
    const struct remat_decision *pinned = p->model.settled->pinned;
    struct remat_border *border = &p->model.border;
    bool *may_run; /* by task */
    border->items = remat_copy(arena, border->items, border->item_count, sizeof *border->items);
    if (!pinned)
        return;
    REMAT_NEW(arena, may_run, border->task_count);
    for (uint32_t i = 0; i < border->item_count; i++) {
        remat_value v = p->model.item_value[i];
        may_run[border->items[i].task.i] |=
            remat_is_candidate(p->model.settled, v) &&
            !(pinned->reasons[v.i] && pinned->actions[v.i] == REMAT_ACTION_SAVE);
    }
    for (uint32_t i = 0; i < border->item_count; i++) {
        struct remat_border_item *item = &border->items[i];
        remat_value v = p->model.item_value[i];
        if (!pinned->reasons[v.i])
            continue;
        item->kept = !may_run[item->task.i];
        item->recomputed = pinned->actions[v.i] == REMAT_ACTION_RECOMPUTE;
        item->way_end = item->way_begin;
    }
}

struct remat_planner *remat_planner_create(struct remat_arena *arena,
                                           struct remat_evaluator *evaluator,
                                           const struct remat_model *model, bool bounds_only)
{
    assert(model->settled == evaluator->settled);
    struct remat_planner *p;
    remat_stopwatch_start(evaluator->watch);
    REMAT_NEW(arena, p, 1);
    p->graph = evaluator->settled->graph;
    p->evaluator = evaluator;
    p->static_bytes = evaluator->persistent->total_bytes;
    p->model = *model;
    pin_items(p, arena);
    find_points(p, arena);
    if (!bounds_only) {
        find_free(p, arena);
        find_layered(p, arena);
        find_hulls(p, arena);
        find_paths(p, arena);
        find_near(p, arena);
    }
    remat_stopwatch_lap(evaluator->watch, REMAT_LAP_PLAN);
    return p;
}

/* In a layer recomputed twice every value is, except the outputs of units, which stay in memory
 * from the first round on. */
static void recompute_twice(const struct remat_planner *p, const struct remat_path *path,
                            const bool *twice, struct remat_decision *out)
{
    for (size_t i = 0; i < p->layered.count; i++) {
        remat_value v = p->layered.items[i];
        remat_item item = p->model.item_of[v.i];
        if (remat_action_times(out->actions[v.i]) && twice[layer_of(p, v).i])
            out->actions[v.i] = !remat_is_none(item.i) && remat_path_ends_unit(path, item)
                                    ? REMAT_ACTION_RECOMPUTE
                                    : REMAT_ACTION_TWICE;
    }
}

void remat_planner_decide(const struct remat_planner *p, struct remat_arena *arena,
                          remat_path_id path, uint32_t index, struct remat_decision *out)
{
    assert(remat_is_none(path.i)
               ? index < p->near.count
               : path.i < p->path_count && index < remat_path_step_count(&p->paths[path.i]));
    const struct remat_path *walked = remat_is_none(path.i) ? NULL : &p->paths[path.i];
    uint8_t *actions; /* by item: SAVE where it is not free */
    bool *twice;      /* by layer */
    REMAT_NEW(arena, actions, p->model.item_count);
    REMAT_NEW(arena, twice, p->model.layer_count);
    if (walked) {
        remat_path_twice(walked, index, twice);
        remat_path_choice(walked, index, twice, actions);
    } else {
        for (uint32_t f = 0; f < p->free_count; f++)
            actions[p->free_items[f].i] = p->near.actions[(size_t)index * p->near.item_count + f];
    }
    remat_model_decide(arena, &p->model, actions, out);
    if (walked && index >= remat_path_length(walked))
        recompute_twice(p, walked, twice, out);
}

/* Step time, given the least cost of choices. */
static uint64_t bound_ns(const struct remat_planner *p, double cost_ps)
{
    double ns = (double)p->model.least_ns + floor(cost_ps / 1000);
    return ns > 0 ? (uint64_t)ns : 0;
}

static uint64_t room_at(const struct remat_planner *p, const struct bounded_point *at,
                        uint64_t live_bytes)
{
    return live_bytes - p->static_bytes - at->at.other_bytes;
}

/* At a program point. */
static double bound_at(const struct remat_planner *p, struct remat_border_network *network,
                       uint64_t room_bytes, double enough_ps)
{
    if (!p->model.border.work)
        return remat_border_bound(network, room_bytes, enough_ps);
    struct remat_border_cut cut = remat_border_climb(network, room_bytes, NAN, enough_ps);
    return remat_border_proven(&cut, room_bytes);
}

/* In as many cases as are worth it: few decide hardly anything of a large problem. */
static double bound_by_cases(const struct remat_planner *p, const struct bounded_point *at,
                             uint64_t room_bytes)
{
    const struct remat_border *b = &at->at.border;
    double size = (double)b->item_count + b->arc_count, leaves = LEAVES_WORK / (size * size);
    if (b->way_count || b->work || leaves < LEAVES_FEW)
        return -INFINITY;
    struct remat_arena *scratch = remat_scratch_open(p->evaluator->scratch->ctx);
    double ps = remat_border_branch(scratch, b, room_bytes, INFINITY,
                                    (uint32_t)fmin(leaves, LEAVES_MAX), NULL);
    remat_scratch_close(scratch);
    return ps;
}

uint64_t remat_planner_bound(struct remat_planner *p, uint64_t live_bytes)
{
    double best_ps = -INFINITY;
    uint32_t binding = p->binding;
    if (live_bytes < p->floor_bytes)
        return UINT64_MAX;
    for (uint32_t m = 0; m < p->point_count; m++) {
        struct bounded_point *at = &p->points[(p->binding + m) % p->point_count];
        double ps = bound_at(p, at->network, room_at(p, at, live_bytes), best_ps);
        if (ps > best_ps) {
            best_ps = ps;
            binding = (uint32_t)(at - p->points);
        }
    }
    p->binding = binding;
    if (p->point_count) {
        const struct bounded_point *at = &p->points[binding];
        best_ps = fmax(best_ps, bound_by_cases(p, at, room_at(p, at, live_bytes)));
    }
    return bound_ns(p, best_ps);
}

uint32_t remat_planner_limits(const struct remat_planner *p, uint64_t live_bytes)
{
    uint32_t most = REMAT_STREAMS;
    double share_ps[REMAT_STREAMS] = {0};
    if (!p->model.border.work || !p->point_count)
        return most;
    const struct bounded_point *at = &p->points[p->binding];
    const struct remat_border_cut cut =
        remat_border_binding_cut(at->network, room_at(p, at, live_bytes));
    for (uint32_t kind = 0; kind < REMAT_WORK_KINDS; kind++) {
        uint32_t stream = 0; /* of what does the work: the link, if it is a transfer */
        for (uint32_t s = 0; s < REMAT_STREAMS; s++)
            stream = remat_work_streams(kind) >> s & 1 ? s : stream;
        share_ps[stream] +=
            remat_work_weight(&cut.weights, kind) * (double)cut.choice.work_ps[kind];
    }
    most = 0;
    for (uint32_t s = 1; s < REMAT_STREAMS; s++)
        most = share_ps[s] > share_ps[most] ? s : most;
    return most;
}

static int compare_kept(const void *a, const void *b)
{
    const struct remat_kept *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->layer.i != y->layer.i)
        return x->layer.i < y->layer.i ? -1 : 1;
    return strcmp(x->value, y->value);
}

struct remat_binding remat_planner_binding(const struct remat_planner *p, struct remat_arena *arena,
                                           uint64_t live_bytes)
{
    assert(live_bytes >= p->floor_bytes);
    if (p->point_count == 0)
        return (struct remat_binding){0};
    const struct bounded_point *at = &p->points[p->binding];
    const struct remat_kernel_info *kernel =
        remat_kernel_at(p->evaluator->settled->kernels, at->at.kernel);
    uint64_t room_bytes = room_at(p, at, live_bytes);
    struct remat_border_cut cut = remat_border_binding_cut(at->network, room_bytes);
    struct remat_binding out = {.kernel = p->graph->values[kernel->name.i].name,
                                .phase = remat_phase_name(kernel->phase),
                                .static_bytes = p->static_bytes,
                                .other_bytes = at->at.other_bytes,
                                .room_bytes = room_bytes,
                                .kept_bytes = cut.choice.bytes,
                                .price_ps = cut.price,
                                .priced_ns = bound_ns(p, remat_border_proven(&cut, room_bytes))};
    struct remat_kept *kept;
    REMAT_NEW(arena, kept, p->model.item_count);
    for (uint32_t i = 0; i < p->model.item_count; i++)
        if (cut.choice.keep[i] && at->at.border.items[i].bytes)
            kept[out.kept_count++] =
                (struct remat_kept){p->graph->values[p->model.item_value[i].i].name,
                                    p->model.item_layer[i], at->at.border.items[i].bytes};
    qsort(kept, out.kept_count, sizeof *kept, compare_kept);
    out.kept = kept;
    return out;
}

struct remat_least remat_planner_least(const struct remat_planner *p, struct remat_arena *scratch,
                                       const struct remat_decision *decision)
{
    assert(decision->value_count == p->graph->value_count);
    uint64_t live_bytes = p->static_bytes + remat_times_live(p->evaluator->sums, decision);
    uint8_t *times, *actions; /* by item */
    REMAT_NEW(scratch, times, p->model.item_count);
    REMAT_NEW(scratch, actions, p->model.item_count);
    for (uint32_t i = 0; i < p->model.item_count; i++) {
        actions[i] = decision->actions[p->model.item_value[i].i];
        times[i] = (uint8_t)remat_action_times(actions[i]);
    }
    struct remat_border_choice choice = remat_border_follow(scratch, &p->model.border, times);
    choice.again = NULL;
    choice.way = actions;
    remat_border_measure(scratch, &p->model.border, &choice);
    double cost_ps =
        p->model.border.work ? remat_work_least_ps(choice.work_ps) : (double)choice.cost_ps;
    return (struct remat_least){bound_ns(p, cost_ps), live_bytes};
}
