/* The planned peak is the measured one: the arena above the statics, painted before the step, shows
 * that nothing above the plan's highest buffer is touched and that this one is to its last byte; no
 * buffer is larger than what it holds. In runs of their own, freed bytes become NaN, and gaps
 * between buffers are guarded, while the bits stay as they are. Under every policy. */
#include <stdio.h>

#include "harness.h"
#include "plans.h"

/* A buffer is as large as the largest tensor in it: size claimed for nothing would pass for a peak.
 */
static void check_sizes(const char *name, const struct remat_program *program)
{
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        uint64_t largest = 0;
        for (uint32_t v = 0; v < program->value_count; v++) {
            const struct remat_program_value *value = &program->values[v];
            uint64_t bytes = remat_dtype_bytes(value->dtype);
            for (uint32_t d = 0; d < value->rank; d++)
                bytes *= (uint64_t)value->shape[d];
            if (value->buffer == b && bytes > largest)
                largest = bytes;
        }
        harness_check(program->buffers[b].bytes == largest, "%s: buffer %u has %llu bytes for %llu",
                      name, b, (unsigned long long)program->buffers[b].bytes,
                      (unsigned long long)largest);
    }
}

static void test_policy(remat_context *ctx, const struct remat_graph *graph,
                        const struct named_policy *policy, const struct run_result *expected)
{
    struct remat_arena arena;
    struct remat_program *program, *spaced;
    remat_arena_init(&arena, ctx);
    remat_status st = harness_compile(ctx, &arena, graph, &policy->settings, 0, 0, &program);
    if (st == REMAT_ERROR_USAGE) { /* it names an op that this model has not */
        remat_arena_release(&arena);
        return;
    }
    MUST(ctx, st);
    MUST(ctx, harness_compile(ctx, &arena, graph, &policy->settings, 0, 4096, &spaced));
    struct run_result run =
        harness_run(ctx, program, &(struct run_settings){.threads = 2, .steps = 1, .paint = true});
    struct run_result poisoned =
        harness_run(ctx, program, &(struct run_settings){.threads = 2, .steps = 1, .poison = true});
    check_sizes(policy->name, program);
    harness_check(run.touched_bytes == program->touched_bytes,
                  "%s: touched %llu bytes, planned %llu", policy->name,
                  (unsigned long long)run.touched_bytes,
                  (unsigned long long)program->touched_bytes);
    harness_check(program->touched_bytes <= program->arena_bytes &&
                      program->arena_bytes - program->touched_bytes < REMAT_ALIGNMENT,
                  "%s: arena and highest buffer differ", policy->name);
    harness_check(program->arena_bytes >= program->peak_bytes, "%s: arena below the live peak",
                  policy->name);
    struct run_result guarded = harness_run(
        ctx, spaced,
        &(struct run_settings){.threads = 2, .steps = 1, .poison = true, .guard = true});
    harness_check(run.gradient_hash[0] == expected->gradient_hash[0] &&
                      poisoned.gradient_hash[0] == expected->gradient_hash[0] &&
                      guarded.gradient_hash[0] == expected->gradient_hash[0],
                  "%s: bits differ under poison or guards", policy->name);
    printf("%-24s arena %llu live peak %llu\n", policy->name,
           (unsigned long long)program->arena_bytes, (unsigned long long)program->peak_bytes);
    remat_arena_release(&arena);
}

static void test_model(remat_context *ctx, const char *preset, struct remat_model_settings sizes,
                       uint32_t microbatches)
{
    struct remat_arena arena;
    struct remat_program *program;
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph = harness_model(ctx, &arena, preset, sizes);
    graph->microbatches = microbatches;
    MUST(ctx, harness_compile(ctx, &arena, graph, &named_policies[0].settings, 0, 0, &program));
    struct run_result expected =
        harness_run(ctx, program, &(struct run_settings){.threads = 1, .steps = 1});
    printf("%s, %u microbatches\n", preset, microbatches);
    for (unsigned i = 0; i < named_policy_count; i++)
        test_policy(ctx, graph, &named_policies[i], &expected);
    remat_arena_release(&arena);
}

#define SMALL                                                                                      \
    .layers = 4, .width = 60, .heads = 6, .vocab = 257, .context = 40, .batch = 3, .seq = 37

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    test_model(ctx, "gpt2-tiny", (struct remat_model_settings){SMALL}, 1);
    test_model(ctx, "llama-tiny",
               (struct remat_model_settings){SMALL, .kv_heads = 2, .hidden = 90,
                                             .written_out = true, .dropout = 0.1},
               4);
    test_model(ctx, "encdec-tiny",
               (struct remat_model_settings){SMALL, .source_seq = 21, .dtype = REMAT_BF16,
                                             .dropout = 0.1, .optimizer = {.clip_norm = 0.5}},
               2);
    remat_context_destroy(&ctx);
    return harness_exit();
}
