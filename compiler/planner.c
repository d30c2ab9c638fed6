/* Candidates come from the hull of the likely costs: from that with what crosses from one layer
 * into another kept, so that a layer is computed again from its input, and from that with such
 * values free, of which paths keep those that groups of layers begin with. Bounds come from the
 * least costs, at several moments of the step. */
#include "planner.h"

#include "layers.h"
#include "marginal.h"
#include "named_times.h"
#include "neighbours.h"
#include "ops.h"
#include "path.h"

#include <math.h>

enum {
    HELD_MAX = 1,         /* paths leave so many of the last layers as they are, and none */
    NODES_NEAR = 1000000, /* for all decisions near corners together */
};

struct moment {
    struct remat_border_moment at;
    struct remat_border_network *network;
    uint64_t least_bytes; /* that any choice keeps */
};

struct remat_planner {
    remat_context *ctx;
    const struct remat_graph *graph;
    const struct remat_decision *pinned;
    struct remat_border_graph border;
    struct remat_border_hull single, grouped;
    struct remat_path_steps single_steps, grouped_steps;
    bool *item_between, *item_far;
    uint32_t tail; /* items from here on come behind the last layer */
    uint32_t fork; /* step of `grouped`, the first that drops a value between layers */
    uint32_t free_count, *free_items; /* what a decision may keep or not */
    struct remat_neighbours near;     /* corners of both hulls and what is near, by free items */
    uint64_t static_bytes, floor_bytes, floor_slack_ns;
    struct remat_named_times named;
    uint32_t moment_count;
    struct moment *moments;
    uint32_t binding; /* the one that bounded last: others need not be looked at as closely */
};

/* In the likely problem what is live at the loss anyway stays, and what crosses as much or more. */
static void keep_anchors(struct remat_planner *p, enum remat_crossing least)
{
    struct remat_border_item *items = p->border.likely.items;
    for (uint32_t i = 0; i < p->border.item_count; i++) {
        const struct remat_border_item *at_loss =
            p->moment_count > 0 ? &p->moments[0].at.border.items[i] : NULL;
        bool live_at_loss = at_loss && at_loss->wanted && at_loss->bytes == 0;
        items[i].kept |=
            !items[i].recomputed && (p->border.item_crossing[i] >= least || live_at_loss);
    }
}

/* The first step of the grouped hull that drops a value between layers. */
static uint32_t find_fork(const struct remat_planner *p)
{
    const struct remat_border_point *points = p->grouped.points;
    uint32_t step = 0;
    for (; step < p->grouped_steps.count; step++) {
        const struct remat_path_step *s = &p->grouped_steps.steps[step];
        for (uint32_t i = 0; i < p->border.item_count; i++)
            if (p->item_between[i] && p->border.item_region[i] == s->region &&
                points[s->corner].keep[i] && !points[s->corner + 1].keep[i])
                return step;
    }
    return step;
}

static remat_status find_hull(struct remat_planner *p, struct remat_arena *arena,
                              enum remat_crossing kept, struct remat_border_hull *hull,
                              struct remat_path_steps *steps)
{
    remat_status st = REMAT_OK;
    struct remat_border_network *network;
    keep_anchors(p, kept);
    REMAT_TRY(remat_border_network(arena, &p->border.likely, &network));
    REMAT_TRY(remat_border_find_hull(network, hull));
    REMAT_TRY(remat_path_find_steps(arena, &p->border.likely, hull, p->border.item_region,
                                    p->border.region_count, steps));
fail:
    return st;
}

/* What more than the next layer needs. */
static remat_status find_far(struct remat_planner *p, struct remat_arena *arena)
{
    remat_status st = REMAT_OK;
    const struct remat_border *b = &p->border.least;
    const uint32_t *region = p->border.item_region;
    REMAT_NEW(arena, p->item_far, b->item_count);
    for (uint32_t i = 0; i < b->item_count; i++) {
        const struct remat_border_task *task = &b->tasks[b->items[i].task];
        for (uint32_t e = task->input_begin; e < task->input_end; e++) {
            uint32_t input = b->inputs[e];
            p->item_far[input] |= region[i] != region[input] && region[i] != region[input] + 1;
        }
    }
fail:
    return st;
}

