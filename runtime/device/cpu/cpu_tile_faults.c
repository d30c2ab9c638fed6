/* SPDX-License-Identifier: Apache-2.0 */
/* Deliberate faults, for tests: numerics rules 1 to 3 and 6 broken in a fused kernel. */
#include "cpu_tile_builder.h"

static bool fuse_argument(struct builder *b, uint32_t index, const uint32_t *uses, uint16_t inner,
                          uint16_t fused)
{
    struct node *node = &b->nodes[index];
    for (int k = 0; k < 2; k++) {
        const struct node *arg = &b->nodes[node->args[k]];
        if (arg->opcode != inner || uses[node->args[k]] != 1)
            continue;
        uint16_t other = node->args[1 - k];
        *node = (struct node){
            .opcode = fused, .class = node->class, .args = {arg->args[0], arg->args[1], other}};
        return true;
    }
    return false;
}

remat_status cpu_tile_plant_faults(struct builder *b)
{
    remat_status st = REMAT_OK;
    uint32_t faults = b->options->faults, *uses;
    REMAT_TRY(cpu_tile_count_uses(b, &uses));
    bool narrow = b->options->threads > 1 || b->count > 12;
    for (uint32_t i = 0; i < b->count; i++) {
        struct node *node = &b->nodes[i];
        bool add = node->opcode == REMAT_INSTRUCTION_add;
        if (faults & (CPU_TILE_FAULT_CONTRACTED | CPU_TILE_FAULT_UNROUNDED) && add &&
            fuse_argument(b, i, uses, REMAT_INSTRUCTION_mul, CPU_TILE_contracted))
            continue;
        if (faults & CPU_TILE_FAULT_UNROUNDED && add)
            fuse_argument(b, i, uses, REMAT_INSTRUCTION_add, CPU_TILE_wide_add);
        if (faults & CPU_TILE_FAULT_UNROUNDED && node->opcode == REMAT_INSTRUCTION_mul)
            fuse_argument(b, i, uses, REMAT_INSTRUCTION_mul, CPU_TILE_wide_multiply);
        if (faults & CPU_TILE_FAULT_UNROUNDED && node->opcode == REMAT_INSTRUCTION_round_bf16)
            node->opcode = CPU_TILE_copy;
        if (faults & CPU_TILE_FAULT_REDUCTION && narrow &&
            node->opcode == REMAT_INSTRUCTION_row_sum)
            node->opcode = CPU_TILE_narrow_sum;
    }
    if (faults & CPU_TILE_FAULT_REDUCTION && narrow)
        b->tile->column_block_rows = 3;
    if (faults & CPU_TILE_FAULT_RANDOM && b->options->threads > 1)
        b->tile->random_share = b->tile->rows * b->tile->columns / b->options->threads + 1;
fail:
    return st;
}
