/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs are taken in order and finish in any; each worker has a context with a guard and an arena of
 * its own, which live until the results are copied: what makes them has a guard too. */
#include "codegen.h"

#include "cubin_cache.h"
#include "unwind.h"

#include <pthread.h>
#include <stdlib.h>

struct queue {
    remat_context *ctx;
    struct remat_arena *arena;
    pthread_mutex_t lock;
    uint32_t next, count; /* of jobs: cubins of `code`, whose kernel and arch are filled in */
    bool failed, over;
    const struct remat_nvrtc *nvrtc;
    const struct remat_cubin_settings *settings;
    struct remat_cuda_code *code;
    struct remat_cubin_counts *counts;
    uint32_t worker_count;
    struct worker *workers;
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

static bool take_job(struct queue *queue, uint32_t *job)
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
    struct worker *w = user;
    const struct queue *queue = w->queue;
    struct remat_cubin *cubin = &queue->code->cubins[w->job];
    struct remat_cubin_source source;
    const char *text;
    REMAT_CHECK(remat_cuda_source(&w->arena, queue->code, cubin->kernel, &text));
    REMAT_CHECK(remat_cubin_make(queue->nvrtc, &w->arena, queue->settings->cache,
                                 queue->code->kernels[cubin->kernel].key, text, cubin->arch, cubin,
                                 &source));
    w->counts.cached += source.cached;
    w->counts.compiled += !source.cached;
    if (source.unwritten)
        w->counts.unwritten = source.unwritten;
    return REMAT_OK;
}

static void *work(void *user)
{
    struct worker *w = user;
    while (take_job(w->queue, &w->job)) {
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
static remat_status make_jobs(struct queue *queue)
{
    const char *const *architectures = queue->settings->architectures, **sorted;
    struct remat_cuda_code *code = queue->code;
    uint32_t given = 0, count = 0;
    while (architectures[given])
        REMAT_CHECK(remat_nvrtc_check(queue->nvrtc, architectures[given++]));
    sorted = remat_copy(queue->arena, architectures, given, sizeof *sorted);
    qsort(sorted, given, sizeof *sorted, by_name);
    for (uint32_t a = 0; a < given; a++)
        if (count == 0 || strcmp(sorted[count - 1], sorted[a]) != 0)
            sorted[count++] = sorted[a];
    REMAT_NEW(queue->arena, code->cubins, (size_t)code->kernel_count * count);
    code->cubin_count = 0;
    for (uint32_t k = 0; k < code->kernel_count; k++)
        for (uint32_t a = 0; a < count; a++)
            code->cubins[code->cubin_count++] =
                (struct remat_cubin){.kernel = k, .arch = sorted[a]};
    queue->count = code->cubin_count;
    return REMAT_OK;
}

/* The first of the workers works in this thread, so that none that does not start is missed. */
static void run(struct queue *queue)
{
    uint32_t count = queue->settings->threads ? queue->settings->threads : 1;
    count = count > queue->count && queue->count ? queue->count : count;
    REMAT_NEW(queue->arena, queue->workers, count);
    queue->worker_count = count;
    for (uint32_t w = 0; w < count; w++) {
        struct worker *worker = &queue->workers[w];
        worker->queue = queue;
        worker->ctx = remat_context_create(&queue->ctx->allocator, NULL);
        if (!worker->ctx)
            (void)remat_error(queue->ctx, REMAT_ERROR_MEMORY, "out of memory");
        remat_arena_init(&worker->arena, remat_or_unwind(queue->ctx, worker->ctx));
    }
    for (uint32_t w = 1; w < count; w++)
        queue->workers[w].runs =
            pthread_create(&queue->workers[w].thread, NULL, work, &queue->workers[w]) == 0;
    work(&queue->workers[0]);
    for (uint32_t w = 1; w < count; w++)
        if (queue->workers[w].runs)
            pthread_join(queue->workers[w].thread, NULL);
}

/* The error of the first job that failed. */
static remat_status first_error(const struct queue *queue)
{
    const struct worker *first = NULL;
    for (const struct worker *w = queue->workers; w < queue->workers + queue->worker_count; w++)
        if (w->status != REMAT_OK && (!first || w->job < first->job))
            first = w;
    return first ? remat_error(queue->ctx, first->status, "%s", remat_context_message(first->ctx))
                 : REMAT_OK;
}

static void copy_results(struct queue *queue)
{
    for (uint32_t c = 0; c < queue->code->cubin_count; c++) {
        struct remat_cubin *cubin = &queue->code->cubins[c];
        cubin->data = remat_copy(queue->arena, cubin->data, cubin->bytes, 1);
        cubin->warnings = remat_string(queue->arena, cubin->warnings, strlen(cubin->warnings));
    }
    for (uint32_t w = 0; w < queue->worker_count; w++) {
        const struct remat_cubin_counts *counts = &queue->workers[w].counts;
        queue->counts->compiled += counts->compiled;
        queue->counts->cached += counts->cached;
        if (counts->unwritten && !queue->counts->unwritten)
            queue->counts->unwritten = REMAT_FORMAT(queue->arena, "%s", counts->unwritten);
    }
}

static remat_status make_all(void *user)
{
    struct queue *queue = user;
    REMAT_CHECK(make_jobs(queue));
    run(queue);
    REMAT_CHECK(first_error(queue));
    queue->counts->cut_short = queue->over;
    queue->code->nvrtc_version = queue->over ? 0 : remat_nvrtc_number(queue->nvrtc);
    if (queue->over)
        queue->code->cubin_count = 0;
    copy_results(queue);
    return REMAT_OK;
}

remat_status remat_cubins_make(remat_context *ctx, struct remat_arena *arena,
                               const struct remat_nvrtc *nvrtc,
                               const struct remat_cubin_settings *settings,
                               struct remat_cuda_code *code, struct remat_cubin_counts *out)
{
    struct queue queue = {.ctx = ctx,
                          .arena = arena,
                          .nvrtc = nvrtc,
                          .settings = settings,
                          .code = code,
                          .counts = out};
    *out = (struct remat_cubin_counts){0};
    pthread_mutex_init(&queue.lock, NULL);
    remat_status st = remat_guard(ctx, make_all, &queue);
    pthread_mutex_destroy(&queue.lock);
    if (st != REMAT_OK)
        code->cubin_count = 0; /* none, rather than some */
    for (uint32_t w = 0; w < queue.worker_count; w++) {
        remat_arena_release(&queue.workers[w].arena);
        remat_context_destroy(&queue.workers[w].ctx);
    }
    return st;
}
