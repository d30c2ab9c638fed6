/* SPDX-License-Identifier: Apache-2.0 */
/* ZeRO: with optimizer state, or that and parameters, in parts on the ranks all that is trained has
 * the bits of whole ones, under every plan of the mesh; a clipped norm differs by rounding, and so
 * do gradients of several microbatches with ZeRO-3, whose order e2e-ranks checks.
 * Persistent and sent bytes are those of the paper's formulas; what the ranks do not divide stays
 * whole. e2e-zero [all] */
#include "borrowed_plan.h"
#include "plans.h"
#include "ranks.h"

#include <float.h>
#include <math.h>

#define STEPS 10

/* How a plan divides. */
struct stage {
    uint32_t zero;
    bool again;  /* every gather of a parameter that the backward pass reads is run again */
    bool layers; /* but not outside of layers */
};
static const struct stage stages[] = {{.zero = 1}, {.zero = 3}, {.zero = 3, .again = true}};

/* --- bytes --- */

static bool divides(uint64_t elements, uint32_t ranks)
{
    return elements % ranks == 0;
}

static uint64_t elements_of(const struct remat_program_value *parameter, uint32_t ranks)
{
    uint64_t own = parameter->bytes / remat_dtype_bytes((remat_dtype)parameter->dtype);
    return parameter->whole_rank ? own * ranks : own;
}

/* Bytes of all tensors of a parameter: itself, its states, its accumulator. */
static uint64_t kept_bytes(const struct remat_program *program, const char *parameter)
{
    static const char *const suffixes[] = {"", ".m", ".v", ".master", ".grad.local", ".grad"};
    uint64_t bytes = 0;
    for (size_t s = 0; s < sizeof suffixes / sizeof *suffixes; s++) {
        char name[256];
        snprintf(name, sizeof name, "%s%s", parameter, suffixes[s]);
        for (uint32_t t = 0; t < program->tensor_count; t++)
            if (strcmp(program->tensors[t].name, name) == 0)
                bytes += program->values[program->tensors[t].value].bytes;
    }
    return bytes;
}

/* Whether the parameter trains: it has moments. */
static bool trains(const struct remat_program *program, const char *parameter)
{
    char name[256];
    snprintf(name, sizeof name, "%s.m", parameter);
    for (uint32_t t = 0; t < program->tensor_count; t++)
        if (strcmp(program->tensors[t].name, name) == 0)
            return true;
    return false;
}

/* Of the states of each element of a parameter that trains: masters and moments. */
static uint64_t state_bytes(const struct ranks_model *model)
{
    return model->narrow ? 4 : model->dtype == REMAT_BF16 ? 12 : 8;
}

/* Times ranks, of one parameter of `elements`: bf16 2 + (4) + 12/d a parameter, where (4) is the
 * accumulator of microbatches, f32 4 + (4) + 8/d. With stage 3 (14 + (4))/d and (12 + (4))/d. */
static uint64_t expected_bytes(uint64_t elements, remat_dtype dtype, uint64_t states,
                               uint32_t ranks, bool accumulates, uint32_t zero)
{
    uint64_t own = remat_dtype_bytes(dtype);
    uint64_t parts = divides(elements, ranks) ? 1 : ranks;
    uint64_t gradient = accumulates ? 4 : 0;
    return elements * ((own + gradient) * (zero == 3 ? parts : ranks) + states * parts);
}

/* Of a tensor that divides, S/d (d - 1) elements of gradients and, as often as it is gathered, of
 * parameters: 2 psi (d - 1)/d, or 3 psi (d - 1)/d if all are gathered twice. With stage 3 gradients
 * are exchanged in each microbatch. Of others what there is without ZeRO. What does not train has
 * no gradient. */
static uint64_t expected_sent(uint64_t elements, remat_dtype dtype, bool trained, uint32_t ranks,
                              uint32_t rank, uint32_t microbatches, uint32_t zero, uint32_t gathers)
{
    uint64_t width = remat_dtype_bytes(dtype), gradient = microbatches > 1 ? 4 : width;
    uint64_t divided = zero == 3 ? microbatches * width : gradient;
    if (divides(elements, ranks))
        return elements / ranks * (ranks - 1) * ((trained ? divided : 0) + gathers * width);
    if (!trained)
        return 0;
    uint64_t share = elements / ranks + 1, begin = rank * share;
    uint64_t rest = begin < elements ? elements - begin : 0, mine = rest < share ? rest : share;
    return (elements - mine) * gradient + (ranks - 1) * mine * 4;
}

