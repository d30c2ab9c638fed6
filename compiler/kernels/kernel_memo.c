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

static bool is_key(const struct remat_kernel_memo *memo, uint32_t kernel, const uint32_t *words,
                   uint32_t count)
{
    const struct remat_memo_key *key = &memo->keys[kernel];
    return key->count == count &&
           memcmp(memo->words + key->begin, words, count * sizeof *words) == 0;
}

const struct remat_fused_kernel *remat_kernel_memo_find(struct remat_kernel_memo *memo,
                                                        uint32_t first, const uint32_t *words,
                                                        uint32_t count, uint64_t *out_hash)
{
    uint32_t *latest = &memo->latest[first];
    if (*latest && is_key(memo, *latest - 1, words, count))
        return &memo->kernels[*latest - 1];
    *out_hash = remat_hash(words, count * sizeof *words, 0);
    for (size_t s = *out_hash & (memo->slot_count - 1); memo->slots[s];
         s = (s + 1) & (memo->slot_count - 1))
        if (memo->keys[memo->slots[s] - 1].hash == *out_hash &&
            is_key(memo, memo->slots[s] - 1, words, count)) {
            *latest = memo->slots[s];
            return &memo->kernels[*latest - 1];
        }
    return NULL;
}

static void fill_slot(struct remat_kernel_memo *memo, uint32_t kernel)
{
    size_t s = memo->keys[kernel].hash & (memo->slot_count - 1);
    while (memo->slots[s])
        s = (s + 1) & (memo->slot_count - 1);
    memo->slots[s] = kernel + 1;
}

static void grow_slots(struct remat_kernel_memo *memo)
{
    uint32_t *slots;
    if (2 * (size_t)memo->count < memo->slot_count)
        return;
    REMAT_NEW(memo->arena, slots, 2 * memo->slot_count);
    memo->slots = slots;
    memo->slot_count *= 2;
    for (uint32_t k = 0; k < memo->count; k++)
        fill_slot(memo, k);
}

#define COPY(arena, pointer, count)                                                                \
    do {                                                                                           \
        const void *from_ = (pointer);                                                             \
        REMAT_NEW(arena, pointer, count);                                                          \
        if (count)                                                                                 \
            memcpy(pointer, from_, (count) * sizeof *(pointer));                                   \
    } while (0)

static void copy_kernel(struct remat_arena *arena, struct remat_fused_kernel *kernel)
{
    struct remat_instruction *instructions;
    struct remat_view *views;
    COPY(arena, kernel->nodes, kernel->node_count);
    COPY(arena, kernel->operands, kernel->operand_count);
    REMAT_NEW(arena, views, kernel->operand_count);
    for (uint32_t o = 0; o < kernel->operand_count; o++) {
        views[o] = *kernel->operands[o].view;
        kernel->operands[o].view = &views[o];
    }
    COPY(arena, kernel->parameters, kernel->parameter_count);
    COPY(arena, kernel->shared, kernel->shared_count);
    REMAT_NEW(arena, instructions, kernel->program.instruction_count);
    if (kernel->program.instruction_count)
        memcpy(instructions, kernel->program.instructions,
               kernel->program.instruction_count * sizeof *instructions);
    kernel->program.instructions = instructions;
}

static void add_key(struct remat_kernel_memo *memo, const uint32_t *words, uint32_t count,
                    uint64_t hash)
{
    struct {
        uint32_t *items;
        size_t count, capacity;
    } list = {memo->words, memo->word_count, memo->word_capacity};
    struct {
        struct remat_memo_key *items;
        size_t count, capacity;
    } keys = {memo->keys, memo->count, memo->key_capacity};
    for (uint32_t w = 0; w < count; w++)
        REMAT_PUSH(memo->arena, &list, words[w]);
    REMAT_PUSH(memo->arena, &keys, ((struct remat_memo_key){hash, memo->word_count, count}));
    memo->words = list.items;
    memo->word_count = list.count;
    memo->word_capacity = list.capacity;
    memo->keys = keys.items;
    memo->key_capacity = keys.capacity;
}

void remat_kernel_memo_add(struct remat_kernel_memo *memo, const uint32_t *words, uint32_t count,
                           uint64_t hash, struct remat_fused_kernel *kernel)
{
    struct {
        struct remat_fused_kernel *items;
        size_t count, capacity;
    } list = {memo->kernels, memo->count, memo->kernel_capacity};
    kernel->id = memo->count;
    copy_kernel(memo->arena, kernel);
    add_key(memo, words, count, hash);
    REMAT_PUSH(memo->arena, &list, *kernel);
    memo->kernels = list.items;
    memo->kernel_capacity = list.capacity;
    fill_slot(memo, memo->count++);
    memo->latest[kernel->nodes[0].i] = memo->count;
    grow_slots(memo);
}
