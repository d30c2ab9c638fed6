/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of one first node are a list; what was found last comes first. */
#include "kernel_memo.h"

void remat_kernel_memo_init(struct remat_kernel_memo *memo, struct remat_arena *arena,
                            uint32_t node_count)
{
    *memo = (struct remat_kernel_memo){.arena = arena};
    REMAT_NEW(arena, memo->first, node_count);
}

const struct remat_fused_kernel *remat_kernel_memo_find(struct remat_kernel_memo *memo,
                                                        uint32_t first, const uint32_t *words,
                                                        uint32_t count)
{
    struct remat_memo_entry *entry, **link = &memo->first[first];
    for (; (entry = *link); link = &entry->next) {
        if (entry->word_count != count || memcmp(entry->words, words, count * sizeof *words) != 0)
            continue;
        *link = entry->next;
        entry->next = memo->first[first];
        memo->first[first] = entry;
        return &entry->kernel;
    }
    return NULL;
}

static void copy_kernel(struct remat_arena *arena, struct remat_fused_kernel *kernel)
{
    struct remat_view *views;
    REMAT_NEW(arena, views, kernel->operand_count);
    kernel->nodes = remat_copy(arena, kernel->nodes, kernel->node_count, sizeof *kernel->nodes);
    kernel->operands =
        remat_copy(arena, kernel->operands, kernel->operand_count, sizeof *kernel->operands);
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        views[o] = *kernel->operands[o].view;
        kernel->operands[o].view = &views[o];
    }
    kernel->parameters =
        remat_copy(arena, kernel->parameters, kernel->parameter_count, sizeof *kernel->parameters);
    kernel->shared =
        remat_copy(arena, kernel->shared, kernel->shared_count, sizeof *kernel->shared);
    kernel->program.instructions =
        remat_copy(arena, kernel->program.instructions, kernel->program.instruction_count,
                   sizeof *kernel->program.instructions);
}

void remat_kernel_memo_add(struct remat_kernel_memo *memo, const uint32_t *words, uint32_t count,
                           struct remat_fused_kernel *kernel)
{
    struct remat_memo_entry *entry, **first = &memo->first[kernel->nodes[0].i];
    REMAT_NEW(memo->arena, entry, 1);
    kernel->id = memo->count++;
    copy_kernel(memo->arena, kernel);
    *entry = (struct remat_memo_entry){
        *first, count, remat_copy(memo->arena, words, count, sizeof *words), *kernel};
    *first = entry;
}
