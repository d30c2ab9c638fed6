/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: memory and threads for a plan, host access to tensors, entry points, trace. */
#include "flight.h"
#include "session_state.h"
#include "transfer.h"

#include <assert.h>
#include <inttypes.h>

void remat_session_params_init(remat_session_params *params)
{
    *params = (remat_session_params){
        .struct_size = sizeof *params, .device = "cpu", .stream = REMAT_STREAM_OWN};
}

static remat_status read_params(remat_context *ctx, const remat_session_params *params,
                                remat_session_params *out)
{
    remat_session_params_init(out);
    if (params) {
        size_t bytes = params->struct_size < sizeof *out ? params->struct_size : sizeof *out;
        if (bytes < offsetof(remat_session_params, engine)) /* as of version 3 */
            return remat_error(ctx, REMAT_ERROR_USAGE,
                               "session parameters of %zu bytes, expected %zu: call "
                               "remat_session_params_init first",
                               params->struct_size, sizeof *params);
        memcpy(out, params, bytes);
    }
    return REMAT_OK;
}

static struct remat_device_params device_params(const remat_session_params *params)
{
    return (struct remat_device_params){
        .threads = params->threads,
        .seed = params->seed,
        .libraries = params->cuda_libraries,
        .gemm_table = params->gemm_table,
        .cubin_cache = params->cubin_cache,
        .has_stream = params->stream != REMAT_STREAM_OWN,
        .stream = params->stream,
        .memory = params->memory,
        .graphs_of_ranks = params->cuda_graph_ranks && params->engine && params->engine->on_device,
        .ordinal = params->ordinal};
}

/* By name; without one a GPU where there is one, but a plan with a budget for a CPU stays there. */
static remat_status choose_device(remat_context *ctx, const struct remat_program *program,
                                  const remat_session_params *params,
                                  const struct remat_device_vtable **out)
{
    struct remat_device_params device = device_params(params);
    bool for_gpu = program->target_arch && *program->target_arch;
    bool bound = program->budget_bytes && !for_gpu;
    *out = remat_device_find(params->device ? params->device : "cuda");
    if (!*out)
        return remat_error(ctx, REMAT_ERROR_USAGE, "unknown device \"%s\" (accepted: cuda, cpu)",
                           params->device);
    if (!params->device && (bound || (*out)->present(ctx, &device) != REMAT_OK))
        *out = remat_device_find("cpu");
    return REMAT_OK;
}

/* --- threads and the reserve --- */

static uint64_t beside_bytes(const struct remat_device *device, uint32_t threads)
{
    return device->vtable->base_bytes(device) + threads * device->vtable->thread_bytes(device);
}

static bool fits(const struct remat_program *program, const struct remat_device *device,
                 uint32_t threads)
{
    return program->budget_bytes == 0 || beside_bytes(device, threads) <= program->reserve_bytes;
}

static remat_status refuse(remat_context *ctx, const struct remat_program *program,
                           const struct remat_device *device, uint32_t threads)
{
    if (device->vtable->in_use_bytes)
        return remat_error(ctx, REMAT_ERROR_INFEASIBLE,
                           "%" PRIu64
                           " bytes of the GPU are in use beside the arena (context, code, "
                           "libraries, other processes), the plan reserves %" PRIu64
                           ": compile with a larger --reserve, or end what else runs there",
                           beside_bytes(device, threads), program->reserve_bytes);
    return remat_error(ctx, REMAT_ERROR_INFEASIBLE,
                       "%u %s %" PRIu64 " bytes beside the arena, the plan reserves %" PRIu64
                       ": %scompile with a larger --reserve",
                       threads, threads == 1 ? "thread needs" : "threads need",
                       beside_bytes(device, threads), program->reserve_bytes,
                       fits(program, device, 1) ? "run with fewer --threads, or " : "");
}

/* The device, prepared, with the threads that were asked for or as many as fit. */
static remat_status prepare_device(remat_context *ctx, const struct remat_program *program,
                                   const remat_session_params *params,
                                   const struct remat_device_vtable *vtable,
                                   struct remat_device **out, uint32_t *threads)
{
    remat_status st = REMAT_OK;
    struct remat_device_params device = device_params(params);
    if (!device.threads)
        device.threads = vtable->default_threads();
    REMAT_TRY(vtable->create(ctx, program, &device, out));
    uint32_t fitting = device.threads;
    while (fitting > 1 && !fits(program, *out, fitting))
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
    if (!fits(program, *out, device.threads))
        REMAT_TRY(refuse(ctx, program, *out, device.threads));
    *threads = device.threads;
fail:
    return st;
}

