/* SPDX-License-Identifier: Apache-2.0 */
/* Creation and memory of the CUDA device. What can be is loaded at creation, so that what the
 * driver then says is in use is, but for what libraries load late, what the arena has to fit
 * beside. */
#include "cuda_run.h"
#include "device_base.h"
#include "host.h"

#include <inttypes.h>

#define CAPABILITY_MIN    80          /* bf16 in tensor cores */
#define GEMM_WORKSPACE    (32u << 20) /* of a plan that reserves none */
#define GRACE_NS          UINT64_C(1000000000)
#define TRY(cuda, f, ...) CUDA_TRY((cuda)->base.ctx, &(cuda)->driver, f, __VA_ARGS__)

static uint32_t default_threads(void)
{
    return 1;
}

/* --- the GPU --- */

static remat_status open_gpu(struct cuda_device *cuda)
{
    remat_status st = REMAT_OK;
    int count = 0, major = 0, minor = 0;
    REMAT_TRY(cuda_driver_open(cuda->base.ctx, cuda->base.params.libraries, &cuda->driver));
    TRY(cuda, cuDeviceGetCount, &count);
    if (cuda->base.params.ordinal >= (uint32_t)count)
        REMAT_FAIL(cuda->base.ctx, REMAT_ERROR_USAGE,
                   "there is no GPU %" PRIu32 ": the driver has %d", cuda->base.params.ordinal,
                   count);
    TRY(cuda, cuDeviceGet, &cuda->ordinal, (int)cuda->base.params.ordinal);
    TRY(cuda, cuDeviceGetName, cuda->name, (int)sizeof cuda->name, cuda->ordinal);
    TRY(cuda, cuDeviceGetAttribute, &major, CUDA_DEVICE_COMPUTE_CAPABILITY_MAJOR, cuda->ordinal);
    TRY(cuda, cuDeviceGetAttribute, &minor, CUDA_DEVICE_COMPUTE_CAPABILITY_MINOR, cuda->ordinal);
    cuda->capability = 10 * major + minor;
    snprintf(cuda->arch, sizeof cuda->arch, "sm_%d", cuda->capability);
    if (cuda->capability < CAPABILITY_MIN)
        REMAT_FAIL(cuda->base.ctx, REMAT_ERROR_IO,
                   "GPU %" PRIu32 ", %s, has compute capability %d.%d, remat needs %d.%d: run on "
                   "another GPU or with --device cpu",
                   cuda->base.params.ordinal, cuda->name, major, minor, CAPABILITY_MIN / 10,
                   CAPABILITY_MIN % 10);
fail:
    return st;
}

static remat_status present(remat_context *ctx, const struct remat_device_params *params)
{
    struct cuda_device cuda = {.base = {.ctx = ctx, .params = *params}};
    remat_status st = open_gpu(&cuda);
    cuda_driver_close(&cuda.driver);
    return st;
}

/* --- loading --- */

static const char *why_no_code(const struct remat_program *program)
{
    for (uint32_t n = 0; n < program->note_count; n++)
        if (strncmp(program->notes[n], REMAT_CUDA_NOTE, strlen(REMAT_CUDA_NOTE)) == 0)
            return program->notes[n];
    return "no CUDA code";
}

static remat_status check_commands(const struct cuda_device *cuda)
{
    const struct remat_program *program = cuda->base.program;
    if (!program->cuda.launch_begin)
        return remat_error(cuda->base.ctx, REMAT_ERROR_INVALID,
                           "the plan has %s: run it with --device cpu", why_no_code(program));
    for (uint32_t c = 0; c < program->command_count; c++) {
        const struct remat_command *command = &program->commands[c];
        uint32_t kind = program->kernels[command->kernel].kind;
        const uint32_t *begin = program->cuda.launch_begin;
        bool has_text = remat_kernel_row(kind)->dispatch == REMAT_DISPATCH_TEXT;
        if (has_text && begin[c] == begin[c + 1])
            return remat_error(cuda->base.ctx, REMAT_ERROR_INVALID,
                               "command \"%s\": the plan has no CUDA code for %s: run it with "
                               "--device cpu",
                               command->name,
                               kind == REMAT_KERNEL_fused ? program->kernels[command->kernel].key
                                                          : remat_kernel_kind_name(kind));
    }
    return REMAT_OK;
}

