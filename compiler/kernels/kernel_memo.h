/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that were written before: a decision changes few of them, so most evaluations find most
 * kernels here. Private to fuse.c but for creating one. */
#ifndef REMAT_KERNEL_MEMO_H
#define REMAT_KERNEL_MEMO_H

#include "fuse.h"

/* A key is a list of words that says all that a kernel's body depends on. */
struct remat_kernel_memo {
    struct remat_arena *arena; /* outlives the memo */
    uint32_t count;            /* of kernels; their ids are 0 ... count - 1 */
    size_t kernel_capacity, key_capacity, word_capacity;
    struct remat_fused_kernel *kernels;
    struct remat_memo_key {
        uint64_t hash;
        size_t begin;
        uint32_t count; /* words */
    } * keys;
    uint32_t *words;
    size_t word_count;
    uint32_t *slots; /* open addressing: kernel + 1, 0 where empty */
    size_t slot_count;
    uint32_t *latest; /* by first node: kernel + 1 that was last found or added, 0: none */
};

/* Of one graph. Thread-compatible. */
void remat_kernel_memo_init(struct remat_kernel_memo *memo, struct remat_arena *arena,
                            uint32_t node_count);

/* The kernel of that key, NULL when there is none; then *out_hash is for remat_kernel_memo_add.
 * `first` is its first node: what was last found for that is tried before others. */
const struct remat_fused_kernel *remat_kernel_memo_find(struct remat_kernel_memo *memo,
                                                        uint32_t first, const uint32_t *words,
                                                        uint32_t count, uint64_t *out_hash);

/* Copies the kernel and all it points to, and gives it the next id. */
void remat_kernel_memo_add(struct remat_kernel_memo *memo, const uint32_t *words, uint32_t count,
                           uint64_t hash, struct remat_fused_kernel *kernel);

#endif
