/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include <math.h>

#include "amounts.h"
#include "check.h"
#include "kernel_body.h"
#include "ops.h"
#include "overlap.h"
#include "rebuild.h"
#include "view.h"

/* A graph of nodes in that order. */
static struct remat_graph *rewrite(struct remat_arena *arena, const struct remat_graph *wired,
                                   const struct remat_nodes *nodes)
{
    struct remat_rebuild to = remat_rebuild_begin(arena, wired, 1);
    for (size_t n = 0; n < nodes->count; n++)
        remat_rebuild_copy(&to, nodes->items[n]);
    return remat_rebuild_finish(&to);
}

/* --- from the graph to kernels --- */

struct former {
    struct remat_arena *arena;
    const struct remat_graph *graph;
    remat_run *runs_in;         /* by node */
    remat_kernel_id *kernel_of; /* by node */
    bool *stored;               /* by value */
    struct remat_arrangement *out;
};

/* What is in memory of what a node reads. */
static remat_value memory_of(const struct former *f, remat_value v)
{
    const struct remat_node_info *node = remat_producer_info(f->graph, v);
    if (!node || !remat_is_none(f->runs_in[remat_producer(f->graph, v).i].i) ||
        remat_op_reads(node) == 0) /* a constant, or a column */
        return v;
    return memory_of(f, node->inputs[0]);
}

static void find_stored(struct former *f)
{
    const struct remat_graph *g = f->graph;
    for (uint32_t n = 0; n < g->node_count; n++)
        for (uint32_t i = 0; i < remat_op_reads(&g->nodes[n]) && !remat_is_none(f->kernel_of[n].i);
             i++) {
            remat_value v = memory_of(f, g->nodes[n].inputs[i]);
            remat_node maker = remat_producer(g, v);
            f->stored[v.i] |=
                !remat_is_none(maker.i) && f->kernel_of[maker.i].i != f->kernel_of[n].i;
        }
    for (uint32_t o = 0; o < g->output_count; o++)
        f->stored[remat_storage_root(g, g->outputs[o]).i] = 1;
    for (uint32_t u = 0; u < g->update_count; u++)
        f->stored[remat_storage_root(g, g->updates[u].value).i] = 1;
    for (remat_value v = {0}; v.i < g->value_count; v.i++)
        if (g->values[v.i].role == REMAT_ROLE_GRADIENT)
            f->stored[remat_storage_root(g, v).i] = 1;
}

/* Nodes of a kernel come in one piece, but for what is absorbed. */
static void number_kernels(struct former *f)
{
    remat_run last = {REMAT_NONE};
    struct remat_kernel_list *list = &f->out->kernels;
    for (uint32_t n = 0; n < f->graph->node_count; n++) {
        f->kernel_of[n].i = REMAT_NONE;
        if (remat_is_none(f->runs_in[n].i))
            continue;
        list->count += f->runs_in[n].i != last.i;
        last = f->runs_in[n];
        f->kernel_of[n].i = list->count - 1;
    }
}

/* A first rerun costs its host what it adds to it: no launch, and of its operands those that the
 * host does not load, told apart by name. */
static struct remat_price price_run(const struct former *f, const struct subject *s,
                                    const struct remat_kernel_info *kernel, remat_run site)
{
    const struct remat_settled *settled = s->evaluator.settled;
    remat_kernel_id of = remat_run_kernel(settled, site);
    struct remat_price price =
        remat_price_variant(f->graph, kernel, &s->evaluator.prices[of.i], &s->device);
    const struct remat_kernel_info *host = remat_settled_host(settled, of);
    if (!host || remat_run_round(settled, site) != 1)
        return price;
    struct remat_kernel_info rest = *kernel;
    rest.operands =
        remat_copy(f->arena, kernel->operands, kernel->operand_count, sizeof *kernel->operands);
    rest.operand_count = 0;
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        const struct remat_kernel_operand *operand = &kernel->operands[o];
        bool shared = false;
        for (uint32_t h = 0; h < host->operand_count && !(operand->access & REMAT_ACCESS_WRITE);
             h++)
            shared |= !(host->operands[h].access & REMAT_ACCESS_WRITE) &&
                      host->operands[h].view->offset_elements == operand->view->offset_elements &&
                      memcmp(host->operands[h].view->shape, operand->view->shape,
                             sizeof operand->view->shape) == 0 &&
                      memcmp(host->operands[h].view->strides, operand->view->strides,
                             sizeof operand->view->strides) == 0 &&
                      strcmp(s->graph->values[host->operands[h].value.i].name,
                             f->graph->values[operand->value.i].name) == 0;
        if (!shared)
            rest.operands[rest.operand_count++] = *operand;
    }
    if (rest.operand_count == kernel->operand_count)
        return price;
    price.moved_bytes = remat_price_value_bytes(f->graph, &rest, REMAT_NO_VALUE);
    price.roofline_ns = fmax((double)price.flops / s->device.pointwise_flops_per_ns,
                             (double)price.moved_bytes / s->device.memory_bytes_per_ns);
    price.ns = remat_ns_ceil(price.roofline_ns);
    return price;
}

