/* SPDX-License-Identifier: Apache-2.0 */
/* Built-in kernels that move or fill: their code is that of fused kernels of two instructions. */
#include "emitter.h"

#include "unwind.h"

/* Runs `instructions` over the shape of operand 0, as if the plan's command were so. */
static remat_status emit_program(struct cuda_emitter *e, const struct remat_command *command,
                                 const struct remat_kernel_body *instructions,
                                 struct remat_operand *operands)
{
    struct remat_kernel kernel = {REMAT_KERNEL_fused, *instructions,
                                  e->program->kernels[command->kernel].key};
    struct remat_command run = {.operand_end = instructions->operand_count,
                                .rank = operands[0].rank,
                                .name = command->name};
    struct remat_program program = *e->program;
    struct cuda_emitter running = *e;
    memcpy(run.space, operands[0].shape, sizeof run.space);
    program.kernels = &kernel;
    program.operands = operands;
    running.program = &program;
    remat_status st = cuda_emit_fused(&running, &run);
    running.program = e->program;
    *e = running;
    return st;
}

/* The bits of `in` to `out`, both over the shape of `in`. */
static remat_status emit_move(struct cuda_emitter *e, const struct remat_command *command,
                              const struct remat_operand *in, const struct remat_operand *out)
{
    static const struct remat_instruction instructions[] = {
        {.opcode = REMAT_INSTRUCTION_load,
         .args = {REMAT_NO_REGISTER, REMAT_NO_REGISTER, REMAT_NO_REGISTER}},
        {.opcode = REMAT_INSTRUCTION_store,
         .operand = 1,
         .args = {0, REMAT_NO_REGISTER, REMAT_NO_REGISTER}}};
    struct remat_operand operands[2] = {*in, *out};
    for (uint32_t o = 0; o < 2; o++)
        operands[o].dtype = cuda_moved_as(operands[o].dtype);
    return emit_program(e, command, &(struct remat_kernel_body){2, instructions, 2}, operands);
}

/* An i32 is stored as the f32 that has its bits. */
remat_status cuda_fill(struct cuda_emitter *e, const struct remat_command *command,
                       const struct remat_operand *out, double value)
{
    struct remat_instruction instructions[] = {
        {.opcode = REMAT_INSTRUCTION_constant,
         .args = {REMAT_NO_REGISTER, REMAT_NO_REGISTER, REMAT_NO_REGISTER},
         .immediate = (float)value},
        {.opcode = REMAT_INSTRUCTION_store, .args = {0, REMAT_NO_REGISTER, REMAT_NO_REGISTER}}};
    struct remat_operand operand = *out;
    if (out->dtype == REMAT_I32) {
        int32_t integer = (int32_t)value;
        memcpy(&instructions[0].immediate, &integer, sizeof integer);
        operand.dtype = REMAT_F32;
    }
    return emit_program(e, command, &(struct remat_kernel_body){2, instructions, 1}, &operand);
}

/* Each input to its part of the result, from `begin` on along the axis. */
static remat_status emit_parts(struct cuda_emitter *e, const struct remat_command *command,
                               uint32_t inputs, uint32_t axis, uint64_t begin)
{
    struct remat_operand part = *cuda_operand(e, command, inputs);
    for (uint32_t i = 0; i < inputs; i++) {
        const struct remat_operand *in = cuda_operand(e, command, i);
        part.offset_elements = cuda_operand(e, command, inputs)->offset_elements +
                               begin * (uint64_t)part.strides[axis];
        REMAT_CHECK(emit_move(e, command, in, &part));
        begin += (uint64_t)in->shape[axis];
    }
    return REMAT_OK;
}

remat_status cuda_emit_copy(struct cuda_emitter *e, const struct remat_command *command)
{
    return emit_move(e, command, cuda_operand(e, command, 0), cuda_operand(e, command, 1));
}

remat_status cuda_emit_concat(struct cuda_emitter *e, const struct remat_command *command)
{
    uint32_t inputs = command->operand_end - command->operand_begin - 1;
    return emit_parts(e, command, inputs, (uint32_t)cuda_parameter(e, command, 0), 0);
}

remat_status cuda_emit_pad(struct cuda_emitter *e, const struct remat_command *command)
{
    REMAT_CHECK(cuda_fill(e, command, cuda_operand(e, command, 1), 0));
    return emit_parts(e, command, 1, (uint32_t)cuda_parameter(e, command, 0),
                      (uint64_t)cuda_parameter(e, command, 1));
}

remat_status cuda_emit_fill(struct cuda_emitter *e, const struct remat_command *command)
{
    return cuda_fill(e, command, cuda_operand(e, command, 0), cuda_parameter(e, command, 0));
}
