/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that move bytes between ranks: from the plan's words to the engine's. */
#include "transfer.h"

#include "host.h"

#include <inttypes.h>

#define TIMEOUT_NS UINT64_C(600000000000)

remat_status remat_session_set_engine(remat_session *session, const remat_session_params *params)
{
    const remat_engine *engine = params->engine;
    uint32_t ranks = remat_program_ranks(session->program);
    if (ranks == 1)
        return REMAT_OK;
    if (!engine)
        return remat_error(session->ctx, REMAT_ERROR_USAGE,
                           "the plan is for %" PRIu32 " ranks: a session of it needs an engine",
                           ranks);
    if (engine->struct_size < sizeof *engine || !engine->exchange || !engine->gather)
        return remat_error(session->ctx, REMAT_ERROR_USAGE,
                           "an engine of %zu bytes, expected %zu, with all functions but `fail`",
                           engine->struct_size, sizeof *engine);
    if (engine->ranks != ranks || engine->rank >= ranks)
        return remat_error(session->ctx, REMAT_ERROR_USAGE,
                           "the plan is for %" PRIu32 " ranks, the engine is of rank %" PRIu32
                           " of %" PRIu32,
                           ranks, engine->rank, engine->ranks);
    session->engine = *engine;
    session->ungrouped = params->ungrouped != 0;
    session->transfer_timeout_ns =
        params->transfer_timeout_ns ? params->transfer_timeout_ns : TIMEOUT_NS;
    return REMAT_OK;
}

/* Along an axis of the mesh. */
static uint32_t coordinate(const remat_session *session, uint32_t axis)
{
    return session->engine.rank / remat_rank_stride(session->program, axis) %
           session->program->mesh[axis].size;
}

remat_status remat_session_write_coordinates(remat_session *session)
{
    remat_status st = REMAT_OK;
    const struct remat_program *p = session->program;
    for (uint32_t axis = 0; axis < p->mesh_count && st == REMAT_OK; axis++) {
        const struct remat_program_value *value =
            &p->values[p->tensors[p->mesh[axis].tensor].value];
        int32_t number = (int32_t)coordinate(session, axis);
        st = session->device->vtable->write(session->device, p->buffers[value->buffer].offset_bytes,
                                            &number, sizeof number);
    }
    return st;
}

/* --- what a transfer takes and gives --- */

static uint64_t bytes_taken(const struct remat_transfer_shape *s)
{
    return s->kind == REMAT_KERNEL_exchange ? s->whole_bytes : s->part_bytes;
}

static uint64_t bytes_given(const struct remat_transfer_shape *s)
{
    return s->kind == REMAT_KERNEL_exchange ? s->ranks * s->part_bytes : s->whole_bytes;
}

static uint64_t offset_of(const struct remat_session *session, const struct remat_operand *o)
{
    const struct remat_program *p = session->program;
    return p->buffers[p->values[o->value].buffer].offset_bytes +
           o->offset_elements * remat_dtype_bytes((remat_dtype)o->dtype);
}

uint64_t remat_entry_transfers(const struct remat_program *program, const struct remat_entry *entry,
                               uint32_t *first, uint32_t *last)
{
    uint64_t count = 0;
    for (uint32_t k = entry->call_begin; k < entry->call_end; k++) {
        const struct remat_segment *segment = &program->segments[program->calls[k].segment];
        for (uint32_t c = segment->command_begin; c < segment->command_end; c++) {
            if (!program->commands[c].complete_before)
                continue;
            *first = count ? *first : c;
            *last = c;
            count += program->calls[k].times;
        }
    }
    return count;
}

/* --- waiting for a GPU --- */

/* What the GPU was given last. */
static void describe_last(const remat_session *session, char *out, size_t bytes)
{
    const struct remat_program *p = session->program;
    const struct remat_entry *entry = &p->entries[session->running];
    uint32_t first, last;
    uint64_t count;
    if (!session->device->in_graph) {
        remat_transfer_describe(&session->last, session->last_count, out, bytes);
    } else if ((count = remat_entry_transfers(p, entry, &first, &last))) {
        snprintf(out, bytes,
                 "with run %" PRIu64 " of \"%.32s\" as one graph, from transfer %" PRIu64
                 " \"%.100s\" to transfer %" PRIu64 " \"%.100s\"",
                 session->runs[session->running].count, entry->name, session->run_begun,
                 p->commands[first].name, session->run_begun + count - 1, p->commands[last].name);
    } else {
        snprintf(out, bytes, "with run %" PRIu64 " of \"%.32s\" as one graph",
                 session->runs[session->running].count, entry->name);
    }
}

