/* SPDX-License-Identifier: Apache-2.0 */
/* Which launches a device may make as one: those of commands that do the same to different tensors,
 * as AdamW does, where nothing between the first and the last command minds. What runs is what the
 * plan says; a device that shows commands one by one launches each by itself.
 *
 * A command that has a single launch, of a kernel with tensor_words, may wait for later ones of the
 * same kernel that share the same words, as long as no command in between reads or writes a buffer
 * that it writes, or writes one that it reads, and no segment begins or ends. Flags of one buffer
 * may be set in any order. */
#ifndef REMAT_CUDA_GROUPS_H
#define REMAT_CUDA_GROUPS_H

#include "program.h"

struct remat_cuda_groups {
    uint32_t count;
    uint32_t *begin;    /* [count + 1], of `commands` */
    uint32_t *commands; /* of group g at least two, ascending; launched in the place of the last */
    uint32_t *group;    /* [command_count]; REMAT_NONE: launched by itself, or not at all */
};

/* Finds the groups of a verified program; they lie in `arena`. Pure. O(commands). */
remat_status remat_cuda_groups_find(struct remat_arena *arena, const struct remat_program *program,
                                    struct remat_cuda_groups *out);

/* The one launch of a group. */
struct remat_cuda_joint {
    uint32_t kernel, blocks, word_count;
    struct remat_cuda_word words[REMAT_CUDA_TENSORS_MAX];
};
void remat_cuda_groups_join(const struct remat_cuda_code *code,
                            const struct remat_cuda_groups *groups, uint32_t group,
                            struct remat_cuda_joint *out);

#endif
