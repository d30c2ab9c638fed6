/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers beside computation, and groups of them: whenever they are made between the command that
 * starts them and the one that needs them, together or one by one, the bits are those of blocking
 * transfers. A plan with one wait too few, with a buffer that is used in flight or with a group of
 * what does not go together is refused, whichever transfer it is; and so is a rank with another
 * transfer or group. e2e-flights [small] */
#include "flights.h"
#include "program.h"
#include "ranks.h"

#define STEPS 3

/* As compiled; stretched in the arena that it has; in one that is large enough for anything; there
 * in an order that gives transfers time, one by one; and these in groups. */
enum { COMPILED, STRETCHED, SPREAD, DEFERRED, GROUPED, PLANS };

static void make_plans(remat_context *ctx, struct remat_arena *arena,
                       const struct ranks_model *model, uint32_t ranks, uint32_t microbatches,
                       struct remat_program *plans[PLANS])
{
    plans[COMPILED] = ranks_compile(ctx, arena, model, ranks, microbatches, 8);
    for (uint32_t k = STRETCHED; k < PLANS; k++) {
        plans[k] = flights_copy(ctx, arena, plans[COMPILED]);
        if (k != STRETCHED)
            flights_spread(ctx, arena, plans[k]);
        if (k >= DEFERRED)
            flights_defer(ctx, arena, plans[k]);
        if (k == GROUPED)
            flights_group(plans[k]);
        flights_stretch(plans[k]);
        if (k >= DEFERRED)
            flights_wait(plans[k]);
        MUST_OK(ctx, remat_program_verify(ctx, plans[k]));
        MUST_OK(ctx, remat_program_simulate(ctx, plans[k]));
    }
}

/* --- bits --- */

static void check_late(remat_context *ctx, const struct ranks_model *model, uint32_t ranks,
                       struct remat_program *plan, const char *what,
                       const struct ranks_result *expected)
{
    struct ranks_result results[RANKS_MAX];
    char name[80];
    ranks_describe(name, model, ranks);
    for (uint32_t how = 0; how < 3; how++) {
        const struct ranks_settings settings = {
            .steps = STEPS, .late = how == 1, .ungrouped = how == 2};
        uint32_t grouped = ranks_grouped(plan, STEPS);
        if (settings.ungrouped && !grouped)
            continue;
        ranks_run(ctx, plan, &settings, results);
        for (uint32_t r = 0; r < remat_program_ranks(plan); r++) {
            CHECK(ranks_equal(expected, &results[r], STEPS), "%s zero %u %s, %u: rank %u: %s", name,
                  model->zero, what, how, r, results[r].message);
            CHECK((results[r].late_count > 0) == settings.late, "%s zero %u %s: %u late transfers",
                  name, model->zero, what, results[r].late_count);
            CHECK(results[r].grouped_count == (settings.ungrouped ? 0 : grouped),
                  "%s zero %u %s: %u transfers continue groups, %u expected", name, model->zero,
                  what, results[r].grouped_count, grouped);
        }
    }
}

static void test_bits(remat_context *ctx, const struct ranks_model *model, uint32_t ranks,
                      uint32_t microbatches, uint32_t *beside)
{
    static const char *const names[PLANS] = {"as compiled", "stretched", "spread", "deferred",
                                             "grouped"};
    struct remat_program *plans[PLANS], *blocking;
    struct ranks_result expected[RANKS_MAX];
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    make_plans(ctx, &arena, model, ranks, microbatches, plans);
    blocking = flights_copy(ctx, &arena, plans[COMPILED]);
    for (uint32_t c = 0; c < blocking->command_count; c++) {
        blocking->commands[c].continues_group = false;
        if (flights_is_transfer(blocking, c))
            blocking->commands[c].complete_before = c + 1;
    }
    ranks_run(ctx, blocking, &(struct ranks_settings){.steps = STEPS}, expected);
    uint32_t waits = flights_wait(flights_copy(ctx, &arena, plans[DEFERRED]));
    printf("zero %u: %u transfers beside, at most %u at once, %u wait for another link\n",
           model->zero, flights_count(plans[DEFERRED]), flights_most(plans[DEFERRED]), waits);
    CHECK((waits > 0) == (model->tp > 1), "%u wait for another link", waits);
    CHECK(flights_most(plans[DEFERRED]) > 2, "at most %u transfers at once",
          flights_most(plans[DEFERRED]));
    *beside += flights_count(plans[STRETCHED]);
    for (uint32_t k = 0; k < PLANS; k++)
        check_late(ctx, model, ranks, plans[k], names[k], &expected[0]);
    remat_arena_release(&arena);
}

/* --- plans that are refused --- */

