/* SPDX-License-Identifier: Apache-2.0 */
/* Small graphs at random against every decision over their items, saved or recomputed, on ranks
 * along "tp" also saved as a shard, on ranks along "dp" at each depth of their transfers, whose
 * times a naive replay of two streams finds; each evaluated, and packed where it matters; and
 * against two-level ones, all or some of them. No decision is cheaper or smaller than the least
 * cost says, no bound is above the optimum, no floor above the smallest. Prints how often and how
 * nearly the plan chosen is the fastest that fits, and how often a two-level decision is better
 * than all others. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "analysis.h"
#include "check.h"
#include "corpus.h"
#include "reference.h"

enum {
    ITEMS_MAX = 9,
    BUDGETS = 4,
    ACTIONS_MAX = 3,
    TWO_LEVEL_ACTIONS = 3,
    LAYERS = 3,
    TWO_LEVEL_MAX = 625,
    SHARDED_ITEMS = 6 /* about as many are free */
};

static const char *const two_level_name = "smallest_plan_is_two_level"; /* of tests/corpus */

struct kind {
    const char *what;
    uint32_t nodes_min, nodes_max;
    uint32_t items_min, items_max; /* graphs with fewer or more are left out */
    uint32_t seeds;
    const char *also[4]; /* of tests/corpus */
    bool joint, sharded, streams;
};

/* A decision by number: how its transfers run, and in base `actions` an action for each free item.
 */
struct choice {
    uint32_t code;
    uint64_t ns, live_bytes, arena_bytes; /* arena: 0 until it is asked for */
};

struct oracle {
    struct subject subject;
    struct random random;
    struct corpus file;
    struct remat_graph *source;
    struct remat_arrangement base;
    struct remat_decision none;
    struct remat_planner *planner;
    struct remat_model model;
    struct remat_decision decision; /* what items that are not free get */
    uint32_t actions;               /* 2, or ACTIONS_MAX: what may not be a shard is saved whole */
    uint32_t free_count, free_items[ITEMS_MAX];
    uint32_t runs; /* ways for transfers to run; 1: blocking alone */
    uint32_t count;
    struct choice *choices; /* the fastest first */
};

struct tally {
    uint32_t shards; /* saved in plans */
    uint32_t depths; /* of transfers, of all graphs */
    uint32_t deep;   /* plans with a depth above 0 */
    uint32_t graphs, items, decisions, steps, too_much, budgets, optimal, refused,
        exact, /* refusals that name the smallest of all decisions that are not two-level, or less
                */
        two_level_named; /* less */
    uint32_t two_level, two_level_faster,
        two_level_smaller; /* decisions; those that are faster than all
                     that are as small, smaller than all */
    double least_ratio;    /* summed over two-level decisions */
    double bound_ratio;    /* summed over steps */
    double excess, worst;  /* over budgets with a plan */
};

/* --- every decision --- */

/* Makes oracle->decision the one with that number. */
static void decide(struct oracle *o, uint32_t code)
{
    static const uint8_t actions[ACTIONS_MAX] = {REMAT_ACTION_SAVE, REMAT_ACTION_RECOMPUTE,
                                                 REMAT_ACTION_PART};
    if (o->runs > 1)
        subject_set_run(&o->subject, &o->decision, code % o->runs);
    code /= o->runs;
    for (uint32_t f = 0; f < o->free_count; f++, code /= o->actions)
        o->decision.actions[o->model.item_value[o->free_items[f]].i] = actions[code % o->actions];
}

static int compare_choices(const void *a, const void *b)
{
    const struct choice *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns < y->ns ? -1 : 1;
    return x->live_bytes < y->live_bytes ? -1 : x->live_bytes > y->live_bytes;
}

/* Of a step on two streams, of whose transfers each begins where it stands in the order, if the
 * link is free, and is complete before what waits for it. */