/* Whether the backward pass of a plan with whole parameters reads one. */
static bool reads_late(const struct remat_program *whole, const char *parameter)
{
    for (uint32_t c = 0; c < whole->command_count; c++)
        for (uint32_t o = whole->commands[c].operand_begin; o < whole->commands[c].operand_end; o++)
            if (whole->commands[c].phase == REMAT_PHASE_BACKWARD &&
                strcmp(whole->values[whole->operands[o].value].name, parameter) == 0)
                return true;
    return false;
}

/* Of models of two layers. */
static bool is_in_layer(const char *parameter)
{
    return strstr(parameter, ".0.") || strstr(parameter, ".1.");
}

/* `whole`: the plan with everything saved in which ranks have all. */
static void check_bytes(const char *name, const struct ranks_model *model,
                        const struct remat_program *whole, const struct remat_program *program,
                        struct stage stage, const struct ranks_result *results, uint32_t ranks,
                        uint32_t microbatches, bool clips)
{
    bool accumulates = microbatches > 1;
    uint64_t sent[RANKS_MAX];
    uint32_t parameters = 0, in_parts = 0, again = 0;
    for (uint32_t r = 0; r < ranks; r++)
        sent[r] = (clips ? 8 : 4) * (ranks - 1); /* the loss, a sum of squares */
    for (uint32_t t = 0; t < program->tensor_count; t++) {
        const struct remat_program_value *v = &program->values[program->tensors[t].value];
        if (v->role != REMAT_ROLE_PARAMETER)
            continue;
        remat_dtype dtype = (remat_dtype)v->dtype;
        uint64_t elements = elements_of(v, ranks), kept = kept_bytes(program, v->name);
        bool trained = trains(program, v->name);
        uint64_t expected = expected_bytes(elements, dtype, trained ? state_bytes(model) : 0, ranks,
                                           trained && accumulates, stage.zero);
        bool twice =
            stage.again && reads_late(whole, v->name) && (!stage.layers || is_in_layer(v->name));
        uint32_t gathers = stage.zero == 3 ? microbatches * (twice ? 2 : 1) : trained;
        CHECK(kept * ranks == expected, "%s: \"%s\" keeps %llu bytes, %llu expected", name, v->name,
              (unsigned long long)kept, (unsigned long long)(expected / ranks));
        parameters++;
        in_parts += divides(elements, ranks);
        for (uint32_t r = 0; r < ranks; r++)
            sent[r] += expected_sent(elements, dtype, trained, ranks, r, microbatches, stage.zero,
                                     gathers);
        again += twice;
    }
    CHECK(in_parts > 4 && (ranks < 8 || in_parts < parameters), "%s: %u of %u in parts", name,
          in_parts, parameters);
    CHECK(stage.again ? again > 4 && again < parameters : again == 0, "%s: %u gathered again", name,
          again);
    for (uint32_t r = 0; r < ranks; r++)
        CHECK(results[r].sent_bytes == sent[r], "%s: rank %u sends %llu bytes, %llu expected", name,
              r, (unsigned long long)results[r].sent_bytes, (unsigned long long)sent[r]);
    uint64_t planned = remat_program_communication(program).sent_bytes;
    CHECK(planned == sent[0], "%s: the plan says %llu", name, (unsigned long long)planned);
}

