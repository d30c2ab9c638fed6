/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel whose content a decision changes is a site: a forward kernel that stores less, a kernel
 * of the backward pass that inlines, a rerun. What a site takes is launch + the longer of compute
 * and memory, so no less than either side: each site counts by the side that is longer when
 * everything is saved, a rerun when all of it runs. On that side costs add up, each value read once
 * by a node of its own; docs/planning.md has the proof. */
#include "closure.h"

#include "amounts.h"
#include "layers.h"
#include "ops.h"

#include <math.h>

enum { ITEMS_MAX = 64 }; /* of a kernel, whose arithmetic is charged */

struct need { /* a site needs a root where a task runs, for a slice of the kernel `writer` */
    uint32_t root, task, writer;
    uint32_t leaf; /* what it loads at least for the root: that, or what that is made of */
    double leaf_ps;
};

struct builder {
    remat_context *ctx;
    struct remat_arena *arena, *scratch;
    const struct remat_settled *s;
    const struct remat_graph *graph;
    const struct remat_kernel_list *kernels;
    const struct remat_price *prices;
    struct remat_device_description device; /* that sites are priced on */
    const struct remat_decision *pinned;
    struct remat_model *out;
    uint8_t *reads;           /* by item: enum reading */
    bool *lasting;            /* by node: it runs in the forward pass of every plan */
    uint32_t *task_of_kernel; /* of named kernels */
    struct {
        uint32_t *items;
        size_t count, capacity;
    } inputs;
    struct {
        int64_t *items;
        size_t count, capacity;
    } extras;
    struct {
        struct remat_border_arc *items;
        size_t count, capacity;
    } arcs;
    struct {
        struct need *items;
        size_t count, capacity;
    } needs;                      /* of the site at hand */
    double constant_ps, saved_ps; /* of sites; saved_ps: with everything saved */
};

enum reading {                  /* who reads an item */
               READ_EARLY = 1,  /* what of the forward pass or the loss runs in every plan, in
                                   another kernel */
               READ_LOADED = 2, /* a kernel of the backward pass from memory, whatever is decided */
               READ_LATE = 4,   /* a kernel of the backward pass or the optimizer */
};

static const struct remat_fused_kernel *kernel_at(const struct builder *b, uint32_t k)
{
    return &b->kernels->kernels[k];
}

static bool is_program(const struct builder *b, uint32_t kernel)
{
    return kernel_at(b, kernel)->kind == REMAT_KERNEL_program;
}

static uint32_t root_of(const struct builder *b, uint32_t item)
{
    return b->out->item_value[item].i;
}

static uint32_t writer_of(const struct builder *b, uint32_t item)
{
    return remat_settled_writer(b->s, root_of(b, item));
}

static bool is_candidate(const struct builder *b, uint32_t item)
{
    return remat_is_candidate(b->s, root_of(b, item));
}

static const struct remat_slice *slice_of(const struct builder *b, uint32_t item)
{
    return &b->s->slices[root_of(b, item)];
}

static bool is_pinned(const struct builder *b, uint32_t v, enum remat_action action)
{
    return b->pinned->reasons[v] && b->pinned->actions[v] == action;
}

/* --- items and tasks --- */

static void find_items(struct builder *b)
{
    uint32_t count = 0;
    struct remat_model *out = b->out;
    bool *written;
    REMAT_NEW(b->arena, written, b->graph->value_count);
    for (uint32_t k = 0; k < b->kernels->count; k++)
        for (uint32_t o = 0; o < kernel_at(b, k)->operand_count; o++)
            if (kernel_at(b, k)->operands[o].access == REMAT_ACCESS_WRITE)
                written[kernel_at(b, k)->operands[o].value.i] = true;
    for (uint32_t v = 0; v < b->graph->value_count; v++) {
        bool item = b->s->facts.forward[v] && b->s->facts.root[v] == v &&
                    (written[v] || remat_is_candidate(b->s, v));
        out->item_of[v] = item ? count++ : REMAT_NONE;
    }
    out->item_count = count;
    REMAT_NEW(b->arena, out->item_value, count);
    for (uint32_t v = 0; v < b->graph->value_count; v++)
        if (!remat_is_none(out->item_of[v]))
            out->item_value[out->item_of[v]] = (remat_value){v};
}

