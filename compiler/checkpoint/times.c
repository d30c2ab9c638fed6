/* SPDX-License-Identifier: Apache-2.0 */
/* A walk over candidates: each input of a kernel of the backward pass is saved, made inside it, or
 * made by a rerun, which has inputs in turn. That says what each run makes, stores and loads.
 * Forward kernels come last, from the last one back: those after one say what it stores. */
#include "times.h"

#include "amounts.h"

static uint64_t mix(remat_run run, struct remat_run_content content)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t h = (run.i ^ content.made * odd) + 1;
    h = (h ^ h >> 29) * odd + content.stored;
    h = (h ^ h >> 32) * odd;
    return h ^ h >> 29;
}

static void add_ns(uint32_t kind, uint64_t ns, struct remat_times_sum *sum)
{
    uint64_t *class_ns = &sum->times.ns[remat_cost_class_of(kind)];
    *class_ns = remat_ns_add(*class_ns, ns);
    if (remat_kernel_kind_is_transfer(kind))
        sum->transfers_ns = remat_ns_add(sum->transfers_ns, ns);
}

static void add(const struct remat_times *t, remat_run run, struct remat_run_content content,
                uint64_t ns, struct remat_times_sum *sum)
{
    add_ns(remat_kernel_at(t->kernels, remat_run_kernel(t->settled, run))->kind, ns, sum);
    sum->effect += mix(run, content);
}

/* --- what no decision changes --- */

static void place_candidates(struct remat_times *t)
{
    REMAT_NEW(t->arena, t->producer, t->settled->graph->value_count);
    for (remat_kernel_id k = {0}; k.i < t->kernels->count; k.i++) {
        const struct remat_roots *own = &t->settled->own[k.i];
        for (uint32_t i = 0; i < own->count; i++)
            t->producer[own->items[i].i] = (struct remat_times_producer){
                k, mix((remat_run){own->items[i].i}, (struct remat_run_content){0})};
        assert(own->count + t->settled->inlines[k.i].count <= 64); /* of nodes there are fewer */
    }
}

static void list_reads(struct remat_times *t)
{
    struct remat_roots list = {0};
    REMAT_NEW(t->arena, t->read_begin, t->kernels->count + 1);
    for (remat_kernel_id k = {0}; k.i < t->kernels->count; k.i++) {
        const struct remat_kernel_info *kernel = remat_kernel_at(t->kernels, k);
        for (uint32_t o = 0; o < kernel->operand_count; o++) {
            const struct remat_kernel_operand *operand = &kernel->operands[o];
            bool written = operand->access & REMAT_ACCESS_WRITE;
            bool candidate = remat_is_candidate(t->settled, operand->value);
            if (!written && candidate && !remat_kernel_in_forward_pass(t->kernels, k))
                REMAT_PUSH(t->arena, &list, operand->value);
        }
        t->read_begin[k.i + 1] = (uint32_t)list.count;
    }
    t->reads = list.items;
}

struct remat_times remat_times_create(struct remat_arena *arena,
                                      const struct remat_settled *settled,
                                      const struct remat_price *prices)
{
    uint32_t count = settled->kernels->count;
    struct remat_times out = {
        .arena = arena, .settled = settled, .kernels = settled->kernels, .prices = prices};
    struct remat_times *t = &out;
    out.live = remat_live_create(arena, settled);
    REMAT_NEW(arena, t->runs, remat_run_end(settled).i);
    REMAT_NEW(arena, t->got, settled->keeps.way_count);
    for (remat_kernel_id k = {0}; k.i < count; k.i++)
        if (!remat_kernel_in_forward_pass(t->kernels, k) && settled->inlines[k.i].count == 0)
            add(t, (remat_run){k.i}, (struct remat_run_content){0}, t->prices[k.i].ns, &t->same);
    place_candidates(t);
    list_reads(t);
    return out;
}

/* --- contents --- */

/* The bit of a candidate that the kernel makes for itself; 0: it does not. */
static uint64_t own_bit(const struct remat_times *t, remat_kernel_id kernel, remat_value v)
{
    const struct remat_roots *inlines = &t->settled->inlines[kernel.i];
    if (t->producer[v.i].kernel.i == kernel.i)
        return (uint64_t)t->settled->inlined[v.i] << t->settled->place[v.i];
    for (size_t i = 0; i < inlines->count; i++)
        if (inlines->items[i].i == v.i)
            return UINT64_C(1) << (t->settled->own[kernel.i].count + i);
    return 0;
}

/* The forward kernel stores a value that is saved. */
static void need(struct remat_times *t, remat_value v)
{
    if (remat_is_candidate(t->settled, v))
        t->runs[t->producer[v.i].kernel.i].stored |= UINT64_C(1) << t->settled->place[v.i];
}

