/* SPDX-License-Identifier: Apache-2.0 */
/* A segment run once with two clocks, of computation and of the stream on which transfers are made
 * one after the other. A command waits until transfers that are complete before it are: meanwhile
 * the stream is busy, as they were started before. Other commands may take longer while it is. */
#include "clocks.h"

#include <assert.h>

struct clock_replay {
    const struct remat_program *p;
    struct remat_clocks *clocks;
    uint64_t stream_ns, now_ns; /* the stream will have come to; computation has come to */
    uint32_t *command;          /* [transfer] */
    uint32_t *last;             /* [command]: the last transfer complete before it */
    uint32_t count, first;      /* transfers; those below `first` have ended */
};

/* Until the last transfer that is complete before the command. */
static void wait(struct clock_replay *replay, uint32_t transfer)
{
    const struct remat_clocks *clocks = replay->clocks;
    for (; replay->first <= transfer; replay->first++) {
        uint32_t command = replay->command[replay->first];
        uint64_t begin = clocks->begin_ns[command], end = clocks->end_ns[command];
        begin = begin > replay->now_ns ? begin : replay->now_ns;
        clocks->exposed_ns[command] += end > begin ? end - begin : 0;
    }
    uint64_t end = clocks->end_ns[replay->command[transfer]];
    replay->now_ns = replay->now_ns > end ? replay->now_ns : end;
}

/* Computation, slowed by the transfers that go on meanwhile. Returns its end. */
static uint64_t compute(struct clock_replay *replay, uint64_t work_ns)
{
    const struct remat_clocks *clocks = replay->clocks;
    for (uint32_t t = replay->first; t < replay->count && work_ns; t++) {
        uint32_t command = replay->command[t];
        uint32_t slowdown = replay->p->commands[command].slowdown_permille;
        uint64_t begin = clocks->begin_ns[command], end = clocks->end_ns[command];
        if (end <= replay->now_ns)
            continue;
        assert(begin <= replay->now_ns); /* the stream is busy until it has none */
        uint64_t done = remat_work_ns(end - replay->now_ns, slowdown);
        done = done < work_ns ? done : work_ns;
        uint64_t ns = done < work_ns ? end - replay->now_ns : remat_slowed_ns(work_ns, slowdown);
        clocks->exposed_ns[command] += ns - done;
        replay->now_ns += ns;
        work_ns -= done;
    }
    return replay->now_ns += work_ns;
}

static void start(struct clock_replay *replay, uint32_t command)
{
    replay->stream_ns = replay->stream_ns > replay->now_ns ? replay->stream_ns : replay->now_ns;
    replay->command[replay->count] = command;
    replay->clocks->begin_ns[command] = replay->stream_ns;
    replay->clocks->end_ns[command] = replay->stream_ns +=
        replay->p->commands[command].estimated_ns;
    replay->last[replay->p->commands[command].complete_before] = replay->count++;
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
    struct clock_replay replay = {.p = program, .clocks = clocks};
    REMAT_TRY_NEW(scratch, replay.command, program->command_count);
    REMAT_TRY_NEW(scratch, replay.last, program->command_count + (size_t)1);
    memset(replay.last, 0xff, (program->command_count + (size_t)1) * sizeof *replay.last);
    for (uint32_t i = segment->command_begin; i <= segment->command_end; i++) {
        if (replay.last[i] != REMAT_NONE)
            wait(&replay, replay.last[i]);
        if (i == segment->command_end)
            break;
        clocks->exposed_ns[i] = 0;
        clocks->reached_ns[i] = clocks->begin_ns[i] = replay.now_ns;
        if (program->commands[i].complete_before)
            start(&replay, i);
        else
            clocks->end_ns[i] = compute(&replay, program->commands[i].estimated_ns);
    }
    clocks->segment_ns = replay.now_ns;
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
