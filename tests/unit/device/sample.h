/* SPDX-License-Identifier: Apache-2.0 */
/* Random fused kernels over ragged spaces, and kernel.h read literally: what executors are held
 * against. */
#ifndef TESTS_SAMPLE_H
#define TESTS_SAMPLE_H

#include "program.h"

#define SAMPLE_OPERANDS_MAX     24
#define SAMPLE_INSTRUCTIONS_MAX 40

/* A command with its memory. */
struct sample {
    uint32_t rank, operand_count, instruction_count;
    int64_t space[REMAT_RANK_MAX], rows, columns;
    struct remat_instruction instructions[SAMPLE_INSTRUCTIONS_MAX];
    struct remat_operand operands[SAMPLE_OPERANDS_MAX];
    struct remat_program_value values[SAMPLE_OPERANDS_MAX];
    struct remat_buffer buffers[SAMPLE_OPERANDS_MAX];
    uint64_t arena_bytes;
    struct remat_kernel_body kernel;
    struct remat_program program;
    int reduction;        /* 0 none, 1 rows, 2 columns */
    uint64_t column_sums; /* of remat_column_block_rows */
};

/* The sample of that number: the same one every time. */
void sample_make(struct sample *s, uint64_t number);
/* Contents of the operands; fills arena_bytes. */
void sample_fill(const struct sample *s, char *memory);
/* What kernel.h says the program does to the memory. */
void sample_run(const struct sample *s, const enum remat_register_class *classes, char *memory);
/* Bit for bit, but that any NaN equals any other. */
bool sample_equal(const struct sample *s, const char *x, const char *y);
/* For each operand how many elements differ, and the first. */
void sample_print_differences(const struct sample *s, const char *x, const char *y);
void sample_print(const struct sample *s);

#endif
