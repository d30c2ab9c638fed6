/* SPDX-License-Identifier: Apache-2.0 */
#include "boundary.h"

static uint32_t first_backward(const struct remat_program *program)
{
    uint32_t command = 0;
    while (program->commands[command].phase != REMAT_PHASE_BACKWARD)
        command++;
    return command;
}

const struct remat_segment *boundary_segment(const struct remat_program *program)
{
    const struct remat_segment *segment = program->segments;
    for (uint32_t boundary = first_backward(program); boundary >= segment->command_end;)
        segment++;
    return segment;
}

uint32_t boundary_find(const struct remat_program *program)
{
    uint32_t boundary = first_backward(program);
    for (uint32_t c = boundary; c < boundary_segment(program)->command_end; c++)
        CHECK(program->commands[c].phase > REMAT_PHASE_LOSS,
              "%s: forward pass after the backward pass began", program->commands[c].name);
    return boundary;
}

uint32_t *boundary_values(remat_context *ctx, struct remat_arena *arena,
                          const struct remat_program *program)
{
    uint32_t boundary = boundary_find(program);
    uint32_t *holder = harness_array(ctx, arena, program->buffer_count, sizeof *holder);
    memset(holder, 0xff, program->buffer_count * sizeof *holder); /* REMAT_NONE */
    for (uint32_t c = boundary_segment(program)->command_begin; c < boundary; c++) {
        const struct remat_command *command = &program->commands[c];
        for (uint32_t o = command->operand_begin; o < command->operand_end; o++) {
            const struct remat_operand *operand = &program->operands[o];
            if (operand->access != REMAT_ACCESS_READ)
                holder[program->values[operand->value].buffer] = operand->value;
        }
    }
    for (uint32_t b = 0; b < program->buffer_count; b++) {
        const struct remat_buffer *buffer = &program->buffers[b];
        if (buffer->persistent || buffer->end <= boundary)
            holder[b] = REMAT_NONE;
    }
    return holder;
}
