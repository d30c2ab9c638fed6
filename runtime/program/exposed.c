/* SPDX-License-Identifier: Apache-2.0 */
/* A segment run once with two clocks, of computation and of the stream on which transfers are made
 * one after the other. A command waits until transfers that are complete before it are: meanwhile
 * the stream is busy, as they were started before. */
#include "clocks.h"

#include <assert.h>

struct run {
    const struct remat_program *p;
    struct remat_clocks *clocks;
    uint64_t stream_ns, now_ns; /* the stream will have come to; computation has come to */
    uint32_t *command;          /* [transfer] */
    uint32_t *last;             /* [command]: the last transfer complete before it */
    uint32_t count, first;      /* transfers; those below `first` have ended */
};

/* Until the last transfer that is complete before the command. */
static void wait(struct run *run, uint32_t transfer)
{
    const struct remat_clocks *clocks = run->clocks;
    for (; run->first <= transfer; run->first++) {
        uint32_t command = run->command[run->first];
        uint64_t begin = clocks->begin_ns[command], end = clocks->end_ns[command];
        begin = begin > run->now_ns ? begin : run->now_ns;
        clocks->exposed_ns[command] += end > begin ? end - begin : 0;
    }
    uint64_t end = clocks->end_ns[run->command[transfer]];
    run->now_ns = run->now_ns > end ? run->now_ns : end;
}

static void start(struct run *run, uint32_t command)
{
    run->stream_ns = run->stream_ns > run->now_ns ? run->stream_ns : run->now_ns;
    run->command[run->count] = command;
    run->clocks->begin_ns[command] = run->stream_ns;
    run->clocks->end_ns[command] = run->stream_ns += run->p->commands[command].estimated_ns;
    run->last[run->p->commands[command].complete_before] = run->count++;
}

remat_status remat_clocks_new(struct remat_arena *arena, const struct remat_program *program,
                              struct remat_clocks *out)
{
    remat_status st = REMAT_OK;
    REMAT_TRY_NEW(arena, out->reached_ns, program->command_count);
    REMAT_TRY_NEW(arena, out->begin_ns, program->command_count);
    REMAT_TRY_NEW(arena, out->end_ns, program->command_count);
    REMAT_TRY_NEW(arena, out->exposed_ns, program->command_count);
fail:
    return st;
}

remat_status remat_clocks_run(const struct remat_program *program,
                              const struct remat_segment *segment, struct remat_arena *scratch,
                              struct remat_clocks *clocks)
{
    assert(segment->command_end <= program->command_count);
    remat_status st = REMAT_OK;
    struct run run = {.p = program, .clocks = clocks};
    REMAT_TRY_NEW(scratch, run.command, program->command_count);
    REMAT_TRY_NEW(scratch, run.last, program->command_count + (size_t)1);
    memset(run.last, 0xff, (program->command_count + (size_t)1) * sizeof *run.last);
    for (uint32_t i = segment->command_begin; i <= segment->command_end; i++) {
        if (run.last[i] != REMAT_NONE)
            wait(&run, run.last[i]);
        if (i == segment->command_end)
            break;
        clocks->exposed_ns[i] = 0;
        clocks->reached_ns[i] = clocks->begin_ns[i] = run.now_ns;
        if (program->commands[i].complete_before)
            start(&run, i);
        else
            clocks->end_ns[i] = run.now_ns += program->commands[i].estimated_ns;
    }
    clocks->segment_ns = run.now_ns;
fail:
    return st;
}

remat_status remat_program_exposed(const struct remat_program *program,
                                   const struct remat_segment *segment, struct remat_arena *scratch,
                                   uint64_t *exposed_ns)
{
    remat_status st = REMAT_OK;
    struct remat_clocks clocks;
    REMAT_TRY(remat_clocks_new(scratch, program, &clocks));
    clocks.exposed_ns = exposed_ns;
    st = remat_clocks_run(program, segment, scratch, &clocks);
fail:
    return st;
}
