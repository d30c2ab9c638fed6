/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder.h"

#include "parts.h"
#include "progress.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static void add_hash(struct run_recorder *recorder, const remat_trace_value *value)
{
    if (value->role == REMAT_TENSOR_OUTPUT && strcmp(value->name, "loss") == 0)
        recorder->hashes.loss = XXH64(value->data, value->bytes, 0);
    if (value->role != REMAT_TENSOR_GRADIENT)
        return;
    uint64_t hash = XXH64(value->data, value->bytes, XXH64(value->name, strlen(value->name), 0));
    uint32_t tensor = remat_plan_find_tensor(recorder->plan, value->name);
    recorder->hashes.grad += hash;
    if (tensor == UINT32_MAX)
        return;
    recorder->hashes.grad -= recorder->earlier[tensor]; /* it accumulates: the last one counts */
    recorder->earlier[tensor] = hash;
}

/* Under the name of its parameter, which has its shape; of several ranks it is f32. One that is a
 * tensor of the plan is not complete yet, and there after the step. */
static remat_status save_gradient(struct run_recorder *recorder, const remat_trace_value *value)
{
    static const char suffix[] = ".grad";
    size_t length = strlen(value->name), end = sizeof suffix - 1;
    remat_tensor_info tensor = {.struct_size = sizeof tensor};
    if (remat_plan_find_tensor(recorder->plan, value->name) != UINT32_MAX)
        return REMAT_OK;
    if (length > end && strcmp(value->name + length - end, suffix) == 0)
        length -= end;
    remat_status st = REMAT_OK;
    char *name = strndup(value->name, length);
    if (!name)
        RUN_FAIL(recorder->ctx, REMAT_ERROR_MEMORY, "out of memory");
    if (!remat_plan_get_tensor(recorder->plan, remat_plan_find_tensor(recorder->plan, name),
                               &tensor) ||
        tensor.parts.count * tensor.bytes / element_bytes(tensor.element) !=
            value->bytes / element_bytes(value->element))
        RUN_FAIL(recorder->ctx, REMAT_ERROR_INVALID,
                 "gradient \"%s\": the plan has no parameter \"%s\" of its size", value->name,
                 name);
    tensor.element = value->element;
    tensor.bytes = value->bytes / tensor.parts.count;
    tensor = safetensors_whole(&tensor);
    RUN_TRY(safetensors_add(recorder->ctx, recorder->gradients, &tensor, value->data));
fail:
    free(name);
    return st;
}

/* The parts of all ranks, one after the other, into the whole. */
static void place_parts(const remat_trace_value *value, uint64_t size, const char *parts,
                        char *whole)
{
    uint64_t count = value->bytes / size;
    struct part_run run;
    for (uint32_t q = 0; q < value->parts.count; q++)
        for (uint64_t i = 0; i < count; i += run.count) {
            uint32_t rank = part_holder(value->parts, q);
            run = part_run_at(value->parts, rank, i, count, UINT64_MAX);
            memcpy(whole + run.whole * size, parts + rank * value->bytes + i * size,
                   run.count * size);
        }
}

/* A gradient of which each rank has a part, from all ranks. */
static remat_status join_parts(struct run_recorder *recorder, remat_trace_value *value)
{
    remat_status st = REMAT_OK;
    uint64_t bytes = value->bytes * value->parts.count;
    uint64_t given = value->bytes * recorder->peers.engine->ranks;
    char *whole = realloc(recorder->whole, bytes + given);
    if (!whole)
        RUN_FAIL(recorder->ctx, REMAT_ERROR_MEMORY, "out of memory");
    recorder->whole = whole;
    RUN_TRY(peers_gather(recorder->ctx, &recorder->peers, value->name, recorder->joined++,
                         value->bytes, value->data, whole + bytes));
    place_parts(value, element_bytes(value->element), whole + bytes, whole);
    value->data = whole;
    value->bytes = bytes;
fail:
    return st;
}

static bool looks_at_data(const struct run_recorder *recorder)
{
    return recorder->hashing || recorder->gradients || recorder->joining;
}

/* There is anything to do for the entry point that comes next. */
static bool is_needed(const struct run_recorder *recorder)
{
    return looks_at_data(recorder) || recorder->trace || recorder->profiler;
}

static remat_status record(struct run_recorder *recorder, const remat_trace_event *event)
{
    remat_status st = REMAT_OK;
    if (recorder->trace)
        chrome_trace_add(recorder->trace, recorder->begin_ns, event);
    if (recorder->profiler)
        profiler_add(recorder->profiler, event);
    for (uint32_t i = 0; i < event->value_count; i++) {
        remat_trace_value value = event->values[i];
        if (looks_at_data(recorder) && value.role == REMAT_TENSOR_GRADIENT && value.parts.count > 1)
            RUN_TRY(join_parts(recorder, &value));
        if (recorder->hashing)
            add_hash(recorder, &value);
        if (recorder->gradients && value.role == REMAT_TENSOR_GRADIENT)
            RUN_TRY(save_gradient(recorder, &value));
    }
fail:
    return st;
}

static int trace(void *user, const remat_trace_event *event)
{
    struct run_recorder *recorder = user;
    uint64_t begin = clock_ns();
    recorder->status = record(recorder, event);
    if (recorder->status != REMAT_OK)
        snprintf(recorder->message, sizeof recorder->message, "%s",
                 remat_context_message(recorder->ctx));
    recorder->spent_ns += clock_ns() - begin;
    return recorder->status != REMAT_OK;
}

remat_status recorder_open(remat_context *ctx, const remat_plan *plan, struct peers peers,
                           struct run_recorder *out)
{
    *out = (struct run_recorder){.ctx = ctx, .plan = plan, .peers = peers};
    out->earlier = calloc(remat_plan_tensor_count(plan) + 1, sizeof *out->earlier);
    return out->earlier ? REMAT_OK : cli_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
}

void recorder_release(struct run_recorder *recorder)
{
    free(recorder->earlier);
    free(recorder->whole);
    *recorder = (struct run_recorder){0};
}

remat_status recorder_run(struct run_recorder *recorder, remat_session *session, const char *entry)
{
    recorder->hashes = (struct step_hashes){0};
    memset(recorder->earlier, 0,
           remat_plan_tensor_count(recorder->plan) * sizeof *recorder->earlier);
    recorder->spent_ns = 0;
    recorder->status = REMAT_OK;
    remat_session_set_trace(session, is_needed(recorder) ? trace : NULL, recorder);
    remat_session_set_trace_data(session, looks_at_data(recorder));
    remat_status st = remat_session_run(session, entry);
    return recorder->status == REMAT_OK
               ? st
               : cli_error(recorder->ctx, recorder->status, "%s", recorder->message);
}
