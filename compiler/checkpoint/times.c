/* SPDX-License-Identifier: Apache-2.0 */
/* A walk over candidates: each input of a kernel of the backward pass is saved, made inside it, or
 * made by a rerun, which has inputs in turn. So each site's content is two sets of candidates:
 * those it makes, those it stores. Forward kernels come last, from the last one back: one that
 * stores nothing does not run. */
#include "times.h"

#include "amounts.h"

#include <assert.h>

static uint64_t mix(remat_site site, struct remat_site_content content)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t h = (site.i ^ content.made * odd) + 1;
    h = (h ^ h >> 29) * odd + content.stored;
    h = (h ^ h >> 32) * odd;
    return h ^ h >> 29;
}

static void add(const struct remat_times *t, remat_kernel_id kernel, uint32_t round,
                struct remat_site_content content, uint64_t ns, struct remat_times_sum *sum)
{
    uint32_t kind = remat_kernel_at(t->kernels, kernel)->kind;
    uint64_t *class_ns = &sum->times.ns[remat_cost_class_of(kind)];
    *class_ns = remat_ns_add(*class_ns, ns);
    sum->effect += mix(remat_site_of(t->settled, kernel, round), content);
}

/* --- what no decision changes --- */

static void place_candidates(struct remat_times *t)
{
    REMAT_NEW(t->arena, t->home, t->settled->graph->value_count);
    for (remat_kernel_id k = {0}; k.i < t->kernels->count; k.i++) {
        const struct remat_roots *own = &t->settled->own[k.i];
        for (uint32_t i = 0; i < own->count; i++)
            t->home[own->items[i].i] = (struct remat_times_home){k, i};
        assert(own->count + t->settled->inlines[k.i].count <= 64); /* of nodes there are fewer */
    }
}

static void list_reads(struct remat_times *t)
{
    struct remat_roots list = {0};
    REMAT_NEW(t->arena, t->read_begin, t->kernels->count + 1);
    for (remat_kernel_id k = {0}; k.i < t->kernels->count; k.i++) {
        const struct remat_fused_kernel *kernel = remat_kernel_at(t->kernels, k);
        for (uint32_t o = 0; o < kernel->operand_count; o++) {
            const struct remat_kernel_operand *operand = &kernel->operands[o];
            bool written = operand->access & REMAT_ACCESS_WRITE;
            bool candidate = remat_is_candidate(t->settled, operand->value);
            if (!written && candidate && !remat_kernel_is_early(t->kernels, k))
                REMAT_PUSH(t->arena, &list, operand->value);
        }
        t->read_begin[k.i + 1] = (uint32_t)list.count;
    }
    t->reads = list.items;
}

struct remat_times remat_times_create(struct remat_arena *arena,
                                      const struct remat_settled *settled,
                                      const struct remat_price *prices,
                                      const struct remat_device_description *device)
{
    uint32_t count = settled->kernels->count;
    struct remat_times out = {.arena = arena,
                              .settled = settled,
                              .kernels = settled->kernels,
                              .prices = prices,
                              .device = device};
    struct remat_times *t = &out;
    out.live = remat_live_create(arena, settled);
    REMAT_NEW(arena, t->sites, (1 + REMAT_ROUNDS_MAX) * (size_t)count);
    REMAT_NEW(arena, t->first_entry, 2 * (size_t)count);
    REMAT_NEW(arena, t->sharded, settled->graph->value_count);
    memset(t->first_entry, 0xff, 2 * (size_t)count * sizeof *t->first_entry);
    for (remat_kernel_id k = {0}; k.i < count; k.i++)
        if (!remat_kernel_is_early(t->kernels, k) && settled->inlines[k.i].count == 0)
            add(t, k, 0, (struct remat_site_content){0}, t->prices[k.i].ns, &t->same);
    place_candidates(t);
    list_reads(t);
    return out;
}

/* --- contents --- */

/* Of a candidate that the kernel makes for itself; 0: it does not. */
static uint64_t own_bit(const struct remat_times *t, remat_kernel_id kernel, remat_value v)
{
    const struct remat_roots *inlines = &t->settled->inlines[kernel.i];
    if (t->home[v.i].kernel.i == kernel.i)
        return (uint64_t)t->settled->inlined[v.i] << t->home[v.i].place;
    for (size_t i = 0; i < inlines->count; i++)
        if (inlines->items[i].i == v.i)
            return UINT64_C(1) << (t->settled->own[kernel.i].count + i);
    return 0;
}

/* The forward kernel stores a value that is saved. */
static void need(struct remat_times *t, remat_value v)
{
    const struct remat_times_home *home = &t->home[v.i];
    if (remat_is_candidate(t->settled, v))
        t->sites[home->kernel.i].stored |= UINT64_C(1) << home->place;
}

/* The gather is made before `kernel`, the first that asks for the value: up to there the part is
 * live, from there on the whole. */
