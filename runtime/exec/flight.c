/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers in flight. Groups are made one after the other, in the order in which they are started:
 * on a CPU by a thread, unless all of the plan are blocking; on a GPU by an engine for its memory,
 * which only enqueues them. Else, and if it is blocking, each is made when it is started, which is
 * always early enough. */
#include "flight.h"

#include "transfer.h"

#include <assert.h>

/* The most transfers of a segment. */
static uint32_t most_flights(const struct remat_session *session)
{
    const struct remat_program *p = session->program;
    uint32_t most = 0;
    for (uint32_t s = 0; s < p->segment_count; s++) {
        uint32_t count = 0;
        for (uint32_t c = p->segments[s].command_begin; c < p->segments[s].command_end; c++)
            count += remat_session_transfers(session, c);
        most = count > most ? count : most;
    }
    return most;
}

static bool any_beside(const struct remat_session *session)
{
    const struct remat_program *p = session->program;
    bool any = false;
    for (uint32_t c = 0; c < p->command_count; c++)
        any |= p->commands[c].complete_before &&
               p->commands[c].complete_before > remat_group_end(p, c);
    return any;
}

static remat_status fly(void *user, uint32_t first, char message[REMAT_ENGINE_MESSAGE_BYTES])
{
    return remat_session_move(user, first, message);
}

remat_status remat_flights_create(remat_session *session)
{
    remat_context *ctx = session->ctx;
    const struct remat_program *p = session->program;
    uint32_t most = most_flights(session);
    size_t waits_bytes = ((size_t)p->command_count + 1) * sizeof *session->waits;
    if (!session->engine.ranks || !most)
        return REMAT_OK;
    session->flights = remat_reallocate(ctx, NULL, most * sizeof *session->flights);
    session->transfers = remat_reallocate(ctx, NULL, most * sizeof *session->transfers);
    session->waits = remat_reallocate(ctx, NULL, waits_bytes);
    if (!session->flights || !session->transfers || !session->waits)
        return REMAT_ERROR_MEMORY;
    memset(session->waits, 0, waits_bytes);
    for (uint32_t c = 0; c < p->command_count; c++)
        session->waits[p->commands[c].complete_before] |= remat_session_transfers(session, c);
    if (session->device->vtable->lend || !any_beside(session))
        return REMAT_OK;
    return remat_stream_create(ctx, fly, session, most, &session->stream);
}

void remat_flights_destroy(remat_session *session)
{
    remat_stream_destroy(&session->stream);
    remat_reallocate(session->ctx, session->flights, 0);
    remat_reallocate(session->ctx, session->transfers, 0);
    remat_reallocate(session->ctx, session->waits, 0);
}

static remat_status report(const remat_session *session, remat_status st, const char *message)
{
    return st && *message ? remat_error(session->ctx, st, "%s", message) : st;
}

static uint32_t add_flight(remat_session *session, uint32_t command, uint32_t slot)
{
    uint32_t flight = session->flight_end++, first = flight;
    if (remat_flight_continues(session, command)) {
        first = session->flights[flight - 1].first;
        slot = session->flights[first].slot;
    }
    session->flights[flight] =
        (struct remat_flight){.command = command, .first = first, .slot = slot};
    session->flights[first].count++;
    remat_session_describe(session, command, &session->transfers[flight]);
    return first;
}

remat_status remat_flight_start(remat_session *session, uint32_t command, uint32_t slot,
                                bool *started)
{
    assert(remat_session_transfers(session, command));
    char message[REMAT_ENGINE_MESSAGE_BYTES] = "";
    if (!session->engine.ranks)
        return remat_error(session->ctx, REMAT_ERROR_INVALID, "command \"%s\": no engine",
                           session->program->commands[command].name);
    uint32_t first = add_flight(session, command, slot);
    *started = session->ungrouped || remat_group_end(session->program, command) == command + 1;
    if (!*started)
        return REMAT_OK;
    session->last = session->transfers[first];
    session->last_count = session->flights[first].count;
    if (!session->stream)
        return report(session, fly(session, first, message), message);
    remat_stream_start(session->stream, first);
    return REMAT_OK;
}

remat_status remat_flights_complete(remat_session *session, uint32_t command, uint32_t *first,
                                    uint32_t *count)
{
    remat_status st = REMAT_OK;
    char message[REMAT_ENGINE_MESSAGE_BYTES] = "";
    const struct remat_command *commands = session->program->commands;
    uint32_t end = session->flight_end, groups = 0;
    while (end > session->flight_begin &&
           commands[session->flights[end - 1].command].complete_before > command)
        end--;
    *first = session->flight_begin;
    *count = end - *first;
    if (!*count)
        return REMAT_OK;
    for (uint32_t f = *first; f < end; f++)
        groups += session->flights[f].count > 0;
    session->flight_begin = end;
    if (end == session->flight_end)
        session->flight_begin = session->flight_end = 0;
    if (session->stream)
        st = remat_stream_wait(session->stream, groups, message);
    else if (session->engine.on_device)
        st = session->device->vtable->await(session->device, session->flights[end - 1].number);
    return report(session, st, message);
}

void remat_flights_clear(remat_session *session)
{
    if (session->stream)
        remat_stream_clear(session->stream);
    session->flight_begin = session->flight_end = 0;
}