static remat_status go_on(void *user, uint64_t waited_ns)
{
    remat_session *session = user;
    const remat_engine *engine = &session->engine;
    char message[REMAT_ENGINE_MESSAGE_BYTES] = "";
    remat_status st = engine->check ? engine->check(engine->user, message) : REMAT_OK;
    char where[384], host[REMAT_HOST_BYTES];
    if (st)
        return remat_error(session->ctx, st, "%s", *message ? message : "a transfer failed");
    if (waited_ns < session->transfer_timeout_ns)
        return REMAT_OK;
    remat_host_name(host);
    describe_last(session, where, sizeof where);
    return remat_error(session->ctx, REMAT_ERROR_RANK_LOST,
                       "rank %" PRIu32 " on %s waited %.3g s for its GPU, last %s: the GPU hangs, "
                       "or another rank does not come",
                       engine->rank, host, (double)session->transfer_timeout_ns / 1e9, where);
}

static remat_status allocate_staging(remat_session *session)
{
    struct remat_transfer_shape shape;
    uint64_t most = 0, bytes = 0;
    for (uint32_t c = 0; c < session->program->command_count; c++)
        if (remat_command_transfer(session->program, c, &shape)) {
            bytes = remat_flight_continues(session, c) ? bytes : 0;
            bytes += bytes_taken(&shape) + bytes_given(&shape);
            most = bytes > most ? bytes : most;
        }
    session->staging = remat_reallocate(session->ctx, NULL, most + 1);
    return session->staging ? REMAT_OK : REMAT_ERROR_MEMORY;
}

remat_status remat_session_join_engine(remat_session *session)
{
    const remat_engine *engine = &session->engine;
    if (!engine->ranks)
        return REMAT_OK;
    session->last.name = "";
    session->device->params.go_on = go_on;
    session->device->params.go_on_user = session;
    if (session->device->vtable->lend)
        return engine->on_device ? REMAT_OK : allocate_staging(session);
    if (engine->on_device)
        return remat_error(session->ctx, REMAT_ERROR_USAGE,
                           "engine \"%s\" moves memory of a GPU, and the session is on the %s",
                           engine->name, session->device->vtable->name);
    return REMAT_OK;
}

/* --- a group of transfers, from flight `first` on --- */

static struct remat_transfer_shape shape_of(const struct remat_session_link *link, uint32_t flight)
{
    struct remat_transfer_shape shape;
    remat_command_transfer(link->session->program, link->flights[flight].command, &shape);
    return shape;
}

static uint32_t end_of(const struct remat_session_link *link, uint32_t first)
{
    return first + link->flights[first].count;
}

/* The engine's part. */
static remat_status move(const struct remat_session_link *link, uint32_t first, char *message)
{
    const remat_engine *engine = &link->session->engine;
    bool exchange = shape_of(link, first).kind == REMAT_KERNEL_exchange;
    remat_status st = (exchange ? engine->exchange : engine->gather)(
        engine->user, &link->transfers[first], link->flights[first].count, message);
    if (st && !*message)
        snprintf(message, REMAT_ENGINE_MESSAGE_BYTES, "a transfer failed");
    return st;
}

/* After a part that is shorter than a row. */
static void clear_rests(const struct remat_transfer_shape *shape, uint32_t position, char *rows)
{
    uint64_t part = remat_transfer_part(shape, position);
    for (uint32_t q = 0; q < shape->ranks && shape->kind == REMAT_KERNEL_exchange; q++)
        memset(rows + q * shape->part_bytes + part, 0, shape->part_bytes - part);
}

static void note_times(const struct remat_session_link *link, uint32_t first, uint64_t begin_ns)
{
    uint64_t end_ns = remat_now_ns();
    for (uint32_t f = first; f < end_of(link, first); f++) {
        link->flights[f].begin_ns = begin_ns;
        link->flights[f].end_ns = end_ns;
    }
}

static remat_status move_on_host(const struct remat_session_link *link, uint32_t first,
                                 char *message)
{
    remat_session *session = link->session;
    uint64_t begin_ns = remat_now_ns();
    for (uint32_t f = first; f < end_of(link, first); f++) {
        struct remat_transfer_shape shape = shape_of(link, f);
        link->transfers[f].from = session->device->memory + offset_of(session, shape.from);
        link->transfers[f].to = session->device->memory + offset_of(session, shape.to);
    }
    remat_status st = move(link, first, message);
    for (uint32_t f = first; f < end_of(link, first) && !st; f++) {
        struct remat_transfer_shape shape = shape_of(link, f);
        clear_rests(&shape, link->transfers[f].position, link->transfers[f].to);
    }
    note_times(link, first, begin_ns);
    return st;
}

/* Gathers what a transfer sends, one part after the other. */
static remat_status read_parts(remat_session *session, const struct remat_transfer_shape *shape,
                               char *to)
{
    remat_status st = REMAT_OK;
    struct remat_device *device = session->device;
    uint64_t from = offset_of(session, shape->from);
    uint32_t apart = shape->stride_bytes == shape->part_bytes ? 1 : shape->ranks;
    uint64_t bytes = bytes_taken(shape) / apart;
    for (uint32_t q = 0; q < apart; q++)
        REMAT_TRY(
            device->vtable->read(device, from + q * shape->stride_bytes, to + q * bytes, bytes));
fail:
    return st;
}

