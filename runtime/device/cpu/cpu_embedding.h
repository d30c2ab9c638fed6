/* Rows of a table by index: gather, and the scatter-add of their gradients. fp32, ids int32.
 *
 * Matrices are row-major and dense: table [rows, width], gathered and gradient [count, width]. */
#ifndef CPU_EMBEDDING_H
#define CPU_EMBEDDING_H

#include "cpu_pool.h"

#define CPU_IDS_VALID (-1)

/* The position of the first id outside [0, rows), or CPU_IDS_VALID. */
int64_t cpu_embedding_check(const int32_t *ids, int64_t count, int64_t rows);

/* out[t] = table[ids[t]]. Returns cpu_embedding_check's answer, and writes nothing when an id is
 * out of range. */
int64_t cpu_embedding_gather(struct cpu_pool *pool, const float *table, int64_t rows, int64_t width,
                             const int32_t *ids, int64_t count, float *out);

/* table[ids[t]] += gradient[t] for t = 0, 1, ..., count - 1: every element sums in token order, for
 * any number of threads. The table is zeroed first unless `accumulate`. Returns as gather. */
int64_t cpu_embedding_scatter_add(struct cpu_pool *pool, const float *gradient, const int32_t *ids,
                                  int64_t count, float *table, int64_t rows, int64_t width,
                                  bool accumulate);

#endif
