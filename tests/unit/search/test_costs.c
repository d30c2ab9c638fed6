/* SPDX-License-Identifier: Apache-2.0 */
/* What the planner prices is what is lowered, kernel by kernel: the evaluated kernels of a decision
 * and the commands of its plan are launched equally often, each with the same flops, bytes, time
 * and source, and their sum is the time that the planner looks up; and of each command flops and
 * bytes are what the plan itself says (audit.h). Models and random graphs, these with random
 * rates, profiles and ranks; decisions of policies and of the planner, and at random. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "audit.h"
#include "check.h"
#include "kernel_body.h"
#include "lower.h"
#include "noisy_profile.h"
#include "philox.h"
#include "random_graph.h"
#include "reference.h"

static const struct {
    const char *preset;
    remat_dtype dtype;
    double dropout;
    bool written_out;
    uint32_t microbatches;
    const char *device;
    uint32_t loss_chunk; /* rows of 256 of a step */
    uint32_t ranks;      /* along tp */
} cases[] = {
    {"gpt2-tiny", REMAT_BF16, 0.1, false, 2, "h200", 0, 0},
    {"llama-tiny", REMAT_BF16, 0, false, 1, "a100-80", 0, 0},
    {"llama-tiny", REMAT_F32, 0.1, true, 2, "cpu", 0, 0},
    {"bert-tiny", REMAT_F32, 0.1, false, 1, "t4", 0, 0},
    {"encdec-tiny", REMAT_BF16, 0, false, 2, "b200", 0, 0},
    {"gpt2-tiny", REMAT_F32, 0.1, false, 1, "cpu", 64, 0},
    {"llama-tiny", REMAT_BF16, 0, false, 2, "h100-sxm", 100, 0},
    {"llama-tiny", REMAT_BF16, 0, false, 1, "h200", 0, 2},
};
enum { ROWS = 256, POLICIES = 8, PER_OP = 6, RANDOM = 3 }; /* decisions a case */
enum { GRAPHS = 300, NODES_MAX = 12, LAYERS_MAX = 3, GRAPH_DECISIONS = 7 };

struct bench {
    struct subject subject;
    struct remat_arena scratch; /* of one decision */
    struct remat_planner *planner;
    uint32_t microbatches, commands, plans;
    uint32_t depths, same_depths; /* scheduled, and known to be the same as the last of them */
};

struct tally { /* of random graphs */
    uint32_t profiles, ranks, commands, plans, depths, same_depths;
};

static remat_status prepare(struct bench *b, size_t row)
{
    remat_status st = REMAT_OK;
    struct subject *s = &b->subject;
    struct remat_model_settings settings;
    struct remat_arrangement base;
    struct remat_decision *none;
    REMAT_TRY(remat_model_preset(s->ctx, cases[row].preset, &settings));
    settings.batch = 2;
    settings.dtype = cases[row].dtype;
    settings.dropout = cases[row].dropout;
    settings.written_out = cases[row].written_out;
    b->microbatches = cases[row].microbatches;
    s->loss_chunk = cases[row].loss_chunk;
    s->ranks = cases[row].ranks;
    s->tensor = s->ranks > 0;
    REMAT_TRY(subject_prepare(s, &settings, b->microbatches, cases[row].device));
    REMAT_TRY_NEW(&s->arena, none, 1);
    REMAT_TRY(subject_plan(s, &base, none, &b->planner));
fail:
    return st;
}

/* --- one kernel, as it was priced or as it was lowered --- */

struct cost {
    uint64_t kernel, phase, flops, moved_bytes, ns, source;
    const char *name; /* for messages */
};

static int compare_costs(const void *a, const void *b)
{
    return memcmp(a, b, offsetof(struct cost, name));
}

/* Transfers run beside computation, or share latencies in groups: their times add up to no step. */
static bool overlaps(const struct bench *b, const struct remat_decision *decision)
{
    return b->subject.evaluator.depths.count && !decision->blocking;
}

/* Time of one kernel; 0 where only that of the whole step can be compared. */
static uint64_t own_ns(const struct bench *b, const struct remat_decision *decision, uint32_t kind,
                       uint64_t ns)
{
    return overlaps(b, decision) && remat_kernel_kind_is_transfer(kind) ? 0 : ns;
}

