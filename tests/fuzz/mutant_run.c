/* SPDX-License-Identifier: Apache-2.0 */
#include "mutant_run.h"

#include "borrowed_plan.h"
#include "check.h"
#include "session_testing.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROOM        (UINT64_C(48) << 20) /* for arena and scratch */
#define GUARD_EVERY 16

static char *room; /* ROOM bytes between pages without access */

void mutant_run_prepare(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), far = (size_t)1 << 20;
    room = mmap(NULL, ROOM + 2 * far, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(room != MAP_FAILED && ROOM % page == 0 &&
         mprotect(room + far, ROOM, PROT_READ | PROT_WRITE) == 0);
    room += far;
}

static uint64_t work_of(const struct remat_program *p, const struct remat_command *c)
{
    uint64_t most = 1, work = 1;
    for (uint32_t d = 0; d < c->rank; d++)
        most *= (uint64_t)c->space[d];
    for (uint32_t o = c->operand_begin; o < c->operand_end; o++) {
        uint64_t elements = 1;
        for (uint32_t d = 0; d < p->operands[o].rank; d++)
            elements *= (uint64_t)p->operands[o].shape[d];
        most = elements > most ? elements : most;
        work += elements;
    }
    /* a product of matrices: each of its three sides against another */
    return p->kernels[c->kernel].kind == REMAT_KERNEL_fused || most > WIDE_WORK_MAX
               ? most
               : work + 8 * most;
}

bool mutant_run_is_short(const struct mutant *m)
{
    const struct remat_program *p = m->program;
    uint64_t work = 0;
    if (p->arena_bytes > ROOM / 4)
        return false;
    for (uint32_t e = 0; e < p->entry_count; e++)
        for (uint32_t k = p->entries[e].call_begin; k < p->entries[e].call_end; k++) {
            const struct remat_segment *s = &p->segments[p->calls[k].segment];
            if (p->calls[k].times > 100)
                return false;
            for (uint32_t c = s->command_begin; c < s->command_end; c++)
                work += p->calls[k].times * work_of(p, &p->commands[c]);
            if (work > m->work_max)
                return false;
        }
    return true;
}

/* Past what a session checks: ids that no table has, too. */
static void write_inputs(struct mutant *m, char *arena)
{
    const struct remat_program *p = m->program;
    bool good = mutant_below(m, 8) != 0;
    for (uint32_t t = 0; t < p->tensor_count; t++) {
        const struct remat_program_value *v = &p->values[p->tensors[t].value];
        char *at = arena + p->buffers[v->buffer].offset_bytes;
        if (v->role != REMAT_ROLE_INPUT)
            continue;
        for (uint64_t i = 0; i + 4 <= v->bytes; i += 4) {
            int32_t id = good ? 1 + (int32_t)mutant_below(m, 5) : (int32_t)random_u64(&m->random);
            float real = (float)id * 0.01f;
            memcpy(at + i, v->dtype == REMAT_I32 ? (void *)&id : (void *)&real, 4);
        }
    }
}

static uint64_t part_length(const remat_transfer *t, uint32_t position)
{
    uint64_t begin = position * t->part_bytes, end = begin + t->part_bytes;
    end = end < t->whole_bytes ? end : t->whole_bytes;
    return end > begin ? end - begin : 0;
}

/* As if all ranks had what this one has. */
static remat_status echo_exchange(void *user, const remat_transfer *t, uint32_t count,
                                  char *message)
{
    (void)user, (void)message;
    for (const remat_transfer *end = t + count; t < end; t++) {
        const char *part = (const char *)t->from + t->position * t->part_bytes;
        for (uint32_t q = 0; q < t->size && part_length(t, t->position); q++)
            memcpy((char *)t->to + q * t->part_bytes, part, part_length(t, t->position));
    }
    return REMAT_OK;
}

static remat_status echo_gather(void *user, const remat_transfer *t, uint32_t count, char *message)
{
    (void)user, (void)message;
    for (const remat_transfer *end = t + count; t < end; t++)
        for (uint32_t q = 0; q < t->size && part_length(t, q); q++)
            memcpy((char *)t->to + q * t->part_bytes, t->from, part_length(t, q));
    return REMAT_OK;
}

/* --- as its streams say, and one command after the other --- */

/* Transfers take their time now and then: computation goes on, and links overtake each other. */
static remat_status late_exchange(void *user, const remat_transfer *t, uint32_t count,
                                  char *message)
{
    if (t->sequence % 3 == 0)
        usleep(50);
    return echo_exchange(user, t, count, message);
}

