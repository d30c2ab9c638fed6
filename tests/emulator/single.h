/* SPDX-License-Identifier: Apache-2.0 */
/* A built-in kernel as a program of one command: emitted kernels in the emulator against the CPU
 * device, bit for bit (where
 * there are f16, against what it makes of f32, rounded), threads and blocks in order and in random
 * order. */
#ifndef EMULATOR_SINGLE_H
#define EMULATOR_SINGLE_H

#include "kernels.h"

#define SINGLE_OPERANDS_MAX   4
#define SINGLE_PARAMETERS_MAX 8
#define SINGLE_SEED           0x123456789abcdefull /* of the session */

struct single {
    struct remat_program program;
    struct remat_kernel kernel;
    struct remat_command command;
    struct remat_operand operands[SINGLE_OPERANDS_MAX];
    struct remat_program_value values[SINGLE_OPERANDS_MAX];
    struct remat_buffer buffers[SINGLE_OPERANDS_MAX];
    double parameters[SINGLE_PARAMETERS_MAX];
    /* What i32 operands hold: [begin, begin + below), or of each position what id_of gives. Of
     * embeddings the CPU refuses ids outside the table; expected are rows of NaN for them, and that
     * they add to none. */
    uint32_t ids_begin, ids_below;
    uint32_t (*id_of)(uint32_t position);
    bool fails; /* on the CPU; the kernels then set all bits of the last result, NaN or -1 */
    struct remat_cuda_code code;
    uint64_t read_bytes; /* by the kernels, in all orders that they ran in */
};

/* Without operands and with parameters 0; the same memory at every call. */
struct single *single_begin(uint32_t kind);
/* Dense, but for the last two axes where `transposed`; up to 64 bytes may be added to its offset.
 */
void single_add(struct single *s, uint8_t access, remat_dtype dtype, uint32_t rank,
                const int64_t *shape, bool transposed);
/* Prints how what the kernels did differs; false then. Stops the process with exit code 1 when
 * the command cannot be emitted or does not run on the CPU. */
bool single_run(remat_context *ctx, const char *compiler, struct single *s);

struct single_mutant { /* a fault of the text */
    uint32_t kind;     /* of kernels that it is planted into */
    const char *what, *find, *replacement;
};
/* From now on single_run plants it: it then runs no other commands than those of that kind whose
 * text has `find`, up to the first that fails, and is true for them. */
void single_plant(const struct single_mutant *mutant);

#endif
