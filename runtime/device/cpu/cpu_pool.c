/* SPDX-License-Identifier: Apache-2.0 */
/* Thread pool. A run is published in one 64-bit word: its number above, the next item below. A
 * claim is a compare-exchange on that word, so it also proves that the task read before belongs to
 * the run; a worker that wakes late finds nothing to claim, and nobody waits for it. Waiting spins
 * for a bounded time, then sleeps in a futex. */
#include "cpu_pool.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define SPIN_PAUSES        4000
#define WORKER_STACK_BYTES (256u << 10)
#define CLOSED             UINT32_MAX /* item number of a run that is being prepared */

typedef void task_function(void *arg, int64_t item, int worker);

struct pool_worker {
    struct cpu_pool *pool;
    pthread_t thread;
    int number;
};

struct cpu_pool {
    remat_context *ctx;
    int threads;
    int started; /* workers to join */
    struct pool_worker *workers;
    _Atomic(task_function *) task;
    _Atomic(void *) arg;
    atomic_uint items;
    atomic_bool stop;
    char pad0_[64];       /* words written by different threads lie on different cache lines */
    _Atomic uint64_t run; /* run number << 32 | next item */
    char pad1_[64];
    atomic_uint published; /* futex of the workers: changes with each run */
    atomic_uint sleepers;
    char pad2_[64];
    atomic_uint done; /* futex of the caller: items finished */
    atomic_bool caller_sleeps;
};

static void pause_cpu(void)
{
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void futex_wait(atomic_uint *word, unsigned expected)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Runs items until none is left to claim. */
static void drain(struct cpu_pool *pool, int number)
{
    uint64_t run = atomic_load_explicit(&pool->run, memory_order_acquire);
    for (;;) { /* acquire and release order these four words: new task implies new `run` */
        task_function *task = atomic_load_explicit(&pool->task, memory_order_acquire);
        void *arg = atomic_load_explicit(&pool->arg, memory_order_acquire);
        unsigned items = atomic_load_explicit(&pool->items, memory_order_acquire);
        uint32_t item = (uint32_t)run;
        if (item == CLOSED || item >= items)
            return;
        if (!atomic_compare_exchange_weak_explicit(&pool->run, &run, run + 1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        task(arg, item, number);
        unsigned finished = atomic_fetch_add(&pool->done, 1) + 1;
        if (finished == items && atomic_load(&pool->caller_sleeps))
            futex_wake(&pool->done);
        run = atomic_load_explicit(&pool->run, memory_order_acquire);
    }
}

static void wait_for_run(struct cpu_pool *pool, unsigned seen)
{
    for (int spin = 0; spin < SPIN_PAUSES; spin++) {
        if (atomic_load_explicit(&pool->published, memory_order_acquire) != seen)
            return;
        pause_cpu();
    }
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->published) == seen)
        futex_wait(&pool->published, seen);
    atomic_fetch_sub(&pool->sleepers, 1);
}

static void *work(void *arg)
{
    struct pool_worker *worker = arg;
    struct cpu_pool *pool = worker->pool;
    cpu_flush_subnormals();
    for (;;) {
        unsigned seen = atomic_load(&pool->published);
        if (atomic_load(&pool->stop))
            return NULL;
        drain(pool, worker->number);
        wait_for_run(pool, seen);
    }
}

static void wake_workers(struct cpu_pool *pool)
{
    atomic_fetch_add(&pool->published, 1);
    if (atomic_load(&pool->sleepers))
        futex_wake(&pool->published);
}

static void wait_for_items(struct cpu_pool *pool, unsigned items)
{
    unsigned done;
    for (int spin = 0; spin < SPIN_PAUSES; spin++) {
        if (atomic_load_explicit(&pool->done, memory_order_acquire) == items)
            return;
        pause_cpu();
    }
    atomic_store(&pool->caller_sleeps, true);
    while ((done = atomic_load(&pool->done)) != items)
        futex_wait(&pool->done, done);
    atomic_store(&pool->caller_sleeps, false);
}

void cpu_pool_run(struct cpu_pool *pool, int64_t items, task_function *task, void *arg)
{
    assert(items <= INT32_MAX || pool->threads == 1);
    if (pool->threads == 1 || items <= 1) {
        for (int64_t item = 0; item < items; item++)
            task(arg, item, 0);
        return;
    }
    uint64_t number = (atomic_load_explicit(&pool->run, memory_order_relaxed) >> 32) + 1;
    atomic_store(&pool->run, number << 32 | CLOSED);
    atomic_store_explicit(&pool->task, task, memory_order_release);
    atomic_store_explicit(&pool->arg, arg, memory_order_release);
    atomic_store_explicit(&pool->items, (unsigned)items, memory_order_release);
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
    atomic_store(&pool->run, number << 32);
    wake_workers(pool);
    drain(pool, 0);
    wait_for_items(pool, (unsigned)items);
}

static remat_status start_workers(struct cpu_pool *pool)
{
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes))
        return remat_error(pool->ctx, REMAT_ERROR_MEMORY, "out of memory: thread attributes");
    pthread_attr_setstacksize(&attributes, WORKER_STACK_BYTES);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = 0;
    for (int i = 0; i < pool->threads - 1 && !failure; i++) {
        struct pool_worker *worker = &pool->workers[i];
        *worker = (struct pool_worker){.pool = pool, .number = i + 1};
        failure = pthread_create(&worker->thread, &attributes, work, worker);
        pool->started += !failure;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (failure == EAGAIN || failure == ENOMEM)
        return remat_error(pool->ctx, REMAT_ERROR_MEMORY,
                           "out of memory, or of threads: cannot start thread %d of %d",
                           pool->started + 2, pool->threads);
    if (failure)
        return remat_error(pool->ctx, REMAT_ERROR_OTHER, "cannot start thread %d of %d: %s",
                           pool->started + 2, pool->threads, strerror(failure));
    return REMAT_OK;
}

