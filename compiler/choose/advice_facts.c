/* SPDX-License-Identifier: Apache-2.0 */
#include "advice_facts.h"

static uint64_t elements_of(const struct remat_program_value *value)
{
    uint64_t elements = 1;
    for (uint32_t d = 0; d < value->rank; d++)
        elements = remat_mul_saturated(elements, (uint64_t)value->shape[d]);
    return elements;
}

/* After a head with a bias a command of the forward pass does. */
static bool computes_loss(const struct remat_program *p, const struct remat_command *command)
{
    for (uint32_t o = command->operand_begin; o < command->operand_end; o++)
        if ((p->operands[o].access & REMAT_ACCESS_WRITE) &&
            p->values[p->operands[o].value].phase == REMAT_PHASE_LOSS)
            return true;
    return command->phase == REMAT_PHASE_LOSS;
}

/* The largest value that the loss is computed from. */
static uint64_t logits_elements(const struct remat_program *p)
{
    uint64_t most = 0;
    for (uint32_t c = 0; c < p->command_count; c++) {
        const struct remat_command *command = &p->commands[c];
        bool of_loss = computes_loss(p, command);
        for (uint32_t o = command->operand_begin; of_loss && o < command->operand_end; o++) {
            const struct remat_program_value *value = &p->values[p->operands[o].value];
            if (value->role == REMAT_ROLE_ACTIVATION)
                remat_keep_most(&most, elements_of(value));
        }
    }
    return most;
}

remat_status remat_advice_measure(struct remat_arena *arena, const struct remat_program *p,
                                  struct remat_advice_facts *out)
{
    remat_status st = REMAT_OK;
    uint64_t elements = logits_elements(p);
    *out = (struct remat_advice_facts){.static_bytes = p->static_bytes,
                                       .live_peak_bytes = p->peak_bytes,
                                       .needed_bytes = p->arena_bytes + p->reserve_bytes,
                                       .step_ns = p->step_ns,
                                       .base_step_ns = p->base_step_ns,
                                       .command_count = p->command_count};
    REMAT_TRY(remat_static_parts_measure(arena, p, &out->parts));
    for (uint32_t v = 0; v < p->value_count; v++) {
        const struct remat_program_value *value = &p->values[v];
        const struct remat_buffer *buffer = &p->buffers[value->buffer];
        if (!buffer->persistent && remat_buffer_is_live(buffer, p->peak_command) &&
            elements_of(value) == elements)
            out->logits_bytes += buffer->bytes;
    }
fail:
    return st;
}