static remat_status late_gather(void *user, const remat_transfer *t, uint32_t count, char *message)
{
    if (t->sequence % 3 == 0)
        usleep(50);
    return echo_gather(user, t, count, message);
}

/* Runs every entry point; *hash: of what is persistent then. */
static remat_status run_all(remat_context *ctx, struct mutant *m, struct remat_program *program,
                            uint64_t *hash)
{
    remat_status st = REMAT_OK;
    struct remat_plan plan = borrowed_plan(program);
    uint32_t ranks = remat_program_ranks(program);
    const remat_engine engine = {.struct_size = sizeof engine,
                                 .ranks = ranks,
                                 .exchange = late_exchange,
                                 .gather = late_gather,
                                 .concurrent = 1};
    remat_session_params params;
    remat_session *session = NULL;
    remat_session_params_init(&params);
    params.threads = 1;
    params.engine = &engine;
    params.memory = room;
    params.memory_bytes = ROOM;
    st = remat_session_create(ctx, &plan, &params, &session);
    if (st == REMAT_OK)
        memset(room, 0, program->arena_bytes);
    for (uint32_t e = 0; st == REMAT_OK && e < program->entry_count; e++) {
        write_inputs(m, room);
        st = remat_session_run(session, program->entries[e].name);
    }
    remat_session_destroy(&session);
    *hash =
        st ? (uint64_t)st : remat_hash(room, program->static_bytes - program->workspace_bytes, 0);
    return st;
}

void mutant_run_streams(remat_context *ctx, struct mutant *m, struct tally *tally)
{
    const struct remat_program *p = m->program;
    struct remat_program blocking = *p;
    uint64_t random = m->random.state, expected, hash;
    blocking.commands = malloc(p->command_count * sizeof *blocking.commands);
    MUST(blocking.commands);
    for (uint32_t c = 0; c < p->command_count; c++) {
        blocking.commands[c] = p->commands[c];
        blocking.commands[c].complete_before = p->commands[c].complete_before ? c + 1 : 0;
        blocking.commands[c].continues_group = false;
        blocking.commands[c].waits_for = 0;
    }
    remat_status st = run_all(ctx, m, &blocking, &expected);
    m->random.state = random;
    (void)run_all(ctx, m, m->program, &hash);
    CHECK(hash == expected, "streams have other bits than one command after the other: %s",
          remat_context_message(ctx));
    tally->run++;
    tally->failed += st != REMAT_OK;
    free(blocking.commands);
}

void mutant_run(remat_context *ctx, struct mutant *m, struct tally *tally)
{
    struct remat_plan plan = borrowed_plan(m->program);
    remat_session_params params;
    remat_session *session = NULL;
    remat_session_params_init(&params);
    params.threads = mutant_below(m, 64) ? 1 : 2;
    bool guarded = mutant_below(m, GUARD_EVERY) == 0, at_end = mutant_below(m, 2);
    uint32_t ranks = remat_program_ranks(m->program);
    const remat_engine engine = {.struct_size = sizeof engine,
                                 .rank = (uint32_t)mutant_below(m, ranks),
                                 .ranks = ranks,
                                 .exchange = echo_exchange,
                                 .gather = echo_gather};
    params.engine = &engine;
    remat_status st = REMAT_OK;
    params.memory = room;
    params.memory_bytes = ROOM;
    if (at_end) {
        st = remat_session_memory_bytes(ctx, &plan, &params, &params.memory_bytes);
        params.memory = room + ROOM - params.memory_bytes;
    }
    if (st == REMAT_OK && params.memory_bytes <= ROOM)
        st = remat_session_create(ctx, &plan, &params, &session);
    if (st == REMAT_OK && session && guarded)
        st = remat_session_guard(session);
    if (st != REMAT_OK) { /* what a device does not have */
        tally->refused++;
        CHECK(st == REMAT_ERROR_INVALID || st == REMAT_ERROR_INFEASIBLE, "%d %s", (int)st,
              remat_context_message(ctx));
    }
    for (uint32_t e = 0; session && st == REMAT_OK && e < m->program->entry_count; e++) {
        write_inputs(m, params.memory);
        st = remat_session_run(session, m->program->entries[e].name);
        tally->failed += st != REMAT_OK;
        CHECK(st == REMAT_OK || st == REMAT_ERROR_INVALID, "%d %s", (int)st,
              remat_context_message(ctx));
    }
    tally->run += session != NULL;
    tally->wide += session != NULL && m->work_max == WIDE_WORK_MAX;
    remat_session_destroy(&session);
}
