/* SPDX-License-Identifier: Apache-2.0 */
/* A walk over candidates: what a kernel of the backward pass reads is saved, made inside it, or
 * made by a rerun, which reads in turn. So each site's content is two sets of candidates: those it
 * makes, those it stores. Forward kernels come last, from the last one back: one that stores
 * nothing does not run. */
#include "times.h"

#include "amounts.h"
#include "ops.h"

enum { PLACES_MAX = 64 };

static uint32_t kernel_count(const struct remat_times *t)
{
    return t->settled->kernels->count;
}

static const struct remat_fused_kernel *kernel_at(const struct remat_times *t, uint32_t k)
{
    return &t->settled->kernels->kernels[k];
}

/* `key` tells a content from what the site has when everything is saved. */
static void add(const struct remat_times *t, uint32_t kernel, uint64_t ns, uint64_t key,
                struct remat_times_sum *sum)
{
    uint64_t *class_ns = &sum->times.ns[t->classes[kernel]];
    *class_ns = remat_ns_add(*class_ns, ns);
    sum->effect += key * UINT64_C(0x9e3779b97f4a7c15) ^ key >> 29;
}

/* --- what no decision changes --- */

static void list_candidates(struct remat_times *t)
{
    const struct remat_graph *g = t->settled->graph;
    struct {
        uint32_t *items;
        size_t count, capacity;
    } list = {0};
    REMAT_NEW(t->arena, t->own_count, kernel_count(t));
    REMAT_NEW(t->arena, t->list_begin, kernel_count(t) + 1);
    REMAT_NEW(t->arena, t->place, g->value_count);
    for (uint32_t k = 0; k < kernel_count(t); k++) {
        const struct remat_inlined *inlined = &t->settled->inlined[k];
        t->list_begin[k] = (uint32_t)list.count;
        for (uint32_t n = 0; n < kernel_at(t, k)->node_count; n++) {
            const struct remat_node_info *node = &g->nodes[kernel_at(t, k)->nodes[n].i];
            for (uint32_t o = 0; o < node->output_count; o++)
                if (remat_is_candidate(t->settled, node->outputs[o].i)) {
                    t->place[node->outputs[o].i] = t->own_count[k]++;
                    REMAT_PUSH(t->arena, &list, node->outputs[o].i);
                }
        }
        for (uint32_t i = 0; i < inlined->count; i++)
            REMAT_PUSH(t->arena, &list, inlined->roots[i]);
        t->too_many |= list.count - t->list_begin[k] > PLACES_MAX;
    }
    t->list_begin[kernel_count(t)] = (uint32_t)list.count;
    t->lists = list.items;
}

/* A candidate that the kernel writes or, else, reads. */
static bool has_candidate(const struct remat_times *t, const struct remat_kernel_operand *operand,
                          bool written)
{
    return ((operand->access & REMAT_ACCESS_WRITE) != 0) == written &&
           remat_is_candidate(t->settled, operand->value.i);
}

static void list_reads(struct remat_times *t)
{
    struct {
        uint32_t *items;
        size_t count, capacity;
    } list = {0};
    REMAT_NEW(t->arena, t->lasting, kernel_count(t));
    REMAT_NEW(t->arena, t->read_begin, kernel_count(t) + 1);
    for (uint32_t k = 0; k < kernel_count(t); k++) {
        const struct remat_fused_kernel *kernel = kernel_at(t, k);
        t->read_begin[k] = (uint32_t)list.count;
        for (uint32_t o = 0; o < kernel->operand_count; o++) {
            const struct remat_kernel_operand *operand = &kernel->operands[o];
            t->lasting[k] |=
                (operand->access & REMAT_ACCESS_WRITE) && !has_candidate(t, operand, true);
            if (has_candidate(t, operand, false) && !remat_is_early(kernel->phase))
                REMAT_PUSH(t->arena, &list, operand->value.i);
        }
    }
    t->read_begin[kernel_count(t)] = (uint32_t)list.count;
    t->reads = list.items;
}

void remat_times_create(struct remat_arena *arena, const struct remat_settled *settled,
                        const struct remat_price *prices, struct remat_times *out)
{
    struct remat_times *t = out;
    uint32_t count = settled->kernels->count;
    *t = (struct remat_times){
        .arena = arena, .settled = settled, .prices = prices, .entry_slots = 1024};
    REMAT_NEW(arena, t->entries, t->entry_slots);
    REMAT_NEW(arena, t->sites, (1 + REMAT_ROUNDS_MAX) * (size_t)count);
    REMAT_NEW(arena, t->needed, settled->graph->value_count);
    REMAT_NEW(arena, t->classes, count);
    for (uint32_t k = 0; k < count; k++) {
        t->classes[k] = (uint8_t)remat_cost_class_of(kernel_at(t, k)->kind);
        if (!remat_is_early(kernel_at(t, k)->phase) && settled->inlined[k].count == 0)
            add(t, k, t->prices[k].ns, 0, &t->same);
    }
    list_candidates(t);
    list_reads(t);
}