/* Early nodes that lead to an output or to what is no candidate and read later. Others may go where
 * what they lead to need not be stored. */
static void find_lasting(struct builder *b)
{
    const struct remat_graph *g = b->graph;
    bool *needed; /* by value */
    REMAT_NEW(b->arena, b->lasting, g->node_count);
    REMAT_NEW(b->arena, needed, g->value_count);
    for (uint32_t v = 0; v < g->value_count; v++)
        needed[v] = b->s->facts.output[b->s->facts.root[v]];
    for (uint32_t n = g->node_count; n-- > 0;) {
        const struct remat_node_info *node = &g->nodes[n];
        bool early = remat_is_early(node->phase);
        for (uint32_t o = 0; o < node->output_count; o++)
            b->lasting[n] |= early && needed[node->outputs[o].i];
        for (uint32_t i = 0; i < node->input_count && (!early || b->lasting[n]); i++) {
            uint32_t root = remat_settled_trace(b->s, node->inputs[i]).root;
            bool candidate = !remat_is_none(root) && remat_is_candidate(b->s, root);
            if (early || !candidate)
                needed[node->inputs[i].i] = true;
        }
    }
}

/* Items that lasting nodes of other kernels read. */
static void find_early(struct builder *b)
{
    for (uint32_t n = 0; n < b->graph->node_count; n++) {
        const struct remat_node_info *node = &b->graph->nodes[n];
        for (uint32_t i = 0; b->lasting[n] && i < remat_op_reads(node); i++) {
            uint32_t root = remat_settled_trace(b->s, node->inputs[i]).root;
            uint32_t item = remat_is_none(root) ? REMAT_NONE : b->out->item_of[root];
            if (!remat_is_none(item) && writer_of(b, item) != b->kernels->kernel_of_node[n] &&
                !remat_is_none(b->kernels->kernel_of_node[n]))
                b->reads[item] |= READ_EARLY;
        }
    }
}

static void find_readers(struct builder *b)
{
    REMAT_NEW(b->arena, b->reads, b->out->item_count);
    find_lasting(b);
    find_early(b);
    for (uint32_t k = 0; k < b->kernels->count; k++)
        for (uint32_t o = 0; o < kernel_at(b, k)->operand_count; o++) {
            const struct remat_kernel_operand *operand = &kernel_at(b, k)->operands[o];
            uint32_t item = b->out->item_of[operand->value.i];
            if (remat_is_none(item) || (operand->access & REMAT_ACCESS_WRITE))
                continue;
            bool inlined = remat_settled_inlines(b->s, k, operand->value.i);
            if (!remat_is_early(kernel_at(b, k)->phase))
                b->reads[item] |= READ_LATE | (inlined ? 0 : READ_LOADED);
        }
}

/* A recomputed item is made by a rerun for certain: a kernel of the backward pass loads it. */
static bool is_rerun(const struct builder *b, uint32_t item)
{
    return !b->s->inlined_by_all[root_of(b, item)] && (b->reads[item] & READ_LOADED);
}

static struct remat_border_item describe_item(const struct builder *b, uint32_t item)
{
    uint32_t v = root_of(b, item);
    struct remat_border_item described = {
        .bytes = remat_align_up(remat_storage_bytes(&b->graph->values[v]), REMAT_ALIGNMENT),
        .kept = b->s->facts.output[v] || is_pinned(b, v, REMAT_ACTION_SAVE),
        .recomputed = is_pinned(b, v, REMAT_ACTION_RECOMPUTE),
        .wanted = (b->reads[item] & READ_LATE) != 0,
    };
    return described;
}

static void push_input(struct builder *b, uint32_t root)
{
    uint32_t item = b->out->item_of[root];
    if (!remat_is_none(item))
        REMAT_PUSH(b->arena, &b->inputs, item);
}

