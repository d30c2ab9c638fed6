/* SPDX-License-Identifier: Apache-2.0 */
/* A segment run once with two clocks, of computation and of the stream on which transfers are made
 * one after the other. A command waits until transfers that are complete before it are: meanwhile
 * the stream is busy, as they were started before. */
#include "program.h"

#include <assert.h>

struct clocks {
    const struct remat_program *p;
    uint64_t *exposed_ns; /* [command] */
    uint64_t *begin_ns, *end_ns,
        stream_ns;            /* [transfer]: on the stream; the stream will have come to */
    uint64_t now_ns;          /* computation has come to */
    uint32_t *command, *last; /* [transfer]; [command]: the last complete before it */
    uint32_t count, first;    /* transfers; those below `first` have ended */
};

/* Until the last transfer that is complete before the command. */
static void wait(struct clocks *c, uint32_t transfer)
{
    for (; c->first <= transfer; c->first++) {
        uint64_t begin = c->begin_ns[c->first], end = c->end_ns[c->first];
        begin = begin > c->now_ns ? begin : c->now_ns;
        c->exposed_ns[c->command[c->first]] += end > begin ? end - begin : 0;
    }
    c->now_ns = c->now_ns > c->end_ns[transfer] ? c->now_ns : c->end_ns[transfer];
}

static void start(struct clocks *c, uint32_t command)
{
    c->stream_ns = c->stream_ns > c->now_ns ? c->stream_ns : c->now_ns;
    c->command[c->count] = command;
    c->begin_ns[c->count] = c->stream_ns;
    c->end_ns[c->count] = c->stream_ns += c->p->commands[command].estimated_ns;
    c->last[c->p->commands[command].complete_before] = c->count++;
}

remat_status remat_program_exposed(const struct remat_program *program,
                                   const struct remat_segment *segment, struct remat_arena *scratch,
                                   uint64_t *exposed_ns)
{
    assert(segment->command_end <= program->command_count);
    remat_status st = REMAT_OK;
    struct clocks c = {.p = program, .exposed_ns = exposed_ns};
    REMAT_TRY_NEW(scratch, c.begin_ns, program->command_count);
    REMAT_TRY_NEW(scratch, c.end_ns, program->command_count);
    REMAT_TRY_NEW(scratch, c.command, program->command_count);
    REMAT_TRY_NEW(scratch, c.last, program->command_count + (size_t)1);
    memset(c.last, 0xff, (program->command_count + (size_t)1) * sizeof *c.last);
    for (uint32_t i = segment->command_begin; i <= segment->command_end; i++) {
        if (c.last[i] != REMAT_NONE)
            wait(&c, c.last[i]);
        if (i == segment->command_end)
            break;
        exposed_ns[i] = 0;
        if (program->commands[i].complete_before)
            start(&c, i);
        else
            c.now_ns += program->commands[i].estimated_ns;
    }
fail:
    return st;
}
