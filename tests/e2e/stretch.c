/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrites a plan so that its transfers go on beside as many commands as they can, in groups, in an
 * arena as large as that takes: stretch PLAN */
#include "clocks.h"
#include "file.h"
#include "flights.h"
#include "program.h"

#include <program.h>
#include <stdio.h>

/* Of a step as its transfers are now. */
static void predict(remat_context *ctx, struct remat_arena *arena, struct remat_program *p)
{
    const struct remat_entry *step = remat_program_step(p);
    struct remat_clocks clocks;
    MUST_OK(ctx, remat_clocks_new(arena, p, &clocks));
    p->step_ns = p->bound_step_ns = 0;
    for (uint32_t k = step->call_begin; k < step->call_end; k++) {
        MUST_OK(ctx, remat_clocks_run(p, &p->segments[p->calls[k].segment], arena, &clocks));
        p->step_ns += p->calls[k].times * clocks.segment_ns;
    }
}

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
    uint32_t waits = flights_all(ctx, &arena, program);
    predict(ctx, &arena, program);
    MUST_OK(ctx, remat_program_verify(ctx, program));
    MUST_OK(ctx, remat_program_simulate(ctx, program));
    MUST_OK(ctx, remat_program_write(ctx, program, &arena, &written, &bytes));
    FILE *file = fopen(argv[1], "wb");
    MUST(file && fwrite(written, 1, bytes, file) == bytes && fclose(file) == 0);
    printf("%u transfers beside commands, at most %u at once; %u wait for another link\n",
           flights_count(program), flights_most(program), waits);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
