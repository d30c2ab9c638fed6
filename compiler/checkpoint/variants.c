/* SPDX-License-Identifier: Apache-2.0 */
#include "variants.h"

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
    struct remat_variants *v;
    const struct remat_settled *s = clones->settled;
    uint32_t count = s->kernels->count, end = remat_site_end(s).i;
    struct remat_variant *known;
    REMAT_NEW(arena, v, 1);
    *v = (struct remat_variants){
        .arena = arena, .clones = clones, .prices = prices, .device = device};
    v->wiring = remat_wiring_create(arena, clones);
    v->writer = remat_kernel_writer_create(arena, scratch, &v->wiring.graph, &clones->runs_in->i);
    REMAT_NEW(arena, v->first, end + s->shards.kernels.count);
    REMAT_NEW(arena, v->stored, clones->graph->value_count);
    REMAT_NEW(arena, known, count + s->shards.kernels.count);
    for (remat_kernel_id k = {0}; k.i < count; k.i++)
        add_saved(v, k, &known[k.i]);
    for (uint32_t k = 0; k < s->shards.kernels.count; k++) {
        v->first[end + k] = &known[count + k];
        known[count + k] = (struct remat_variant){.kernel = s->shards.kernels.kernels[k],
                                                  .price = s->shards.prices[k]};
    }
    return v;
}

/* --- forming one --- */

/* Whether the site writes what `original` or its clone stands for. */
static bool is_stored(const struct remat_settled *s, remat_site site, uint64_t stored,
                      remat_value original)
{
    remat_kernel_id kernel = remat_site_kernel(s, site);
    if (remat_settled_writer(s, original).i != kernel.i)
        return false;
    return remat_is_candidate(s, original) ? stored >> s->place[original.i] & 1
                                           : s->written[original.i];
}

/* Marks what the site stores; the nodes that make it, of a built-in kernel all. */
static struct remat_nodes mark_stored(struct remat_variants *v, remat_site site, uint64_t stored)
{
    struct remat_nodes out = {0};
    const struct remat_clones *c = v->clones;
    for (uint32_t i = c->site_begin[site.i]; i < c->site_begin[site.i + 1]; i++) {
        const struct remat_node_info *node = &c->graph->nodes[c->site_nodes[i].i];
        bool kept = remat_op_has(node->op, REMAT_FACT_BUILTIN);
        if (c->runs_in[c->site_nodes[i].i].i != site.i)
            continue;
        for (uint32_t o = 0; o < node->output_count; o++) {
            remat_value value = node->outputs[o];
            v->stored[value.i] =
                is_stored(c->settled, site, stored, c->graph->values[value.i].original);
            kept |= v->stored[value.i];
        }
        if (kept)
            REMAT_PUSH(v->arena, &out, c->site_nodes[i]);
    }
    return out;
}

static struct remat_variant *form(struct remat_variants *v, const struct remat_decision *decision,
                                  remat_site site, const struct remat_site_content *content)
{
    struct remat_variant *out;
    remat_kernel_id kernel = remat_site_kernel(v->clones->settled, site);
    REMAT_NEW(v->arena, out, 1);
    out->content = *content;
    struct remat_nodes kept = mark_stored(v, site, content->stored);
    struct remat_wired_site wired = remat_wire_site(&v->wiring, v->arena, decision, site, &kept);
    out->kernel =
        remat_kernel_write(v->writer, wired.nodes.items, (uint32_t)wired.nodes.count, v->stored);
    out->before = wired.before;
    out->price =
        remat_price_variant(&v->wiring.graph, &out->kernel, &v->prices[kernel.i], v->device);
    return out;
}

const struct remat_variant *remat_variant_of(struct remat_variants *v,
                                             const struct remat_decision *decision, remat_site site,
                                             const struct remat_site_content *content)
{
    struct remat_variant *found = v->first[site.i];
    while (found && memcmp(&found->content, content, sizeof *content) != 0)
        found = found->next;
    if (found)
        return found;
    found = form(v, decision, site, content);
    found->next = v->first[site.i];
    v->first[site.i] = found;
    return found;
}
