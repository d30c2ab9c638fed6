/* SPDX-License-Identifier: Apache-2.0 */
/* Fused kernels in float64, read literally from kernel.h; only what is bf16 is rounded. */
#ifndef EMULATOR_REFERENCE64_H
#define EMULATOR_REFERENCE64_H

#include "program.h"

#define REFERENCE64_COARSE                                                                         \
    4096 /* a program that rounds to bf16 may be so much farther: ties differ */

/* The largest difference between what command `c` stored at `after` and what float64 makes of
 * `before`, relative to the largest element of the tensor (of a value a row: that was loaded); both
 * are arenas. Of a program that rounds to bf16 divided by REFERENCE64_COARSE. */
double reference64_difference(const struct remat_program *program, uint32_t c, const char *before,
                              const char *after);

/* What the parts have in common, of one command. */
struct reference64_run {
    const struct remat_program *program;
    const struct remat_command *command;
    const struct remat_kernel_body *kernel;
    const char *before; /* arena */
    int64_t rows, columns, count;
    double *registers;    /* [instruction][row][column] */
    uint64_t column_sums; /* of remat_column_block_rows; bounds64.c */
};

/* Command `c` with its space, without registers; *classes, one an instruction, is the caller's to
 * free. */
struct reference64_run reference64_begin(const struct remat_program *program, uint32_t c,
                                         const char *before, enum remat_register_class **classes);
/* What a load, load_row or random gives element number `element` of the space. */
double reference64_load(const struct reference64_run *r, const struct remat_instruction *in,
                        int64_t element);
/* What a store of a register of that class has left for it in the arena `after`. */
double reference64_stored(const struct reference64_run *r, const struct remat_instruction *store,
                          enum remat_register_class class, int64_t element, const char *after);
double reference64_round_bf16(double x);

#endif
