/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include "file.h"
#include "graph_file.h"
#include "mesh.h"
#include "options.h"

#include <inttypes.h>
#include <math.h>

uint32_t model_parts(const struct remat_compile_settings *settings)
{
    return settings->microbatches * remat_mesh_size(&settings->mesh, "dp");
}

/* The symbol batch becomes that of a microbatch of a rank. */
static remat_status divide_batch(remat_context *ctx, const char *path, struct remat_graph *graph,
                                 const struct remat_compile_settings *settings)
{
    struct remat_symbol *batch = remat_graph_symbol(graph, "batch");
    uint32_t parts = model_parts(settings), ranks = remat_mesh_size(&settings->mesh, "dp");
    if (parts == 1)
        return REMAT_OK;
    if (!batch)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%s: --%s needs a graph with the symbol \"batch\"", path,
                           ranks > 1 ? "mesh" : "microbatches");
    if (batch->value % parts && settings->microbatches <= 1)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%s: batch %lld is not divisible by %" PRIu32 " ranks along dp", path,
                           (long long)batch->value, ranks);
    if (batch->value % parts && ranks > 1)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%s: batch %lld is not divisible by %" PRIu32
                           " ranks along dp times %" PRIu32 " microbatches",
                           path, (long long)batch->value, ranks, settings->microbatches);
    if (batch->value % parts)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%s: batch %lld is not divisible by %" PRIu32 " microbatches", path,
                           (long long)batch->value, parts);
    batch->value /= parts; /* 0, without a value, is refused where the symbol is used */
    return REMAT_OK;
}

remat_status model_read(remat_context *ctx, struct remat_arena *arena, const char *path,
                        struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    char *data;
    size_t bytes;
    REMAT_TRY(remat_file_read(ctx, path, arena, &data, &bytes));
    REMAT_TRY(graph_file_parse(ctx, path, data, bytes, arena, out));
fail:
    return st;
}

remat_status model_bind(remat_context *ctx, struct remat_arena *arena, const char *path,
                        const struct remat_graph *parsed, const char *bindings,
                        const struct remat_compile_settings *settings, struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    struct remat_graph *graph;
    graph = remat_graph_copy(arena, parsed);
    REMAT_TRY(graph_file_set_symbols(ctx, path, bindings, graph));
    REMAT_TRY(divide_batch(ctx, path, graph, settings));
    REMAT_TRY(graph_file_bind(ctx, path, arena, graph, out));
fail:
    return st;
}

/* --- sizes --- */

struct attempts {
    remat_context *ctx;
    struct remat_arena *arena; /* of what is kept */
    const char *path;
    const struct remat_graph *parsed;
    const struct remat_compile_settings *settings;
    struct sizes *sizes;
    struct progress *progress;
    uint64_t room_bytes; /* beside persistent memory, of the smallest value planned */
    uint64_t update_ns;  /* the optimizer's part of a step, whatever the size */
};

static bool attempts_over(void *user)
{
    return cli_watch_over(&((struct attempts *)user)->progress->watch);
}

static remat_status bind(const struct attempts *a, struct remat_arena *arena, uint32_t value,
                         struct remat_graph **symbols, struct remat_graph **graph)
{
    remat_status st = REMAT_OK;
    const char *bindings = sizes_bindings(arena, a->sizes, value);
    if (!bindings)
        REMAT_FAIL(a->ctx, REMAT_ERROR_MEMORY, "out of memory");
    *symbols = remat_graph_copy(arena, a->parsed);
    REMAT_TRY(graph_file_set_symbols(a->ctx, a->path, bindings, *symbols));
    REMAT_TRY(model_bind(a->ctx, arena, a->path, a->parsed, bindings, a->settings, graph));
fail:
    return st;
}

/* What a step works on: tokens, or what the symbol counts. */
static double work_of(const struct remat_graph *graph, struct sizes *sizes, uint32_t value)
{
    static const char *const lengths[] = {"seq", "source_seq"};
    const struct remat_symbol *batch = remat_graph_symbol(graph, "batch");
    double tokens = 0;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const struct remat_symbol *length = remat_graph_symbol(graph, lengths[i]);
        tokens += batch && length ? (double)batch->value * (double)length->value : 0;
    }
    sizes->unit = tokens > 0 ? "tokens" : sizes->symbol;
    return tokens > 0 ? tokens : value;
}

