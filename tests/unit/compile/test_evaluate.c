/* An evaluation equals the rewritten graph carried through: for every rung of the ladder and for
 * decisions drawn at random, value by value. */
#include <inttypes.h>

#include "check.h"
#include "evaluate.h"
#include "facts.h"
#include "models.h"
#include "policy.h"
#include "rewrite.h"

static const struct {
    const char *preset;
    remat_dtype dtype;
    double dropout, clip_norm;
    bool written_out, forward_only;
    uint8_t optimizer;
    uint32_t microbatches;
} cases[] = {
    {"mlp-tiny", REMAT_F32, 0, 0, false, false, REMAT_OPTIMIZER_SGD, 1},
    {"gpt2-tiny", REMAT_F32, 0, 0, false, false, REMAT_OPTIMIZER_ADAMW, 1},
    {"gpt2-tiny", REMAT_BF16, 0.1, 1, false, false, REMAT_OPTIMIZER_ADAMW, 1},
    {"gpt2-tiny", REMAT_F32, 0.1, 0, true, false, REMAT_OPTIMIZER_NONE, 1},
    {"gpt2-tiny", REMAT_F32, 0, 0, false, true, REMAT_OPTIMIZER_NONE, 1},
    {"llama-tiny", REMAT_BF16, 0, 0, false, false, REMAT_OPTIMIZER_ADAMW, 1},
    {"gpt2-tiny", REMAT_BF16, 0.1, 1, false, false, REMAT_OPTIMIZER_ADAMW, 2},
    {"llama-tiny", REMAT_F32, 0.1, 1, true, false, REMAT_OPTIMIZER_SGD, 1},
    {"bert-tiny", REMAT_BF16, 0.1, 0, false, false, REMAT_OPTIMIZER_ADAMW, 1},
    {"encdec-tiny", REMAT_BF16, 0, 1, true, false, REMAT_OPTIMIZER_ADAMW, 1},
};

struct bench {
    remat_context *ctx;
    struct remat_arena arena;
    struct remat_device_description device;
    struct remat_graph *graph;
    struct remat_statics statics;
    struct remat_stopwatch watch;
    struct remat_evaluator evaluator;
};

static remat_status prepare(struct bench *b, size_t row)
{
    remat_status st = REMAT_OK;
    struct remat_model_settings s;
    struct remat_graph *g, *update;
    REMAT_TRY(remat_model_preset(b->ctx, cases[row].preset, &s));
    s.batch = cases[row].microbatches;
    s.dtype = cases[row].dtype;
    s.dropout = cases[row].dropout;
    s.written_out = cases[row].written_out;
    s.forward_only = cases[row].forward_only;
    s.optimizer.kind = cases[row].optimizer;
    s.optimizer.clip_norm = cases[row].clip_norm;
    REMAT_TRY(remat_model_generate(b->ctx, &b->arena, &s, &g));
    REMAT_TRY(remat_pass_autodiff(b->ctx, &b->arena, g, &g));
    g->microbatches = cases[row].microbatches;
    REMAT_TRY(remat_pass_microbatches(b->ctx, &b->arena, g, &g));
    REMAT_TRY(remat_pass_optimizer(b->ctx, &b->arena, g, &g));
    REMAT_TRY(remat_pass_eliminate_common(b->ctx, &b->arena, g, &g));
    REMAT_TRY(remat_pass_expand(b->ctx, &b->arena, g, &g));
    REMAT_TRY(remat_pass_fold(b->ctx, &b->arena, g, &g));
    REMAT_TRY(remat_pass_eliminate_dead(b->ctx, &b->arena, g, &g));
    if (cases[row].microbatches > 1)
        REMAT_TRY(remat_split(b->ctx, &b->arena, g, &g, &update));
    b->graph = g;
    REMAT_TRY(remat_device_description_read(b->ctx, &b->arena, "h100-sxm", &b->device));
    REMAT_TRY(remat_statics_collect(b->ctx, &b->arena, (const struct remat_graph *[]){g}, 1,
                                    &b->statics));
    REMAT_TRY(remat_evaluator_init(&b->evaluator, b->ctx, &b->arena, g, &b->statics, &b->device,
                                   &b->watch));
fail:
    return st;
}

