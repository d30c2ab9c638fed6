/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of a graph, bounded and planned one by one. */
#include "size_trials.h"

#include "asked_settings.h"
#include "bindings.h"
#include "graph_file.h"

#include <inttypes.h>

struct size_attempts {
    const struct remat_request *request;
    struct remat_sizes *sizes;
    bool by_rows; /* see grows_by_rows */
};

static bool attempts_over(void *user)
{
    return remat_request_is_over(((struct size_attempts *)user)->request);
}

/* What a step works on, or what the symbol counts. */
static double work_of(const struct remat_graph *graph, struct remat_sizes *sizes, uint32_t value)
{
    double work = remat_asked_work(graph, &sizes->unit);
    bool symbol_counts =
        !sizes->unit || (strcmp(sizes->symbol, "batch") != 0 && strcmp(sizes->unit, "tokens") != 0);
    if (symbol_counts)
        sizes->unit = sizes->symbol;
    return symbol_counts ? value : work;
}

/* Why the graph cannot have this size, as the message says after the path. */
static remat_status keep_why(const struct size_attempts *a, struct remat_size_trial *trial)
{
    const char *message = remat_context_message(a->request->ctx);
    size_t length = strlen(a->request->asked->model);
    if (strncmp(message, a->request->asked->model, length) == 0 &&
        strncmp(message + length, ": ", 2) == 0)
        message += length + 2;
    trial->why = remat_arena_format(a->request->arena, "%s", message);
    return trial->why ? REMAT_ERROR_INVALID : REMAT_ERROR_MEMORY;
}

static remat_status bind(const struct size_attempts *a, struct remat_arena *arena, uint32_t value,
                         double *out_work, struct remat_graph **out)
{
    remat_status st = REMAT_OK;
    struct remat_graph *symbols;
    const char *bindings = remat_sizes_bindings(arena, a->sizes, value);
    if (!bindings)
        REMAT_FAIL(a->request->ctx, REMAT_ERROR_MEMORY, "out of memory");
    symbols = remat_graph_copy(arena, a->request->graph, 1);
    REMAT_TRY(
        remat_graph_set_symbols(a->request->ctx, a->request->asked->model, bindings, symbols));
    *out_work = work_of(symbols, a->sizes, value);
    REMAT_TRY(remat_asked_bind(a->request, &a->request->settings, bindings, arena, out));
fail:
    return st;
}

/* Begins to look at a value. */
static remat_status begin(const struct size_attempts *a, struct remat_arena *scratch,
                          struct remat_size_trial *trial, struct remat_compile_settings *settings,
                          double *work, struct remat_graph **graph)
{
    *settings = remat_settings_of_trial(&a->request->settings);
    remat_request_look(a->request,
                       (struct remat_attempt){a->sizes, trial->value, false, NULL, NULL});
    remat_status st = bind(a, scratch, trial->value, work, graph);
    return st == REMAT_ERROR_INVALID ? keep_why(a, trial) : st;
}

static remat_status find_bound(const struct size_attempts *a, struct remat_arena *scratch,
                               const struct remat_graph *graph, double work,
                               const struct remat_compile_settings *settings,
                               struct remat_size_trial *trial)
{
    remat_status st = REMAT_OK;
    struct remat_bound bound;
    REMAT_TRY(remat_compile_bound(a->request->ctx, scratch, graph, settings, &bound));
    if (bound.step_ns == 0)
        REMAT_FAIL(a->request->ctx, REMAT_ERROR_INFEASIBLE, "%s %" PRIu32 " does not fit",
                   a->sizes->symbol, trial->value);
    trial->rate = work * 1e9 / (double)bound.step_ns;
fail:
    return st;
}

/* Whether a larger batch has the same kernels, each on as many rows or more. */
static bool bounds_larger(const struct size_attempts *a, uint32_t value)
{
    return a->by_rows && value / remat_microbatches(&a->request->settings) > 1;
}

static remat_status bound(void *user, struct remat_size_trial *trial)
{
    remat_status st = REMAT_OK;
    const struct size_attempts *a = user;
    struct remat_arena *scratch = remat_scratch_open(a->request->ctx);
    struct remat_compile_settings settings;
    struct remat_graph *graph;
    double work;
    REMAT_TRY(begin(a, scratch, trial, &settings, &work, &graph));
    if (bounds_larger(a, trial->value))
        settings.device.monotone = trial->value / remat_microbatches(&a->request->settings);
    REMAT_TRY(find_bound(a, scratch, graph, work, &settings, trial));
    trial->bounded = true;
    trial->each = settings.device.monotone ? trial->rate / trial->value : 0;
fail:
    remat_scratch_close(scratch);
    return st;
}

static remat_status plan(void *user, double rate_to_beat, struct remat_size_trial *trial)
{
    remat_status st = REMAT_OK;
    const struct size_attempts *a = user;
    struct remat_arena *scratch = remat_scratch_open(a->request->ctx);
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
    REMAT_TRY(remat_compile(a->request->ctx, scratch, graph, &settings, &program));
    trial->policy = remat_arena_format(a->request->arena, "%s", program->policy);
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
static remat_status find_growth(struct size_attempts *a)
{
    remat_status st = REMAT_OK;
    struct remat_arena *scratch = remat_scratch_open(a->request->ctx);
    struct remat_graph *small, *large;
    uint32_t value = a->sizes->smallest + a->sizes->multiple;
    double work;
    if (strcmp(a->sizes->symbol, "batch") != 0 || a->sizes->value_count < 3 ||
        a->request->settings.device.profile || a->request->settings.passes.loss_chunk)
        goto fail;
    REMAT_TRY(bind(a, scratch, value, &work, &small));
    REMAT_TRY(bind(a, scratch, value + a->sizes->multiple, &work, &large));
    a->by_rows = grows_by_rows(small, value, large, value + (int64_t)a->sizes->multiple);
fail:
    remat_scratch_close(scratch);
    return st == REMAT_ERROR_INVALID ? REMAT_OK : st;
}

remat_status remat_sizes_choose(const struct remat_request *r, struct remat_sizes *sizes,
                                const char **out)
{
    remat_status st = REMAT_OK;
    struct size_attempts attempts = {r, sizes, false};
    const struct remat_size_attempts calls = {bound, plan, attempts_over, &attempts};
    *out = remat_asked_text(r->asked, "bind", "");
    REMAT_TRY(remat_sizes_parse(r->ctx, r->arena, *out, remat_microbatches(&r->settings), sizes));
    sizes->ranks = remat_mesh_ranks(&r->settings.mesh);
    if (!sizes->symbol)
        return REMAT_OK;
    if (!r->settings.search.has_budget)
        REMAT_FAIL(r->ctx, REMAT_ERROR_USAGE, "--bind %s=auto needs --budget", sizes->symbol);
    REMAT_TRY(find_growth(&attempts));
    st = remat_sizes_search(r->ctx, r->arena, sizes, &calls);
    remat_request_look(r, (struct remat_attempt){0});
    REMAT_TRY(st);
    uint32_t best = sizes->trials[sizes->best].value;
    remat_request_look(r, (struct remat_attempt){sizes, best, true, NULL, NULL});
    *out = remat_sizes_bindings(r->arena, sizes, best);
    st = *out ? REMAT_OK : REMAT_ERROR_MEMORY;
fail:
    return st;
}