/* The workspace is the end of the arena's static part, or beside the arena in a plan without. */
static uint64_t beside_bytes(const struct cuda_device *cuda)
{
    uint64_t code = cuda->base.program->cuda.workspace_bytes, gemms = cuda->gemm_workspace_bytes;
    if (cuda->base.program->workspace_bytes)
        return 0;
    return remat_aligned_bytes(code > gemms ? code : gemms);
}

/* The legacy stream can be neither captured nor left alone by what is, and it waits for all
 * blocking streams; so commands run beside it. */
static remat_status choose_stream(struct cuda_device *cuda)
{
    remat_status st = REMAT_OK;
    void *stream = cuda->base.params.stream;
    cuda->is_legacy = cuda->base.params.has_stream && (!stream || stream == CUDA_STREAM_LEGACY);
    TRY(cuda, cuStreamCreate, &cuda->own_stream, CUDA_STREAM_NON_BLOCKING);
    cuda->stream = cuda->base.params.has_stream && !cuda->is_legacy ? stream : cuda->own_stream;
    if (remat_program_ranks(cuda->base.program) > 1) {
        TRY(cuda, cuStreamCreate, &cuda->transfer_stream, CUDA_STREAM_NON_BLOCKING);
        for (size_t i = 0; i < 2; i++)
            TRY(cuda, cuEventCreate, &cuda->transferred[i], CUDA_EVENT_DISABLE_TIMING);
    }
    if (cuda->is_legacy) {
        TRY(cuda, cuEventCreate, &cuda->host_reached, CUDA_EVENT_DISABLE_TIMING);
        TRY(cuda, cuEventCreate, &cuda->step_reached, CUDA_EVENT_DISABLE_TIMING);
    }
fail:
    return st;
}

static remat_status load(struct cuda_device *cuda)
{
    remat_status st = REMAT_OK;
    const struct remat_program *program = cuda->base.program;
    size_t available = 0, total = 0;
    cuda->gemm_workspace_bytes =
        program->workspace_bytes ? program->workspace_bytes : GEMM_WORKSPACE;
    REMAT_TRY_NEW(&cuda->base.arena, cuda->entries, program->entry_count);
    REMAT_TRY(choose_stream(cuda));
    REMAT_TRY(remat_cuda_groups_find(&cuda->base.arena, program, &cuda->groups));
    REMAT_TRY(cuda_functions_load(cuda->base.ctx, &cuda->base.arena, &cuda->driver, &program->cuda,
                                  cuda->capability, cuda->base.params.libraries,
                                  cuda->base.params.cubin_cache, &cuda->functions));
    const char *gpu = remat_arena_format(&cuda->base.arena, "%s %s", cuda->name, cuda->arch);
    if (!gpu)
        return REMAT_ERROR_MEMORY;
    struct cuda_gemm_settings gemms = {cuda->base.params.libraries, cuda->base.params.gemm_table,
                                       gpu, cuda->gemm_workspace_bytes};
    REMAT_TRY(cuda_gemms_create(cuda->base.ctx, &cuda->driver, program, &gemms, &cuda->gemms));
    TRY(cuda, cuMemGetInfo_v2, &available, &total);
    cuda->in_use_bytes = total - available;
    REMAT_TRY(remat_device_add_scratch(&cuda->base, 1, beside_bytes(cuda)));
fail:
    return st;
}

/* --- life --- */

static bool is_at_work(const struct cuda_device *cuda)
{
    return cuda->driver.cuStreamQuery(cuda->stream) == CUDA_NOT_READY ||
           (cuda->transfer_stream &&
            cuda->driver.cuStreamQuery(cuda->transfer_stream) == CUDA_NOT_READY);
}