/* Why the graph cannot have this size, as the message says behind the path. */
static remat_status keep_why(const struct attempts *a, struct size_trial *trial)
{
    const char *message = remat_context_message(a->ctx);
    size_t length = strlen(a->path);
    if (strncmp(message, a->path, length) == 0 && strncmp(message + length, ": ", 2) == 0)
        message += length + 2;
    trial->why = remat_arena_format(a->arena, "%s", message);
    return trial->why ? REMAT_ERROR_INVALID : REMAT_ERROR_MEMORY;
}

/* Transfers may run beside computation. */
static uint64_t update_ns(const struct remat_program *program)
{
    uint64_t ns = 0;
    for (uint32_t c = 0; c < program->command_count; c++) {
        const struct remat_command *command = &program->commands[c];
        if (command->phase == REMAT_PHASE_OPTIMIZER && !command->complete_before)
            ns += command->estimated_ns;
    }
    return ns;
}

/* Plans the bound graph, or finds that it is not worth it; `work` is what a step works on. */
static remat_status plan(struct attempts *a, struct remat_arena *scratch,
                         const struct remat_graph *graph, double work, double rate_to_beat,
                         struct size_trial *trial)
{
    remat_status st = REMAT_OK;
    struct remat_compile_settings settings = *a->settings;
    struct remat_program *program;
    uint64_t bound_ns = 0;
    settings.after_pass = NULL;
    settings.pass_time = NULL;
    settings.bounded = NULL;
    settings.tried = NULL;
    if (rate_to_beat > 0 && !remat_policy_given(&settings.policy))
        REMAT_TRY(remat_compile_bound(a->ctx, scratch, graph, &settings, 0, &bound_ns));
    trial->rate = bound_ns ? work * 1e9 / (double)bound_ns : 0;
    trial->bounded = bound_ns && trial->rate < rate_to_beat;
    if (trial->bounded)
        return REMAT_OK;
    REMAT_TRY(remat_compile(a->ctx, scratch, graph, &settings, &program));
    trial->policy = remat_arena_format(a->arena, "%s", program->policy);
    trial->step_ns = program->step_ns;
    trial->peak_bytes = program->peak_bytes;
    remat_keep_most(&a->room_bytes,
                    program->budget_bytes - program->reserve_bytes - program->static_bytes);
    trial->rate = work * 1e9 / (double)program->step_ns;
    a->update_ns = update_ns(program);
    if (!trial->policy)
        st = REMAT_ERROR_MEMORY;
fail:
    return st;
}

static remat_status attempt(void *user, double rate_to_beat, struct size_trial *trial)
{
    remat_status st = REMAT_OK;
    struct attempts *a = user;
    struct remat_arena *scratch = remat_scratch_open(a->ctx);
    struct remat_graph *symbols, *graph;
    progress_look_at(a->progress, a->sizes, trial->value);
    REMAT_TRY(bind(a, scratch, trial->value, &symbols, &graph));
    REMAT_TRY(
        plan(a, scratch, graph, work_of(symbols, a->sizes, trial->value), rate_to_beat, trial));
fail:
    if (st == REMAT_ERROR_INVALID)
        st = keep_why(a, trial);
    remat_scratch_close(scratch);
    return st;
}

/* --- larger sizes --- */

enum { SCALE = 1024, EDGES_MAX = 64 };

/* From `value` on, ever further apart: edges[count] is behind the last of at most EDGES_MAX. */
static uint32_t list_edges(uint32_t value, uint32_t multiple, uint32_t top, uint64_t *edges)
{
    uint32_t count = 0;
    uint64_t edge = (uint64_t)value + multiple;
    while (edge <= top && count < EDGES_MAX) {
        edges[count++] = edge;
        uint64_t step = edge < 4 * (uint64_t)value ? edge / 8 : edge;
        edge += step < multiple ? multiple : step;
    }
    edges[count] = (uint64_t)top + 1;
    return count;
}