/* The value is read from its rerun of a round, or as a way to keep it says. `read`: which one. */
static void read_recomputed(struct remat_times *t, struct remat_times_demand demand, uint32_t read)
{
    remat_run reader = remat_run_of(t->settled, demand.kernel, demand.round);
    t->runs[reader.i].recomputed += t->producer[demand.value.i].hash * read;
}

/* It is got before `kernel`, the first that asks for the value: up to there what is kept is live,
 * from there on the whole. */
static void visit_kept(struct remat_times *t, const struct remat_keep *keep, remat_kernel_id kernel,
                       bool reads)
{
    size_t way = (size_t)(keep - t->settled->keeps.keeps);
    need(t, keep->value);
    if (!t->got[way]) {
        t->got[way] = true;
        REMAT_PUSH(t->arena, &t->gets, keep);
        remat_live_keep(&t->live, keep->value, t->settled->keeps.ways[way].bytes, kernel);
    }
    if (reads)
        remat_live_read(&t->live, keep->value, kernel);
}

/* Kernels of the graph are round 0. The rerun that they read is that of the last round; a rerun
 * reads reruns of its own round, or of round 1 where the value is recomputed once. Example: a
 * gradient reads y, recomputed twice, which is made of x, recomputed once: rerun 2 of y, rerun 1 of
 * x. */
static void visit(struct remat_times *t, const uint8_t *actions, struct remat_times_demand demand,
                  remat_kernel_id kernel)
{
    remat_value v = demand.value;
    uint32_t times = remat_action_times(actions[v.i]), round = demand.round;
    if (times == 0) {
        const struct remat_keep *keep = remat_keeps_find(&t->settled->keeps, v, actions[v.i]);
        if (keep) {
            read_recomputed(t, demand, REMAT_ROUNDS_MAX + 1 + actions[v.i]);
            visit_kept(t, keep, kernel, round == 0);
            return;
        }
        need(t, v);
        remat_live_read(&t->live, v, round ? t->live.first : kernel);
        return;
    }
    remat_kernel_id maker = demand.kernel;
    remat_run reader = remat_run_of(t->settled, maker, round), run = reader;
    const struct remat_slice *slice = &t->settled->slices[v.i];
    uint64_t bit = own_bit(t, maker, v);
    if (!bit) {
        maker = t->producer[v.i].kernel;
        bit = UINT64_C(1) << t->settled->place[v.i];
        round = round ? round : REMAT_ROUNDS_MAX;
        round = times < round ? times : round;
        run = remat_run_of(t->settled, maker, round);
        read_recomputed(t, demand, round);
        t->runs[run.i].stored |= run.i == reader.i ? 0 : bit;
        if (!(t->runs[run.i].made & bit) && round == times)
            remat_live_make(&t->live, v, kernel);
        if (demand.round == 0)
            remat_live_read(&t->live, v, kernel);
    }
    if (t->runs[run.i].made & bit)
        return;
    t->runs[run.i].made |= bit;
    for (uint32_t r = 0; r < slice->read_count; r++)
        if (remat_is_candidate(t->settled, slice->reads[r].root))
            REMAT_PUSH(t->arena, &t->demands,
                       ((struct remat_times_demand){maker, round, slice->reads[r].root}));
}

/* All that outputs and the kernels of the backward pass ask for. */
static void visit_all(struct remat_times *t, const uint8_t *actions)
{
    const struct remat_graph *g = t->settled->graph;
    memset(t->runs, 0, remat_run_end(t->settled).i * sizeof *t->runs);
    memset(t->got, 0, t->settled->keeps.way_count * sizeof *t->got);
    t->gets.count = 0;
    remat_live_begin(&t->live);
    for (uint32_t o = 0; o < g->output_count; o++)
        need(t, t->settled->facts.root[g->outputs[o].i]);
    for (remat_kernel_id k = {0}; k.i < t->kernels->count; k.i++)
        for (uint32_t r = t->read_begin[k.i]; r < t->read_begin[k.i + 1]; r++) {
            visit(t, actions, (struct remat_times_demand){k, 0, t->reads[r]}, k);
            while (t->demands.count > 0)
                visit(t, actions, t->demands.items[--t->demands.count], k);
        }
}

/* --- sums --- */

/* True for a run of the decision that decisions can change. */
static bool may_vary(const struct remat_times *t, remat_run run)
{
    remat_kernel_id kernel = remat_run_kernel(t->settled, run);
    if (run.i != kernel.i)
        return t->runs[run.i].made != 0;
    return remat_kernel_in_forward_pass(t->kernels, kernel) ||
           t->settled->inlines[kernel.i].count > 0;
}

