/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include "file.h"
#include "graph_file.h"
#include "options.h"
#include "settings.h"

#include <inttypes.h>

/* Of all ranks. */
static uint32_t count_microbatches(const struct remat_compile_settings *settings)
{
    return settings->passes.microbatches * remat_mesh_size(&settings->mesh, "dp");
}

/* The symbol batch becomes that of a microbatch of a rank. */
static remat_status divide_batch(remat_context *ctx, const char *path, struct remat_graph *graph,
                                 const struct remat_compile_settings *settings)
{
    struct remat_symbol *batch = remat_graph_symbol(graph, "batch");
    uint32_t count = count_microbatches(settings), ranks = remat_mesh_size(&settings->mesh, "dp");
    if (count == 1)
        return REMAT_OK;
    if (!batch)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%s: --%s needs a graph with the symbol \"batch\"", path,
                           ranks > 1 ? "mesh" : "microbatches");
    if (batch->value % count && settings->passes.microbatches <= 1)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%s: batch %lld is not divisible by %" PRIu32 " ranks along dp", path,
                           (long long)batch->value, ranks);
    if (batch->value % count && ranks > 1)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%s: batch %lld is not divisible by %" PRIu32
                           " ranks along dp times %" PRIu32 " microbatches",
                           path, (long long)batch->value, ranks, settings->passes.microbatches);
    if (batch->value % count)
        return remat_error(ctx, REMAT_ERROR_USAGE,
                           "%s: batch %lld is not divisible by %" PRIu32 " microbatches", path,
                           (long long)batch->value, count);
    batch->value /= count; /* 0, without a value, is refused where the symbol is used */
    return REMAT_OK;
}

remat_status model_read(remat_context *ctx, struct remat_arena *arena, const char *path,
                        struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    char *data;
    size_t bytes;
    REMAT_TRY(remat_file_read(ctx, path, arena, &data, &bytes));
    REMAT_TRY(remat_graph_file_parse(ctx, path, data, bytes, arena, out));
fail:
    return st;
}

remat_status model_bind(remat_context *ctx, struct remat_arena *arena, const char *path,
                        const struct remat_graph *parsed, const char *bindings,
                        const struct remat_compile_settings *settings, struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    struct remat_arena *scratch = remat_scratch_open(ctx);
    struct remat_graph *graph = remat_graph_copy(scratch, parsed, 1);
    REMAT_TRY(remat_graph_set_symbols(ctx, path, bindings, graph));
    REMAT_TRY(divide_batch(ctx, path, graph, settings));
    REMAT_TRY(remat_graph_file_bind(ctx, path, arena, graph, out));
fail:
    remat_scratch_close(scratch);
    return st;
}

double model_work(const struct remat_graph *symbols, const char **unit)
{
    static const char *const lengths[] = {"seq", "source_seq"};
    const struct remat_symbol *batch = remat_graph_symbol(symbols, "batch");
    double tokens = 0;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const struct remat_symbol *length = remat_graph_symbol(symbols, lengths[i]);
        tokens += batch && length ? (double)batch->value * (double)length->value : 0;
    }
    *unit = tokens > 0 ? "tokens" : batch ? "sequences" : NULL;
    return tokens > 0 ? tokens : batch ? (double)batch->value : 0;
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
    bool by_rows; /* see grows_by_rows */
};

static bool attempts_over(void *user)
{
    return cli_watch_over(&((struct attempts *)user)->progress->watch);
}

/* What a step works on, or what the symbol counts. */
static double work_of(const struct remat_graph *graph, struct sizes *sizes, uint32_t value)
{
    double work = model_work(graph, &sizes->unit);
    bool symbol_counts =
        !sizes->unit || (strcmp(sizes->symbol, "batch") != 0 && strcmp(sizes->unit, "tokens") != 0);
    if (symbol_counts)
        sizes->unit = sizes->symbol;
    return symbol_counts ? value : work;
}

