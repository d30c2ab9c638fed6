/* SPDX-License-Identifier: Apache-2.0 */
/* Linked as C: fails to build when the read half needs more than libc. */
#include <program.h>

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    if (!ctx)
        return 1;
    struct remat_arena arena;
    struct remat_program *program;
    remat_arena_init(&arena, ctx);
    remat_status st = remat_program_read(ctx, "p", "", 0, &arena, &program);
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return st != REMAT_ERROR_INVALID;
}
