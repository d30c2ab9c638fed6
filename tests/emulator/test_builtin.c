/* SPDX-License-Identifier: Apache-2.0 */
/* Built-in kernels but attention over shapes, offsets and parameters (single.h), among them what is
 * an error on the CPU; and faults planted into their text (builtin_mutants.def), each of which must
 * make one of these fail.
 *
 * Planted are all, every third from N on, or those of a kernel.
 *
 *     test_builtin COMPILER moves|vocabulary|items|mutants [all|slice:N|KERNEL] */
#include "check.h"
#include "single.h"

#include <stdio.h>

static uint32_t differing;         /* kernels, from the CPU device */
static const char *planted_kernel; /* or all, or slice:N */

static const struct single_mutant mutants[] = {
#define MUTANT(kind, what, find, replacement) {REMAT_KERNEL_##kind, what, find, replacement},
#include "planted_builtin_mutants.def"
#undef MUTANT
};
#define MUTANTS (sizeof mutants / sizeof *mutants)
#define SLICES  3

/* --- moves --- */

/* How many bytes the kernels read. */
static uint64_t test_gradient(remat_context *ctx, const char *compiler, int64_t tokens,
                              int64_t rows, int64_t columns, remat_dtype dtype, uint64_t offset,
                              bool accumulate, uint32_t (*id_of)(uint32_t position))
{
    struct single *s = single_begin(REMAT_KERNEL_embedding_backward);
    s->ids_begin = (uint32_t)-2;
    s->ids_below = (uint32_t)rows + 4;
    s->id_of = id_of;
    s->parameters[0] = accumulate;
    single_add(s, REMAT_ACCESS_READ, dtype, 2, (int64_t[]){tokens, columns}, false);
    single_add(s, REMAT_ACCESS_READ, REMAT_I32, 1, &tokens, false);
    single_add(s, REMAT_ACCESS_UPDATE, dtype, 2, (int64_t[]){rows, columns}, false);
    s->operands[0].offset_elements = offset;
    differing += !single_run(ctx, compiler, s);
    return s->read_bytes;
}

/* Some ids outside the table, two on either side. Operands begin `offset` elements later. */
static void test_embedding(remat_context *ctx, const char *compiler, int64_t tokens, int64_t rows,
                           int64_t columns, remat_dtype dtype, uint64_t offset)
{
    struct single *s = single_begin(REMAT_KERNEL_embedding);
    s->ids_begin = (uint32_t)-2;
    s->ids_below = (uint32_t)rows + 4;
    single_add(s, REMAT_ACCESS_READ, dtype, 2, (int64_t[]){rows, columns}, false);
    single_add(s, REMAT_ACCESS_READ, REMAT_I32, 1, &tokens, false);
    single_add(s, REMAT_ACCESS_WRITE, dtype, 2, (int64_t[]){tokens, columns}, false);
    s->operands[0].offset_elements = offset;
    differing += !single_run(ctx, compiler, s);
    for (int accumulate = 0; accumulate < 2; accumulate++)
        test_gradient(ctx, compiler, tokens, rows, columns, dtype, offset, accumulate, NULL);
}

#define VOCABULARY 50257

/* Each power of two as likely: nearly by Zipf's law. */
static uint32_t by_zipf(uint32_t position)
{
    uint32_t mixed = position * 2654435769u, bits = mixed >> 28;
    return (1u << bits | (mixed * 1664525u + 1013904223u) >> 16 >> (16 - bits)) - 1;
}

static uint32_t equal(uint32_t position)
{
    (void)position;
    return VOCABULARY - 1;
}

static uint32_t different(uint32_t position)
{
    return position * 7919 % VOCABULARY;
}

/* Over a whole vocabulary: ids of three digits. Of seven times the tokens, which are several steps
 * of a warp's part and more than 8192 of one id, no more than seven times as much is read. */