static remat_status find_hulls(struct remat_planner *p, struct remat_arena *arena)
{
    remat_status st = REMAT_OK;
    REMAT_NEW(arena, p->item_between, p->border.item_count);
    for (uint32_t i = 0; i < p->border.item_count; i++) {
        p->item_between[i] = p->border.item_crossing[i] == REMAT_CROSSING_BETWEEN;
        p->tail = p->border.item_region[i] + 1 == p->border.region_count ? i + 1 : p->tail;
    }
    REMAT_TRY(find_far(p, arena));
    REMAT_TRY(find_hull(p, arena, REMAT_CROSSING_BEYOND, &p->grouped, &p->grouped_steps));
    REMAT_TRY(find_hull(p, arena, REMAT_CROSSING_BETWEEN, &p->single, &p->single_steps));
    p->fork = find_fork(p);
fail:
    return st;
}

static remat_status find_free(struct remat_planner *p, struct remat_arena *arena)
{
    remat_status st = REMAT_OK;
    const struct remat_border *likely = &p->border.likely;
    REMAT_NEW(arena, p->free_items, likely->item_count);
    for (uint32_t i = 0; i < likely->item_count; i++) {
        const struct remat_border_item *item = &likely->items[i];
        if (!item->kept && !item->recomputed && !likely->tasks[item->task].forbidden)
            p->free_items[p->free_count++] = i;
    }
fail:
    return st;
}

static remat_status find_near(struct remat_planner *p, struct remat_arena *arena)
{
    remat_status st = REMAT_OK;
    const struct remat_border_hull *hulls[] = {&p->single, &p->grouped};
    uint8_t *starts, *next;
    REMAT_NEW(arena, starts, (size_t)(p->single.count + p->grouped.count) * p->free_count);
    next = starts;
    for (uint32_t h = 0; h < 2; h++)
        for (uint32_t c = 0; c < hulls[h]->count; c++)
            for (uint32_t f = 0; f < p->free_count; f++)
                *next++ = hulls[h]->points[c].keep[p->free_items[f]] ? REMAT_ACTION_SAVE
                          : p->border.item_fused[p->free_items[f]]   ? REMAT_ACTION_FUSED
                                                                     : REMAT_ACTION_RECOMPUTE;
    REMAT_TRY(remat_neighbours_find(arena, p->free_count, starts,
                                    p->single.count + p->grouped.count,
                                    NODES_NEAR / (p->graph->node_count + 1), &p->near));
fail:
    return st;
}

/* What a kernel reads and writes beside statics, without what may lie in one place. */
static uint64_t working_set(const struct remat_graph *graph,
                            const struct remat_fused_kernel *kernel)
{
    uint64_t read = 0, written = 0;
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        const struct remat_kernel_operand *operand = &kernel->operands[o];
        const struct remat_value_info *info = &graph->values[operand->value.i];
        bool seen = remat_is_none(info->node) || operand->access == REMAT_ACCESS_UPDATE ||
                    info->role == REMAT_ROLE_OUTPUT;
        for (uint32_t before = 0; before < o && !seen; before++)
            seen = kernel->operands[before].value.i == operand->value.i;
        if (!seen)
            *(operand->access & REMAT_ACCESS_WRITE ? &written : &read) +=
                remat_align_up(remat_storage_bytes(info), REMAT_ALIGNMENT);
    }
    if (kernel->kind == REMAT_KERNEL_program)
        return read > written ? read : written;
    return read + written;
}

static remat_status find_floor(struct remat_planner *p, struct remat_arena *arena,
                               const struct remat_kernel_list *kernels)
{
    remat_status st = REMAT_OK;
    uint64_t most = 0;
    (void)arena;
    for (uint32_t k = 0; k < kernels->count; k++) {
        const struct remat_fused_kernel *kernel = &kernels->kernels[k];
        uint64_t bytes = kernel->kind == REMAT_KERNEL_program ? 0 : working_set(p->graph, kernel);
        most = bytes > most ? bytes : most;
    }
    for (uint32_t m = 0; m < p->moment_count; m++) {
        uint64_t bytes = p->moments[m].at.other_bytes + p->moments[m].least_bytes;
        most = bytes > most ? bytes : most;
    }
    p->floor_bytes = p->static_bytes + most;
    return st;
}

