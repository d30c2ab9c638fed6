/* Sessions: memory and threads for a plan, host access to tensors, entry points, trace. */
#include "session_state.h"

#include <inttypes.h>
#include <time.h>

#define BASE_BYTES (48u << 20) /* what the process needs beside arena and threads: code, files */

void remat_session_params_init(remat_session_params *params)
{
    *params = (remat_session_params){.struct_size = sizeof *params, .device = "cpu"};
}

static remat_status read_params(remat_context *ctx, const remat_session_params *params,
                                remat_session_params *out,
                                const struct remat_device_vtable **vtable)
{
    remat_session_params_init(out);
    if (params) {
        if (params->struct_size < sizeof *params)
            return remat_error(ctx, REMAT_ERROR_USAGE,
                               "session parameters of %zu bytes, expected %zu: call "
                               "remat_session_params_init first",
                               params->struct_size, sizeof *params);
        *out = *params;
    }
    *vtable = out->device ? remat_device_find(out->device) : NULL;
    if (!*vtable)
        return remat_error(ctx, REMAT_ERROR_USAGE, "unknown device \"%s\" (this library has: cpu)",
                           out->device ? out->device : "");
    return REMAT_OK;
}

/* --- threads and the reserve --- */

static bool fits(const struct remat_program *program, uint64_t thread_bytes, uint32_t threads)
{
    return program->budget_bytes == 0 ||
           BASE_BYTES + threads * thread_bytes <= program->reserve_bytes;
}

static remat_status refuse(remat_context *ctx, const struct remat_program *program,
                           uint64_t thread_bytes, uint32_t threads)
{
    return remat_error(ctx, REMAT_ERROR_INFEASIBLE,
                       "%u %s %" PRIu64 " bytes beside the arena, the plan reserves %" PRIu64
                       ": %scompile with a larger --reserve",
                       threads, threads == 1 ? "thread needs" : "threads need",
                       BASE_BYTES + threads * thread_bytes, program->reserve_bytes,
                       fits(program, thread_bytes, 1) ? "run with fewer --threads, or " : "");
}

/* The device, prepared, with the threads that were asked for or as many as fit. */
static remat_status make_device(remat_context *ctx, const struct remat_program *program,
                                const struct remat_device_vtable *vtable,
                                const remat_session_params *params, struct remat_device **out,
                                uint32_t *threads)
{
    remat_status st = REMAT_OK;
    struct remat_device_params device = {params->threads, params->seed};
    if (!device.threads)
        device.threads = vtable->default_threads();
    REMAT_TRY(vtable->create(ctx, program, &device, out));
    uint64_t thread_bytes = vtable->thread_bytes(*out);
    uint32_t fitting = device.threads;
    while (fitting > 1 && !fits(program, thread_bytes, fitting))
        fitting--;
    if (fitting != device.threads && !params->threads) {
        remat_log(ctx, REMAT_SEVERITY_INFO,
                  "%u threads instead of %u: more would not fit the plan's"
                  " reserve",
                  fitting, device.threads);
        vtable->destroy(out);
        device.threads = fitting;
        REMAT_TRY(vtable->create(ctx, program, &device, out));
    }
    if (!fits(program, thread_bytes, device.threads))
        REMAT_TRY(refuse(ctx, program, thread_bytes, device.threads));
    *threads = device.threads;
fail:
    return st;
}

remat_status remat_session_memory_bytes(remat_context *ctx, const remat_plan *plan,
                                        const remat_session_params *params, uint64_t *out)
{
    remat_status st = REMAT_OK;
    remat_session_params p;
    const struct remat_device_vtable *vtable;
    struct remat_device *device = NULL;
    uint32_t threads;
    *out = 0;
    REMAT_TRY(read_params(ctx, params, &p, &vtable));
    REMAT_TRY(make_device(ctx, plan->program, vtable, &p, &device, &threads));
    *out = vtable->memory_bytes(device);
fail:
    if (device)
        device->vtable->destroy(&device);
    return st;
}

/* --- life --- */

static remat_status allocate_trace(struct remat_session *session)
{
    uint32_t most = 1;
    for (uint32_t c = 0; c < session->program->command_count; c++) {
        const struct remat_command *command = &session->program->commands[c];
        if (command->operand_end - command->operand_begin > most)
            most = command->operand_end - command->operand_begin;
    }
    session->trace_values =
        remat_reallocate(session->ctx, NULL, most * sizeof *session->trace_values);
    return session->trace_values ? REMAT_OK : REMAT_ERROR_MEMORY;
}