/* Of the reference: by the nodes of the rewritten graph. */
static remat_status list_priced(struct bench *b, const struct remat_decision *decision,
                                const struct remat_arrangement *naive, struct cost **out)
{
    remat_status st = REMAT_OK;
    REMAT_TRY_NEW(&b->scratch, *out, naive->kernels.count);
    for (uint32_t k = 0; k < naive->kernels.count; k++) {
        const struct remat_kernel_info *kernel = &naive->kernels.kernels[k];
        const struct remat_price *price = &naive->prices[k];
        bool program = kernel->kind == REMAT_KERNEL_fused;
        (*out)[k] = (struct cost){
            .kernel = remat_kernel_hash(kernel->kind, program ? &kernel->body : NULL),
            .phase = kernel->phase,
            .flops = price->flops,
            .moved_bytes = price->moved_bytes,
            .ns = own_ns(b, decision, kernel->kind, price->ns),
            .source = price->source,
            .name = naive->graph->values[kernel->name.i].name,
        };
    }
    qsort(*out, naive->kernels.count, sizeof **out, compare_costs);
fail:
    return st;
}

static remat_status list_lowered(struct bench *b, const struct remat_decision *decision,
                                 const struct remat_program *program, uint32_t *count,
                                 struct cost **out)
{
    remat_status st = REMAT_OK;
    const struct remat_segment *segment = &program->segments[program->segment_count - 1];
    *count = segment->command_end - segment->command_begin;
    REMAT_TRY_NEW(&b->scratch, *out, *count);
    for (uint32_t c = 0; c < *count; c++) {
        const struct remat_command *command = &program->commands[segment->command_begin + c];
        const struct remat_kernel *kernel = &program->kernels[command->kernel];
        bool is_program = kernel->kind == REMAT_KERNEL_fused;
        (*out)[c] = (struct cost){
            .kernel = remat_kernel_hash(kernel->kind, is_program ? &kernel->body : NULL),
            .phase = command->phase,
            .flops = command->flops,
            .moved_bytes = command->moved_bytes,
            .ns = own_ns(b, decision, kernel->kind, command->estimated_ns),
            .source = command->cost_source,
            .name = command->name,
        };
    }
    qsort(*out, *count, sizeof **out, compare_costs);
fail:
    return st;
}

/* --- checks --- */

static void check_audit(const struct bench *b, const struct remat_program *program)
{
    const struct remat_device_description *d = &b->subject.device;
    for (uint32_t c = 0; c < program->command_count; c++) {
        const struct remat_command *command = &program->commands[c];
        uint32_t kind = program->kernels[command->kernel].kind;
        struct audit found;
        if (command->phase == REMAT_PHASE_INIT)
            continue; /* no step runs it */
        CHECK(audit_command(program, command, &found), "kernel kind %u is not known", kind);
        CHECK(command->flops == found.flops && command->moved_bytes == found.moved_bytes,
              "%s, \"%s\" (%s): %" PRIu64 " flops, %" PRIu64 " B in the plan, %" PRIu64
              " flops, %" PRIu64 " B by its operands",
              b->subject.graph->name, command->name, remat_kernel_kind_name(kind), command->flops,
              command->moved_bytes, found.flops, found.moved_bytes);
        if (d->profile)
            continue; /* times are others */
        double least = (double)found.moved_bytes / d->memory_bytes_per_ns;
        bool exact = kind != REMAT_KERNEL_matmul && kind != REMAT_KERNEL_attention &&
                     kind != REMAT_KERNEL_attention_backward &&
                     kind != REMAT_KERNEL_embedding_backward && kind != REMAT_KERNEL_rope_table &&
                     !remat_kernel_kind_is_transfer(kind);
        if (exact)
            least = fmax(least, (double)found.flops / d->pointwise_flops_per_ns);
        least = ceil(d->launch_ns + least);
        CHECK(exact ? (double)command->estimated_ns == least
                    : (double)command->estimated_ns >= least,
              "%s, \"%s\" (%s): %" PRIu64 " ns, %.0f by the description", b->subject.graph->name,
              command->name, remat_kernel_kind_name(kind), command->estimated_ns, least);
    }
}

