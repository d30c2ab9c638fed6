/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel whose content a decision changes is a run: a forward kernel that stores less, a kernel
 * of the backward pass that inlines, a rerun. A run's time is launch + the longer of compute and
 * memory, so no less than either side: each run counts by the side that is longer when
 * everything is saved, a rerun when all of it runs. On that side costs add up, each value read once
 * by a node of its own; docs/planning.md has the proof. */
#include "closure.h"

#include "amounts.h"
#include "overlap.h"

#include <math.h>

struct need { /* a run needs `root` for the slice of `made`, where the task of that runs */
    remat_value root, made;
};

struct builder {
    struct remat_arena *arena, *scratch;
    const struct remat_settled *s;
    const struct remat_price *prices;
    const struct remat_device_description *described;
    struct remat_device_description device; /* that the run at hand is priced on */
    struct remat_model *out;
    struct REMAT_LIST(remat_item) inputs;
    struct REMAT_LIST(int64_t) charges;
    struct REMAT_LIST(struct remat_border_arc) arcs;
    struct REMAT_LIST(remat_kernel_id) arc_at; /* by arc: struct remat_divided_costs */
    struct REMAT_LIST(struct need) needs;      /* of the run at hand */
    remat_kernel_id at;                        /* the run at hand; none: it is a rerun */
    double constant_ps;                        /* of runs */
    double *kernel_ps; /* by kernel: of every choice; NULL where one stream does all work */
};

static const struct remat_kernel_info *kernel_at(const struct builder *b, remat_kernel_id kernel)
{
    return remat_kernel_at(b->s->kernels, kernel);
}

static bool is_fused(const struct builder *b, remat_kernel_id kernel)
{
    return kernel_at(b, kernel)->kind == REMAT_KERNEL_fused;
}

/* --- items and tasks --- */

static void find_items(struct builder *b)
{
    struct REMAT_LIST(remat_value) roots = {0};
    REMAT_NEW(b->arena, b->out->item_of, b->s->graph->value_count);
    for (remat_value v = {0}; v.i < b->s->graph->value_count; v.i++) {
        bool is_item = b->s->facts.forward[v.i] && b->s->facts.root[v.i].i == v.i &&
                       (b->s->written[v.i] || remat_is_candidate(b->s, v));
        b->out->item_of[v.i] = is_item ? (remat_item){(uint32_t)roots.count} : REMAT_NO_ITEM;
        if (is_item)
            REMAT_PUSH(b->arena, &roots, v);
    }
    b->out->item_count = (uint32_t)roots.count;
    b->out->item_value = roots.items;
}

/* What is no candidate is among the bytes that every decision has (live.h): as it takes no room of
 * its own, nothing is gained where it is not kept. */
static struct remat_border_item describe_item(const struct builder *b, remat_value v)
{
    uint64_t bytes = remat_storage_bytes(&b->s->graph->values[v.i]);
    bool output = b->s->facts.output[v.i]; /* lies in persistent memory */
    bool fixed = output || !remat_is_candidate(b->s, v);
    const uint32_t *ways = &b->s->keeps.begin[v.i];
    return (struct remat_border_item){
        .bytes = fixed ? 0 : remat_aligned_bytes(bytes),
        .way_begin = ways[0],
        .way_end = output ? ways[0] : ways[1],
        .wanted = (b->s->reads[v.i] & REMAT_READ_LATE) != 0,
    };
}

static void push_input(struct builder *b, remat_value root)
{
    remat_item item = b->out->item_of[root.i];
    if (!remat_is_none(item.i))
        REMAT_PUSH(b->arena, &b->inputs, item);
}

