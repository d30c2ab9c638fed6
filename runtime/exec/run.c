/* SPDX-License-Identifier: Apache-2.0 */
/* Running entry points. Untraced, a device may replay an entry point as one. Traced, commands are
 * executed one by one: where what they wrote is copied the host waits for each, and else, on a
 * device whose memory the host cannot address, they run back to back and the callbacks come at the
 * end. */
#include "session_state.h"

#include "flight.h"
#include "host.h"
#include "transfer.h"

#include <assert.h>
#include <inttypes.h>

struct entry_run {
    struct remat_session *session;
    const struct remat_entry *entry;
    bool traced, at_end;  /* callbacks come at the end */
    uint32_t slot, after; /* then: the last slot, and that of the end of the last command */
    uint32_t group;       /* and that of the begin of the last group of transfers */
    uint32_t number;      /* of the segment's run */
};

/* When a command ran, since the entry point began; stream as in remat_trace_event. */
struct trace_span {
    uint64_t start_ns, duration_ns;
    uint32_t stream;
};

/* --- what a command wrote, as a trace shows it --- */

/* From the first to the last element of the view. */
static uint64_t span_bytes(const struct remat_operand *o)
{
    uint64_t last = 0;
    for (uint32_t axis = 0; axis < o->rank; axis++)
        last += (uint64_t)(o->shape[axis] - 1) * (uint64_t)o->strides[axis];
    return (last + 1) * remat_dtype_bytes((remat_dtype)o->dtype);
}

/* All of a value whose rows do not lie next to each other. */
static bool has_pitch(const struct remat_program_value *value, const struct remat_operand *o)
{
    uint64_t bytes = remat_dtype_bytes((remat_dtype)o->dtype);
    for (uint32_t axis = 0; axis < o->rank; axis++)
        bytes *= (uint64_t)o->shape[axis];
    return o->rank && o->strides[o->rank - 1] == 1 && bytes == value->bytes &&
           span_bytes(o) > bytes;
}

/* 0 where a written value's data is not copied: not asked for, or in the arena as it should be. */
static uint64_t copied_bytes(const struct remat_session *session, const struct remat_operand *o)
{
    const struct remat_program_value *value = &session->program->values[o->value];
    if (!(session->trace_copies >> value->role & 1))
        return 0;
    if (has_pitch(value, o))
        return span_bytes(o);
    return session->device->memory ? 0 : value->bytes;
}

