/* A kernel of the plan without recomputation either is named or runs a program. A named one is
 * computed again whole. A value that a program writes is computed again by the part of the program
 * it needs, down to other items; that part may become one kernel with its readers, whose traffic
 * then shrinks. docs/planning.md says why `least` is a bound. */
#include "extract.h"

#include "extract_layers.h"
#include "extract_own.h"
#include "extract_traffic.h"
#include "ops.h"

#include <math.h>

enum cost { LEAST, LIKELY };

struct extractor {
    remat_context *ctx;
    struct remat_arena *arena;
    const struct remat_graph *graph;
    const struct remat_kernel_list *kernels;
    const struct remat_price *prices;
    struct remat_device_description devices[2]; /* that programs are priced on; by cost */
    uint64_t *least_ns;                         /* by kernel */
    const struct remat_decision *pinned;
    struct remat_border_graph *out;
    struct remat_traffic_table table;
    uint32_t *task_of_kernel; /* of named kernels */
    uint64_t *source_bytes;   /* by item: the least that a kernel reads that makes it */
    double *slacks_ns; /* by kernel: what a program of the backward pass computes beyond that */
    double slack_ns;   /* the most that a kernel program of the backward pass computes
                          beyond what it moves */
    struct id_list {
        uint32_t *items;
        size_t count, capacity;
    } inputs, slice;
    struct {
        struct remat_border_read *items;
        size_t count, capacity;
    } reads[2];
    uint32_t *seen; /* by value: number of the last slice that met it */
    uint32_t slice_count;
};

static const struct remat_fused_kernel *kernel_at(const struct extractor *x, uint32_t k)
{
    return &x->kernels->kernels[k];
}

static uint32_t writer_of(const struct extractor *x, uint32_t root)
{
    return remat_traffic_writer(&x->table, root);
}

static bool is_program(const struct extractor *x, uint32_t kernel)
{
    return kernel_at(x, kernel)->kind == REMAT_KERNEL_program;
}

static bool is_program_item(const struct extractor *x, uint32_t item)
{
    return is_program(x, writer_of(x, x->out->item_value[item].i));
}

/* --- items --- */

static bool is_item(const struct extractor *x, uint32_t v)
{
    uint32_t writer = x->out->facts.root[v] == v ? writer_of(x, v) : REMAT_NONE;
    if (!x->out->facts.forward[v] || remat_is_none(writer))
        return false;
    for (uint32_t o = 0; o < kernel_at(x, writer)->operand_count; o++)
        if (kernel_at(x, writer)->operands[o].access == REMAT_ACCESS_WRITE &&
            kernel_at(x, writer)->operands[o].value.i == v)
            return true;
    return false;
}

static remat_status find_items(struct extractor *x)
{
    remat_status st = REMAT_OK;
    uint32_t count = 0;
    struct remat_border_graph *out = x->out;
    for (uint32_t v = 0; v < x->graph->value_count; v++)
        out->item_of[v] = is_item(x, v) ? count++ : REMAT_NONE;
    out->item_count = count;
    REMAT_NEW(x->arena, out->item_value, count);
    REMAT_NEW(x->arena, out->item_fused, count);
    for (uint32_t v = 0; v < x->graph->value_count; v++)
        if (!remat_is_none(out->item_of[v]))
            out->item_value[out->item_of[v]] = (remat_value){v};
fail:
    return st;
}

/* --- costs of an item's own traffic --- */

static double bytes_ps(const struct extractor *x, enum cost cost, uint64_t bytes)
{
    return 1000 * (double)bytes / x->devices[cost].memory_bytes_per_ns;
}

/* A program of the backward pass that a clone of an item which it reads could be part of. */
static bool reads_items(const struct extractor *x, uint32_t kernel)
{
    const struct remat_fused_kernel *k = kernel_at(x, kernel);
    if (remat_is_early(k) || k->kind != REMAT_KERNEL_program)
        return false;
    for (uint32_t o = 0; o < k->operand_count; o++) {
        uint32_t root = k->operands[o].value.i;
        if (k->operands[o].access == REMAT_ACCESS_READ && !remat_is_none(x->out->item_of[root]) &&
            is_program(x, writer_of(x, root)) && remat_traffic_fits(&x->table, root, kernel))
            return true;
    }
    return false;
}

