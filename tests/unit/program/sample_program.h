/* SPDX-License-Identifier: Apache-2.0 */
/* A small program by hand: two init commands, a step of four, an update in place, a reused buffer.
 *
 *     0 init  w  = normal            buffer 0, persistent        commands 2-5 are the segment
 * "step" 1 init  m  = 0                 buffer 2, persistent 2       y  = x w               buffer
 * 3 [2, 4)             x: buffer 1, persistent 3       z  = 2 y, s = sum z    buffers 4 [3, 6), 5
 * [3, 5) 4       z' = z - s             buffer 4, update 5       w' = w - z', loss      buffer 0,
 * update; buffer 6 [5, 6), where y was */
#ifndef SAMPLE_PROGRAM_H
#define SAMPLE_PROGRAM_H

#include <program.h>

struct sample {
    struct remat_program program;
    struct remat_buffer buffers[7];
    struct remat_program_value values[9];
    struct remat_operand operands[13];
    struct remat_kernel kernels[6];
    struct remat_instruction multiply[6], subtract[4], update[6];
    struct remat_command commands[6];
    struct remat_segment segments[2];
    struct remat_entry entries[2];
    struct remat_call calls[3];
    struct remat_tensor tensors[4];
    struct remat_decision_record decisions[3];
    double parameters[5];
    struct remat_setting settings[2];
    struct remat_manual manuals[2];
    struct remat_keep_record keeps[2];
    struct remat_mesh_axis mesh[2]; /* of which the program has none */
    uint32_t recomputed_layers[1];
    const char *notes[2];
    const char *preludes[1];
    struct remat_cuda_kernel cuda_kernels[3];
    struct remat_cuda_launch cuda_launches[4];
    struct remat_cuda_word cuda_words[10];
    uint32_t launch_begin[7];
    struct remat_cubin cubins[3];
};

/* Fills `sample`, whose program points into it. */
void sample_program(struct sample *sample);

enum { W, X, M, Y, Z, S, Z2, W2, LOSS }; /* values */

#endif
