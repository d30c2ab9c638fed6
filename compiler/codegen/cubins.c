/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs are taken in order and finish in any; each worker has a context with a guard and an arena of
 * its own, which live until the results are copied. The function that holds them must not unwind.
 */
#include "cubins.h"

#include "cubin_cache.h"
#include "unwind.h"

#include <pthread.h>
#include <stdlib.h>

struct queue {
    pthread_mutex_t lock;
    uint32_t next, count; /* of jobs: cubins of `code`, whose kernel and arch are filled in */
    bool failed, over;
    const struct remat_nvrtc *nvrtc;
    const struct remat_cubin_settings *settings;
    struct remat_cuda_code *code;
};

struct worker {
    struct queue *queue;
    pthread_t thread;
    bool runs;
    remat_context *ctx;
    struct remat_arena arena;
    remat_status status;
    uint32_t job; /* the last one; it failed unless the status is REMAT_OK */
    struct remat_cubin_counts counts;
};

static bool take(struct queue *queue, uint32_t *job)
{
    pthread_mutex_lock(&queue->lock);
    const struct remat_cubin_settings *s = queue->settings;
    bool left = !queue->failed && !queue->over && queue->next < queue->count;
    if (left && s->is_over)
        queue->over = s->is_over(s->is_over_user, queue->next, queue->count);
    bool taken = left && !queue->over;
    if (taken)
        *job = queue->next++;
    pthread_mutex_unlock(&queue->lock);
    return taken;
}

static remat_status make(void *user)
{
    remat_status st = REMAT_OK;
    struct worker *w = user;
    const struct queue *queue = w->queue;
    struct remat_cubin *cubin = &queue->code->cubins[w->job];
    const char *cache = queue->settings->cache, *path = NULL, *text;
    struct remat_nvrtc_options options;
    remat_nvrtc_options(cubin->arch, &options);
    REMAT_TRY(remat_cuda_source(&w->arena, queue->code, cubin->kernel, &text));
    if (cache)
        path = remat_cubin_cache_path(&w->arena, queue->nvrtc, cache, text, &options);
    if (path && remat_cubin_cache_read(&w->arena, path, cubin)) {
        w->counts.cached++;
        return REMAT_OK;
    }
    REMAT_TRY(remat_nvrtc_compile(queue->nvrtc, &w->arena, queue->code->kernels[cubin->kernel].key,
                                  text, cubin->arch, cubin));
    w->counts.compiled++;
    if (path && !w->counts.unwritten && remat_cubin_cache_write(&w->arena, path, cubin) != REMAT_OK)
        w->counts.unwritten = REMAT_FORMAT(&w->arena, "%s", remat_context_message(w->ctx));
fail:
    return st;
}