static void write_kernels(struct former *f, struct subject *s)
{
    struct remat_arena *body = remat_scratch_open(f->arena->ctx);
    struct remat_kernel_list *list = &f->out->kernels;
    struct remat_kernel_writer *w = remat_kernel_writer_create(f->arena, body);
    struct remat_nodes *nodes;
    REMAT_NEW(f->arena, nodes, list->count);
    REMAT_NEW(f->arena, list->kernels, list->count);
    REMAT_NEW(f->arena, f->out->prices, list->count);
    for (remat_node n = {0}; n.i < f->graph->node_count; n.i++)
        if (!remat_is_none(f->kernel_of[n.i].i))
            REMAT_PUSH(f->arena, &nodes[f->kernel_of[n.i].i], n);
    for (uint32_t k = 0; k < list->count; k++) {
        const struct remat_settled *settled = s->evaluator.settled;
        remat_run site = f->runs_in[nodes[k].items[0].i];
        struct remat_kernel_info *kernel = &list->kernels[k];
        bool *stored;
        REMAT_NEW(f->arena, stored, nodes[k].count);
        for (size_t n = 0; n < nodes[k].count; n++)
            stored[n] = f->stored[f->graph->nodes[nodes[k].items[n].i].outputs[0].i];
        *kernel = remat_kernel_write(w, f->graph, &f->kernel_of->i, nodes[k].items,
                                     (uint32_t)nodes[k].count, stored);
        f->out->prices[k] = site.i < remat_run_end(settled).i
                                ? price_run(f, s, kernel, site)
                                : remat_price_kernel(f->graph, kernel, &s->device);
    }
    remat_scratch_close(body);
}

static remat_status arrange(struct former *f, struct subject *s,
                            const struct remat_decision *decision, uint64_t *arena_bytes)
{
    struct remat_arrangement *out = f->out;
    bool transfers = false;
    for (uint32_t k = 0; k < out->kernels.count; k++) {
        const struct remat_kernel_info *kernel = &out->kernels.kernels[k];
        transfers |= remat_may_join_group(f->graph, kernel);
        out->times.ns[remat_cost_class_of(kernel->kind)] += out->prices[k].ns;
        out->step_ns += out->prices[k].ns;
    }
    out->depth = decision->depth;
    remat_arrange_kernels(f->arena, &s->persistent,
                          remat_persistent_inputs(f->arena, &s->persistent, f->graph),
                          transfers && !decision->blocking, &s->watch, out);
    struct remat_lifespans *call = &out->lifespans;
    return remat_place(s->ctx, &s->persistent, &call, 1, arena_bytes);
}

remat_status reference_find(struct subject *s, struct remat_arena *arena,
                            const struct remat_decision *decision, struct reference *out)
{
    remat_status st = REMAT_OK;
    struct remat_arrangement *listed = &out->listed;
    struct former f = {.arena = arena, .out = &out->naive};
    *out = (struct reference){.ctx = s->ctx,
                              .listed = remat_evaluator_arrange(&s->evaluator, arena, decision)};
    struct remat_lifespans *call = &listed->lifespans;
    REMAT_TRY(remat_place(s->ctx, &s->persistent, &call, 1, &out->listed_bytes));
    out->naive.graph = f.graph = rewrite(arena, listed->graph, &listed->nodes);
    REMAT_TRY(remat_graph_verify(s->ctx, f.graph));
    REMAT_TRY_NEW(arena, f.runs_in, f.graph->node_count);
    REMAT_TRY_NEW(arena, f.kernel_of, f.graph->node_count);
    REMAT_TRY_NEW(arena, f.stored, f.graph->value_count);
    for (uint32_t n = 0; n < f.graph->node_count; n++)
        f.runs_in[n] = s->evaluator.clones.runs_in[listed->nodes.items[n].i];
    number_kernels(&f);
    find_stored(&f);
    write_kernels(&f, s);
    st = arrange(&f, s, decision, &out->naive_bytes);
fail:
    return st;
}

/* --- the list against it --- */

struct checker {
    const struct reference *r;
    const char *name;
    uint32_t *value; /* of the list's graph, by value of the reference's */
};

static void map_values(struct checker *c, struct remat_arena *arena)
{
    const struct remat_graph *from = c->r->naive.graph, *to = c->r->listed.graph;
    uint32_t next = 0;
    REMAT_NEW(arena, c->value, from->value_count);
    for (uint32_t v = 0; v < to->value_count; v++)
        if (remat_is_none(to->values[v].node.i))
            c->value[next++] = v;
    for (uint32_t n = 0; n < from->node_count; n++)
        for (uint32_t o = 0; o < from->nodes[n].output_count; o++)
            c->value[from->nodes[n].outputs[o].i] =
                to->nodes[c->r->listed.nodes.items[n].i].outputs[o].i;
}

static uint32_t mapped(const struct checker *c, remat_value v)
{
    return remat_is_none(v.i) ? v.i : c->value[v.i];
}

