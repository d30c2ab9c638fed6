/* SPDX-License-Identifier: Apache-2.0 */
/* The certified bound against small graphs that are made to break it: fused kernels between
 * bound by arithmetic and bound by memory, values of single rows, broadcasts, views, equal layers,
 * microbatches, ranks and profiles, and joint ones of foreign nodes. Every decision over their
 * items is evaluated, of larger graphs those that are not two-level, and some others: none takes
 * less or holds less than its least cost says, nor less than the bound for its live peak. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "analysis.h"
#include "bound_samples.h"
#include "check.h"
#include "corpus.h"
#include "graph_text.h"
#include "noisy_profile.h"
#include "random_graph.h"
#include "subject.h"

enum {
    ITEMS_MIN = 2,
    ITEMS_MAX = 9,
    TENSOR_ITEMS = 6,    /* about as many are free along "tp" */
    TWICE_ITEMS_MAX = 6, /* that every decision may recompute twice */
    TWO_LEVEL = 60,
    INSIDE = 2000,
    INSIDE_TWO_LEVEL = 500,
    PINNED = 5,     /* each graph of so many has pins, */
    DECIDED = 7,    /* or pins of values that decisions are about, */
    TYPED = 13,     /* or bf16, casts and lookups, */
    OPTIMIZED = 4,  /* or an optimizer, */
    SPREAD = 8,     /* or several ranks and one, */
    TENSOR = 16,    /* or several ranks along "tp" */
    LATENCY = 1000, /* of the links of half of these, so many times longer */
    LAYERS_MAX = 3,
    FOREIGN_GRAPHS = 200,
    STREAM_GRAPHS = 100
};

struct graph {
    struct subject subject;
    struct random random;
    uint32_t seed;
    const char *name;
    const struct bound_sample *sample; /* NULL: at random */
    struct corpus file;
    struct remat_graph *source;
    bool profile;
    struct remat_arrangement base;
    struct remat_decision none, decision; /* none: but for pins */
    struct remat_planner *planner;
    struct remat_model model;
    struct remat_facts facts;
    uint32_t free_count;
    uint32_t free_values[ITEMS_MAX];
};

struct tally {
    uint32_t graphs, spread, sharded, decisions; /* spread: transfers beside computation; sharded:
                                                    values that may be saved as a shard */
    uint32_t hosted, statistics; /* graphs with a rerun that has a host; row values that are
                                    candidates and not written else */
    uint32_t hit;                /* optima that the bound meets */
    uint32_t optima, steps, bound_by_arithmetic, programs;
    double ratio; /* of bound and optimum, summed over optima */
    double floor; /* of floor and least live peak, summed over graphs */
};

/* --- graphs --- */

static remat_status prepare_foreign(struct graph *g)
{
    remat_status st = REMAT_OK;
    struct subject *s = &g->subject;
    uint32_t nodes = 2 + random_draw(&g->random, 8);
    REMAT_TRY(remat_device_description_read(s->ctx, &s->arena, "h100-sxm", 0, &s->device));
    random_balance(&g->random, &s->device);
    REMAT_TRY(random_foreign(s->ctx, &s->arena, &g->random, nodes, &g->source));
    REMAT_TRY(subject_prepare_graph(s, g->source, 1));
fail:
    return st;
}

/* Links as slow as memory or much slower, so that computation or the link may take the time. */
static remat_status prepare_streams(struct graph *g)
{
    static const uint32_t zero[] = {0, 1, 3};
    remat_status st = REMAT_OK;
    struct subject *s = &g->subject;
    uint32_t layers = 2 + random_draw(&g->random, LAYERS_MAX - 1);
    REMAT_TRY(remat_device_description_read(s->ctx, &s->arena, "h100-sxm", 0, &s->device));
    random_balance(&g->random, &s->device);
    s->ranks = 2 << random_draw(&g->random, 2);
    s->zero = zero[random_draw(&g->random, 3)];
    s->device.within.latency_ns = 0;
    s->device.within.bytes_per_ns =
        s->device.memory_bytes_per_ns / exp2(random_draw(&g->random, 12));
    g->random.mixed = true;
    g->file.microbatches = 1 + random_draw(&g->random, 2);
    uint32_t nodes = 2 + random_draw(&g->random, 8);
    REMAT_TRY(random_graph(s->ctx, &s->arena, &g->random, nodes, layers, &g->source));
    g->source->optimizer = (struct remat_optimizer){.kind = REMAT_OPTIMIZER_ADAMW,
                                                    .beta1 = 0.9,
                                                    .beta2 = 0.999,
                                                    .epsilon = 1e-8,
                                                    .weight_decay = 0.01};
    REMAT_TRY(subject_prepare_graph(s, g->source, g->file.microbatches));
fail:
    return st;
}

