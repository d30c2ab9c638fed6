/* SPDX-License-Identifier: Apache-2.0 */
#include "variants.h"

#include "kernel_body.h"

/* The kernel as it is when everything is saved. */
static void add_saved(struct remat_variants *v, remat_kernel_id k, struct remat_variant *out)
{
    const struct remat_settled *s = v->clones->settled;
    *out =
        (struct remat_variant){.kernel = *remat_kernel_at(s->kernels, k), .price = v->prices[k.i]};
    const struct remat_roots *own = &s->own[k.i];
    for (uint32_t i = 0; i < own->count; i++)
        out->content.stored |= (uint64_t)s->written[own->items[i].i] << i;
    v->first[k.i] = out;
}

struct remat_variants *remat_variants_create(struct remat_arena *arena, struct remat_arena *scratch,
                                             const struct remat_clones *clones,
                                             const struct remat_price *prices,
                                             const struct remat_device_description *device)
{
    assert(arena != scratch);
    struct remat_variants *v;
    const struct remat_settled *s = clones->settled;
    uint32_t count = s->kernels->count, end = remat_run_end(s).i;
    struct remat_variant *known;
    REMAT_NEW(arena, v, 1);
    *v = (struct remat_variants){
        .arena = arena, .clones = clones, .prices = prices, .device = device};
    v->writer = remat_kernel_writer_create(arena, scratch);
    REMAT_NEW_UNINITIALIZED(arena, v->own, clones->graph->value_count);
    for (uint32_t i = 0; i < clones->graph->value_count; i++)
        v->own[i] = REMAT_NO_VALUE;
    REMAT_NEW(arena, v->first, end + s->keeps.kernels.count);
    REMAT_NEW(arena, known, count + s->keeps.kernels.count);
    for (remat_kernel_id k = {0}; k.i < count; k.i++)
        add_saved(v, k, &known[k.i]);
    for (uint32_t k = 0; k < s->keeps.kernels.count; k++) {
        v->first[end + k] = &known[count + k];
        known[count + k] = (struct remat_variant){.kernel = s->keeps.kernels.kernels[k],
                                                  .price = s->keeps.prices[k]};
    }
    return v;
}

/* --- forming one --- */

/* True if the run writes the result of one of its nodes, which stands for a value of its kernel. */
static bool is_stored(const struct remat_clones *c, remat_run run, uint64_t stored, remat_node n)
{
    remat_value v = c->graph->values[c->graph->nodes[n.i].outputs[0].i].original;
    if (remat_settled_writer(c->settled, v).i != remat_run_kernel(c->settled, run).i)
        return false;
    return remat_is_candidate(c->settled, v) ? stored >> c->settled->place[v.i] & 1
                                             : c->settled->written[v.i];
}

/* The nodes that make what the run stores, of a built-in kernel all. */
static struct remat_nodes find_kept(const struct remat_variants *v, struct remat_arena *arena,
                                    remat_run run, uint64_t stored)
{
    struct remat_nodes out = {0};
    const struct remat_clones *c = v->clones;
    for (uint32_t i = c->run_begin[run.i]; i < c->run_begin[run.i + 1]; i++) {
        remat_node n = c->run_nodes[i];
        if (c->runs_in[n.i].i == run.i &&
            (remat_op_has(c->graph->nodes[n.i].op, REMAT_FACT_BUILTIN) ||
             is_stored(c, run, stored, n)))
            REMAT_PUSH(arena, &out, n);
    }
    return out;
}

/* Of the clones' graph, as the kernels of all runs. */
static void rename_values(struct remat_kernel_info *kernel, const remat_value *values)
{
    kernel->name = values[kernel->name.i];
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        struct remat_kernel_operand *operand = &kernel->operands[o];
        operand->value = values[operand->value.i];
        if (!remat_is_none(operand->previous.i))
            operand->previous = values[operand->previous.i];
    }
}

static struct remat_variant *form(struct remat_variants *v, const struct remat_decision *decision,
                                  remat_run run, const struct remat_run_content *content)
{
    struct remat_variant *out;
    bool *stored;
    struct remat_arena *scratch = remat_scratch_open(v->arena->ctx);
    const struct remat_settled *s = v->clones->settled;
    struct remat_nodes kept = find_kept(v, scratch, run, content->stored);
    struct remat_wired_run wired =
        remat_wire_run(v->arena, scratch, v->clones, decision, run, &kept, v->own);
    REMAT_NEW(scratch, stored, wired.originals.count);
    for (size_t n = 0; n < wired.originals.count; n++)
        stored[n] = is_stored(v->clones, run, content->stored, wired.originals.items[n]);
    REMAT_NEW(v->arena, out, 1);
    out->content = *content;
    out->before = wired.before;
    out->kernel = remat_kernel_write(v->writer, &wired.graph, NULL, wired.nodes.items,
                                     (uint32_t)wired.nodes.count, stored);
    out->kernel.nodes = wired.originals.items;
    rename_values(&out->kernel, wired.values);
    remat_scratch_close(scratch);
    out->price = remat_price_variant_beside(v->clones->graph, &out->kernel, remat_hosted_in(s, run),
                                            &v->prices[remat_run_kernel(s, run).i], v->device);
    return out;
}

const struct remat_variant *remat_variant_of(struct remat_variants *v,
                                             const struct remat_decision *decision, remat_run run,
                                             const struct remat_run_content *content)
{
    struct remat_variant *found = v->first[run.i];
    while (found && memcmp(&found->content, content, sizeof *content) != 0)
        found = found->next;
    if (found)
        return found;
    found = form(v, decision, run, content);
    found->next = v->first[run.i];
    v->first[run.i] = found;
    return found;
}
