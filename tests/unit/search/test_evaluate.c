/* SPDX-License-Identifier: Apache-2.0 */
/* An evaluation equals what the rewritten graph comes to, kernel by kernel: for every manual policy
 * and for decisions drawn at random, value by value; and for those of joint graphs of foreign
 * nodes, whose reruns are priced as parts of other kernels. None changes the graph that all share.
 * Two have one effect if they make the same kernels, and only then. The test is linked twice, with
 * the kernels that keep a shard and with fused ones (keep_fused.c). */
#include <inttypes.h>

#include "analysis.h"
#include "check.h"
#include "keep.h"
#include "philox.h"
#include "random_graph.h"
#include "reference.h"
#include "schedule.h"

static const struct {
    const char *preset;
    remat_dtype dtype;
    double dropout, clip_norm;
    bool written_out, forward_only;
    uint8_t optimizer;
    uint32_t microbatches;
    uint32_t tp; /* ranks, which save some values as shards */
} cases[] = {
    {"mlp-tiny", REMAT_F32, 0, 0, false, false, REMAT_OPTIMIZER_SGD, 1, 0},
    {"gpt2-tiny", REMAT_F32, 0, 0, false, false, REMAT_OPTIMIZER_ADAMW, 1, 0},
    {"gpt2-tiny", REMAT_BF16, 0.1, 1, false, false, REMAT_OPTIMIZER_ADAMW, 1, 0},
    {"gpt2-tiny", REMAT_F32, 0.1, 0, true, false, REMAT_OPTIMIZER_NONE, 1, 0},
    {"gpt2-tiny", REMAT_F32, 0, 0, false, true, REMAT_OPTIMIZER_NONE, 1, 0},
    {"llama-tiny", REMAT_BF16, 0, 0, false, false, REMAT_OPTIMIZER_ADAMW, 1, 0},
    {"gpt2-tiny", REMAT_BF16, 0.1, 1, false, false, REMAT_OPTIMIZER_ADAMW, 2, 0},
    {"llama-tiny", REMAT_F32, 0.1, 1, true, false, REMAT_OPTIMIZER_SGD, 1, 0},
    {"bert-tiny", REMAT_BF16, 0.1, 0, false, false, REMAT_OPTIMIZER_ADAMW, 1, 0},
    {"encdec-tiny", REMAT_BF16, 0, 1, true, false, REMAT_OPTIMIZER_ADAMW, 1, 0},
    {"encdec-tiny", REMAT_BF16, 0.1, 0, false, false, REMAT_OPTIMIZER_ADAMW, 1, 4},
};

enum { FOREIGN_GRAPHS = 60, FOREIGN_DECISIONS = 16 };

/* Of the decisions so far. */
static struct made {
    uint64_t effect, kernels;
} made[512];
static uint32_t made_count;

/* A hash of all kernels: their nodes, and what they read and write. */
static uint64_t hash_kernels(struct remat_evaluator *evaluator, struct remat_arena *scratch,
                             const struct remat_decision *decision)
{
    uint64_t sum = 0;
    struct remat_kernel_list list = subject_kernels(evaluator, scratch, decision);
    for (uint32_t k = 0; k < list.count; k++) {
        const struct remat_kernel_info *kernel = &list.kernels[k];
        uint64_t h = remat_hash(kernel->nodes, kernel->node_count * sizeof *kernel->nodes, 0);
        for (uint32_t o = 0; o < kernel->operand_count; o++) {
            const uint32_t words[] = {kernel->operands[o].value.i, kernel->operands[o].access};
            h = remat_hash(words, sizeof words, h);
        }
        sum += h;
    }
    return sum;
}

static void check_effect(struct subject *s, const struct remat_decision *decision, uint64_t effect,
                         struct remat_arena *scratch, const char *name)
{
    struct made now = {effect, hash_kernels(&s->evaluator, scratch, decision)};
    for (uint32_t m = 0; m < made_count; m++)
        CHECK((made[m].effect == effect) == (made[m].kernels == now.kernels),
              "%s, %s: effect and kernels of decision %u", s->graph->name, name, m);
    MUST(made_count < sizeof made / sizeof *made);
    made[made_count++] = now;
}