static void add_task(struct builder *b, remat_value v, struct remat_border_task *made)
{
    remat_kernel_id writer = remat_settled_writer(b->s, v);
    const struct remat_slice *slice = &b->s->slices[v.i];
    made->input_begin = (uint32_t)b->inputs.count;
    made->again_ps = 1000 * (int64_t)remat_price_least_ns(&b->prices[writer.i]);
    if (is_fused(b, writer)) {
        for (uint32_t r = 0; r < slice->read_count; r++)
            push_input(b, slice->reads[r].root);
    } else {
        const struct remat_node_info *node = &b->s->graph->nodes[kernel_at(b, writer)->nodes[0].i];
        for (uint32_t i = 0; i < remat_op_reads(node); i++)
            push_input(b, b->s->facts.root[node->inputs[i].i]);
        made->cost_ps = 1000 * (int64_t)remat_price_least_ns(&b->prices[writer.i]);
    }
    made->input_end = (uint32_t)b->inputs.count;
}

/* One for each item, but for those of a built-in kernel together. */
static void add_tasks(struct builder *b)
{
    struct remat_border *border = &b->out->border;
    uint32_t count = b->out->item_count;
    remat_task *task_of_kernel;
    border->item_count = count;
    REMAT_NEW(b->arena, border->items, count);
    REMAT_NEW(b->arena, border->tasks, count);
    REMAT_NEW(b->scratch, task_of_kernel, b->s->kernels->count);
    memset(task_of_kernel, 0xff, b->s->kernels->count * sizeof *task_of_kernel);
    for (uint32_t i = 0; i < count; i++) {
        remat_value v = b->out->item_value[i];
        remat_kernel_id writer = remat_settled_writer(b->s, v);
        remat_task *task = &task_of_kernel[writer.i];
        border->items[i] = describe_item(b, v);
        if (remat_is_none(task->i) || is_fused(b, writer)) {
            task->i = border->task_count++;
            add_task(b, v, &border->tasks[task->i]);
        }
        border->items[i].task = *task;
    }
    border->inputs = b->inputs.items;
    border->ways = b->s->keeps.ways;
    border->way_count = b->s->keeps.way_count;
}

/* --- charges --- */

/* The smallest load of a root by nodes of a kernel that may make it itself. */
static double load_ps(const struct builder *b, remat_kernel_id kernel, remat_value root)
{
    const struct remat_kernel_info *k = kernel_at(b, kernel);
    uint64_t least = UINT64_MAX;
    for (uint32_t o = 0; o < k->operand_count; o++)
        if (k->operands[o].value.i == root.i) {
            uint64_t bytes = remat_price_operand_bytes(b->s->graph, k, o);
            least = bytes < least ? bytes : least;
        }
    return least == UINT64_MAX ? 0 : 1000 * (double)least / b->device.memory_bytes_per_ns;
}

/* Bytes that a kernel moves for a value, as time. */
static double moved_ps(const struct builder *b, remat_kernel_id kernel, remat_value root)
{
    return 1000 * (double)remat_price_value_bytes(b->s->graph, kernel_at(b, kernel), root) /
           b->device.memory_bytes_per_ns;
}

static remat_border_node item_node(const struct builder *b, remat_value root)
{
    return remat_border_item_node(b->out->item_of[root.i]);
}

static remat_task task_of(const struct builder *b, remat_value root)
{
    return b->out->border.items[b->out->item_of[root.i].i].task;
}

static remat_border_node task_node(const struct builder *b, remat_value root)
{
    return remat_border_task_node(&b->out->border, task_of(b, root));
}

/* Extra nodes are numbered after the tasks. */
static remat_border_node add_charge(struct builder *b, double ps)
{
    REMAT_PUSH(b->arena, &b->charges, remat_ps(floor(ps)));
    return remat_border_charge_node(&b->out->border, (uint32_t)b->charges.count - 1);
}

static void add_arc(struct builder *b, remat_border_node from, remat_border_node to, int64_t ps)
{
    if (ps == 0)
        return;
    REMAT_PUSH(b->arena, &b->arcs, ((struct remat_border_arc){from, to, ps}));
    if (b->kernel_ps)
        REMAT_PUSH(b->arena, &b->arc_at, b->at);
}

/* Of the run at hand, in every choice. */
static void add_constant(struct builder *b, double ps)
{
    b->constant_ps += ps;
    if (b->kernel_ps)
        b->kernel_ps[b->at.i] += ps;
}