static void meet_shard(struct remat_times *t, remat_value v, remat_kernel_id kernel, bool reads)
{
    need(t, v);
    if (!t->sharded[v.i]) {
        t->sharded[v.i] = true;
        REMAT_PUSH(t->arena, &t->gathers, v);
        remat_live_shard(&t->live, v, t->settled->shards.of[v.i].bytes, kernel);
    }
    if (reads)
        remat_live_read(&t->live, v, kernel);
}

/* Kernels of the graph are round 0. The rerun that they read is that of the last round; a rerun
 * reads reruns of its own round, or of round 1 where the value is recomputed once. Example: a
 * gradient reads y, recomputed twice, which is made of x, recomputed once: rerun 2 of y, rerun 1 of
 * x. */
static void meet(struct remat_times *t, const uint8_t *actions, struct remat_times_demand demand,
                 remat_kernel_id kernel)
{
    remat_value v = demand.value;
    uint32_t times = remat_action_times(actions[v.i]), round = demand.round;
    if (actions[v.i] == REMAT_ACTION_SHARD && t->settled->shards.of[v.i].bytes) {
        meet_shard(t, v, kernel, round == 0);
        return;
    }
    if (times == 0) {
        need(t, v);
        remat_live_read(&t->live, v, round ? t->live.first : kernel);
        return;
    }
    remat_kernel_id maker = demand.kernel;
    remat_site reader = remat_site_of(t->settled, maker, round), site = reader;
    const struct remat_slice *slice = &t->settled->slices[v.i];
    uint64_t bit = own_bit(t, maker, v);
    if (!bit) {
        maker = t->home[v.i].kernel;
        bit = UINT64_C(1) << t->home[v.i].place;
        round = round ? round : t->last_round;
        round = times < round ? times : round;
        site = remat_site_of(t->settled, maker, round);
        t->sites[site.i].stored |= site.i == reader.i ? 0 : bit;
        if (!(t->sites[site.i].made & bit) && (round == times || round == t->last_round))
            remat_live_make(&t->live, v, kernel);
        if (demand.round == 0)
            remat_live_read(&t->live, v, kernel);
    }
    if (t->sites[site.i].made & bit)
        return;
    t->sites[site.i].made |= bit;
    for (uint32_t r = 0; r < slice->read_count; r++)
        if (remat_is_candidate(t->settled, slice->reads[r].root))
            REMAT_PUSH(t->arena, &t->demands,
                       ((struct remat_times_demand){maker, round, slice->reads[r].root}));
}

/* All that outputs and the kernels of the backward pass ask for. */
static void meet_all(struct remat_times *t, const uint8_t *actions, uint32_t rounds)
{
    const struct remat_graph *g = t->settled->graph;
    t->last_round = rounds;
    memset(t->sites, 0, (1 + rounds) * (size_t)t->kernels->count * sizeof *t->sites);
    for (size_t i = 0; i < t->gathers.count; i++)
        t->sharded[t->gathers.items[i].i] = false;
    t->gathers.count = 0;
    remat_live_begin(&t->live);
    for (uint32_t o = 0; o < g->output_count; o++)
        need(t, t->settled->facts.root[g->outputs[o].i]);
    for (remat_kernel_id k = {0}; k.i < t->kernels->count; k.i++)
        for (uint32_t r = t->read_begin[k.i]; r < t->read_begin[k.i + 1]; r++) {
            meet(t, actions, (struct remat_times_demand){k, 0, t->reads[r]}, k);
            while (t->demands.count > 0)
                meet(t, actions, t->demands.items[--t->demands.count], k);
        }
}

/* --- prices of contents --- */

static bool is_forward(const struct remat_times *t, remat_kernel_id kernel, uint32_t round)
{
    return round == 0 && remat_kernel_is_early(t->kernels, kernel);
}

/* Reruns of both rounds are the same kernels. */
static uint32_t *first_entry(const struct remat_times *t, remat_kernel_id kernel, uint32_t round)
{
    return &t->first_entry[remat_site_of(t->settled, kernel, round ? 1 : 0).i];
}

static const struct remat_times_entry *find_entry(const struct remat_times *t,
                                                  remat_kernel_id kernel, uint32_t round,
                                                  struct remat_site_content content)
{
    uint32_t e = *first_entry(t, kernel, round);
    while (!remat_is_none(e)) {
        const struct remat_times_entry *entry = &t->entries.items[e];
        if (entry->content.made == content.made && entry->content.stored == content.stored)
            return entry;
        e = entry->next;
    }
    return NULL;
}