static void test_vocabulary(remat_context *ctx, const char *compiler)
{
    static uint32_t (*const ids[])(uint32_t) = {by_zipf, equal, different};
    for (uint32_t i = 0; i < 3; i++) {
        remat_dtype dtype = i % 2 ? REMAT_BF16 : REMAT_F32;
        uint64_t few = test_gradient(ctx, compiler, 1371, VOCABULARY, 6, dtype, 0, true, ids[i]);
        uint64_t many = test_gradient(ctx, compiler, 9597, VOCABULARY, 6, dtype, 0, true, ids[i]);
        CHECK(many <= 7 * few, "%llu bytes are read, of a seventh of the tokens %llu",
              (unsigned long long)many, (unsigned long long)few);
    }
}

static void test_copies(remat_context *ctx, const char *compiler, int64_t rows, int64_t columns,
                        remat_dtype dtype)
{
    const int64_t shape[] = {rows, columns}, wide[] = {rows, 2 * columns + 3};
    struct single *s = single_begin(REMAT_KERNEL_copy);
    single_add(s, REMAT_ACCESS_READ, dtype, 2, shape, true);
    single_add(s, REMAT_ACCESS_WRITE, dtype, 2, shape, false);
    differing += !single_run(ctx, compiler, s);
    s = single_begin(REMAT_KERNEL_pad);
    s->parameters[0] = 1;
    s->parameters[1] = 2;
    single_add(s, REMAT_ACCESS_READ, dtype, 2, shape, false);
    single_add(s, REMAT_ACCESS_WRITE, dtype, 2, wide, false);
    differing += !single_run(ctx, compiler, s);
    s = single_begin(REMAT_KERNEL_concat);
    s->parameters[0] = 1;
    single_add(s, REMAT_ACCESS_READ, dtype, 2, shape, false);
    single_add(s, REMAT_ACCESS_READ, dtype, 2, (int64_t[]){rows, columns + 3}, false);
    single_add(s, REMAT_ACCESS_WRITE, dtype, 2, wide, false);
    differing += !single_run(ctx, compiler, s);
}

static void test_moves(remat_context *ctx, const char *compiler)
{
    static const int64_t tokens[] = {1, 37, 300}, columns[] = {1, 6, 64, 1031};
    static const remat_dtype dtypes[] = {REMAT_F32, REMAT_F16, REMAT_BF16};
    /* several steps of a warp's part, two digits, runs beyond a block's rows */
    test_gradient(ctx, compiler, 4397, 67, 3, REMAT_F32, 0, false, NULL);
    for (uint32_t d = 0; d < 3; d++)
        test_embedding(ctx, compiler, 37, 13, 64, dtypes[d], 1 + d);
    for (uint32_t c = 0; c < sizeof columns / sizeof *columns; c++)
        for (uint32_t t = 0; t < sizeof tokens / sizeof *tokens; t++) {
            remat_dtype dtype = dtypes[(c + t) % 3];
            test_embedding(ctx, compiler, tokens[t], 1 + tokens[t] / 3, columns[c], dtype, 0);
            test_copies(ctx, compiler, tokens[t], columns[c], dtype);
        }
}

/* --- items --- */

static void test_fills(remat_context *ctx, const char *compiler, int64_t count, uint64_t offset)
{
    for (remat_dtype dtype = REMAT_F32; dtype <= REMAT_I32; dtype++) {
        struct single *s = single_begin(REMAT_KERNEL_fill);
        s->parameters[0] = dtype == REMAT_I32 ? -7 : 1.0 / 3;
        single_add(s, REMAT_ACCESS_WRITE, dtype, 1, &count, false);
        s->operands[0].offset_elements = offset;
        differing += !single_run(ctx, compiler, s);
        if (dtype == REMAT_I32)
            continue;
        s = single_begin(REMAT_KERNEL_fill_normal);
        s->parameters[0] = 0.25;
        s->parameters[1] = 0.02;
        s->parameters[2] = 4000000007.0;
        s->parameters[3] = 123456789.0;
        single_add(s, REMAT_ACCESS_WRITE, dtype, 1, &count, false);
        s->operands[0].offset_elements = offset;
        differing += !single_run(ctx, compiler, s);
    }
}

/* What rank `rank` of `ranks` has of a tensor, or without a rank, for 0 of 1, its beginning: runs
 * of `run` elements, of which those in the last run from number `drawn` on are after the tensor's
 * end. */
