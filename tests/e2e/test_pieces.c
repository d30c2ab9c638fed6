/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients exchanged in pieces: the bits, bytes and transfers of whole ones, in less memory. */
#include "check.h"
#include "ranks.h"

enum { STEPS = 3, PIECE_BYTES = 512, PIECES_MAX = 16 };

struct sizes { /* of a plan's exchanges */
    uint32_t count;
    uint64_t received_bytes; /* by the largest */
    uint64_t update_bytes;   /* transient in the segment "update", 0 without one */
};

static struct sizes measure(const struct remat_program *program)
{
    struct sizes out = {0};
    struct remat_transfer_shape shape;
    for (uint32_t c = 0; c < program->command_count; c++)
        if (remat_command_transfer(program, c, &shape) && shape.kind == REMAT_KERNEL_exchange) {
            uint64_t bytes = shape.ranks * shape.part_bytes;
            out.count++;
            out.received_bytes = bytes > out.received_bytes ? bytes : out.received_bytes;
        }
    for (uint32_t s = 0; s < program->segment_count; s++)
        for (uint32_t c = program->segments[s].command_begin;
             strcmp(program->segments[s].name, "update") == 0 &&
             c < program->segments[s].command_end;
             c++) {
            uint64_t bytes = program->commands[c].live_bytes - program->static_bytes;
            out.update_bytes = bytes > out.update_bytes ? bytes : out.update_bytes;
        }
    return out;
}

/* Every gradient that the ranks divide, and that is larger than a piece, is in pieces: as many as
 * the limit asks for, but at most PIECES_MAX. */
static uint32_t expect_exchanges(const struct remat_program *program, uint32_t ranks,
                                 uint64_t piece_bytes, uint64_t *received_bytes)
{
    struct remat_transfer_shape shape;
    uint32_t count = 0;
    *received_bytes = 0;
    for (uint32_t c = 0; c < program->command_count; c++) {
        if (!remat_command_transfer(program, c, &shape) || shape.kind != REMAT_KERNEL_exchange)
            continue;
        uint64_t element = remat_dtype_bytes((remat_dtype)shape.from->dtype);
        uint64_t share = shape.part_bytes / element, pieces = 1;
        bool divides = shape.whole_bytes == ranks * shape.part_bytes;
        if (divides && shape.whole_bytes > piece_bytes)
            pieces = (shape.whole_bytes + piece_bytes - 1) / piece_bytes;
        pieces = pieces > PIECES_MAX ? PIECES_MAX : pieces;
        if (share < pieces)
            pieces = 1;
        uint64_t length = (share + pieces - 1) / pieces;
        count += (uint32_t)((share + length - 1) / length);
        uint64_t bytes = ranks * length * element;
        *received_bytes = bytes > *received_bytes ? bytes : *received_bytes;
    }
    return count;
}

/* Its plan that recomputes nothing, of the least memory, to half a kilobyte. */
static struct remat_program *compile_smallest(remat_context *ctx, struct remat_arena *arena,
                                              const struct ranks_model *model, uint32_t ranks,
                                              uint32_t microbatches, uint32_t batch)
{
    const struct remat_policy_settings none = {0};
    const struct remat_graph *graph =
        ranks_graph(ctx, arena, model, ranks, microbatches, batch, false);
    const struct remat_pass_settings passes = ranks_passes(model, ranks, microbatches);
    struct remat_program *program = ranks_compile(ctx, arena, model, ranks, microbatches, batch);
    struct remat_program *smallest = program;
    uint64_t low = 0, high = program->reserve_bytes + program->arena_bytes;
    while (high - low > 512) {
        uint64_t middle = low + (high - low) / 2;
        if (harness_compile(ctx, arena, graph, &passes, &none, middle, &program)) {
            low = middle;
        } else {
            smallest = program;
            high = middle;
        }
    }
    return smallest;
}

