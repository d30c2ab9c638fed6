/* SPDX-License-Identifier: Apache-2.0 */
/* What of a fused kernel changes by row, column or element, and what each stage needs. */
#include "cpu_tile_builder.h"

/* How many arguments each value is, in scratch memory. */
static remat_status count_uses(struct cpu_tile_builder *b, uint32_t **uses)
{
    remat_status st = REMAT_OK;
    REMAT_TRY_NEW(&b->scratch, *uses, b->count);
    for (uint32_t i = 0; i < b->count; i++)
        for (uint32_t k = 0; k < arity_of(&b->nodes[i]); k++)
            (*uses)[b->nodes[i].args[k]]++;
fail:
    return st;
}

static enum variation variation_of_both(enum variation x, enum variation y)
{
    if (x == y || y == UNIFORM)
        return x;
    return x == UNIFORM ? y : BY_ELEMENT;
}

static enum variation variation_of(const struct cpu_tile_builder *b, const struct node *node)
{
    if (is_load(node)) {
        const struct access *access = &b->tile->accesses[node->access];
        if (access->column_stride)
            return BY_ELEMENT;
        for (uint32_t k = 0; k < b->tile->row_axes; k++)
            if (access->row_bytes[k])
                return BY_ROW;
        return UNIFORM;
    }
    if (node->opcode == REMAT_INSTRUCTION_column || is_random(node))
        return BY_ELEMENT;
    if (is_reduction(node))
        return remat_opcode_is_column_reduction(node->opcode) ? BY_COLUMN : BY_ROW;
    enum variation result = UNIFORM;
    for (uint32_t k = 0; k < arity_of(node); k++)
        result = variation_of_both(result, b->nodes[node->args[k]].variation);
    return result;
}

bool cpu_tile_aliases_load(const struct cpu_tile_builder *b, const struct access *access)
{
    for (uint32_t i = 0; i < b->count; i++) {
        const struct access *other = &b->tile->accesses[b->nodes[i].access];
        if (is_load(&b->nodes[i]) && other->begin_bytes < access->end_bytes &&
            access->begin_bytes < other->end_bytes)
            return true;
    }
    return false;
}

bool cpu_tile_by_element(const struct cpu_tile_builder *b, const struct node *node)
{
    if (is_store(node)) {
        enum remat_register_class class = b->nodes[node->args[0]].class;
        return class == REMAT_CLASS_ELEMENT || class == REMAT_CLASS_CONSTANT;
    }
    return node->variation == BY_ELEMENT || is_reduction(node);
}

static void analyse_variation(struct cpu_tile_builder *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        struct node *node = &b->nodes[i];
        node->variation = variation_of(b, node);
        for (uint32_t k = 0; k < arity_of(node); k++)
            if (b->nodes[node->args[k]].depth > node->depth)
                node->depth = b->nodes[node->args[k]].depth;
        node->depth += is_reduction(node);
        b->tile->by_columns |= remat_opcode_is_column_reduction(node->opcode);
    }
}

_Static_assert(REMAT_INSTRUCTION_sub - REMAT_INSTRUCTION_add == CPU_TILE_INNER_sub &&
                   REMAT_INSTRUCTION_mul - REMAT_INSTRUCTION_add == CPU_TILE_INNER_mul &&
                   REMAT_INSTRUCTION_div - REMAT_INSTRUCTION_add == CPU_TILE_INNER_div,
               "the basic operations are neighbours in instructions.def");

static bool is_basic(const struct node *node)
{
    return node->variation == BY_ELEMENT && node->opcode >= REMAT_INSTRUCTION_add &&
           node->opcode <= REMAT_INSTRUCTION_div;
}

/* Joins an operation with the operation that computes one of its arguments for it alone. */
static remat_status join_pairs(struct cpu_tile_builder *b)
{
    static const uint8_t outer[2][4] = {
        {CPU_TILE_OUTER_add, CPU_TILE_OUTER_sub, CPU_TILE_OUTER_mul, CPU_TILE_OUTER_div},
        {CPU_TILE_OUTER_add, CPU_TILE_OUTER_rsub, CPU_TILE_OUTER_mul, CPU_TILE_OUTER_rdiv},
    };
    remat_status st = REMAT_OK;
    uint32_t *uses;
    REMAT_TRY(count_uses(b, &uses));
    for (uint32_t i = 0; i < b->count; i++) {
        struct node *node = &b->nodes[i];
        for (int k = 0; k < 2 && is_basic(node); k++) {
            const struct node *arg = &b->nodes[node->args[k]];
            if (!is_basic(arg) || uses[node->args[k]] != 1)
                continue;
            uint16_t other = node->args[1 - k];
            node->opcode = (uint16_t)CPU_TILE_PAIR(arg->opcode - REMAT_INSTRUCTION_add,
                                                   outer[k][node->opcode - REMAT_INSTRUCTION_add]);
            memcpy(node->args, arg->args, sizeof node->args);
            node->args[2] = other;
        }
    }
fail:
    return st;
}

static void analyse_uses(struct cpu_tile_builder *b)
{
    uint32_t stages = 1;
    for (uint32_t i = b->count; i-- > 0;) {
        struct node *node = &b->nodes[i];
        node->live |= is_store(node);
        if (!node->live)
            continue;
        if (node->depth + 1 > stages)
            stages = node->depth + 1;
        for (uint32_t k = 0; k < arity_of(node); k++) {
            b->nodes[node->args[k]].live = true;
            b->nodes[node->args[k]].wide |=
                cpu_tile_by_element(b, node) || node->variation == BY_COLUMN;
        }
    }
    /* In place every element is loaded before it is stored: the store waits for the last load. */
    for (uint32_t i = 0; i < b->count; i++) {
        struct node *node = &b->nodes[i];
        if (!is_store(node))
            continue;
        bool column = b->nodes[node->args[0]].class == REMAT_CLASS_COLUMN; /* after the rows */
        node->stage = cpu_tile_aliases_load(b, &b->tile->accesses[node->access])
                          ? stages - 1
                          : node->depth - column;
    }
    b->tile->stage_count = stages;
}

remat_status cpu_tile_analyse(struct cpu_tile_builder *b)
{
    remat_status st = REMAT_OK;
    analyse_variation(b);
    REMAT_TRY(join_pairs(b));
    analyse_uses(b);
fail:
    return st;
}
