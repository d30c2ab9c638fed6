/* SPDX-License-Identifier: Apache-2.0 */
/* Linked as C: fails to build when the read half needs more than libc. */
#include "check.h"
#include "program.h"

#include <program.h>

int main(void)
{
    remat_context *ctx = remat_context_create(NULL, NULL);
    MUST(ctx);
    struct remat_arena arena;
    struct remat_program *program;
    remat_arena_init(&arena, ctx);
    CHECK_STATUS(ctx, remat_program_read(ctx, "p", "", 0, &arena, &program), REMAT_ERROR_INVALID,
                 "");
    remat_arena_release(&arena);
    remat_context_destroy(&ctx);
    return check_exit();
}
