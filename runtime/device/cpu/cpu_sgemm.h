/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix product with defined bits, in fp32 whatever the elements are:
 *
 *     for k0 = 0, 384, 768, ... < k:
 *         s = 0;  for p in [k0, min(k0 + 384, k)):  s = fma(A[i,p], B[p,j], s)
 *         C[i,j] = (k0 == 0 && !accumulate) ? s : C[i,j] + s
 *
 * Rounded elements of A and B are converted while they are packed. A rounded C is computed in fp32
 * as above (from its old value when accumulating) and rounded once, at the end.
 *
 * The result is a function of the operands' values alone: the same bits for every instruction set,
 * thread count, stride, transpose and split of m or n into several products. */
#ifndef CPU_SGEMM_H
#define CPU_SGEMM_H

#include "cpu_isa.h"
#include "cpu_pool.h"

#define CPU_SGEMM_K_BLOCK       384
#define CPU_SGEMM_SCRATCH_BYTES 2088960   /* what a product with f32 C needs, from the start */
#define CPU_SCRATCH_BYTES       (4 << 20) /* per worker, aligned to 64 bytes; shared by all kernels */

/* C[m,n] = A[m,k] B[k,n], or C += A B. Element (i,p) of A is a[i * a_row + p * a_column], of B
 * b[p * b_row + j * b_column] (strides in elements, any values: 0 broadcasts); C is c[i * ldc + j]
 * and overlaps neither. k 0 stores zeros, or leaves C when accumulating. */
struct cpu_matmul {
    int64_t m, n, k;
    const void *a;
    int64_t a_row, a_column;
    const void *b;
    int64_t b_row, b_column;
    void *c;
    int64_t ldc;
    bool accumulate;
    remat_dtype a_type, b_type, c_type;
};

/* scratch[worker] is the worker's memory of CPU_SCRATCH_BYTES. */
void cpu_sgemm(struct cpu_pool *pool, const struct cpu_functions *functions,
               const struct cpu_matmul *matmul, float *const *scratch);
/* The same in the calling thread, for use inside a task. */
void cpu_sgemm_serial(const struct cpu_functions *functions, const struct cpu_matmul *matmul,
                      float *scratch);

#endif
