/* SPDX-License-Identifier: Apache-2.0 */
/* A program by hand whose train runs a segment three times, with the numbers 1, 2 and 0, and once
 * more that of init, which reads no number, with 5.
 *
 *     0 init        part = 0               all buffers are persistent: batch i32 [6, 5], index i32
 *     1 microbatch  part = batch[index]    [1], which is the number, part i32 [2, 5], place i32 [1]
 */
#ifndef SAMPLE_MICROBATCHES_H
#define SAMPLE_MICROBATCHES_H

#include <program.h>

enum { SAMPLE_PARTS = 3, SAMPLE_ROWS = 2, SAMPLE_COLUMNS = 5 };

struct sample_microbatches {
    struct remat_program program;
    struct remat_buffer buffers[4];
    struct remat_program_value values[4];
    struct remat_operand operands[4];
    struct remat_kernel kernels[2];
    struct remat_command commands[2];
    struct remat_segment segments[2];
    struct remat_entry entries[2];
    struct remat_call calls[4];
    struct remat_tensor tensors[4];
    double parameters[1];
};

/* Fills `sample`, whose program points into it. */
void sample_microbatches(struct sample_microbatches *sample);

#endif