/* What the host has given up waiting for may have ended since then; if not, freeing anything would
 * wait for it, so all stays. */
static bool has_settled(struct cuda_device *cuda)
{
    struct remat_wait wait = {0};
    if (cuda->base.abandoned)
        return false;
    if (!cuda->stuck && cuda->stream)
        (void)cuda_wait_for_all(cuda);
    while (cuda->stuck && wait.waited_ns < GRACE_NS && is_at_work(cuda))
        remat_wait_pause(&wait);
    return wait.waited_ns < GRACE_NS;
}

static void release_gpu(struct cuda_device *cuda)
{
    void *context;
    cuda->driver.cuCtxPushCurrent_v2(cuda->context);
    if (!has_settled(cuda)) {
        cuda->driver.cuCtxPopCurrent_v2(&context);
        return;
    }
    cuda_drop_graphs(cuda);
    for (size_t e = 0; e < cuda->events.count; e++)
        cuda->driver.cuEventDestroy_v2(cuda->events.items[e]);
    while (cuda->captured.count)
        cuda->driver.cuEventDestroy_v2(cuda->captured.items[--cuda->captured.count]);
    for (size_t i = 0; i < 2 && cuda->paces[i]; i++)
        cuda->driver.cuEventDestroy_v2(cuda->paces[i]);
    for (size_t i = 0; i < 2 && cuda->transferred[i]; i++)
        cuda->driver.cuEventDestroy_v2(cuda->transferred[i]);
    if (cuda->transfer_stream)
        cuda->driver.cuStreamDestroy_v2(cuda->transfer_stream);
    if (cuda->host_reached)
        cuda->driver.cuEventDestroy_v2(cuda->host_reached);
    if (cuda->step_reached)
        cuda->driver.cuEventDestroy_v2(cuda->step_reached);
    cuda_gemms_destroy(&cuda->gemms);
    cuda_functions_unload(&cuda->driver, &cuda->functions);
    if (cuda->owned)
        cuda->driver.cuMemFree_v2(cuda->owned);
    if (cuda->own_stream)
        cuda->driver.cuStreamDestroy_v2(cuda->own_stream);
    cuda->driver.cuCtxPopCurrent_v2(&context);
    cuda->driver.cuDevicePrimaryCtxRelease_v2(cuda->ordinal);
}

static void destroy(struct remat_device **device)
{
    struct cuda_device *cuda = (struct cuda_device *)*device;
    if (!cuda)
        return;
    if (cuda->context)
        release_gpu(cuda);
    cuda_nvtx_close(&cuda->nvtx);
    cuda_driver_close(&cuda->driver);
    remat_device_free(device);
}

static remat_status retain_context(struct cuda_device *cuda)
{
    int result = cuda_context_retain(&cuda->driver, cuda->ordinal, &cuda->context);
    if (!result)
        return REMAT_OK;
    cuda->context = NULL;
    return remat_error(
        cuda->base.ctx, result == CUDA_OUT_OF_MEMORY ? REMAT_ERROR_MEMORY : REMAT_ERROR_OTHER,
        "GPU %" PRIu32 ", %s, has no context for this process: %s: end what else runs there, or "
        "run with --device cpu",
        cuda->base.params.ordinal, cuda->name, cuda_fault_of(&cuda->driver, result).text);
}

static remat_status create(remat_context *ctx, const struct remat_program *program,
                           const struct remat_device_params *params, struct remat_device **out)
{
    remat_status st = REMAT_OK;
    REMAT_TRY(remat_device_make(ctx, &remat_cuda_device, program, params,
                                sizeof(struct cuda_device), out));
    struct cuda_device *cuda = (struct cuda_device *)*out;
    (*out)->name = cuda->name;
    (*out)->arch = cuda->arch;
    REMAT_TRY(open_gpu(cuda));
    REMAT_TRY(check_commands(cuda));
    cuda_nvtx_open(params->libraries, &cuda->nvtx);
    REMAT_TRY(retain_context(cuda));
    REMAT_TRY(cuda_enter(cuda));
    st = load(cuda);
    cuda_leave(cuda);
    REMAT_TRY(st);
    return REMAT_OK;
fail:
    destroy(out);
    return st;
}