static void test_model(remat_context *ctx, struct ranks_model model, uint32_t ranks,
                       uint32_t microbatches)
{
    struct ranks_result whole[RANKS_MAX], pieces[RANKS_MAX];
    struct remat_arena arena;
    char name[80];
    uint64_t received_bytes;
    ranks_describe(name, &model, ranks);
    remat_arena_init(&arena, ctx);
    struct remat_program *one = ranks_compile(ctx, &arena, &model, ranks, microbatches, 16);
    const struct ranks_model whole_model = model;
    model.exchange_bytes = PIECE_BYTES;
    struct remat_program *many = ranks_compile(ctx, &arena, &model, ranks, microbatches, 16);
    struct sizes before = measure(one), after = measure(many);
    uint32_t count = expect_exchanges(one, ranks, PIECE_BYTES, &received_bytes);
    CHECK(after.count == count && count > before.count, "%s zero %u: %u exchanges, %u expected",
          name, model.zero, after.count, count);
    CHECK(after.received_bytes == received_bytes && received_bytes <= before.received_bytes / 4,
          "%s zero %u: %llu bytes received at once", name, model.zero,
          (unsigned long long)after.received_bytes);
    /* The update held a table that is received and its sum, S + S / N. Now it holds a sixteenth of
     * S, the sum in pieces and whole, and what is gathered of it in its own dtype. With ZeRO-1
     * several pieces are on the way at once unless the budget forbids it, so there the least
     * budgets are compared, of one family; with ZeRO-3 all but the smallest tensors are exchanged
     * in the microbatch. */
    bool least = model.zero == 1 && strcmp(model.preset, "gpt2-tiny") == 0;
    if (least) {
        one = compile_smallest(ctx, &arena, &whole_model, ranks, microbatches, 16);
        many = compile_smallest(ctx, &arena, &model, ranks, microbatches, 16);
        before = measure(one);
        after = measure(many);
    }
    uint32_t factor = model.zero == 0 ? 2 : least ? 1 : 0;
    CHECK(!before.update_bytes || factor * after.update_bytes < before.update_bytes,
          "%s zero %u: %llu bytes in the update, %llu before", name, model.zero,
          (unsigned long long)after.update_bytes, (unsigned long long)before.update_bytes);
    ranks_run(ctx, one, &(struct ranks_settings){.steps = STEPS}, whole);
    ranks_run(ctx, many, &(struct ranks_settings){.steps = STEPS, .paint = true}, pieces);
    for (uint32_t r = 0; r < ranks; r++) {
        CHECK(ranks_equal(&whole[0], &pieces[r], STEPS), "%s zero %u: rank %u has other bits; %s",
              name, model.zero, r, pieces[r].message);
        CHECK(pieces[r].sent_bytes == whole[r].sent_bytes, "%s zero %u: rank %u sends %llu bytes",
              name, model.zero, r, (unsigned long long)pieces[r].sent_bytes);
        CHECK(pieces[r].touched_bytes == many->touched_bytes, "%s zero %u: rank %u touched %llu",
              name, model.zero, r, (unsigned long long)pieces[r].touched_bytes);
    }
    remat_arena_release(&arena);
}

/* --- planted fault: the pieces of a part in another order --- */

static void swap_rows(void *user, const remat_transfer *t, bool exchange, uint32_t rank)
{
    (void)user;
    uint64_t bytes = t->part_bytes;
    if (!exchange || rank || t->stride_bytes == t->part_bytes || bytes < 8)
        return;
    char first[4];
    memcpy(first, t->to, sizeof first);
    memcpy(t->to, (char *)t->to + bytes - 4, 4);
    memcpy((char *)t->to + bytes - 4, first, 4);
}

static void test_noticed(remat_context *ctx)
{
    const struct ranks_tap tap = {swap_rows, NULL};
    const struct ranks_model model = {
        .preset = "gpt2-tiny", .dtype = REMAT_F32, .zero = 1, .exchange_bytes = PIECE_BYTES};
    struct ranks_result good[RANKS_MAX], bad[RANKS_MAX];
    struct remat_arena arena;
    remat_arena_init(&arena, ctx);
    struct remat_program *program = ranks_compile(ctx, &arena, &model, 2, 1, 8);
    ranks_run(ctx, program, &(struct ranks_settings){.steps = 1}, good);
    ranks_run(ctx, program, &(struct ranks_settings){.steps = 1, .tap = &tap}, bad);
    CHECK(!ranks_equal(&good[0], &bad[0], 1), "not noticed: a piece with other elements");
    remat_arena_release(&arena);
}

int main(void)
{
    static const char *const presets[] = {"gpt2-tiny", "llama-tiny", "bert-tiny", "encdec-tiny"};
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    for (uint32_t k = 0; k < 8; k++)
        for (uint32_t zero = 0; zero <= 3; zero += zero + 1) {
            const struct ranks_model model = {.preset = presets[k / 2],
                                              .dtype = k / 2 % 2 == k % 2 ? REMAT_BF16 : REMAT_F32,
                                              .zero = zero};
            test_model(ctx, model, 2u << k % 2, 1 + (k / 2 + zero) % 2);
        }
    test_noticed(ctx);
    remat_context_destroy(&ctx);
    return check_exit();
}