/* A GPU that nobody asked for and that lacks a library, or code in the plan, gives way to the CPU.
 */
static remat_status make_device(remat_context *ctx, const struct remat_program *program,
                                const remat_session_params *params, struct remat_device **out,
                                uint32_t *threads)
{
    remat_status st = REMAT_OK;
    const struct remat_device_vtable *vtable, *cpu = remat_device_find("cpu");
    bool is_free = !params->device && !params->memory && params->stream == REMAT_STREAM_OWN;
    REMAT_TRY(choose_device(ctx, program, params, &vtable));
    st = prepare_device(ctx, program, params, vtable, out, threads);
    if (is_free && vtable != cpu && (st == REMAT_ERROR_IO || st == REMAT_ERROR_INVALID)) {
        remat_log(ctx, REMAT_SEVERITY_INFO, "the GPU is not used: %s", remat_context_message(ctx));
        st = prepare_device(ctx, program, params, cpu, out, threads);
    }
fail:
    return st;
}

uint32_t remat_gpu_count(remat_context *ctx, const char *cuda_libraries)
{
    struct remat_device_params params = {.libraries = cuda_libraries};
    while (remat_device_find("cuda")->present(ctx, &params) == REMAT_OK)
        params.ordinal++;
    return params.ordinal;
}

remat_status remat_session_memory_bytes(remat_context *ctx, const remat_plan *plan,
                                        const remat_session_params *params, uint64_t *out)
{
    remat_status st = REMAT_OK;
    remat_session_params p;
    struct remat_device *device = NULL;
    uint32_t threads;
    *out = 0;
    REMAT_TRY(read_params(ctx, params, &p));
    REMAT_TRY(make_device(ctx, plan->program, &p, &device, &threads));
    *out = device->memory_bytes;
fail:
    if (device)
        device->vtable->destroy(&device);
    return st;
}

/* --- life --- */

static remat_status allocate_runs(struct remat_session *session)
{
    size_t bytes = (session->program->entry_count + 1) * sizeof *session->runs;
    session->runs = remat_reallocate(session->ctx, NULL, bytes);
    if (!session->runs)
        return REMAT_ERROR_MEMORY;
    memset(session->runs, 0, bytes);
    return REMAT_OK;
}

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
    uint64_t copied_bytes = remat_session_copied_bytes(session);
    if (copied_bytes)
        session->trace_copy = remat_reallocate(session->ctx, NULL, copied_bytes);
    return session->trace_values && (!copied_bytes || session->trace_copy) ? REMAT_OK
                                                                           : REMAT_ERROR_MEMORY;
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

static remat_status check_runs(remat_context *ctx, const struct remat_program *program)
{
    if (!program->plan_only || !*program->plan_only)
        return REMAT_OK;
    return remat_error(
        ctx, REMAT_ERROR_PLAN_ONLY,
        "this plan of \"%.200s\" only shows memory and time: it leaves out a part of "
        "its model, %.400s",
        program->graph_name, program->plan_only);
}

remat_status remat_session_create(remat_context *ctx, const remat_plan *plan,
                                  const remat_session_params *params, remat_session **out)
{
    assert(ctx && plan && params && out);
    remat_status st = REMAT_OK;
    remat_session_params p;
    struct remat_session *session = remat_reallocate(ctx, NULL, sizeof *session);
    *out = NULL;
    if (!session)
        return REMAT_ERROR_MEMORY;
    *session = (struct remat_session){
        .ctx = ctx, .plan = plan, .program = plan->program, .trace_data = true};
    REMAT_TRY(check_runs(ctx, plan->program));
    REMAT_TRY(read_params(ctx, params, &p));
    session->trace_copies = p.trace_copies;
    REMAT_TRY(remat_session_set_engine(session, &p));
    REMAT_TRY(make_device(ctx, plan->program, &p, &session->device, &session->threads));
    REMAT_TRY(remat_session_join_engine(session));
    REMAT_TRY(remat_flights_create(session));
    REMAT_TRY(check_memory(ctx, &p, session->device->memory_bytes));
    REMAT_TRY(allocate_runs(session));
    REMAT_TRY(session->device->vtable->bind(session->device, p.memory));
    REMAT_TRY(allocate_trace(session));
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
    remat_flights_destroy(s);
    if (s->device) {
        s->device->abandoned = remat_session_is_abandoned(s);
        s->device->vtable->destroy(&s->device);
    }
    remat_reallocate(s->ctx, s->runs, 0);
    remat_reallocate(s->ctx, s->trace_values, 0);
    remat_reallocate(s->ctx, s->trace_copy, 0);
    remat_reallocate(s->ctx, s->staging, 0);
    if (s->checks.destroy)
        s->checks.destroy(s);
    remat_reallocate(s->ctx, s, 0);
    *session = NULL;
}