static void test_fill_part(remat_context *ctx, const char *compiler, uint32_t rank, uint32_t ranks,
                           int64_t runs, int64_t run, int64_t drawn, remat_dtype dtype,
                           uint64_t offset)
{
    double end = ((double)(runs - 1) * ranks + rank) * (double)run + (double)drawn;
    const double parameters[7] = {0.25,        0.02, 4000000007.0, 123456789.0, end > 0 ? end : 0,
                                  (double)run, ranks};
    const int64_t count = runs * run;
    struct single *s = single_begin(REMAT_KERNEL_fill_normal_part);
    s->ids_begin = rank;
    s->fails = (int32_t)rank < 0;
    memcpy(s->parameters, parameters, sizeof parameters);
    single_add(s, REMAT_ACCESS_WRITE, dtype, 1, &count, false);
    s->operands[0].offset_elements = offset;
    if (ranks > 1)
        single_add(s, REMAT_ACCESS_READ, REMAT_I32, 1, (int64_t[]){1}, false);
    differing += !single_run(ctx, compiler, s);
}

static uint32_t rank_of_block, number_of_block;

/* The block's number lies after the rank's. */
static uint32_t id_of_block(uint32_t position)
{
    return position == 0 ? rank_of_block : number_of_block;
}

/* Block `number`, of `count` elements, of what a rank of 3 has in runs of `run`; elements from
 * number `end` of the tensor on are padding. */
static void test_fill_block(remat_context *ctx, const char *compiler, uint32_t rank,
                            uint32_t number, int64_t count, double run, double end)
{
    const double parameters[7] = {0.25, 0.02, 4000000007.0, 123456789.0, end, run, 3};
    struct single *s = single_begin(REMAT_KERNEL_fill_normal_part);
    rank_of_block = rank;
    number_of_block = number;
    s->id_of = id_of_block;
    s->fails = (int32_t)rank < 0 || (int32_t)number < 0;
    memcpy(s->parameters, parameters, sizeof parameters);
    single_add(s, REMAT_ACCESS_WRITE, REMAT_F32, 1, &count, false);
    single_add(s, REMAT_ACCESS_READ, REMAT_I32, 1, (int64_t[]){1}, false);
    single_add(s, REMAT_ACCESS_READ, REMAT_I32, 1, (int64_t[]){1}, false);
    s->operands[2].offset_elements = 1;
    differing += !single_run(ctx, compiler, s);
}

static void test_rope(remat_context *ctx, const char *compiler, int64_t length, int64_t pairs,
                      double theta, double factor)
{
    const double parameters[5] = {theta, factor, 1, 4, 64};
    struct single *s = single_begin(REMAT_KERNEL_rope_table);
    memcpy(s->parameters, parameters, sizeof parameters);
    single_add(s, REMAT_ACCESS_WRITE, REMAT_F32, 4, (int64_t[]){length, 2, 2, pairs}, false);
    differing += !single_run(ctx, compiler, s);
}

static void test_adamw(remat_context *ctx, const char *compiler, uint32_t step)
{
    const double parameters[3] = {0.9, 0.999, 0.1};
    struct single *s = single_begin(REMAT_KERNEL_adamw_coefficients);
    s->ids_begin = step;
    s->fails = (int32_t)step < 1;
    memcpy(s->parameters, parameters, sizeof parameters);
    single_add(s, REMAT_ACCESS_READ, REMAT_F32, 1, (int64_t[]){1}, false);
    single_add(s, REMAT_ACCESS_READ, REMAT_I32, 1, (int64_t[]){1}, false);
    single_add(s, REMAT_ACCESS_WRITE, REMAT_F32, 1, (int64_t[]){4}, false);
    differing += !single_run(ctx, compiler, s);
}

/* Part `index` of `parts` of `count` elements each. */
static void test_batch_slice(remat_context *ctx, const char *compiler, uint32_t index,
                             int64_t parts, int64_t count, remat_dtype dtype, uint64_t offset)
{
    struct single *s = single_begin(REMAT_KERNEL_batch_slice);
    s->ids_begin = index;
    s->fails = index >= parts;
    single_add(s, REMAT_ACCESS_READ, dtype, 2, (int64_t[]){2 * parts, count}, false);
    single_add(s, REMAT_ACCESS_READ, REMAT_I32, 1, (int64_t[]){1}, false);
    single_add(s, REMAT_ACCESS_WRITE, dtype, 2, (int64_t[]){2, count}, false);
    s->operands[2].offset_elements = offset;
    differing += !single_run(ctx, compiler, s);
}