/* --- contents --- */

static uint64_t place_of(const struct remat_times *t, uint32_t kernel, uint32_t v)
{
    uint32_t place = t->place[v];
    if (remat_settled_writer(t->settled, v) != kernel)
        for (place = t->own_count[kernel]; t->lists[t->list_begin[kernel] + place] != v;)
            place++;
    return UINT64_C(1) << place;
}

/* As remat_action_times, which is elsewhere: this is called for every value. */
static inline uint32_t times_of(uint8_t action)
{
    return action == REMAT_ACTION_SAVE ? 0 : action < REMAT_ACTION_NESTED ? 1 : 2;
}

static void make(struct remat_times *t, uint32_t site, uint32_t v)
{
    struct remat_site_content *content = &t->sites[site];
    uint64_t bit = place_of(t, site % kernel_count(t), v);
    const struct remat_slice *slice = &t->settled->slices[v];
    if (content->made & bit)
        return;
    content->made |= bit;
    content->runs = true;
    for (uint32_t r = 0; r < slice->read_count; r++)
        REMAT_PUSH(t->arena, &t->demands,
                   ((struct remat_times_demand){site, slice->reads[r].root}));
}

static void read_value(struct remat_times *t, const uint8_t *actions, uint32_t site, uint32_t v)
{
    uint32_t kernel = site % kernel_count(t), round = site / kernel_count(t), writer, source;
    uint32_t times = remat_is_candidate(t->settled, v) ? times_of(actions[v]) : 0;
    if (times == 0) {
        t->needed[v] = 1;
        return;
    }
    writer = remat_settled_writer(t->settled, v);
    if (writer == kernel ? t->settled->inlined_by_all[v]
                         : remat_settled_inlines(t->settled, kernel, v)) {
        make(t, site, v);
        return;
    }
    round = round ? round : t->last_round;
    source = (times < round ? times : round) * kernel_count(t) + writer;
    if (source != site)
        t->sites[source].stored |= place_of(t, writer, v);
    make(t, source, v);
}

/* What a site reads, and all that this asks for. */
static void read_all(struct remat_times *t, const uint8_t *actions, uint32_t site, uint32_t v)
{
    read_value(t, actions, site, v);
    while (t->demands.count > 0) {
        struct remat_times_demand d = t->demands.items[--t->demands.count];
        read_value(t, actions, d.site, d.value);
    }
}

/* --- prices of contents --- */

static uint64_t key_of(uint32_t site, uint64_t made, uint64_t stored)
{
    uint64_t words[] = {site, made, stored};
    uint64_t key = remat_hash(words, sizeof words, 0);
    return key ? key : 1;
}

static struct remat_times_entry *entry_at(const struct remat_times *t, uint64_t key)
{
    size_t at = (size_t)key & (t->entry_slots - 1);
    while (t->entries[at].key && t->entries[at].key != key)
        at = (at + 1) & (t->entry_slots - 1);
    return &t->entries[at];
}

static void add_entry(struct remat_times *t, struct remat_times_entry entry)
{
    if (2 * (t->entry_count + 1) > t->entry_slots) {
        struct remat_times_entry *old = t->entries;
        size_t count = t->entry_slots;
        t->entry_slots *= 2;
        REMAT_NEW(t->arena, t->entries, t->entry_slots);
        for (size_t i = 0; i < count; i++)
            if (old[i].key)
                *entry_at(t, old[i].key) = old[i];
    }
    t->entry_count++;
    *entry_at(t, entry.key) = entry;
}

/* Reruns of both rounds are the same kernels. */
static uint64_t content_key(const struct remat_times *t, uint32_t site)
{
    uint32_t kernel = site % kernel_count(t), rerun = site >= kernel_count(t);
    return key_of(kernel + rerun * kernel_count(t), t->sites[site].made, t->sites[site].stored);
}

