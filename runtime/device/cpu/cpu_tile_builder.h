/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the files that cpu_tile_prepare calls: a fused kernel on its way to stages. */
#ifndef CPU_TILE_BUILDER_H
#define CPU_TILE_BUILDER_H

#include "cpu_tile_stages.h"

#define NO_REF UINT16_MAX

/* How often a value changes while the space is walked. Unlike the register classes, it follows from
 * strides too: a load that repeats along the columns varies by row. */
enum variation { UNIFORM, BY_ROW, BY_COLUMN, BY_ELEMENT };

struct node { /* an instruction, perhaps of an internal opcode */
    uint16_t opcode, args[3], access;
    float immediate;
    enum remat_register_class class;
    enum variation variation;
    uint32_t depth;  /* reductions below it */
    bool live, wide; /* wide: needed as a whole tile, not as one value */
    uint16_t home;   /* ref of a value that outlives a tile */
    uint32_t stage;  /* of a store or flag */
    /* in the stage being emitted */
    bool needed, copied;
    uint16_t ref;
    uint32_t last_use, written;
};

struct cpu_tile_builder {
    remat_context *ctx;
    struct remat_arena *arena, scratch;
    const struct cpu_tile_options *options;
    struct cpu_tile *tile;
    uint32_t count;
    struct node *nodes;
    uint32_t slots, free_count;
    uint16_t *free_slots; /* refs */
};

static inline bool is_flag(const struct node *node)
{
    return node->opcode == REMAT_INSTRUCTION_flag;
}

/* A flag is stored, too: one element for all. */
static inline bool is_store(const struct node *node)
{
    return node->opcode == REMAT_INSTRUCTION_store || is_flag(node);
}

static inline bool is_load(const struct node *node)
{
    return node->opcode == REMAT_INSTRUCTION_load || node->opcode == REMAT_INSTRUCTION_load_row;
}

static inline bool is_random(const struct node *node)
{
    return node->opcode == REMAT_INSTRUCTION_random;
}

static inline bool is_reduction(const struct node *node)
{
    return remat_opcode_is_row_reduction(node->opcode) ||
           remat_opcode_is_column_reduction(node->opcode);
}

static inline uint32_t arity_of(const struct node *node)
{ /* an internal opcode here is a pair */
    return node->opcode < REMAT_INSTRUCTION_COUNT ? remat_opcode_arity(node->opcode) : 3;
}

/* Finds what changes when, joins pairs of operations, and says what each stage needs. */
remat_status cpu_tile_analyse(struct cpu_tile_builder *b);
/* Whether a load reads bytes that `access` writes. */
bool cpu_tile_aliases_load(const struct cpu_tile_builder *b, const struct access *access);
/* Whether the node has work for each element, or only for rows or columns. */
bool cpu_tile_by_element(const struct cpu_tile_builder *b, const struct node *node);

/* Writes the steps of all stages. */
remat_status cpu_tile_emit(struct cpu_tile_builder *b);

/* Fills nodes, accesses and the tile's axes from a program and its operands' strides. */
remat_status cpu_tile_read(struct cpu_tile_builder *b, const struct remat_program *program,
                           const struct cpu_tile_source *source);

#endif
