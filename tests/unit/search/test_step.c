/* SPDX-License-Identifier: Apache-2.0 */
/* A step as data: which segments and scripts a graph gives, and what a script takes. */
#include <inttypes.h>

#include "check.h"
#include "models.h"
#include "prepare.h"

static const struct {
    const char *preset;
    bool forward_only;
    uint32_t microbatches, ranks;
    uint8_t optimizer;
    enum remat_purpose purpose;
    const char *expected; /* each entry point, its calls; * : what a decision is about, + :
                             transfers may be overlapped */
    uint64_t ns;          /* of a step, where segment s takes 10^s */
} cases[] = {
    {"mlp-tiny", false, 1, 1, REMAT_OPTIMIZER_SGD, REMAT_FOR_PLAN, "train 1 step*+, eval 1 forward",
     1},
    {"gpt2-tiny", false, 3, 1, REMAT_OPTIMIZER_ADAMW, REMAT_FOR_PLAN,
     "train 3 microbatch*+ 1 update+, eval 3 forward", 13},
    {"gpt2-tiny", false, 3, 1, REMAT_OPTIMIZER_NONE, REMAT_FOR_CURVE,
     "train 3 microbatch*+, eval 3 forward", 3},
    {"gpt2-tiny", false, 2, 2, REMAT_OPTIMIZER_ADAMW, REMAT_FOR_CURVE,
     "train 2 microbatch*+ 1 update+, eval 2 forward 1 mean", 12},
    {"gpt2-tiny", false, 1, 2, REMAT_OPTIMIZER_ADAMW, REMAT_FOR_PLAN,
     "train 1 step*+, eval 1 forward", 1},
    {"gpt2-tiny", false, 2, 1, REMAT_OPTIMIZER_ADAMW, REMAT_FOR_BOUND,
     "train 2 microbatch*+ 1 update+", 12},
    {"mlp-tiny", true, 1, 1, REMAT_OPTIMIZER_NONE, REMAT_FOR_PLAN, "eval 1 forward*", 1},
    {"bert-tiny", true, 4, 1, REMAT_OPTIMIZER_NONE, REMAT_FOR_BOUND,
     "eval 1 forward count 4 forward*", 5},
    {"bert-tiny", true, 4, 2, REMAT_OPTIMIZER_NONE, REMAT_FOR_PLAN,
     "eval 1 forward count 4 forward* 1 mean", 105},
};

static const char *print(struct remat_arena *arena, const struct remat_step *step)
{
    struct remat_text text = {.arena = arena};
    for (size_t e = 0; e < step->entries.count; e++) {
        const struct remat_entry *entry = &step->entries.items[e];
        remat_text_append(&text, "%s%s", e ? ", " : "", entry->name);
        for (uint32_t c = entry->call_begin; c < entry->call_end; c++) {
            const struct remat_call *call = &step->calls.items[c];
            const struct remat_step_segment *s = &step->segments.items[call->segment];
            remat_text_append(&text, " %" PRIu32 " %s%s%s", call->times, s->name,
                              s->decided ? "*" : "", s->overlaps ? "+" : "");
        }
    }
    remat_text_complete(&text);
    return text.items;
}

static void check_times(const struct remat_step *step, size_t row)
{
    struct remat_step_time decided = {.ns = 1, .least_ns = 2, .times = {{3, 4, 5}}};
    uint64_t ns = 1;
    for (size_t s = 0; s < step->segments.count; s++, ns *= 10)
        step->segments.items[s].arranged = (struct remat_arrangement){
            .step_ns = ns, .least_ns = 2 * ns, .times = {{3 * ns, 4 * ns, 5 * ns}}};
    struct remat_step_time sum = remat_step_sum(step, &decided);
    CHECK(sum.ns == cases[row].ns && sum.least_ns == 2 * sum.ns, "row %zu: %" PRIu64, row, sum.ns);
    for (uint64_t k = 0; k < REMAT_COST_CLASSES; k++)
        CHECK(sum.times.ns[k] == (3 + k) * sum.ns, "row %zu, class %" PRIu64, row, k);
}

static remat_status check_case(remat_context *ctx, struct remat_arena *arena, size_t row)
{
    remat_status st = REMAT_OK;
    struct remat_model_settings model;
    struct remat_graph *graph;
    struct remat_compile_settings settings = {.passes.microbatches = cases[row].microbatches};
    struct remat_prepared prepared;
    REMAT_TRY(remat_model_preset(ctx, cases[row].preset, &model));
    model.batch = 4;
    model.forward_only = cases[row].forward_only;
    model.optimizer.kind = cases[row].optimizer;
    REMAT_TRY(remat_model_generate(ctx, arena, &model, &graph));
    if (cases[row].ranks > 1)
        settings.mesh = (struct remat_mesh){.axis_count = 1, .axes = {{"dp", cases[row].ranks}}};
    REMAT_TRY(remat_prepare(ctx, arena, graph, &settings, cases[row].purpose, &prepared));
    const char *text = print(arena, &prepared.step);
    CHECK(strcmp(text, cases[row].expected) == 0, "row %zu: \"%s\", not \"%s\"", row, text,
          cases[row].expected);
    CHECK(remat_step_microbatches(&prepared.step) == cases[row].microbatches, "row %zu", row);
    check_times(&prepared.step, row);
fail:
    return st;
}

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    for (size_t row = 0; row < sizeof cases / sizeof cases[0]; row++) {
        struct remat_arena arena;
        remat_arena_init(&arena, ctx);
        CHECK_OK(ctx, check_case(ctx, &arena, row), "row %zu", row);
        remat_arena_release(&arena);
    }
    remat_context_destroy(&ctx);
    return check_exit();
}
