/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that were written before: a decision changes few of them, so most evaluations find most
 * kernels here. Private to fuse.c but for creating one. */
#ifndef REMAT_KERNEL_MEMO_H
#define REMAT_KERNEL_MEMO_H

#include "fuse.h"

struct remat_kernel_memo {
    struct remat_arena *arena; /* outlives the memo */
    struct {
        struct remat_memo_entry {
            struct remat_fused_kernel kernel; /* its id is the number of the entry */
            const uint32_t *words;            /* its key: all that its body depends on */
            uint32_t word_count;
            uint64_t hash;
        } * items;
        size_t count, capacity;
    } entries;
    uint32_t *slots; /* open addressing: entry + 1, 0 where empty */
    size_t slot_count;
    uint32_t *latest; /* by first node: entry + 1 that was last found or added, 0: none */
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