static uint64_t replay(struct remat_arena *scratch, const struct remat_arrangement *a)
{
    uint64_t now_ns = 0, link_ns = 0, *due_ns;
    REMAT_NEW(scratch, due_ns, a->kernels.count + (size_t)1);
    for (uint32_t at = 0; at < a->kernels.count; at++) {
        remat_kernel_id k = a->order[at];
        bool overlapped =
            a->complete_before && remat_kernel_kind_is_transfer(a->kernels.kernels[k.i].kind);
        now_ns = due_ns[at] > now_ns ? due_ns[at] : now_ns;
        if (!overlapped) {
            now_ns += a->prices[k.i].ns;
            continue;
        }
        link_ns = (link_ns > now_ns ? link_ns : now_ns) + a->prices[k.i].ns;
        due_ns[a->complete_before[at]] = link_ns;
    }
    return link_ns > now_ns ? link_ns : now_ns;
}

/* With the graph of the decision written out. */
static remat_status check_time(struct oracle *o, struct remat_arena *scratch, uint32_t code,
                               const struct remat_evaluation *cost)
{
    remat_status st = REMAT_OK;
    struct reference reference;
    REMAT_TRY(reference_find(&o->subject, scratch, &o->decision, &reference));
    uint64_t ns = replay(scratch, &reference.naive);
    CHECK(ns == cost->step_ns,
          "%s, decision %u, depth %u: %" PRIu64 " ns, %" PRIu64 " ns by the replay",
          o->subject.graph->name, code, o->decision.depth, cost->step_ns, ns);
fail:
    return st;
}

static remat_status evaluate_all(struct oracle *o)
{
    remat_status st = REMAT_OK;
    struct remat_arena scratch;
    remat_arena_init(&scratch, o->subject.ctx);
    o->count = o->runs;
    for (uint32_t f = 0; f < o->free_count; f++)
        o->count *= o->actions;
    REMAT_TRY_NEW(&o->subject.arena, o->choices, o->count);
    for (uint32_t code = 0; code < o->count; code++) {
        struct remat_evaluation cost;
        decide(o, code);
        cost = remat_evaluate(&o->subject.evaluator, &o->decision, 0);
        struct remat_least least;
        least = remat_planner_least(o->planner, &scratch, &o->decision);
        CHECK(
            least.step_ns <= cost.step_ns && least.live_bytes <= cost.live_peak_bytes &&
                (o->runs > 1 ||
                 remat_evaluate_time(&o->subject.evaluator, &o->decision).step_ns == cost.step_ns),
            "%s, decision %u: %" PRIu64 " ns, %" PRIu64 " B, but at least %" PRIu64 " ns, %" PRIu64
            " B",
            o->subject.graph->name, code, cost.step_ns, cost.live_peak_bytes, least.step_ns,
            least.live_bytes);
        if (o->runs > 1)
            REMAT_TRY(check_time(o, &scratch, code, &cost));
        remat_arena_reset(&scratch);
        o->choices[code] = (struct choice){code, cost.step_ns, cost.live_peak_bytes, 0};
    }
    qsort(o->choices, o->count, sizeof *o->choices, compare_choices);
fail:
    remat_arena_release(&scratch);
    return st;
}

/* Makes oracle->decision the one with that number in base TWO_LEVEL_ACTIONS. */
static void decide_two_level(struct oracle *o, uint32_t code)
{
    static const uint8_t actions[] = {REMAT_ACTION_SAVE, REMAT_ACTION_RECOMPUTE,
                                      REMAT_ACTION_TWICE};
    for (uint32_t f = 0; f < o->free_count; f++, code /= TWO_LEVEL_ACTIONS)
        o->decision.actions[o->model.item_value[o->free_items[f]].i] =
            actions[code % TWO_LEVEL_ACTIONS];
}

/* The fastest of all that are not two-level and hold at most so much; UINT64_MAX: none does. */
static uint64_t fastest_ns(const struct oracle *o, uint64_t live_bytes)
{
    for (uint32_t c = 0; c < o->count; c++)
        if (o->choices[c].live_bytes <= live_bytes)
            return o->choices[c].ns;
    return UINT64_MAX;
}