static void expect_refusal(remat_context *ctx, const struct remat_program *plan, uint32_t transfer,
                           const char *what, const char *place)
{
    const char *name = plan->commands[transfer].name;
    remat_status st = remat_program_verify(ctx, plan);
    CHECK(st == REMAT_ERROR_INVALID && strstr(remat_context_message(ctx), place),
          "%s of \"%s\": verifier: %s", what, name, st ? remat_context_message(ctx) : "nothing");
    st = remat_program_simulate(ctx, plan);
    CHECK(st == REMAT_ERROR_INVALID, "%s of \"%s\": simulator: nothing", what, name);
}

/* One command later, with its buffers. */
static void postpone(struct remat_program *p, uint32_t transfer, bool at_end)
{
    uint32_t before = ++p->commands[transfer].complete_before;
    for (uint32_t k = 0; k < 2; k++) {
        struct remat_buffer *buffer = flights_buffer(p, transfer, k);
        if (!buffer->persistent && !at_end && buffer->end < before)
            buffer->end = before;
    }
}

/* Whether the command runs only after the transfer: one on its link that does not go before it is
 * complete, or the command is in a later group there. */
static bool is_ordered(const struct remat_program *p, uint32_t transfer, uint32_t command)
{
    uint32_t link = remat_command_link(p, transfer);
    for (uint32_t other = transfer; other < command; other++)
        if (flights_is_transfer(p, other) && remat_command_link(p, other) == link &&
            p->commands[other].complete_before <= command)
            return true;
    return flights_is_transfer(p, command) && remat_command_link(p, command) == link &&
           command >= remat_group_end(p, transfer);
}

/* The group that begins with the transfer is complete one command too late: after the one that
 * needs it. Returns whether another one does not see to it. */
static bool remove_wait(remat_context *ctx, struct remat_arena *arena,
                        const struct remat_program *plan, uint32_t transfer)
{
    char place[64];
    struct remat_program *broken = flights_copy(ctx, arena, plan);
    uint32_t end = remat_group_end(plan, transfer);
    bool at_end = plan->commands[transfer].complete_before == flights_segment_end(plan, transfer);
    for (uint32_t member = transfer; member < end; member++)
        postpone(broken, member, at_end);
    if (!at_end && is_ordered(broken, transfer, plan->commands[transfer].complete_before))
        return false;
    flights_claim(broken);
    if (at_end || end > transfer + 1) /* any of the group may be what is needed */
        snprintf(place, sizeof place, at_end ? "commands[%u] \"" : "but commands[", transfer);
    else
        snprintf(place, sizeof place, "but commands[%u] \"", transfer);
    expect_refusal(ctx, broken, transfer, "no wait", place);
    return true;
}

/* Only one of a group is complete later, or it is in the group of one of another kind. */
static void break_group(remat_context *ctx, struct remat_arena *arena,
                        const struct remat_program *plan, uint32_t transfer)
{
    struct remat_program *broken = flights_copy(ctx, arena, plan);
    broken->commands[transfer].complete_before--;
    if (broken->commands[transfer].complete_before > transfer)
        expect_refusal(ctx, broken, transfer, "not complete with its group",
                       "but the group that it continues before command ");
    broken = flights_copy(ctx, arena, plan);
    broken->commands[transfer - 1].continues_group = true;
    if (!plan->commands[transfer - 1].continues_group &&
        (transfer < 2 || !flights_is_transfer(plan, transfer - 2)))
        expect_refusal(ctx, broken, transfer - 1, "continues a kernel", "it continues a group");
}

/* A buffer that is written in flight lies where the transfer's operand does. Returns whether there
 * is one. */
static bool reuse_buffer(remat_context *ctx, struct remat_arena *arena,
                         const struct remat_program *plan, uint32_t transfer, uint32_t operand)
{
    struct remat_program *broken = flights_copy(ctx, arena, plan);
    const struct remat_buffer *used = flights_buffer(broken, transfer, operand);
    for (uint32_t c = transfer + 1; c < plan->commands[transfer].complete_before; c++)
        for (uint32_t o = plan->commands[c].operand_begin; o < plan->commands[c].operand_end; o++) {
            uint32_t b = plan->values[plan->operands[o].value].buffer;
            bool fresh = plan->operands[o].access == REMAT_ACCESS_WRITE &&
                         !plan->buffers[b].persistent && plan->buffers[b].begin == c;
            if (!fresh || used->persistent || is_ordered(plan, transfer, c))
                continue;
            broken->buffers[b].offset_bytes = used->offset_bytes;
            broken->arena_bytes += remat_align_up(broken->buffers[b].bytes, REMAT_ALIGNMENT);
            flights_claim(broken);
            expect_refusal(ctx, broken, transfer, "a buffer used in flight", "commands[");
            return true;
        }
    return false;
}