static remat_status prepare(struct graph *g)
{
    remat_status st = REMAT_OK;
    struct subject *s = &g->subject;
    uint32_t kind = random_draw(&g->random, 8);
    uint32_t layers = random_draw(&g->random, LAYERS_MAX + 1);
    REMAT_TRY(remat_device_description_read(s->ctx, &s->arena, "h100-sxm", 0, &s->device));
    if (kind == 0)
        random_rates(&g->random, &s->device);
    else
        random_balance(&g->random, &s->device);
    g->random.mixed = kind > 1;
    g->random.typed = g->seed % TYPED == 4 && g->seed % TENSOR != 6;
    g->profile = kind == 7;
    g->file.microbatches = kind == 6 ? 2 : 1;
    uint32_t nodes = 2 + random_draw(&g->random, 8);
    REMAT_TRY(
        random_graph(s->ctx, &s->arena, &g->random, nodes, layers > 1 ? layers : 0, &g->source));
    if (g->seed % SPREAD == SPREAD - 1) {
        static const uint32_t zero[] = {0, 1, 3};
        s->ranks = g->seed % (2 * SPREAD) < SPREAD ? 2 : 4;
        s->zero = zero[random_draw(&g->random, 3)];
        if (g->seed / (2 * SPREAD) % 2) /* else memory is slower than the link */
            s->device.within.latency_ns *= LATENCY;
    } else if (g->seed % TENSOR == 6) {
        s->tensor = true;
        s->ranks = g->seed % (2 * TENSOR) < TENSOR ? 2 : 4;
        s->device.within.bytes_per_ns =
            s->device.memory_bytes_per_ns * exp2(random_draw(&g->random, 8));
    }
    if (g->seed % OPTIMIZED == 1 || (s->ranks && !s->tensor))
        g->source->optimizer =
            (struct remat_optimizer){.kind = REMAT_OPTIMIZER_ADAMW,
                                     .beta1 = 0.9,
                                     .beta2 = 0.999,
                                     .epsilon = 1e-8,
                                     .weight_decay = 0.01,
                                     .clip_norm = g->seed % (2 * OPTIMIZED) == 1};
    REMAT_TRY(subject_prepare_graph(s, g->source, g->file.microbatches));
fail:
    return st;
}

/* Along "tp" transfers are items, too: of more than can be tried, some stay free. */
static void pin_most(struct graph *g)
{
    for (uint32_t i = 0; i < g->model.item_count; i++)
        if (random_draw(&g->random, g->model.item_count) >= TENSOR_ITEMS)
            g->none.reasons[g->model.item_value[i].i] = "pin";
}

/* In some graphs pins save values that would else not be written. */
static void pin_internal(struct graph *g)
{
    for (uint32_t v = 0; v < g->subject.graph->value_count; v++)
        if (g->facts.recomputable[v] && remat_is_none(g->model.item_of[v].i) &&
            random_draw(&g->random, 3) == 0)
            g->none.reasons[v] = "pin";
}

static void pin_as(struct graph *g, uint32_t v, uint8_t action)
{
    g->none.reasons[v] = "pin";
    g->none.actions[v] = action;
}

/* Pins save or recompute what decisions are about. */
static void pin_items(struct graph *g)
{
    for (uint32_t i = 0; i < g->model.item_count; i++) {
        uint32_t v = g->model.item_value[i].i;
        if (g->facts.recomputable[v] && random_draw(&g->random, 3) == 0)
            pin_as(g, v, random_draw(&g->random, 3) ? REMAT_ACTION_RECOMPUTE : REMAT_ACTION_SAVE);
    }
}

static void pin_listed(struct graph *g)
{
    for (uint32_t v = 0; v < g->subject.graph->value_count; v++) {
        const char *name = g->subject.graph->values[v].name;
        for (uint8_t action = REMAT_ACTION_SAVE; action <= REMAT_ACTION_RECOMPUTE; action++)
            if (corpus_pins(&g->file, action, name))
                pin_as(g, v, action);
    }
}