static void check_two_level(struct oracle *o, uint32_t code, struct tally *y)
{
    struct remat_arena scratch;
    struct remat_evaluation cost;
    struct remat_least least;
    uint64_t bound_ns;
    remat_arena_init(&scratch, o->subject.ctx);
    decide_two_level(o, code);
    cost = remat_evaluate(&o->subject.evaluator, &o->decision, 0);
    least = remat_planner_least(o->planner, &scratch, &o->decision);
    bound_ns = remat_planner_bound(o->planner, cost.live_peak_bytes);
    CHECK(least.step_ns <= cost.step_ns && least.live_bytes <= cost.live_peak_bytes &&
              remat_evaluate_time(&o->subject.evaluator, &o->decision).step_ns == cost.step_ns,
          "%s, two-level %u: %" PRIu64 " ns, %" PRIu64 " B, but at least %" PRIu64 " ns, %" PRIu64
          " B",
          o->subject.graph->name, code, cost.step_ns, cost.live_peak_bytes, least.step_ns,
          least.live_bytes);
    CHECK(bound_ns <= cost.step_ns && o->planner->floor_bytes <= cost.live_peak_bytes,
          "%s, two-level %u: %" PRIu64 " ns, %" PRIu64 " B, bound %" PRIu64 " ns, floor %" PRIu64
          " B",
          o->subject.graph->name, code, cost.step_ns, cost.live_peak_bytes, bound_ns,
          o->planner->floor_bytes);
    uint64_t once_ns = fastest_ns(o, cost.live_peak_bytes);
    y->two_level++;
    y->two_level_faster += once_ns != UINT64_MAX && cost.step_ns < once_ns;
    y->two_level_smaller += once_ns == UINT64_MAX;
    y->least_ratio += (double)least.step_ns / (double)cost.step_ns;
    remat_arena_release(&scratch);
}

/* Every two-level decision, or where they are many, some. */
static void check_all_two_level(struct oracle *o, struct tally *y)
{
    uint32_t all = 1;
    for (uint32_t f = 0; f < o->free_count; f++)
        all *= TWO_LEVEL_ACTIONS;
    for (uint32_t k = 0; k < all && k < TWO_LEVEL_MAX; k++)
        check_two_level(o, all <= TWO_LEVEL_MAX ? k : random_draw(&o->random, all), y);
}

static remat_status pack(struct oracle *o, struct choice *choice)
{
    remat_status st = REMAT_OK;
    struct subject *s = &o->subject;
    struct remat_arena scratch;
    struct reference reference;
    if (choice->arena_bytes)
        return REMAT_OK;
    remat_arena_init(&scratch, s->ctx);
    decide(o, choice->code);
    REMAT_TRY(reference_find(s, &scratch, &o->decision, &reference));
    choice->arena_bytes = reference.naive_bytes;
fail:
    remat_arena_release(&scratch);
    return st;
}

/* The fastest choice whose packed arena fits; NULL: none does. */
static remat_status find_optimum(struct oracle *o, uint64_t limit_bytes, struct choice **out)
{
    remat_status st = REMAT_OK;
    *out = NULL;
    for (uint32_t c = 0; c < o->count && !*out; c++) {
        if (o->choices[c].live_bytes > limit_bytes)
            continue;
        REMAT_TRY(pack(o, &o->choices[c]));
        if (o->choices[c].arena_bytes <= limit_bytes)
            *out = &o->choices[c];
    }
fail:
    return st;
}

/* --- the planner beside it --- */