/* Programs at the price of the profile, beyond the one that bounds count. */
static void find_floor_slack(struct remat_planner *p, const struct remat_kernel_list *kernels,
                             const struct remat_price *prices,
                             const struct remat_device_description *device)
{
    uint64_t ns = 0;
    for (uint32_t k = 0; k < kernels->count; k++)
        ns += prices[k].ns;
    if (device->profile && ns > p->border.least_ns)
        p->floor_slack_ns = ns - p->border.least_ns;
}

static remat_status find_moments(struct remat_planner *p, struct remat_arena *arena,
                                 const struct remat_kernel_list *kernels)
{
    remat_status st = REMAT_OK;
    struct remat_border_moment *moments;
    REMAT_TRY(
        remat_extract_moments(arena, p->graph, kernels, &p->border, &p->moment_count, &moments));
    REMAT_NEW(arena, p->moments, p->moment_count);
    for (uint32_t m = 0; m < p->moment_count; m++) {
        p->moments[m].at = moments[m];
        REMAT_TRY(remat_border_network(arena, &p->moments[m].at.border, &p->moments[m].network));
        REMAT_TRY(remat_border_least_bytes(p->moments[m].network, &p->moments[m].least_bytes));
    }
fail:
    return st;
}

remat_status remat_planner_create(remat_context *ctx, struct remat_arena *arena,
                                  const struct remat_graph *graph,
                                  const struct remat_kernel_list *kernels,
                                  const struct remat_price *prices,
                                  const struct remat_device_description *device,
                                  const struct remat_decision *pinned, uint64_t static_bytes,
                                  struct remat_planner **out)
{
    remat_status st = REMAT_OK;
    struct remat_planner *p;
    REMAT_NEW(arena, p, 1);
    p->ctx = ctx;
    p->graph = graph;
    p->pinned = pinned;
    p->static_bytes = static_bytes;
    REMAT_TRY(remat_extract_border(ctx, arena, graph, kernels, prices, device, pinned, &p->border));
    REMAT_TRY(remat_named_times_create(arena, graph, &p->border.facts, kernels, prices, &p->named));
    REMAT_TRY(find_moments(p, arena, kernels));
    REMAT_TRY(find_floor(p, arena, kernels));
    find_floor_slack(p, kernels, prices, device);
    REMAT_TRY(find_free(p, arena));
    REMAT_TRY(find_hulls(p, arena));
    REMAT_TRY(find_near(p, arena));
    *out = p;
fail:
    return st;
}

static struct remat_path path_of(const struct remat_planner *p, uint32_t path)
{
    uint32_t singles = remat_planner_single_count(p);
    bool single = path < singles;
    return (struct remat_path){.hull = single ? &p->single : &p->grouped,
                               .steps = single ? &p->single_steps : &p->grouped_steps,
                               .item_count = p->border.item_count,
                               .item_region = p->border.item_region,
                               .region_count = p->border.region_count,
                               .item_between = p->item_between,
                               .item_far = p->item_far,
                               .held = single ? path : 0,
                               .tail = p->tail,
                               .group = single ? 1 : path - singles + 2,
                               .first = single ? 0 : p->fork};
}

uint32_t remat_planner_single_count(const struct remat_planner *p)
{
    return 1 + (p->border.region_count > HELD_MAX ? HELD_MAX : 0);
}

uint32_t remat_planner_path_count(const struct remat_planner *p)
{
    return remat_planner_single_count(p) +
           (p->fork < p->grouped_steps.count ? p->border.region_count - 1 : 0);
}

uint32_t remat_planner_path_length(const struct remat_planner *p, uint32_t path)
{
    struct remat_path walked = path_of(p, path);
    return remat_path_length(&walked);
}