/* A forward kernel needs what it loads to be stored. */
static void add_run(struct remat_times *t, struct remat_variants *variants,
                    const struct remat_decision *decision, remat_run run,
                    struct remat_times_sum *sum)
{
    remat_kernel_id kernel = remat_run_kernel(t->settled, run);
    const struct remat_kernel_info *made = remat_kernel_at(t->kernels, kernel);
    const struct remat_run_content content = t->runs[run.i];
    bool forward = run.i == kernel.i && remat_kernel_in_forward_pass(t->kernels, kernel);
    uint64_t ns = t->prices[kernel.i].ns;
    if (made->kind == REMAT_KERNEL_fused) {
        const struct remat_variant *variant = remat_variant_of(variants, decision, run, &content);
        ns = variant->price.ns;
        made = &variant->kernel;
    }
    for (uint32_t o = 0; forward && o < made->operand_count; o++) {
        remat_value read = remat_operand_read(&made->operands[o]);
        if (!remat_is_none(read.i))
            need(t, read);
    }
    add(t, run, content, ns, sum);
}

/* A kernel that keeps a value. */
static void add_keep(const struct remat_times *t, remat_kernel_id k, struct remat_times_sum *sum)
{
    const struct remat_keeps *keeps = &t->settled->keeps;
    add_ns(keeps->kernels.kernels[k.i].kind, keeps->prices[k.i].ns, sum);
    sum->effect += mix(remat_run_of_keep(t->settled, k), (struct remat_run_content){0});
}

struct remat_times_sum remat_times_find(struct remat_times *t, struct remat_variants *variants,
                                        const struct remat_decision *decision)
{
    assert(decision->value_count == t->settled->graph->value_count);
    struct remat_times_sum sum = t->same;
    visit_all(t, decision->actions);
    for (remat_run s = remat_run_end(t->settled); s.i-- > 0;)
        if (may_vary(t, s))
            add_run(t, variants, decision, s, &sum);
    for (size_t i = 0; i < t->gets.count; i++) {
        add_keep(t, t->gets.items[i]->put, &sum);
        add_keep(t, t->gets.items[i]->get, &sum);
    }
    return sum;
}

uint64_t remat_times_live(struct remat_times *t, const struct remat_decision *decision)
{
    assert(decision->value_count == t->settled->graph->value_count);
    visit_all(t, decision->actions);
    return remat_live_end(&t->live);
}

/* --- lists of kernels --- */

struct lister {
    const struct remat_times *times;
    struct remat_variants *variants;
    struct remat_arena *arena;
    const struct remat_decision *decision;
    bool *listed; /* by run, those that keep too */
    struct REMAT_LIST(struct waiting {
        const struct remat_variant *variant;
        remat_run run;
        size_t next; /* of what comes before it */
    }) stack;
    struct remat_kernel_list out;
    struct remat_price *prices;
};

static void enter(struct lister *l, remat_run run)
{
    static const struct remat_run_content of_keep = {0};
    bool varies = run.i < remat_run_end(l->times->settled).i;
    const struct remat_variant *variant =
        remat_variant_of(l->variants, l->decision, run, varies ? &l->times->runs[run.i] : &of_keep);
    REMAT_PUSH(l->arena, &l->stack, ((struct waiting){variant, run, 0}));
}

static void list(struct lister *l, remat_run run)
{
    enter(l, run);
    while (l->stack.count > 0) {
        struct waiting *top = &l->stack.items[l->stack.count - 1];
        const struct remat_runs *before = &top->variant->before;
        while (top->next < before->count && l->listed[before->items[top->next].i])
            top->next++;
        if (top->next < before->count) {
            enter(l, before->items[top->next]);
            continue;
        }
        l->listed[top->run.i] = true;
        l->prices[l->out.count] = top->variant->price;
        l->out.kernels[l->out.count++] = top->variant->kernel;
        l->stack.count--;
    }
}

/* Of the kernel's own candidates. */
static void list_puts(struct lister *l, remat_kernel_id kernel)
{
    const struct remat_settled *s = l->times->settled;
    for (size_t i = 0; i < s->own[kernel.i].count; i++) {
        remat_value v = s->own[kernel.i].items[i];
        for (uint32_t w = s->keeps.begin[v.i]; w < s->keeps.begin[v.i + 1]; w++)
            if (l->times->got[w])
                list(l, remat_run_of_keep(s, s->keeps.keeps[w].put));
    }
}

struct remat_kernel_list remat_times_list(const struct remat_times *t,
                                          struct remat_variants *variants,
                                          struct remat_arena *arena,
                                          const struct remat_decision *decision,
                                          struct remat_price **out_prices)
{
    assert(decision->value_count == t->settled->graph->value_count);
    uint32_t count = remat_run_end(t->settled).i + t->settled->keeps.kernels.count;
    struct lister l = {.times = t, .variants = variants, .arena = arena, .decision = decision};
    REMAT_NEW(arena, l.listed, count);
    REMAT_NEW_UNINITIALIZED(arena, l.out.kernels, count);
    REMAT_NEW_UNINITIALIZED(arena, l.prices, count);
    for (remat_kernel_id k = {0}; k.i < t->kernels->count; k.i++) {
        list(&l, (remat_run){k.i});
        list_puts(&l, k);
    }
    *out_prices = l.prices;
    return l.out;
}
