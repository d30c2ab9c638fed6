/* A kernel of the plan without recomputation either is named or runs a program. A named one is
 * computed again whole. A value that a program writes is computed again by the part of the program
 * it needs, down to other items; that part may become one kernel with its readers, whose traffic
 * then shrinks. docs/planning.md says why `least` is a bound. */
#include "extract.h"

#include "amounts.h"
#include "inner.h"
#include "launches.h"
#include "layers.h"
#include "ops.h"
#include "own.h"
#include "parts.h"
#include "sources.h"
#include "traffic.h"

#include <math.h>

#define FUSED_SHARE 0.9 /* of what writing it again takes: from here on that is chosen */

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
    struct remat_parts parts;
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

static bool is_pinned(const struct extractor *x, uint32_t v, enum remat_action action)
{
    return x->pinned->reasons[v] && x->pinned->actions[v] == action;
}

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

/* The item is the only thing that makes its kernel run. */
static bool is_alone(const struct extractor *x, uint32_t item)
{
    const struct remat_fused_kernel *writer =
        kernel_at(x, writer_of(x, x->out->item_value[item].i));
    for (uint32_t o = 0; o < writer->operand_count; o++)
        if (writer->operands[o].access == REMAT_ACCESS_WRITE &&
            remat_traffic_of(&x->table, writer->operands[o].value.i).forced)
            return false;
    return true;
}

static int64_t least_cost(const struct extractor *x, uint32_t item, const struct remat_traffic *t)
{
    const struct remat_part_readers *readers = &x->parts.readers[item];
    uint32_t v = x->out->item_value[item].i;
    double once = bytes_ps(x, LEAST, remat_value_bytes(&x->graph->values[v]));
    double ps = t->forced           ? 0
                : is_alone(x, item) ? -1000 * (double)x->least_ns[writer_of(x, v)]
                                    : -once;
    ps -= readers->joins ? once : 0;
    ps += t->named || readers->apart ? fmax(0, once - 1000 * x->parts.slack_ns) : 0;
    return remat_ps(floor(ps)) - 2000; /* kernels are priced in whole ns */
}

struct load { /* of a kernel program */
    double arithmetic_ps, traffic_ps;
};

static struct load load_of(const struct extractor *x, uint32_t kernel)
{
    const struct remat_device_description *device = &x->devices[LIKELY];
    struct remat_price price = remat_price_kernel(x->graph, kernel_at(x, kernel), device);
    return (struct load){1000 * (double)price.flops / device->pointwise_flops_per_ns,
                         bytes_ps(x, LIKELY, price.moved_bytes)};
}

/* What more arithmetic and traffic add to the time of a kernel. */
static double grown_ps(struct load load, double arithmetic_ps, double traffic_ps)
{
    return fmax(load.arithmetic_ps + arithmetic_ps, load.traffic_ps + traffic_ps) -
           fmax(load.arithmetic_ps, load.traffic_ps);
}

/* Of the inputs of a task: those that no host reads anyway, or all. */
static double reads_ps(const struct extractor *x, uint32_t item, const struct remat_traffic *t,
                       const struct remat_border_task *task, bool all)
{
    double ps = 0;
    for (uint32_t i = task->input_begin; i < task->input_end; i++) {
        uint32_t u = x->inputs.items[i], v = x->out->item_value[u].i;
        if (all || !remat_extract_has_host(&x->table, &x->parts, x->out, item, t, u))
            ps += bytes_ps(x, LIKELY, remat_value_bytes(&x->graph->values[v]));
    }
    return ps;
}

/* What the item's task takes, probably, beside its reads: as if no other item were computed again.
 */
struct guess {
    double ps;
    bool free;  /* the kernel has arithmetic to hide what the task reads behind */
    bool fused; /* kernel programs make it for themselves: that takes less than to write it again */
};