static void test_advance(remat_context *ctx, const char *compiler, uint32_t index, double count)
{
    struct single *s = single_begin(REMAT_KERNEL_advance);
    s->ids_begin = index;
    s->parameters[0] = count;
    single_add(s, REMAT_ACCESS_UPDATE, REMAT_I32, 1, (int64_t[]){1}, false);
    differing += !single_run(ctx, compiler, s);
}

static void test_part_number(remat_context *ctx, const char *compiler, uint32_t index, double count)
{
    struct single *s = single_begin(REMAT_KERNEL_part_number);
    s->ids_begin = index;
    s->parameters[0] = count;
    single_add(s, REMAT_ACCESS_READ, REMAT_I32, 1, (int64_t[]){1}, false);
    single_add(s, REMAT_ACCESS_READ, REMAT_I32, 1, (int64_t[]){1}, false);
    single_add(s, REMAT_ACCESS_WRITE, REMAT_I32, 1, (int64_t[]){1}, false);
    differing += !single_run(ctx, compiler, s);
}

/* Of `tokens` ids, and a rank, below a bound. */
static void test_own_ids(remat_context *ctx, const char *compiler, int64_t tokens, uint32_t below,
                         double count)
{
    struct single *s = single_begin(REMAT_KERNEL_own_ids);
    s->ids_begin = 0;
    s->ids_below = below;
    s->parameters[0] = count;
    single_add(s, REMAT_ACCESS_READ, REMAT_I32, 1, &tokens, false);
    single_add(s, REMAT_ACCESS_READ, REMAT_I32, 1, (int64_t[]){1}, false);
    single_add(s, REMAT_ACCESS_WRITE, REMAT_I32, 1, &tokens, false);
    differing += !single_run(ctx, compiler, s);
}

static void test_items(remat_context *ctx, const char *compiler)
{
    static const int64_t counts[] = {1, 3, 4, 257, 5003};
    static const uint32_t steps[] = {1, 2, 17, 1000, 2147483647, 0, (uint32_t)-1};
    for (uint32_t c = 0; c < 5; c++)
        test_fills(ctx, compiler, counts[c], c % 3);
    test_fill_part(ctx, compiler, 0, 1, 1, 1, 1, REMAT_F32, 0);
    test_fill_part(ctx, compiler, 0, 1, 1, 2100, 1031, REMAT_BF16, 1);
    test_fill_part(ctx, compiler, 0, 1, 1, 515, 514, REMAT_F32, 0);
    test_fill_part(ctx, compiler, 3, 4, 1, 257, 1000, REMAT_F32, 1);
    test_fill_part(ctx, compiler, 3, 4, 1, 257, 71, REMAT_F32, 1);
    test_fill_part(ctx, compiler, 7, 8, 1, 1031, 1030, REMAT_BF16, 3);
    test_fill_part(ctx, compiler, 7, 8, 1, 1031, -5, REMAT_BF16, 3);
    test_fill_part(ctx, compiler, 0, 2, 5, 1, 1, REMAT_F32, 0);
    test_fill_part(ctx, compiler, 2, 3, 41, 7, 3, REMAT_F32, 1);
    test_fill_part(ctx, compiler, 255, 256, 3, 1031, -1, REMAT_BF16, 0);
    test_fill_part(ctx, compiler, 2147483647, 256, 1, 5003, 5003, REMAT_F16, 2);
    test_fill_part(ctx, compiler, (uint32_t)-1, 2, 1, 17, 17, REMAT_F32, 0);
    test_fill_block(ctx, compiler, 2, 3, 257, 257, 1e6);
    test_fill_block(ctx, compiler, 1, 2, 515, 7, 1e6);
    test_fill_block(ctx, compiler, 2, 1, 257, 400, 1000);
    test_fill_block(ctx, compiler, 0, (uint32_t)-1, 17, 17, 1e6);
    test_rope(ctx, compiler, 1, 1, 10000, 1);
    test_rope(ctx, compiler, 67, 5, 10000, 1);
    test_rope(ctx, compiler, 129, 32, 500000, 8);
    for (uint32_t i = 0; i < 7; i++)
        test_adamw(ctx, compiler, steps[i]);
    test_batch_slice(ctx, compiler, 0, 1, 16, REMAT_F32, 0);
    test_batch_slice(ctx, compiler, 2, 3, 67, REMAT_BF16, 0);
    test_batch_slice(ctx, compiler, 1, 4, 34, REMAT_I32, 2);
    test_batch_slice(ctx, compiler, 3, 4, 1031, REMAT_BF16, 3);
    test_batch_slice(ctx, compiler, 4, 4, 16, REMAT_F32, 0);
    test_batch_slice(ctx, compiler, (uint32_t)-1, 4, 17, REMAT_BF16, 1);
    test_advance(ctx, compiler, 0, 1);
    test_advance(ctx, compiler, 4, 6);
    test_advance(ctx, compiler, 5, 6);
    test_advance(ctx, compiler, (uint32_t)-3, 6);
    test_advance(ctx, compiler, 2147483645, 2147483647);
    test_part_number(ctx, compiler, 0, 1);
    test_part_number(ctx, compiler, 255, 4096);
    test_own_ids(ctx, compiler, 100, 1, 1);
    test_own_ids(ctx, compiler, 1031, 12, 3);
    test_own_ids(ctx, compiler, 1031, 12, 1);
    test_own_ids(ctx, compiler, 257, 255, 2147483647);
}

