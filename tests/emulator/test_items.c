/* Named kernels of single items over shapes, offsets and parameters (single.h); and what they make
 * of what is an error on the CPU.
 *
 *     test_items COMPILER */
#include "single.h"

#include <stdio.h>

static uint32_t failures;

static void test_fills(remat_context *ctx, const char *compiler, int64_t count, uint64_t offset)
{
    for (remat_dtype dtype = REMAT_F32; dtype <= REMAT_I32; dtype++) {
        struct single *s = single_begin(REMAT_KERNEL_fill);
        s->parameters[0] = dtype == REMAT_I32 ? -7 : 1.0 / 3;
        single_add(s, REMAT_ACCESS_WRITE, dtype, 1, &count, false);
        s->operands[0].offset_elements = offset;
        failures += !single_run(ctx, compiler, s);
        if (dtype == REMAT_I32)
            continue;
        s = single_begin(REMAT_KERNEL_fill_normal);
        s->parameters[0] = 0.25;
        s->parameters[1] = 0.02;
        s->parameters[2] = 4000000007.0;
        s->parameters[3] = 123456789.0;
        single_add(s, REMAT_ACCESS_WRITE, dtype, 1, &count, false);
        s->operands[0].offset_elements = offset;
        failures += !single_run(ctx, compiler, s);
    }
}

static void test_rope(remat_context *ctx, const char *compiler, int64_t length, int64_t pairs,
                      double theta, double factor)
{
    const double parameters[5] = {theta, factor, 1, 4, 64};
    struct single *s = single_begin(REMAT_KERNEL_rope_table);
    memcpy(s->parameters, parameters, sizeof parameters);
    single_add(s, REMAT_ACCESS_WRITE, REMAT_F32, 4, (int64_t[]){length, 2, 2, pairs}, false);
    failures += !single_run(ctx, compiler, s);
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
    single_add(s, REMAT_ACCESS_WRITE, REMAT_F32, 1, (int64_t[]){3}, false);
    failures += !single_run(ctx, compiler, s);
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
    failures += !single_run(ctx, compiler, s);
}

static void test_advance(remat_context *ctx, const char *compiler, uint32_t index, double count)
{
    struct single *s = single_begin(REMAT_KERNEL_advance);
    s->ids_begin = index;
    s->parameters[0] = count;
    single_add(s, REMAT_ACCESS_UPDATE, REMAT_I32, 1, (int64_t[]){1}, false);
    failures += !single_run(ctx, compiler, s);
}

int main(int argc, char **argv)
{
    static const int64_t counts[] = {1, 3, 4, 257, 5003};
    static const uint32_t steps[] = {1, 2, 17, 1000, 2147483647, 0, (uint32_t)-1};
    const char *compiler = argv[1];
    (void)argc;
    remat_context *ctx = remat_context_create(NULL, NULL);
    for (uint32_t c = 0; c < 5; c++)
        test_fills(ctx, compiler, counts[c], c % 3);
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
    remat_context_destroy(&ctx);
    printf("%u failures\n", failures);
    return failures != 0;
}