/* --- memory --- */

/* Memory of the host's is there already, among what is in use; then the budget is the host's too.
 */
static uint64_t base_bytes(const struct remat_device *device)
{
    const struct cuda_device *cuda = (const struct cuda_device *)device;
    return cuda->base.params.memory ? 0 : cuda->in_use_bytes + beside_bytes(cuda);
}

static uint64_t thread_bytes(const struct remat_device *device)
{
    (void)device;
    return 0;
}

static uint64_t in_use_bytes(struct remat_device *device)
{
    struct cuda_device *cuda = (struct cuda_device *)device;
    size_t available = 0, total = 0;
    void *context;
    cuda->driver.cuCtxPushCurrent_v2(cuda->context);
    if (cuda->driver.cuMemGetInfo_v2(&available, &total))
        available = total;
    cuda->driver.cuCtxPopCurrent_v2(&context);
    return total - available;
}

static remat_status allocate(struct cuda_device *cuda, uint64_t bytes)
{
    remat_status st = REMAT_OK;
    size_t available = 0, total = 0;
    int result = cuda->driver.cuMemAlloc_v2(&cuda->owned, bytes);
    if (result == CUDA_OUT_OF_MEMORY && !cuda->driver.cuMemGetInfo_v2(&available, &total))
        REMAT_FAIL(
            cuda->base.ctx, REMAT_ERROR_MEMORY,
            "GPU %" PRIu32 ", %s, has %zu of its %zu bytes free, the plan needs %" PRIu64
            ": compile with a smaller --budget, end what else runs there, or run with --device "
            "cpu",
            cuda->base.params.ordinal, cuda->name, available, total, bytes);
    REMAT_TRY(cuda_check(cuda->base.ctx, &cuda->driver, result, "cuMemAlloc"));
    cuda->address = cuda->owned;
fail:
    return st;
}

static remat_status bind_memory(struct remat_device *device, void *memory)
{
    remat_status st = REMAT_OK;
    struct cuda_device *cuda = (struct cuda_device *)device;
    const struct remat_program *program = cuda->base.program;
    uint64_t bytes = device->memory_bytes;
    REMAT_TRY(cuda_enter(cuda));
    if (memory)
        cuda->address = (uintptr_t)memory;
    else
        st = allocate(cuda, bytes);
    cuda->workspace =
        cuda->address + (program->workspace_bytes ? program->static_bytes - program->workspace_bytes
                                                  : program->arena_bytes);
    if (!st)
        st = cuda_check(cuda->base.ctx, &cuda->driver,
                        cuda->driver.cuMemsetD8Async(cuda->address, 0, bytes, cuda->stream),
                        "cuMemsetD8Async");
    if (!st)
        st = cuda_wait(cuda, "cuMemsetD8Async");
    cuda_leave(cuda);
fail:
    return st;
}

const struct remat_device_vtable remat_cuda_device = {
    .name = "cuda",
    .present = present,
    .default_threads = default_threads,
    .create = create,
    .destroy = destroy,
    .base_bytes = base_bytes,
    .thread_bytes = thread_bytes,
    .in_use_bytes = in_use_bytes,
    .bind = bind_memory,
    .begin = cuda_begin,
    .replay = cuda_replay,
    .execute = cuda_execute,
    .set = cuda_set,
    .end = cuda_end,
    .mark = cuda_mark,
    .elapsed = cuda_elapsed,
    .write = cuda_write,
    .read = cuda_read,
    .lend = cuda_lend,
    .clear = cuda_clear,
    .take_back = cuda_take_back,
    .await = cuda_await,
};
