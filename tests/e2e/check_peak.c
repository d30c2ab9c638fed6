/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "check_model.h"

/* A buffer is as large as the largest tensor in it: size claimed for nothing would pass for a peak.
 * With a pitch that is rows of whole 64 elements. Returns how many have one. */
static uint32_t check_sizes(const char *name, const struct remat_program *program)
{
    uint32_t pitched = 0;
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        uint64_t largest = 0, with_pitch = 0;
        for (uint32_t v = 0; v < program->value_count; v++) {
            const struct remat_program_value *value = &program->values[v];
            uint64_t elements = 1;
            for (uint32_t d = 0; d < value->rank; d++)
                elements *= (uint64_t)value->shape[d];
            uint64_t bytes = elements * remat_dtype_bytes(value->dtype);
            if (value->buffer != b || bytes <= largest)
                continue;
            uint64_t columns = value->rank ? (uint64_t)value->shape[value->rank - 1] : 1;
            largest = bytes;
            uint64_t gap_bytes = (64 - columns % 64) % 64 * remat_dtype_bytes(value->dtype);
            with_pitch = bytes + (elements / columns - 1) * gap_bytes;
        }
        pitched += program->buffers[b].bytes != largest;
        CHECK(program->buffers[b].bytes == largest ||
                  (program->buffers[b].bytes == with_pitch && with_pitch - largest <= largest / 16),
              "%s: buffer %u has %llu bytes for %llu", name, b,
              (unsigned long long)program->buffers[b].bytes, (unsigned long long)largest);
    }
    return pitched;
}

struct span {
    uint32_t plans, two_level; /* of these, with two-level values */
    uint64_t least_bytes, most_bytes;
};

static void check_guards(remat_context *ctx, const struct check_model *model,
                         const struct plan *plan, const struct run_result *expected)
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct run_result guarded = harness_run(
        ctx, harness_spread(ctx, &arena, plan->program),
        &(struct run_settings){.threads = 2, .steps = 1, .poison = true, .guard = true});
    CHECK(guarded.gradient_hash[0] == expected->gradient_hash[0],
          "%s, %s: bits differ under guards", model->name, plan->name);
    remat_arena_release(&arena);
}

static void check_plan(remat_context *ctx, const struct check_model *model, const struct plan *plan,
                       const struct run_result *expected, struct span *arenas)
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_program *program = plan->program;
    const char *name = remat_arena_format(&arena, "%s, %s", model->name, plan->name);
    struct run_result painted =
        harness_run(ctx, program, &(struct run_settings){.threads = 2, .steps = 1, .paint = true});
    struct run_result poisoned =
        harness_run(ctx, program, &(struct run_settings){.threads = 2, .steps = 1, .poison = true});
    bool pitch = check_sizes(name, program) > 0;
    CHECK(pitch || !model->pitch, "%s: no pitch", name);
    CHECK(painted.touched_bytes == program->touched_bytes, "%s: touched %llu bytes, planned %llu",
          name, (unsigned long long)painted.touched_bytes,
          (unsigned long long)program->touched_bytes);
    CHECK(program->touched_bytes <= program->arena_bytes &&
              program->arena_bytes - program->touched_bytes < REMAT_ALIGNMENT,
          "%s: arena and highest buffer differ", name);
    CHECK(program->arena_bytes >= program->peak_bytes, "%s: arena below the live peak", name);
    CHECK(painted.gradient_hash[0] == expected->gradient_hash[0] &&
              poisoned.gradient_hash[0] == expected->gradient_hash[0],
          "%s: bits differ under paint or poison", name);
    CHECK(!plan->budget_bytes ||
              program->arena_bytes + program->reserve_bytes <= plan->budget_bytes,
          "%s: over the budget", name);
    uint64_t bytes = program->arena_bytes;
    arenas->least_bytes =
        arenas->plans && arenas->least_bytes < bytes ? arenas->least_bytes : bytes;
    arenas->most_bytes = arenas->most_bytes > bytes ? arenas->most_bytes : bytes;
    arenas->plans++;
    arenas->two_level += remat_program_twice(program) > 0;
    remat_arena_release(&arena);
}

void check_peak(remat_context *ctx, const struct check_model *model)
{
    struct span arenas = {0};
    const struct plan *plans = model->plans->items;
    struct run_result expected =
        harness_run(ctx, plans[0].program, &(struct run_settings){.threads = 1, .steps = 1});
    for (uint32_t i = 0; i < model->plans->count; i++) {
        check_plan(ctx, model, &plans[i], &expected, &arenas);
        if (i % 8 == 1) /* the smallest budget is plan 1 */
            check_guards(ctx, model, &plans[i], &expected);
    }
    CHECK(!model->two_level || arenas.two_level > 0, "%s: no plan is two-level", model->name);
    printf("%s: peak of %u plans, %u with two-level values, arenas of %llu to %llu B\n",
           model->name, arenas.plans, arenas.two_level, (unsigned long long)arenas.least_bytes,
           (unsigned long long)arenas.most_bytes);
}