static void pin_named(struct graph *g)
{
    for (uint32_t v = 0; v < g->subject.graph->value_count; v++) {
        const char *name = g->subject.graph->values[v].name;
        if (g->sample->saved && strcmp(name, g->sample->saved) == 0)
            pin_as(g, v, REMAT_ACTION_SAVE);
        if (g->sample->recomputed && strcmp(name, g->sample->recomputed) == 0)
            pin_as(g, v, REMAT_ACTION_RECOMPUTE);
    }
}

static remat_status pin(struct graph *g)
{
    remat_status st = REMAT_OK;
    struct subject *s = &g->subject;
    if (g->file.pins[0].count || g->file.pins[1].count)
        pin_listed(g);
    else if (g->sample && g->sample->saved)
        pin_named(g);
    else if (g->file.random.seed)
        return REMAT_OK;
    else if (s->tensor)
        pin_most(g);
    else if (!g->sample && g->seed % PINNED == PINNED - 2)
        pin_internal(g);
    else if (!g->sample && (g->seed % DECIDED == 4 || (g->random.typed && g->seed % 3 == 0)))
        pin_items(g);
    else
        return REMAT_OK;
    remat_evaluator_release(&s->evaluator);
    remat_evaluator_init(&s->evaluator, &s->arena, s->graph, &s->persistent, &s->device, &g->none,
                         &s->watch);
    REMAT_TRY(subject_extract(s, &g->model));
    g->planner = remat_planner_create(&s->arena, &s->evaluator, &g->model, false);
fail:
    return st;
}

static void append_lines(struct remat_text *t, const char *text)
{
    for (const char *end; (end = strchr(text, '\n')); text = end + 1) {
        int length = (int)(end - text), name = (int)strcspn(text, " ");
        bool typed = text[name + 1] == ':', placed = memmem(text, (size_t)length, " phase ", 7);
        if (text[0] == '%')
            remat_text_append(t, "%.*s%s%.*s%s\n", name, text, typed ? "" : " : f32[2,64,64]",
                              length - name, text + name, placed ? "" : " phase forward");
        else if (text[0] == 'p' || text[0] == 's')
            remat_text_append(t, "%.*s = normal(0.0, 0.02)\n", length, text);
    }
}

static remat_status prepare_sample(struct graph *g)
{
    const struct bound_sample *sample = g->sample;
    remat_status st = REMAT_OK;
    struct subject *s = &g->subject;
    struct remat_text whole = {.arena = &s->arena};
    const char *outputs = strstr(sample->text, "output %"); /* the loss is the first one */
    const char *last = outputs ? outputs : strstr(sample->text, "update %");
    REMAT_TRY(remat_device_description_read(s->ctx, &s->arena, "h100-sxm", 0, &s->device));
    random_balance(&g->random, &s->device);
    s->device.pointwise_flops_per_ns = sample->flops_per_ns > 0 ? sample->flops_per_ns : 1;
    s->device.launch_ns = sample->launch_ns;
    g->profile = sample->profile;
    remat_text_append(&whole, "graph \"sample\"\n"
                              "input %%ids : i32[2,64]\n"
                              "input %%data : f32[2,64,64]\n");
    if (strstr(sample->text, " %e"))
        remat_text_append(&whole, "parameter %%table : f32[64,64] = normal(0.0, 0.02)\n"
                                  "%%e : f32[2,64,64] = embedding %%table %%ids phase forward\n");
    append_lines(&whole, sample->text);
    remat_text_append(&whole,
                      "parameter %%head : f32[64,64] = normal(0.0, 0.02)\n"
                      "%%logits : f32[2,64,64] = linear %%z %%head phase forward\n"
                      "%%loss : f32[] output, %%lse : f32[2,64,1] = cross_entropy %%logits %%ids "
                      "phase loss\n"
                      "output %%loss\n%s",
                      last ? last : "");
    REMAT_TRY(remat_graph_parse(s->ctx, "sample", whole.items, whole.count, &s->arena, &g->source));
    REMAT_TRY(subject_prepare_graph(s, g->source, 1));
fail:
    return st;
}

static remat_status prepare_file(struct graph *g)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(corpus_read(&g->subject, g->name, &g->file, &g->source));
    g->random = g->file.random;
    g->seed = g->random.seed;
    g->profile = g->file.profile;
    REMAT_TRY(subject_prepare_graph(&g->subject, g->source, g->file.microbatches));