/* Each chunk has three products: logits, and the gradients of hidden state and weight. */
static void check_chunks(const struct bench *b, uint32_t count, const struct cost *priced)
{
    uint32_t rows = b->subject.loss_chunk, products = 0;
    for (uint32_t k = 0; k < count; k++)
        products += priced[k].phase == REMAT_PHASE_LOSS &&
                    priced[k].kernel == remat_kernel_hash(REMAT_KERNEL_matmul, NULL);
    CHECK(products == (rows ? 3 * ((ROWS + rows - 1) / rows) : 0),
          "%s: %u products of the loss in chunks of %u rows", b->subject.graph->name, products,
          rows);
}

static remat_status lower(struct bench *b, const struct remat_decision *decision,
                          const struct remat_arrangement *listed, struct remat_program **out)
{
    remat_status st = REMAT_OK;
    struct remat_alternative *alternatives;
    REMAT_TRY_NEW(&b->scratch, alternatives, b->subject.graph->value_count);
    REMAT_TRY_NEW(&b->scratch, *out, 1);
    const struct remat_step_segment segment = {"step", b->subject.graph, true, false, *listed};
    struct remat_step step = {0};
    struct remat_lowering lowering = {.step = &step,
                                      .persistent = &b->subject.persistent,
                                      .decision = decision,
                                      .alternatives = alternatives};
    remat_step_add(&b->scratch, &step, "train", b->microbatches, segment);
    remat_lower(&b->scratch, &lowering, *out);
fail:
    return st;
}

/* With a limit times beyond it stay beyond it, and all others are as without. */
static void check_limit(struct bench *b, const struct remat_decision *decision,
                        const struct remat_evaluation *listed, uint32_t count, uint64_t limit_ns)
{
    struct remat_evaluation limited[REMAT_DEPTHS_MAX];
    uint32_t found = remat_evaluate_depths(&b->subject.evaluator, decision, limit_ns, limited);
    for (uint32_t i = 0; i < found; i++) {
        uint64_t ns = listed[i < count ? i : count - 1].step_ns;
        CHECK(limited[i].step_ns == ns || (limited[i].step_ns > limit_ns && ns > limit_ns),
              "%s: %" PRIu64 " ns with a limit of %" PRIu64 ", %" PRIu64 " without",
              b->subject.graph->name, limited[i].step_ns, limit_ns, ns);
    }
}

/* Each depth priced alone takes what it takes among all; those not listed are the last one. */
static void check_depths(struct bench *b, struct remat_decision decision)
{
    struct remat_evaluator *e = &b->subject.evaluator;
    struct remat_evaluation listed[REMAT_DEPTHS_MAX], last = {0};
    remat_evaluator_forget(e);
    remat_evaluate_depths(e, &decision, 1, listed);
    uint32_t count = remat_evaluate_depths(e, &decision, UINT64_MAX, listed);
    remat_evaluator_forget(e);
    check_limit(b, &decision, listed, count, listed[0].step_ns - 1);
    check_limit(b, &decision, listed, count, listed[count - 1].step_ns);
    for (uint32_t i = 0; i < e->depths.count; i++) {
        decision.depth = e->depths.items[i];
        struct remat_evaluation alone = remat_evaluate(e, &decision, 0);
        const struct remat_evaluation *found = &listed[i < count ? i : count - 1];
        CHECK(alone.step_ns == found->step_ns &&
                  memcmp(&alone.times, &found->times, sizeof alone.times) == 0 &&
                  (i < count || alone.live_peak_bytes == last.live_peak_bytes),
              "%s: depth %u takes %" PRIu64 " ns and %" PRIu64 " B, %" PRIu64
              " ns among %u, %" PRIu64 " B before it",
              b->subject.graph->name, decision.depth, alone.step_ns, alone.live_peak_bytes,
              found->step_ns, count, last.live_peak_bytes);
        last = alone;
    }
    b->depths += count;
    b->same_depths += e->depths.count - count;
}