static struct guess guess_cost(const struct extractor *x, uint32_t item,
                               const struct remat_traffic *t, const struct remat_border_task *task)
{
    const struct remat_device_description *device = &x->devices[LIKELY];
    uint32_t v = x->out->item_value[item].i, writer = writer_of(x, v);
    double once = bytes_ps(x, LIKELY, remat_value_bytes(&x->graph->values[v]));
    double part = 1000 * (double)remat_price_part_flops(kernel_at(x, writer), v) /
                  device->pointwise_flops_per_ns;
    double again = remat_traffic_written(t) ? once : 0, unwritten = 0;
    double reads = reads_ps(x, item, t, task, true), fresh = reads_ps(x, item, t, task, false);
    double apart = 1000 * device->launch_ns + fmax(once, part - reads);
    struct guess guess = {.ps = again > 0 ? apart : 0, .fused = again == 0};
    if (!t->forced)
        unwritten = grown_ps(load_of(x, writer), 0, -once);
    if (t->joined) {
        struct load host = load_of(x, t->first_joined);
        double traffic = again - once * t->joined;
        double charged = again > 0 ? reads : fresh, all = grown_ps(host, part, traffic + fresh);
        guess.free = all == grown_ps(host, part, traffic);
        guess.ps = guess.free ? all : all - charged;
        if (all > FUSED_SHARE * (apart + reads)) /* who else needs it reads it then */
            guess = (struct guess){.ps = apart};
    }
    guess.ps += unwritten;
    return guess;
}

/* --- what a task needs --- */

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
 * What a pin saves lies there, too, and what the loss computes. *possible: false when something
 * that may not run again is among what it needs. */
static remat_status find_inputs(struct extractor *x, const struct remat_node_info *from,
                                bool *possible)
{
    remat_status st = REMAT_OK;
    x->slice.count = 0;
    x->slice_count++;
    for (uint32_t i = 0; i < remat_op_reads(from); i++)
        REMAT_TRY(push_slice(x, from->inputs[i].i));
    for (size_t s = 0; s < x->slice.count; s++) {
        uint32_t v = x->slice.items[s], producer = x->graph->values[v].node;
        if (!remat_is_none(x->out->item_of[v])) {
            REMAT_PUSH(x->arena, &x->inputs, x->out->item_of[v]);
        } else if (x->out->facts.forward[v] && !is_pinned(x, v, REMAT_ACTION_SAVE)) {
            const struct remat_node_info *node = &x->graph->nodes[producer];
            *possible = *possible && remat_op_recomputable(node->op);
            for (uint32_t i = 0; i < remat_op_reads(node); i++)
                REMAT_TRY(push_slice(x, node->inputs[i].i));
        }
    }
fail:
    return st;
}

/* Where `free`, reading takes no likely time. */
static remat_status add_reads(struct extractor *x, uint32_t item, const struct remat_traffic *t,
                              const struct remat_border_task *task, bool free)
{
    remat_status st = REMAT_OK;
    for (enum cost cost = LEAST; cost <= LIKELY; cost++) {
        for (uint32_t i = task->input_begin; i < task->input_end; i++) {
            uint32_t u = x->inputs.items[i];
            struct remat_traffic of_u = remat_traffic_of(&x->table, x->out->item_value[u].i);
            bool made = is_program_item(x, u) &&
                        (cost == LEAST || x->out->item_fused[u] || remat_traffic_written(&of_u));
            struct remat_border_read read = {u, made ? REMAT_READ_UNLESS_FUSED : REMAT_READ_ALWAYS};
            bool hosted = remat_extract_has_host(&x->table, &x->parts, x->out, item, t, u);
            if (cost == LEAST ? !hosted : !free && (!hosted || remat_traffic_written(t)))
                REMAT_PUSH(x->arena, &x->reads[cost], read);
        }
    }
fail:
    return st;
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
    struct guess guess = {0};
    if (program) {
        guess = guess_cost(x, item, &traffic, &made);
        REMAT_TRY(add_reads(x, item, &traffic, &made, guess.free));
    }
    x->out->item_fused[item] = guess.fused;
    for (enum cost cost = LEAST; cost <= LIKELY; cost++) {
        struct remat_border *border = cost == LEAST ? &x->out->least : &x->out->likely;
        border->tasks[task] = made;
        border->tasks[task].cost_ps = !program        ? 1000 * (int64_t)x->prices[writer].ns
                                      : cost == LEAST ? least_cost(x, item, &traffic)
                                                      : remat_ps(guess.ps);
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
    struct remat_border_item described = {
        .bytes = remat_align_up(remat_storage_bytes(&x->graph->values[v]), REMAT_ALIGNMENT),
        .kept = x->out->facts.output[v] || is_pinned(x, v, REMAT_ACTION_SAVE),
        .recomputed = is_pinned(x, v, REMAT_ACTION_RECOMPUTE),
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
            borders[b]->read_ps[i] = remat_ps(bytes_ps(x, b, bytes));
        }
        borders[b]->item_count = count;
        borders[b]->task_count = tasks;
        borders[b]->inputs = x->inputs.items;
        borders[b]->reads = x->reads[b].items;
    }
    REMAT_TRY(
        remat_extract_inner(x->arena, &x->table, x->pinned, (uint32_t)x->inputs.count, x->out));
    REMAT_TRY(remat_extract_sources(x->arena, &x->table, &x->parts, x->out));
fail:
    return st;
}