static remat_status check_decision(struct bench *b, const struct remat_decision *decision,
                                   const char *name)
{
    remat_status st = REMAT_OK;
    struct remat_arena scratch;
    struct remat_graph *rewritten;
    struct remat_arrangement whole;
    struct remat_evaluation cost;
    remat_arena_init(&scratch, b->ctx);
    REMAT_TRY(remat_evaluate(&b->evaluator, decision, &cost));
    REMAT_TRY(remat_rewrite(b->ctx, &scratch, b->graph, decision, &rewritten));
    REMAT_TRY(remat_graph_verify(b->ctx, rewritten));
    REMAT_TRY(
        remat_arrange(b->ctx, &scratch, rewritten, &b->statics, &b->device, &b->watch, &whole));
    CHECK(cost.step_ns == whole.step_ns && cost.live_peak_bytes == whole.lifespans.live_peak_bytes,
          "%s, %s: evaluated %" PRIu64 " ns, %" PRIu64 " B, carried through %" PRIu64
          " ns, %" PRIu64 " B",
          b->graph->name, name, cost.step_ns, cost.live_peak_bytes, whole.step_ns,
          whole.lifespans.live_peak_bytes);
fail:
    remat_arena_release(&scratch);
    return st;
}

static remat_status check_ladder(struct bench *b)
{
    remat_status st = REMAT_OK;
    const struct remat_policy_settings no_pins = {0};
    struct remat_policy_ground *ground;
    struct remat_policy *policies;
    uint32_t count;
    REMAT_TRY(remat_policy_prepare(b->ctx, &b->arena, b->graph, &no_pins, &ground));
    REMAT_TRY(remat_policy_ladder(b->ctx, &b->arena, b->graph, &count, &policies));
    for (uint32_t i = 0; i < count; i++) {
        struct remat_notes notes = {0};
        struct remat_decision decision;
        REMAT_TRY(remat_policy_decide(ground, &b->arena, &policies[i], &decision, &notes));
        REMAT_TRY(check_decision(b, &decision, policies[i].name));
    }
fail:
    return st;
}

static remat_status check_random(struct bench *b, uint32_t seed)
{
    remat_status st = REMAT_OK;
    struct remat_decision decision;
    struct remat_facts facts;
    REMAT_TRY(remat_decision_create(&b->arena, b->graph->value_count, &decision));
    REMAT_TRY(remat_facts_create(&b->arena, b->graph, &facts));
    for (uint32_t v = 0; v < b->graph->value_count; v++) {
        uint32_t bits[4];
        remat_philox((const uint32_t[4]){v}, (const uint32_t[2]){seed}, bits);
        if (facts.recomputable[v] && bits[0] % 8 <= seed % 8)
            decision.actions[v] =
                bits[1] % 3 < seed % 3 ? REMAT_ACTION_FUSED : REMAT_ACTION_RECOMPUTE;
    }
    REMAT_TRY(check_decision(b, &decision, "at random"));
fail:
    return st;
}

static remat_status check_case(struct bench *b, size_t row)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(prepare(b, row));
    /* The optimizer is what need not be fused again. */
    bool updates = cases[row].optimizer != REMAT_OPTIMIZER_NONE && cases[row].microbatches == 1;
    CHECK((b->evaluator.tail.count > 0) == updates,
          "%s: %u kernels of %u are the same under every decision", b->graph->name,
          b->evaluator.tail.count, b->graph->node_count);
    REMAT_TRY(check_ladder(b));
    for (uint32_t seed = 0; seed < 24; seed++)
        REMAT_TRY(check_random(b, seed));
fail:
    return st;
}

int main(void)
{
    for (size_t row = 0; row < sizeof cases / sizeof cases[0]; row++) {
        struct bench b = {.ctx = remat_context_create(NULL, NULL)};
        remat_arena_init(&b.arena, b.ctx);
        remat_status st = check_case(&b, row);
        CHECK(st == REMAT_OK, "%s: %s", cases[row].preset, remat_context_message(b.ctx));
        remat_evaluator_release(&b.evaluator);
        remat_arena_release(&b.arena);
        remat_context_destroy(&b.ctx);
    }
    return failures > 0;
}