static remat_status check_memory(remat_context *ctx, const remat_session_params *params,
                                 uint64_t needed)
{
    if (!params->memory)
        return REMAT_OK;
    if ((uintptr_t)params->memory % REMAT_ALIGNMENT)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "the session's memory is not aligned to %u bytes", REMAT_ALIGNMENT);
    if (params->memory_bytes < needed)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%" PRIu64 " bytes of memory for a session that needs %" PRIu64,
                           params->memory_bytes, needed);
    return REMAT_OK;
}

remat_status remat_session_create(remat_context *ctx, const remat_plan *plan,
                                  const remat_session_params *params, remat_session **out)
{
    remat_status st = REMAT_OK;
    remat_session_params p;
    const struct remat_device_vtable *vtable;
    struct remat_session *session = remat_reallocate(ctx, NULL, sizeof *session);
    *out = NULL;
    if (!session)
        return REMAT_ERROR_MEMORY;
    *session = (struct remat_session){.ctx = ctx, .plan = plan, .program = plan->program};
    REMAT_TRY(read_params(ctx, params, &p, &vtable));
    REMAT_TRY(make_device(ctx, plan->program, vtable, &p, &session->device, &session->threads));
    REMAT_TRY(check_memory(ctx, &p, vtable->memory_bytes(session->device)));
    REMAT_TRY(allocate_trace(session));
    REMAT_TRY(vtable->bind(session->device, p.memory));
    remat_session_set_trace(session, p.trace, p.trace_user);
    *out = session;
    return REMAT_OK;
fail:
    remat_session_destroy(&session);
    return st;
}

void remat_session_destroy(remat_session **session)
{
    struct remat_session *s = *session;
    if (!s)
        return;
    if (s->device)
        s->device->vtable->destroy(&s->device);
    remat_reallocate(s->ctx, s->trace_values, 0);
    remat_reallocate(s->ctx, s->shadow, 0);
    remat_reallocate(s->ctx, s->by_offset, 0);
    remat_reallocate(s->ctx, s, 0);
    *session = NULL;
}

uint32_t remat_session_threads(const remat_session *session)
{
    return session->threads;
}

void remat_session_set_trace(remat_session *session, remat_trace_function *trace, void *user)
{
    session->trace = trace;
    session->trace_user = user;
}

/* --- tensors --- */

/* The arena offset of bytes [begin, begin + bytes) of a tensor; `whole`: they must be all of it. */
static remat_status find_bytes(remat_session *session, const char *name, bool whole, uint64_t begin,
                               uint64_t bytes, uint64_t *offset)
{
    const struct remat_program *program = session->program;
    uint32_t index = remat_plan_find_tensor(session->plan, name);
    if (index == UINT32_MAX)
        return remat_error(session->ctx, REMAT_ERROR_USAGE, "the plan has no tensor \"%s\"", name);
    const struct remat_program_value *value = &program->values[program->tensors[index].value];
    if (whole && value->bytes != bytes)
        return remat_error(session->ctx, REMAT_ERROR_USAGE,
                           "tensor \"%s\" has %" PRIu64 " bytes, not %" PRIu64, name, value->bytes,
                           bytes);
    if (begin > value->bytes || bytes > value->bytes - begin)
        return remat_error(session->ctx, REMAT_ERROR_USAGE,
                           "tensor \"%s\" has %" PRIu64 " bytes: %" PRIu64 " from %" PRIu64
                           " are not among them",
                           name, value->bytes, bytes, begin);
    *offset = program->buffers[value->buffer].offset_bytes + begin;
    return REMAT_OK;
}

static remat_status write_bytes(remat_session *session, const char *tensor, bool whole,
                                uint64_t begin, const void *data, uint64_t bytes)
{
    uint64_t offset = 0;
    remat_status st = find_bytes(session, tensor, whole, begin, bytes, &offset);
    if (st == REMAT_OK)
        session->device->vtable->write(session->device, offset, data, bytes);
    return st;
}

