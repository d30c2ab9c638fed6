/* SPDX-License-Identifier: Apache-2.0 */
/* A hash table with linear probing, at most half full; keys lie one after the other. */
#include "kernel_memo.h"

#define SLOTS_FIRST 1024

void remat_kernel_memo_init(struct remat_kernel_memo *memo, struct remat_arena *arena,
                            uint32_t node_count)
{
    *memo = (struct remat_kernel_memo){.arena = arena, .slot_count = SLOTS_FIRST};
    REMAT_NEW(arena, memo->slots, memo->slot_count);
    REMAT_NEW(arena, memo->latest, node_count);
}

static bool is_key(const struct remat_memo_entry *entry, const uint32_t *words, uint32_t count)
{
    return entry->word_count == count && memcmp(entry->words, words, count * sizeof *words) == 0;
}

const struct remat_fused_kernel *remat_kernel_memo_find(struct remat_kernel_memo *memo,
                                                        uint32_t first, const uint32_t *words,
                                                        uint32_t count, uint64_t *out_hash)
{
    const struct remat_memo_entry *entries = memo->entries.items;
    uint32_t *latest = &memo->latest[first];
    if (*latest && is_key(&entries[*latest - 1], words, count))
        return &entries[*latest - 1].kernel;
    *out_hash = remat_hash(words, count * sizeof *words, 0);
    for (size_t s = *out_hash & (memo->slot_count - 1); memo->slots[s];
         s = (s + 1) & (memo->slot_count - 1)) {
        const struct remat_memo_entry *entry = &entries[memo->slots[s] - 1];
        if (entry->hash == *out_hash && is_key(entry, words, count)) {
            *latest = memo->slots[s];
            return &entry->kernel;
        }
    }
    return NULL;
}

static void fill_slot(struct remat_kernel_memo *memo, uint32_t entry)
{
    size_t s = memo->entries.items[entry].hash & (memo->slot_count - 1);
    while (memo->slots[s])
        s = (s + 1) & (memo->slot_count - 1);
    memo->slots[s] = entry + 1;
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
                           uint64_t hash, struct remat_fused_kernel *kernel)
{
    kernel->id = (uint32_t)memo->entries.count;
    copy_kernel(memo->arena, kernel);
    struct remat_memo_entry entry = {*kernel, remat_copy(memo->arena, words, count, sizeof *words),
                                     count, hash};
    REMAT_PUSH(memo->arena, &memo->entries, entry);
    memo->latest[kernel->nodes[0].i] = kernel->id + 1;
    fill_slot(memo, kernel->id);
    if (2 * memo->entries.count < memo->slot_count)
        return;
    memo->slot_count *= 2;
    REMAT_NEW(memo->arena, memo->slots, memo->slot_count);
    for (uint32_t k = 0; k < memo->entries.count; k++)
        fill_slot(memo, k);
}
