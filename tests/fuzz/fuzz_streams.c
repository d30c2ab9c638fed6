/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of ranks whose transfers are overlapped, mutated field by field, every second time in what
 * orders them. What verifier and simulator accept has the planned bits in every order of its
 * streams that is tried (orders.h), and some are run: with the bits of the same plan whose
 * transfers are blocking, by an engine that is late, in arenas between pages that nobody may touch.
 * What is refused because of an order alone has other bits in some order.
 *
 *     fuzz_streams [ACCEPTED [SEED [FIRST]]]
 */
#include "flights.h"
#include "harness.h"
#include "mutant_run.h"
#include "orders.h"
#include "plans.h"
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    ORDERS = 4,
    ORDERS_OF_RACES = REMAT_MESH_AXES_MAX,
    RUN_EVERY = 40,
    RACE_EVERY = 2,
    WORK_MAX = 2000000
};

#define SIZES .layers = 1, .width = 8, .heads = 2, .vocab = 18, .context = 6, .batch = 2, .seq = 4

static const struct seed {
    const char *preset;
    struct remat_model_settings sizes;
    struct remat_mesh mesh;
    struct remat_pass_settings passes;
    const char *policy;
} seeds[] = {
    {"gpt2-tiny",
     {SIZES, .dtype = REMAT_BF16, .dropout = 0.1},
     {1, {{"dp", 3}}},
     {.zero = 3},
     "block 1"},
    {"llama-tiny",
     {SIZES, .kv_heads = 2, .hidden = 12},
     {2, {{"dp", 2}, {"tp", 2}}},
     {.zero = 3, .sequence_parallel = true},
     "block 1"},
    {"bert-tiny",
     {SIZES, .dropout = 0.1},
     {2, {{"dp", 3}, {"tp", 2}}},
     {.zero = 1, .microbatches = 2},
     "none"},
    {"mlp-tiny",
     {.layers = 2, .width = 8, .vocab = 18, .batch = 4, .seq = 4},
     {2, {{"dp", 2}, {"tp", 2}}},
     {.zero = 3},
     "none"},
};
enum { SEED_COUNT = sizeof seeds / sizeof *seeds, WAYS = 2, MUTANTS = SEED_COUNT * WAYS };

struct counts {
    uint64_t raced, races; /* plans with a wait less, and those of them that have a race */
};

static struct remat_program *compile(remat_context *ctx, struct remat_arena *arena,
                                     const struct seed *seed, bool stretched)
{
    struct remat_program *program;
    struct remat_graph *graph = harness_model(ctx, arena, seed->preset, seed->sizes);
    unsigned policy = 0;
    while (strcmp(named_policies[policy].name, seed->policy) != 0)
        policy++;
    graph->mesh = seed->mesh;
    MUST_OK(ctx, harness_compile(ctx, arena, graph, &seed->passes, &named_policies[policy].settings,
                                 0, &program));
    program->cuda = (struct remat_cuda_code){0};
    if (stretched)
        flights_all(ctx, arena, program);
    MUST_OK(ctx, remat_program_verify(ctx, program));
    MUST_OK(ctx, remat_program_simulate(ctx, program));
    return program;
}

static remat_status check(remat_context *ctx, const struct remat_program *p)
{
    remat_status st = remat_program_verify(ctx, p);
    return st ? st : remat_program_simulate(ctx, p);
}

/* One wait less in a plan that is accepted: it is accepted too, or refused for a race that there
 * is. */
static void try_race(remat_context *ctx, struct mutant *m, struct orders *orders,
                     struct counts *counts)
{
    mutant_plant_race(m);
    remat_status st = remat_program_verify(ctx, m->program);
    bool race = st && strstr(remat_context_message(ctx), " some of them until command ");
    if (st && !race)
        return; /* no buffer lives for so long */
    const char *found = orders_try(orders, m->program, &m->random, ORDERS_OF_RACES);
    CHECK(race == (*found != 0), "%s, but: %s", race ? remat_context_message(ctx) : "accepted",
          *found ? found : "no order has other bits");
    counts->raced++;
    counts->races += race;
}

static void try_mutation(remat_context *ctx, struct mutant *m, struct orders *orders,
                         struct tally *tally, struct counts *counts)
{
    mutant_change(m, true);
    remat_status st = check(ctx, m->program);
    if (st) {
        CHECK_STATUS(ctx, st, REMAT_ERROR_INVALID, "");
        return;
    }
    const char *found = orders_try(orders, m->program, &m->random, ORDERS);
    CHECK(!*found, "accepted, but: %s", found);
    tally->accepted++;
    if (tally->accepted % RUN_EVERY == 0 && mutant_run_is_short(m))
        mutant_run_streams(ctx, m, tally);
    if (tally->accepted % RACE_EVERY == 0)
        try_race(ctx, m, orders, counts);
}

int main(int argc, char **argv)
{
    uint64_t wanted = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    uint64_t first = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    static struct mutant mutants[MUTANTS];
    struct orders *orders[MUTANTS];
    struct tally tally = {.mutations = first};
    struct counts counts = {0};
    struct remat_arena arena;
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    remat_arena_init(&arena, ctx);
    mutant_run_prepare();
    for (size_t k = 0; k < MUTANTS; k++) {
        mutant_make(&arena, &mutants[k], compile(ctx, &arena, &seeds[k / WAYS], k % WAYS),
                    WORK_MAX);
        orders[k] = orders_create(mutants[k].program);
    }
    for (; tally.accepted < wanted && !checks_failed(); tally.mutations++) {
        struct mutant *m = &mutants[tally.mutations % MUTANTS];
        uint64_t random[] = {seed, tally.mutations};
        m->random.state = remat_hash(random, sizeof random, 0);
        try_mutation(ctx, m, orders[tally.mutations % MUTANTS], &tally, &counts);
        mutant_take_back(m);
        if (checks_failed())
            printf("mutation %llu of seed %llu\n", (unsigned long long)tally.mutations,
                   (unsigned long long)seed);
    }
    printf("%llu mutations: %llu accepted, %llu of them run; %llu with a wait less: %llu have a "
           "race; %.0f s of CPU\n",
           (unsigned long long)(tally.mutations - first), (unsigned long long)tally.accepted,
           (unsigned long long)tally.run, (unsigned long long)counts.raced,
           (unsigned long long)counts.races, (double)clock() / CLOCKS_PER_SEC);
    CHECK(checks_failed() || counts.races > wanted / 100, "%llu races",
          (unsigned long long)counts.races);
    for (size_t k = 0; k < MUTANTS; k++)
        orders_destroy(&orders[k]);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
