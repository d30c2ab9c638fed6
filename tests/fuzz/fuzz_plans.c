/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of small models, mutated field by field, and executed where they are still accepted: the
 * arena and its scratch lie in memory between pages that nobody may touch, and in part of the runs
 * each command may change nothing but what it writes. Most of what is accepted differs from its
 * seed in views, indices, orders and instructions, because what a plan claims of itself (live
 * bytes, peak, sizes of values) is mostly made right again after the mutation.
 *
 *     fuzz_plans [ACCEPTED [SEED [FIRST]]]
 *
 * runs until so many plans were accepted, counting mutations from FIRST on; the same seed repeats
 * the same mutations. A crash names the mutation. */
#include "harness.h"
#include "mutant_run.h"
#include "plans.h"
#include "program.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define WORK_MAX   2000000 /* elements that a run touches; WIDE_WORK_MAX of the wide seed */
#define WIDE_EVERY 64      /* mutations of which one is of the wide seed */

/* --- seeds --- */

#define SIZES .layers = 1, .width = 8, .heads = 2, .vocab = 17, .context = 6, .batch = 2, .seq = 5

static const struct seed {
    const char *preset;
    struct remat_model_settings sizes;
    uint32_t ranks, microbatches;
    const char *policy; /* of named_policies */
} seeds[] = {
    {"gpt2-tiny", {SIZES}, 1, 1, "none"},
    {"gpt2-tiny", {SIZES, .dropout = 0.1, .optimizer.clip_norm = 1}, 1, 2, "block 1"},
    {"gpt2-tiny",
     {SIZES, .dtype = REMAT_BF16, .written_out = true, .dropout = 0.1},
     1,
     1,
     "block 1"},
    {"llama-tiny", {SIZES, .kv_heads = 1, .hidden = 12}, 1, 1, "block 1"},
    {"llama-tiny",
     {SIZES, .kv_heads = 1, .hidden = 12, .dtype = REMAT_BF16,
      .optimizer.kind = REMAT_OPTIMIZER_SGD},
     1,
     2,
     "none"},
    {"bert-tiny", {SIZES, .written_out = true}, 1, 1, "none"},
    {"bert-tiny", {SIZES, .dtype = REMAT_BF16, .dropout = 0.1}, 1, 1, "block 1"},
    {"encdec-tiny", {SIZES, .source_seq = 4, .optimizer.clip_norm = 1}, 1, 1, "block 1"},
    {"encdec-tiny",
     {SIZES, .source_seq = 4, .dtype = REMAT_BF16, .forward_only = true},
     1,
     1,
     "none"},
    {"gpt2-tiny", {SIZES, .dtype = REMAT_BF16, .dropout = 0.1}, 3, 1, "block 1"},
    {"bert-tiny", {SIZES, .dropout = 0.1, .optimizer.clip_norm = 1}, 4, 2, "none"},
    /* The wide one, last: rows of logits and of the table that the CPU device divides. */
    {"gpt2-tiny",
     {.layers = 1,
      .width = 4,
      .heads = 1,
      .vocab = 33000,
      .context = 2,
      .batch = 1,
      .seq = 2,
      .dtype = REMAT_BF16,
      .optimizer.kind = REMAT_OPTIMIZER_SGD},
     1,
     1,
     "none"},
};
enum { SEED_COUNT = sizeof seeds / sizeof *seeds, WIDE = SEED_COUNT - 1 };

/* --- campaign --- */

static char where[80];

static void say_where(void)
{
    ssize_t written = write(STDOUT_FILENO, where, strlen(where));
    (void)written;
}

static void on_signal(int number)
{
    say_where();
    signal(number, SIG_DFL);
    raise(number);
}

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void name_crashes(void)
{
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(say_where);
    const int signals[] = {SIGSEGV, SIGBUS, SIGFPE};
    for (size_t s = 0; s < sizeof signals / sizeof *signals && !__sanitizer_set_death_callback; s++)
        signal(signals[s], on_signal);
}

static struct remat_program *compile(remat_context *ctx, struct remat_arena *arena,
                                     const struct seed *seed)
{
    struct remat_program *program;
    struct remat_graph *graph = harness_model(ctx, arena, seed->preset, seed->sizes);
    unsigned policy = 0;
    while (strcmp(named_policies[policy].name, seed->policy) != 0)
        policy++;
    const struct remat_pass_settings passes = {.microbatches = seed->microbatches,
                                               .zero = seed->ranks == 3};
    if (seed->ranks > 1)
        graph->mesh = (struct remat_mesh){1, {{"dp", seed->ranks}}};
    MUST_OK(ctx, harness_compile(ctx, arena, graph, &passes, &named_policies[policy].settings, 0,
                                 &program));
    program->cuda = (struct remat_cuda_code){0};
    return program;
}

static struct mutant *choose(struct mutant *mutants, uint64_t number)
{
    return &mutants[number % WIDE_EVERY == 0 ? WIDE : number % WIDE];
}

static void run_mutation(remat_context *ctx, struct mutant *m, struct tally *tally, uint64_t number,
                         uint64_t seed)
{
    uint64_t random[] = {seed, number};
    m->random.state = remat_hash(random, sizeof random, 0);
    snprintf(where, sizeof where, "\nmutation %llu of seed %llu\n", (unsigned long long)number,
             (unsigned long long)seed);
    int before = checks_failed();
    mutant_change(m, false);
    remat_status st = remat_program_verify(ctx, m->program);
    st = st ? st : remat_program_simulate(ctx, m->program);
    if (st == REMAT_OK) {
        tally->accepted++;
        if (mutant_run_is_short(m))
            mutant_run(ctx, m, tally);
    } else {
        CHECK_STATUS(ctx, st, REMAT_ERROR_INVALID, "");
    }
    if (checks_failed() != before)
        say_where();
    mutant_take_back(m);
}

int main(int argc, char **argv)
{
    uint64_t wanted = argc > 1 ? strtoull(argv[1], NULL, 10) : 15000;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    struct tally tally = {.mutations = argc > 3 ? strtoull(argv[3], NULL, 10) : 0};
    uint64_t first = tally.mutations;
    static struct mutant mutants[SEED_COUNT];
    struct remat_arena arena;
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    remat_arena_init(&arena, ctx);
    mutant_run_prepare();
    name_crashes();
    for (size_t s = 0; s < SEED_COUNT; s++)
        mutant_make(&arena, &mutants[s], compile(ctx, &arena, &seeds[s]),
                    s == WIDE ? WIDE_WORK_MAX : WORK_MAX);
    for (; tally.accepted < wanted && !checks_failed(); tally.mutations++)
        run_mutation(ctx, choose(mutants, tally.mutations), &tally, tally.mutations, seed);
    printf("%llu mutations: %llu accepted, %llu of them run (%llu wide), %llu refused by the "
           "device, %llu ended "
           "by a bad index; %.0f s of CPU\n",
           (unsigned long long)(tally.mutations - first), (unsigned long long)tally.accepted,
           (unsigned long long)tally.run, (unsigned long long)tally.wide,
           (unsigned long long)tally.refused, (unsigned long long)tally.failed,
           (double)clock() / CLOCKS_PER_SEC);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