fail:
    return st;
}

/* Fills in what is free and the planner. */
static remat_status plan(struct graph *g)
{
    remat_status st = REMAT_OK;
    struct subject *s = &g->subject;
    uint8_t *actions;
    if (g->profile)
        REMAT_TRY(noisy_profile(s, g->seed));
    REMAT_TRY(subject_plan(s, &g->base, &g->none, &g->planner));
    REMAT_TRY(subject_extract(s, &g->model));
    g->facts = g->model.settled->facts;
    REMAT_TRY(pin(g));
    REMAT_TRY_NEW(&s->arena, actions, g->model.item_count);
    memset(actions, REMAT_ACTION_RECOMPUTE, g->model.item_count);
    remat_model_decide(&s->arena, &g->model, actions, &g->decision);
    for (uint32_t i = 0; i < g->model.item_count; i++)
        if (g->facts.recomputable[g->model.item_value[i].i] &&
            !g->none.reasons[g->model.item_value[i].i]) {
            if (g->free_count < ITEMS_MAX)
                g->free_values[g->free_count] = g->model.item_value[i].i;
            g->free_count++;
        }
fail:
    return st;
}

/* --- decisions --- */

struct cost {
    uint64_t ns, live_bytes;
};

/* Transfers may run beside computation and in groups, or else blocking, one by one. */
static bool has_lane(const struct graph *g)
{
    return g->subject.evaluator.depths.count > 0;
}

static bool has_shards(const struct graph *g)
{
    return g->model.border.way_count > 0;
}

static int compare_costs(const void *a, const void *b)
{
    const struct cost *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns < y->ns ? -1 : 1;
    return x->live_bytes < y->live_bytes ? -1 : x->live_bytes > y->live_bytes;
}

/* Of the decision that the graph holds, with transfers as it says. */
static remat_status check_decision(struct graph *g, const char *what, uint32_t code,
                                   struct cost *out)
{
    remat_status st = REMAT_OK;
    struct remat_arena scratch;
    struct remat_evaluation cost;
    struct remat_least least;
    uint64_t bound_ns, charged_ns;
    remat_arena_init(&scratch, g->subject.ctx);
    cost = remat_evaluate(&g->subject.evaluator, &g->decision, 0);
    least = remat_planner_least(g->planner, &scratch, &g->decision);
    CHECK(least.step_ns <= cost.step_ns && least.live_bytes <= cost.live_peak_bytes &&
              remat_evaluate_time(&g->subject.evaluator, &g->decision).step_ns == cost.step_ns,
          "%s, %s %u: %" PRIu64 " ns, %" PRIu64 " B, but at least %" PRIu64 " ns, %" PRIu64 " B",
          g->name, what, code, cost.step_ns, cost.live_peak_bytes, least.step_ns, least.live_bytes);
    REMAT_TRY(subject_charged(&scratch, &g->model, &g->decision, &charged_ns));
    CHECK(charged_ns <= cost.step_ns, "%s, %s %u: %" PRIu64 " ns, charged %" PRIu64 " ns", g->name,
          what, code, cost.step_ns, charged_ns);
    CHECK(g->planner->floor_bytes <= cost.live_peak_bytes,
          "%s, %s %u: floor %" PRIu64 " B above %" PRIu64 " B", g->name, what, code,
          g->planner->floor_bytes, cost.live_peak_bytes);
    if (what[0] != 'd') {
        bound_ns = remat_planner_bound(g->planner, cost.live_peak_bytes);
        CHECK(bound_ns <= cost.step_ns, "%s, %s %u: %" PRIu64 " ns, bound %" PRIu64 " ns", g->name,
              what, code, cost.step_ns, bound_ns);
    }
    *out = (struct cost){cost.step_ns, cost.live_peak_bytes};
fail:
    remat_arena_release(&scratch);
    return st;
}