static uint64_t shared_bytes(const struct extractor *x, uint32_t a, uint32_t b, uint8_t *seen)
{
    uint64_t bytes = 0;
    for (int pass = 0; pass < 3; pass++) { /* mark what a reads, count in b, unmark */
        const struct remat_fused_kernel *k = kernel_at(x, pass == 1 ? b : a);
        for (uint32_t o = 0; o < k->operand_count; o++) {
            uint32_t root = k->operands[o].value.i;
            if (pass == 1 && seen[root])
                bytes += remat_value_bytes(&x->graph->values[root]);
            else if (pass != 1)
                seen[root] = pass == 0;
        }
    }
    return bytes;
}

static int64_t program_cost(const struct extractor *x, uint32_t item, const struct remat_traffic *t,
                            enum cost cost)
{
    const struct remat_value_info *info = &x->graph->values[x->out->item_value[item].i];
    uint32_t writer = writer_of(x, x->out->item_value[item].i);
    double once = bytes_ps(x, cost, remat_value_bytes(info));
    double launch = 1000 * x->devices[cost].launch_ns;
    bool again = remat_traffic_written(t) && !(cost == LEAST && x->kernels->limited);
    uint32_t joined = cost == LEAST && x->kernels->limited ? 0 : t->joined;
    double ps = (t->forced ? 0 : -once) - once * joined;
    if (cost == LIKELY)
        return (int64_t)(ps + (again ? once : 0) + (again && !joined ? launch : 0));
    bool alone = true; /* the only thing that its kernel writes */
    for (uint32_t o = 0; o < kernel_at(x, writer)->operand_count; o++)
        alone = alone && (kernel_at(x, writer)->operands[o].access != REMAT_ACCESS_WRITE ||
                          kernel_at(x, writer)->operands[o].value.i == x->out->item_value[item].i);
    if (!t->forced && alone)
        ps = -1000 * (double)x->least_ns[writer] - once * joined;
    ps += again ? fmax(0, once - 1000 * x->slack_ns) : 0;
    return (int64_t)floor(ps) - 2000; /* kernels are priced in whole ns */
}

/* Both ways: which of two starts first does not follow from their order. */
static bool may_merge(const struct extractor *x, uint32_t a, uint32_t b)
{
    bool forward = x->table.first_node[a] < x->table.first_node[b];
    return remat_traffic_may_merge(&x->table, forward ? a : b, forward ? b : a);
}

/* What kernels of the backward pass save at most that are apart and become one because they read
 * clones: what both read, and a launch. */
static remat_status find_merges(struct extractor *x)
{
    remat_status st = REMAT_OK;
    struct id_list readers = {0};
    uint8_t *seen;
    double ps = 0;
    REMAT_NEW(x->arena, seen, x->graph->value_count);
    for (uint32_t b = 0; !x->kernels->limited && b < x->kernels->count; b++) {
        double most = 0;
        if (!reads_items(x, b))
            continue;
        for (size_t i = 0; i < readers.count; i++)
            if (may_merge(x, readers.items[i], b))
                most = fmax(most, bytes_ps(x, LEAST, shared_bytes(x, readers.items[i], b, seen)) +
                                      1000 * x->devices[LEAST].launch_ns);
        ps -= most;
        REMAT_PUSH(x->arena, &readers, b);
    }
    x->out->merge_ps = (int64_t)floor(ps);
fail:
    return st;
}

/* --- what a task needs --- */

static bool is_kernel_space(const struct extractor *x, uint32_t item, uint32_t reader)
{
    uint32_t writer = writer_of(x, x->out->item_value[item].i);
    return is_program(x, writer) && is_program(x, reader);
}

/* Some program of the backward pass reads `u` anyway and may take in the task of `item`, whose own
 * kernel ends where a named kernel reads it. */