/* No value of the graph grows faster than in proportion. */
static bool is_proportional(const struct remat_graph *small, const struct remat_graph *large)
{
    bool is = small->value_count == large->value_count;
    for (uint32_t v = 0; is && v < small->value_count; v++)
        is = remat_shape_elements(&large->values[v].shape) <=
             SCALE * remat_shape_elements(&small->values[v].shape);
    return is;
}

/* A batch k times as large, with the same recomputation, takes at most k times the room beside
 * persistent memory and, but for the optimizer, k times the time: launches, weights and the last
 * waves of tiles are shared. So a step of batch b takes no less than its share of the bound of a
 * large batch M with M / b times the room. The larger b, the smaller that room, so between two
 * batches the room of the smaller one holds; M / b is rounded up. */
static remat_status find_slow(void *user, uint32_t value, double rate, uint32_t top, uint32_t *from)
{
    remat_status st = REMAT_OK;
    struct attempts *a = user;
    struct remat_compile_settings settings = *a->settings;
    struct remat_graph *symbols, *small, *graph;
    uint64_t edges[EDGES_MAX + 1], bounds_ns[1 + EDGES_MAX];
    uint64_t large = (uint64_t)value * SCALE;
    struct remat_arena *scratch = remat_scratch_open(a->ctx);
    uint32_t count = list_edges(value, a->sizes->multiple, top, edges);
    *from = 0;
    if (strcmp(a->sizes->symbol, "batch") != 0 || remat_policy_given(&settings.policy) ||
        settings.device.profile || large > INT32_MAX || count == 0)
        goto fail;
    settings.after_pass = NULL;
    settings.pass_time = NULL;
    settings.has_budget = false;
    for (uint32_t i = 0; i < count; i++)
        bounds_ns[1 + i] = remat_mul_saturated(a->room_bytes, large / edges[i] + 1);
    REMAT_TRY(bind(a, scratch, value, &symbols, &small));
    REMAT_TRY(bind(a, scratch, (uint32_t)large, &symbols, &graph));
    if (!is_proportional(small, graph))
        goto fail;
    REMAT_TRY(remat_compile_bound(a->ctx, scratch, graph, &settings, count, bounds_ns));
    double work = work_of(symbols, a->sizes, (uint32_t)large) / (double)large;
    for (uint32_t i = count; i-- > 0;) {
        double update = (double)a->update_ns, end = (double)edges[i + 1];
        double rest = ((double)bounds_ns[1 + i] - update) / ((double)large + end);
        if (bounds_ns[1 + i] && work * 1e9 / (update / end + rest) >= rate)
            break;
        *from = (uint32_t)edges[i];
    }
fail:
    remat_scratch_close(scratch);
    return st == REMAT_ERROR_MEMORY || st == REMAT_ERROR_INTERNAL ? st : REMAT_OK;
}

remat_status model_choose_bindings(remat_context *ctx, struct remat_arena *arena,
                                   const struct cli_arguments *args,
                                   const struct remat_graph *parsed,
                                   const struct remat_compile_settings *settings,
                                   struct progress *progress, struct sizes *sizes, const char **out)
{
    remat_status st = REMAT_OK;
    struct attempts attempts = {.ctx = ctx,
                                .arena = arena,
                                .path = args->operands[0],
                                .parsed = parsed,
                                .settings = settings,
                                .sizes = sizes,
                                .progress = progress};
    const struct size_attempts calls = {attempt, find_slow, attempts_over, &attempts};
    *out = cli_text(args, OPTION_bind, "");
    REMAT_TRY(sizes_parse(ctx, arena, *out, model_parts(settings), sizes));
    if (!sizes->symbol)
        return REMAT_OK;
    if (!settings->has_budget)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--bind %s=auto needs --budget", sizes->symbol);
    st = sizes_search(ctx, arena, sizes, &calls);
    progress_look_at(progress, NULL, 0);
    REMAT_TRY(st);
    *out = sizes_bindings(arena, sizes, sizes->trials[sizes->best].value);
    st = *out ? REMAT_OK : REMAT_ERROR_MEMORY;
fail:
    return st;
}