static void add_task(struct builder *b, uint32_t item, uint32_t task)
{
    uint32_t writer = writer_of(b, item);
    struct remat_border_task *made = &b->out->border.tasks[task];
    made->input_begin = (uint32_t)b->inputs.count;
    made->forbidden = !is_candidate(b, item);
    made->again_ps = 1000 * (int64_t)b->prices[writer].ns;
    if (is_program(b, writer)) {
        for (uint32_t r = 0; r < slice_of(b, item)->read_count; r++)
            push_input(b, slice_of(b, item)->reads[r].root);
    } else {
        const struct remat_node_info *node = &b->graph->nodes[kernel_at(b, writer)->nodes[0].i];
        for (uint32_t i = 0; i < remat_op_reads(node); i++)
            push_input(b, b->s->facts.root[node->inputs[i].i]);
        made->cost_ps = 1000 * (int64_t)b->prices[writer].ns;
    }
    made->input_end = (uint32_t)b->inputs.count;
}

static void add_tasks(struct builder *b)
{
    struct remat_border *border = &b->out->border;
    uint32_t tasks = 0, count = b->out->item_count;
    border->item_count = count;
    REMAT_NEW(b->arena, border->items, count);
    REMAT_NEW(b->arena, border->tasks, count);
    REMAT_NEW(b->arena, b->task_of_kernel, b->kernels->count);
    memset(b->task_of_kernel, 0xff, b->kernels->count * sizeof *b->task_of_kernel);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t writer = writer_of(b, i);
        bool named = !is_program(b, writer);
        border->items[i] = describe_item(b, i);
        if (named && !remat_is_none(b->task_of_kernel[writer])) {
            border->items[i].task = b->task_of_kernel[writer];
            continue;
        }
        border->items[i].task = tasks;
        if (named)
            b->task_of_kernel[writer] = tasks;
        add_task(b, i, tasks++);
    }
    border->task_count = tasks;
    border->inputs = b->inputs.items;
}

/* --- charges --- */

/* The least of what nodes of a kernel load of a root, which it may make itself. */
static double load_ps(const struct builder *b, uint32_t kernel, uint32_t root)
{
    const struct remat_fused_kernel *k = kernel_at(b, kernel);
    uint64_t least = UINT64_MAX;
    for (uint32_t o = 0; o < k->operand_count; o++)
        if (k->operands[o].value.i == root) {
            uint64_t bytes = remat_price_operand_bytes(b->graph, k, o);
            least = bytes < least ? bytes : least;
        }
    return least == UINT64_MAX ? 0 : 1000 * (double)least / b->device.memory_bytes_per_ns;
}

/* What a kernel moves for a value. */
static double moved_ps(const struct builder *b, uint32_t kernel, uint32_t root)
{
    return 1000 * (double)remat_price_value_bytes(b->graph, kernel_at(b, kernel), root) /
           b->device.memory_bytes_per_ns;
}

static uint32_t task_node(const struct builder *b, uint32_t item)
{
    return remat_border_task_node(&b->out->border, b->out->border.items[item].task);
}

/* Extras are numbered behind the tasks. */
static uint32_t add_extra(struct builder *b, double ps)
{
    uint32_t out_node = remat_border_extra_node(&b->out->border, (uint32_t)b->extras.count);
    REMAT_PUSH(b->arena, &b->extras, remat_ps(floor(ps)));
    return out_node;
}

static void add_arc(struct builder *b, uint32_t from, uint32_t to, int64_t ps)
{
    if (ps != 0)
        REMAT_PUSH(b->arena, &b->arcs, ((struct remat_border_arc){from, to, ps}));
}

static void charge_task(struct builder *b, uint32_t item, double ps)
{
    struct remat_border_task *task = &b->out->border.tasks[b->out->border.items[item].task];
    task->cost_ps += remat_ps(floor(ps));
}

/* --- what a site reads --- */

/* A value that the site may make for itself in place of loading it. */
static bool may_make(const struct builder *b, uint32_t kernel, bool rerun, uint32_t root)
{
    return remat_settled_inlines(b->s, kernel, root) ||
           (rerun && remat_settled_writer(b->s, root) == kernel && remat_is_candidate(b->s, root));
}