static void add_content(const struct remat_times *t, uint32_t site, struct remat_times_sum *sum)
{
    uint32_t kernel = site % kernel_count(t);
    if (kernel_at(t, kernel)->kind != REMAT_KERNEL_program) {
        uint64_t key = key_of(site, t->sites[site].made, t->sites[site].stored);
        add(t, kernel, t->prices[kernel].ns, key + site, sum);
        return;
    }
    uint64_t key = content_key(t, site);
    const struct remat_times_entry *entry = entry_at(t, key);
    sum->known &= entry->key != 0;
    add(t, kernel, entry->key ? entry->ns : 0, key + site, sum);
}

static uint64_t stored_in(const struct remat_times *t, uint32_t kernel)
{
    uint64_t stored = 0;
    for (uint32_t i = 0; i < t->own_count[kernel]; i++)
        if (t->needed[t->lists[t->list_begin[kernel] + i]])
            stored |= UINT64_C(1) << i;
    return stored;
}

static void add_forward(struct remat_times *t, uint32_t kernel, struct remat_times_sum *sum)
{
    uint64_t stored = stored_in(t, kernel), key = key_of(kernel, UINT64_MAX, stored);
    const struct remat_times_entry *entry = entry_at(t, key);
    const struct remat_fused_kernel *whole = kernel_at(t, kernel);
    if (!stored && !t->lasting[kernel])
        return;
    if (whole->kind != REMAT_KERNEL_program) {
        add(t, kernel, t->prices[kernel].ns, kernel, sum);
        for (uint32_t o = 0; o < whole->operand_count; o++)
            if (!(whole->operands[o].access & REMAT_ACCESS_WRITE))
                t->needed[whole->operands[o].value.i] = 1;
        return;
    }
    sum->known &= entry->key != 0;
    add(t, kernel, entry->ns, key, sum);
    for (uint32_t l = entry->load_begin; l < entry->load_end; l++)
        t->needed[t->loads.items[l]] = 1;
}

struct remat_times_sum remat_times_find(struct remat_times *t,
                                        const struct remat_decision *decision, uint32_t rounds)
{
    const struct remat_graph *g = t->settled->graph;
    uint32_t count = kernel_count(t);
    struct remat_times_sum sum = t->same;
    sum.known = !t->too_many;
    t->last_round = rounds;
    if (t->too_many)
        return sum;
    memset(t->sites, 0, (1 + rounds) * (size_t)count * sizeof *t->sites);
    memset(t->needed, 0, g->value_count);
    for (uint32_t o = 0; o < g->output_count; o++)
        t->needed[t->settled->facts.root[g->outputs[o].i]] = 1;
    for (uint32_t k = 0; k < count; k++)
        for (uint32_t r = t->read_begin[k]; r < t->read_begin[k + 1]; r++)
            read_all(t, decision->actions, k, t->reads[r]);
    for (uint32_t k = 0; k < count; k++)
        if (t->settled->inlined[k].count > 0 && !t->sites[k].made &&
            !remat_is_early(kernel_at(t, k)->phase))
            add(t, k, t->prices[k].ns, 0, &sum);
    for (uint32_t s = 0; s < (1 + rounds) * count; s++)
        if (t->sites[s].runs)
            add_content(t, s, &sum);
    for (uint32_t k = count; k-- > 0;)
        if (remat_is_early(kernel_at(t, k)->phase))
            add_forward(t, k, &sum);
    return sum;
}

void remat_times_learn(struct remat_times *t, const struct remat_graph *graph,
                       const struct remat_fused_kernel *kernel, uint64_t ns)
{
    struct remat_times_entry entry = {.ns = ns, .load_begin = (uint32_t)t->loads.count};
    uint32_t site = graph->nodes[kernel->nodes[0].i].kernel, k = site % kernel_count(t);
    bool forward = site < kernel_count(t) && remat_is_early(kernel_at(t, k)->phase);
    uint64_t stored = 0;
    if (t->too_many || (!forward && (!t->sites[site].runs || kernel->kind != REMAT_KERNEL_program)))
        return;
    for (uint32_t o = 0; forward && o < kernel->operand_count; o++)
        if (has_candidate(t, &kernel->operands[o], true))
            stored |= UINT64_C(1) << t->place[kernel->operands[o].value.i];
    entry.key = forward ? key_of(k, UINT64_MAX, stored) : content_key(t, site);
    if (entry_at(t, entry.key)->key)
        return;
    for (uint32_t o = 0; forward && o < kernel->operand_count; o++)
        if (has_candidate(t, &kernel->operands[o], false))
            REMAT_PUSH(t->arena, &t->loads, kernel->operands[o].value.i);
    entry.load_end = (uint32_t)t->loads.count;
    add_entry(t, entry);
}
