/* SPDX-License-Identifier: Apache-2.0 */
/* Transfers in flight. Groups of a link are made one after the other, in the order in which they
 * are started: on a CPU by a thread, unless all of the plan are blocking; on a GPU by an engine for
 * its memory, which only enqueues them. Else, and if it is blocking, each is made when it is
 * started, which is always early enough. */
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
    struct remat_session_link *link = user;
    const struct remat_flight *flight = &link->flights[first];
    if (!flight->after || remat_stream_reach(flight->after, flight->tasks))
        return remat_session_move(link, first, message);
    snprintf(message, REMAT_ENGINE_MESSAGE_BYTES, "a transfer failed");
    return REMAT_ERROR_OTHER;
}

static remat_status create_link(remat_session *session, struct remat_session_link *link,
                                uint32_t most)
{
    link->session = session;
    link->flights = remat_reallocate(session->ctx, NULL, most * sizeof *link->flights);
    link->transfers = remat_reallocate(session->ctx, NULL, most * sizeof *link->transfers);
    return link->flights && link->transfers ? REMAT_OK : REMAT_ERROR_MEMORY;
}

/* An engine that takes calls along all axes at once has a thread for each. */
static remat_status create_threads(remat_session *session, uint32_t most)
{
    remat_status st = REMAT_OK;
    size_t bytes = (size_t)session->program->command_count * sizeof *session->tasks;
    session->tasks = remat_reallocate(session->ctx, NULL, bytes);
    if (!session->tasks)
        return REMAT_ERROR_MEMORY;
    for (uint32_t l = 0; l < session->link_count && !st; l++)
        st = remat_stream_create(session->ctx, fly, &session->links[l], most,
                                 &session->links[l].stream);
    return st;
}

remat_status remat_flights_create(remat_session *session)
{
    remat_status st = REMAT_OK;
    remat_context *ctx = session->ctx;
    const struct remat_program *p = session->program;
    uint32_t most = most_flights(session);
    size_t waits_bytes = ((size_t)p->command_count + 1) * sizeof *session->waits;
    if (!session->engine.ranks || !most)
        return REMAT_OK;
    bool threads = !session->device->vtable->lend && any_beside(session);
    session->link_count = threads && session->engine.concurrent ? p->mesh_count : 1;
    for (uint32_t l = 0; l < session->link_count; l++)
        REMAT_TRY(create_link(session, &session->links[l], most));
    session->waits = remat_reallocate(ctx, NULL, waits_bytes);
    if (!session->waits)
        return REMAT_ERROR_MEMORY;
    memset(session->waits, 0, waits_bytes);
    for (uint32_t c = 0; c < p->command_count; c++)
        session->waits[p->commands[c].complete_before] |= remat_session_transfers(session, c);
    if (threads)
        st = create_threads(session, most);
fail:
    return st;
}

void remat_flights_destroy(remat_session *session)
{
    for (uint32_t l = 0; l < session->link_count; l++) {
        remat_stream_destroy(&session->links[l].stream);
        remat_reallocate(session->ctx, session->links[l].flights, 0);
        remat_reallocate(session->ctx, session->links[l].transfers, 0);
    }
    remat_reallocate(session->ctx, session->tasks, 0);
    remat_reallocate(session->ctx, session->waits, 0);
}

static struct remat_session_link *link_of(remat_session *session, uint32_t command)
{
    bool one = session->link_count == 1;
    return &session->links[one ? 0 : remat_command_link(session->program, command)];
}

static remat_status report(const remat_session *session, remat_status st, const char *message)
{
    return st && *message ? remat_error(session->ctx, st, "%s", message) : st;
}

static uint32_t add_flight(struct remat_session_link *link, uint32_t command, uint32_t slot)
{
    remat_session *session = link->session;
    uint32_t flight = link->end++, first = flight;
    uint32_t waits_for = session->program->commands[command].waits_for;
    if (remat_flight_continues(session, command)) {
        first = link->flights[flight - 1].first;
        slot = link->flights[first].slot;
    }
    link->flights[flight] = (struct remat_flight){.command = command, .first = first, .slot = slot};
    link->flights[first].count++;
    if (waits_for && session->link_count > 1) {
        link->flights[first].after = link_of(session, waits_for - 1)->stream;
        link->flights[first].tasks = session->tasks[waits_for - 1];
    }
    remat_session_describe(session, command, &link->transfers[flight]);
    return first;
}

static void start_task(struct remat_session_link *link, uint32_t first)
{
    uint64_t tasks = remat_stream_start(link->stream, first);
    for (uint32_t f = first; f < link->end; f++)
        link->session->tasks[link->flights[f].command] = tasks;
}

remat_status remat_flight_start(remat_session *session, uint32_t command, uint32_t slot,
                                bool *started)
{
    assert(remat_session_transfers(session, command));
    char message[REMAT_ENGINE_MESSAGE_BYTES] = "";
    if (!session->engine.ranks)
        return remat_error(session->ctx, REMAT_ERROR_INVALID, "command \"%s\": no engine",
                           session->program->commands[command].name);
    struct remat_session_link *link = link_of(session, command);
    uint32_t first = add_flight(link, command, slot);
    *started = session->ungrouped || remat_group_end(session->program, command) == command + 1;
    if (!*started)
        return REMAT_OK;
    session->last = link->transfers[first];
    session->last_count = link->flights[first].count;
    if (!link->stream)
        return report(session, fly(link, first, message), message);
    start_task(link, first);
    return REMAT_OK;
}

remat_status remat_flights_complete(struct remat_session_link *link, uint32_t command,
                                    uint32_t *first, uint32_t *count)
{
    remat_status st = REMAT_OK;
    char message[REMAT_ENGINE_MESSAGE_BYTES] = "";
    remat_session *session = link->session;
    const struct remat_command *commands = session->program->commands;
    uint32_t end = link->end, groups = 0;
    while (end > link->begin && commands[link->flights[end - 1].command].complete_before > command)
        end--;
    *first = link->begin;
    *count = end - *first;
    if (!*count)
        return REMAT_OK;
    for (uint32_t f = *first; f < end; f++)
        groups += link->flights[f].count > 0;
    link->begin = end;
    if (end == link->end)
        link->begin = link->end = 0;
    if (link->stream)
        st = remat_stream_wait(link->stream, groups, message);
    else if (session->engine.on_device)
        st = session->device->vtable->await(session->device, link->flights[end - 1].number);
    return report(session, st, message);
}

void remat_flights_clear(remat_session *session)
{
    for (uint32_t l = 0; l < session->link_count; l++) /* tasks may wait for other links' */
        if (session->links[l].stream)
            remat_stream_drop(session->links[l].stream);
    for (uint32_t l = 0; l < session->link_count; l++) {
        if (session->links[l].stream)
            remat_stream_clear(session->links[l].stream);
        session->links[l].begin = session->links[l].end = 0;
    }
}