/* Where the site needs the root, whatever else is decided: at least leaf_ps for loading the leaf.
 */
static void find_leaf(const struct builder *b, uint32_t kernel, bool rerun, struct need *need)
{
    uint32_t item = b->out->item_of[need->root];
    bool reads = !rerun && remat_kernel_reads(kernel_at(b, kernel), need->root);
    double most_ps = 0;
    need->leaf = need->root;
    need->leaf_ps = reads ? 0 : load_ps(b, need->writer, need->root);
    if (need->leaf_ps == 0 || remat_is_none(item) || !may_make(b, kernel, rerun, need->root))
        return;
    for (uint32_t r = 0; r < slice_of(b, item)->read_count; r++) {
        struct need of = {slice_of(b, item)->reads[r].root, need->task, writer_of(b, item), 0, 0};
        find_leaf(b, kernel, rerun, &of);
        if (of.leaf_ps > most_ps) {
            most_ps = of.leaf_ps;
            need->leaf = of.leaf;
        }
    }
    need->leaf_ps = fmin(most_ps, need->leaf_ps);
}

/* An extra for each leaf. */
struct charges {
    struct charge {
        uint32_t leaf, node;
        double least_ps;
    } * items;
    size_t count, capacity;
};

static struct charge *find_charge(struct builder *b, struct charges *list, const struct need *need)
{
    for (size_t c = 0; c < list->count; c++)
        if (list->items[c].leaf == need->leaf)
            return &list->items[c];
    REMAT_PUSH(b->arena, list, ((struct charge){.leaf = need->leaf, .least_ps = need->leaf_ps}));
    return &list->items[list->count - 1];
}

/* What of a need is beyond the charge for its leaf: paid where the site loads the root itself. */
static void add_rest(struct builder *b, uint32_t kernel, bool rerun, const struct need *need,
                     double ps)
{
    bool may = may_make(b, kernel, rerun, need->root);
    uint32_t own = add_extra(b, may ? 0 : ps);
    for (const struct need *n = need; n < b->needs.items + b->needs.count; n++) {
        if (n->root == need->root)
            add_arc(b, remat_border_task_node(&b->out->border, n->task), own, REMAT_BORDER_RULE);
        if (n == need && may)
            add_arc(b, own, task_node(b, b->out->item_of[need->root]), remat_ps(floor(ps)));
    }
}

/* Loads of the needs that were collected: each root is charged once, in full where the site loads
 * it for certain. Where it may make it, that costs what making it does at least, and where it does
 * not, the rest. */
static void add_loads(struct builder *b, uint32_t kernel, bool rerun)
{
    struct charges list = {0};
    struct need *needs = b->needs.items;
    for (size_t n = 0; n < b->needs.count; n++) {
        find_leaf(b, kernel, rerun, &needs[n]);
        if (needs[n].leaf_ps > 0) {
            struct charge *charge = find_charge(b, &list, &needs[n]);
            charge->least_ps = fmin(charge->least_ps, needs[n].leaf_ps);
        }
    }
    for (size_t c = 0; c < list.count; c++)
        list.items[c].node = add_extra(b, list.items[c].least_ps);
    for (size_t n = 0; n < b->needs.count; n++) {
        uint32_t root = needs[n].root;
        double charged = 0, all = INFINITY;
        bool first = true;
        if (needs[n].leaf_ps > 0) {
            const struct charge *charge = find_charge(b, &list, &needs[n]);
            charged = charge->least_ps;
            add_arc(b, remat_border_task_node(&b->out->border, needs[n].task), charge->node,
                    REMAT_BORDER_RULE);
        }
        for (size_t m = 0; m < b->needs.count; m++)
            if (needs[m].root == root) {
                first &= m >= n;
                all = fmin(all, load_ps(b, needs[m].writer, root));
            }
        bool reads = !rerun && remat_kernel_reads(kernel_at(b, kernel), root);
        if (first && !reads && all >= charged + 1)
            add_rest(b, kernel, rerun, &needs[n], all - charged);
    }
    b->needs.count = 0;
}

