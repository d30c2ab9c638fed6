/* SPDX-License-Identifier: Apache-2.0 */
/* Fused attention, forward and backward, causal or full, with grouped key/value heads and dropout,
 * in fp32 on tensors of any dtype that ops compute with.
 *
 *     S = scale Q K^T,  P = softmax(S) by rows,  O = P V,  LSE = log sum exp of the rows of S
 *
 * Query head h uses key/value head h / (query_heads / kv_heads). Causal: query i sees the keys
 * j <= i + kv_length - query_length. With segments it sees those of its own segment alone, if that
 * is not negative. A query that sees none gets O = 0 and LSE = -infinity, and adds to no gradient.
 *
 * Dropout multiplies P by its mask after the softmax: out = (P * mask) V with mask 0 or 1 / (1 - p)
 * (kernel.h says which), LSE as without; backward makes the mask again.
 *
 * Bits. Queries are taken in blocks of 64 with the prefix of keys that the block sees, keys in
 * blocks of 4096 (3840 where tensors are rounded). Products have the bits of cpu_sgemm,
 * exponentials those of cpu_exp, row sums run in 64 lanes (cpu_lanes.h). Within a block of keys a
 * row is exponentiated against its maximum; beyond, the running maximum, sum and O are rescaled at
 * each block of keys (online softmax). O is divided by the sum at the end. Backward recomputes P =
 * exp(S
 * - LSE); dK and dV are summed over the heads of the group in ascending, within a head over the
 * query blocks in descending order. Rounded operands are converted exactly, all sums and O stay
 * fp32, and a result is rounded once. Results depend on the operands' values and the shape alone,
 * not on threads, strides or instruction set.
 */
#ifndef CPU_ATTENTION_H
#define CPU_ATTENTION_H

#include "cpu_isa.h"
#include "cpu_pool.h"

#define CPU_ATTENTION_QUERY_BLOCK 64
#define CPU_ATTENTION_KEY_BLOCK   4096 /* of f32 */
#define CPU_ATTENTION_ROUNDED_DIM 512  /* the largest head_dim of rounded tensors */

/* All sizes are at least 1, and query_heads is a multiple of kv_heads. */
struct cpu_attention_shape {
    int64_t batch, query_heads, kv_heads, query_length, kv_length, head_dim;
    float scale;
    bool causal;
};

/* p 0: none. The other members are the fields of the random state and the site (kernel.h). */
struct cpu_dropout {
    float p, factor; /* factor: 1 / (1 - p) */
    uint32_t site, step, microbatch;
    uint64_t seed;
};

/* [batch, time, head, head_dim]; strides in elements, head_dim is contiguous. */
struct cpu_heads {
    void *data;
    int64_t batch, time, head;
};

/* Operands are only read, results are overwritten and overlap no other tensor; q, k, v (and
 * likewise their gradients) may be slices of one [batch, time, 3, head, head_dim] tensor. */
struct cpu_attention {
    struct cpu_attention_shape shape;
    remat_dtype type;         /* of all tensors but lse */
    struct cpu_heads q, k, v; /* operands */
    struct cpu_heads out;     /* result of forward, operand of backward */
    float *lse;               /* [batch, query_heads, query_length], as out */
    struct cpu_dropout dropout;
    const int32_t *query_segments, *key_segments; /* [batch, length]; NULL: all 0 */
};

struct cpu_attention_gradient {
    struct cpu_heads dout;       /* operand: gradient of out */
    struct cpu_heads dq, dk, dv; /* results */
};

/* scratch[worker] is the worker's memory of CPU_SCRATCH_BYTES (cpu_sgemm.h). */
void cpu_attention_forward(struct cpu_pool *pool, const struct cpu_functions *functions,
                           const struct cpu_attention *attention, float *const *scratch);
void cpu_attention_backward(struct cpu_pool *pool, const struct cpu_functions *functions,
                            const struct cpu_attention *attention,
                            const struct cpu_attention_gradient *gradient, float *const *scratch);

#endif