static bool has_host(const struct extractor *x, uint32_t item, const struct remat_traffic *t,
                     uint32_t u)
{
    for (uint32_t r = x->table.reader_begin[u]; r < x->table.reader_begin[u + 1]; r++) {
        uint32_t k = x->table.readers[r];
        if (!remat_is_early(kernel_at(x, k)) && is_kernel_space(x, item, k) &&
            (!t->named || x->table.first_node[k] < x->table.first_node[t->first_named]))
            return true;
    }
    return false;
}

static remat_status push_slice(struct extractor *x, uint32_t v)
{
    remat_status st = REMAT_OK;
    uint32_t root = x->out->facts.root[v];
    if (x->seen[root] != x->slice_count) {
        x->seen[root] = x->slice_count;
        REMAT_PUSH(x->arena, &x->slice, root);
    }
fail:
    return st;
}

/* The roots that computing a kernel's nodes `from` reads from memory: appends items to x->inputs.
 * *possible: false when something that may not run again is among what it needs. */
static remat_status find_inputs(struct extractor *x, const struct remat_node_info *from,
                                bool *possible)
{
    remat_status st = REMAT_OK;
    x->slice.count = 0;
    x->slice_count++;
    for (uint32_t i = 0; i < from->input_count; i++)
        REMAT_TRY(push_slice(x, from->inputs[i].i));
    for (size_t s = 0; s < x->slice.count; s++) {
        uint32_t v = x->slice.items[s], producer = x->graph->values[v].node;
        if (!remat_is_none(x->out->item_of[v])) {
            REMAT_PUSH(x->arena, &x->inputs, x->out->item_of[v]);
        } else if (!remat_is_none(producer)) {
            const struct remat_node_info *node = &x->graph->nodes[producer];
            *possible = *possible && remat_op_recomputable(node->op);
            for (uint32_t i = 0; i < node->input_count; i++)
                REMAT_TRY(push_slice(x, node->inputs[i].i));
        }
    }
fail:
    return st;
}

/* Item `u` is made a second time in the kernel of a task that is written again for a named kernel:
 * its own program readers come later and have made it for themselves. */
static bool is_made_twice(const struct extractor *x, const struct remat_traffic *t, uint32_t u)
{
    struct remat_traffic of_u = remat_traffic_of(&x->table, x->out->item_value[u].i);
    return t->named && !of_u.named && !remat_traffic_written(&of_u) && of_u.joined > 0 &&
           x->table.first_node[of_u.first_program] > x->table.first_node[t->first_named];
}

/* Item `u` may be made from another input of the task, which is then read once for both. */
static bool shares_source(const struct extractor *x, const struct remat_border_task *task,
                          uint32_t u)
{
    const struct remat_border_task *made = &x->out->least.tasks[x->out->least.items[u].task];
    for (uint32_t a = made->input_begin; a < made->input_end; a++) {
        uint32_t source = x->inputs.items[a];
        for (uint32_t i = task->input_begin; i < task->input_end; i++)
            if (x->inputs.items[i] == source)
                return true;
        if (is_program_item(x, source) && shares_source(x, task, source))
            return true;
    }
    return false;
}

/* One of the inputs is read through its sources at least: the largest, since several may be made
 * from one source. */
static uint32_t find_largest(const struct extractor *x, const struct remat_traffic *t,
                             const struct remat_border_task *task, enum cost cost)
{
    uint32_t largest = REMAT_NONE;
    const uint64_t *bytes = x->source_bytes;
    for (uint32_t i = task->input_begin; i < task->input_end; i++) {
        uint32_t u = x->inputs.items[i];
        if (is_made_twice(x, t, u) && (cost == LIKELY || !shares_source(x, task, u)) &&
            (remat_is_none(largest) || bytes[u] > bytes[largest]))
            largest = u;
    }
    return largest;
}

static remat_status add_reads(struct extractor *x, uint32_t item, const struct remat_traffic *t,
                              const struct remat_border_task *task)
{
    remat_status st = REMAT_OK;
    for (enum cost cost = LEAST; cost <= LIKELY; cost++) {
        uint32_t largest = find_largest(x, t, task, cost);
        for (uint32_t i = task->input_begin; i < task->input_end; i++) {
            uint32_t u = x->inputs.items[i];
            struct remat_border_read read = {u, !is_program_item(x, u) ? REMAT_READ_ALWAYS
                                                : u == largest         ? REMAT_READ_SOURCE
                                                                       : REMAT_READ_UNLESS_FUSED};
            bool hosted = has_host(x, item, t, x->out->item_value[u].i);
            bool free =
                cost == LEAST ? hosted || x->kernels->limited : hosted && !remat_traffic_written(t);
            if (!free)
                REMAT_PUSH(x->arena, &x->reads[cost], read);
        }
    }
fail:
    return st;
}

