/* Embeddings and copies over ragged shapes (single.h).
 *
 *     test_moves COMPILER */
#include "single.h"

#include <stdio.h>

static uint32_t failures;

static void test_embedding(remat_context *ctx, const char *compiler, int64_t tokens, int64_t rows,
                           int64_t columns, remat_dtype dtype)
{
    struct single *s = single_begin(REMAT_KERNEL_embedding);
    s->ids_below = (uint32_t)rows;
    single_add(s, REMAT_ACCESS_READ, dtype, 2, (int64_t[]){rows, columns}, false);
    single_add(s, REMAT_ACCESS_READ, REMAT_I32, 1, &tokens, false);
    single_add(s, REMAT_ACCESS_WRITE, dtype, 2, (int64_t[]){tokens, columns}, false);
    failures += !single_run(ctx, compiler, s);
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        s = single_begin(REMAT_KERNEL_embedding_backward);
        s->ids_below = (uint32_t)rows;
        s->parameters[0] = accumulate;
        single_add(s, REMAT_ACCESS_READ, dtype, 2, (int64_t[]){tokens, columns}, false);
        single_add(s, REMAT_ACCESS_READ, REMAT_I32, 1, &tokens, false);
        single_add(s, REMAT_ACCESS_UPDATE, dtype, 2, (int64_t[]){rows, columns}, false);
        failures += !single_run(ctx, compiler, s);
    }
}

static void test_copies(remat_context *ctx, const char *compiler, int64_t rows, int64_t columns,
                        remat_dtype dtype)
{
    const int64_t shape[] = {rows, columns}, wide[] = {rows, 2 * columns + 3};
    struct single *s = single_begin(REMAT_KERNEL_copy);
    single_add(s, REMAT_ACCESS_READ, dtype, 2, shape, true);
    single_add(s, REMAT_ACCESS_WRITE, dtype, 2, shape, false);
    failures += !single_run(ctx, compiler, s);
    s = single_begin(REMAT_KERNEL_pad);
    s->parameters[0] = 1;
    s->parameters[1] = 2;
    single_add(s, REMAT_ACCESS_READ, dtype, 2, shape, false);
    single_add(s, REMAT_ACCESS_WRITE, dtype, 2, wide, false);
    failures += !single_run(ctx, compiler, s);
    s = single_begin(REMAT_KERNEL_concat);
    s->parameters[0] = 1;
    single_add(s, REMAT_ACCESS_READ, dtype, 2, shape, false);
    single_add(s, REMAT_ACCESS_READ, dtype, 2, (int64_t[]){rows, columns + 3}, false);
    single_add(s, REMAT_ACCESS_WRITE, dtype, 2, wide, false);
    failures += !single_run(ctx, compiler, s);
}

int main(int argc, char **argv)
{
    static const int64_t tokens[] = {1, 37, 300}, columns[] = {1, 6, 64, 1031};
    (void)argc;
    remat_context *ctx = remat_context_create(NULL, NULL);
    for (uint32_t c = 0; c < sizeof columns / sizeof *columns; c++)
        for (uint32_t t = 0; t < sizeof tokens / sizeof *tokens; t++) {
            static const remat_dtype dtypes[] = {REMAT_F32, REMAT_F16, REMAT_BF16};
            remat_dtype dtype = dtypes[(c + t) % 3];
            test_embedding(ctx, argv[1], tokens[t], 1 + tokens[t] / 3, columns[c], dtype);
            test_copies(ctx, argv[1], tokens[t], columns[c], dtype);
        }
    remat_context_destroy(&ctx);
    printf("%u failures\n", failures);
    return failures != 0;
}
