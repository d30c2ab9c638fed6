/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks whose commands take half to double their predicted times, each another one: whatever the
 * times, bits and touched bytes are those of a plan that recomputes nothing and does not sleep, no
 * access is wrong, and no rank waits for ever. A plan whose transfers are not waited for is found.
 * e2e-sleep [RUNS [valid]] */
#include "flights.h"
#include "ranks.h"

#include <stdlib.h>

#define STEPS      2
#define TIMEOUT_NS UINT64_C(60000000000)
#define STEP_NS    20e6 /* that commands of a step sleep, on average */

struct subject {
    struct ranks_model model;
    uint32_t dp, microbatches;
    const char *ac_mode;
    bool deferred; /* transfers go on for as long as they can, in groups */
};

static const struct subject subjects[] = {
    {{.preset = "gpt2-tiny", .dtype = REMAT_F32}, 4, 1, NULL, false},
    {{.preset = "gpt2-tiny", .dtype = REMAT_F32, .zero = 1}, 3, 1, "full", true},
    {{.preset = "gpt2-tiny", .dtype = REMAT_BF16, .zero = 3}, 4, 2, "full", false},
    {{.preset = "gpt2-tiny", .dtype = REMAT_BF16, .zero = 3}, 2, 2, NULL, true},
    {{.preset = "gpt2-tiny", .dtype = REMAT_F32, .zero = 3, .tp = 2, .sequence_parallel = true},
     2,
     1,
     "full",
     false},
    {{.preset = "gpt2-tiny", .dtype = REMAT_BF16, .tp = 2}, 2, 2, NULL, true},
    {{.preset = "gpt2-tiny", .dtype = REMAT_BF16, .exchange_bytes = 1000}, 4, 1, NULL, true},
    {{.preset = "llama-tiny", .dtype = REMAT_BF16, .zero = 3}, 8, 1, "full", true},
    {{.preset = "llama-tiny", .dtype = REMAT_F32, .zero = 1}, 4, 2, NULL, false},
    {{.preset = "llama-tiny", .dtype = REMAT_F32, .zero = 3}, 2, 1, NULL, true},
    {{.preset = "llama-tiny", .dtype = REMAT_BF16}, 4, 1, "full", true},
    {{.preset = "bert-tiny", .dtype = REMAT_F32, .clip_norm = 0.5, .zero = 1}, 4, 1, NULL, true},
    {{.preset = "bert-tiny", .dtype = REMAT_BF16, .zero = 3, .tp = 2}, 2, 1, "full", true},
    {{.preset = "bert-tiny", .dtype = REMAT_F32, .zero = 1, .tp = 2, .sequence_parallel = true},
     2,
     2,
     NULL,
     false},
    {{.preset = "bert-tiny", .dtype = REMAT_BF16}, 2, 4, "full", false},
    {{.preset = "encdec-tiny", .dtype = REMAT_BF16, .zero = 1}, 4, 1, NULL, true},
    {{.preset = "encdec-tiny", .dtype = REMAT_F32, .zero = 3}, 3, 1, "full", false},
    {{.preset = "encdec-tiny", .dtype = REMAT_F32, .zero = 3, .tp = 2}, 2, 1, NULL, true},
    {{.preset = "encdec-tiny", .dtype = REMAT_BF16, .zero = 1, .tp = 2, .sequence_parallel = true},
     2,
     1,
     "full",
     true},
    {{.preset = "encdec-tiny", .dtype = REMAT_BF16}, 4, 2, NULL, false},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

static struct remat_program *compile(remat_context *ctx, struct remat_arena *arena,
                                     const struct subject *s, const char *ac_mode)
{
    struct remat_program *program;
    const struct remat_policy_settings policy = {.ac_mode = ac_mode};
    const struct remat_pass_settings passes = ranks_passes(&s->model, s->dp, s->microbatches);
    struct remat_graph *graph =
        ranks_graph(ctx, arena, &s->model, s->dp, s->microbatches, 8, false);
    MUST_OK(ctx, harness_compile(ctx, arena, graph, &passes, &policy, 0, &program));
    return program;
}

static struct remat_program *make_plan(remat_context *ctx, struct remat_arena *arena,
                                       const struct subject *s)
{
    struct remat_program *plan = compile(ctx, arena, s, s->ac_mode);
    if (!s->deferred)
        return plan;
    plan = flights_copy(ctx, arena, plan);
    flights_all(ctx, arena, plan);
    MUST_OK(ctx, remat_program_verify(ctx, plan));
    MUST_OK(ctx, remat_program_simulate(ctx, plan));
    return plan;
}

/* The end of the highest buffer of a step: another entry point may have higher ones. */
static uint64_t step_end_bytes(const struct remat_program *p)
{
    const struct remat_entry *entry = remat_program_step(p);
    uint64_t most = p->static_bytes;
    for (uint32_t k = entry->call_begin; k < entry->call_end; k++) {
        const struct remat_segment *segment = &p->segments[p->calls[k].segment];
        for (uint32_t b = 0; b < p->buffer_count; b++) {
            const struct remat_buffer *buffer = &p->buffers[b];
            uint64_t end = buffer->offset_bytes + buffer->bytes;
            if (!buffer->persistent && buffer->begin < segment->command_end &&
                buffer->end > segment->command_begin && end > most)
                most = end;
        }
    }
    return most;
}

static void test_subject(remat_context *ctx, const struct subject *s, uint64_t first_seed,
                         uint32_t runs)
{
    struct ranks_result expected[RANKS_MAX], results[RANKS_MAX];
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    ranks_run(ctx, compile(ctx, &arena, s, NULL), &(struct ranks_settings){.steps = STEPS},
              expected);
    struct remat_program *plan = make_plan(ctx, &arena, s);
    for (uint64_t seed = first_seed; seed < first_seed + runs; seed++) {
        double scale = STEP_NS / (double)plan->step_ns;
        const struct sleep_settings sleep = {scale, scale, seed, TIMEOUT_NS};
        const struct ranks_settings settings = {.steps = STEPS, .paint = true, .sleep = &sleep};
        ranks_run(ctx, plan, &settings, results);
        for (uint32_t r = 0; r < remat_program_ranks(plan); r++) {
            CHECK(ranks_equal(&expected[0], &results[r], STEPS), "%s, seed %llu: rank %u: %s",
                  s->model.preset, (unsigned long long)seed, r, results[r].message);
            CHECK(results[r].touched_bytes == step_end_bytes(plan),
                  "%s, seed %llu: rank %u touched %llu bytes of %llu", s->model.preset,
                  (unsigned long long)seed, r, (unsigned long long)results[r].touched_bytes,
                  (unsigned long long)step_end_bytes(plan));
            CHECK(!*results[r].wrong_access, "%s, seed %llu: rank %u: %s", s->model.preset,
                  (unsigned long long)seed, r, results[r].wrong_access);
        }
    }
    remat_arena_release(&arena);
}

/* --- a plan that does not wait --- */

/* Transfers are made as late as the plan allows, whatever the machine does meanwhile. */
static bool is_found(remat_context *ctx, struct remat_program *plan)
{
    struct ranks_result results[RANKS_MAX];
    const struct sleep_settings sleep = {.timeout_ns = TIMEOUT_NS};
    const struct ranks_settings settings = {.steps = 1, .late = true, .sleep = &sleep};
    ranks_run(ctx, plan, &settings, results);
    CHECK(!*results[0].wrong_access == !*results[1].wrong_access, "ranks 0 and 1 differ: %s, %s",
          results[0].wrong_access, results[1].wrong_access);
    return *results[0].wrong_access != 0;
}

/* Every transfer of a step in its turn, complete a command too late. */
static void test_missing_waits(remat_context *ctx)
{
    const struct subject s = {{.preset = "gpt2-tiny", .dtype = REMAT_F32}, 2, 1, NULL, true};
    uint32_t tried = 0, found = 0;
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_program *plan = make_plan(ctx, &arena, &s);
    CHECK(!is_found(ctx, plan), "a valid plan");
    const struct remat_segment *step = &plan->segments[1];
    for (uint32_t t = step->command_begin; t < step->command_end; t++) {
        if (!flights_is_transfer(plan, t) || plan->commands[t].continues_group ||
            plan->commands[t].complete_before == step->command_end)
            continue;
        struct remat_program *broken = flights_copy(ctx, &arena, plan);
        for (uint32_t c = t; c < remat_group_end(plan, t); c++)
            broken->commands[c].complete_before++;
        tried++;
        found += is_found(ctx, broken);
    }
    printf("%u of %u plans without a wait are found\n", found, tried);
    CHECK(tried > 3 && found == tried, "%u of %u plans without a wait are found", found, tried);
    remat_arena_release(&arena);
}

int main(int argc, char **argv)
{
    uint32_t runs = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : SUBJECTS;
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    for (uint32_t k = 0; k < SUBJECTS; k++)
        test_subject(ctx, &subjects[k], 1 + k, runs / SUBJECTS + (k < runs % SUBJECTS));
    if (argc < 3)
        test_missing_waits(ctx);
    remat_context_destroy(&ctx);
    return check_exit();
}