static void need_slice(struct builder *b, uint32_t item)
{
    const struct remat_slice *slice = slice_of(b, item);
    for (uint32_t r = 0; r < slice->read_count; r++)
        REMAT_PUSH(b->arena, &b->needs,
                   ((struct need){slice->reads[r].root, b->out->border.items[item].task,
                                  writer_of(b, item), 0, 0}));
}

/* Each of the items' own share of the arithmetic that makes them all: what it alone needs. */
static void charge_flops(struct builder *b, const uint32_t *items, uint32_t count)
{
    uint32_t roots[ITEMS_MAX];
    if (count == 0 || count > ITEMS_MAX)
        return;
    for (uint32_t i = 0; i < count; i++)
        roots[i] = root_of(b, items[i]);
    double all_ns = remat_settled_load(b->scratch, b->s, roots, count, &b->device).compute_ns;
    for (uint32_t i = 0; i < count; i++) { /* the others: all but roots[0] */
        roots[0] = root_of(b, items[i]);
        roots[i] = root_of(b, items[0]);
        struct remat_load rest = {0};
        if (count > 1)
            rest = remat_settled_load(b->scratch, b->s, roots + 1, count - 1, &b->device);
        if (all_ns > rest.compute_ns)
            charge_task(b, items[i], 1000 * (all_ns - rest.compute_ns));
        roots[i] = root_of(b, items[i]);
    }
    remat_arena_reset(b->scratch);
}

/* --- sites --- */

static void count_site(struct builder *b, double ps)
{
    b->constant_ps += ps;
    b->saved_ps += ps;
}

enum { INLINED_MAX = 6 }; /* of which all sets are looked at, where the longer side changes */

struct set { /* of what a kernel inlines of what it reads itself */
    uint32_t count, items[INLINED_MAX];
    double compute_ns[INLINED_MAX]; /* that each adds at least */
};

/* What the kernel takes at least when it inlines a set, by bit: what these values read may be
 * loaded by the kernel anyway, or be one value. */
static double least_with(const struct builder *b, uint32_t k, const struct set *set,
                         struct remat_load load, uint32_t with)
{
    double most_ps = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        const struct remat_slice *slice = slice_of(b, set->items[i]);
        if (!(with >> i & 1))
            continue;
        load.compute_ns += set->compute_ns[i];
        load.memory_ns -= moved_ps(b, k, root_of(b, set->items[i])) / 1000;
        for (uint32_t r = 0; r < slice->read_count; r++) {
            struct need need = {slice->reads[r].root, 0, writer_of(b, set->items[i]), 0, 0};
            find_leaf(b, k, false, &need);
            most_ps = fmax(most_ps, need.leaf_ps);
        }
    }
    return fmax(load.compute_ns, load.memory_ns + most_ps / 1000);
}

/* Shares of what sets of `count` values cost, by bit and beyond nothing: what each costs alone,
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

static void charge_set(struct builder *b, uint32_t k, const struct set *set, struct remat_load load)
{
    double added[1 << INLINED_MAX], shares[INLINED_MAX], base = least_with(b, k, set, load, 0);
    for (uint32_t with = 0; with < 1u << set->count; with++)
        added[with] = least_with(b, k, set, load, with) - base;
    find_shares(set->count, added, shares);
    for (uint32_t i = 0; i < set->count; i++)
        charge_task(b, set->items[i], 1000 * shares[i]);
}

/* The arithmetic that each adds: of several of one kernel the least, since they may share it. */
static void find_set(struct builder *b, uint32_t k, struct set *out, uint32_t *all)
{
    const struct remat_inlined *list = &b->s->inlined[k];
    *all = 0;
    for (uint32_t r = 0; r < list->count; r++) {
        uint32_t item = b->out->item_of[list->roots[r]];
        struct remat_load load;
        if (!remat_kernel_reads(kernel_at(b, k), list->roots[r]) || (*all)++ >= INLINED_MAX)
            continue;
        load = remat_settled_load(b->scratch, b->s, &list->roots[r], 1, &b->device);
        remat_arena_reset(b->scratch);
        for (uint32_t i = 0; i < out->count; i++)
            if (writer_of(b, out->items[i]) == writer_of(b, item))
                load.compute_ns = 0;
        out->items[out->count] = item;
        out->compute_ns[out->count++] = load.compute_ns;
    }
}