/* From a GPU through the host's memory. */
static remat_status move_copies(const struct remat_session_link *link, uint32_t first,
                                char *message)
{
    remat_session *session = link->session;
    remat_status st = REMAT_OK;
    struct remat_device *device = session->device;
    uint32_t slot = link->flights[first].slot;
    char *at = session->staging;
    if (slot)
        REMAT_TRY(device->vtable->mark(device, slot));
    for (uint32_t f = first; f < end_of(link, first); f++) {
        struct remat_transfer_shape shape = shape_of(link, f);
        link->transfers[f].from = at;
        link->transfers[f].stride_bytes = 0;
        link->transfers[f].to = at + bytes_taken(&shape);
        REMAT_TRY(read_parts(session, &shape, at));
        at += bytes_taken(&shape) + bytes_given(&shape);
    }
    REMAT_TRY(move(link, first, message));
    for (uint32_t f = first; f < end_of(link, first); f++) {
        struct remat_transfer_shape shape = shape_of(link, f);
        char *to = link->transfers[f].to;
        clear_rests(&shape, link->transfers[f].position, to);
        REMAT_TRY(
            device->vtable->write(device, offset_of(session, shape.to), to, bytes_given(&shape)));
    }
    if (slot)
        REMAT_TRY(device->vtable->mark(device, slot + 1));
fail:
    return st;
}

static remat_status clear_rests_on_device(const struct remat_session_link *link, uint32_t flight)
{
    remat_status st = REMAT_OK;
    struct remat_device *device = link->session->device;
    struct remat_transfer_shape shape = shape_of(link, flight);
    uint64_t part = remat_transfer_part(&shape, link->transfers[flight].position);
    uint64_t rest = shape.part_bytes - part, to = offset_of(link->session, shape.to);
    for (uint32_t q = 0; q < shape.ranks && shape.kind == REMAT_KERNEL_exchange && rest; q++)
        REMAT_TRY(device->vtable->clear(device, to + q * shape.part_bytes + part, rest));
fail:
    return st;
}

static remat_status move_on_device(const struct remat_session_link *link, uint32_t first,
                                   char *message)
{
    remat_session *session = link->session;
    remat_status st = REMAT_OK;
    struct remat_device *device = session->device;
    uint32_t slot = link->flights[first].slot;
    uint64_t number;
    char *arena;
    void *stream;
    REMAT_TRY(device->vtable->lend(device, slot, &arena, &stream));
    for (uint32_t f = first; f < end_of(link, first); f++) {
        struct remat_transfer_shape shape = shape_of(link, f);
        link->transfers[f].on_device = 1;
        link->transfers[f].stream = stream;
        link->transfers[f].from = arena + offset_of(session, shape.from);
        link->transfers[f].to = arena + offset_of(session, shape.to);
    }
    REMAT_TRY(move(link, first, message));
    for (uint32_t f = first; f < end_of(link, first); f++)
        REMAT_TRY(clear_rests_on_device(link, f));
    REMAT_TRY(device->vtable->take_back(device, slot ? slot + 1 : 0, &number));
    for (uint32_t f = first; f < end_of(link, first); f++)
        link->flights[f].number = number;
fail:
    return st;
}

remat_status remat_session_move(const struct remat_session_link *link, uint32_t first,
                                char *message)
{
    return (link->session->engine.on_device ? move_on_device
            : link->session->staging        ? move_copies
                                            : move_on_host)(link, first, message);
}

void remat_session_describe(remat_session *session, uint32_t command, remat_transfer *out)
{
    struct remat_transfer_shape shape;
    remat_command_transfer(session->program, command, &shape);
    *out = (remat_transfer){
        .struct_size = sizeof *out,
        .name = session->program->commands[command].name,
        .sequence = session->begun++,
        .axis = session->program->mesh[shape.group].name,
        .group = shape.group,
        .size = shape.ranks,
        .position = coordinate(session, shape.group),
        .part_bytes = shape.part_bytes,
        .stride_bytes = shape.stride_bytes,
        .whole_bytes = shape.whole_bytes,
        .timeout_ns = session->transfer_timeout_ns,
        .rank_stride = remat_rank_stride(session->program, shape.group),
    };
}

bool remat_session_is_abandoned(const remat_session *session)
{
    char message[REMAT_ENGINE_MESSAGE_BYTES];
    const remat_engine *engine = &session->engine;
    return engine->on_device && engine->check && engine->check(engine->user, message) != REMAT_OK;
}

/* The engine keeps the first failure: its own, if it was that. */
void remat_session_fail(remat_session *session, remat_status status)
{
    if (session->engine.fail)
        session->engine.fail(session->engine.user, status, remat_context_message(session->ctx));
}