uint32_t remat_planner_path_corner(const struct remat_planner *p, uint32_t path, uint32_t index)
{
    struct remat_path walked = path_of(p, path);
    return remat_path_corner(&walked, index);
}

remat_status remat_planner_path_samples(const struct remat_planner *p, struct remat_arena *arena,
                                        uint32_t path, uint32_t most, uint32_t *out_count,
                                        uint32_t **out)
{
    struct remat_path walked = path_of(p, path);
    return remat_path_samples(arena, &walked, most, out_count, out);
}

uint32_t remat_planner_nested_count(const struct remat_planner *p, uint32_t path)
{
    struct remat_path walked = path_of(p, path);
    return remat_path_nested_count(&walked);
}

/* What nested layers compute is nested, but for what groups hand on: that stays in memory from the
 * first round on. */
static void nest(const struct remat_planner *p, const struct remat_path *path, const bool *nested,
                 struct remat_decision *out)
{
    for (uint32_t v = 0; v < out->value_count; v++) {
        uint32_t node = p->graph->values[v].node, item = p->border.item_of[v];
        uint32_t region = remat_is_none(node) ? REMAT_NONE : p->border.region_of_node[node];
        if (out->actions[v] == REMAT_ACTION_SAVE || remat_is_none(region) || !nested[region])
            continue;
        if (!remat_is_none(item) && remat_path_ends_group(path, item))
            out->actions[v] = REMAT_ACTION_RECOMPUTE;
        else
            out->actions[v] = remat_action_nested(out->actions[v]);
    }
}

remat_status remat_planner_decide(const struct remat_planner *p, struct remat_arena *arena,
                                  uint32_t path, uint32_t index, struct remat_decision *out)
{
    remat_status st = REMAT_OK;
    struct remat_path walked = path_of(p, path);
    bool *keep, *nested;
    REMAT_NEW(arena, keep, p->border.item_count);
    REMAT_NEW(arena, nested, p->border.region_count);
    remat_path_nested(&walked, index, nested);
    remat_path_choice(&walked, index, nested, keep);
    REMAT_TRY(remat_border_decide(arena, p->graph, &p->border, keep, p->pinned, out));
    if (index >= remat_path_length(&walked))
        nest(p, &walked, nested, out);
fail:
    return st;
}

uint32_t remat_planner_near_count(const struct remat_planner *p)
{
    return p->near.count;
}

remat_status remat_planner_near(const struct remat_planner *p, struct remat_arena *arena,
                                uint32_t index, struct remat_decision *out)
{
    remat_status st = REMAT_OK;
    bool *keep;
    const uint8_t *actions = p->near.actions + (size_t)index * p->near.item_count;
    REMAT_NEW(arena, keep, p->border.item_count);
    memset(keep, true, p->border.item_count * sizeof *keep);
    REMAT_TRY(remat_border_decide(arena, p->graph, &p->border, keep, p->pinned, out));
    for (uint32_t f = 0; f < p->free_count; f++)
        out->actions[p->border.item_value[p->free_items[f]].i] = actions[f];
fail:
    return st;
}

/* Of a step, from the least that choices cost. */
static uint64_t bound_ns(const struct remat_planner *p, double cost_ps)
{
    double ns = (double)p->border.least_ns + floor(cost_ps / 1000);
    return ns > 0 ? (uint64_t)ns : 0;
}

remat_status remat_planner_bound(struct remat_planner *p, uint64_t live_bytes, uint64_t *out_ns)
{
    remat_status st = REMAT_OK;
    double best_ps = -INFINITY;
    uint32_t binding = p->binding;
    if (live_bytes < p->floor_bytes) {
        *out_ns = UINT64_MAX;
        return REMAT_OK;
    }
    for (uint32_t m = 0; m < p->moment_count; m++) {
        struct moment *at = &p->moments[(p->binding + m) % p->moment_count];
        uint64_t room = live_bytes - p->static_bytes - at->at.other_bytes;
        double before_ps = (double)at->at.before_ps, ps;
        REMAT_TRY(remat_border_bound(at->network, room, best_ps - before_ps, &ps));
        if (ps + before_ps > best_ps) {
            best_ps = ps + before_ps;
            binding = (uint32_t)(at - p->moments);
        }
    }
    p->binding = binding;
    *out_ns = bound_ns(p, best_ps);
fail:
    return st;
}

