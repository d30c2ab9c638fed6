/* SPDX-License-Identifier: Apache-2.0 */
/* Execution: commands become launches on one stream. An entry point's first untraced run goes
 * launch by launch, the second is captured, and from then on its graph is launched: all that
 * changes from step to step lies in device memory, and numbers of runs are the graph's constants.
 * Captures are the session's own stream's, which blocks no other, whatever the host's is. A plan of
 * several ranks is captured only where the host says so, as between its launches engines move
 * bytes: their stream joins the capture with the first transfer, and waits of the host there are
 * none. The host waits for the GPU by looking, and never enqueues so much after a transfer that the
 * driver itself would wait. */
#include "cuda_run.h"

#include "host.h"

#include <assert.h>

#define PACE_COMMANDS            128 /* drivers queue about a thousand launches, and commands have some */
#define TRY(cuda, function, ...) CUDA_TRY((cuda)->base.ctx, &(cuda)->driver, function, __VA_ARGS__)

static remat_status check_stream(const struct cuda_device *cuda)
{
    remat_status st = REMAT_OK;
    int state = 0, result = cuda->driver.cuStreamIsCapturing(cuda->base.params.stream, &state);
    if (result == CUDA_STREAM_CAPTURE_IMPLICIT)
        REMAT_FAIL(cuda->base.ctx, REMAT_ERROR_USAGE,
                   "the session's stream is the legacy one, and while a blocking stream is being "
                   "captured CUDA allows no work there: end the capture before, or capture a "
                   "stream made with CU_STREAM_NON_BLOCKING");
    REMAT_TRY(cuda_check(cuda->base.ctx, &cuda->driver, result, "cuStreamIsCapturing"));
    if (state)
        REMAT_FAIL(cuda->base.ctx, REMAT_ERROR_USAGE,
                   "the session's stream is being captured, and a session captures graphs of its "
                   "own: end the capture before");
fail:
    return st;
}

/* `waiting` does nothing more until what `stream` has now is done. */
static remat_status order(const struct cuda_device *cuda, void *stream, void *event, void *waiting)
{
    remat_status st = REMAT_OK;
    TRY(cuda, cuEventRecord, event, stream);
    TRY(cuda, cuStreamWaitEvent, waiting, event, 0);
fail:
    return st;
}

remat_status cuda_enter(struct cuda_device *cuda)
{
    remat_status st = REMAT_OK;
    TRY(cuda, cuCtxPushCurrent_v2, cuda->context);
    if (cuda->base.params.has_stream)
        st = check_stream(cuda);
    if (!st && cuda->host_reached)
        st = order(cuda, CUDA_STREAM_LEGACY, cuda->host_reached, cuda->stream);
    if (st)
        cuda_leave(cuda);
fail:
    return st;
}

void cuda_leave(struct cuda_device *cuda)
{
    void *context;
    cuda->driver.cuCtxPopCurrent_v2(&context);
}

/* --- waiting for the GPU --- */

/* Until `query` says that the stream or event is done. */
static remat_status poll(struct cuda_device *cuda, int (*query)(void *), void *handle,
                         const char *what)
{
    const struct remat_device_params *params = &cuda->base.params;
    struct remat_wait wait = {0};
    int result;
    remat_status st = REMAT_OK;
    while ((result = query(handle)) == CUDA_NOT_READY && !st) {
        remat_wait_pause(&wait);
        st = params->go_on(params->go_on_user, wait.waited_ns);
    }
    cuda->stuck |= st != REMAT_OK;
    return st ? st : cuda_check(cuda->base.ctx, &cuda->driver, result, what);
}

remat_status cuda_wait(struct cuda_device *cuda, const char *what)
{
    if (cuda->base.params.go_on)
        return poll(cuda, cuda->driver.cuStreamQuery, cuda->stream, what);
    return cuda_check(cuda->base.ctx, &cuda->driver, cuda->driver.cuStreamSynchronize(cuda->stream),
                      what);
}