static void charge_task(struct builder *b, remat_value root, double ps)
{
    b->out->border.tasks[task_of(b, root).i].cost_ps += remat_ps(floor(ps));
}

/* --- loads of a run --- */

/* A value that the run may make for itself in place of loading it. */
static bool may_make(const struct builder *b, remat_kernel_id kernel, bool rerun, remat_value root)
{
    bool own = remat_settled_writer(b->s, root).i == kernel.i;
    return b->s->inlined[root.i] || (rerun && own && remat_is_candidate(b->s, root));
}

/* What the run loads beyond what it does anyway, unless it makes the root itself. */
static double need_ps(const struct builder *b, remat_kernel_id kernel, bool rerun,
                      const struct need *need)
{
    const struct remat_kernel_info *host = rerun ? remat_settled_host(b->s, kernel) : NULL;
    if (!rerun && remat_kernel_reads(kernel_at(b, kernel), need->root))
        return 0;
    if (host && remat_kernel_reads(host, need->root))
        return 0;
    return load_ps(b, remat_settled_writer(b->s, need->made), need->root);
}

/* Charges the loads of the collected needs: each root once; a root that the run may make, only if
 * it is not recomputed. */
static void add_loads(struct builder *b, remat_kernel_id kernel, bool rerun)
{
    const struct need *needs = b->needs.items;
    for (size_t n = 0; n < b->needs.count; n++) {
        bool may = may_make(b, kernel, rerun, needs[n].root), first = true;
        double ps = INFINITY;
        for (size_t m = 0; m < b->needs.count; m++)
            if (needs[m].root.i == needs[n].root.i) {
                first &= m >= n;
                ps = fmin(ps, need_ps(b, kernel, rerun, &needs[m]));
            }
        if (!first || ps < 1)
            continue;
        remat_border_node loads = add_charge(b, may ? 0 : ps);
        for (size_t m = n; m < b->needs.count; m++)
            if (needs[m].root.i == needs[n].root.i)
                add_arc(b, task_node(b, needs[m].made), loads, REMAT_BORDER_RULE);
        if (may)
            add_arc(b, loads, task_node(b, needs[n].root), remat_ps(floor(ps)));
    }
    b->needs.count = 0;
}

static void need_slice(struct builder *b, remat_value root)
{
    const struct remat_slice *slice = &b->s->slices[root.i];
    for (uint32_t r = 0; r < slice->read_count; r++)
        REMAT_PUSH(b->arena, &b->needs,
                   ((struct need){.root = slice->reads[r].root, .made = root}));
}

/* --- runs --- */

/* Of a kernel that makes some of its values, as a rerun does. */
static struct remat_load load_of(struct builder *b, const remat_value *roots, uint32_t count)
{
    struct remat_load load = {0};
    if (count)
        load = remat_settled_load(b->scratch, b->s, roots, count, true, &b->device);
    remat_arena_reset(b->scratch);
    return load;
}

enum {
    INLINED_MAX = 6
}; /* every subset is priced up to this size, where the longer side may change */

struct set {        /* of inlined values that the kernel's own nodes read */
    uint32_t all;   /* how many there are */
    uint32_t count; /* of them, INLINED_MAX at most, are here */
    remat_value roots[INLINED_MAX];
    double compute_ns[INLINED_MAX]; /* that each adds at least */
};

/* The least time of the kernel when it inlines a set, by bit: it may load anyway the inputs of
 * these values, or these may be one value. */
static double least_with(const struct builder *b, remat_kernel_id k, const struct set *set,
                         struct remat_load load, uint32_t with)
{
    double most_ps = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        const struct remat_slice *slice = &b->s->slices[set->roots[i].i];
        if (!(with >> i & 1))
            continue;
        load.compute_ns += set->compute_ns[i];
        load.memory_ns -= moved_ps(b, k, set->roots[i]) / 1000;
        for (uint32_t r = 0; r < slice->read_count; r++) {
            const struct need need = {.root = slice->reads[r].root, .made = set->roots[i]};
            if (!may_make(b, k, false, need.root))
                most_ps = fmax(most_ps, need_ps(b, k, false, &need));
        }
    }
    return fmax(load.compute_ns, load.memory_ns + most_ps / 1000);
}

