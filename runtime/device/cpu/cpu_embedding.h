/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table by index: gather, and the scatter-add of their gradients. ids int32.
 *
 * Matrices are row-major and dense: table [rows, width], gathered and gradient [count, width]. */
#ifndef CPU_EMBEDDING_H
#define CPU_EMBEDDING_H

#include "cpu_isa.h"
#include "cpu_pool.h"

#define CPU_IDS_VALID (-1)

struct cpu_embedding {
    void *table;
    int64_t rows, width;
    remat_dtype table_type;
    const int32_t *ids;
    int64_t count;
};

/* out[t] = table[ids[t]], of the table's type. Returns the position of the first id outside [0,
 * rows), and then has written nothing, or CPU_IDS_VALID. Ids that change meanwhile lead to no
 * access outside the table. */
int64_t cpu_embedding_gather(struct cpu_pool *pool, const struct cpu_embedding *embedding,
                             void *out);

/* table[ids[t]] += gradient[t] for t = 0, 1, ..., count - 1: every element sums in token order in
 * fp32, for any number of threads, from its old value, or from zero unless `accumulate`. In a
 * rounded table a sum is rounded once, at the end. scratch[worker] is the worker's memory of
 * CPU_SCRATCH_BYTES (cpu_sgemm.h), for a rounded table alone. Returns as gather. */
int64_t cpu_embedding_scatter_add(struct cpu_pool *pool, const struct cpu_functions *functions,
                                  const struct cpu_embedding *embedding, const void *gradient,
                                  remat_dtype gradient_type, bool accumulate,
                                  float *const *scratch);

#endif
