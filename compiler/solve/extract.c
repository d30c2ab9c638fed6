/* A kernel of the plan without recomputation either is named or runs a program. A named one is
 * computed again whole. A value that a program writes is computed again by the part of the program
 * it needs, down to other items; that part may become one kernel with its readers, whose traffic
 * then shrinks. docs/planning.md says why `least` is a bound. */
#include "extract.h"

#include "facts.h"
#include "ops.h"

#include <math.h>

enum cost { LEAST, LIKELY };

struct extractor {
    remat_context *ctx;
    struct remat_arena *arena;
    const struct remat_graph *graph;
    const struct remat_kernel_list *kernels;
    const struct remat_price *prices;
    const struct remat_device_description *device;
    const struct remat_decision *pinned;
    struct remat_border_graph *out;
    struct remat_facts facts;
    uint32_t *reader_begin, *readers; /* by root: kernels that read it, each once, ascending */
    uint32_t *task_of_kernel;         /* of named kernels */
    double *slack_ns;                 /* by region, the last one is no layer: the most that a kernel
                                         program of its backward pass computes beyond what it moves */
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

static bool is_early(const struct remat_fused_kernel *kernel)
{
    return kernel->phase == REMAT_PHASE_FORWARD || kernel->phase == REMAT_PHASE_LOSS;
}

static uint32_t writer_of(const struct extractor *x, uint32_t root)
{
    uint32_t node = x->graph->values[root].node;
    return remat_is_none(node) ? REMAT_NONE : x->kernels->kernel_of_node[node];
}

static bool is_program(const struct extractor *x, uint32_t kernel)
{
    return kernel_at(x, kernel)->kind == REMAT_KERNEL_program;
}

/* --- who reads what --- */

/* Calls for each root that a kernel reads, once: counts or records by `fill`. */
static void visit_reads(struct extractor *x, uint32_t *last, uint32_t *at, bool fill)
{
    for (uint32_t k = 0; k < x->kernels->count; k++)
        for (uint32_t o = 0; o < kernel_at(x, k)->operand_count; o++) {
            const struct remat_kernel_operand *operand = &kernel_at(x, k)->operands[o];
            if (operand->access == REMAT_ACCESS_WRITE)
                continue;
            uint32_t root =
                operand->access == REMAT_ACCESS_UPDATE ? operand->previous.i : operand->value.i;
            if (last[root] == k + 1)
                continue;
            last[root] = k + 1;
            if (fill)
                x->readers[at[root]] = k;
            at[root]++;
        }
}

static remat_status find_readers(struct extractor *x)
{
    remat_status st = REMAT_OK;
    uint32_t count = x->graph->value_count, *last, *at;
    REMAT_NEW(x->arena, last, count);
    REMAT_NEW(x->arena, at, count + 1);
    REMAT_NEW(x->arena, x->reader_begin, count + 1);
    visit_reads(x, last, at, false);
    for (uint32_t v = 0; v < count; v++)
        x->reader_begin[v + 1] = x->reader_begin[v] + at[v];
    REMAT_NEW(x->arena, x->readers, x->reader_begin[count]);
    memset(last, 0, count * sizeof *last);
    memcpy(at, x->reader_begin, (count + 1) * sizeof *at);
    visit_reads(x, last, at, true);
fail:
    return st;
}

/* --- items and regions --- */

/* Layers in the order in which the forward pass reaches them. */
static remat_status number_regions(struct extractor *x, uint32_t *region_of_scope)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = x->graph;
    struct id_list found = {0}; /* a scope of each region */
    for (uint32_t s = 0; s < g->scope_count; s++)
        region_of_scope[s] = REMAT_NONE;
    for (uint32_t n = 0; n < g->node_count; n++) {
        uint32_t s = g->nodes[n].scope;
        const struct remat_scope *scope = &g->scopes[s];
        if (scope->layer < 0 || !remat_is_none(region_of_scope[s]))
            continue;
        for (size_t r = found.count; r-- > 0 && remat_is_none(region_of_scope[s]);) {
            const struct remat_scope *other = &g->scopes[found.items[r]];
            if (other->layer == scope->layer && strcmp(other->stack, scope->stack) == 0)
                region_of_scope[s] = (uint32_t)r;
        }
        if (remat_is_none(region_of_scope[s])) {
            region_of_scope[s] = (uint32_t)found.count;
            REMAT_PUSH(x->arena, &found, s);
        }
    }
    x->out->region_count = (uint32_t)found.count;
fail:
    return st;
}