/* Tasks that run. What stays in its kernel and is saved counts as the item that is made of it:
 * that is `replaced`. Whether any is. */
static bool find_run(const struct remat_planner *p, const uint8_t *rounds, bool *run,
                     bool *replaced)
{
    bool any = false;
    const struct remat_border *border = &p->border.least;
    for (uint32_t i = 0; i < border->item_count; i++)
        run[border->items[i].task] |= (rounds[p->border.item_value[i].i] & ~REMAT_ROUND_SAVED) != 0;
    for (uint32_t v = 0; v < p->graph->value_count; v++) {
        uint32_t item = p->border.made_of[v];
        if (rounds[v] != REMAT_ROUND_SAVED || remat_is_none(item))
            continue;
        run[border->items[item].task] = false;
        replaced[item] = any = true;
    }
    return any;
}

/* Without the launches that tasks which are replaced may share: they run. */
static remat_status share_launches(struct remat_arena *arena, const bool *replaced,
                                   struct remat_border *border)
{
    remat_status st = REMAT_OK;
    const struct remat_border_task *tasks = border->tasks;
    REMAT_NEW(arena, border->tasks, border->task_count);
    memcpy(border->tasks, tasks, border->task_count * sizeof *tasks);
    for (uint32_t t = 0; t < border->task_count; t++) {
        struct remat_border_task *task = &border->tasks[t];
        if (!remat_is_none(task->launch_with) && replaced[task->launch_with])
            task->launch_ps = 0;
    }
fail:
    return st;
}

/* Overwrites `rounds`. */
static uint64_t effect_of(const struct remat_decision *decision, uint8_t *rounds)
{
    for (uint32_t v = 0; v < decision->value_count; v++)
        if (rounds[v] & ~REMAT_ROUND_SAVED)
            rounds[v] = decision->actions[v];
    return remat_hash(rounds, decision->value_count, 0);
}

remat_status remat_planner_least(const struct remat_planner *p, struct remat_arena *scratch,
                                 const struct remat_decision *decision, struct remat_least *out)
{
    remat_status st = REMAT_OK;
    struct remat_border_point point = {0};
    struct remat_border least = p->border.least;
    uint8_t *rounds;
    bool *replaced;
    uint64_t named_ns;
    REMAT_TRY(remat_named_times_rounds(&p->named, scratch, decision, &rounds));
    REMAT_NEW(scratch, point.run, least.task_count);
    REMAT_NEW(scratch, replaced, least.item_count);
    if (find_run(p, rounds, point.run, replaced))
        REMAT_TRY(share_launches(scratch, replaced, &least));
    REMAT_TRY(remat_border_measure(scratch, &least, &point));
    out->step_ns = bound_ns(p, (double)point.cost_ps) + remat_named_times_twice(&p->named, rounds);
    out->live_bytes = p->static_bytes;
    if (p->moment_count > 0) {
        REMAT_TRY(remat_border_measure(scratch, &p->moments[0].at.border, &point));
        out->live_bytes += p->moments[0].at.other_bytes + point.bytes;
    }
    out->times = remat_named_times_of(&p->named, rounds);
    named_ns = out->times.ns[REMAT_COST_MATMUL] + out->times.ns[REMAT_COST_ATTENTION];
    out->times.ns[REMAT_COST_REST] = out->step_ns > named_ns ? out->step_ns - named_ns : 0;
    out->effect = effect_of(decision, rounds);
fail:
    return st;
}

uint64_t remat_planner_floor(const struct remat_planner *p)
{
    return p->floor_bytes;
}

uint64_t remat_planner_floor_slack(const struct remat_planner *p)
{
    return p->floor_slack_ns;
}