remat_status cuda_wait_for_all(struct cuda_device *cuda)
{
    remat_status st = cuda_wait(cuda, "the GPU stopped");
    if (!st && cuda->lent)
        st = poll(cuda, cuda->driver.cuStreamQuery, cuda->transfer_stream, "the GPU stopped");
    return st;
}

static remat_status wait_for_event(struct cuda_device *cuda, void *event, const char *what)
{
    if (cuda->base.params.go_on)
        return poll(cuda, cuda->driver.cuEventQuery, event, what);
    return cuda_check(cuda->base.ctx, &cuda->driver, cuda->driver.cuEventSynchronize(event), what);
}

/* Waits for the pace before this one. */
static remat_status pace(struct cuda_device *cuda)
{
    remat_status st = REMAT_OK;
    for (size_t i = 0; i < 2 && !cuda->paces[i]; i++)
        TRY(cuda, cuEventCreate, &cuda->paces[i], CUDA_EVENT_DISABLE_TIMING);
    REMAT_TRY(wait_for_event(cuda, cuda->paces[cuda->pace], "the GPU stopped"));
    cuda->pace = !cuda->pace;
    cuda->unpaced = 0;
    TRY(cuda, cuEventRecord, cuda->paces[cuda->pace], cuda->stream);
fail:
    return st;
}

/* --- transfers --- */

static remat_status mark_on(struct cuda_device *cuda, uint32_t slot, void *stream)
{
    remat_status st = REMAT_OK;
    while (cuda->events.count <= slot) {
        void *event;
        TRY(cuda, cuEventCreate, &event, CUDA_EVENT_DEFAULT);
        REMAT_TRY_PUSH(&cuda->base.arena, &cuda->events, event);
    }
    TRY(cuda, cuEventRecord, cuda->events.items[slot], stream);
fail:
    return st;
}

static void *stream_of_commands(const struct cuda_device *cuda)
{
    return cuda->capturing ? cuda->own_stream : cuda->stream;
}

/* That is recorded after the transfer of that number. Events of a capture say nothing outside it,
 * so it has its own. */
static void *event_of(const struct cuda_device *cuda, uint64_t number)
{
    if (!cuda->capturing)
        return cuda->transferred[number % 2];
    return cuda->captured.items[cuda->captured_begin + (number - cuda->captured_first)];
}

static remat_status add_captured_event(struct cuda_device *cuda)
{
    remat_status st = REMAT_OK;
    void *event;
    TRY(cuda, cuEventCreate, &event, CUDA_EVENT_DISABLE_TIMING);
    REMAT_TRY_PUSH(&cuda->base.arena, &cuda->captured, event);
fail:
    return st;
}

/* For the transfer before the last, whose event the next one takes over. */
remat_status cuda_lend(struct remat_device *device, uint32_t slot, char **arena, void **stream)
{
    remat_status st = REMAT_OK;
    struct cuda_device *cuda = (struct cuda_device *)device;
    *arena = (char *)(uintptr_t)cuda->address;
    *stream = cuda->transfer_stream;
    if (cuda->capturing)
        REMAT_TRY(add_captured_event(cuda));
    void *event = event_of(cuda, cuda->lent);
    if (!cuda->capturing && cuda->lent >= 2)
        REMAT_TRY(wait_for_event(cuda, event, "the GPU stopped"));
    REMAT_TRY(order(cuda, stream_of_commands(cuda), event, cuda->transfer_stream));
    if (slot)
        st = mark_on(cuda, slot, cuda->transfer_stream);
fail:
    return st;
}

remat_status cuda_take_back(struct remat_device *device, uint32_t slot, uint64_t *number)
{
    remat_status st = REMAT_OK;
    struct cuda_device *cuda = (struct cuda_device *)device;
    if (slot)
        REMAT_TRY(mark_on(cuda, slot, cuda->transfer_stream));
    TRY(cuda, cuEventRecord, event_of(cuda, cuda->lent), cuda->transfer_stream);
    *number = cuda->lent++;
fail:
    return st;
}