/* Divides the costs of sets of `count` values, by bit, into a share for each value: its cost alone,
 * less where several cost less together, so that no set costs less than the sum of its shares. */
static void find_shares(uint32_t count, const double *cost, double *shares)
{
    for (uint32_t i = 0; i < count; i++)
        shares[i] = cost[1u << i];
    for (uint32_t set = 1; set < 1u << count; set++) {
        double sum = 0;
        for (uint32_t i = 0; i < count; i++)
            sum += set >> i & 1 ? shares[i] : 0;
        for (uint32_t i = 0; i < count && sum > cost[set]; i++)
            shares[i] -= set >> i & 1 ? (sum - cost[set]) / __builtin_popcount(set) : 0;
    }
}

static void charge_set(struct builder *b, remat_kernel_id k, const struct set *set,
                       struct remat_load load)
{
    double added[1 << INLINED_MAX], shares[INLINED_MAX], base = least_with(b, k, set, load, 0);
    for (uint32_t with = 0; with < 1u << set->count; with++)
        added[with] = least_with(b, k, set, load, with) - base;
    find_shares(set->count, added, shares);
    for (uint32_t i = 0; i < set->count; i++)
        charge_task(b, set->roots[i], 1000 * shares[i]);
}

/* The arithmetic that each adds: of several of one kernel the least, since they may share it. */
static struct set find_set(struct builder *b, remat_kernel_id k)
{
    const struct remat_roots *list = &b->s->inlines[k.i];
    struct set out = {0};
    for (size_t r = 0; r < list->count; r++) {
        remat_value root = list->items[r];
        if (!remat_kernel_reads(kernel_at(b, k), root) || out.all++ >= INLINED_MAX)
            continue;
        double compute_ns = load_of(b, &root, 1).compute_ns;
        for (uint32_t i = 0; i < out.count; i++)
            if (remat_settled_writer(b->s, out.roots[i]).i == remat_settled_writer(b->s, root).i)
                compute_ns = 0;
        out.roots[out.count] = root;
        out.compute_ns[out.count++] = compute_ns;
    }
    return out;
}

/* Kernels of the backward pass that inline. Where memory stays the longer side whatever they
 * inline, each value read is charged by itself; else sets of values are. */
static void add_inlining(struct builder *b, remat_kernel_id k)
{
    struct remat_load load = remat_price_load(b->s->graph, kernel_at(b, k), &b->device);
    struct set set = find_set(b, k);
    double most = load.compute_ns, least = load.memory_ns;
    add_constant(b, 1000 * (b->device.launch_ns + fmax(load.compute_ns, load.memory_ns)));
    for (uint32_t i = 0; i < set.count; i++) {
        most += set.compute_ns[i];
        least -= moved_ps(b, k, set.roots[i]) / 1000;
    }
    if (most > least && set.all <= INLINED_MAX) {
        charge_set(b, k, &set, load);
        return;
    }
    if (load.compute_ns > load.memory_ns)
        return;
    for (size_t r = 0; r < b->s->inlines[k.i].count; r++) {
        remat_value root = b->s->inlines[k.i].items[r];
        if (!remat_kernel_reads(kernel_at(b, k), root))
            continue;
        charge_task(b, root, -moved_ps(b, k, root));
        need_slice(b, root);
    }
    add_loads(b, k, false);
}

enum {
    STORES_MAX = 4
}; /* stores of a kernel that may go: every subset is priced up to this number */