static remat_status check_budget(struct oracle *o, uint64_t limit_bytes, struct tally *y)
{
    remat_status st = REMAT_OK;
    struct subject *s = &o->subject;
    struct remat_arena scratch;
    struct remat_chosen chosen;
    struct choice *best;
    remat_arena_init(&scratch, s->ctx);
    REMAT_TRY(find_optimum(o, limit_bytes, &best));
    y->budgets++;
    st = subject_choose(s, &scratch, limit_bytes, &chosen);
    y->refused += st == REMAT_ERROR_INFEASIBLE;
    if (st == REMAT_ERROR_INFEASIBLE)
        st = REMAT_OK;
    else if (st == REMAT_OK) {
        double excess = (double)chosen.arranged.step_ns / (double)best->ns - 1;
        CHECK(chosen.arena_bytes <= limit_bytes, "%s: over the limit", s->graph->name);
        CHECK(chosen.bound_ns <= best->ns,
              "%s, %" PRIu64 " B: bound %" PRIu64 " ns, optimum %" PRIu64, s->graph->name,
              limit_bytes, chosen.bound_ns, best->ns);
        for (uint32_t v = 0; v < chosen.decision.value_count; v++)
            y->shards += chosen.decision.actions[v] == REMAT_ACTION_PART;
        y->deep += chosen.decision.depth > 0;
        y->optimal += excess <= 0;
        y->excess += excess;
        y->worst = fmax(y->worst, excess);
    }
fail:
    remat_arena_release(&scratch);
    return st;
}

/* Of all that are not two-level, by their packed arenas. */
static remat_status find_smallest(struct oracle *o, uint64_t *out_bytes)
{
    remat_status st = REMAT_OK;
    *out_bytes = UINT64_MAX;
    for (uint32_t c = 0; c < o->count; c++) {
        if (o->choices[c].live_bytes >= *out_bytes)
            continue;
        REMAT_TRY(pack(o, &o->choices[c]));
        if (o->choices[c].arena_bytes < *out_bytes)
            *out_bytes = o->choices[c].arena_bytes;
    }
fail:
    return st;
}

/* Room for nothing: the refusal names what the smallest arena needs, as far as it is known. A plan
 * fits that and none a byte less; it is two-level where nothing else is so small. */
static remat_status check_refusal(struct oracle *o, struct tally *y)
{
    remat_status st = REMAT_OK;
    struct subject *s = &o->subject;
    struct remat_arena scratch;
    struct remat_chosen chosen;
    uint64_t smallest;
    remat_arena_init(&scratch, s->ctx);
    REMAT_TRY(find_smallest(o, &smallest));
    CHECK(subject_choose(s, &scratch, 0, &chosen) == REMAT_ERROR_INFEASIBLE, "%s: no refusal",
          s->graph->name);
    uint64_t named = chosen.arena_bytes;
    REMAT_TRY(subject_choose(s, &scratch, named, &chosen));
    bool two_level = remat_decision_rounds(&chosen.decision) > 1;
    CHECK(chosen.arena_bytes <= named && (two_level || named >= smallest),
          "%s: %" PRIu64 " B named, %" PRIu64 " B is the smallest", s->graph->name, named,
          smallest);
    CHECK(subject_choose(s, &scratch, named - 1, &chosen) == REMAT_ERROR_INFEASIBLE,
          "%s: %" PRIu64 " B named, less will do", s->graph->name, named);
    y->exact += named <= smallest;
    y->two_level_named += named < smallest;
fail:
    remat_arena_release(&scratch);
    return st;
}

/* A choice that is smaller than every faster one is the optimum for its live peak. */
static remat_status check_bound(struct oracle *o, const struct choice *c, struct tally *y)
{
    remat_status st = REMAT_OK;
    uint64_t bound_ns, of_less_ns;
    bound_ns = remat_planner_bound(o->planner, c->live_bytes);
    of_less_ns = remat_planner_bound(o->planner, c->live_bytes - REMAT_ALIGNMENT);
    CHECK(bound_ns <= c->ns, "%s, live %" PRIu64 " B: bound %" PRIu64 " ns, optimum %" PRIu64,
          o->subject.graph->name, c->live_bytes, bound_ns, c->ns);
    CHECK(o->planner->floor_bytes <= c->live_bytes, "%s: floor %" PRIu64 " B above %" PRIu64 " B",
          o->subject.graph->name, o->planner->floor_bytes, c->live_bytes);
    y->steps++;
    y->too_much += of_less_ns > c->ns;
    y->bound_ratio += (double)bound_ns / (double)c->ns;
    return st;
}

