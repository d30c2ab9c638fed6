/* SPDX-License-Identifier: Apache-2.0 */
/* The certified bound against decisions that are looked for: random graphs in f32 and bf16, with
 * casts, and from decisions at random walks that keep what comes nearer to a bound: the step to the
 * one for its own live peak, the step to the least cost, or the live peak to that. No decision on
 * the way takes or holds less than its least cost says, nor takes less than that bound, nor holds
 * less than the floor. What breaks a bound is printed. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "analysis.h"
#include "check.h"
#include "corpus.h"
#include "noisy_profile.h"

enum { NODES_MAX = 11, RANDOM = 100, WALKS = 9, MOVES = 60, MARGIN = 1000 };

struct climb {
    struct subject subject;
    struct random random;
    const char *name;
    struct corpus file; /* what the graph is beside, also one at random */
    struct remat_graph *source;
    struct remat_arrangement base;
    struct remat_decision none, decision;
    struct remat_planner *planner;
    struct remat_model model;
    uint32_t *values, count; /* those that a decision may recompute */
    uint32_t actions;        /* that are drawn: not two-level in two of three starts */
    enum { TO_BOUND, TO_LEAST_NS, TO_LEAST_BYTES, GOALS } goal;
    uint64_t excess;   /* of the decision, over the goal */
    bool broken, near; /* near: within 1/MARGIN of the bound, not where all is saved */
};

struct tally {
    uint32_t graphs, half, near; /* half: with bf16 */
    uint64_t decisions;
};

/* --- graphs --- */

static remat_status prepare(struct climb *c)
{
    remat_status st = REMAT_OK;
    struct subject *s = &c->subject;
    struct random *r = &c->random;
    static const double launches_ns[] = {0, 1e4, 2e5, 1e6, 1e6, 4e6, 1e7, 1e7};
    REMAT_TRY(remat_device_description_read(s->ctx, &s->arena, "h100-sxm", 0, &s->device));
    random_balance(r, &s->device);
    if (random_draw(r, 2))
        s->device.pointwise_flops_per_ns = exp2(random_draw(r, 33) / 4.0 - 8);
    s->device.launch_ns = launches_ns[random_draw(r, 8)];
    c->file.microbatches = random_draw(r, 8) ? 1 : 2;
    c->file.profile = random_draw(r, 10) == 0;
    uint32_t layers = random_draw(r, 8) ? 0 : 2;
    uint32_t nodes = 3 + random_draw(r, NODES_MAX - 2);
    REMAT_TRY(random_graph(s->ctx, &s->arena, r, nodes, layers, &c->source));
fail:
    return st;
}

static remat_status prepare_file(struct climb *c)
{
    remat_status st = corpus_read(&c->subject, c->name, &c->file, &c->source);
    c->random = c->file.random;
    return st;
}

static remat_status plan(struct climb *c)
{
    remat_status st = REMAT_OK;
    struct subject *s = &c->subject;
    REMAT_TRY(subject_prepare_graph(s, c->source, c->file.microbatches));
    if (c->file.profile)
        REMAT_TRY(noisy_profile(s, c->random.seed));
    REMAT_TRY(subject_plan(s, &c->base, &c->none, &c->planner));
    REMAT_TRY(subject_extract(s, &c->model));
    remat_decision_create(&s->arena, s->graph->value_count, &c->decision);
    REMAT_TRY_NEW(&s->arena, c->values, s->graph->value_count);
    for (uint32_t v = 0; v < s->graph->value_count; v++)
        if (c->model.settled->facts.recomputable[v])
            c->values[c->count++] = v;
fail:
    return st;
}

/* --- decisions --- */

/* A file of tests/corpus, and the actions. */
static void report(const struct climb *c)
{
    corpus_print(&c->subject, &c->file, c->source);
    printf("actions");
    for (uint32_t k = 0; k < c->count; k++)
        printf(" %s%s=%d", c->subject.graph->values[c->values[k]].name,
               remat_is_none(c->model.item_of[c->values[k]].i) ? "'" : "",
               c->decision.actions[c->values[k]]);
    printf(" (': no item)\n");
}

/* Of the decision that is held. */
static remat_status visit(struct climb *c, struct tally *y)
{
    remat_status st = REMAT_OK;
    struct remat_arena scratch;
    struct remat_evaluation cost;
    struct remat_least least;
    uint64_t bound_ns, charged_ns;
    remat_arena_init(&scratch, c->subject.ctx);
    cost = remat_evaluate(&c->subject.evaluator, &c->decision, 0);
    least = remat_planner_least(c->planner, &scratch, &c->decision);
    bound_ns = remat_planner_bound(c->planner, cost.live_peak_bytes);
    REMAT_TRY(subject_charged(&scratch, &c->model, &c->decision, &charged_ns));
    uint64_t floor_bytes = c->planner->floor_bytes;
    c->broken = bound_ns > cost.step_ns || charged_ns > cost.step_ns ||
                least.step_ns > cost.step_ns ||
                remat_evaluate_time(&c->subject.evaluator, &c->decision).step_ns != cost.step_ns ||
                least.live_bytes > cost.live_peak_bytes || floor_bytes > cost.live_peak_bytes;
    CHECK(!c->broken,
          "%s: %" PRIu64 " ns, %" PRIu64 " B, but bound %" PRIu64 " ns, charged %" PRIu64
          " ns, least %" PRIu64 " ns, %" PRIu64 " B, floor %" PRIu64 " B",
          c->name, cost.step_ns, cost.live_peak_bytes, bound_ns, charged_ns, least.step_ns,
          least.live_bytes, floor_bytes);
    if (c->broken)
        report(c);
    c->excess = c->goal == TO_BOUND      ? cost.step_ns - bound_ns
                : c->goal == TO_LEAST_NS ? cost.step_ns - least.step_ns
                                         : cost.live_peak_bytes - least.live_bytes;
    c->near |= cost.step_ns > c->base.step_ns && (cost.step_ns - bound_ns) * MARGIN <= cost.step_ns;
    y->decisions++;
fail:
    remat_arena_release(&scratch);
    return st;
}

