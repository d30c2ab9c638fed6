/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that move bytes between ranks: from the plan's words to the engine's. */
#include "session_state.h"

#include <inttypes.h>
#include <stdio.h>

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
    session->transfer_timeout_ns =
        params->transfer_timeout_ns ? params->transfer_timeout_ns : TIMEOUT_NS;
    return REMAT_OK;
}

/* Along an axis of the mesh, whose last one has the nearest neighbours. */
static uint32_t coordinate(const remat_session *session, uint32_t axis)
{
    uint32_t rank = session->engine.rank;
    for (uint32_t k = session->program->mesh_count; k-- > axis + 1;)
        rank /= session->program->mesh[k].size;
    return rank % session->program->mesh[axis].size;
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

static char *address_of(const remat_session *session, const struct remat_operand *o)
{
    const struct remat_program *p = session->program;
    return session->device->memory + p->buffers[p->values[o->value].buffer].offset_bytes +
           o->offset_elements * remat_dtype_bytes((remat_dtype)o->dtype);
}

/* Behind a part that is shorter than a row. */
static void clear_rests(const struct remat_transfer_shape *shape, uint32_t position, char *rows)
{
    uint64_t part = remat_transfer_part(shape, position);
    for (uint32_t q = 0; q < shape->ranks; q++)
        memset(rows + q * shape->part_bytes + part, 0, shape->part_bytes - part);
}

remat_status remat_session_transfer(remat_session *session, uint32_t index, bool *done)
{
    struct remat_transfer_shape shape;
    char message[REMAT_ENGINE_MESSAGE_BYTES] = "";
    const remat_engine *engine = &session->engine;
    *done = remat_command_transfer(session->program, index, &shape);
    if (!*done)
        return REMAT_OK;
    if (!engine->exchange || !session->device->memory)
        return remat_error(session->ctx, REMAT_ERROR_INVALID,
                           "command \"%s\": no engine moves what is on this device",
                           session->program->commands[index].name);
    bool exchange = shape.kind == REMAT_KERNEL_exchange;
    const remat_transfer transfer = {
        .struct_size = sizeof transfer,
        .name = session->program->commands[index].name,
        .sequence = session->transfers++,
        .group = shape.group,
        .size = shape.ranks,
        .position = coordinate(session, shape.group),
        .part_bytes = shape.part_bytes,
        .whole_bytes = shape.whole_bytes,
        .from = address_of(session, shape.from),
        .to = address_of(session, shape.to),
        .timeout_ns = session->transfer_timeout_ns,
    };
    remat_status st =
        (exchange ? engine->exchange : engine->gather)(engine->user, &transfer, message);
    if (st)
        return remat_error(session->ctx, st, "%s", *message ? message : "a transfer failed");
    if (exchange)
        clear_rests(&shape, transfer.position, transfer.to);
    return REMAT_OK;
}

/* The engine keeps the first failure: its own, if it was that. */
void remat_session_fail(remat_session *session)
{
    if (session->engine.fail)
        session->engine.fail(session->engine.user, remat_context_message(session->ctx));
}
