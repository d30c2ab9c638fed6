/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include "file.h"
#include "graph_file.h"
#include "mesh.h"
#include "options.h"

#include <inttypes.h>

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
};

static bool attempts_over(void *user)
{
    return cli_watch_over(&((struct attempts *)user)->progress->watch);
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

/* Plans the bound graph, or finds that it is not worth it; `work` is what a step works on. */
static remat_status plan(const struct attempts *a, struct remat_arena *scratch,
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
        REMAT_TRY(remat_compile_bound(a->ctx, scratch, graph, &settings, &bound_ns));
    trial->slower = bound_ns && work * 1e9 / (double)bound_ns < rate_to_beat;
    if (trial->slower)
        return REMAT_OK;
    REMAT_TRY(remat_compile(a->ctx, scratch, graph, &settings, &program));
    trial->policy = remat_arena_format(a->arena, "%s", program->policy);
    trial->step_ns = program->step_ns;
    trial->peak_bytes = program->peak_bytes;
    trial->rate = work * 1e9 / (double)program->step_ns;
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
    a->progress->value = trial->value;
    const char *bindings = sizes_bindings(scratch, a->sizes, trial->value);
    if (!bindings)
        REMAT_FAIL(a->ctx, REMAT_ERROR_MEMORY, "out of memory");
    symbols = remat_graph_copy(scratch, a->parsed);
    REMAT_TRY(graph_file_set_symbols(a->ctx, a->path, bindings, symbols));
    REMAT_TRY(model_bind(a->ctx, scratch, a->path, a->parsed, bindings, a->settings, &graph));
    REMAT_TRY(
        plan(a, scratch, graph, work_of(symbols, a->sizes, trial->value), rate_to_beat, trial));
fail:
    if (st == REMAT_ERROR_INVALID)
        st = keep_why(a, trial);
    remat_scratch_close(scratch);
    return st;
}

remat_status model_choose_bindings(remat_context *ctx, struct remat_arena *arena,
                                   const struct cli_arguments *args,
                                   const struct remat_graph *parsed,
                                   const struct remat_compile_settings *settings,
                                   struct progress *progress, struct sizes *sizes, const char **out)
{
    remat_status st = REMAT_OK;
    struct attempts attempts = {ctx, arena, args->operands[0], parsed, settings, sizes, progress};
    *out = cli_text(args, OPTION_bind, "");
    REMAT_TRY(sizes_parse(ctx, arena, *out, model_parts(settings), sizes));
    if (!sizes->symbol)
        return REMAT_OK;
    if (!settings->has_budget)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--bind %s=auto needs --budget", sizes->symbol);
    progress->symbol = sizes->symbol;
    st = sizes_search(ctx, arena, sizes, attempt, attempts_over, &attempts);
    progress->symbol = NULL;
    REMAT_TRY(st);
    *out = sizes_bindings(arena, sizes, sizes->trials[sizes->best].value);
    st = *out ? REMAT_OK : REMAT_ERROR_MEMORY;
fail:
    return st;
}
