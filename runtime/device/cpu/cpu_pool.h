/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of threads that run numbered items, and the floating-point state they run with.
 *
 * Items are claimed one by one by N - 1 workers and the caller; which thread runs an item is not
 * defined, so what an item computes must depend on its number only. */
#ifndef CPU_POOL_H
#define CPU_POOL_H

#include "base.h"

#define CPU_THREADS_MAX 1024 /* of a pool */

/* Thread-compatible: one thread at a time may run, and no task may run its own pool. */
struct cpu_pool;

/* `threads` counts the caller: 1 creates none. Workers have stacks of 256 KiB, block all signals,
 * flush subnormals and never allocate. The context must outlive the pool. */
remat_status cpu_pool_create(remat_context *ctx, int threads, struct cpu_pool **out);
void cpu_pool_destroy(struct cpu_pool **pool); /* joins the workers; *pool may be NULL */
int cpu_pool_threads(const struct cpu_pool *pool);

/* Calls task(arg, item, worker) once for each item in [0, items), items < 2^31, and returns when
 * all are done; their writes are visible to the caller. `worker` is in [0, threads), the caller is
 * 0, and no two concurrent calls have the same. */
void cpu_pool_run(struct cpu_pool *pool, int64_t items,
                  void (*task)(void *arg, int64_t item, int worker), void *arg);

/* Flushes subnormal results and operands to zero in the calling thread (x86-64: FTZ and DAZ,
 * aarch64: FZ; nothing elsewhere). Returns the state before, for cpu_restore_float_state. A step
 * runs between the two: workers always flush, so 1 and 2 threads would differ otherwise. */
uint32_t cpu_flush_subnormals(void);
void cpu_restore_float_state(uint32_t state);

#endif
