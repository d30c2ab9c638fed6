/* SPDX-License-Identifier: Apache-2.0 */
/* A segment run once with a clock of computation and one of each link, on which transfers are made
 * one after the other. A command waits until transfers that are complete before it are: meanwhile
 * their links are busy, as they were started before, or those that they wait for. Other commands
 * may take longer while one is. */
#include "clocks.h"

#include <assert.h>

struct link {
    uint64_t end_ns;       /* it will have come to */
    uint32_t *command;     /* [transfer] */
    uint32_t *last;        /* [command]: the last transfer complete before it */
    uint32_t count, first; /* transfers; those below `first` were waited for */
    uint32_t current;      /* those below have ended */
};

struct clock_replay {
    const struct remat_program *p;
    struct remat_clocks *clocks;
    uint64_t now_ns; /* computation has come to */
    struct link links[REMAT_MESH_AXES_MAX];
};

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void expose(struct clock_replay *replay, uint32_t command, uint64_t begin_ns,
                   uint64_t end_ns)
{
    const struct remat_clocks *clocks = replay->clocks;
    uint64_t begin = later(clocks->begin_ns[command], begin_ns), end = clocks->end_ns[command];
    end = end < end_ns ? end : end_ns;
    clocks->exposed_ns[command] += end > begin ? end - begin : 0;
}

/* Computation waits for the link, which stands still until [begin_ns, end_ns) is over, as its next
 * transfer waits for what the other links do meanwhile. */
static void expose_others(struct clock_replay *replay, const struct link *link, uint64_t begin_ns,
                          uint64_t end_ns)
{
    for (uint32_t l = 0; l < replay->p->mesh_count && begin_ns < end_ns; l++)
        for (uint32_t t = replay->links[l].first; t < replay->links[l].count; t++)
            if (&replay->links[l] != link)
                expose(replay, replay->links[l].command[t], begin_ns, end_ns);
}

/* Until the last transfers that are complete before the command. */
static void wait(struct clock_replay *replay, struct link *link, uint32_t transfer)
{
    const struct remat_clocks *clocks = replay->clocks;
    for (; link->first <= transfer; link->first++) {
        uint32_t command = link->command[link->first];
        expose_others(replay, link, replay->now_ns, clocks->begin_ns[command]);
        replay->now_ns = later(replay->now_ns, clocks->begin_ns[command]);
        expose(replay, command, replay->now_ns, UINT64_MAX);
        replay->now_ns = later(replay->now_ns, clocks->end_ns[command]);
    }
}

/* The transfer that slows computation most, REMAT_NONE: none does; *until_ns: until when. */
static uint32_t find_slowest(struct clock_replay *replay, uint64_t *until_ns)
{
    const struct remat_clocks *clocks = replay->clocks;
    uint32_t found = REMAT_NONE, most = 0;
    *until_ns = UINT64_MAX;
    for (uint32_t l = 0; l < replay->p->mesh_count; l++) {
        struct link *link = &replay->links[l];
        while (link->current < link->count &&
               clocks->end_ns[link->command[link->current]] <= replay->now_ns)
            link->current++;
        if (link->current == link->count)
            continue;
        uint32_t command = link->command[link->current];
        bool begun = clocks->begin_ns[command] <= replay->now_ns;
        uint64_t next = begun ? clocks->end_ns[command] : clocks->begin_ns[command];
        *until_ns = next < *until_ns ? next : *until_ns;
        if (begun &&
            (found == REMAT_NONE || replay->p->commands[command].slowdown_permille > most)) {
            found = command;
            most = replay->p->commands[command].slowdown_permille;
        }
    }
    return found;
}

/* Computation, slowed by the transfers that go on meanwhile. Returns its end. */
static uint64_t compute(struct clock_replay *replay, uint64_t work_ns)
{
    uint64_t until_ns;
    while (work_ns) {
        uint32_t command = find_slowest(replay, &until_ns);
        if (until_ns == UINT64_MAX)
            break;
        uint32_t slowdown =
            command == REMAT_NONE ? 0 : replay->p->commands[command].slowdown_permille;
        uint64_t done = remat_work_ns(until_ns - replay->now_ns, slowdown);
        done = done < work_ns ? done : work_ns;
        uint64_t ns =
            done < work_ns ? until_ns - replay->now_ns : remat_slowed_ns(work_ns, slowdown);
        if (command != REMAT_NONE)
            replay->clocks->exposed_ns[command] += ns - done;
        replay->now_ns += ns;
        work_ns -= done;
    }
    return replay->now_ns += work_ns;
}

static void start(struct clock_replay *replay, uint32_t command)
{
    const struct remat_command *c = &replay->p->commands[command];
    struct link *link = &replay->links[remat_command_link(replay->p, command)];
    link->end_ns = later(link->end_ns, replay->now_ns);
    if (c->waits_for)
        link->end_ns = later(link->end_ns, replay->clocks->end_ns[c->waits_for - 1]);
    link->command[link->count] = command;
    replay->clocks->begin_ns[command] = link->end_ns;
    replay->clocks->end_ns[command] = link->end_ns += c->estimated_ns;
    link->last[c->complete_before] = link->count++;
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
    for (uint32_t l = 0; l < program->mesh_count; l++) {
        struct link *link = &replay.links[l];
        REMAT_TRY_NEW(scratch, link->command, program->command_count);
        REMAT_TRY_NEW(scratch, link->last, program->command_count + (size_t)1);
        memset(link->last, 0xff, (program->command_count + (size_t)1) * sizeof *link->last);
    }
    for (uint32_t i = segment->command_begin; i <= segment->command_end; i++) {
        for (uint32_t l = 0; l < program->mesh_count; l++)
            if (replay.links[l].last[i] != REMAT_NONE)
                wait(&replay, &replay.links[l], replay.links[l].last[i]);
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