static remat_status prepare(struct subject *s, size_t row)
{
    remat_status st = REMAT_OK;
    struct remat_model_settings settings;
    REMAT_TRY(remat_model_preset(s->ctx, cases[row].preset, &settings));
    s->ranks = cases[row].tp;
    s->tensor = true;
    settings.batch = cases[row].microbatches;
    settings.dtype = cases[row].dtype;
    settings.dropout = cases[row].dropout;
    settings.written_out = cases[row].written_out;
    settings.forward_only = cases[row].forward_only;
    settings.optimizer.kind = cases[row].optimizer;
    settings.optimizer.clip_norm = cases[row].clip_norm;
    REMAT_TRY(subject_prepare(s, &settings, cases[row].microbatches, "h100-sxm"));
fail:
    return st;
}

static remat_status check_decision(struct subject *s, const struct remat_decision *decision,
                                   const char *name)
{
    remat_status st = REMAT_OK;
    struct remat_arena scratch;
    struct reference reference;
    const struct remat_arrangement *whole = &reference.naive;
    struct remat_evaluation cost, packed, not_packed;
    remat_arena_init(&scratch, s->ctx);
    cost = remat_evaluate(&s->evaluator, decision, 0);
    check_effect(s, decision, cost.effect, &scratch, name);
    packed = remat_evaluate(&s->evaluator, decision, cost.live_peak_bytes);
    not_packed = remat_evaluate(&s->evaluator, decision, cost.live_peak_bytes - 1);
    REMAT_TRY(reference_find(s, &scratch, decision, &reference));
    reference_check(&reference, name);
    CHECK(cost.step_ns == whole->step_ns &&
              cost.live_peak_bytes == whole->lifespans.live_peak_bytes,
          "%s, %s: evaluated %" PRIu64 " ns, %" PRIu64 " B, carried through %" PRIu64
          " ns, %" PRIu64 " B",
          s->graph->name, name, cost.step_ns, cost.live_peak_bytes, whole->step_ns,
          whole->lifespans.live_peak_bytes);
    CHECK(packed.arena_bytes == reference.naive_bytes && packed.step_ns == cost.step_ns,
          "%s, %s: packed to %" PRIu64 " B, carried through to %" PRIu64 " B", s->graph->name, name,
          packed.arena_bytes, reference.naive_bytes);
    CHECK(not_packed.arena_bytes == UINT64_MAX && not_packed.step_ns == cost.step_ns,
          "%s, %s: packed over the limit", s->graph->name, name);
fail:
    remat_arena_release(&scratch);
    return st;
}

static void check_random(struct subject *s, uint32_t seed)
{
    struct remat_decision decision;
    struct remat_facts facts;
    remat_decision_create(&s->arena, s->graph->value_count, &decision);
    remat_facts_create(&s->arena, s->graph, &facts);
    const bool *parts = remat_keep_rows[REMAT_ACTION_PART]->legal(&s->arena, s->graph);
    for (uint32_t v = 0; v < s->graph->value_count; v++) {
        uint32_t bits[4];
        philox((const uint32_t[4]){v}, (const uint32_t[2]){seed}, bits);
        if (facts.recomputable[v] && bits[0] % 8 <= seed % 8)
            decision.actions[v] =
                bits[1] % 3 < seed % 3 ? REMAT_ACTION_INLINE : REMAT_ACTION_RECOMPUTE;
        if (decision.actions[v] && bits[2] % 4 < seed % 4)
            decision.actions[v] += REMAT_ACTION_TWICE - REMAT_ACTION_RECOMPUTE;
        if (facts.recomputable[v] && parts && parts[v] && bits[3] % 2)
            decision.actions[v] = REMAT_ACTION_PART;
    }
    CHECK_OK(s->ctx, check_decision(s, &decision, "at random"));
}

static remat_status check_manual(struct subject *s)
{
    remat_status st = REMAT_OK;
    struct subject_manual listed;
    REMAT_TRY(subject_manual(s, &listed));
    for (uint32_t i = 0; i < listed.count; i++) {
        struct remat_decision decision;
        REMAT_TRY(subject_manual_decide(&listed, &s->arena, i, &decision));
        REMAT_TRY(check_decision(s, &decision, listed.policies[i].name));
    }
fail:
    return st;
}

/* What the rewritten graphs of some policies come to is a graph to decide about: its clones are
 * given nodes. */