static remat_status read_bytes(remat_session *session, const char *tensor, bool whole,
                               uint64_t begin, void *data, uint64_t bytes)
{
    uint64_t offset = 0;
    remat_status st = find_bytes(session, tensor, whole, begin, bytes, &offset);
    if (st == REMAT_OK)
        session->device->vtable->read(session->device, offset, data, bytes);
    return st;
}

remat_status remat_session_write(remat_session *session, const char *tensor, const void *data,
                                 uint64_t bytes)
{
    return write_bytes(session, tensor, true, 0, data, bytes);
}

remat_status remat_session_read(remat_session *session, const char *tensor, void *data,
                                uint64_t bytes)
{
    return read_bytes(session, tensor, true, 0, data, bytes);
}

remat_status remat_session_write_part(remat_session *session, const char *tensor, uint64_t begin,
                                      const void *data, uint64_t bytes)
{
    return write_bytes(session, tensor, false, begin, data, bytes);
}

remat_status remat_session_read_part(remat_session *session, const char *tensor, uint64_t begin,
                                     void *data, uint64_t bytes)
{
    return read_bytes(session, tensor, false, begin, data, bytes);
}

/* --- running --- */

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint32_t list_written(struct remat_session *session, const struct remat_command *command)
{
    const struct remat_program *program = session->program;
    uint32_t count = 0;
    for (uint32_t o = command->operand_begin; o < command->operand_end; o++) {
        if (!(program->operands[o].access & REMAT_ACCESS_WRITE))
            continue;
        const struct remat_program_value *value = &program->values[program->operands[o].value];
        session->trace_values[count++] = (remat_trace_value){
            .name = value->name,
            .role = (remat_tensor_role)value->role,
            .element = (remat_element)value->dtype,
            .instance = value->instance,
            .data = session->device->memory + program->buffers[value->buffer].offset_bytes,
            .bytes = value->bytes,
        };
    }
    return count;
}

static remat_status trace(struct remat_session *session, uint32_t index, uint64_t start_ns,
                          uint64_t duration_ns)
{
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
        .start_ns = start_ns,
        .duration_ns = duration_ns,
        .live_bytes = command->live_bytes,
        .flops = command->flops,
        .moved_bytes = command->moved_bytes,
        .predicted_ns = command->estimated_ns,
        .value_count = list_written(session, command),
        .values = session->trace_values,
    };
    if (session->trace(session->trace_user, &event))
        return remat_error(session->ctx, REMAT_ERROR_OTHER,
                           "stopped by the trace callback at command \"%s\"", command->name);
    return REMAT_OK;
}

static remat_status run_command(struct remat_session *session, const struct remat_segment *segment,
                                uint32_t command, uint64_t began_ns)
{
    remat_status st = REMAT_OK;
    bool checked = session->poison || session->shadow;
    if (checked)
        remat_session_before(session, command);
    uint64_t start = session->trace ? now_ns() : 0;
    REMAT_TRY(session->device->vtable->execute(session->device, command));
    if (session->trace)
        REMAT_TRY(trace(session, command, start - began_ns, now_ns() - start));
    if (checked)
        REMAT_TRY(remat_session_after(session, segment, command));
fail:
    return st;
}

static remat_status run_segment(struct remat_session *session, const struct remat_segment *segment,
                                uint64_t began_ns)
{
    remat_status st = REMAT_OK;
    for (uint32_t c = segment->command_begin; c < segment->command_end && st == REMAT_OK; c++)
        st = run_command(session, segment, c, began_ns);
    return st;
}

remat_status remat_session_run(remat_session *session, const char *entry_name)
{
    remat_status st = REMAT_OK;
    const struct remat_entry *entry = remat_plan_find_entry(session->plan, entry_name);
    if (!entry)
        return remat_error(session->ctx, REMAT_ERROR_USAGE, "the plan has no entry point \"%s\"",
                           entry_name);
    uint64_t began = session->trace ? now_ns() : 0;
    session->device->vtable->begin(session->device);
    for (uint32_t k = entry->call_begin; k < entry->call_end && st == REMAT_OK; k++) {
        const struct remat_call *call = &session->program->calls[k];
        for (uint32_t t = 0; t < call->times && st == REMAT_OK; t++)
            st = run_segment(session, &session->program->segments[call->segment], began);
    }
    session->device->vtable->end(session->device);
    return st;
}
