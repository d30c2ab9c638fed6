/* SPDX-License-Identifier: Apache-2.0 */
/* Every depth of transfers: plans whose gathers start ahead of what reads them have the bits of
 * blocking ones, in all families, whether transfers are made at once or late, and hold what is
 * planned. The planner is offered one depth alone (remat_depths_of). Without an argument each
 * family has one division of ranks; e2e-depths all */
#include "overlap.h"
#include "ranks.h"
#include "schedule.h"

enum { STEPS = 2, BLOCKING = REMAT_DEPTHS_MAX, BATCH = 8 };

static const uint8_t all_depths[REMAT_DEPTHS_MAX] = {0, 1, 2, 4, 8, 16};
static uint32_t offered; /* of all_depths; BLOCKING: none */

/* In place of compiler/lower/depths.c. */
struct remat_depths remat_depths_of(const struct remat_graph *graph,
                                    const struct remat_kernel_list *kernels)
{
    bool any = false;
    for (uint32_t k = 0; k < kernels->count; k++)
        any |= remat_may_join_group(graph, &kernels->kernels[k]);
    return (struct remat_depths){&all_depths[offered % REMAT_DEPTHS_MAX],
                                 any && offered < BLOCKING};
}

struct division {
    uint32_t dp, tp, zero, microbatches;
    bool sequence_parallel;
};

static const struct division divisions[] = {
    {2, 1, 3, 1, false}, {2, 2, 3, 2, true},  {4, 1, 3, 2, false}, {2, 2, 3, 1, false},
    {2, 2, 1, 1, true},  {4, 1, 1, 2, false}, {3, 1, 0, 1, false},
};
enum { DIVISIONS = sizeof divisions / sizeof *divisions };

/* Links whose latency is small, so that each gather is a group of its own, and that are busy for
 * about as long as computation. */
static struct remat_program *compile(remat_context *ctx, struct remat_arena *arena,
                                     const struct ranks_model *model, const struct division *d)
{
    static const char *const gathered[] = {"*.gathered"};
    struct remat_program *program;
    struct remat_compile_settings settings = {
        .search.policy = {.recompute_count = d->zero == 3, .recompute = gathered}};
    struct remat_graph *graph =
        ranks_graph(ctx, arena, model, d->dp, d->microbatches, BATCH * (d->dp == 3 ? 3 : 1), false);
    MUST_OK(ctx, remat_device_description_read(ctx, arena, "cpu", 0, &settings.device));
    settings.device.within.latency_ns = 1;
    settings.mesh = graph->mesh;
    settings.passes = ranks_passes(model, d->dp, d->microbatches);
    MUST_OK(ctx, remat_compile(ctx, arena, graph, &settings, &program));
    return program;
}

static bool same_order(const struct remat_program *a, const struct remat_program *b)
{
    bool same = a->command_count == b->command_count;
    for (uint32_t c = 0; same && c < a->command_count; c++)
        same = strcmp(a->commands[c].name, b->commands[c].name) == 0 &&
               a->commands[c].complete_before == b->commands[c].complete_before &&
               a->commands[c].continues_group == b->commands[c].continues_group;
    return same;
}

static void check_depth(remat_context *ctx, struct remat_program *plan, const char *name,
                        uint32_t depth, const struct ranks_result *expected)
{
    struct ranks_result results[RANKS_MAX];
    for (int late = 0; late < 2; late++) {
        const struct ranks_settings settings = {.steps = STEPS, .paint = true, .late = late};
        ranks_run(ctx, plan, &settings, results);
        for (uint32_t r = 0; r < remat_program_ranks(plan); r++)
            CHECK(ranks_equal(expected, &results[r], STEPS) &&
                      results[r].touched_bytes == plan->touched_bytes,
                  "%s, depth %u, %s: rank %u: other bits, or %llu bytes touched of %llu: %s", name,
                  depth, late ? "late" : "at once", r, (unsigned long long)results[r].touched_bytes,
                  (unsigned long long)plan->touched_bytes, results[r].message);
    }
}

/* "gpt2-tiny-f32-dp2-tp1-zero3-m1.16.plan"; depth BLOCKING: ".blocking.plan". */
static void write_plan(remat_context *ctx, struct remat_arena *arena,
                       const struct remat_program *plan, const struct ranks_model *model,
                       const struct division *d, uint32_t depth)
{
    const void *data;
    size_t bytes;
    char name[120], number[16] = "blocking";
    if (depth < BLOCKING)
        snprintf(number, sizeof number, "%u", all_depths[depth]);
    snprintf(name, sizeof name, "%s-%s-dp%u-tp%u-zero%u-m%u.%s.plan", model->preset,
             remat_dtype_name(model->dtype), d->dp, d->tp, d->zero, d->microbatches, number);
    MUST_OK(ctx, remat_program_write(ctx, plan, arena, &data, &bytes));
    FILE *file = fopen(name, "wb");
    MUST(file && fwrite(data, 1, bytes, file) == bytes && fclose(file) == 0, "%s", name);
}

/* Returns how many depths give plans of their own. */
static uint32_t try_model(remat_context *ctx, struct ranks_model model, const struct division *d,
                          bool writes)
{
    struct ranks_result expected[RANKS_MAX];
    struct remat_arena arena;
    uint32_t count = 0;
    char name[80];
    model.zero = d->zero;
    model.tp = d->tp;
    model.sequence_parallel = d->sequence_parallel;
    ranks_describe(name, &model, d->dp);
    remat_arena_init(&arena, ctx);
    offered = BLOCKING;
    struct remat_program *last = compile(ctx, &arena, &model, d);
    if (writes)
        write_plan(ctx, &arena, last, &model, d, offered);
    else
        ranks_run(ctx, last, &(struct ranks_settings){.steps = STEPS}, expected);
    for (offered = 0; offered < (d->zero ? REMAT_DEPTHS_MAX : 1); offered++) {
        struct remat_program *plan = compile(ctx, &arena, &model, d);
        CHECK(d->zero == 1 || plan->depth == all_depths[offered],
              "%s: depth %u offered, %u in the plan", name, all_depths[offered], plan->depth);
        if (same_order(plan, last))
            continue;
        if (writes)
            write_plan(ctx, &arena, plan, &model, d, offered);
        else
            check_depth(ctx, plan, name, all_depths[offered], &expected[0]);
        last = plan;
        count++;
    }
    printf("%s zero %u microbatches %u: %u depths\n", name, d->zero, d->microbatches, count);
    remat_arena_release(&arena);
    return count;
}

int main(int argc, char **argv)
{
    static const char *const presets[] = {"gpt2-tiny", "llama-tiny", "bert-tiny", "encdec-tiny"};
    bool writes = argc > 1 && strcmp(argv[1], "write") == 0;
    bool all = argc > 1 && strcmp(argv[argc - 1], "all") == 0;
    uint32_t depths = 0, runs = 0;
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    for (uint32_t p = 0; p < 4; p++)
        for (uint32_t k = 0; k < DIVISIONS * 2; k++) {
            const struct ranks_model model = {.preset = presets[p],
                                              .dtype = k % 2 ? REMAT_BF16 : REMAT_F32};
            if (!all && k != 2 * p + p % 2)
                continue;
            depths += try_model(ctx, model, &divisions[k / 2], writes);
            runs++;
        }
    CHECK(depths > 3 * runs, "%u depths of %u models", depths, runs);
    remat_context_destroy(&ctx);
    return check_exit();
}