static void *work(void *user)
{
    struct worker *w = user;
    while (take(w->queue, &w->job)) {
        w->status = remat_guard(w->ctx, make, w);
        if (w->status == REMAT_OK)
            continue;
        pthread_mutex_lock(&w->queue->lock);
        w->queue->failed = true;
        pthread_mutex_unlock(&w->queue->lock);
        break;
    }
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* One job for each kernel and architecture, in the order of cubins. */
static remat_status make_jobs(struct remat_arena *arena, const struct remat_nvrtc *nvrtc,
                              const char *const *architectures, struct remat_cuda_code *code)
{
    remat_status st = REMAT_OK;
    uint32_t given = 0, count = 0;
    const char **sorted;
    while (architectures[given])
        REMAT_TRY(remat_nvrtc_check(nvrtc, architectures[given++]));
    REMAT_TRY_NEW(arena, sorted, given);
    memcpy(sorted, architectures, given * sizeof *sorted);
    qsort(sorted, given, sizeof *sorted, by_name);
    for (uint32_t a = 0; a < given; a++)
        if (count == 0 || strcmp(sorted[count - 1], sorted[a]) != 0)
            sorted[count++] = sorted[a];
    REMAT_TRY_NEW(arena, code->cubins, (size_t)code->kernel_count * count);
    code->cubin_count = 0;
    for (uint32_t k = 0; k < code->kernel_count; k++)
        for (uint32_t a = 0; a < count; a++)
            code->cubins[code->cubin_count++] =
                (struct remat_cubin){.kernel = k, .arch = sorted[a]};
fail:
    return st;
}

/* The first of the workers works in this thread, so that none that does not start is missed. */
static remat_status run(remat_context *ctx, struct worker *workers, uint32_t count)
{
    for (uint32_t w = 0; w < count; w++) {
        workers[w].ctx = remat_context_create(&ctx->allocator, NULL);
        if (!workers[w].ctx)
            return remat_error(ctx, REMAT_ERROR_MEMORY, "out of memory");
        remat_arena_init(&workers[w].arena, workers[w].ctx);
    }
    for (uint32_t w = 1; w < count; w++)
        workers[w].runs = pthread_create(&workers[w].thread, NULL, work, &workers[w]) == 0;
    work(&workers[0]);
    for (uint32_t w = 1; w < count; w++)
        if (workers[w].runs)
            pthread_join(workers[w].thread, NULL);
    return REMAT_OK;
}

/* The error of the first job that failed. */
static remat_status first_error(remat_context *ctx, const struct worker *workers, uint32_t count)
{
    const struct worker *first = NULL;
    for (uint32_t w = 0; w < count; w++)
        if (workers[w].status != REMAT_OK && (!first || workers[w].job < first->job))
            first = &workers[w];
    return first ? remat_error(ctx, first->status, "%s", remat_context_message(first->ctx))
                 : REMAT_OK;
}

static remat_status copy_results(struct remat_arena *arena, struct remat_cuda_code *code)
{
    remat_status st = REMAT_OK;
    for (uint32_t c = 0; c < code->cubin_count; c++) {
        struct remat_cubin *cubin = &code->cubins[c];
        char *data;
        REMAT_TRY_NEW(arena, data, cubin->bytes);
        memcpy(data, cubin->data, cubin->bytes);
        cubin->data = data;
        cubin->warnings = remat_arena_string(arena, cubin->warnings, strlen(cubin->warnings));
        if (!cubin->warnings)
            return REMAT_ERROR_MEMORY;
    }
fail:
    return st;
}

static remat_status add_counts(struct remat_arena *arena, const struct worker *worker,
                               struct remat_cubin_counts *out)
{
    out->compiled += worker->counts.compiled;
    out->cached += worker->counts.cached;
    if (worker->counts.unwritten && !out->unwritten)
        out->unwritten = remat_arena_format(arena, "%s", worker->counts.unwritten);
    return worker->counts.unwritten && !out->unwritten ? REMAT_ERROR_MEMORY : REMAT_OK;
}

remat_status remat_cubins_make(remat_context *ctx, struct remat_arena *arena,
                               const struct remat_nvrtc *nvrtc,
                               const struct remat_cubin_settings *settings,
                               struct remat_cuda_code *code, struct remat_cubin_counts *out)
{
    remat_status st = REMAT_OK;
    struct queue queue = {.nvrtc = nvrtc, .settings = settings, .code = code};
    struct worker *workers = NULL;
    uint32_t count = settings->threads ? settings->threads : 1;
    *out = (struct remat_cubin_counts){0};
    REMAT_TRY(make_jobs(arena, nvrtc, settings->architectures, code));
    queue.count = code->cubin_count;
    count = count > queue.count && queue.count ? queue.count : count;
    REMAT_TRY_NEW(arena, workers, count);
    for (uint32_t w = 0; w < count; w++)
        workers[w].queue = &queue;
    pthread_mutex_init(&queue.lock, NULL);
    st = run(ctx, workers, count);
    pthread_mutex_destroy(&queue.lock);
    REMAT_TRY(st);
    REMAT_TRY(first_error(ctx, workers, count));
    out->cut_short = queue.over;
    code->nvrtc_version = queue.over ? 0 : remat_nvrtc_number(nvrtc);
    if (queue.over)
        code->cubin_count = 0;
    REMAT_TRY(copy_results(arena, code));
    for (uint32_t w = 0; w < count; w++)
        REMAT_TRY(add_counts(arena, &workers[w], out));
fail:
    if (st != REMAT_OK)
        code->cubin_count = 0; /* none, rather than some */
    for (uint32_t w = 0; workers && w < count; w++) {
        remat_arena_release(&workers[w].arena);
        remat_context_destroy(&workers[w].ctx);
    }
    return st;
}
