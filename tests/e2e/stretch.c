/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrites a plan so that its transfers go on beside as many commands as they can, in groups, in an
 * arena as large as that takes: stretch PLAN */
#include "file.h"
#include "flights.h"
#include "program.h"

#include <program.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    struct remat_program *program;
    struct remat_arena arena;
    const void *written;
    char *data;
    size_t bytes;
    MUST(argc == 2 && ctx);
    remat_arena_init(&arena, ctx);
    MUST_OK(ctx, remat_file_read(ctx, argv[1], &arena, &data, &bytes));
    MUST_OK(ctx, remat_program_read(ctx, argv[1], data, bytes, &arena, &program));
    flights_spread(ctx, &arena, program);
    flights_defer(ctx, &arena, program);
    flights_group(program);
    flights_stretch(program);
    MUST_OK(ctx, remat_program_write(ctx, program, &arena, &written, &bytes));
    FILE *file = fopen(argv[1], "wb");
    MUST(file && fwrite(written, 1, bytes, file) == bytes && fclose(file) == 0);
    printf("%u transfers beside commands, at most %u at once\n", flights_count(program),
           flights_most(program));
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