/* Budgets are what some of the optima take. */
static remat_status check_optima(struct oracle *o, struct tally *y)
{
    remat_status st = REMAT_OK;
    uint32_t *optima, count = 0;
    uint64_t least = UINT64_MAX;
    REMAT_TRY_NEW(&o->subject.arena, optima, o->count);
    for (uint32_t c = 0; c < o->count; c++) {
        if (o->choices[c].live_bytes >= least)
            continue;
        least = o->choices[c].live_bytes;
        optima[count++] = c;
        REMAT_TRY(check_bound(o, &o->choices[c], y));
    }
    for (uint32_t b = 0; b < BUDGETS && b < count; b++) {
        uint32_t step = count <= BUDGETS ? b : random_draw(&o->random, count);
        struct choice *choice = &o->choices[optima[step]];
        REMAT_TRY(pack(o, choice));
        REMAT_TRY(check_budget(o, choice->arena_bytes, y));
    }
fail:
    return st;
}

/* --- a graph --- */

/* Links as slow as memory or much slower, so that computation or the link may take the time. */
static void draw_ranks(struct oracle *o)
{
    static const uint32_t zero[] = {1, 3, 3, 3};
    struct subject *s = &o->subject;
    o->random.mixed = true;
    s->ranks = 2 << random_draw(&o->random, 2);
    s->zero = zero[random_draw(&o->random, 4)];
    s->device.within.latency_ns = random_draw(&o->random, 2) ? 0 : 100;
    s->device.within.bytes_per_ns =
        s->device.memory_bytes_per_ns / exp2(random_draw(&o->random, 12));
}

static const struct remat_optimizer adamw = {.kind = REMAT_OPTIMIZER_ADAMW,
                                             .beta1 = 0.9,
                                             .beta2 = 0.999,
                                             .epsilon = 1e-8,
                                             .weight_decay = 0.01};

static remat_status draw_graph(struct oracle *o, const struct kind *kind, uint32_t layers,
                               struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    struct subject *s = &o->subject;
    REMAT_TRY(remat_device_description_read(s->ctx, &s->arena, "h100-sxm", 0, &s->device));
    if (kind->streams) {
        random_balance(&o->random, &s->device);
        draw_ranks(o);
    } else {
        random_rates(&o->random, &s->device);
    }
    uint32_t nodes =
        kind->nodes_min + random_draw(&o->random, kind->nodes_max - kind->nodes_min + 1);
    REMAT_TRY(random_graph(s->ctx, &s->arena, &o->random, nodes, layers, out));
    if (kind->joint)
        REMAT_TRY(random_joint(&s->arena, &o->random, *out, out));
    if (kind->streams) {
        (*out)->optimizer = adamw;
        return REMAT_OK;
    }
    s->tensor = kind->sharded;
    s->ranks = kind->sharded ? 2 + 2 * random_draw(&o->random, 2) : 0;
fail:
    return st;
}

/* Along "tp" transfers are items, too, more than can be tried: some stay free. */
static remat_status pin_most(struct oracle *o)
{
    remat_status st = REMAT_OK;
    struct subject *s = &o->subject;
    struct remat_model model;
    bool *saved;
    REMAT_TRY(subject_extract(s, &model));
    REMAT_TRY_NEW(&s->arena, saved, s->graph->value_count);
    for (uint32_t i = 0; i < model.item_count; i++)
        saved[model.item_value[i].i] = random_draw(&o->random, model.item_count) >= SHARDED_ITEMS;
    REMAT_TRY(subject_pin(s, saved));
fail:
    return st;
}