/* Why the graph cannot have this size, as the message says after the path. */
static remat_status keep_why(const struct attempts *a, struct size_trial *trial)
{
    const char *message = remat_context_message(a->ctx);
    size_t length = strlen(a->path);
    if (strncmp(message, a->path, length) == 0 && strncmp(message + length, ": ", 2) == 0)
        message += length + 2;
    trial->why = remat_arena_format(a->arena, "%s", message);
    return trial->why ? REMAT_ERROR_INVALID : REMAT_ERROR_MEMORY;
}

static remat_status bind(const struct attempts *a, struct remat_arena *arena, uint32_t value,
                         double *out_work, struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    struct remat_graph *symbols;
    const char *bindings = sizes_bindings(arena, a->sizes, value);
    if (!bindings)
        REMAT_FAIL(a->ctx, REMAT_ERROR_MEMORY, "out of memory");
    symbols = remat_graph_copy(arena, a->parsed, 1);
    REMAT_TRY(remat_graph_set_symbols(a->ctx, a->path, bindings, symbols));
    *out_work = work_of(symbols, a->sizes, value);
    REMAT_TRY(model_bind(a->ctx, arena, a->path, a->parsed, bindings, a->settings, out));
fail:
    return st;
}

/* Begins to look at a value. */
static remat_status begin(const struct attempts *a, struct remat_arena *scratch,
                          struct size_trial *trial, struct remat_compile_settings *settings,
                          double *work, struct remat_graph **graph)
{
    *settings = settings_of_trial(a->settings);
    progress_look_at(a->progress, a->sizes, trial->value, false);
    remat_status st = bind(a, scratch, trial->value, work, graph);
    return st == REMAT_ERROR_INVALID ? keep_why(a, trial) : st;
}

static remat_status find_bound(const struct attempts *a, struct remat_arena *scratch,
                               const struct remat_graph *graph, double work,
                               const struct remat_compile_settings *settings,
                               struct size_trial *trial)
{
    remat_status st = REMAT_OK;
    struct remat_bound bound;
    REMAT_TRY(remat_compile_bound(a->ctx, scratch, graph, settings, &bound));
    if (bound.step_ns == 0)
        REMAT_FAIL(a->ctx, REMAT_ERROR_INFEASIBLE, "%s %" PRIu32 " does not fit", a->sizes->symbol,
                   trial->value);
    trial->rate = work * 1e9 / (double)bound.step_ns;
fail:
    return st;
}

/* Whether a larger batch has the same kernels, each on as many rows or more. */
static bool bounds_larger(const struct attempts *a, uint32_t value)
{
    return a->by_rows && value / count_microbatches(a->settings) > 1;
}

static remat_status bound(void *user, struct size_trial *trial)
{
    remat_status st = REMAT_OK;
    const struct attempts *a = user;
    struct remat_arena *scratch = remat_scratch_open(a->ctx);
    struct remat_compile_settings settings;
    struct remat_graph *graph;
    double work;
    REMAT_TRY(begin(a, scratch, trial, &settings, &work, &graph));
    if (bounds_larger(a, trial->value))
        settings.device.monotone = trial->value / count_microbatches(a->settings);
    REMAT_TRY(find_bound(a, scratch, graph, work, &settings, trial));
    trial->bounded = true;
    trial->each = settings.device.monotone ? trial->rate / trial->value : 0;
fail:
    remat_scratch_close(scratch);
    return st;
}

static remat_status plan(void *user, double rate_to_beat, struct size_trial *trial)
{
    remat_status st = REMAT_OK;
    const struct attempts *a = user;
    struct remat_arena *scratch = remat_scratch_open(a->ctx);
    struct remat_compile_settings settings;
    struct remat_graph *graph;
    struct remat_program *program;
    double work;
    REMAT_TRY(begin(a, scratch, trial, &settings, &work, &graph));
    if (rate_to_beat > 0)
        REMAT_TRY(find_bound(a, scratch, graph, work, &settings, trial));
    trial->bounded = rate_to_beat > 0 && trial->rate < rate_to_beat;
    if (trial->bounded)
        goto fail;
    REMAT_TRY(remat_compile(a->ctx, scratch, graph, &settings, &program));
    trial->policy = remat_arena_format(a->arena, "%s", program->policy);
    trial->step_ns = program->step_ns;
    trial->peak_bytes = program->peak_bytes;
    trial->rate = work * 1e9 / (double)program->step_ns;
    st = trial->policy ? REMAT_OK : REMAT_ERROR_MEMORY;
fail:
    remat_scratch_close(scratch);
    return st;
}