static bool same_operands(const struct checker *c, const struct remat_kernel_info *a,
                          const struct remat_kernel_info *b)
{
    bool same = a->operand_count == b->operand_count;
    for (uint32_t o = 0; o < b->operand_count && same; o++) {
        const struct remat_kernel_operand *x = &a->operands[o], *y = &b->operands[o];
        same = x->value.i == mapped(c, y->value) && x->previous.i == mapped(c, y->previous) &&
               x->access == y->access && x->bytes == y->bytes &&
               memcmp(x->view, y->view, sizeof *x->view) == 0;
    }
    return same;
}

static bool same_nodes(const struct checker *c, const struct remat_kernel_info *a,
                       const struct remat_kernel_info *b)
{
    bool same = a->node_count == b->node_count;
    for (uint32_t n = 0; n < b->node_count && same; n++)
        same = a->nodes[n].i == c->r->listed.nodes.items[b->nodes[n].i].i;
    return same;
}

/* Of none, either may be NULL. */
static bool same_items(const void *a, const void *b, size_t bytes)
{
    return bytes == 0 || memcmp(a, b, bytes) == 0;
}

static bool same_body(const struct remat_kernel_info *a, const struct remat_kernel_info *b)
{
    const struct remat_kernel_body *x = &a->body, *y = &b->body;
    return a->parameter_count == b->parameter_count && a->shared_count == b->shared_count &&
           x->instruction_count == y->instruction_count &&
           same_items(a->parameters, b->parameters, a->parameter_count * sizeof *a->parameters) &&
           same_items(a->shared, b->shared, a->shared_count * sizeof *a->shared) &&
           same_items(x->instructions, y->instructions,
                      x->instruction_count * sizeof *x->instructions) &&
           remat_shape_equal(&a->space, &b->space);
}

static void check_kernel(const struct checker *c, uint32_t k)
{
    const struct remat_kernel_info *a = &c->r->listed.kernels.kernels[k];
    const struct remat_kernel_info *b = &c->r->naive.kernels.kernels[k];
    const struct remat_price *x = &c->r->listed.prices[k], *y = &c->r->naive.prices[k];
    const char *name = c->r->naive.graph->values[b->name.i].name;
    CHECK(a->kind == b->kind && a->phase == b->phase && a->instance == b->instance &&
              a->scope.i == b->scope.i && a->name.i == mapped(c, b->name) && same_nodes(c, a, b),
          "%s: kernel %u is not \"%s\"", c->name, k, name);
    CHECK(same_operands(c, a, b) && same_body(a, b), "%s: kernel %u, \"%s\", has another body",
          c->name, k, name);
    CHECK(x->ns == y->ns && x->flops == y->flops && x->moved_bytes == y->moved_bytes &&
              x->source == y->source && x->latency_ns == y->latency_ns,
          "%s: kernel %u, \"%s\", has another price", c->name, k, name);
}

static void check_position(const struct checker *c, uint32_t at)
{
    const struct remat_arrangement *a = &c->r->listed, *b = &c->r->naive;
    CHECK(a->order[at].i == b->order[at].i && !a->complete_before == !b->complete_before &&
              (!a->complete_before || a->complete_before[at] == b->complete_before[at]) &&
              (!a->continues || a->continues[at] == b->continues[at]) &&
              a->lifespans.live_bytes[at] == b->lifespans.live_bytes[at],
          "%s: position %u", c->name, at);
}

static void check_buffers(const struct checker *c)
{
    const struct remat_lifespans *a = &c->r->listed.lifespans, *b = &c->r->naive.lifespans;
    CHECK(a->buffer_count == b->buffer_count, "%s: %u buffers, not %u", c->name, a->buffer_count,
          b->buffer_count);
    for (uint32_t v = 0; v < c->r->naive.graph->value_count; v++)
        CHECK(a->buffer_of[c->value[v]].i == b->buffer_of[v].i, "%s: the buffer of value %u",
              c->name, v);
    for (uint32_t i = 0; i < a->buffer_count && i < b->buffer_count; i++) {
        const struct remat_placed_buffer *x = &a->buffers[i], *y = &b->buffers[i];
        CHECK(x->offset_bytes == y->offset_bytes && x->bytes == y->bytes && x->begin == y->begin &&
                  x->end == y->end && x->persistent.i == y->persistent.i,
              "%s: buffer %u", c->name, i);
    }
}

void reference_check(const struct reference *r, const char *name)
{
    struct checker c = {.r = r, .name = name};
    uint32_t count = r->naive.kernels.count;
    struct remat_arena arena;
    CHECK(r->listed_bytes == r->naive_bytes, "%s: the arenas", name);
    CHECK(r->listed.kernels.count == count, "%s: %u kernels, not %u", name, r->listed.kernels.count,
          count);
    if (r->listed.kernels.count != count)
        return;
    remat_arena_init(&arena, r->ctx);
    map_values(&c, &arena);
    for (uint32_t k = 0; k < count; k++) {
        check_kernel(&c, k);
        check_position(&c, k);
    }
    check_buffers(&c);
    remat_arena_release(&arena);
}