/* The least that a kernel reads that makes the item: itself, or the largest thing it is made of. */
static uint64_t source_of(const struct extractor *x, uint32_t item,
                          const struct remat_border_task *task)
{
    uint64_t bytes = remat_value_bytes(&x->graph->values[x->out->item_value[item].i]), most = 0;
    if (!is_program_item(x, item))
        return bytes;
    for (uint32_t i = task->input_begin; i < task->input_end; i++)
        if (x->source_bytes[x->inputs.items[i]] > most)
            most = x->source_bytes[x->inputs.items[i]];
    return most < bytes ? most : bytes;
}

static remat_status add_task(struct extractor *x, uint32_t item, uint32_t task)
{
    remat_status st = REMAT_OK;
    uint32_t v = x->out->item_value[item].i, writer = writer_of(x, v);
    const struct remat_node_info *node = &x->graph->nodes[x->graph->values[v].node];
    bool program = is_program(x, writer), possible = x->out->facts.recomputable[v];
    struct remat_traffic traffic = remat_traffic_of(&x->table, v);
    struct remat_border_task made = {.input_begin = (uint32_t)x->inputs.count};
    size_t reads[] = {x->reads[LEAST].count, x->reads[LIKELY].count};
    REMAT_TRY(find_inputs(x, node, &possible));
    made.input_end = (uint32_t)x->inputs.count;
    made.forbidden = !possible;
    x->out->item_fused[item] = program && !remat_traffic_written(&traffic);
    x->source_bytes[item] = source_of(x, item, &made);
    if (program)
        REMAT_TRY(add_reads(x, item, &traffic, &made));
    for (enum cost cost = LEAST; cost <= LIKELY; cost++) {
        struct remat_border *border = cost == LEAST ? &x->out->least : &x->out->likely;
        border->tasks[task] = made;
        border->tasks[task].cost_ps =
            program ? program_cost(x, item, &traffic, cost) : 1000 * (int64_t)x->prices[writer].ns;
        border->tasks[task].again_ps = 1000 * (int64_t)x->prices[writer].ns;
        border->tasks[task].read_begin = (uint32_t)reads[cost];
        border->tasks[task].read_end = (uint32_t)x->reads[cost].count;
    }
fail:
    return st;
}

/* --- assembly --- */

static struct remat_border_item describe_item(const struct extractor *x, uint32_t item)
{
    uint32_t v = x->out->item_value[item].i;
    bool pinned = x->pinned->reasons[v] != NULL;
    struct remat_border_item described = {
        .bytes = remat_align_up(remat_value_bytes(&x->graph->values[v]), REMAT_ALIGNMENT),
        .kept = x->out->facts.output[v] || (pinned && x->pinned->actions[v] == REMAT_ACTION_SAVE),
        .recomputed = pinned && x->pinned->actions[v] == REMAT_ACTION_RECOMPUTE,
    };
    for (uint32_t r = x->table.reader_begin[v]; r < x->table.reader_begin[v + 1]; r++)
        described.wanted |= !remat_is_early(kernel_at(x, x->table.readers[r]));
    return described;
}