static void refuse_all(remat_context *ctx, struct remat_arena *arena,
                       const struct remat_program *plan, bool grouped)
{
    uint32_t transfers = 0, waits = 0, reused = 0, members = 0;
    for (uint32_t t = 0; t < plan->command_count; t++) {
        if (!flights_is_transfer(plan, t))
            continue;
        transfers++;
        if (plan->commands[t].continues_group) {
            members++;
            break_group(ctx, arena, plan, t);
        } else {
            waits += remove_wait(ctx, arena, plan, t);
        }
        reused += reuse_buffer(ctx, arena, plan, t, 0);
        reused += reuse_buffer(ctx, arena, plan, t, 1);
    }
    printf("%u transfers, %u of them continue groups, %u waits removed, %u buffers reused\n",
           transfers, members, waits, reused);
    CHECK(transfers > 10 && waits > 1 && reused > 10 && (members > 10) == grouped,
          "%u transfers, %u waits, %u buffers, %u in groups", transfers, waits, reused, members);
}

static void test_refusals(remat_context *ctx, const struct ranks_model *model, uint32_t ranks)
{
    struct remat_program *plans[PLANS];
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    make_plans(ctx, &arena, model, ranks, 1, plans);
    for (uint32_t k = DEFERRED; k < PLANS; k++)
        refuse_all(ctx, &arena, plans[k], k == GROUPED);
    remat_arena_release(&arena);
}

/* --- a rank with another transfer --- */

static void expect_difference(remat_context *ctx, struct remat_program *plan,
                              const struct remat_program *odd, uint32_t transfer, const char *what)
{
    struct ranks_result results[RANKS_MAX];
    char place[200];
    ranks_run(ctx, plan, &(struct ranks_settings){.steps = 1, .odd = odd}, results);
    snprintf(place, sizeof place, "\"%.96s\" of ", plan->commands[transfer].name);
    for (uint32_t r = 0; r < remat_program_ranks(plan); r++)
        CHECK(results[r].status == REMAT_ERROR_OTHER &&
                  strstr(results[r].message, "ranks differ: ") && strstr(results[r].message, place),
              "%s: \"%s\": rank %u: %d %s", what, plan->commands[transfer].name, r,
              (int)results[r].status, results[r].message);
}

/* Command `other` moves what `transfer` moves, and the other way round. */
static void swap(remat_context *ctx, struct remat_arena *arena, struct remat_program *plan,
                 uint32_t transfer, uint32_t other)
{
    struct remat_program *odd = flights_copy(ctx, arena, plan);
    struct remat_command *a = &odd->commands[transfer], *b = &odd->commands[other], kept = *a;
    *a = *b;
    *b = kept;
    a->complete_before = plan->commands[transfer].complete_before;
    b->complete_before = plan->commands[other].complete_before;
    a->continues_group = plan->commands[transfer].continues_group;
    b->continues_group = plan->commands[other].continues_group;
    expect_difference(ctx, plan, odd, transfer, "swapped");
}

/* Rank 1 exchanges, or gathers, one row fewer. */
static void resize(remat_context *ctx, struct remat_arena *arena, struct remat_program *plan,
                   uint32_t transfer)
{
    struct remat_program *odd = flights_copy(ctx, arena, plan);
    struct remat_transfer_shape shape;
    odd->operands = harness_array(ctx, arena, plan->operand_count, sizeof *odd->operands);
    memcpy(odd->operands, plan->operands, plan->operand_count * sizeof *odd->operands);
    remat_command_transfer(plan, transfer, &shape);
    struct remat_operand *whole =
        &odd->operands[(shape.kind == REMAT_KERNEL_exchange ? shape.from : shape.to) -
                       plan->operands];
    if (whole->shape[0] == 1)
        return;
    whole->shape[0]--;
    expect_difference(ctx, plan, odd, transfer, "resized");
}

static void test_differences(remat_context *ctx, const struct ranks_model *model, uint32_t ranks,
                             uint32_t which)
{
    struct remat_program *plans[PLANS];
    struct remat_arena arena;
    uint32_t last = REMAT_NONE, swapped = 0;
    remat_arena_init(&arena, ctx);
    make_plans(ctx, &arena, model, ranks, 1, plans);
    struct remat_program *plan = plans[which];
    const struct remat_segment *train = &plan->segments[1];
    for (uint32_t t = train->command_begin; t < train->command_end; t++) {
        if (!flights_is_transfer(plan, t))
            continue;
        resize(ctx, &arena, plan, t);
        if (last != REMAT_NONE && (which == DEFERRED || plan->commands[t].continues_group)) {
            swap(ctx, &arena, plan, last, t);
            swapped++;
        }
        last = t;
    }
    CHECK(swapped > 10, "%u pairs", swapped);
    remat_arena_release(&arena);
}