/* At most REMAT_OPERANDS_MAX times REMAT_BYTES_MAX. */
uint64_t remat_session_copied_bytes(const struct remat_session *session)
{
    const struct remat_program *program = session->program;
    uint64_t most = 0;
    for (uint32_t c = 0; c < program->command_count; c++) {
        uint64_t bytes = 0;
        for (uint32_t o = program->commands[c].operand_begin; o < program->commands[c].operand_end;
             o++)
            if (program->operands[o].access & REMAT_ACCESS_WRITE)
                bytes += copied_bytes(session, &program->operands[o]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* The rows of a view next to each other. `to` may be `from`. */
static void join_rows(const struct remat_operand *o, const char *from, char *to)
{
    uint32_t element = remat_dtype_bytes((remat_dtype)o->dtype), axes = o->rank - 1u;
    size_t row_bytes = (size_t)o->shape[axes] * element;
    int64_t index[REMAT_RANK_MAX] = {0};
    for (uint32_t axis = axes; axis != UINT32_MAX; to += row_bytes) {
        uint64_t at = 0;
        for (uint32_t k = 0; k < axes; k++)
            at += (uint64_t)(index[k] * o->strides[k]);
        memmove(to, from + at * element, row_bytes);
        for (axis = axes - 1; axis != UINT32_MAX && ++index[axis] == o->shape[axis]; axis--)
            index[axis] = 0;
    }
}

/* Of a value that was just written; NULL where its data is not wanted. */
static remat_status find_data(struct remat_session *session, const struct remat_operand *operand,
                              char **copy, const void **out)
{
    remat_status st = REMAT_OK;
    const struct remat_program_value *value = &session->program->values[operand->value];
    const struct remat_device *device = session->device;
    bool pitch = has_pitch(value, operand);
    uint64_t offset = session->program->buffers[value->buffer].offset_bytes;
    *out = NULL;
    if (device->memory && !pitch) {
        *out = device->memory + offset;
        return REMAT_OK;
    }
    uint64_t bytes = copied_bytes(session, operand);
    if (!bytes || !session->trace_data)
        return REMAT_OK;
    if (pitch)
        offset += operand->offset_elements * remat_dtype_bytes((remat_dtype)operand->dtype);
    if (!device->memory)
        REMAT_TRY(device->vtable->read(session->device, offset, *copy, bytes));
    if (pitch)
        join_rows(operand, device->memory ? device->memory + offset : *copy, *copy);
    *out = *copy;
    *copy += bytes;
fail:
    return st;
}

static remat_status list_written(struct remat_session *session, const struct remat_command *command,
                                 uint32_t *count)
{
    remat_status st = REMAT_OK;
    const struct remat_program *program = session->program;
    char *copy = session->trace_copy;
    for (uint32_t o = command->operand_begin; o < command->operand_end; o++) {
        if (!(program->operands[o].access & REMAT_ACCESS_WRITE))
            continue;
        const struct remat_program_value *value = &program->values[program->operands[o].value];
        remat_trace_value *out = &session->trace_values[(*count)++];
        *out = (remat_trace_value){
            .name = value->name,
            .role = (remat_tensor_role)value->role,
            .element = (remat_element)value->dtype,
            .instance = value->instance,
            .bytes = value->bytes,
            .parts = remat_parts_of(program, value),
        };
        REMAT_TRY(find_data(session, &program->operands[o], &copy, &out->data));
    }
fail:
    return st;
}

static remat_status trace(struct remat_session *session, uint32_t index, struct trace_span span)
{
    remat_status st = REMAT_OK;
    const struct remat_command *command = &session->program->commands[index];
    remat_trace_event event = {
        .struct_size = sizeof event,
        .command = index,
        .name = command->name,
        .scope = command->scope,
        .layer = command->layer,
        .phase = remat_phase_name(command->phase),
        .instance = command->instance,
        .kernel = session->program->kernels[command->kernel].key,
        .start_ns = span.start_ns,
        .duration_ns = span.duration_ns,
        .live_bytes = command->live_bytes,
        .flops = command->flops,
        .moved_bytes = command->moved_bytes,
        .predicted_ns = command->estimated_ns,
        .values = session->trace_values,
        .stream = span.stream,
    };
    REMAT_TRY(list_written(session, command, &event.value_count));
    if (session->trace(session->trace_user, &event))
        st = remat_error(session->ctx, REMAT_ERROR_OTHER,
                         "stopped by the trace callback at command \"%s\"", command->name);
fail:
    return st;
}

/* Of a command between two marks. */
static remat_status trace_marked(struct remat_session *session, uint32_t index, uint32_t from,
                                 uint32_t to, uint32_t stream)
{
    remat_status st = REMAT_OK;
    struct trace_span span = {.stream = stream};
    const struct remat_device_vtable *vtable = session->device->vtable;
    REMAT_TRY(vtable->elapsed(session->device, from, to, &span.duration_ns));
    REMAT_TRY(vtable->elapsed(session->device, 0, from, &span.start_ns));
    st = trace(session, index, span);
fail:
    return st;
}

/* With callbacks at the end: between which two a command, or a transfer's group, is marked. What
 * waits for a transfer has a mark of its own after it, anything else begins where the command
 * before it ended. */
static void take_slots(struct entry_run *run, uint32_t command, uint32_t *from, uint32_t *to)
{
    bool transfer = remat_session_transfers(run->session, command);
    bool waits = run->session->waits && run->session->waits[command];
    if (remat_flight_continues(run->session, command)) {
        *from = run->group;
        *to = run->group + 1;
        return;
    }
    *from = transfer || waits ? ++run->slot : run->after;
    *to = ++run->slot;
    run->after = transfer ? run->after : *to;
    run->group = transfer ? *from : run->group;
}

static bool copies_part(const struct remat_session *session, uint32_t command)
{
    const struct remat_program *program = session->program;
    const struct remat_command *c = &program->commands[command];
    for (uint32_t o = c->operand_begin; o < c->operand_end; o++) {
        const struct remat_program_value *value = &program->values[program->operands[o].value];
        if ((program->operands[o].access & REMAT_ACCESS_WRITE) && value->whole_rank &&
            session->trace_copies >> value->role & 1)
            return true;
    }
    return false;
}

/* Of a transfer, with its group so far: the callback is given this rank's part of something, and
 * may ask the engine for the others. */
static bool shows_part(const struct entry_run *run, uint32_t command)
{
    bool any = false;
    const struct remat_session *session = run->session;
    uint32_t begin = remat_group_begin(session->program, command);
    for (uint32_t c = begin; c <= command && run->traced && session->trace_data; c++)
        any |= copies_part(session, c);
    return any;
}

/* --- commands --- */

static remat_status trace_flight(struct remat_session *session, uint32_t link,
                                 const struct remat_flight *flight)
{
    struct trace_span span = {.stream = REMAT_STREAM_TRANSFERS + link};
    if (!session->device->memory)
        return trace_marked(session, flight->command, flight->slot, flight->slot + 1, span.stream);
    span.start_ns = flight->begin_ns - session->begin_ns;
    span.duration_ns = flight->end_ns - flight->begin_ns;
    return trace(session, flight->command, span);
}

/* Transfers that the next command needs. */
static remat_status complete(struct entry_run *run, uint32_t command)
{
    remat_status st = REMAT_OK;
    uint32_t first, count;
    for (uint32_t l = 0; l < run->session->link_count; l++) {
        struct remat_session_link *link = &run->session->links[l];
        REMAT_TRY(remat_flights_complete(link, command, &first, &count));
        for (uint32_t f = first; f < first + count && run->traced && !run->at_end; f++)
            REMAT_TRY(trace_flight(run->session, l, &link->flights[f]));
    }
fail:
    return st;
}

static remat_status start_transfer(struct entry_run *run, uint32_t command, bool *started)
{
    struct remat_session *session = run->session;
    uint32_t slot = 0, end;
    if (run->at_end)
        take_slots(run, command, &slot, &end);
    else if (run->traced && !session->device->memory)
        slot = REMAT_DEVICE_MARKS + 2 * session->links[0].end;
    return remat_flight_start(session, command, slot, started);
}

static remat_status compute(struct entry_run *run, uint32_t command)
{
    remat_status st = REMAT_OK;
    struct remat_session *session = run->session;
    const struct remat_device_vtable *vtable = session->device->vtable;
    uint32_t from = 1, to = 2, before = run->after;
    if (run->at_end)
        take_slots(run, command, &from, &to);
    if (run->traced && !(run->at_end && from == before))
        REMAT_TRY(vtable->mark(session->device, from));
    REMAT_TRY(vtable->execute(session->device, command));
    if (run->traced)
        REMAT_TRY(vtable->mark(session->device, to));
    if (shows_part(run, command))
        REMAT_TRY(complete(run, REMAT_NONE));
    if (run->traced && !run->at_end)
        REMAT_TRY(trace_marked(session, command, from, to, REMAT_STREAM_COMPUTATION));
fail:
    return st;
}

static remat_status run_command(struct entry_run *run, uint32_t command)
{
    remat_status st = REMAT_OK;
    struct remat_session *session = run->session;
    const struct remat_session_checks *checks = &session->checks;
    bool started = false;
    if (checks->before)
        checks->before(session, command);
    REMAT_TRY(remat_session_transfers(session, command) ? start_transfer(run, command, &started)
                                                        : compute(run, command));
    if (started && (checks->after || shows_part(run, command)))
        REMAT_TRY(complete(run, REMAT_NONE));
    if (checks->after)
        st = checks->after(session, command);
fail:
    return st;
}

static remat_status set_number(const struct entry_run *run, const struct remat_segment *segment)
{
    struct remat_device *device = run->session->device;
    const struct remat_program *p = run->session->program;
    if (!remat_program_reads_number(p, segment))
        return REMAT_OK;
    uint32_t buffer = p->values[p->tensors[p->number_tensor].value].buffer;
    uint64_t offset = p->buffers[buffer].offset_bytes;
    return device->vtable->set
               ? device->vtable->set(device, offset, run->number)
               : device->vtable->write(device, offset, &run->number, sizeof run->number);
}

static remat_status run_segment(struct entry_run *run, const struct remat_segment *segment)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(set_number(run, segment));
    for (uint32_t c = segment->command_begin; c <= segment->command_end; c++) {
        REMAT_TRY(complete(run, c));
        if (run->session->checks.free)
            run->session->checks.free(run->session, segment, c);
        if (c < segment->command_end)
            REMAT_TRY(run_command(run, c));
    }
fail:
    return st;
}

static remat_status trace_segment(struct entry_run *run, const struct remat_segment *segment)
{
    remat_status st = REMAT_OK;
    uint32_t from, to;
    for (uint32_t c = segment->command_begin; c < segment->command_end; c++) {
        take_slots(run, c, &from, &to);
        REMAT_TRY(trace_marked(run->session, c, from, to,
                               remat_session_transfers(run->session, c)
                                   ? REMAT_STREAM_TRANSFERS
                                   : REMAT_STREAM_COMPUTATION));
    }
fail:
    return st;
}

typedef remat_status visit(struct entry_run *run, const struct remat_segment *segment);

/* Every segment that the entry point runs, in order. */
static remat_status walk(struct entry_run *run, visit *each)
{
    remat_status st = REMAT_OK;
    const struct remat_program *program = run->session->program;
    run->slot = run->after = 0;
    for (uint32_t k = run->entry->call_begin; k < run->entry->call_end; k++)
        for (uint32_t t = 0; t < program->calls[k].times; t++) {
            run->number = program->calls[k].first + t;
            REMAT_TRY(each(run, &program->segments[program->calls[k].segment]));
        }
fail:
    return st;
}

static remat_status execute(struct entry_run *run)
{
    remat_status st = REMAT_OK;
    struct remat_session *session = run->session;
    const struct remat_device_vtable *vtable = session->device->vtable;
    uint32_t first, last;
    bool checked = session->checks.free || session->checks.before, done = false;
    if (vtable->replay && !run->traced && !checked)
        REMAT_TRY(vtable->replay(session->device, session->running, &done));
    if (run->traced) {
        REMAT_TRY(vtable->mark(session->device, 0));
        session->begin_ns = remat_now_ns();
    }
    if (done)
        session->begun += remat_entry_transfers(session->program, run->entry, &first, &last);
    else
        REMAT_TRY(walk(run, run_segment));
    if (run->at_end)
        REMAT_TRY(walk(run, trace_segment));
fail:
    return st;
}

/* Libraries load kernels when they first use them, and graphs take memory: what create could not
 * see. Memory that is the host's is in the host's budget. */
static remat_status check_budget(struct entry_run *run)
{
    struct remat_session *session = run->session;
    struct remat_device *device = session->device;
    uint8_t *runs = &session->runs[session->running].settled[run->traced];
    uint64_t budget_bytes = session->program->budget_bytes;
    if (*runs == SETTLED_RUNS || !budget_bytes || !device->vtable->in_use_bytes ||
        device->params.memory)
        return REMAT_OK;
    ++*runs;
    uint64_t in_use_bytes = device->vtable->in_use_bytes(device);
    if (in_use_bytes <= budget_bytes)
        return REMAT_OK;
    return remat_error(session->ctx, REMAT_ERROR_INFEASIBLE,
                       "%" PRIu64 " bytes of the GPU are in use after run %u of \"%s\", %" PRIu64
                       " of them the arena, the rest context, code, libraries, graphs and other "
                       "processes; the plan's budget is %" PRIu64
                       ": compile with a larger --reserve, or end what else runs there",
                       in_use_bytes, *runs, run->entry->name, session->program->arena_bytes,
                       budget_bytes);
}

/* With several ranks. The engine is told first, so that nobody waits for transfers that will not
 * be; but nothing is told it while a transfer uses it. */
static remat_status end_failed(struct remat_session *session, remat_status st)
{
    char message[REMAT_MESSAGE_BYTES];
    snprintf(message, sizeof message, "%s", remat_context_message(session->ctx));
    remat_flights_clear(session);
    remat_session_fail(session, st);
    (void)session->device->vtable->end(session->device);
    return remat_error(session->ctx, st, "%s", message);
}

static remat_status write_constants(remat_session *session)
{
    remat_status st = REMAT_OK;
    const struct remat_program *p = session->program;
    for (uint32_t t = 0; t < p->tensor_count && st == REMAT_OK; t++) {
        const struct remat_tensor *tensor = &p->tensors[t];
        const struct remat_buffer *buffer = &p->buffers[p->values[tensor->value].buffer];
        if (tensor->data)
            st = session->device->vtable->write(session->device, buffer->offset_bytes, tensor->data,
                                                tensor->data_bytes);
    }
    return st;
}

remat_status remat_session_run(remat_session *session, const char *entry_name)
{
    assert(session && entry_name);
    remat_status st = REMAT_OK;
    const struct remat_device_vtable *vtable = session->device->vtable;
    struct entry_run run = {session, remat_plan_find_entry(session->plan, entry_name),
                            .traced = session->trace != NULL};
    if (!run.entry)
        return remat_error(session->ctx, REMAT_ERROR_USAGE, "the plan has no entry point \"%s\"",
                           entry_name);
    run.at_end =
        run.traced && !session->device->memory && !(session->trace_data && session->trace_copy);
    bool init = strcmp(entry_name, "init") == 0;
    session->running = (uint32_t)(run.entry - session->program->entries);
    session->runs[session->running].count++;
    session->run_begun = session->begun;
    if (init) {
        REMAT_TRY(write_constants(session));
        REMAT_TRY(remat_session_write_coordinates(session));
    }
    REMAT_TRY(vtable->begin(session->device));
    st = execute(&run);
    if (st && session->engine.ranks) {
        st = end_failed(session, st);
    } else {
        remat_status ended = vtable->end(session->device);
        st = st ? st : ended;
    }
    if (!st && init)
        st = remat_session_write_coordinates(session);
    if (!st)
        st = check_budget(&run);
fail:
    if (st)
        remat_session_fail(session, st);
    return st;
}