static remat_status check_decision(struct bench *b, const struct remat_decision *decision,
                                   const char *name)
{
    remat_status st = REMAT_OK;
    struct remat_program *program;
    struct cost *priced, *lowered;
    struct remat_evaluation cost;
    struct reference reference;
    uint32_t priced_count, lowered_count;
    uint64_t ns = 0;
    cost = remat_evaluate(&b->subject.evaluator, decision, 0);
    REMAT_TRY(reference_find(&b->subject, &b->scratch, decision, &reference));
    priced_count = reference.naive.kernels.count;
    REMAT_TRY(list_priced(b, decision, &reference.naive, &priced));
    REMAT_TRY(lower(b, decision, &reference.listed, &program));
    REMAT_TRY(list_lowered(b, decision, program, &lowered_count, &lowered));
    CHECK(priced_count == lowered_count, "%s, %s: %u launches priced, %u lowered",
          b->subject.graph->name, name, priced_count, lowered_count);
    for (uint32_t k = 0; k < priced_count && k < lowered_count; k++) {
        CHECK(compare_costs(&priced[k], &lowered[k]) == 0,
              "%s, %s: \"%s\" priced as %" PRIu64 " flops, %" PRIu64 " B, %" PRIu64
              " ns, \"%s\" lowered with %" PRIu64 " flops, %" PRIu64 " B, %" PRIu64 " ns",
              b->subject.graph->name, name, priced[k].name, priced[k].flops, priced[k].moved_bytes,
              priced[k].ns, lowered[k].name, lowered[k].flops, lowered[k].moved_bytes,
              lowered[k].ns);
        ns += lowered[k].ns;
    }
    uint64_t found_ns = remat_evaluate_time(&b->subject.evaluator, decision).step_ns;
    CHECK(program->step_ns == cost.step_ns * b->microbatches && found_ns == cost.step_ns &&
              (overlaps(b, decision) || ns == cost.step_ns),
          "%s, %s: %" PRIu64 " ns evaluated, %" PRIu64 " ns looked up, %" PRIu64
          " ns in commands, %" PRIu64 " ns a step",
          b->subject.graph->name, name, cost.step_ns, found_ns, ns, program->step_ns);
    if (overlaps(b, decision))
        check_depths(b, *decision);
    check_audit(b, program);
    check_chunks(b, priced_count, priced);
    b->commands += lowered_count;
    b->plans++;
fail:
    remat_arena_reset(&b->scratch);
    return st;
}

/* --- decisions --- */

static remat_status check_manual(struct bench *b)
{
    remat_status st = REMAT_OK;
    struct subject_manual listed;
    REMAT_TRY(subject_manual(&b->subject, &listed));
    for (uint32_t r = 0; r < POLICIES; r++) {
        uint32_t policy = r * (listed.count - 1) / (POLICIES - 1);
        struct remat_decision decision;
        REMAT_TRY(subject_manual_decide(&listed, &b->subject.arena, policy, &decision));
        REMAT_TRY(check_decision(b, &decision, listed.policies[policy].name));
    }
fail:
    return st;
}

static void check_per_op(struct bench *b)
{
    uint32_t paths = b->planner->path_count;
    for (uint32_t path = 0; path < paths; path++) {
        uint32_t last = remat_path_length(&b->planner->paths[path]) - 1 +
                        remat_path_twice_count(&b->planner->paths[path]);
        for (uint32_t i = 0; i < PER_OP; i++) {
            struct remat_decision decision;
            remat_planner_decide(b->planner, &b->subject.arena, (remat_path_id){path},
                                 i * last / (PER_OP - 1), &decision);
            CHECK_OK(b->subject.ctx, check_decision(b, &decision, "per-op"));
        }
    }
}

/* Of the first `actions`. */
static void check_random(struct bench *b, uint32_t seed, uint32_t actions)
{
    struct remat_decision decision;
    const bool *recomputable = b->subject.evaluator.settled->facts.recomputable;
    remat_decision_create(&b->subject.arena, b->subject.graph->value_count, &decision);
    subject_set_run(&b->subject, &decision, seed);
    for (uint32_t v = 0; v < b->subject.graph->value_count; v++) {
        uint32_t bits[4];
        philox((const uint32_t[4]){v}, (const uint32_t[2]){seed}, bits);
        if (recomputable[v])
            decision.actions[v] = (uint8_t)(bits[0] % actions);
    }
    CHECK_OK(b->subject.ctx, check_decision(b, &decision, "at random"));
}

/* --- models and graphs --- */