/* Rank 1 has one transfer fewer in a group: the last one follows alone. */
static void test_divided(remat_context *ctx, const struct ranks_model *model, uint32_t ranks)
{
    struct remat_program *plans[PLANS];
    struct remat_arena arena;
    uint32_t divided = 0;
    remat_arena_init(&arena, ctx);
    make_plans(ctx, &arena, model, ranks, 1, plans);
    struct remat_program *plan = plans[GROUPED];
    for (uint32_t t = plan->segments[1].command_begin; t < plan->segments[1].command_end; t++) {
        if (!plan->commands[t].continues_group || remat_group_end(plan, t) != t + 1)
            continue;
        struct remat_program *odd = flights_copy(ctx, &arena, plan);
        odd->commands[t].continues_group = false;
        expect_difference(ctx, plan, odd, t, "divided");
        divided++;
    }
    CHECK(divided > 3, "%u groups", divided);
    remat_arena_release(&arena);
}

/* --- failure --- */

/* A rank that ends its step after any command, whatever is in flight then, and one that never
 * comes: all ranks have the same message. */
static void test_failure(remat_context *ctx)
{
    const struct ranks_model model = {.preset = "gpt2-tiny", .dtype = REMAT_F32};
    struct ranks_result results[RANKS_MAX];
    struct remat_program *plans[PLANS];
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    make_plans(ctx, &arena, &model, 3, 1, plans);
    struct remat_program *plan = plans[GROUPED];
    for (uint32_t after = 1; after < plan->segments[1].command_end - 20; after += 6) {
        ranks_run(ctx, plan, &(struct ranks_settings){.steps = 1, .stopped_after = after}, results);
        for (uint32_t r = 0; r < 3; r++)
            CHECK(results[r].status == REMAT_ERROR_OTHER &&
                      strstr(results[r].message, r == 1 ? "stopped by the trace callback at"
                                                        : "rank 1 failed: stopped by the trace"),
                  "after %u commands: rank %u: %d %s", after, r, (int)results[r].status,
                  results[r].message);
    }
    const struct ranks_settings absent = {
        .steps = 1, .absent = 1, .timeout_ns = UINT64_C(2000000000)};
    ranks_run(ctx, plan, &absent, results);
    for (uint32_t r = 0; r < 2; r++)
        CHECK(results[r].status == REMAT_ERROR_RANK_LOST &&
                  strstr(results[r].message, " along dp (3 ranks); missing: rank 2"),
              "rank %u: %d %s", r, (int)results[r].status, results[r].message);
    remat_arena_release(&arena);
}

int main(int argc, char **argv)
{
    static const struct ranks_model models[] = {
        {.preset = "gpt2-tiny", .dtype = REMAT_F32},
        {.preset = "encdec-tiny", .dtype = REMAT_BF16, .zero = 1},
        {.preset = "gpt2-tiny", .dtype = REMAT_BF16, .zero = 3},
        {.preset = "bert-tiny", .dtype = REMAT_F32, .clip_norm = 0.5, .zero = 1},
        {.preset = "encdec-tiny", .dtype = REMAT_F32, .zero = 3},
        {.preset = "gpt2-tiny", .dtype = REMAT_BF16, .exchange_bytes = 1000}};
    static const struct ranks_model two_links[] = {
        {.preset = "llama-tiny", .dtype = REMAT_BF16, .zero = 3, .tp = 2},
        {.preset = "gpt2-tiny", .dtype = REMAT_F32, .zero = 3, .tp = 2, .sequence_parallel = true},
        {.preset = "encdec-tiny", .dtype = REMAT_F32, .zero = 1, .tp = 2}};
    bool small = argc > 1 && strcmp(argv[1], "small") == 0;
    uint32_t beside = 0;
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    for (size_t k = 0; k < (small ? 3 : sizeof models / sizeof *models); k++)
        for (uint32_t ranks = 2; ranks <= (small ? 2 : 4); ranks *= 2)
            test_bits(ctx, &models[k], ranks, 1, &beside);
    test_bits(ctx, &models[2], 2, 2, &beside);
    for (size_t k = 0; k < (small ? 1 : sizeof two_links / sizeof *two_links); k++)
        test_bits(ctx, &two_links[k], 2, 1 + k % 2, &beside);
    CHECK(beside > 50, "%u transfers beside computation", beside);
    for (size_t k = 0; k < 3 && !small; k++)
        test_refusals(ctx, &models[k], 2);
    for (uint32_t k = DEFERRED; k < PLANS && !small; k++)
        test_differences(ctx, &models[0], 2, k);
    test_divided(ctx, &models[0], 2);
    test_failure(ctx);
    remat_context_destroy(&ctx);
    return check_exit();
}