/* Kernels of the backward pass that inline. Where memory stays the longer side whatever they
 * inline, each value read is charged by itself; else sets of values are. */
static void add_inlining(struct builder *b, uint32_t k)
{
    struct remat_load load = remat_price_load(b->graph, kernel_at(b, k), &b->device);
    struct set set = {0};
    double most = load.compute_ns, least = load.memory_ns;
    uint32_t all;
    count_site(b, 1000 * (b->device.launch_ns + fmax(load.compute_ns, load.memory_ns)));
    find_set(b, k, &set, &all);
    for (uint32_t i = 0; i < set.count; i++) {
        most += set.compute_ns[i];
        least -= moved_ps(b, k, root_of(b, set.items[i])) / 1000;
    }
    if (most > least && all <= INLINED_MAX) {
        charge_set(b, k, &set, load);
        return;
    }
    if (load.compute_ns > load.memory_ns)
        return;
    for (uint32_t r = 0; r < b->s->inlined[k].count; r++) {
        uint32_t root = b->s->inlined[k].roots[r];
        if (!remat_kernel_reads(kernel_at(b, k), root))
            continue;
        charge_task(b, b->out->item_of[root], -moved_ps(b, k, root));
        need_slice(b, b->out->item_of[root]);
    }
    add_loads(b, k, false);
}

enum { STORES_MAX = 4 }; /* of a kernel that may go: of all sets of them the price is known */

/* Without the values of a set, by bit, and what makes only these. */
static double price_without(struct builder *b, uint32_t k, const uint32_t *roots, uint32_t count,
                            uint32_t without)
{
    const struct remat_fused_kernel *whole = kernel_at(b, k);
    const struct remat_graph *g = b->graph;
    uint8_t *stored = b->s->stored;
    uint32_t begin = whole->node_count;
    remat_node *nodes;
    bool *needed; /* by node of the kernel */
    REMAT_NEW(b->scratch, nodes, whole->node_count);
    REMAT_NEW(b->scratch, needed, whole->node_count);
    for (uint32_t o = 0; o < whole->operand_count; o++)
        stored[whole->operands[o].value.i] = 1;
    for (uint32_t i = 0; i < count; i++)
        stored[roots[i]] = !(without >> i & 1);
    for (uint32_t n = whole->node_count; n-- > 0;) {
        const struct remat_node_info *node = &g->nodes[whole->nodes[n].i];
        if (!stored[node->outputs[0].i] && !needed[n])
            continue;
        nodes[--begin] = whole->nodes[n];
        for (uint32_t i = 0; i < remat_op_reads(node); i++) {
            uint32_t root = remat_settled_trace(b->s, node->inputs[i]).root;
            for (uint32_t m = 0; !remat_is_none(root) && m < n; m++)
                needed[m] |= whole->nodes[m].i == g->values[root].node;
        }
    }
    double ps = 0;
    if (begin < whole->node_count) {
        struct remat_fused_kernel part = remat_fuse_nodes(b->scratch, g, whole, nodes + begin,
                                                          whole->node_count - begin, stored);
        struct remat_load load = remat_price_load(g, &part, &b->device);
        ps = 1000 * (b->device.launch_ns + fmax(load.compute_ns, load.memory_ns));
    }
    for (uint32_t o = 0; o < whole->operand_count; o++)
        stored[whole->operands[o].value.i] = 0;
    remat_arena_reset(b->scratch);
    return ps;
}