static bool is_item(const struct extractor *x, uint32_t v)
{
    uint32_t writer = x->facts.root[v] == v ? writer_of(x, v) : REMAT_NONE;
    if (!x->facts.forward[v] || remat_is_none(writer))
        return false;
    for (uint32_t o = 0; o < kernel_at(x, writer)->operand_count; o++)
        if (kernel_at(x, writer)->operands[o].access == REMAT_ACCESS_WRITE &&
            kernel_at(x, writer)->operands[o].value.i == v)
            return true;
    return false;
}

static remat_status find_items(struct extractor *x, const uint32_t *region_of_scope)
{
    remat_status st = REMAT_OK;
    const struct remat_graph *g = x->graph;
    uint32_t count = 0;
    struct remat_border_graph *out = x->out;
    for (uint32_t v = 0; v < g->value_count; v++) {
        x->out->item_of[v] = is_item(x, v) ? count++ : REMAT_NONE;
    }
    out->item_count = count;
    REMAT_NEW(x->arena, out->item_value, count);
    REMAT_NEW(x->arena, out->item_region, count);
    REMAT_NEW(x->arena, out->item_crosses, count);
    REMAT_NEW(x->arena, out->item_fused, count);
    for (uint32_t v = 0; v < g->value_count; v++) {
        uint32_t i = x->out->item_of[v];
        if (remat_is_none(i))
            continue;
        out->item_value[i] = (remat_value){v};
        out->item_region[i] = region_of_scope[g->nodes[g->values[v].node].scope];
        for (uint32_t r = x->reader_begin[v]; r < x->reader_begin[v + 1]; r++) {
            const struct remat_fused_kernel *reader = kernel_at(x, x->readers[r]);
            out->item_crosses[i] |=
                is_early(reader) && region_of_scope[reader->scope] != out->item_region[i];
        }
    }
fail:
    return st;
}

/* --- costs of an item's own traffic --- */

struct traffic {                   /* of one value in the plan without recomputation */
    bool forced;                   /* written in the forward pass in any case */
    uint32_t named, rows, columns; /* kernels that read it later */
    uint32_t early_rows;           /* rows before the first named one */
    uint32_t first_named, first_program;
};

static bool sums_columns(const struct extractor *x, const struct remat_fused_kernel *kernel)
{
    bool sums = false;
    for (uint32_t n = 0; n < kernel->node_count; n++)
        sums |= remat_op_has(x->graph->nodes[kernel->nodes[n].i].op, REMAT_FACT_COLUMN_REDUCE);
    return sums;
}

static struct traffic traffic_of(const struct extractor *x, uint32_t v)
{
    struct traffic t = {
        .forced = x->facts.output[v], .first_named = REMAT_NONE, .first_program = REMAT_NONE};
    for (uint32_t r = x->reader_begin[v]; r < x->reader_begin[v + 1]; r++) {
        const struct remat_fused_kernel *reader = kernel_at(x, x->readers[r]);
        if (is_early(reader)) {
            t.forced = true;
        } else if (reader->kind != REMAT_KERNEL_program) {
            t.first_named = t.named++ ? t.first_named : x->readers[r];
        } else {
            bool columns = sums_columns(x, reader);
            t.columns += columns;
            t.rows += !columns;
            t.early_rows += !columns && !t.named;
            if (remat_is_none(t.first_program))
                t.first_program = x->readers[r];
        }
    }
    return t;
}

/* A value that only row and pointwise kernels read may be made in all of them at once; one that
 * named kernels, or column kernels beside others, read is written again. */
static bool is_written_again(const struct traffic *t)
{
    return t->named > 0 || (t->columns > 0 && (t->rows > 0 || t->columns > 1));
}

static double bytes_ps(const struct extractor *x, uint64_t bytes)
{
    return 1000 * (double)bytes / x->device->memory_bytes_per_ns;
}

static int64_t program_cost(const struct extractor *x, uint32_t item, const struct traffic *t,
                            enum cost cost)
{
    const struct remat_value_info *info = &x->graph->values[x->out->item_value[item].i];
    uint32_t writer = writer_of(x, x->out->item_value[item].i);
    double once = bytes_ps(x, remat_value_bytes(info)), launch = 1000 * x->device->launch_ns;
    bool again = is_written_again(t);
    double ps = t->forced ? 0 : -once;
    uint32_t region = x->out->item_region[item];
    double slack = 1000 * x->slack_ns[remat_is_none(region) ? x->out->region_count : region];
    if (cost == LIKELY) {
        if (again)
            return (int64_t)(ps + launch + once);
        return (int64_t)(ps - (t->rows + t->columns == 1 ? once : 0));
    }
    bool alone = true; /* the only thing that its kernel writes */
    for (uint32_t o = 0; o < kernel_at(x, writer)->operand_count; o++)
        alone = alone && (kernel_at(x, writer)->operands[o].access != REMAT_ACCESS_WRITE ||
                          kernel_at(x, writer)->operands[o].value.i == x->out->item_value[item].i);
    if (!t->forced && alone)
        ps = -1000 * (double)x->prices[writer].ns;
    ps -= once * (again ? t->early_rows : t->rows + t->columns);
    ps -= launch * (t->early_rows > 1 ? t->early_rows - 1 : 0);
    ps += again ? fmax(0, once - slack) : 0;
    return (int64_t)floor(ps) - 2000; /* kernels are priced in whole ns */
}