/* Outside captures all but the last two are done. */
remat_status cuda_await(struct remat_device *device, uint64_t number)
{
    remat_status st = REMAT_OK;
    struct cuda_device *cuda = (struct cuda_device *)device;
    if (cuda->capturing || cuda->lent - number <= 2)
        TRY(cuda, cuStreamWaitEvent, stream_of_commands(cuda), event_of(cuda, number), 0);
fail:
    return st;
}

/* --- entry points --- */

remat_status cuda_begin(struct remat_device *device)
{
    struct cuda_device *cuda = (struct cuda_device *)device;
    cuda->warming = cuda->capturing = NULL;
    cuda->failed = cuda->grouped = false;
    cuda->base.in_graph = false;
    return cuda_enter(cuda);
}

static void push_range(const struct cuda_device *cuda, const char *name)
{
    if (cuda->nvtx.library)
        cuda->nvtx.nvtxRangePushA(name);
}

static void pop_range(const struct cuda_device *cuda)
{
    if (cuda->nvtx.library)
        cuda->nvtx.nvtxRangePop();
}

static remat_status launch_graph(struct cuda_device *cuda, const struct cuda_entry *entry)
{
    cuda->base.in_graph = true;
    push_range(cuda, cuda->base.program->entries[entry - cuda->entries].name);
    remat_status st =
        cuda_check(cuda->base.ctx, &cuda->driver,
                   cuda->driver.cuGraphLaunch(entry->graph, cuda->stream), "cuGraphLaunch");
    pop_range(cuda);
    return st;
}

remat_status cuda_replay(struct remat_device *device, uint32_t index, bool *done)
{
    remat_status st = REMAT_OK;
    struct cuda_device *cuda = (struct cuda_device *)device;
    struct cuda_entry *entry = &cuda->entries[index];
    *done = entry->graph != NULL;
    cuda->grouped = true;
    if (remat_program_ranks(device->program) > 1 && !device->params.graphs_of_ranks)
        return REMAT_OK;
    if (entry->graph) {
        if (device->params.go_on)
            REMAT_TRY(pace(cuda));
        REMAT_TRY(launch_graph(cuda, entry));
    } else if (entry->warm) {
        TRY(cuda, cuStreamBeginCapture_v2, cuda->own_stream, CUDA_STREAM_CAPTURE_MODE_THREAD_LOCAL);
        cuda->capturing = entry;
        cuda->captured_first = cuda->lent;
        cuda->captured_begin = cuda->captured.count;
    } else {
        cuda->warming = entry;
    }
fail:
    return st;
}

static uint64_t word_of(const struct cuda_device *cuda, const struct remat_cuda_word *word)
{
    switch (word->kind) {
    case REMAT_CUDA_ARENA:
        return cuda->address + word->value;
    case REMAT_CUDA_WORKSPACE:
        return cuda->workspace + word->value;
    case REMAT_CUDA_SEED:
        return cuda->base.params.seed;
    default:
        return word->value;
    }
}

static remat_status launch(struct cuda_device *cuda, uint32_t index, uint32_t blocks,
                           const struct remat_cuda_word *words, uint32_t count)
{
    const struct remat_cuda_kernel *kernel = &cuda->base.program->cuda.kernels[index];
    uint64_t values[REMAT_CUDA_TENSORS_MAX] = {0}; /* of which the kernel has 64 or all */
    void *arguments[] = {values};
    for (uint32_t w = 0; w < count; w++)
        values[w] = word_of(cuda, &words[w]);
    return cuda_check(cuda->base.ctx, &cuda->driver,
                      cuda->driver.cuLaunchKernel(cuda->functions.functions[index], blocks, 1, 1,
                                                  kernel->threads, 1, 1, kernel->shared_bytes,
                                                  stream_of_commands(cuda), arguments, NULL),
                      kernel->key);
}

