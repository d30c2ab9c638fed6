/* SPDX-License-Identifier: Apache-2.0 */
/* A search that is ended at its n-th question, for every n of the first and the last, and every
 * eleventh of the others: a plan that fits, is no slower than what the search had reported, and
 * says so; never ended, it says nothing. A plan is found however early the end comes, but for the
 * smallest budgets, and only what cannot be is refused as too little. Long graphs are refused by
 * their few smallest decisions. */
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"

struct watch {
    uint32_t calls, end; /* ended at call number `end` */
    uint64_t best_ns, bound_ns;
};

static bool is_over(void *user, const struct remat_search_state *state)
{
    struct watch *w = user;
    uint64_t best_ns = state->best_ns, bound_ns = state->bound_ns;
    CHECK(w->best_ns == 0 || (best_ns != 0 && best_ns <= w->best_ns),
          "the best so far gets slower: %llu, %llu ns", (unsigned long long)w->best_ns,
          (unsigned long long)best_ns);
    CHECK(best_ns == 0 || bound_ns <= best_ns, "%llu ns is below the bound %llu ns",
          (unsigned long long)best_ns, (unsigned long long)bound_ns);
    w->best_ns = best_ns;
    w->bound_ns = bound_ns;
    return w->calls++ >= w->end;
}

static bool is_noted(const struct remat_program *program)
{
    for (uint32_t i = 0; i < program->note_count; i++)
        if (strstr(program->notes[i], "the search was cut short"))
            return true;
    return false;
}

/* Questions that a whole search asks. otherwise: what there may be instead of a plan. */
static uint32_t check_end(remat_context *ctx, const struct remat_graph *graph,
                          struct remat_compile_settings settings, uint32_t end,
                          const struct remat_program *whole, remat_status otherwise)
{
    struct watch watch = {.end = end};
    struct remat_arena arena;
    struct remat_program *program;
    remat_arena_init(&arena, ctx);
    settings.search.is_over = is_over;
    settings.search.is_over_user = &watch;
    remat_status st = remat_compile(ctx, &arena, graph, &settings, &program);
    bool ended = watch.calls > end;
    if (st == REMAT_OK) {
        CHECK(is_noted(program) == ended, "ended at %u of %u: note missing or too much", end,
              watch.calls);
        CHECK(watch.best_ns == 0 || program->step_ns <= watch.best_ns || !ended,
              "ended at %u: %llu ns, but %llu ns had been found", end,
              (unsigned long long)program->step_ns, (unsigned long long)watch.best_ns);
        CHECK(program->arena_bytes + program->reserve_bytes <= settings.search.budget_bytes,
              "ended at %u: too large", end);
        CHECK(program->step_ns >= program->bound_step_ns, "below the bound");
        CHECK(ended || harness_offsets_hash(program) == harness_offsets_hash(whole),
              "not ended, but another plan");
    } else {
        CHECK(st == otherwise && ended && watch.best_ns == 0 &&
                  strstr(remat_context_message(ctx), "the search was ended before"),
              "ended at %u: status %d: %s", end, st, remat_context_message(ctx));
    }
    remat_arena_release(&arena);
    return watch.calls;
}

static uint32_t next_end(uint32_t end, uint32_t calls)
{
    return end < 20 || end + 20 > calls ? end + 1 : end + 11;
}

static uint64_t smallest_budget(remat_context *ctx, const struct remat_graph *graph,
                                struct remat_compile_settings settings)
{
    struct remat_arena arena;
    struct remat_program *none;
    remat_arena_init(&arena, ctx);
    settings.search.has_budget = true;
    settings.search.budget_bytes = 1;
    remat_status st = remat_compile(ctx, &arena, graph, &settings, &none);
    const char *needs = strstr(remat_context_message(ctx), " needs ");
    CHECK(st == REMAT_ERROR_INFEASIBLE && needs, "budget 1: status %d", st);
    remat_arena_release(&arena);
    return strtoull(needs + strlen(" needs "), NULL, 10);
}