/* --- what a task needs --- */

static bool is_kernel_space(const struct extractor *x, uint32_t item, uint32_t reader)
{
    uint32_t writer = writer_of(x, x->out->item_value[item].i);
    return is_program(x, writer) && is_program(x, reader);
}

/* Some program of the backward pass reads `u` anyway and may take in the task of `item`, whose own
 * kernel ends where a named kernel reads it. */
static bool has_host(const struct extractor *x, uint32_t item, const struct traffic *t, uint32_t u)
{
    for (uint32_t r = x->reader_begin[u]; r < x->reader_begin[u + 1]; r++) {
        uint32_t k = x->readers[r];
        if (!is_early(kernel_at(x, k)) && is_kernel_space(x, item, k) &&
            (!t->named || k < t->first_named))
            return true;
    }
    return false;
}

static remat_status push_slice(struct extractor *x, uint32_t v)
{
    remat_status st = REMAT_OK;
    uint32_t root = x->facts.root[v];
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
static bool is_made_twice(const struct extractor *x, const struct traffic *t, uint32_t u)
{
    struct traffic of_u = traffic_of(x, x->out->item_value[u].i);
    return t->named && !of_u.named && !is_written_again(&of_u) && of_u.rows + of_u.columns > 0 &&
           of_u.first_program > t->first_named;
}

/* One of the inputs is read through its sources at least: the largest, since several may be made
 * from one source. */
static remat_status add_reads(struct extractor *x, uint32_t item, const struct traffic *t,
                              const struct remat_border_task *task)
{
    remat_status st = REMAT_OK;
    uint32_t largest = REMAT_NONE;
    const int64_t *source_ps = x->out->least.source_ps;
    for (uint32_t i = task->input_begin; i < task->input_end; i++) {
        uint32_t u = x->inputs.items[i];
        if (is_made_twice(x, t, u) && (remat_is_none(largest) || source_ps[u] > source_ps[largest]))
            largest = u;
    }
    for (uint32_t i = task->input_begin; i < task->input_end; i++) {
        uint32_t u = x->inputs.items[i], v = x->out->item_value[u].i;
        bool program = is_program(x, writer_of(x, v)), hosted = has_host(x, item, t, v);
        struct remat_border_read read = {u, !program       ? REMAT_READ_ALWAYS
                                            : u == largest ? REMAT_READ_SOURCE
                                                           : REMAT_READ_UNLESS_FUSED};
        if (is_written_again(t) || !hosted)
            REMAT_PUSH(x->arena, &x->reads[LIKELY], read);
        if (!hosted)
            REMAT_PUSH(x->arena, &x->reads[LEAST], read);
    }
fail:
    return st;
}

/* The least that a kernel reads that makes the item: itself, or the largest thing it is made of. */
static int64_t source_of(const struct extractor *x, uint32_t item,
                         const struct remat_border_task *task)
{
    const struct remat_border *b = &x->out->least;
    int64_t most = 0;
    if (!is_program(x, writer_of(x, x->out->item_value[item].i)))
        return b->read_ps[item];
    for (uint32_t i = task->input_begin; i < task->input_end; i++)
        if (b->source_ps[x->inputs.items[i]] > most)
            most = b->source_ps[x->inputs.items[i]];
    return most < b->read_ps[item] ? most : b->read_ps[item];
}

static remat_status add_task(struct extractor *x, uint32_t item, uint32_t task)
{
    remat_status st = REMAT_OK;
    uint32_t v = x->out->item_value[item].i, writer = writer_of(x, v);
    const struct remat_node_info *node = &x->graph->nodes[x->graph->values[v].node];
    bool program = is_program(x, writer), possible = x->facts.recomputable[v];
    struct traffic traffic = traffic_of(x, v);
    struct remat_border_task made = {.input_begin = (uint32_t)x->inputs.count};
    size_t reads[] = {x->reads[LEAST].count, x->reads[LIKELY].count};
    REMAT_TRY(find_inputs(x, node, &possible));
    made.input_end = (uint32_t)x->inputs.count;
    made.forbidden = !possible;
    x->out->item_fused[item] = program && !is_written_again(&traffic);
    x->out->least.source_ps[item] = source_of(x, item, &made);
    if (program)
        REMAT_TRY(add_reads(x, item, &traffic, &made));
    for (enum cost cost = LEAST; cost <= LIKELY; cost++) {
        struct remat_border *border = cost == LEAST ? &x->out->least : &x->out->likely;
        border->tasks[task] = made;
        border->tasks[task].cost_ps =
            program ? program_cost(x, item, &traffic, cost) : 1000 * (int64_t)x->prices[writer].ns;
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
        .kept = x->facts.output[v] || (pinned && x->pinned->actions[v] == REMAT_ACTION_SAVE),
        .recomputed = pinned && x->pinned->actions[v] == REMAT_ACTION_RECOMPUTE,
    };
    for (uint32_t r = x->reader_begin[v]; r < x->reader_begin[v + 1]; r++)
        described.wanted |= !is_early(kernel_at(x, x->readers[r]));
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
        for (int b = 0; b < 2; b++) {
            borders[b]->items[i] = item;
            borders[b]->read_ps[i] =
                (int64_t)bytes_ps(x, remat_value_bytes(&x->graph->values[x->out->item_value[i].i]));
        }
        if (shared)
            continue;
        if (!is_program(x, writer))
            x->task_of_kernel[writer] = tasks;
        REMAT_TRY(add_task(x, i, tasks++));
    }
    for (int b = 0; b < 2; b++) {
        borders[b]->item_count = count;
        memcpy(borders[b]->source_ps, x->out->least.source_ps, count * sizeof(int64_t));
        borders[b]->task_count = tasks;
        borders[b]->inputs = x->inputs.items;
        borders[b]->reads = x->reads[b].items;
    }
fail:
    return st;
}