static remat_status launch_group(struct cuda_device *cuda, uint32_t group)
{
    struct remat_cuda_joint joint;
    remat_cuda_groups_join(&cuda->base.program->cuda, &cuda->groups, group, &joint);
    return launch(cuda, joint.kernel, joint.blocks, joint.words, joint.word_count);
}

static remat_status launch_command(struct cuda_device *cuda, uint32_t index)
{
    const struct remat_cuda_code *code = &cuda->base.program->cuda;
    remat_status st = REMAT_OK;
    for (uint32_t i = code->launch_begin[index]; i < code->launch_begin[index + 1] && !st; i++) {
        const struct remat_cuda_launch *l = &code->launches[i];
        st = launch(cuda, l->kernel, l->blocks, &code->words[l->word_begin],
                    l->word_end - l->word_begin);
    }
    return st;
}

remat_status cuda_execute(struct remat_device *device, uint32_t index)
{
    assert(index < device->program->command_count);
    remat_status st = REMAT_OK;
    struct cuda_device *cuda = (struct cuda_device *)device;
    const struct remat_command *command = &cuda->base.program->commands[index];
    const struct remat_cuda_groups *groups = &cuda->groups;
    uint32_t kind = cuda->base.program->kernels[command->kernel].kind;
    uint32_t group = cuda->grouped ? groups->group[index] : REMAT_NONE;
    if (group != REMAT_NONE && groups->commands[groups->begin[group + 1] - 1] != index)
        return REMAT_OK; /* its launch is the last command's */
    if (cuda->base.params.go_on && !cuda->capturing && ++cuda->unpaced >= PACE_COMMANDS)
        REMAT_TRY(pace(cuda));
    push_range(cuda, command->name);
    if (remat_kernel_row(kind)->dispatch == REMAT_DISPATCH_GEMM)
        st = cuda_gemms_run(cuda->gemms, index, cuda->address, cuda->workspace,
                            stream_of_commands(cuda));
    else if (group != REMAT_NONE)
        st = launch_group(cuda, group);
    else
        st = launch_command(cuda, index);
    pop_range(cuda);
fail:
    cuda->failed |= st != REMAT_OK;
    return st;
}

remat_status cuda_set(struct remat_device *device, uint64_t offset, uint32_t number)
{
    assert(offset + sizeof number <= device->program->arena_bytes);
    struct cuda_device *cuda = (struct cuda_device *)device;
    remat_status st = cuda_check(
        device->ctx, &cuda->driver,
        cuda->driver.cuMemsetD32Async(cuda->address + offset, number, 1, stream_of_commands(cuda)),
        "cuMemsetD32Async");
    cuda->failed |= st != REMAT_OK;
    return st;
}

/* A command that failed has said why; the capture it was in is lost. */
static remat_status end_capture(struct cuda_device *cuda)
{
    remat_status st = REMAT_OK;
    void *graph = NULL, *made = NULL;
    int result = cuda->driver.cuStreamEndCapture(cuda->own_stream, &graph);
    if (cuda->failed)
        goto fail;
    REMAT_TRY(cuda_check(cuda->base.ctx, &cuda->driver, result, "cuStreamEndCapture"));
    TRY(cuda, cuGraphInstantiateWithFlags, &made, graph, 0);
    cuda->capturing->graph = made;
    REMAT_TRY(launch_graph(cuda, cuda->capturing));
fail:
    if (graph)
        cuda->driver.cuGraphDestroy(graph);
    return st;
}

