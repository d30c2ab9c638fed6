/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that were written before: a decision changes few of them, so most evaluations find most
 * kernels here. Private to fuse.c but for creating one. */
#ifndef REMAT_KERNEL_MEMO_H
#define REMAT_KERNEL_MEMO_H

#include "fuse.h"

struct remat_kernel_memo {
    struct remat_arena *arena; /* outlives the memo */
    struct remat_memo_entry {
        struct remat_memo_entry *next; /* with the same first node */
        uint32_t word_count;
        const uint32_t *words;            /* its key: all that its body depends on */
        struct remat_fused_kernel kernel; /* its id is the number of the entry */
    } * *first;                           /* by first node: what was last found or added */
    uint32_t count;
};

/* Of one graph. Thread-compatible. */
void remat_kernel_memo_init(struct remat_kernel_memo *memo, struct remat_arena *arena,
                            uint32_t node_count);

/* The kernel of that key, whose first node is `first`; NULL when there is none. */
const struct remat_fused_kernel *remat_kernel_memo_find(struct remat_kernel_memo *memo,
                                                        uint32_t first, const uint32_t *words,
                                                        uint32_t count);

/* Copies the kernel and all it points to, and gives it the next id. */
void remat_kernel_memo_add(struct remat_kernel_memo *memo, const uint32_t *words, uint32_t count,
                           struct remat_fused_kernel *kernel);

#endif