static remat_status find_slack(struct extractor *x, const uint32_t *region_of_scope)
{
    remat_status st = REMAT_OK;
    REMAT_NEW(x->arena, x->slack_ns, x->out->region_count + 1);
    for (uint32_t k = 0; k < x->kernels->count; k++) {
        const struct remat_fused_kernel *kernel = kernel_at(x, k);
        if (is_early(kernel) || kernel->kind != REMAT_KERNEL_program)
            continue;
        uint32_t region = region_of_scope[kernel->scope];
        double *slack = &x->slack_ns[remat_is_none(region) ? x->out->region_count : region];
        double moved_ns = (double)x->prices[k].moved_bytes / x->device->memory_bytes_per_ns;
        *slack = fmax(*slack, (double)x->prices[k].ns - x->device->launch_ns - moved_ns - 1);
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
                          .device = device,
                          .pinned = pinned,
                          .out = out};
    uint32_t *region_of_scope;
    *out = (struct remat_border_graph){0};
    REMAT_NEW(arena, region_of_scope, graph->scope_count);
    REMAT_NEW(arena, out->item_of, graph->value_count);
    REMAT_NEW(arena, x.seen, graph->value_count);
    REMAT_NEW(arena, x.task_of_kernel, kernels->count);
    memset(x.task_of_kernel, 0xff, kernels->count * sizeof *x.task_of_kernel);
    REMAT_TRY(remat_facts_create(arena, graph, &x.facts));
    REMAT_TRY(find_readers(&x));
    REMAT_TRY(number_regions(&x, region_of_scope));
    REMAT_TRY(find_slack(&x, region_of_scope));
    REMAT_TRY(find_items(&x, region_of_scope));
    REMAT_TRY(assemble(&x));
fail:
    return st;
}

/* --- from a choice to a decision --- */

remat_status remat_border_decide(struct remat_arena *arena, const struct remat_graph *graph,
                                 const struct remat_border_graph *border, const bool *keep,
                                 const struct remat_decision *pinned, struct remat_decision *out)
{
    remat_status st = REMAT_OK;
    struct remat_facts facts;
    REMAT_TRY(remat_decision_create(arena, graph->value_count, out));
    REMAT_TRY(remat_facts_create(arena, graph, &facts));
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (facts.recomputable[v])
            out->actions[v] = REMAT_ACTION_FUSED;
    for (uint32_t i = 0; i < border->item_count; i++) {
        uint32_t v = border->item_value[i].i;
        out->actions[v] = keep[i] || !facts.recomputable[v] ? REMAT_ACTION_SAVE
                          : border->item_fused[i]           ? REMAT_ACTION_FUSED
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