uint32_t remat_session_threads(const remat_session *session)
{
    return session->threads;
}

const char *remat_session_device(const remat_session *session)
{
    return session->device->vtable->name;
}

const char *remat_session_device_name(const remat_session *session)
{
    return session->device->name;
}

const char *remat_session_device_arch(const remat_session *session)
{
    return session->device->arch;
}

uint64_t remat_session_device_bytes(const remat_session *session)
{
    const struct remat_device_vtable *vtable = session->device->vtable;
    return vtable->in_use_bytes ? vtable->in_use_bytes(session->device) : 0;
}

void remat_session_set_trace_data(remat_session *session, int wanted)
{
    session->trace_data = wanted != 0;
}

void remat_session_set_trace(remat_session *session, remat_trace_function *trace, void *user)
{
    session->trace = trace;
    session->trace_user = user;
}

/* --- tensors --- */

/* The arena offset of bytes [begin, begin + bytes) of a tensor; `whole`: they must be all of it. */
static remat_status find_bytes(remat_session *session, const char *name, bool whole, uint64_t begin,
                               uint64_t bytes, const struct remat_tensor **tensor, uint64_t *offset)
{
    const struct remat_program *program = session->program;
    uint32_t index = remat_plan_find_tensor(session->plan, name);
    if (index == UINT32_MAX)
        return remat_error(session->ctx, REMAT_ERROR_USAGE, "the plan has no tensor \"%s\"", name);
    *tensor = &program->tensors[index];
    const struct remat_program_value *value = &program->values[(*tensor)->value];
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

/* Of a tensor of indices. */
static remat_status check_indices(remat_context *ctx, const struct remat_tensor *tensor,
                                  uint64_t begin, const void *data, uint64_t bytes)
{
    int32_t element;
    if (begin % sizeof element || bytes % sizeof element)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "tensor \"%s\": %" PRIu64 " bytes from %" PRIu64
                           " are no whole elements",
                           tensor->name, bytes, begin);
    for (uint64_t at = 0; at < bytes; at += sizeof element) {
        char ignored[32] = "";
        memcpy(&element, (const char *)data + at, sizeof element);
        if ((element >= 0 && (uint32_t)element < tensor->index_bound) ||
            element == tensor->index_ignored)
            continue;
        if (tensor->index_ignored < 0 || (uint32_t)tensor->index_ignored >= tensor->index_bound)
            snprintf(ignored, sizeof ignored, " and %" PRId32, tensor->index_ignored);
        return remat_error(
            ctx, REMAT_ERROR_INVALID,
            "tensor \"%s\": element %" PRIu64 " is %" PRId32 ", accepted: 0 to %" PRIu32 "%s",
            tensor->name, (begin + at) / sizeof element, element, tensor->index_bound - 1, ignored);
    }
    return REMAT_OK;
}

static remat_status write_bytes(remat_session *session, const char *tensor, bool whole,
                                uint64_t begin, const void *data, uint64_t bytes)
{
    remat_status st = REMAT_OK;
    const struct remat_tensor *found;
    uint64_t offset;
    REMAT_TRY(find_bytes(session, tensor, whole, begin, bytes, &found, &offset));
    if (found->data)
        REMAT_FAIL(session->ctx, REMAT_ERROR_USAGE, "tensor \"%s\" is a constant of the plan",
                   tensor);
    if (found->index_bound)
        REMAT_TRY(check_indices(session->ctx, found, begin, data, bytes));
    if (bytes) /* else `data` may be NULL */
        st = session->device->vtable->write(session->device, offset, data, bytes);
fail:
    return st;
}

static remat_status read_bytes(remat_session *session, const char *tensor, bool whole,
                               uint64_t begin, void *data, uint64_t bytes)
{
    const struct remat_tensor *found;
    uint64_t offset;
    remat_status st = find_bytes(session, tensor, whole, begin, bytes, &found, &offset);
    return st || !bytes ? st : session->device->vtable->read(session->device, offset, data, bytes);
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