/* A program of the forward pass or the loss writes what may go unwritten, or keeps to itself what
 * may be written: what may be saved, or what a clone reads that cannot be computed again. */
static bool may_write_other(const struct extractor *x, const struct remat_fused_kernel *k)
{
    bool other = false, cloned = false, inner = false;
    for (uint32_t o = 0; o < k->operand_count; o++)
        other |= k->operands[o].access == REMAT_ACCESS_WRITE &&
                 !remat_traffic_of(&x->table, k->operands[o].value.i).forced;
    for (uint32_t n = 0; n < k->node_count; n++) {
        const struct remat_node_info *node = &x->graph->nodes[k->nodes[n].i];
        for (uint32_t o = 0; o < node->output_count; o++) {
            cloned |= x->out->facts.recomputable[node->outputs[o].i];
            inner |= remat_is_none(x->out->item_of[node->outputs[o].i]);
        }
    }
    return other || (cloned && inner);
}

/* What no decision changes has its price. Programs of the backward pass are in parts. */
static uint64_t least_of(const struct extractor *x, uint32_t kernel)
{
    const struct remat_fused_kernel *k = kernel_at(x, kernel);
    bool program = k->kind == REMAT_KERNEL_program;
    if (program && k->phase == REMAT_PHASE_BACKWARD)
        return 0;
    if (program && remat_is_early(k) && may_write_other(x, k))
        return remat_price_kernel(x->graph, k, &x->devices[LEAST]).ns;
    return x->prices[kernel].ns;
}

static remat_status find_least(struct extractor *x)
{
    remat_status st = REMAT_OK;
    REMAT_NEW(x->arena, x->least_ns, x->kernels->count);
    x->out->least_ns = x->parts.least_ns;
    for (uint32_t k = 0; k < x->kernels->count; k++) {
        x->least_ns[k] = least_of(x, k);
        x->out->least_ns = remat_ns_add(x->out->least_ns, x->least_ns[k]);
    }
fail:
    return st;
}

/* Programs of the backward pass hide what clones in them read. */
static void hide_reads(struct extractor *x)
{
    struct remat_border *least = &x->out->least;
    double hidden_ps = 1000 * x->parts.slack_ns;
    for (uint32_t i = 0; i < least->item_count; i++) {
        least->read_ps[i] = remat_ps(fmax(0, (double)least->read_ps[i] - hidden_ps));
        least->source_ps[i] = remat_ps(fmax(0, (double)least->source_ps[i] - hidden_ps));
    }
}

/* So that no choice costs more than what 64 bits hold. */
static remat_status check_costs(const struct extractor *x,
                                const struct remat_device_description *device)
{
    const struct remat_border *borders[] = {&x->out->least, &x->out->likely};
    for (int b = 0; b < 2; b++) {
        double ps = 0;
        for (uint32_t t = 0; t < borders[b]->task_count; t++) {
            const struct remat_border_task *task = &borders[b]->tasks[t];
            ps += fabs((double)task->cost_ps) + (double)task->again_ps + (double)task->launch_ps;
        }
        for (uint32_t i = 0; i < borders[b]->item_count; i++)
            ps += (double)borders[b]->read_ps[i];
        if (ps > REMAT_BORDER_PS_MAX)
            return remat_error(
                x->ctx, REMAT_ERROR_USAGE,
                "device \"%s\": recomputing every value of the graph takes more than "
                "2^60 ps: planning ends there",
                device->name);
    }
    return REMAT_OK;
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
    REMAT_TRY(find_items(&x));
    REMAT_TRY(remat_parts_create(arena, graph, kernels, prices, out, &x.devices[LEAST], &x.parts));
    REMAT_TRY(find_least(&x));
    REMAT_TRY(assemble(&x));
    REMAT_TRY(remat_extract_own(arena, &x.table, &x.parts, out));
    hide_reads(&x);
    REMAT_TRY(
        remat_extract_launches(arena, &x.table, remat_ps(1000 * x.devices[LEAST].launch_ns), out));
    REMAT_TRY(check_costs(&x, device));
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