/* A decision that is smaller than every faster one is the optimum for its live peak. */
static remat_status check_optima(struct graph *g, struct cost *costs, uint32_t count,
                                 struct tally *y)
{
    remat_status st = REMAT_OK;
    uint64_t least = UINT64_MAX, bound_ns;
    qsort(costs, count, sizeof *costs, compare_costs);
    for (uint32_t c = 0; c < count; c++) {
        if (costs[c].live_bytes >= least)
            continue;
        least = costs[c].live_bytes;
        bound_ns = remat_planner_bound(g->planner, least);
        CHECK(bound_ns <= costs[c].ns,
              "%s, live %" PRIu64 " B: bound %" PRIu64 " ns, optimum %" PRIu64, g->name, least,
              bound_ns, costs[c].ns);
        y->optima++;
        y->hit += (double)bound_ns >= 0.999 * (double)costs[c].ns;
        y->ratio += (double)bound_ns / (double)costs[c].ns;
    }
    y->floor += (double)g->planner->floor_bytes / (double)least;
    return st;
}

/* What saves values that are no items, too; the last ones are two-level. */
static void check_inside(struct graph *g)
{
    struct cost ignored;
    for (uint32_t k = 0; k < INSIDE + INSIDE_TWO_LEVEL; k++) {
        uint32_t again = 1 + random_draw(&g->random, 9);
        for (uint32_t v = 0; v < g->decision.value_count; v++) {
            if (!g->facts.recomputable[v] || g->none.reasons[v])
                continue;
            uint8_t action =
                random_draw(&g->random, 10) >= again ? REMAT_ACTION_SAVE : REMAT_ACTION_RECOMPUTE;
            bool two_level =
                k >= INSIDE && action == REMAT_ACTION_RECOMPUTE && random_draw(&g->random, 3) == 0;
            if (action == REMAT_ACTION_SAVE && random_draw(&g->random, 2))
                action = REMAT_ACTION_PART; /* where it may be one */
            g->decision.actions[v] = two_level ? remat_action_twice(action) : action;
        }
        subject_set_run(&g->subject, &g->decision, k);
        CHECK_OK(g->subject.ctx, check_decision(g, "inside", k, &ignored));
    }
}

static remat_status check_all(struct graph *g, struct tally *y)
{
    remat_status st = REMAT_OK;
    const uint8_t actions[] = {REMAT_ACTION_SAVE, REMAT_ACTION_RECOMPUTE,
                               has_shards(g) ? REMAT_ACTION_PART : REMAT_ACTION_TWICE};
    uint32_t each = g->free_count <= TWICE_ITEMS_MAX ? 3 : 2, count = 1,
             ways = subject_runs(&g->subject);
    struct cost *costs, two_level;
    for (uint32_t f = 0; f < g->free_count; f++)
        count *= each;
    REMAT_TRY_NEW(&g->subject.arena, costs, count * ways);
    for (uint32_t code = 0; code < count * ways; code++) {
        uint32_t rest = code / ways;
        subject_set_run(&g->subject, &g->decision, code);
        for (uint32_t f = 0; f < g->free_count; f++, rest /= each)
            g->decision.actions[g->free_values[f]] = actions[rest % each];
        REMAT_TRY(check_decision(g, "decision", code, &costs[code]));
    }
    REMAT_TRY(check_optima(g, costs, count * ways, y));
    for (uint32_t k = 0; k < TWO_LEVEL; k++) {
        bool rest = random_draw(&g->random, 7) > 0;
        for (uint32_t v = 0; v < g->decision.value_count; v++)
            if (remat_action_times(g->decision.actions[v]) > 0)
                g->decision.actions[v] = rest ? REMAT_ACTION_TWICE_INLINE : REMAT_ACTION_INLINE;
        for (uint32_t f = 0; f < g->free_count; f++)
            g->decision.actions[g->free_values[f]] =
                (uint8_t)random_draw(&g->random, REMAT_ACTION_COUNT);
        subject_set_run(&g->subject, &g->decision, k);
        REMAT_TRY(check_decision(g, "two-level", k, &two_level));
    }
    check_inside(g);
    y->decisions += count * ways + TWO_LEVEL + INSIDE + INSIDE_TWO_LEVEL;
fail:
    return st;
}

static void count_programs(const struct graph *g, struct tally *y)
{
    const struct remat_device_description *d = &g->subject.device;
    for (uint32_t k = 0; k < g->base.kernels.count; k++) {
        const struct remat_kernel_info *kernel = &g->base.kernels.kernels[k];
        if (kernel->kind != REMAT_KERNEL_fused || kernel->phase != REMAT_PHASE_BACKWARD)
            continue;
        const struct remat_price *price = &g->base.prices[k];
        y->programs++;
        y->bound_by_arithmetic += (double)price->flops / d->pointwise_flops_per_ns >
                                  (double)price->moved_bytes / d->memory_bytes_per_ns;
    }
}