/* A forward kernel: what it need not store is spared. */
static void add_stores(struct builder *b, uint32_t k, const uint32_t *items, uint32_t count)
{
    struct remat_load load = remat_price_load(b->graph, kernel_at(b, k), &b->device);
    double all_ps = 1000 * (b->device.launch_ns + fmax(load.compute_ns, load.memory_ns));
    double costs[1 << STORES_MAX], shares[STORES_MAX];
    uint32_t roots[STORES_MAX], optional[STORES_MAX], found = 0;
    count_site(b, all_ps);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t root = root_of(b, items[i]);
        if ((b->reads[items[i]] & READ_EARLY) || b->s->facts.output[root] ||
            moved_ps(b, k, root) == 0)
            continue;
        if (found == STORES_MAX) { /* as if each alone made the kernel run */
            b->constant_ps -= ceil(all_ps);
            add_arc(b, items[i], task_node(b, items[i]), remat_ps(ceil(all_ps)));
            continue;
        }
        roots[found] = root;
        optional[found++] = items[i];
    }
    for (uint32_t without = 0; without < 1u << found; without++)
        costs[without] = price_without(b, k, roots, found, without) - (without ? costs[0] : 0);
    find_shares(found, costs, shares); /* below zero */
    for (uint32_t i = 0; i < found; i++) {
        b->constant_ps += floor(shares[i]);
        add_arc(b, optional[i], task_node(b, optional[i]), -remat_ps(floor(shares[i])));
    }
}

/* Of a rerun for all of the items that it makes for certain. */
static bool is_bound_by_memory(struct builder *b, const uint32_t *items, uint32_t count)
{
    uint32_t roots[ITEMS_MAX], made = 0;
    struct remat_load load;
    for (uint32_t i = 0; i < count && made < ITEMS_MAX; i++)
        if (is_rerun(b, items[i]))
            roots[made++] = root_of(b, items[i]);
    if (made == 0)
        return true;
    load = remat_settled_load(b->scratch, b->s, roots, made, &b->device);
    remat_arena_reset(b->scratch);
    return load.memory_ns >= load.compute_ns;
}

/* The rerun of a fused kernel. */
static void add_rerun(struct builder *b, uint32_t k, const uint32_t *items, uint32_t count)
{
    uint32_t runs, made = 0, again[ITEMS_MAX];
    bool memory = is_bound_by_memory(b, items, count);
    runs = add_extra(b, 1000 * b->device.launch_ns);
    for (uint32_t i = 0; i < count; i++) {
        if (!is_rerun(b, items[i]))
            continue;
        if (made < ITEMS_MAX)
            again[made] = items[i];
        made++;
        add_arc(b, task_node(b, items[i]), runs, REMAT_BORDER_RULE);
        if (memory) {
            charge_task(b, items[i], load_ps(b, k, root_of(b, items[i])));
            need_slice(b, items[i]);
        }
    }
    if (!memory)
        charge_flops(b, again, made);
    add_loads(b, k, true);
}

static bool is_lasting(const struct builder *b, uint32_t k)
{
    bool any = false;
    for (uint32_t n = 0; n < kernel_at(b, k)->node_count; n++)
        any |= b->lasting[kernel_at(b, k)->nodes[n].i];
    return any;
}

static void add_sites(struct builder *b)
{
    uint32_t *items;
    REMAT_NEW(b->arena, items, b->out->item_count);
    for (uint32_t k = 0; k < b->kernels->count; k++) {
        uint32_t count = 0;
        const struct remat_fused_kernel *kernel = kernel_at(b, k);
        for (uint32_t n = 0; n < kernel->node_count; n++)
            for (uint32_t o = 0; o < b->graph->nodes[kernel->nodes[n].i].output_count; o++) {
                uint32_t item = b->out->item_of[b->graph->nodes[kernel->nodes[n].i].outputs[o].i];
                if (!remat_is_none(item) && is_candidate(b, item))
                    items[count++] = item;
            }
        if (is_program(b, k) && remat_is_early(kernel->phase) && count > 0) {
            add_stores(b, k, items, count);
            add_rerun(b, k, items, count);
        } else if (is_program(b, k) && !remat_is_early(kernel->phase) &&
                   b->s->inlined[k].count > 0) {
            add_inlining(b, k);
        } else if (remat_is_early(kernel->phase) && count > 0 && !is_lasting(b, k)) {
            double ps = 1000 * (double)b->prices[k].ns;
            b->saved_ps += ps;
            for (uint32_t i = 0; i < count; i++)
                add_arc(b, items[i], task_node(b, items[i]), remat_ps(floor(ps / count)));
        } else {
            b->out->least_ns = remat_ns_add(b->out->least_ns, b->prices[k].ns);
        }
    }
    b->out->border.extra_ps = b->extras.items;
    b->out->border.extra_count = (uint32_t)b->extras.count;
    b->out->border.arcs = b->arcs.items;
    b->out->border.arc_count = (uint32_t)b->arcs.count;
    b->out->border.constant_ps = remat_ps(floor(b->constant_ps));
    b->out->saved_ns = remat_ns_add(b->out->least_ns, remat_ns_ceil(b->saved_ps / 1000));
}