static remat_status assemble(struct extractor *x)
{
    remat_status st = REMAT_OK;
    struct remat_border *borders[] = {&x->out->least, &x->out->likely};
    uint32_t tasks = 0, count = x->out->item_count;
    for (int b = 0; b < 2; b++) {
        REMAT_NEW(x->arena, borders[b]->items, count);
        REMAT_NEW(x->arena, borders[b]->tasks, count);
        REMAT_NEW(x->arena, borders[b]->read_ps, count);
        REMAT_NEW(x->arena, borders[b]->source_ps, count);
    }
    REMAT_NEW(x->arena, x->source_bytes, count);
    for (uint32_t i = 0; i < count; i++) {
        struct remat_border_item item = describe_item(x, i);
        uint32_t writer = writer_of(x, x->out->item_value[i].i);
        bool shared = !is_program(x, writer) && x->task_of_kernel[writer] != REMAT_NONE;
        item.task = shared ? x->task_of_kernel[writer] : tasks;
        for (int b = 0; b < 2; b++)
            borders[b]->items[i] = item;
        if (shared)
            continue;
        if (!is_program(x, writer))
            x->task_of_kernel[writer] = tasks;
        REMAT_TRY(add_task(x, i, tasks++));
    }
    for (enum cost b = LEAST; b <= LIKELY; b++) {
        for (uint32_t i = 0; i < count; i++) {
            uint64_t bytes = remat_value_bytes(&x->graph->values[x->out->item_value[i].i]);
            borders[b]->read_ps[i] = (int64_t)bytes_ps(x, b, bytes);
            borders[b]->source_ps[i] = (int64_t)bytes_ps(x, b, x->source_bytes[i]);
        }
        borders[b]->item_count = count;
        borders[b]->task_count = tasks;
        borders[b]->inputs = x->inputs.items;
        borders[b]->reads = x->reads[b].items;
    }
fail:
    return st;
}

/* No decision changes what the kernel is: it writes nothing that may go unwritten, and reads
 * nothing that a clone inside it could make. */
static bool is_fixed(const struct extractor *x, uint32_t kernel)
{
    const struct remat_fused_kernel *k = kernel_at(x, kernel);
    bool fixed = k->kind != REMAT_KERNEL_program || k->phase == REMAT_PHASE_OPTIMIZER;
    if (fixed || !remat_is_early(k))
        return fixed || (!x->kernels->limited && !reads_items(x, kernel));
    for (uint32_t o = 0; o < k->operand_count; o++)
        if (k->operands[o].access == REMAT_ACCESS_WRITE &&
            !remat_traffic_of(&x->table, k->operands[o].value.i).forced)
            return false;
    return true;
}

/* Where nodes are too many for a kernel it is not known which programs any plan has, so those of
 * the backward pass count as nothing. */
static uint64_t floor_of(const struct extractor *x, uint32_t kernel)
{
    if (x->kernels->limited && !remat_is_early(kernel_at(x, kernel)))
        return 0;
    return remat_price_kernel(x->graph, kernel_at(x, kernel), &x->devices[LEAST]).ns;
}

static remat_status find_least(struct extractor *x)
{
    remat_status st = REMAT_OK;
    REMAT_NEW(x->arena, x->least_ns, x->kernels->count);
    for (uint32_t k = 0; k < x->kernels->count; k++) {
        x->least_ns[k] = is_fixed(x, k) ? x->prices[k].ns : floor_of(x, k);
        x->out->least_ns += x->least_ns[k];
    }
fail:
    return st;
}

static void find_slack(struct extractor *x)
{
    for (uint32_t k = 0; k < x->kernels->count; k++) {
        const struct remat_fused_kernel *kernel = kernel_at(x, k);
        if (remat_is_early(kernel) || kernel->kind != REMAT_KERNEL_program)
            continue;
        double moved_ns = bytes_ps(x, LEAST, x->prices[k].moved_bytes) / 1000;
        double slack_ns = (double)floor_of(x, k) - x->devices[LEAST].launch_ns - moved_ns - 1;
        x->slacks_ns[k] = fmax(0, slack_ns);
        x->slack_ns = fmax(x->slack_ns, slack_ns);
    }
}

/* The most that a program which a clone of the item could be part of hides behind its arithmetic.
 */
static double slack_of(const struct extractor *x, uint32_t item)
{
    const struct remat_shape *shape = &x->graph->values[x->out->item_value[item].i].shape;
    uint32_t writer = writer_of(x, x->out->item_value[item].i);
    bool row = shape->rank > 0 && shape->dims[shape->rank - 1] == 1;
    double most = 0;
    for (uint32_t k = 0; k < x->kernels->count; k++) {
        const struct remat_shape *space = &kernel_at(x, k)->space;
        if (x->slacks_ns[k] > most && (row || remat_shape_equal(space, shape) ||
                                       remat_shape_equal(space, &kernel_at(x, writer)->space)))
            most = x->slacks_ns[k];
    }
    return most;
}

