/* SPDX-License-Identifier: Apache-2.0 */
/* A planner whose bound is too high, planted by the linker (--wrap), is an internal error of a
 * compilation and of a curve; the planner's own bound is none. */
#include "harness.h"

#include "compile.h"
#include "planner.h"

static uint64_t added_ns;

__typeof__(remat_planner_bound) __real_remat_planner_bound, __wrap_remat_planner_bound;
uint64_t __wrap_remat_planner_bound(struct remat_planner *planner, uint64_t live_bytes)
{
    return __real_remat_planner_bound(planner, live_bytes) + added_ns;
}

static void check(remat_context *ctx, const char *what, remat_status st)
{
    CHECK_STATUS(ctx, st, added_ns ? REMAT_ERROR_INTERNAL : REMAT_OK,
                 added_ns ? "is above the plan's own" : "", "%s", what);
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_arena arena;
    struct remat_program *program;
    struct remat_front front = {0};
    struct remat_policy_settings policy = {0};
    remat_arena_init(&arena, ctx);
    struct remat_graph *graph =
        harness_model(ctx, &arena, "gpt2-tiny", (struct remat_model_settings){.layers = 1});
    MUST_OK(ctx, harness_compile(ctx, &arena, graph, NULL, &policy, 0, &program));
    uint64_t budget_bytes = program->arena_bytes + program->reserve_bytes;
    struct remat_compile_settings settings = {.passes.microbatches = 1};
    MUST_OK(ctx, remat_device_description_read(ctx, &arena, "cpu", 0, &settings.device));
    for (int high = 0; high < 2; high++) {
        added_ns = high ? UINT64_C(1) << 44 : 0;
        check(ctx, "plan",
              harness_compile(ctx, &arena, graph, NULL, &policy, budget_bytes, &program));
        check(ctx, "curve", remat_compile_front(ctx, &arena, graph, &settings, &front));
    }
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