remat_status cpu_pool_create(remat_context *ctx, int threads, struct cpu_pool **out)
{
    remat_status st = REMAT_OK;
    struct cpu_pool *pool = NULL;
    *out = NULL;
    if (threads < 1 || threads > CPU_THREADS_MAX)
        REMAT_FAIL(ctx, REMAT_ERROR_USAGE, "threads: %d is outside 1 to %d", threads,
                   CPU_THREADS_MAX);
    if (!(pool = remat_reallocate(ctx, NULL, sizeof *pool)))
        return REMAT_ERROR_MEMORY;
    memset(pool, 0, sizeof *pool);
    pool->ctx = ctx;
    pool->threads = threads;
    if (!(pool->workers = remat_reallocate(ctx, NULL, (size_t)threads * sizeof *pool->workers))) {
        st = REMAT_ERROR_MEMORY;
        goto fail;
    }
    REMAT_TRY(start_workers(pool));
    *out = pool;
    return REMAT_OK;
fail:
    cpu_pool_destroy(&pool);
    return st;
}

void cpu_pool_destroy(struct cpu_pool **pool)
{
    struct cpu_pool *p = *pool;
    if (!p)
        return;
    atomic_store(&p->stop, true);
    wake_workers(p);
    for (int i = 0; i < p->started; i++)
        pthread_join(p->workers[i].thread, NULL);
    remat_reallocate(p->ctx, p->workers, 0);
    remat_reallocate(p->ctx, p, 0);
    *pool = NULL;
}

int cpu_pool_threads(const struct cpu_pool *pool)
{
    return pool->threads;
}

#if defined(__x86_64__)
uint32_t cpu_flush_subnormals(void)
{
    uint32_t before = _mm_getcsr();
    _mm_setcsr(before | 0x8040u); /* flush to zero, denormals are zero */
    return before;
}

void cpu_restore_float_state(uint32_t state)
{
    _mm_setcsr(state);
}
#elif defined(__aarch64__)
uint32_t cpu_flush_subnormals(void)
{
    uint64_t before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" : : "r"(before | (uint64_t)1 << 24));
    return (uint32_t)before;
}

void cpu_restore_float_state(uint32_t state)
{
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)state));
}
#else
uint32_t cpu_flush_subnormals(void)
{
    return 0;
}

void cpu_restore_float_state(uint32_t state)
{
    (void)state;
}
#endif