static void count_hosts(const struct graph *g, struct tally *y)
{
    const struct remat_settled *s = g->model.settled;
    bool hosted = false;
    for (uint32_t k = 0; k < s->kernels->count; k++)
        hosted |= remat_settled_host(s, (remat_kernel_id){k}) != NULL;
    for (uint32_t v = 0; v < s->graph->value_count && s->host; v++)
        y->statistics += remat_is_candidate(s, (remat_value){v}) && !s->written[v];
    y->hosted += hosted;
}

/* As a file of tests/corpus. */
static void print(struct graph *g)
{
    struct corpus file = {.random = g->random,
                          .microbatches = g->file.microbatches,
                          .profile = g->profile,
                          .pins = {{.arena = &g->subject.arena}, {.arena = &g->subject.arena}}};
    for (uint32_t v = 0; v < g->subject.graph->value_count; v++) {
        struct remat_text *pins = &file.pins[g->none.actions[v] != REMAT_ACTION_SAVE];
        if (g->none.reasons[v])
            remat_text_append(pins, "%s%s ", pins->count ? "" : " ",
                              g->subject.graph->values[v].name);
    }
    corpus_print(&g->subject, &file, g->source);
}

/* Prepared by prepare(), prepare_sample() or prepare_file(). */
static void check_graph(struct graph *g, remat_status (*prepare_it)(struct graph *), bool printed,
                        struct tally *y)
{
    subject_init(&g->subject);
    remat_status st = prepare_it(g);
    if (st == REMAT_OK)
        st = plan(g);
    bool small = g->free_count >= ITEMS_MIN && g->free_count <= ITEMS_MAX;
    if (st == REMAT_OK && small && printed) {
        print(g);
    } else if (st == REMAT_OK && small) {
        y->graphs++;
        y->spread += has_lane(g);
        y->sharded += has_shards(g);
        count_programs(g, y);
        count_hosts(g, y);
        st = check_all(g, y);
    }
    CHECK_OK(g->subject.ctx, st, "%s", g->name);
    subject_release(&g->subject);
}

static void check_seed(uint32_t seed, bool printed, struct tally *y)
{
    char name[32];
    snprintf(name, sizeof name, "seed %u", seed);
    struct graph g = {.random = {.seed = seed}, .seed = seed, .name = name};
    check_graph(&g, prepare, printed, y);
}

static void check_foreign(uint32_t first, uint32_t seeds)
{
    struct tally y = {0};
    for (uint32_t seed = first; seed < first + seeds; seed++) {
        char name[32];
        snprintf(name, sizeof name, "foreign seed %u", seed);
        struct graph g = {.random = {.seed = seed}, .seed = seed, .name = name};
        check_graph(&g, prepare_foreign, false, &y);
    }
    printf(
        "foreign: %u graphs, %u with hosts, %u row values, %u decisions; bound / optimum %.9f on "
        "average of %u optima, %.1f %% within 0.1 %%; floor / least %.9f\n",
        y.graphs, y.hosted, y.statistics, y.decisions, y.ratio / y.optima, y.optima,
        100.0 * y.hit / y.optima, y.floor / y.graphs);
}

static void check_streams(uint32_t first, uint32_t seeds, bool committed)
{
    struct tally y = {0};
    for (uint32_t seed = first; seed < first + seeds; seed++) {
        char name[32];
        snprintf(name, sizeof name, "streams seed %u", seed);
        struct graph g = {.random = {.seed = seed}, .seed = seed, .name = name};
        check_graph(&g, prepare_streams, false, &y);
    }
    printf(
        "streams: %u graphs, %u decisions; bound / optimum %.9f on average of %u optima, %.1f %% "
        "within 0.1 %%; floor / least %.9f\n",
        y.graphs, y.decisions, y.ratio / y.optima, y.optima, 100.0 * y.hit / y.optima,
        y.floor / y.graphs);
    if (committed)
        check_figure(y.ratio / y.optima, "compile_bound bound / optimum, streams");
}

static void check_samples(struct tally *y)
{
    for (uint32_t k = 0; k < bound_sample_count; k++) {
        char name[32];
        snprintf(name, sizeof name, "sample %u", k);
        struct graph g = {
            .seed = k, .random = {.seed = k}, .name = name, .sample = &bound_samples[k]};
        check_graph(&g, prepare_sample, false, y);
    }
}

