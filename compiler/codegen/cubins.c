/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs are taken in order and finish in any; each worker has a context with a guard and an arena of
 * its own, which live until the results are copied: what makes them has a guard too. */
#include "cubins.h"

#include "file.h"
#include "files.h"
#include "unwind.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

/* --- the cache --- */

struct header { /* then the warnings, terminated, then the cubin */
    char magic[8];
    uint64_t hash; /* of everything behind it */
    uint64_t warnings_bytes, cubin_bytes;
    uint32_t registers, spill_bytes, shared_bytes, reserved;
};
static const char magic[8] = "RMTCUB2";

/* The file of what this NVRTC makes of the text with the options: `folder`/HASH.cubin, the 128
 * bits being of text, options and version. */
static const char *cache_path(struct remat_arena *arena, const struct remat_nvrtc *nvrtc,
                              const char *folder, const char *text,
                              const struct remat_nvrtc_options *options)
{
    int major, minor;
    remat_nvrtc_version(nvrtc, &major, &minor);
    unsigned long long seed = (unsigned long long)major << 32 | (uint32_t)minor;
    unsigned long long hashes[] = {seed, ~seed};
    for (uint32_t h = 0; h < 2; h++) {
        for (uint32_t o = 0; o < options->count; o++)
            hashes[h] = remat_hash_string(options->items[o], hashes[h]);
        hashes[h] = remat_hash_string(text, hashes[h]);
    }
    return REMAT_FORMAT(arena, "%s/%016llx%016llx.cubin", folder, hashes[0], hashes[1]);
}

static uint64_t hash_entry(const char *data, size_t bytes)
{
    const size_t begin = offsetof(struct header, warnings_bytes);
    return remat_hash(data + begin, bytes - begin, 0);
}

/* False when it is not there or damaged, which its checksum shows. The data of `out` lies in
 * `arena`; `kernel` and `arch` are the caller's. */
static bool read_cached(struct remat_arena *arena, const char *path, struct remat_cubin *out)
{
    char *data;
    size_t bytes;
    if (remat_file_read(arena->ctx, path, arena, &data, &bytes) != REMAT_OK ||
        bytes < sizeof(struct header))
        return false;
    const struct header *header = (const void *)data;
    if (memcmp(header->magic, magic, sizeof magic) != 0 ||
        header->hash != hash_entry(data, bytes) || header->cubin_bytes == 0 ||
        header->warnings_bytes == 0 || header->warnings_bytes > bytes ||
        header->cubin_bytes > bytes ||
        sizeof *header + header->warnings_bytes + header->cubin_bytes != bytes)
        return false;
    out->warnings = data + sizeof *header;
    out->data = out->warnings + header->warnings_bytes;
    out->bytes = header->cubin_bytes;
    out->registers = header->registers;
    out->spill_bytes = header->spill_bytes;
    out->shared_bytes = header->shared_bytes;
    return out->warnings[header->warnings_bytes - 1] == 0;
}

/* By way of a temporary file, so that who reads sees a whole one. */
static remat_status write_cached(struct remat_arena *arena, const char *path,
                                 const struct remat_cubin *cubin)
{
    struct header header = {.warnings_bytes = strlen(cubin->warnings) + 1,
                            .cubin_bytes = cubin->bytes,
                            .registers = cubin->registers,
                            .spill_bytes = cubin->spill_bytes,
                            .shared_bytes = cubin->shared_bytes};
    size_t bytes = sizeof header + header.warnings_bytes + header.cubin_bytes;
    char *data;
    REMAT_NEW(arena, data, bytes);
    memcpy(header.magic, magic, sizeof magic);
    memcpy(data, &header, sizeof header);
    memcpy(data + sizeof header, cubin->warnings, header.warnings_bytes);
    memcpy(data + sizeof header + header.warnings_bytes, cubin->data, cubin->bytes);
    header.hash = hash_entry(data, bytes);
    memcpy(data, &header, sizeof header);
    return remat_file_write(arena->ctx, path, data, bytes);
}

/* --- jobs --- */

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
    struct worker *w = user;
    const struct queue *queue = w->queue;
    struct remat_cubin *cubin = &queue->code->cubins[w->job];
    const char *cache = queue->settings->cache, *path = NULL, *text;
    struct remat_nvrtc_options options;
    remat_nvrtc_options(queue->nvrtc, cubin->arch, &options);
    REMAT_CHECK(remat_cuda_source(&w->arena, queue->code, cubin->kernel, &text));
    if (cache)
        path = cache_path(&w->arena, queue->nvrtc, cache, text, &options);
    if (path && read_cached(&w->arena, path, cubin)) {
        w->counts.cached++;
        return REMAT_OK;
    }
    REMAT_CHECK(remat_nvrtc_compile(queue->nvrtc, &w->arena,
                                    queue->code->kernels[cubin->kernel].key, text, cubin->arch,
                                    cubin));
    w->counts.compiled++;
    if (path && !w->counts.unwritten && write_cached(&w->arena, path, cubin) != REMAT_OK)
        w->counts.unwritten = REMAT_FORMAT(&w->arena, "%s", remat_context_message(w->ctx));
    return REMAT_OK;
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
        remat_arena_init(&worker->arena, remat_have(queue->ctx, worker->ctx));
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