/* So that no choice costs more than what 64 bits hold. */
static remat_status check_costs(const struct builder *b, const char *device)
{
    const struct remat_border *border = &b->out->border;
    double ps = fabs((double)border->constant_ps);
    for (uint32_t t = 0; t < border->task_count; t++)
        ps += fabs((double)border->tasks[t].cost_ps) + (double)border->tasks[t].again_ps;
    for (uint32_t e = 0; e < border->extra_count; e++)
        ps += (double)border->extra_ps[e];
    for (uint32_t a = 0; a < border->arc_count; a++)
        ps += fmax(0, (double)border->arcs[a].ps);
    if (ps > REMAT_BORDER_PS_MAX)
        return remat_error(b->ctx, REMAT_ERROR_USAGE,
                           "device \"%s\": recomputing every value of the graph takes more than "
                           "2^60 ps: planning ends there",
                           device);
    return REMAT_OK;
}

remat_status remat_model_create(remat_context *ctx, struct remat_arena *arena,
                                const struct remat_settled *settled,
                                const struct remat_price *prices,
                                const struct remat_device_description *device,
                                const struct remat_decision *pinned, struct remat_model *out)
{
    remat_status st = REMAT_OK;
    struct builder b = {.ctx = ctx,
                        .arena = arena,
                        .s = settled,
                        .graph = settled->graph,
                        .kernels = settled->kernels,
                        .prices = prices,
                        .device = remat_price_floor(device),
                        .pinned = pinned,
                        .out = out};
    *out = (struct remat_model){.settled = settled};
    b.scratch = remat_scratch_open(ctx);
    REMAT_NEW(arena, out->item_of, settled->graph->value_count);
    find_items(&b);
    find_readers(&b);
    add_tasks(&b);
    add_sites(&b);
    REMAT_TRY(check_costs(&b, device->name));
    remat_model_layers(arena, settled->graph, out);
fail:
    remat_scratch_close(b.scratch);
    return st;
}

/* --- from a choice to a decision --- */

void remat_model_decide(struct remat_arena *arena, const struct remat_model *model,
                        const bool *keep, const struct remat_decision *pinned,
                        struct remat_decision *out)
{
    const struct remat_settled *s = model->settled;
    remat_decision_create(arena, s->graph->value_count, out);
    for (uint32_t v = 0; v < s->graph->value_count; v++)
        if (s->standing[v] == REMAT_STANDING_INTERNAL)
            out->actions[v] = REMAT_ACTION_RECOMPUTE;
    for (uint32_t i = 0; i < model->item_count; i++) {
        uint32_t v = model->item_value[i].i;
        out->actions[v] = keep[i] || s->standing[v] != REMAT_STANDING_CANDIDATE
                              ? REMAT_ACTION_SAVE
                              : REMAT_ACTION_RECOMPUTE;
        out->reasons[v] = "planner";
    }
    for (uint32_t v = 0; v < s->graph->value_count; v++)
        if (pinned->reasons[v]) {
            out->actions[v] = pinned->actions[v];
            out->reasons[v] = pinned->reasons[v];
        }
}