/* At the smallest budget, and a byte below, which is too little whenever it is known to be. */
static void test_smallest(remat_context *ctx, const struct remat_graph *graph,
                          struct remat_compile_settings settings)
{
    struct remat_arena arena;
    struct remat_program *whole;
    remat_arena_init(&arena, ctx);
    settings.search.budget_bytes = smallest_budget(ctx, graph, settings);
    MUST_OK(ctx, remat_compile(ctx, &arena, graph, &settings, &whole));
    uint32_t calls = check_end(ctx, graph, settings, UINT32_MAX, whole, REMAT_OK);
    for (uint32_t end = 0; end <= calls; end = next_end(end, calls))
        check_end(ctx, graph, settings, end, whole, REMAT_ERROR_CUT_SHORT);
    struct watch watch = {.end = 0};
    settings.search.is_over = is_over;
    settings.search.is_over_user = &watch;
    settings.search.budget_bytes = 1;
    CHECK_STATUS(ctx, remat_compile(ctx, &arena, graph, &settings, &whole), REMAT_ERROR_INFEASIBLE,
                 "before the search was ended needs ");
    remat_arena_release(&arena);
}

static void test_ends(remat_context *ctx, const struct remat_graph *graph, enum remat_solver solver,
                      uint32_t microbatches)
{
    struct remat_arena arena;
    struct remat_program *most, *whole;
    struct remat_compile_settings settings = {.search.solver = solver,
                                              .passes.microbatches = microbatches};
    remat_arena_init(&arena, ctx);
    MUST_OK(ctx, remat_device_description_read(ctx, &arena, "cpu", 0, &settings.device));
    MUST_OK(ctx, remat_compile(ctx, &arena, graph, &settings, &most));
    settings.search.has_budget = true;
    settings.search.budget_bytes =
        most->reserve_bytes + most->static_bytes + (most->arena_bytes - most->static_bytes) / 2;
    MUST_OK(ctx, remat_compile(ctx, &arena, graph, &settings, &whole));
    CHECK(!is_noted(whole), "never asked, but cut short");
    uint32_t calls = check_end(ctx, graph, settings, UINT32_MAX, whole, REMAT_OK);
    for (uint32_t end = 0; end <= calls; end = next_end(end, calls))
        check_end(ctx, graph, settings, end, whole, REMAT_OK);
    test_smallest(ctx, graph, settings);
    CHECK(calls > 5, "only %u questions", calls);
    printf("solver %d, %u microbatches: %u questions\n", (int)solver, microbatches, calls);
    remat_arena_release(&arena);
}

/* In the smallest budget of a deep model nothing fits but what is two-level, and that is found. */
static void test_two_level(remat_context *ctx, const struct remat_graph *graph)
{
    struct remat_arena arena;
    struct remat_program *whole;
    struct remat_compile_settings settings = {.passes.microbatches = 2, .search.has_budget = true};
    remat_arena_init(&arena, ctx);
    MUST_OK(ctx, remat_device_description_read(ctx, &arena, "cpu", 0, &settings.device));
    settings.search.budget_bytes = smallest_budget(ctx, graph, settings);
    MUST_OK(ctx, remat_compile(ctx, &arena, graph, &settings, &whole));
    CHECK(remat_program_twice(whole) > 0, "nothing is two-level");
    uint32_t calls = check_end(ctx, graph, settings, UINT32_MAX, whole, REMAT_OK);
    for (uint32_t end = 0; end < calls; end = 2 * end + 1)
        check_end(ctx, graph, settings, end, whole, REMAT_OK);
    printf("two-level: %u questions\n", calls);
    remat_arena_release(&arena);
}

/* In the bytes of seven units of seven layers a search that is ended at once finds units, for
 * which no value is recomputed twice. */