/* --- */

/* Kernels whose text is that of a fused kernel, and attention, which has a test of its own. */
static bool planted_elsewhere(uint32_t kind)
{
    return kind == REMAT_KERNEL_copy || kind == REMAT_KERNEL_concat || kind == REMAT_KERNEL_pad ||
           kind == REMAT_KERNEL_fill || kind == REMAT_KERNEL_attention ||
           kind == REMAT_KERNEL_attention_backward;
}

static void test_covered(void)
{
    for (uint32_t kind = 0; kind < REMAT_KERNEL_KIND_COUNT; kind++) {
        const struct remat_kernel_row *row = remat_kernel_row(kind);
        bool covered = kind == REMAT_KERNEL_fused || row->dispatch != REMAT_DISPATCH_TEXT ||
                       planted_elsewhere(kind);
        for (uint32_t m = 0; m < MUTANTS; m++)
            covered |= mutants[m].kind == kind;
        CHECK(covered, "%s has no case in builtin_mutants.def", row->name);
    }
}

static bool is_planted(uint32_t mutant)
{
    if (strncmp(planted_kernel, "slice:", 6) == 0)
        return mutant % SLICES == (uint32_t)atoi(planted_kernel + 6);
    return strcmp(planted_kernel, "all") == 0 ||
           strcmp(planted_kernel, remat_kernel_kind_name(mutants[mutant].kind)) == 0;
}

static void test_mutants(remat_context *ctx, const char *compiler)
{
    uint32_t planted = 0;
    test_covered();
    for (uint32_t m = 0; m < MUTANTS; m++) {
        if (!is_planted(m))
            continue;
        planted++;
        differing = 0;
        single_plant(&mutants[m]);
        test_moves(ctx, compiler);
        test_items(ctx, compiler);
        CHECK(differing > 0, "%u %s: NOT FOUND", m, mutants[m].what);
    }
    CHECK(planted > 0, "no faults of %s", planted_kernel);
    differing = 0;
}

int main(int argc, char **argv)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    const char *what = argc > 2 ? argv[2] : "moves";
    planted_kernel = argc > 3 ? argv[3] : "all";
    (strcmp(what, "moves") == 0        ? test_moves
     : strcmp(what, "vocabulary") == 0 ? test_vocabulary
     : strcmp(what, "items") == 0      ? test_items
                                       : test_mutants)(ctx, argv[1]);
    remat_context_destroy(&ctx);
    CHECK(differing == 0, "%u kernels", differing);
    return check_exit();
}
