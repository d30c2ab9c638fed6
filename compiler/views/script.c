/* SPDX-License-Identifier: Apache-2.0 */
#include "formats.h"

#include <inttypes.h>

enum { COMMANDS_MAX = 1 << 18 };

static uint64_t count_commands(const struct remat_program *program, const struct remat_entry *step)
{
    uint64_t count = 0;
    for (uint32_t k = step->call_begin; k < step->call_end; k++) {
        const struct remat_segment *segment = &program->segments[program->calls[k].segment];
        count +=
            (uint64_t)program->calls[k].times * (segment->command_end - segment->command_begin);
    }
    return count;
}

remat_status dump_script(remat_context *ctx, struct remat_arena *arena,
                         const struct remat_program *program,
                         remat_status (*show)(void *user, const struct dump_run *run), void *user)
{
    remat_status st = REMAT_OK;
    const struct remat_entry *step = remat_program_step(program);
    struct remat_clocks clocks;
    struct dump_run run = {.clocks = &clocks};
    if (!step)
        return REMAT_OK;
    uint64_t count = count_commands(program, step);
    if (count > COMMANDS_MAX)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "a step runs %" PRIu64 " commands; viewers get at most %d", count,
                           COMMANDS_MAX);
    REMAT_TRY(remat_clocks_new(arena, program, &clocks));
    for (uint32_t k = step->call_begin; k < step->call_end; k++) {
        run.segment = &program->segments[program->calls[k].segment];
        REMAT_TRY(remat_clocks_run(program, run.segment, arena, &clocks));
        for (run.of_call = 0; run.of_call < program->calls[k].times; run.of_call++) {
            REMAT_TRY(show(user, &run));
            run.begin_ns += clocks.segment_ns;
        }
    }
fail:
    return st;
}