/* A forward kernel needs what it loads to be stored. */
static void add_site(struct remat_times *t, remat_kernel_id kernel, uint32_t round,
                     struct remat_times_sum *sum)
{
    const struct remat_fused_kernel *whole = remat_kernel_at(t->kernels, kernel);
    struct remat_site_content content = t->sites[remat_site_of(t->settled, kernel, round).i];
    bool forward = is_forward(t, kernel, round);
    uint64_t ns = t->prices[kernel.i].ns;
    if (whole->kind == REMAT_KERNEL_fused && (forward || content.made)) {
        const struct remat_times_entry *entry = find_entry(t, kernel, round, content);
        sum->known &= entry != NULL;
        ns = entry ? entry->ns : 0;
        for (uint32_t l = entry ? entry->load_begin : 0; entry && l < entry->load_end; l++)
            need(t, t->loads.items[l]);
    } else if (forward) {
        for (uint32_t o = 0; o < whole->operand_count; o++) {
            remat_value read = remat_operand_read(&whole->operands[o]);
            if (!remat_is_none(read.i))
                need(t, read);
        }
    }
    add(t, kernel, round, content, ns, sum);
}

/* The slice and the gather of a shard. */
static void add_shard(const struct remat_times *t, remat_value v, struct remat_times_sum *sum)
{
    const struct remat_shard *shard = &t->settled->shards.of[v.i];
    uint64_t *slices = &sum->times.ns[remat_cost_class_of(REMAT_KERNEL_batch_slice)];
    uint64_t *gathers = &sum->times.ns[remat_cost_class_of(REMAT_KERNEL_gather)];
    *slices = remat_ns_add(*slices, shard->slice_ns);
    *gathers = remat_ns_add(*gathers, shard->gather_ns);
    sum->effect += mix(remat_site_end(t->settled), (struct remat_site_content){v.i, 0});
}

struct remat_times_sum remat_times_find(struct remat_times *t,
                                        const struct remat_decision *decision, uint32_t rounds)
{
    uint32_t count = t->kernels->count;
    struct remat_times_sum sum = t->same;
    sum.known = true;
    meet_all(t, decision->actions, rounds);
    for (remat_kernel_id k = {0}; k.i < count; k.i++)
        if (t->settled->inlines[k.i].count > 0 && !remat_kernel_is_early(t->kernels, k))
            add_site(t, k, 0, &sum);
    for (uint32_t r = 1; r <= rounds; r++)
        for (remat_kernel_id k = {0}; k.i < count; k.i++)
            if (t->sites[remat_site_of(t->settled, k, r).i].made)
                add_site(t, k, r, &sum);
    for (size_t i = 0; i < t->gathers.count; i++)
        add_shard(t, t->gathers.items[i], &sum);
    for (remat_kernel_id k = {count}; k.i-- > 0;)
        if (remat_kernel_is_early(t->kernels, k))
            add_site(t, k, 0, &sum);
    return sum;
}

uint64_t remat_times_live(struct remat_times *t, const struct remat_decision *decision)
{
    meet_all(t, decision->actions, REMAT_ROUNDS_MAX);
    return remat_live_end(&t->live);
}

static void learn(struct remat_times *t, const struct remat_graph *graph,
                  const struct remat_fused_kernel *kernel)
{
    remat_site site = graph->nodes[kernel->nodes[0].i].site;
    remat_kernel_id home = remat_site_kernel(t->settled, site);
    uint32_t round = remat_site_round(t->settled, site);
    bool forward = is_forward(t, home, round);
    struct remat_times_entry entry = {.load_begin = (uint32_t)t->loads.count};
    if (kernel->kind != REMAT_KERNEL_fused || (!forward && !t->sites[site.i].made))
        return;
    if (!forward)
        entry.content = t->sites[site.i];
    for (uint32_t o = 0; forward && o < kernel->operand_count; o++) {
        remat_value v = kernel->operands[o].value;
        if ((kernel->operands[o].access & REMAT_ACCESS_WRITE) && remat_is_candidate(t->settled, v))
            entry.content.stored |= UINT64_C(1) << t->home[v.i].place;
    }
    if (find_entry(t, home, round, entry.content))
        return;
    for (uint32_t o = 0; forward && o < kernel->operand_count; o++)
        if (!(kernel->operands[o].access & REMAT_ACCESS_WRITE) &&
            remat_is_candidate(t->settled, kernel->operands[o].value))
            REMAT_PUSH(t->arena, &t->loads, kernel->operands[o].value);
    entry.load_end = (uint32_t)t->loads.count;
    entry.ns = remat_price_variant(graph, kernel, &t->prices[home.i], t->device).ns;
    entry.next = *first_entry(t, home, round);
    *first_entry(t, home, round) = (uint32_t)t->entries.count;
    REMAT_PUSH(t->arena, &t->entries, entry);
}

void remat_times_learn(struct remat_times *t, const struct remat_graph *graph,
                       const struct remat_kernel_list *kernels)
{
    for (uint32_t k = 0; k < kernels->count; k++)
        learn(t, graph, &kernels->kernels[k]);
}