static remat_status check_again(struct subject *s)
{
    remat_status st = REMAT_OK;
    struct subject_manual listed;
    REMAT_TRY(subject_manual(s, &listed));
    for (uint32_t i = 0; i < listed.count && st == REMAT_OK; i += 8) {
        struct remat_decision decision;
        struct reference reference;
        struct subject again;
        REMAT_TRY(subject_manual_decide(&listed, &s->arena, i, &decision));
        REMAT_TRY(reference_find(s, &s->arena, &decision, &reference));
        subject_init(&again);
        again.device = s->device;
        made_count = 0;
        st = subject_prepare_graph(&again, reference.naive.graph, 1);
        if (st == REMAT_OK)
            check_random(&again, i);
        subject_release(&again);
    }
fail:
    return st;
}

static uint64_t hash_inputs(const struct remat_graph *graph)
{
    uint64_t h = 0;
    for (uint32_t n = 0; n < graph->node_count; n++)
        h = remat_hash(graph->nodes[n].inputs,
                       graph->nodes[n].input_count * sizeof *graph->nodes[n].inputs, h);
    return h;
}

/* What is known of turns before a decision holds of the schedule: all others run in graph order,
 * those of the optimizer after what they wait for, and first what reads only what is given. */
static void check_turns(struct subject *s)
{
    const struct remat_kernel_list *kernels = s->evaluator.settled->kernels;
    struct remat_turns turns = remat_turns_find(&s->arena, s->graph, kernels);
    remat_kernel_id *order = remat_schedule(&s->arena, s->graph, kernels);
    uint32_t last = 0, *position;
    REMAT_NEW(&s->arena, position, kernels->count);
    for (uint32_t at = 0; at < kernels->count; at++)
        position[order[at].i] = at;
    for (remat_kernel_id k = {0}; k.i < kernels->count; k.i++) {
        const struct remat_kernel_info *kernel = remat_kernel_at(kernels, k);
        uint32_t at = position[k.i], after = position[turns.after[k.i].i];
        bool waits = kernel->phase == REMAT_PHASE_OPTIMIZER;
        CHECK(waits ? turns.after[k.i].i == 0 || at > after : at == after && at >= last,
              "%s: kernel %u at %u, after kernel %u at %u and one at %u", s->graph->name, k.i, at,
              turns.after[k.i].i, after, last);
        CHECK(!turns.first[k.i] || at < position[0], "%s: kernel %u at %u, the first one at %u",
              s->graph->name, k.i, at, position[0]);
        last = waits ? last : at;
    }
}

static remat_status check_case(struct subject *s, size_t row)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(prepare(s, row));
    uint64_t inputs = hash_inputs(s->evaluator.clones.graph);
    check_turns(s);
    made_count = 0;
    REMAT_TRY(check_manual(s));
    for (uint32_t seed = 0; seed < 24; seed++)
        check_random(s, seed);
    CHECK(hash_inputs(s->evaluator.clones.graph) == inputs, "%s: an evaluation changes the graph",
          s->graph->name);
    if (cases[row].dtype == REMAT_BF16 && cases[row].microbatches == 1 && !cases[row].tp)
        REMAT_TRY(check_again(s));
fail:
    return st;
}

static remat_status check_foreign(struct subject *s, uint32_t seed)
{
    remat_status st = REMAT_OK;
    struct random random = {.seed = seed};
    struct remat_graph *source;
    REMAT_TRY(remat_device_description_read(s->ctx, &s->arena, "h100-sxm", 0, &s->device));
    random_balance(&random, &s->device);
    REMAT_TRY(random_foreign(s->ctx, &s->arena, &random, 4 + seed % 9, &source));
    REMAT_TRY(subject_prepare_graph(s, source, 1));
    made_count = 0;
    for (uint32_t k = 0; k < FOREIGN_DECISIONS; k++)
        check_random(s, FOREIGN_DECISIONS * seed + k);
fail:
    return st;
}

int main(void)
{
    for (uint32_t seed = 1; seed <= FOREIGN_GRAPHS; seed++) {
        struct subject s;
        subject_init(&s);
        CHECK_OK(s.ctx, check_foreign(&s, seed), "foreign seed %u", seed);
        subject_release(&s);
    }
    for (size_t row = 0; row < sizeof cases / sizeof cases[0]; row++) {
        struct subject s;
        subject_init(&s);
        CHECK_OK(s.ctx, check_case(&s, row), "%s", cases[row].preset);
        subject_release(&s);
    }
    return check_exit();
}