static void test_units(remat_context *ctx, const struct remat_graph *graph)
{
    struct remat_arena arena;
    struct remat_program *single, *units, *ended;
    struct watch watch = {.end = 0};
    struct remat_compile_settings settings = {.search.policy = {.recompute_granularity = "full",
                                                                .recompute_method = "uniform",
                                                                .has_recompute_num_layers = true,
                                                                .recompute_num_layers = 1}};
    remat_arena_init(&arena, ctx);
    MUST_OK(ctx, remat_device_description_read(ctx, &arena, "cpu", 0, &settings.device));
    MUST_OK(ctx, remat_compile(ctx, &arena, graph, &settings, &single));
    settings.search.policy.recompute_num_layers = 7;
    MUST_OK(ctx, remat_compile(ctx, &arena, graph, &settings, &units));
    CHECK(units->arena_bytes < single->arena_bytes, "units are no smaller");
    settings.search.policy = (struct remat_policy_settings){0};
    settings.search.has_budget = true;
    settings.search.budget_bytes = units->reserve_bytes + units->arena_bytes;
    settings.search.is_over = is_over;
    settings.search.is_over_user = &watch;
    MUST_OK(ctx, remat_compile(ctx, &arena, graph, &settings, &ended));
    CHECK(is_noted(ended) && remat_program_twice(ended) == 0, "%u values are recomputed twice",
          remat_program_twice(ended));
    remat_arena_release(&arena);
}

static void count_scheduled(void *user, const struct remat_tried_list *list)
{
    uint32_t *scheduled = user;
    *scheduled += list->count;
}

/* Of a graph of more than 10,000 kernels a refusal looks at few decisions and schedules fewer, and
 * half of transient memory is planned for when the search is ended at once. */
static void test_long(remat_context *ctx, const struct remat_graph *graph)
{
    struct remat_arena arena;
    struct remat_program *most, *ended;
    struct watch watch = {.end = UINT32_MAX};
    uint32_t scheduled = 0;
    struct remat_compile_settings settings = {0};
    remat_arena_init(&arena, ctx);
    MUST_OK(ctx, remat_device_description_read(ctx, &arena, "cpu", 0, &settings.device));
    MUST_OK(ctx, remat_compile(ctx, &arena, graph, &settings, &most));
    CHECK(most->command_count > 10000, "%u commands", most->command_count);
    settings.search.is_over = is_over;
    settings.search.is_over_user = &watch;
    settings.search.tried = count_scheduled;
    settings.search.search_user = &scheduled;
    uint64_t smallest = smallest_budget(ctx, graph, settings);
    CHECK(scheduled > 0 && scheduled < 16, "%u decisions scheduled", scheduled);
    CHECK(watch.calls < most->command_count / 10, "%u questions", watch.calls);
    printf("long: %u nodes, %u commands, %u questions, %u scheduled\n", graph->node_count,
           most->command_count, watch.calls, scheduled);
    watch = (struct watch){.end = 0};
    settings.search.has_budget = true;
    settings.search.budget_bytes =
        most->reserve_bytes + most->static_bytes + (most->arena_bytes - most->static_bytes) / 2;
    MUST_OK(ctx, remat_compile(ctx, &arena, graph, &settings, &ended));
    CHECK(is_noted(ended) &&
              ended->arena_bytes + ended->reserve_bytes <= settings.search.budget_bytes &&
              smallest <= settings.search.budget_bytes,
          "ended at once: %llu B", (unsigned long long)ended->arena_bytes);
    remat_arena_release(&arena);
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    const struct remat_graph *graph =
        harness_model(ctx, &arena, "mlp-tiny",
                      (struct remat_model_settings){.layers = 1000, .batch = 4, .seq = 16});
    test_long(ctx, graph);
    graph = harness_model(ctx, &arena, "gpt2-tiny",
                          (struct remat_model_settings){.batch = 4, .seq = 128});
    test_ends(ctx, graph, REMAT_SOLVER_PER_OP, 1);
    test_ends(ctx, graph, REMAT_SOLVER_PER_OP, 4);
    test_ends(ctx, graph, REMAT_SOLVER_MANUAL, 1);
    graph = harness_model(ctx, &arena, "gpt2-tiny",
                          (struct remat_model_settings){.layers = 10, .batch = 2});
    test_two_level(ctx, graph);
    graph = harness_model(ctx, &arena, "mlp-tiny",
                          (struct remat_model_settings){.layers = 49, .batch = 32, .seq = 64});
    test_units(ctx, graph);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