/* Without the values of a set, by bit, and what makes only these. */
static double price_without(struct builder *b, remat_kernel_id k, const remat_value *roots,
                            uint32_t count, uint32_t without)
{
    const struct remat_kernel_info *whole = kernel_at(b, k);
    struct remat_roots stored = {0};
    for (uint32_t o = 0; o < whole->operand_count; o++) {
        bool stays = whole->operands[o].access & REMAT_ACCESS_WRITE;
        for (uint32_t i = 0; i < count; i++)
            stays &= !(without >> i & 1) || roots[i].i != whole->operands[o].value.i;
        if (stays)
            REMAT_PUSH(b->scratch, &stored, whole->operands[o].value);
    }
    assert(stored.count > 0); /* what leads to an output */
    struct remat_load load = remat_settled_load(b->scratch, b->s, stored.items,
                                                (uint32_t)stored.count, false, &b->device);
    remat_arena_reset(b->scratch);
    return 1000 * (b->device.launch_ns + fmax(load.compute_ns, load.memory_ns));
}

/* A forward kernel: stores of recomputed values are spared. */
static void add_stores(struct builder *b, remat_kernel_id k)
{
    struct remat_load load = remat_price_load(b->s->graph, kernel_at(b, k), &b->device);
    double all_ps = 1000 * (b->device.launch_ns + fmax(load.compute_ns, load.memory_ns));
    double costs[1 << STORES_MAX], shares[STORES_MAX];
    remat_value roots[STORES_MAX];
    uint32_t found = 0;
    add_constant(b, all_ps);
    for (size_t i = 0; i < b->s->own[k.i].count; i++) {
        remat_value root = b->s->own[k.i].items[i];
        if ((b->s->reads[root.i] & REMAT_READ_EARLY) || b->s->facts.output[root.i] ||
            moved_ps(b, k, root) == 0)
            continue;
        if (found < STORES_MAX) {
            roots[found++] = root;
        } else { /* as if each alone made the kernel run */
            add_constant(b, -ceil(all_ps));
            add_arc(b, item_node(b, root), task_node(b, root), remat_ps(ceil(all_ps)));
        }
    }
    for (uint32_t without = 0; without < 1u << found; without++)
        costs[without] = price_without(b, k, roots, found, without) - (without ? costs[0] : 0);
    find_shares(found, costs, shares); /* below zero */
    for (uint32_t i = 0; i < found; i++) {
        add_constant(b, floor(shares[i]));
        add_arc(b, item_node(b, roots[i]), task_node(b, roots[i]), -remat_ps(floor(shares[i])));
    }
}

/* The rerun of a fused kernel, by the side that is longer when it makes all that other kernels
 * load. Of arithmetic each value's share is what it alone needs. */
static void add_rerun(struct builder *b, remat_kernel_id k)
{
    const struct remat_roots *own = &b->s->own[k.i];
    bool hosted = remat_settled_host(b->s, k) != NULL;
    remat_border_node runs = add_charge(b, hosted ? 0 : 1000 * b->device.launch_ns);
    remat_value *made;
    uint32_t count = 0;
    REMAT_NEW(b->arena, made, own->count);
    for (size_t i = 0; i < own->count; i++)
        if (b->s->reads[own->items[i].i] & REMAT_READ_LOADED)
            made[count++] = own->items[i];
    struct remat_load all = load_of(b, made, count);
    for (uint32_t i = 0; i < count; i++) {
        remat_value root = made[i];
        add_arc(b, task_node(b, root), runs, REMAT_BORDER_RULE);
        if (all.memory_ns >= all.compute_ns) {
            charge_task(b, root, load_ps(b, k, root));
            need_slice(b, root);
            continue;
        }
        made[i] = made[0]; /* the others: all but made[0] */
        double rest_ns = load_of(b, made + 1, count - 1).compute_ns;
        made[i] = root;
        if (all.compute_ns > rest_ns)
            charge_task(b, root, 1000 * (all.compute_ns - rest_ns));
    }
    add_loads(b, k, true);
}

static void add_unchanged(struct builder *b, remat_kernel_id k)
{
    uint64_t ns = remat_price_least_ns(&b->prices[k.i]);
    if (b->kernel_ps)
        b->kernel_ps[k.i] = 1000 * (double)ns;
    else
        b->out->least_ns = remat_ns_add(b->out->least_ns, ns);
}