/* What the transfers of the largest group receive. */
static uint64_t largest_group(const struct remat_program *program)
{
    struct remat_transfer_shape shape;
    uint64_t largest = 0, bytes = 0;
    for (uint32_t c = 0; c < program->command_count; c++) {
        if (!remat_command_transfer(program, c, &shape))
            continue;
        bytes = program->commands[c].continues_group ? bytes : 0;
        bytes += shape.kind == REMAT_KERNEL_exchange ? shape.ranks * shape.part_bytes
                                                     : shape.whole_bytes;
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

/* Exchanges, sums and updates of accumulators come one after the other: never is more transient
 * than three times the largest tensor in f32, or the largest group. */
static void check_update(const char *name, const struct remat_program *program, uint32_t ranks)
{
    uint64_t largest = largest_group(program), most = 0;
    for (uint32_t t = 0; t < program->tensor_count; t++) {
        const struct remat_program_value *v = &program->values[program->tensors[t].value];
        uint64_t bytes = elements_of(v, ranks) * 4;
        largest = v->role == REMAT_ROLE_PARAMETER && bytes > largest ? bytes : largest;
    }
    for (uint32_t s = 0; s < program->segment_count; s++)
        for (uint32_t c = program->segments[s].command_begin;
             strcmp(program->segments[s].name, "update") == 0 &&
             c < program->segments[s].command_end;
             c++)
            most = program->commands[c].live_bytes > most ? program->commands[c].live_bytes : most;
    CHECK(most && most <= program->static_bytes + 3 * largest, "%s: %llu bytes in the update", name,
          (unsigned long long)most);
}

/* --- bits --- */

/* Everything else is saved. */
static struct remat_program *compile_stage(remat_context *ctx, struct remat_arena *arena,
                                           struct ranks_model model, struct stage stage,
                                           uint32_t ranks, uint32_t microbatches, uint32_t batch)
{
    static const char *const gathered[] = {"*.gathered"};
    const struct remat_policy_settings policy = {.recompute_count = stage.again ? 1 : 0,
                                                 .recompute = gathered};
    struct remat_program *program;
    model.zero = stage.zero;
    struct remat_graph *graph = ranks_graph(ctx, arena, &model, ranks, microbatches, batch, false);
    const struct remat_pass_settings passes = ranks_passes(&model, ranks, microbatches);
    MUST_OK(ctx, harness_compile(ctx, arena, graph, &passes, &policy, 0, &program));
    return program;
}

static void describe(char out[80], const struct ranks_model *model, struct stage stage,
                     uint32_t ranks)
{
    char name[80];
    ranks_describe(name, model, ranks);
    snprintf(out, 80, "%.50s zero %u%s", name, stage.zero, stage.again ? " again" : "");
}

/* All ranks have the bits of *expected, or, if its loss is 0, of rank 0, which *expected becomes.
 */
static void test_stage(remat_context *ctx, const struct ranks_model *model, struct stage stage,
                       uint32_t ranks, uint32_t microbatches, const struct remat_program *zero0,
                       struct ranks_result *expected)
{
    struct ranks_result parts[RANKS_MAX];
    struct remat_arena arena;
    char name[80];
    describe(name, model, stage, ranks);
    remat_arena_init(&arena, ctx);
    struct remat_program *program =
        compile_stage(ctx, &arena, *model, stage, ranks, microbatches, 16);
    ranks_run(ctx, program, &(struct ranks_settings){.steps = STEPS, .paint = true}, parts);
    if (expected->loss[0] == 0)
        *expected = parts[0];
    for (uint32_t r = 0; r < ranks; r++) {
        CHECK(ranks_equal(expected, &parts[r], STEPS),
              "%s: rank %u of %u microbatches has other bits; %s", name, r, microbatches,
              parts[r].message);
        CHECK(parts[r].touched_bytes == program->touched_bytes, "%s: rank %u touched %llu of %llu",
              name, r, (unsigned long long)parts[r].touched_bytes,
              (unsigned long long)program->touched_bytes);
    }
    /* What is gathered lives as long as activations do; beside adapters there are few states. */
    CHECK(program->static_bytes < zero0->static_bytes &&
              (model->lora || program->arena_bytes < zero0->arena_bytes),
          "%s: nothing is saved", name);
    check_bytes(name, model, zero0, program, stage, parts, ranks, microbatches, false);
    if (microbatches > 1)
        check_update(name, program, ranks);
    remat_arena_release(&arena);
}

static void test_model(remat_context *ctx, struct ranks_model model, uint32_t ranks,
                       uint32_t microbatches)
{
    struct ranks_result whole[RANKS_MAX], summed = {0};
    struct remat_arena arena;
    char name[80];
    ranks_describe(name, &model, ranks);
    remat_arena_init(&arena, ctx);
    model.zero = 0;
    struct remat_program *zero0 = ranks_compile(ctx, &arena, &model, ranks, microbatches, 16);
    ranks_run(ctx, zero0, &(struct ranks_settings){.steps = STEPS}, whole);
    CHECK(isfinite(whole[0].loss[STEPS - 1]) && whole[0].loss[1] != whole[0].loss[0],
          "%s: loss %.9g, %.9g", name, (double)whole[0].loss[0], (double)whole[0].loss[1]);
    if (microbatches > 1)
        check_update(name, zero0, ranks);
    for (size_t k = 0; k < sizeof stages / sizeof *stages; k++) {
        bool reordered = stages[k].zero == 3 && microbatches > 1;
        test_stage(ctx, &model, stages[k], ranks, microbatches, zero0,
                   reordered ? &summed : &whole[0]);
    }
    CHECK(microbatches == 1 || summed.loss[0] == whole[0].loss[0], "%s: first loss %.9g, %.9g",
          name, (double)summed.loss[0], (double)whole[0].loss[0]);
    remat_arena_release(&arena);
}

/* A row of n elements takes at most ceil(n/64) + 6 roundings (rule 3 of docs/numerics.md). Let D be
 * the most that a square goes through on its way to the sum s: its own, those of a row and of the
 * rows' sums, one for each gradient, and with ranks those of a row of their sums. As all terms are
 * positive, s is exact but for a relative error of D 2^-24, to first order; its root for half of
 * that, and the factor limit / (norm + 1e-6) for three roundings more. So two factors differ by at
 * most ((D0 + D1) / 2 + 6) 2^-24. */
static double row_roundings(uint64_t elements)
{
    return (double)((elements + 63) / 64 + 6);
}

static double roundings(const struct remat_program *program, uint32_t ranks, bool parts)
{
    double most = 0, gradients = 0;
    for (uint32_t t = 0; t < program->tensor_count; t++) {
        const struct remat_program_value *v = &program->values[program->tensors[t].value];
        if (v->role != REMAT_ROLE_PARAMETER)
            continue;
        uint64_t elements = elements_of(v, ranks);
        uint64_t columns = v->rank ? (uint64_t)v->shape[v->rank - 1] : 1;
        if (parts && divides(elements, ranks)) {
            elements /= ranks;
            columns = elements < 4096 ? elements : 4096;
            while (elements % columns)
                columns--;
        }
        double here = 1 + row_roundings(columns) + row_roundings(elements / columns);
        most = here > most ? here : most;
        gradients++;
    }
    return most + gradients + (parts ? row_roundings(ranks) : 0);
}

/* The squares are added in another order. Before the first update all else has the same bits, and
 * on all ranks ever. */
static void test_clipping(remat_context *ctx, struct ranks_model model, struct stage stage,
                          uint32_t ranks)
{
    struct ranks_result whole[RANKS_MAX], parts[RANKS_MAX];
    struct remat_arena arena;
    char name[80];
    describe(name, &model, stage, ranks);
    remat_arena_init(&arena, ctx);
    model.clip_norm = 0.01;
    struct remat_program *zero0 = ranks_compile(ctx, &arena, &model, ranks, 1, 8);
    struct remat_program *divided = compile_stage(ctx, &arena, model, stage, ranks, 1, 8);
    ranks_run(ctx, zero0, &(struct ranks_settings){.steps = STEPS}, whole);
    ranks_run(ctx, divided, &(struct ranks_settings){.steps = STEPS}, parts);
    check_bytes(name, &model, zero0, divided, stage, parts, ranks, 1, true);
    CHECK(whole[0].loss[0] == parts[0].loss[0] && whole[0].gradients[0] == parts[0].gradients[0],
          "%s: the first step, %.9g and %.9g", name, (double)whole[0].loss[0],
          (double)parts[0].loss[0]);
    double a = (double)whole[0].factor, b = (double)parts[0].factor;
    double sums = roundings(zero0, ranks, false) + roundings(divided, ranks, true);
    CHECK(a > 0 && a < 1 && fabs(a - b) <= (sums / 2 + 6) * FLT_EPSILON / 2 * a,
          "%s: factors %.9g and %.9g", name, a, b);
    for (uint32_t r = 0; r < ranks; r++)
        CHECK(parts[r].factor == parts[0].factor && parts[r].states == parts[0].states &&
                  memcmp(parts[r].loss, parts[0].loss, sizeof parts[0].loss) == 0 &&
                  isfinite(parts[r].loss[STEPS - 1]),
              "%s clipped: rank %u", name, r);
    remat_arena_release(&arena);
}

/* --- every plan of a mesh --- */

/* With microbatches: other bits, those of the first plan. */
static void test_summed_plans(remat_context *ctx, struct ranks_model model, uint32_t ranks)
{
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    model.zero = 3;
    const struct remat_pass_settings passes = ranks_passes(&model, ranks, 2);
    ranks_check_graph(ctx, &arena, ranks_graph(ctx, &arena, &model, ranks, 2, 8, false), &passes,
                      NULL);
    remat_arena_release(&arena);
}

/* The bits are those of every rank having all. */
static void test_plans(remat_context *ctx, struct ranks_model model, uint32_t ranks)
{
    const struct ranks_settings settings = {.steps = 2, .paint = true};
    struct ranks_result whole[RANKS_MAX];
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    ranks_run(ctx, ranks_compile(ctx, &arena, &model, ranks, 1, 8), &settings, whole);
    for (model.zero = 1; model.zero <= 3; model.zero += 2)
        ranks_check_plans(ctx, &model, ranks, &whole[0]);
    remat_arena_release(&arena);
}

/* Where layers are recomputed, all that they read is gathered again. */
static void test_full(remat_context *ctx, struct ranks_model model, uint32_t ranks)
{
    const struct remat_policy_settings full = {.ac_mode = "full"};
    const struct stage again = {3, true, true};
    struct ranks_result results[RANKS_MAX];
    struct remat_arena arena;
    struct remat_program *programs[2];
    char name[80];
    describe(name, &model, again, ranks);
    remat_arena_init(&arena, ctx);
    for (int k = 0; k < 2; k++) {
        model.zero = k ? again.zero : 0;
        struct remat_graph *graph = ranks_graph(ctx, &arena, &model, ranks, 1, 8, false);
        const struct remat_pass_settings passes = ranks_passes(&model, ranks, 1);
        MUST_OK(ctx, harness_compile(ctx, &arena, graph, &passes, &full, 0, &programs[k]));
    }
    ranks_run(ctx, programs[1], &(struct ranks_settings){.steps = 1}, results);
    check_bytes(name, &model, programs[0], programs[1], again, results, ranks, 1, false);
    remat_arena_release(&arena);
}

/* --- planted faults --- */

static bool is_parameter(const remat_transfer *t)
{
    return strstr(t->name, ".gathered") != NULL;
}

/* As if rank 1 had sent what it had before: its part of the first parameter that is gathered. */
static void keep_old(void *user, const remat_transfer *t, bool exchange, uint32_t rank)
{
    (void)user, (void)rank;
    if (!exchange && is_parameter(t))
        memset((char *)t->to + t->part_bytes, 0, t->part_bytes);
}

/* As if parts came back in another order. */
static void swap_parts(void *user, const remat_transfer *t, bool exchange, uint32_t rank)
{
    (void)user, (void)rank;
    if (exchange || !is_parameter(t))
        return;
    char *row = malloc(t->part_bytes), *to = t->to;
    memcpy(row, to, t->part_bytes);
    memcpy(to, to + t->part_bytes, t->part_bytes);
    memcpy(to + t->part_bytes, row, t->part_bytes);
    free(row);
}

/* As if a part came late when a parameter is gathered for the backward pass: then all ranks have
 * rank 0's instead. */
static void spoil_second(void *user, const remat_transfer *t, bool exchange, uint32_t rank)
{
    uint32_t *times = user; /* by rank */
    if (!exchange && strcmp(t->name, "h.1.mlp.c_fc.weight.gathered") == 0 && times[rank]++ % 2)
        memcpy((char *)t->to + t->part_bytes, t->to, t->part_bytes);
}

/* Every master, and every parameter in parts, as on rank 0. */
static void forget_rank(struct remat_program *program)
{
    for (uint32_t c = 0; c < program->command_count; c++) {
        struct remat_command *command = &program->commands[c];
        if (program->kernels[command->kernel].kind == REMAT_KERNEL_fill_normal_part)
            command->operand_end = command->operand_begin + 1;
    }
}

static void test_faults(remat_context *ctx, struct stage stage)
{
    const struct ranks_model model = {.preset = "gpt2-tiny", .dtype = REMAT_BF16};
    uint32_t times[RANKS_MAX] = {0};
    const struct ranks_tap old = {keep_old, NULL}, swapped = {swap_parts, NULL},
                           spoiled = {spoil_second, times};
    const struct ranks_settings right = {.steps = 2};
    struct ranks_result good[RANKS_MAX], bad[RANKS_MAX];
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_program *program = compile_stage(ctx, &arena, model, stage, 4, 1, 8);
    ranks_run(ctx, program, &right, good);
    ranks_run(ctx, program, &(struct ranks_settings){.steps = 2, .tap = &old}, bad);
    CHECK(!ranks_equal(&good[0], &bad[0], 2), "not noticed: a part is not sent");
    ranks_run(ctx, program, &(struct ranks_settings){.steps = 2, .tap = &swapped}, bad);
    CHECK(!ranks_equal(&good[0], &bad[0], 2), "not noticed: parts in another order");
    ranks_run(ctx, program, &(struct ranks_settings){.steps = 2, .tap = &spoiled}, bad);
    CHECK(!ranks_equal(&good[0], &bad[0], 2) && bad[0].loss[0] == good[0].loss[0],
          "not noticed: a wrong part in the backward pass");
    forget_rank(program);
    ranks_run(ctx, program, &right, bad);
    CHECK(!ranks_equal(&good[0], &bad[0], 2), "not noticed: masters as on rank 0");
    remat_arena_release(&arena);
}

/* --- what a host is told --- */

static bool get_tensor(const remat_plan *plan, const char *name, remat_tensor_info *out)
{
    *out = (remat_tensor_info){.struct_size = sizeof *out};
    return remat_plan_get_tensor(plan, remat_plan_find_tensor(plan, name), out);
}

static void test_info(remat_context *ctx)
{
    const struct ranks_model model = {.preset = "gpt2-tiny", .dtype = REMAT_BF16, .zero = 1};
    struct remat_arena arena;
    remat_tensor_info whole, part;
    remat_arena_init(&arena, ctx);
    const struct remat_plan plan = borrowed_plan(ranks_compile(ctx, &arena, &model, 8, 1, 8));
    MUST(get_tensor(&plan, "h.0.mlp.c_fc.weight", &whole) &&
         get_tensor(&plan, "h.0.mlp.c_fc.weight.master", &part));
    CHECK(whole.parts.count == 1 && whole.whole_rank == 2 && part.parts.count == 8 &&
              part.rank == 1 && part.whole_rank == 2 && part.bytes * 8 == 2 * whole.bytes &&
              memcmp(part.whole_shape, whole.shape, sizeof whole.shape) == 0 &&
              memcmp(whole.whole_shape, whole.shape, sizeof whole.shape) == 0,
          "%u parts of %u axes", part.parts.count, part.whole_rank);
    MUST(get_tensor(&plan, "h.0.ln_1.weight.m", &part)); /* 12 elements */
    CHECK(part.parts.count == 1 && part.shape[0] == 12, "%u parts of 12 elements",
          part.parts.count);
    const struct ranks_model three = {.preset = "gpt2-tiny", .dtype = REMAT_BF16, .zero = 3};
    const struct remat_plan parts = borrowed_plan(ranks_compile(ctx, &arena, &three, 8, 1, 8));
    MUST(get_tensor(&parts, "h.0.mlp.c_fc.weight", &part));
    CHECK(part.role == REMAT_TENSOR_PARAMETER && part.parts.count == 8 && part.rank == 1 &&
              part.whole_rank == 2 && part.bytes * 8 == whole.bytes &&
              memcmp(part.whole_shape, whole.shape, sizeof whole.shape) == 0,
          "a parameter: %u parts of %u axes", part.parts.count, part.whole_rank);
    MUST(get_tensor(&parts, "h.0.ln_1.weight", &part));
    CHECK(part.parts.count == 1, "%u parts of a parameter of 12 elements", part.parts.count);
    remat_arena_release(&arena);
}

/* --- a gradient that is not finite, on one rank alone: others see it in the updated parameter,
 * unless that is not gathered before the next step --- */

static void plant_infinity(void *user, const remat_transfer *t, bool exchange, uint32_t rank)
{
    const struct ranks_model *model = user;
    const uint32_t infinity = 0x7f800000;
    if (exchange && rank == 2 && strstr(t->name, "h.1.mlp.c_fc.weight.grad"))
        memcpy(t->to, (const char *)&infinity + (model->dtype == REMAT_BF16 ? 2 : 0),
               remat_dtype_bytes(model->dtype));
}

static void test_not_finite(remat_context *ctx, struct ranks_model model, uint32_t zero)
{
    const struct ranks_tap tap = {plant_infinity, &model};
    struct ranks_result results[RANKS_MAX];
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    model.zero = zero;
    struct remat_program *program = ranks_compile(ctx, &arena, &model, 4, 1, 8);
    for (int planted = 0; planted < 2; planted++) {
        ranks_run(ctx, program, &(struct ranks_settings){.steps = 1, .tap = planted ? &tap : NULL},
                  results);
        for (uint32_t r = 0; r < 4; r++)
            CHECK(results[r].not_finite == (zero == 3 && r != 2 ? 0 : planted),
                  "%s: rank %u: not_finite is %d", remat_dtype_name(model.dtype), r,
                  (int)results[r].not_finite);
    }
    remat_arena_release(&arena);
}

/* --- */

static void test_all(remat_context *ctx)
{
    static const char *const presets[] = {"gpt2-tiny", "llama-tiny", "bert-tiny", "encdec-tiny"};
    for (uint32_t p = 0; p < 4; p++)
        for (uint32_t k = 0; k < 2; k++) {
            const struct ranks_model model = {.preset = presets[p],
                                              .dtype = k ? REMAT_BF16 : REMAT_F32};
            for (uint32_t ranks = 2; ranks <= 8; ranks *= 2) {
                test_model(ctx, model, ranks, 1);
                test_model(ctx, model, ranks, 2);
                test_clipping(ctx, model, stages[0], ranks);
                test_clipping(ctx, model, stages[2], ranks);
                test_plans(ctx, model, ranks);
                if (ranks < 8)
                    test_summed_plans(ctx, model, ranks);
            }
        }
}

int main(int argc, char **argv)
{
    const struct ranks_model f32 = {.preset = "gpt2-tiny", .dtype = REMAT_F32},
                             bf16 = {.preset = "encdec-tiny", .dtype = REMAT_BF16},
                             adapted = {.preset = "llama-tiny",
                                        .dtype = REMAT_BF16,
                                        .narrow = true,
                                        .lora = 3},
                             padded = {.preset = "llama-tiny",
                                       .dtype = REMAT_BF16,
                                       .vocab_multiple = 512}; /* half of the ranks have no ids */
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    if (argc > 1 && strcmp(argv[1], "all") == 0) {
        test_all(ctx);
    } else {
        test_model(ctx, f32, 8, 1);
        test_model(ctx, bf16, 4, 2);
        test_clipping(ctx, bf16, stages[0], 2);
        test_clipping(ctx, f32, stages[2], 4);
        test_plans(ctx, bf16, 2);
        test_summed_plans(ctx, f32, 2);
        test_model(ctx, adapted, 2, 2);
        test_model(ctx, padded, 4, 1);
    }
    test_full(ctx, f32, 4);
    test_full(ctx, (struct ranks_model){.preset = "llama-tiny", .dtype = REMAT_BF16}, 2);
    test_faults(ctx, stages[0]);
    test_faults(ctx, stages[2]);
    test_info(ctx);
    for (uint32_t zero = 1; zero <= 3; zero += 2) {
        test_not_finite(ctx, f32, zero);
        test_not_finite(
            ctx,
            (struct ranks_model){.preset = "gpt2-tiny", .dtype = REMAT_BF16, .clip_norm = 0.01},
            zero);
    }
    remat_context_destroy(&ctx);
    return check_exit();
}