remat_status cuda_end(struct remat_device *device)
{
    struct cuda_device *cuda = (struct cuda_device *)device;
    remat_status st = cuda->capturing ? end_capture(cuda) : REMAT_OK;
    if (!st && !cuda->stuck && !cuda->base.params.has_stream)
        st = cuda_wait_for_all(cuda);
    if (!st && cuda->is_legacy)
        st = order(cuda, cuda->stream, cuda->step_reached, CUDA_STREAM_LEGACY);
    if (cuda->warming)
        cuda->warming->warm = !cuda->failed;
    cuda->capturing = NULL;
    cuda_leave(cuda);
    return st;
}

void cuda_drop_graphs(struct cuda_device *cuda)
{
    for (uint32_t e = 0; cuda->entries && e < cuda->base.program->entry_count; e++)
        if (cuda->entries[e].graph)
            cuda->driver.cuGraphExecDestroy(cuda->entries[e].graph);
}

/* --- times --- */

remat_status cuda_mark(struct remat_device *device, uint32_t slot)
{
    struct cuda_device *cuda = (struct cuda_device *)device;
    return mark_on(cuda, slot, cuda->stream);
}

remat_status cuda_elapsed(struct remat_device *device, uint32_t from, uint32_t to, uint64_t *ns)
{
    remat_status st = REMAT_OK;
    struct cuda_device *cuda = (struct cuda_device *)device;
    float ms = 0;
    REMAT_TRY(wait_for_event(cuda, cuda->events.items[to], "cuEventSynchronize"));
    TRY(cuda, cuEventElapsedTime, &ms, cuda->events.items[from], cuda->events.items[to]);
    *ns = ms > 0 ? (uint64_t)((double)ms * 1e6 + 0.5) : 0;
fail:
    return st;
}

/* --- the host's access --- */

/* With several ranks: a copy from or to memory that the driver has not pinned waits in the driver
 * for all that is on the stream. */
static remat_status enter_to_copy(struct cuda_device *cuda)
{
    remat_status st = cuda_enter(cuda);
    if (!st && cuda->base.params.go_on) {
        st = cuda_wait(cuda, "the GPU stopped");
        if (st)
            cuda_leave(cuda);
    }
    return st;
}

static remat_status wait_and_leave(struct cuda_device *cuda, remat_status st)
{
    if (!st)
        st = cuda_wait(cuda, "cuStreamSynchronize");
    cuda_leave(cuda);
    return st;
}

remat_status cuda_clear(struct remat_device *device, uint64_t offset, uint64_t bytes)
{
    assert(offset + bytes <= device->program->arena_bytes);
    struct cuda_device *cuda = (struct cuda_device *)device;
    return cuda_check(
        device->ctx, &cuda->driver,
        cuda->driver.cuMemsetD8Async(cuda->address + offset, 0, bytes, cuda->transfer_stream),
        "cuMemsetD8Async");
}

remat_status cuda_write(struct remat_device *device, uint64_t offset, const void *data,
                        uint64_t bytes)
{
    remat_status st = REMAT_OK;
    struct cuda_device *cuda = (struct cuda_device *)device;
    REMAT_TRY(enter_to_copy(cuda));
    st = cuda_check(
        cuda->base.ctx, &cuda->driver,
        cuda->driver.cuMemcpyHtoDAsync_v2(cuda->address + offset, data, bytes, cuda->stream),
        "cuMemcpyHtoD");
    st = wait_and_leave(cuda, st);
fail:
    return st;
}

remat_status cuda_read(struct remat_device *device, uint64_t offset, void *data, uint64_t bytes)
{
    assert(offset + bytes <= device->program->arena_bytes);
    remat_status st = REMAT_OK;
    struct cuda_device *cuda = (struct cuda_device *)device;
    REMAT_TRY(enter_to_copy(cuda));
    st = cuda_check(
        cuda->base.ctx, &cuda->driver,
        cuda->driver.cuMemcpyDtoHAsync_v2(data, cuda->address + offset, bytes, cuda->stream),
        "cuMemcpyDtoH");
    st = wait_and_leave(cuda, st);
fail:
    return st;
}