static void add_kernels(struct builder *b)
{
    struct remat_border *border = &b->out->border;
    for (remat_kernel_id k = {0}; k.i < b->s->kernels->count; k.i++) {
        const struct remat_roots *own = &b->s->own[k.i];
        bool forward = remat_kernel_in_forward_pass(b->s->kernels, k);
        b->device = remat_price_variants_on(b->described, &b->prices[k.i]);
        b->at = k;
        if (is_fused(b, k) && forward && own->count > 0) {
            add_stores(b, k);
            b->at = REMAT_NO_KERNEL;
            add_rerun(b, k);
        } else if (is_fused(b, k) && !forward && b->s->inlines[k.i].count > 0) {
            add_inlining(b, k);
        } else {
            add_unchanged(b, k);
        }
    }
    border->charge_ps = b->charges.items;
    border->charge_count = (uint32_t)b->charges.count;
    border->arcs = b->arcs.items;
    border->arc_count = (uint32_t)b->arcs.count;
    border->constant_ps = remat_ps(floor(b->constant_ps));
}

/* --- from a choice to a decision --- */

static void decide_rest(struct remat_arena *arena, struct remat_model *model)
{
    const struct remat_settled *s = model->settled;
    struct remat_decision *rest = &model->rest;
    remat_decision_create(arena, s->graph->value_count, rest);
    for (uint32_t v = 0; v < s->graph->value_count; v++)
        if (s->state[v] == REMAT_VALUE_INTERNAL)
            rest->actions[v] = REMAT_ACTION_RECOMPUTE;
    for (uint32_t i = 0; i < model->item_count; i++)
        rest->reasons[model->item_value[i].i] = "planner";
    for (uint32_t v = 0; s->pinned && v < s->graph->value_count; v++)
        if (s->pinned->reasons[v]) {
            rest->actions[v] = s->pinned->actions[v];
            rest->reasons[v] = s->pinned->reasons[v];
        }
}

void remat_model_decide(struct remat_arena *arena, const struct remat_model *model,
                        const uint8_t *actions, struct remat_decision *out)
{
    assert(!model->rest.actions || model->rest.value_count == model->settled->graph->value_count);
    const struct remat_settled *s = model->settled;
    *out = model->rest;
    out->actions = remat_copy(arena, out->actions, out->value_count, sizeof *out->actions);
    for (uint32_t i = 0; i < model->item_count; i++) {
        remat_value v = model->item_value[i];
        if (remat_is_candidate(s, v) && !(s->pinned && s->pinned->reasons[v.i]))
            out->actions[v.i] = actions[i];
    }
}

remat_status remat_model_create(struct remat_arena *arena, const struct remat_settled *settled,
                                const struct remat_price *prices,
                                const struct remat_device_description *device,
                                struct remat_model *out)
{
    struct builder b = {
        .arena = arena, .s = settled, .prices = prices, .described = device, .out = out};
    *out = (struct remat_model){.settled = settled};
    b.scratch = remat_scratch_open(arena->ctx);
    out->places = remat_places_find(arena, settled);
    if (out->places.divided)
        REMAT_NEW(arena, b.kernel_ps, settled->kernels->count);
    find_items(&b);
    add_tasks(&b);
    add_kernels(&b);
    remat_scratch_close(b.scratch);
    if (remat_border_most_ps(&out->border) > REMAT_BORDER_PS_MAX) /* 64 bits hold all costs */
        return remat_error(arena->ctx, REMAT_ERROR_USAGE,
                           "device \"%s\": recomputing every value of the graph takes more than "
                           "2^60 ps: planning ends there",
                           device->name);
    const struct remat_divided_costs costs = {b.kernel_ps, b.arc_at.items};
    if (out->places.divided)
        remat_model_divide(arena, out, &costs);
    remat_model_layers(arena, out);
    decide_rest(arena, out);
    return REMAT_OK;
}