static bool cuts(const struct remat_node_info *node)
{
    return node->op == REMAT_OP_slice || node->op == REMAT_OP_pad || node->op == REMAT_OP_concat;
}

/* The batch is along rows of values, never along columns, and their lengths are multiples of it; no
 * node cuts or joins values there, or makes as many chunks as there are rows. */
static bool grows_by_rows(const struct remat_graph *small, int64_t small_batch,
                          const struct remat_graph *large, int64_t large_batch)
{
    bool grows = true;
    for (uint32_t v = 0; v < small->value_count; v++) {
        const struct remat_shape *a = &small->values[v].shape, *b = &large->values[v].shape;
        grows &= a->rank < 2 || a->dims[a->rank - 1] == b->dims[b->rank - 1];
        for (uint32_t d = 0; d < a->rank; d++)
            grows &= a->dims[d] == b->dims[d] || (double)a->dims[d] * (double)large_batch ==
                                                     (double)b->dims[d] * (double)small_batch;
    }
    for (uint32_t n = 0; n < small->node_count; n++) {
        const struct remat_node_info *node = &small->nodes[n];
        grows &= node->op != REMAT_OP_linear_cross_entropy;
        if (cuts(node)) {
            uint32_t v = node->inputs[0].i, axis = (uint32_t)remat_node_int(node, "axis", 0);
            grows &= small->values[v].shape.dims[axis] == large->values[v].shape.dims[axis];
        }
    }
    return grows;
}

/* Where one of two batches is impossible, that is not known. */
static remat_status find_growth(struct attempts *a)
{
    remat_status st = REMAT_OK;
    struct remat_arena *scratch = remat_scratch_open(a->ctx);
    struct remat_graph *small, *large;
    uint32_t value = a->sizes->smallest + a->sizes->multiple;
    double work;
    if (strcmp(a->sizes->symbol, "batch") != 0 || a->sizes->value_count < 3 ||
        a->settings->device.profile || a->settings->passes.loss_chunk)
        goto fail;
    REMAT_TRY(bind(a, scratch, value, &work, &small));
    REMAT_TRY(bind(a, scratch, value + a->sizes->multiple, &work, &large));
    a->by_rows = grows_by_rows(small, value, large, value + (int64_t)a->sizes->multiple);
fail:
    remat_scratch_close(scratch);
    return st == REMAT_ERROR_INVALID ? REMAT_OK : st;
}

remat_status model_choose_bindings(remat_context *ctx, struct remat_arena *arena,
                                   const struct cli_arguments *args,
                                   const struct remat_graph *parsed,
                                   const struct remat_compile_settings *settings,
                                   struct progress *progress, struct sizes *sizes, const char **out)
{
    remat_status st = REMAT_OK;
    struct attempts attempts = {ctx,      arena, args->operands[0], parsed,
                                settings, sizes, progress,          false};
    const struct size_attempts calls = {bound, plan, attempts_over, &attempts};
    *out = cli_text(args, OPTION_bind, "");
    REMAT_TRY(sizes_parse(ctx, arena, *out, count_microbatches(settings), sizes));
    sizes->ranks = remat_mesh_ranks(&settings->mesh);
    if (!sizes->symbol)
        return REMAT_OK;
    if (!settings->search.has_budget)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "--bind %s=auto needs --budget", sizes->symbol);
    REMAT_TRY(find_growth(&attempts));
    st = sizes_search(ctx, arena, sizes, &calls);
    progress->sizes = NULL;
    REMAT_TRY(st);
    uint32_t best = sizes->trials[sizes->best].value;
    progress_look_at(progress, sizes, best, true);
    *out = sizes_bindings(arena, sizes, best);
    st = *out ? REMAT_OK : REMAT_ERROR_MEMORY;
fail:
    return st;
}