/* Fills in border and what is free in it. */
static remat_status find_items(struct oracle *o)
{
    remat_status st = REMAT_OK;
    struct subject *s = &o->subject;
    struct remat_facts facts;
    uint8_t *actions;
    REMAT_TRY(subject_plan(s, &o->base, &o->none, &o->planner));
    remat_facts_create(&s->arena, s->graph, &facts);
    REMAT_TRY(subject_extract(s, &o->model));
    REMAT_TRY_NEW(&s->arena, actions, o->model.item_count);
    memset(actions, REMAT_ACTION_RECOMPUTE, o->model.item_count);
    remat_model_decide(&s->arena, &o->model, actions, &o->decision);
    o->decision.blocking = s->evaluator.depths.count > 0; /* which is the smallest */
    o->runs = s->tensor ? 1 : subject_runs(s);
    for (uint32_t i = 0; i < o->model.item_count; i++)
        if (facts.recomputable[o->model.item_value[i].i] &&
            s->graph->values[o->model.item_value[i].i].pin == REMAT_PIN_NONE) {
            if (o->free_count < ITEMS_MAX)
                o->free_items[o->free_count] = i;
            o->free_count++;
        }
fail:
    return st;
}

/* Of tests/corpus where `name` is not NULL. */
static remat_status prepare(struct oracle *o, const struct kind *kind, const char *name,
                            uint32_t layers)
{
    remat_status st = REMAT_OK;
    struct subject *s = &o->subject;
    if (name)
        REMAT_TRY(corpus_read(s, name, &o->file, &o->source));
    else
        REMAT_TRY(draw_graph(o, kind, layers, &o->source));
    if (name)
        o->random = o->file.random;
    o->file = (struct corpus){.random = o->random, .microbatches = 1};
    o->actions = s->tensor ? ACTIONS_MAX : ACTIONS_MAX - 1;
    REMAT_TRY(subject_prepare_graph(s, o->source, 1));
    if (s->tensor)
        REMAT_TRY(pin_most(o));
    REMAT_TRY(find_items(o));
fail:
    return st;
}

static remat_status check_graph(struct oracle *o, struct tally *y)
{
    remat_status st = REMAT_OK;
    y->graphs++;
    y->items += o->free_count;
    REMAT_TRY(evaluate_all(o));
    y->decisions += o->count;
    REMAT_TRY(check_optima(o, y));
    REMAT_TRY(check_refusal(o, y));
    y->depths += o->runs - 1;
    if (o->runs == 1)
        check_all_two_level(o, y);
fail:
    return st;
}

static void check(const struct kind *kind, const char *name, uint32_t seed, uint32_t layers,
                  bool printed, struct tally *y)
{
    struct oracle o = {.random = {.seed = seed}};
    subject_init(&o.subject);
    remat_status st = prepare(&o, kind, name, layers);
    bool fits = o.free_count >= kind->items_min && o.free_count <= kind->items_max;
    uint32_t named = y->two_level_named;
    CHECK(fits || !name, "%s: %u items", name, o.free_count);
    if (st == REMAT_OK && fits && printed)
        corpus_print(&o.subject, &o.file, o.source);
    else if (st == REMAT_OK && fits)
        st = check_graph(&o, y);
    CHECK(name != two_level_name || y->two_level_named > named, "%s is not", name);
    CHECK_OK(o.subject.ctx, st, "%s, seed %u", name ? name : "at random", seed);
    subject_release(&o.subject);
}

/* Each graph without layers and of some that are equal. *too_much grows by the times that less room
 * would have raised the bound above an optimum. */