/* Up to nine in ten values are saved, or none. */
static void draw_decision(struct climb *c)
{
    uint32_t again = 1 + random_draw(&c->random, 10);
    bool two_level = random_draw(&c->random, 3) == 0;
    c->actions = two_level ? 3 : 2;
    for (uint32_t k = 0; k < c->count; k++) {
        uint8_t action =
            random_draw(&c->random, 10) >= again ? REMAT_ACTION_SAVE : REMAT_ACTION_RECOMPUTE;
        bool inner = two_level && action != REMAT_ACTION_SAVE && random_draw(&c->random, 3) == 0;
        c->decision.actions[c->values[k]] = inner ? remat_action_twice(action) : action;
    }
}

static void draw_action(struct climb *c, uint32_t v)
{
    static const uint8_t actions[] = {REMAT_ACTION_SAVE, REMAT_ACTION_RECOMPUTE,
                                      REMAT_ACTION_TWICE};
    c->decision.actions[v] = actions[random_draw(&c->random, c->actions)];
}

/* Other actions for one value or two, taken back where that leads away from the goal. */
static remat_status move(struct climb *c, struct tally *y)
{
    remat_status st = REMAT_OK;
    uint8_t *actions = c->decision.actions;
    uint32_t v = c->values[random_draw(&c->random, c->count)];
    uint32_t second = c->values[random_draw(&c->random, c->count)];
    uint8_t action = actions[v], second_action = actions[second];
    uint64_t excess = c->excess;
    draw_action(c, v);
    if (random_draw(&c->random, 2))
        draw_action(c, second);
    REMAT_TRY(visit(c, y));
    if (c->excess > excess) {
        actions[v] = action;
        actions[second] = second_action;
        c->excess = excess;
    }
fail:
    return st;
}

static remat_status search(struct climb *c, struct tally *y)
{
    remat_status st = REMAT_OK;
    for (uint32_t k = 0; k < RANDOM + WALKS && !c->broken; k++) {
        c->goal = k % GOALS;
        draw_decision(c);
        REMAT_TRY(visit(c, y));
        for (uint32_t m = 0; k >= RANDOM && m < MOVES && !c->broken; m++)
            REMAT_TRY(move(c, y));
    }
fail:
    return st;
}

static bool has_half(const struct remat_graph *g)
{
    bool any = false;
    for (uint32_t v = 0; v < g->value_count; v++)
        any |= g->values[v].dtype == REMAT_BF16;
    return any;
}

static void check(struct climb *c, remat_status (*prepare_it)(struct climb *), bool printed,
                  struct tally *y)
{
    subject_init(&c->subject);
    remat_status st = prepare_it(c);
    c->file.random = c->random;
    if (st == REMAT_OK)
        st = plan(c);
    if (st == REMAT_OK && printed) {
        corpus_print(&c->subject, &c->file, c->source);
    } else if (st == REMAT_OK && c->count > 0) {
        st = search(c, y);
        y->graphs++;
        y->half += has_half(c->source);
        y->near += c->near;
    }
    CHECK_OK(c->subject.ctx, st, "%s", c->name);
    subject_release(&c->subject);
}

static void check_seed(uint32_t seed, bool printed, struct tally *y)
{
    char name[32];
    snprintf(name, sizeof name, "seed %u", seed);
    struct climb c = {.random = {.seed = seed, .mixed = true, .typed = true}, .name = name};
    check(&c, prepare, printed, y);
}

/* Arguments: the first seed, how many, and "print" in place of checks (test_bound.c). Without them
 * also graphs of tests/corpus. */
int main(int argc, char **argv)
{
    static const char *const files[] = {"shape_of_a_cast", "shape_of_a_cast_of_rows"};
    uint32_t first = argc > 1 ? (uint32_t)atoi(argv[1]) : 1;
    uint32_t seeds = argc > 2 ? (uint32_t)atoi(argv[2]) : 500;
    struct tally y = {0};
    for (size_t k = 0; argc < 2 && k < sizeof files / sizeof *files; k++) {
        struct climb c = {.name = files[k]};
        check(&c, prepare_file, false, &y);
    }
    for (uint32_t s = 0; s < seeds; s++)
        check_seed(first + s, argc > 3, &y);
    if (argc > 3)
        return check_exit();
    printf("%u graphs, %" PRIu64 " decisions; bf16 in %.0f %%; in %.1f %% a decision that computes "
           "again is within 0.1 %% of the bound\n",
           y.graphs, y.decisions, 100.0 * y.half / y.graphs, 100.0 * y.near / y.graphs);
    if (argc < 2) {
        check_figure(y.graphs, "compile_climb graphs");
        check_figure((double)y.half / y.graphs, "compile_climb share with bf16");
        check_figure((double)y.near / y.graphs, "compile_climb share near the bound");
    }
    return check_exit();
}