static void check_case(struct bench *b, size_t row)
{
    remat_status st = prepare(b, row);
    if (st == REMAT_OK)
        st = check_manual(b);
    if (st == REMAT_OK)
        check_per_op(b);
    for (uint32_t seed = 0; seed < RANDOM && st == REMAT_OK; seed++)
        check_random(b, seed, REMAT_ACTION_COUNT);
    CHECK_OK(b->subject.ctx, st, "%s", cases[row].preset);
    printf("%-12s %-9s %u commands of %u plans\n", cases[row].preset, cases[row].device,
           b->commands, b->plans);
}

/* Of six kinds of graphs some have a profile, several ranks, or two or three microbatches. */
static remat_status prepare_random(struct bench *b, uint32_t seed)
{
    static const char *const devices[] = {"h100-sxm", "cpu", "h200", "a100-80", "b200"};
    static const uint32_t zero[] = {0, 1, 3};
    remat_status st = REMAT_OK;
    struct subject *s = &b->subject;
    struct remat_graph *source;
    uint32_t kind = seed % 6;
    struct random r = {.seed = seed, .mixed = kind > 1, .typed = kind > 3};
    const char *device = devices[random_draw(&r, sizeof devices / sizeof *devices)];
    REMAT_TRY(remat_device_description_read(s->ctx, &s->arena, device, 0, &s->device));
    random_rates(&r, &s->device);
    uint32_t nodes = 2 + random_draw(&r, NODES_MAX - 1), layers = random_draw(&r, LAYERS_MAX + 1);
    REMAT_TRY(random_graph(s->ctx, &s->arena, &r, nodes, layers > 1 ? layers : 0, &source));
    s->ranks = random_draw(&r, 4) ? 0 : 2 + 2 * random_draw(&r, 2);
    s->tensor = s->ranks && !r.typed && random_draw(&r, 2);
    s->zero = s->ranks && !s->tensor ? zero[random_draw(&r, 3)] : 0;
    b->microbatches = random_draw(&r, 2) ? 1 : 2 + random_draw(&r, 2);
    if (s->zero || random_draw(&r, 3) == 0)
        source->optimizer = (struct remat_optimizer){.kind = REMAT_OPTIMIZER_ADAMW,
                                                     .beta1 = 0.9,
                                                     .beta2 = 0.999,
                                                     .epsilon = 1e-8,
                                                     .clip_norm = random_draw(&r, 2)};
    REMAT_TRY(subject_prepare_graph(s, source, b->microbatches));
    if (random_draw(&r, 3) == 0)
        REMAT_TRY(noisy_profile(s, seed));
fail:
    return st;
}

/* Everything saved, then decisions that recompute once, inline, and twice, or save shards. */
static void check_graph(struct bench *b, uint32_t seed, struct tally *y)
{
    static const uint32_t actions[GRAPH_DECISIONS] = {1, 2, 3, 5, 6, 6, 3};
    remat_status st = prepare_random(b, seed);
    for (uint32_t k = 0; k < GRAPH_DECISIONS && st == REMAT_OK; k++)
        check_random(b, seed * GRAPH_DECISIONS + k, actions[k]);
    CHECK_OK(b->subject.ctx, st, "seed %u", seed);
    y->commands += b->commands;
    y->plans += b->plans;
    y->depths += b->depths;
    y->same_depths += b->same_depths;
    y->profiles += b->subject.device.profile != NULL;
    y->ranks += b->subject.ranks > 0;
}

int main(void)
{
    struct tally y = {0};
    const uint32_t presets = sizeof cases / sizeof *cases;
    for (uint32_t k = 0; k < presets + GRAPHS; k++) {
        struct bench b = {.plans = 0};
        subject_init(&b.subject);
        remat_arena_init(&b.scratch, b.subject.ctx);
        if (k < presets)
            check_case(&b, k);
        else
            check_graph(&b, k - presets, &y);
        remat_arena_release(&b.scratch);
        subject_release(&b.subject);
    }
    printf("%u graphs, %u with a profile, %u of several ranks: %u commands of %u plans; "
           "%u depths, and %u the same\n",
           GRAPHS, y.profiles, y.ranks, y.commands, y.plans, y.depths, y.same_depths);
    CHECK(y.depths > 99 && y.same_depths > 9);
    return check_exit();
}