/* Programs of the backward pass hide what clones in them read. */
static remat_status hide_reads(struct extractor *x)
{
    remat_status st = REMAT_OK;
    struct remat_border *least = &x->out->least;
    double *hidden_ps;
    REMAT_NEW(x->arena, hidden_ps, least->item_count);
    for (uint32_t i = 0; i < least->item_count && x->slack_ns > 0; i++) {
        const struct remat_border_task *task = &least->tasks[least->items[i].task];
        double ps = is_program_item(x, i) ? 1000 * slack_of(x, i) : 0;
        for (uint32_t r = task->read_begin; r < task->read_end; r++)
            hidden_ps[least->reads[r].item] = fmax(hidden_ps[least->reads[r].item], ps);
    }
    for (uint32_t i = 0; i < least->item_count; i++) {
        least->read_ps[i] = (int64_t)fmax(0, (double)least->read_ps[i] - hidden_ps[i]);
        least->source_ps[i] = (int64_t)fmax(0, (double)least->source_ps[i] - hidden_ps[i]);
    }
fail:
    return st;
}

remat_status
remat_extract_border(remat_context *ctx, struct remat_arena *arena, const struct remat_graph *graph,
                     const struct remat_kernel_list *kernels, const struct remat_price *prices,
                     const struct remat_device_description *device,
                     const struct remat_decision *pinned, struct remat_border_graph *out)
{
    remat_status st = REMAT_OK;
    struct extractor x = {.ctx = ctx,
                          .arena = arena,
                          .graph = graph,
                          .kernels = kernels,
                          .prices = prices,
                          .devices = {remat_price_floor(device), remat_price_typical(device)},
                          .pinned = pinned,
                          .out = out};
    *out = (struct remat_border_graph){0};
    REMAT_NEW(arena, out->item_of, graph->value_count);
    REMAT_NEW(arena, x.seen, graph->value_count);
    REMAT_NEW(arena, x.task_of_kernel, kernels->count);
    memset(x.task_of_kernel, 0xff, kernels->count * sizeof *x.task_of_kernel);
    REMAT_TRY(remat_facts_create(arena, graph, &out->facts));
    REMAT_TRY(remat_traffic_create(arena, graph, kernels, &out->facts, &x.table));
    REMAT_NEW(arena, x.slacks_ns, kernels->count);
    find_slack(&x);
    REMAT_TRY(find_items(&x));
    REMAT_TRY(find_least(&x));
    REMAT_TRY(assemble(&x));
    if (!kernels->limited)
        REMAT_TRY(remat_extract_own(arena, &x.table, 1000 * x.slack_ns, out));
    REMAT_TRY(hide_reads(&x));
    REMAT_TRY(find_merges(&x));
    REMAT_TRY(remat_extract_layers(arena, graph, out));
fail:
    return st;
}

/* --- from a choice to a decision --- */

remat_status remat_border_decide(struct remat_arena *arena, const struct remat_graph *graph,
                                 const struct remat_border_graph *border, const bool *keep,
                                 const struct remat_decision *pinned, struct remat_decision *out)
{
    remat_status st = REMAT_OK;
    const struct remat_facts *facts = &border->facts;
    REMAT_TRY(remat_decision_create(arena, graph->value_count, out));
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (facts->recomputable[v])
            out->actions[v] = REMAT_ACTION_FUSED;
    for (uint32_t i = 0; i < border->item_count; i++) {
        uint32_t v = border->item_value[i].i;
        out->actions[v] = keep[i] || !facts->recomputable[v] ? REMAT_ACTION_SAVE
                          : border->item_fused[i]            ? REMAT_ACTION_FUSED
                                                             : REMAT_ACTION_RECOMPUTE;
        out->reasons[v] = "planner";
    }
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (pinned->reasons[v]) {
            out->actions[v] = pinned->actions[v];
            out->reasons[v] = pinned->reasons[v];
        }
fail:
    return st;
}
