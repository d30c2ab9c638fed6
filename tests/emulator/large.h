/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of more than 65,535 blocks and more than 2^32 elements, and what their blocks access. */
#ifndef EMULATOR_LARGE_H
#define EMULATOR_LARGE_H

#include "kernels.h"

/* Of attention: heads, positions, elements of a head. */
#define LARGE_HEADS 16
#define LARGE_TIME  64
#define LARGE_SIZE  64

#define LARGE_OPERANDS_MAX 10

struct map { /* where the element of a row and a column lies in an operand, in elements */
    uint64_t base, row, column;
};

struct large {
    struct remat_program program;
    struct remat_kernel kernel;
    struct remat_command command;
    struct remat_operand operands[LARGE_OPERANDS_MAX];
    struct remat_program_value values[LARGE_OPERANDS_MAX];
    struct remat_buffer buffers[LARGE_OPERANDS_MAX];
    struct remat_instruction instructions[8];
    double parameters[8];
    struct remat_cuda_code code;
    /* The space of which each block has a rectangle, blocks in row-major order, and what it
     * accesses for an element there: so many elements from that of the map on, or, of a reach of 0,
     * all. */
    uint64_t rows, columns;
    struct map maps[LARGE_OPERANDS_MAX];
    uint64_t reaches[LARGE_OPERANDS_MAX];
    uint32_t counted; /* the operand whose accesses show block 0's rectangle */
    bool of_heads;    /* a rectangle is a head of attention */
    /* Before and after a block runs whose first row is `row`. */
    void (*prepare)(const struct large *c, uint64_t row, uint32_t value);
    uint32_t value;
    char *memory;
};

struct large_maker {
    const char *name;
    void (*make)(struct large *out); /* of a zeroed one; not yet complete */
};
extern const struct large_maker large_makers[];
extern const uint32_t large_count;

/* Makes and emits it, in the arena. Stops the process with exit code 1 when it cannot be emitted.
 */
void large_make(remat_context *ctx, struct remat_arena *arena, const struct large_maker *maker,
                struct large *out);
char *large_begin(const struct large *c, uint32_t operand); /* of its buffer, in memory */
uint64_t large_element_bytes(const struct remat_operand *operand);

#endif