static void check_file(const char *name, struct tally *y)
{
    struct graph g = {.name = name};
    check_graph(&g, prepare_file, false, y);
}

/* Of tests/corpus: bounds that lack a rule are too high or too low (bound_mutants.def). */
static const char *const files[] = {
    "arithmetic_hides_a_read",
    "arithmetic_hides_loads",
    "built_in_reads_what_is_made_twice",
    "clone_hides_behind_arithmetic",
    "clones_divide_at_a_product",
    "inlined_in_what_is_inlined",
    "item_read_in_two_ways",
    "kernel_of_most_nodes",
    "kernel_of_most_nodes_joint",
    "latency_of_a_group",
    "load_of_two_needs",
    "made_by_the_rerun_itself",
    "more_inlined_than_a_set",
    "operand_of_a_rerun",
    "overlapped_transfers",
    "pin_changes_what_was_profiled",
    "pins_recompute",
    "read_before_a_node_joins",
    "rerun_makes_what_its_kernel_makes",
    "rerun_needs_inputs",
    "reruns_share_arithmetic",
    "root_of_two_needs",
    "row_values_by_profile",
    "row_values_in_wide_kernels",
    "saved_inside_a_kernel",
    "set_reads_what_is_made",
    "set_shares_loads",
    "shard_gathered_once",
    "shard_takes_its_part",
    "shard_whole_when_gathered",
    "smallest_plan_is_two_level",
    "source_larger_than_result",
    "spared_before_the_loss",
    "stores_beyond_the_sets",
    "stores_go_together",
    "tasks_share_a_read",
    "tasks_share_a_rerun",
    "update_before_the_end",
    "wanted_at_two_points",
};

/* Arguments: the first seed, how many, and "print" in place of checks, which writes files of
 * tests/corpus; or "foreign" or "streams", the first seed and how many; or "samples", or files of
 * tests/corpus. Without them all of this. */
int main(int argc, char **argv)
{
    struct tally y = {0};
    if (argc > 1 && strcmp(argv[1], "foreign") == 0) {
        check_foreign(argc > 2 ? (uint32_t)atoi(argv[2]) : 1,
                      argc > 3 ? (uint32_t)atoi(argv[3]) : FOREIGN_GRAPHS);
        return check_exit();
    }
    if (argc > 1 && strcmp(argv[1], "streams") == 0) {
        check_streams(argc > 2 ? (uint32_t)atoi(argv[2]) : 1,
                      argc > 3 ? (uint32_t)atoi(argv[3]) : STREAM_GRAPHS, false);
        return check_exit();
    }
    bool random = argc < 2 || (argv[1][0] >= '0' && argv[1][0] <= '9');
    uint32_t first = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
    uint32_t seeds = argc > 2 ? (uint32_t)atoi(argv[2]) : 400;
    for (uint32_t s = 0; random && s < seeds; s++)
        check_seed(first + s, argc > 3, &y);
    if (argc > 3)
        return check_exit();
    for (int k = 1; !random && k < argc; k++)
        if (strcmp(argv[k], "samples") != 0)
            check_file(argv[k], &y);
    for (size_t k = 0; argc < 2 && k < sizeof files / sizeof *files; k++)
        check_file(files[k], &y);
    if (argc < 2 || strcmp(argv[1], "samples") == 0)
        check_samples(&y);
    if (argc < 2) {
        check_foreign(1, FOREIGN_GRAPHS);
        check_streams(1, STREAM_GRAPHS, true);
    }
    printf(
        "%u graphs, %u of several ranks, %u with shards, %u decisions; bound / optimum %.9f on "
        "average of %u optima, %.1f %% within 0.1 %%; floor / least %.9f; %.1f %% of %u programs "
        "of the backward pass bound by arithmetic\n",
        y.graphs, y.spread, y.sharded, y.decisions, y.ratio / y.optima, y.optima,
        100.0 * y.hit / y.optima, y.floor / y.graphs, 100.0 * y.bound_by_arithmetic / y.programs,
        y.programs);
    if (argc < 2) {
        check_figure(y.graphs, "compile_bound graphs");
        check_figure(y.optima, "compile_bound optima");
        check_figure(y.ratio / y.optima, "compile_bound bound / optimum");
        check_figure(y.floor / y.graphs, "compile_bound floor / least live peak");
    }
    return check_exit();
}