static void check_kind(const struct kind *kind, uint32_t first_seed, uint32_t seeds, bool printed,
                       bool committed, uint32_t *too_much)
{
    struct tally y = {0};
    for (uint32_t s = 0; s < seeds; s++)
        for (uint32_t layers = 0; layers <= LAYERS; layers += LAYERS)
            check(kind, NULL, first_seed + s, layers, printed, &y);
    for (size_t k = 0; k < sizeof kind->also / sizeof *kind->also && kind->also[k]; k++)
        check(kind, kind->also[k], 0, 0, false, &y);
    double n = y.budgets, planned = y.budgets - y.refused;
    printf("%s: %u graphs with %.1f items on average, %u decisions\n", kind->what, y.graphs,
           (double)y.items / y.graphs, y.decisions);
    printf("  %u budgets: %.1f %% optimal, %.1f %% refused; mean excess of the others %.3f %%, "
           "worst %.2f %%; the smallest named by %.1f %% of refusals, a two-level one by %u\n",
           y.budgets, 100 * y.optimal / n, 100 * y.refused / n, 100 * y.excess / planned,
           100 * y.worst, 100.0 * y.exact / y.graphs, y.two_level_named);
    printf("  bound / optimum %.4f on average of %u, for a byte less above it in %u\n",
           y.bound_ratio / y.steps, y.steps, y.too_much);
    if (y.two_level)
        printf("  %u two-level decisions: %u faster than every other as small, %u smaller than "
               "every other; least / exact %.4f on average\n",
               y.two_level, y.two_level_faster, y.two_level_smaller, y.least_ratio / y.two_level);
    if (kind->streams)
        printf("  %u depths of transfers; %u plans have one above 0\n", y.depths, y.deep);
    CHECK(kind->streams == (y.deep > 0), "%s: %u plans with a depth", kind->what, y.deep);
    if (kind->sharded)
        printf("  %u shards in the plans\n", y.shards);
    CHECK(!kind->sharded == (y.shards == 0), "%s: %u shards", kind->what, y.shards);
    if (!committed)
        return;
    check_figure(y.graphs, "compile_optimum graphs, %s", kind->what);
    check_figure(y.optimal / n, "compile_optimum share of optimal plans, %s", kind->what);
    check_figure(planned / (planned + y.excess), "compile_optimum best of all tried / plan, %s",
                 kind->what);
    check_figure((double)y.exact / y.graphs, "compile_optimum share of exact refusals, %s",
                 kind->what);
    check_figure(y.bound_ratio / y.steps, "compile_optimum bound / optimum, %s", kind->what);
    *too_much += y.too_much;
}

/* Arguments: the first seed, and how many of a hundred of the graphs of each kind, or, with a
 * fourth one, of that kind alone; all are a campaign by hand. */
int main(int argc, char **argv)
{
    const struct kind kinds[] = {
        {"few items",
         2,
         8,
         2,
         7,
         2000,
         {"kernel_of_most_nodes", "arithmetic_hides_a_read", "item_read_in_two_ways"},
         false,
         false,
         false},
        {"many items in few nodes",
         6,
         12,
         6,
         9,
         40,
         {"tasks_share_a_read", "tasks_share_a_rerun", two_level_name},
         false,
         false,
         false},
        {"more items", 8, 12, 8, 9, 240, {"clones_divide_at_a_product"}, false, false, false},
        {"joint", 2, 8, 2, 7, 100, {"kernel_of_most_nodes_joint"}, true, false, false},
        {"sharded", 2, 8, 2, 6, 150, {0}, false, true, false},
        {"streams", 2, 10, 2, 6, 300, {0}, false, false, true},
    };
    const char *only = argc > 4 ? argv[4] : NULL;
    uint32_t first = argc > 1 ? (uint32_t)atoi(argv[1]) : 1700;
    uint32_t percent = argc > 2 ? (uint32_t)atoi(argv[2]) : 40;
    uint32_t too_much = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (!only || !strcmp(only, kinds[k].what))
            check_kind(&kinds[k], first, (kinds[k].seeds * percent + 99) / 100, argc == 4, argc < 2,
                       &too_much);
    CHECK(only || too_much > 0, "a bound that is wrong passes");
    return check_exit();
}
